"""The forms of secrets that issuers give a prefix, and of commands that take a password.

Each row has a sentence, a pattern, examples, and a text that looks alike and stays. In an example
`<27>` stands for as many random letters and digits, `<27x>` for hex, `<27d>` for digits and `<27u>`
for upper case, so that no file here looks like a leak. Patterns have no look-around, and name only
ASCII. Which public list they were compared with is in docs/decisions/0010-redaction.md.
"""

from typing import NamedTuple


class SecretForm(NamedTuple):
    """One form of a secret."""

    about: str
    pattern: str
    examples: tuple[str, ...]
    near_miss: str


WORD = r"(?:\\[nrt]|(?-u:\b))"  # The beginning of a word, also after an escape.

_CHAR = "[A-Za-z0-9_-]"
_JWT_PART = r"(?:\.[A-Za-z0-9_-]*)"

ISSUED = (
    SecretForm(
        "Keys of OpenAI, Anthropic, OpenRouter, DeepSeek, Langfuse and others that begin so.",
        rf"sk-{_CHAR}{{20,}}",
        ("sk-proj-<40>", "sk-ant-api03-<93>AA", "sk-or-v1-<64x>", "sk-lf-<36>"),
        "sk-learn-pipeline",
    ),
    SecretForm(
        "Keys of Stripe and Clerk.",
        r"(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{10,}",
        ("sk_live_<24>", "rk_test_<24>"),
        "sk_test_mode",
    ),
    SecretForm(
        "Secrets of Stripe's and of Standard Webhooks.",
        r"whsec_[A-Za-z0-9+/=]{16,}",
        ("whsec_<32>",),
        "whsec_name",
    ),
    SecretForm("Keys of ElevenLabs.", r"sk_[0-9a-f]{48}", ("sk_<48x>",), "sk_0123456789abcdef"),
    SecretForm(
        "Tokens of GitHub, for persons, apps and servers.",
        r"gh[oprsu]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}",
        ("ghp_<36>", "gho_<36>", "ghs_<36>", "github_pat_<22>_<59>"),
        "ghp_token",
    ),
    SecretForm(
        "Tokens of GitLab, of every kind.",
        rf"gl(?:pat|dt|rt|ptt|cbt|soat|agent|ft|ffct|imt|oas)-{_CHAR}{{16,}}(?:\.[0-9a-z.]{{8,}})?"
        rf"|GR1348941{_CHAR}{{16,}}",
        ("glpat-<20>", "glpat-<30>.01.0a<7>", "glrt-t1_<27>", "glcbt-64_<20>", "GR1348941<20>"),
        "glpat-expired",
    ),
    SecretForm(
        "Tokens of Slack, for bots, persons and apps.",
        r"xox[abcdeoprs][.-][A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}",
        ("xoxb-<12d>-<12d>-<24>", "xoxe-1-<40>", "xapp-1-A<10u>-<13d>-<64x>"),
        "xoxb-token",
    ),
    SecretForm(
        "Keys, tokens and client secrets of Google.",
        rf"AIza{_CHAR}{{30,}}|AQ\.Ab8RN6{_CHAR}{{30,}}|ya29\.{_CHAR}{{20,}}|GOCSPX-{_CHAR}{{20,}}",
        ("AIzaSy<33>", "AQ.Ab8RN6<44>", "ya29.<60>", "GOCSPX-<28>"),
        "AIzaSyShort",
    ),
    SecretForm(
        "Ids of keys of AWS, and keys of Amazon Bedrock.",
        r"A(?:KIA|SIA|BIA|CCA|GPA|IDA|IPA|NPA|NVA|ROA)[A-Z0-9]{16}|ABSK[A-Za-z0-9+/]{80,}=*",
        ("AKIA<16u>", "ASIA<16u>", "ABSK<110>"),
        "AKIAEXAMPLE",
    ),
    SecretForm(
        "Client secrets of Azure's directory.",
        r"[A-Za-z0-9_~.-]{3}[0-9]Q~[A-Za-z0-9_~.-]{31,34}",
        ("a1b8Q~<34>",),
        "a1b8Q~short",
    ),
    SecretForm(
        "Ids of access keys of Alibaba Cloud.", r"LTAI[A-Za-z0-9]{16,}", ("LTAI<20>",), "LTAIshort"
    ),
    SecretForm(
        "Tokens of Hugging Face, of persons and organisations.",
        r"hf_[A-Za-z0-9]{20,}|api_org_[A-Za-z0-9]{30,}",
        ("hf_<34>", "api_org_<34>"),
        "hf_hub_download",
    ),
    SecretForm("Keys of Groq.", r"gsk_[A-Za-z0-9]{20,}", ("gsk_<52>",), "gsk_model"),
    SecretForm("Tokens of Replicate.", r"r8_[A-Za-z0-9]{20,}", ("r8_<37>",), "r8_unorm"),
    SecretForm(
        "Keys of xAI, Perplexity, Tavily, NVIDIA, Cerebras and Together.",
        rf"(?:xai|pplx|tvly|nvapi|csk)-{_CHAR}{{16,}}|tgp_v1_{_CHAR}{{30,}}",
        ("xai-<80>", "pplx-<48>", "tvly-<32>", "nvapi-<64>", "csk-<48>", "tgp_v1_<43>"),
        "tvly-search",
    ),
    SecretForm(
        "Keys of LangSmith and of Weights & Biases.",
        r"lsv2_(?:pt|sk)_[A-Za-z0-9_]{20,}|wandb_v1_[A-Za-z0-9_]{40,}",
        ("lsv2_pt_<32x>_<10x>", "wandb_v1_<77>"),
        "lsv2_pt_name",
    ),
    SecretForm(
        "Keys of Pinecone.",
        r"pcsk_[A-Za-z0-9]{5,6}_[A-Za-z0-9]{40,}",
        ("pcsk_<6>_<63>",),
        "pcsk_index_name",
    ),
    SecretForm(
        "Tokens of npm, PyPI, RubyGems and Clojars.",
        rf"npm_[A-Za-z0-9]{{20,}}|pypi-{_CHAR}{{20,}}|rubygems_[a-f0-9]{{40,}}"
        r"|CLOJARS_[A-Za-z0-9]{40,}",
        ("npm_<36>", "pypi-AgEIcHlwaS5vcmc<60>", "rubygems_<48x>", "CLOJARS_<60>"),
        "npm_config_registry",
    ),
    SecretForm(
        "Tokens of Docker Hub, and what lets a machine join a swarm.",
        rf"dckr_[po]at_{_CHAR}{{20,}}|SWM(?:TKN-1-[a-z0-9-]{{40,}}|KEY-1-[A-Za-z0-9+/]{{30,}})",
        ("dckr_pat_<27>", "dckr_oat_<32>", "SWMTKN-1-<50x>-<25x>", "SWMKEY-1-<43>"),
        "dckr_pat_name",
    ),
    SecretForm(
        "Tokens of Notion.",
        r"ntn_[A-Za-z0-9]{40,}|secret_[A-Za-z0-9]{40,}",
        ("ntn_<11d><35>", "secret_<43>"),
        "secret_santa_and_ntn_names",
    ),
    SecretForm(
        "Tokens of Linear.",
        r"lin_(?:api|oauth|wh)_[A-Za-z0-9]{30,}",
        ("lin_api_<40>", "lin_oauth_<64x>"),
        "lin_api_client",
    ),
    SecretForm(
        "Tokens of Airtable.",
        r"pat[A-Za-z0-9]{14}\.[a-f0-9]{64}",
        ("pat<14>.<64x>",),
        "patternRecognition.py",
    ),
    SecretForm(
        "Tokens and secret keys of Supabase; its publishable keys are public.",
        rf"sbp_(?:oauth_|v0_)?[a-z0-9_-]{{30,}}|sb_secret_{_CHAR}{{20,}}",
        ("sbp_<40x>", "sbp_oauth_<40x>", "sb_secret_<31>"),
        "sb_publishable_Qx3kz0Yd6mTf4Lr8Wn1Vb7",
    ),
    SecretForm(
        "Tokens of Figma.",
        rf"fig(?:[dou]|[dou][a-z])_{_CHAR}{{30,}}",
        ("figd_<40>", "figo_<40>", "figor_<40>", "figu_<40>"),
        "figma_component_library_of_all_buttons_and_forms",
    ),
    SecretForm(
        "Tokens of Atlassian.",
        rf"ATATT3{_CHAR}{{40,}}(?:=[A-F0-9]{{8}})?|ATCTT3{_CHAR}{{40,}}(?:=[A-F0-9]{{8}})?",
        ("ATATT3<180>=<8u>",),
        "ATATT3short",
    ),
    SecretForm(
        "Tokens of Databricks, DigitalOcean and Shopify.",
        r"dapi[0-9a-f]{32}|do[opr]_v1_[a-f0-9]{32,}|shp(?:at|ca|pa|ss)_[0-9a-fA-F]{32}",
        ("dapi<32x>", "dop_v1_<64x>", "shpat_<32x>"),
        "dapi0123",
    ),
    SecretForm(
        "Keys of SendGrid, Mailgun, Brevo and MailerSend.",
        r"SG\.[A-Za-z0-9_-]{16,32}\.[A-Za-z0-9_-]{16,}|key-[0-9a-f]{32}"
        r"|xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}|mlsn\.[A-Za-z0-9]{30,}",
        ("SG.<22>.<43>", "key-<32x>", "xkeysib-<64x>-<16>", "mlsn.<64x>"),
        "key-value",
    ),
    SecretForm("Keys of Twilio.", r"SK[0-9a-f]{32}", ("SK<32x>",), "SK0123"),
    SecretForm(
        "Tokens of Sentry, Grafana and PostHog; PostHog's project keys are public.",
        r"sntry[su]_[A-Za-z0-9=_+/-]{20,}|glsa_[A-Za-z0-9_]{20,}|glc_[A-Za-z0-9+/=]{32,}"
        rf"|phx_{_CHAR}{{30,}}",
        ("sntryu_<64x>", "glsa_<32>_<8x>", "glc_<60>", "phx_<43>"),
        "glsa_panel",
    ),
    SecretForm(
        "Keys of New Relic and of Dynatrace.",
        r"NRAK-[A-Z0-9]{27}|dt0[a-z][0-9]{2}\.[A-Z0-9a-z]{24}\.[A-Za-z0-9]{64}",
        ("NRAK-<27u>", "dt0c01.<24u>.<64u>"),
        "NRAK-KEY",
    ),
    SecretForm(
        "Tokens of HashiCorp's Vault and Terraform, of Pulumi and of Doppler.",
        rf"hv[bsr]\.{_CHAR}{{20,}}|[A-Za-z0-9]{{14}}\.atlasv1\.[A-Za-z0-9_=-]{{60,70}}"
        r"|pul-[a-f0-9]{40}|dp\.(?:pt|st|sa|ct|scim|audit)\.[A-Za-z0-9._-]{40,}",
        ("hvs.<90>", "<14>.atlasv1.<64>", "pul-<40x>", "dp.pt.<43>"),
        "dp.pt.name",
    ),
    SecretForm(
        "Tokens of Heroku, Fly.io, Render, Vercel and Tailscale.",
        rf"HRKU-AA{_CHAR}{{50,}}|fo1_{_CHAR}{{40,}}|fm[12][ar]?_[A-Za-z0-9+/]{{90,}}=*"
        rf"|rnd_[A-Za-z0-9]{{28}}|vc[kairp]_{_CHAR}{{50,}}|tskey-[a-z]{{2,10}}-{_CHAR}{{20,}}",
        ("HRKU-AA<58>", "fo1_<43>", "fm2_<100>", "rnd_<28>", "vcp_<56>", "tskey-auth-<30>"),
        "rnd_seed",
    ),
    SecretForm(
        "Credentials of PlanetScale, Neon, Aiven, MongoDB Atlas and CockroachDB.",
        r"pscale_(?:tkn|oauth|pw)_[A-Za-z0-9_=.-]{32,}|napi_[A-Za-z0-9]{60,}"
        rf"|AVNS_{_CHAR}{{18,}}|mdb_sa_sk_{_CHAR}{{30,}}|CCDB1_[A-Za-z0-9]{{22}}_[A-Za-z0-9]{{40}}",
        ("pscale_tkn_<43>", "napi_<64>", "AVNS_<19>", "mdb_sa_sk_<40>", "CCDB1_<22>_<40>"),
        "pscale_tkn_name",
    ),
    SecretForm(
        "Tokens of CircleCI, Buildkite, Postman, ReadMe, Prefect, Infracost and Apify.",
        r"CCIPAT_[A-Za-z0-9]{22}_[a-f0-9]{40}|bkua_[a-z0-9]{40,}|PMAK-[A-Za-z0-9-]{20,}"
        r"|rdme_[a-z0-9]{60,}|pnu_[A-Za-z0-9]{36}|ico-[A-Za-z0-9]{32}|apify_api_[A-Za-z0-9]{30,}",
        ("CCIPAT_<22>_<40x>", "bkua_<40x>", "PMAK-<24x>-<34x>", "pnu_<36>", "apify_api_<36>"),
        "ico-32x32",
    ),
    SecretForm(
        "Keys of Square, EasyPost, Shippo, Duffel and Flutterwave.",
        rf"sq0[a-z]{{3}}-{_CHAR}{{20,}}|EZ[AT]K[A-Za-z0-9]{{54}}|shippo_(?:live|test)_[a-f0-9]{{40}}"
        rf"|duffel_(?:live|test)_{_CHAR}{{40,}}|FLWSECK(?:_TEST)?-[A-Za-z0-9]{{12,}}",
        ("sq0atp-<22>", "EZAK<54>", "shippo_live_<40x>", "duffel_test_<43>", "FLWSECK_TEST-<32x>"),
        "shippo_test_mode",
    ),
    SecretForm(
        "Tokens of Telegram's bots.",
        r"[0-9]{8,10}:AA[A-Za-z0-9_-]{32,}",
        ("<10d>:AA<33>",),
        "12345678:AAPL",
    ),
    SecretForm(
        "Keys of age, and of 1Password's accounts and services.",
        r"AGE-SECRET-KEY-1[A-Z0-9]{20,}|ops_eyJ[A-Za-z0-9+/]{100,}=*"
        r"|A3-[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}",
        ("AGE-SECRET-KEY-1<58u>", "ops_eyJ<260>", "A3-<6u>-<11u>-<5u>-<5u>-<5u>"),
        "A3-size-paper",
    ),
    SecretForm(
        "Tokens of OpenShift and Artifactory.",
        rf"sha256~{_CHAR}{{43}}|AKCp[A-Za-z0-9]{{60,}}|cmVmd[A-Za-z0-9]{{59}}",
        ("sha256~<43>", "AKCp<69>", "cmVmd<59>"),
        "sha256~short",
    ),
    SecretForm(
        "JSON Web Tokens.",
        rf"eyJ{_CHAR}{{16,}}{_JWT_PART}{{0,4}}",
        ("eyJ<33>.eyJ<40>.<43>",),
        "eyJ is how they begin",
    ),
)

