"""The signs of a failed call, the kinds of failure, and which kinds have an external cause."""

from __future__ import annotations

# A result with this beginning reports a failure although its span's status does not.
FAILURE_HEAD = (
    r"^\s*([\w.]*(Error|Exception)\s*[:(-]|ERROR\b|[Ee]rror:|fatal:|panic:"
    r"|Traceback \(most recent call last\))"
)
# So does a result that begins or ends with an exit code, or has one under a key.
_EXIT = r"(?:exit(?:ed)?(?: with)?(?:[ _]?code| status)|return[ _]?code)"
FAILURE_EXIT = (
    rf"(?i)\b{_EXIT}\s*[:=]?\s*-?[1-9]\d{{0,9}}\W*$"
    rf"|^\W{{0,9}}(?:(?:error|process|command)\W+){{0,2}}(?:(?:failed|finished) with )?{_EXIT}"
    r"\s*[:=]?\s*-?[1-9]\d{0,9}\b"
    r"|^\s*\{[\s\S]*\"(?:exit_?code|exit_?status|return_?code)\": ?-?[1-9]"
)
# A failed test in a run that is cut off before its summary.
FAILED_TEST = r"(?m)^--- FAIL: \S+ \(\d"
ERROR_TYPE = r"\b([A-Z]\w*(?:Error|Exception|Failure))\b"

# What went wrong, by the first pattern that fits the type, else the type or the message. "untold"
# means that a framework hides it, "unknown" that no pattern fits. The agent does not cause the
# external kinds.
ERROR_KINDS = (
    ("rate_limit", r"(?i)rate.?limit|too many requests|\b429\b|quota"),
    ("authentication", r"(?i)authenticat|unauthori[sz]ed|\b401\b|invalid.{0,10}(api.?key|token)"),
    ("permission", r"(?i)permission|forbidden|\b403\b|access denied|not permitted"),
    # Before timeouts: a server that cannot be reached in time is an external cause.
    (
        "network",
        r"(?i)connection|unreachable|\bdns\b|name resolution|socket|\b50[234]\b|bad gateway"
        r"|(service|server|host) (is )?(temporarily )?(unavailable|down)|overloaded|\bECONN"
        r"|getaddrinfo|\bE(NOTFOUND|AI_AGAIN)\b|\bapi time(d)? ?out",
    ),
    ("timeout", r"(?i)time(d)?.?out|deadline exceeded"),
    (
        "dependency",
        r"(?i)modulenotfound|importerror|no module named|cannot find (module|package)|unresolved"
        r" (import|dependency)|could not resolve dependenc|no matching distribution",
    ),
    ("not_found", r"(?i)not.?found|no such file|does ?n[o']t exist|\b404\b|unknown (column|table)"),
    (
        "syntax",
        r"(?i)syntax|parse error|unexpected (token|indent|end)|unterminated|\berror ?(TS|\[E)\d"
        r"|compil(er|ation) (error|failed)",
    ),
    ("logic", r"(?i)assert|expected\b.*\b(got|but|actual)|[1-9]\d* failed"),
    ("runtime", r"(?i)error|exception|panic|traceback"),
)
EXTERNAL = ("rate_limit", "authentication", "network", "dependency")
# The agent may mend these by its own edits: a login, a missing module, a server on its own machine.
MENDABLE = ("authentication", "dependency")
OWN_SERVER = r"(?i)\blocalhost\b|\b127\.0\.0\.1\b|\b0\.0\.0\.0\b|\[?::1\b"
# A model's server that fails or is slow is external; a tool's server may be the agent's own.
MODEL_SERVER = (
    r"(?i)\b5[0-9]{2} (internal|bad|service|gateway)|internal ?server ?error|server_error"
    r"|server had an error|overloaded|time(d)? ?out"
)
# Figures in the text of a model's failure, such as how many tokens were too many.
FIGURES = r"[0-9][0-9,.]*"
UNTOLD = "untold"