# What may stand between a command and its option: no end of the command, of its line or of its
# text; a comma between quotes is the next of a list of arguments.
_GAP = r"(?:[^\"\\|;\x00]|\\[^n\x00]|\\\\\\n|\", ?\"){0,200}?"
_NEXT = r"(?:\\*\"?, ?\\*\"| +)"  # the next argument, in a text or in a list
_OPEN = r"(?:\\+\"|\\*')"  # the quote that opens a value in the shell
# A variable of the shell is no secret.
_BARE = r"(?P<v>[^ $<\"'\\\x00][^ \"'\\\x00]*)"
_QUOTED = r"(?P<v>[^$<\"'\\\x00][^\"'\\\x00]*)"
_PASSWORD = rf"(?:(?P<k>{_OPEN}){_QUOTED}|{_BARE})"
_USER = r"[^ :\"'\\\x00]{0,64}:"

COMMANDS = (
    SecretForm(
        "Users and passwords of curl, and of the proxies that it uses.",
        rf"(?P<k>{WORD}curl{_GAP}{_NEXT}(?:-[A-Za-z]{{0,8}}[uU]{_NEXT}?|--(?:proxy-)?user(?:=|{_NEXT})))"
        rf"(?:(?P<k>{_OPEN}{_USER}){_QUOTED}|(?P<k>{_USER}){_BARE})",
        (
            "curl -u ada:<12> https://api.example",
            "curl -sSu 'ada:<6> <6>' https://api.example",
            "curl -X POST -d @body --user ada:<12> https://api.example",
            "curl --proxy-user=ada:<12> https://api.example",
        ),
        "curl -u $USER:$PASSWORD https://api.example",
    ),
    SecretForm(
        "Passwords of sshpass, and of logins to registries of images.",
        rf"(?P<k>{WORD}(?:sshpass|(?:docker|podman|helm registry|oras|buildah) login){_GAP}"
        rf"{_NEXT}(?:-p{_NEXT}?|--password{_NEXT})){_PASSWORD}",
        ("sshpass -p <12> ssh host", "docker login -u ada -p <20> registry.example"),
        "docker run -p 8080:80 nginx",
    ),
    SecretForm(
        "Passwords of the clients of MySQL and Redis.",
        rf"(?P<k>{WORD}(?:mysql|mysqldump|mysqladmin|mariadb){_GAP}{_NEXT}-p"
        rf"|{WORD}redis-cli{_GAP}{_NEXT}-a{_NEXT}){_PASSWORD}",
        ("mysql -h db -u root -p<12> shop", "redis-cli -h cache -a <12> ping"),
        "mysql -u root -p shop",
    ),
)
