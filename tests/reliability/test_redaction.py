"""P17: which parts of texts are secrets, wherever they stand; all others stay as they are."""

import json
import re
from random import Random
from string import ascii_letters, ascii_uppercase, digits
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrace.collector.content.redaction import redact_texts
from looptrace.collector.content.secret_forms import COMMANDS, ISSUED
from tests.reliability.test_content import FORMS, KEY, secret


def _texts(values: list[Any]) -> pl.Series:
    return pl.Series([json.dumps(value) for value in values], dtype=pl.String)


SNIPPETS = st.sampled_from([form.format(secret(7), secret(7)) for form in FORMS])


TEXTS = st.lists(
    st.one_of(
        SNIPPETS,
        st.text(alphabet="\"\\\n'{}:=,@/ abk\u00e9\x00", max_size=6),
        st.sampled_from(["password", '"token": ', "secret=", "sk-", "\\n", '\\"', "Bearer "]),
    ),
    max_size=5,
).map("".join)


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), TEXTS),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(TEXTS, st.just("password"), st.just("n")), inner, max_size=3),
        inner.map(json.dumps),
    ),
    max_leaves=8,
)


def shape(value: Any) -> Any:
    """Return the shape of a value; JSON in a text counts as its value."""
    if isinstance(value, dict):
        return ["object", sorted(str(shape(item)) for item in value.values())]
    if isinstance(value, list):
        return ["array", *map(shape, value)]
    return value if value is None or isinstance(value, bool) else "text or number"


@given(VALUES)
def test_json_stays_json_of_the_same_shape(value: Any) -> None:
    """P17: no pattern eats a quote or half of an escape, however deep a JSON lies in another."""
    (done,) = redact_texts(_texts([value]), KEY)

    assert shape(json.loads(done)) == shape(json.loads(json.dumps(value)))


@pytest.mark.parametrize(
    "value",
    [
        f"\npm_{secret(1)}",  # The n is a part of the escape before it.
        {"a": "enter password: ", "b": "other"},  # The quote ends the text, and opens no secret.
        {"a": "password='", "b": "other"},
        {"token": 12345, "tokens": 12},
        "C:\\token=x\\n",
    ],
)
def test_ends_of_texts_and_escapes_are_left_alone(value: Any) -> None:
    """P17: what only looks like the begin of a secret is the end of something else."""
    (done,) = redact_texts(_texts([value]), KEY)

    assert shape(json.loads(done)) == shape(value)
    assert '"other"' in done or '"other"' not in json.dumps(value)


@pytest.mark.parametrize("depth", range(4))
@pytest.mark.parametrize("secret", ["pa ss", 'pa"ss', "pa\\ss", "pa\nss", 12345])
def test_json_within_json_stays_json(depth: int, secret: str | int) -> None:
    """A framework writes arguments as JSON in a text, and its history as JSON in that."""
    value: Any = {"password": secret, "n": [1, "x"]}
    for _ in range(depth):
        value = json.dumps(value)

    (done,) = redact_texts(_texts([value]), KEY)

    found = json.loads(done)
    for _ in range(depth):
        found = json.loads(found)
    assert found["password"].startswith("[redacted:")
    assert found["n"] == [1, "x"]


def test_equal_secrets_stay_equal_and_others_do_not() -> None:
    """P17: two calls with different keys are two calls, and the same call is the same again."""
    (one, again, other), within = (
        _texts([f"curl -u x --token {secret(n)}" for n in (1, 1, 2)]),
        _texts([{"a": json.dumps({"token": secret(1)})}]),
    )

    (one, again, other) = redact_texts(pl.Series([one, again, other]), KEY)
    (within,) = redact_texts(within, KEY)

    assert one == again != other
    assert one.split("redacted:")[1][:12] in within
    assert redact_texts(pl.Series([one]), KEY)[0] == one
    (elsewhere,) = redact_texts(_texts([f"curl -u x --token {secret(1)}"]), b"other key")
    assert elsewhere != one


@pytest.mark.parametrize(
    "text",
    [
        "Basic understanding of bearer tokens and passwords",
        "task-management-for-developers-of-all-things",
        "max_tokens: 4096, input_tokens=12, 34 tokens",
        "https://example.org:8080/a@b",
        "card 4111 1111 1111 1112",
        "1741111111111111111",
        "password: [redacted]",
    ],
)
def test_prose_and_numbers_stay(text: str) -> None:
    """What holds no secret is left alone, or reports could not be read."""
    assert list(redact_texts(_texts([text, {"n": 4111111111111111}]), KEY)) == list(
        _texts([text, {"n": 4111111111111111}])
    )


@pytest.mark.parametrize(
    "part",
    [
        "-----BEGIN PRIVATE KEY-----",
        ".SG.aaaaaaaaaaaaaaaaaaaaaaaaaaaa-AKIAABCDEFGHIJKLMNOP",
        "card 4111 1111 1111 1111, ",
        "curl -u ada:hunter22 ",
    ],
)
def test_no_text_takes_the_square_of_its_length(part: str) -> None:
    """P20: many beginnings without an end are read once; twice over they took hours."""
    (done,) = redact_texts(_texts([part * 100_000]), KEY)

    assert part not in done


CARDS = (
    "4111111111111111", "4111 1111 1111 1111", "4111-1111-1111-1111", "5555 5555 5555 4444",
    "2223003122003222", "6011111111111117", "3530111333300000", "378282246310005",
    "3782 822463 10005", "30569309025904", "3056-930902-5904",
)  # fmt: skip
"""Numbers that issuers publish for tests, in the usual groups."""


@pytest.mark.parametrize(
    "before", ["", ": ", ", ", "- ", "[", "/", "\n", "card ", '"', "(", "=", "#"]
)
@pytest.mark.parametrize("after", ["", " ", ".", ", next", "]", "\n", '"', "/12", " 12/27 123"])
def test_card_numbers_are_redacted(before: str, after: str) -> None:
    """P17: a number with a correct check digit is one of a card, whatever text is around it."""
    texts = [f"paid with{before}{card}{after}" if before else f"{card}{after}" for card in CARDS]
    nested = [json.dumps({"n": 1, "text": text}) for text in texts]

    for done in redact_texts(_texts([*texts, *nested, [*texts], {texts[0]: texts[0]}]), KEY):
        assert not any(part in done for card in CARDS for part in (card, card[:9])), done
        json.loads(done)


@pytest.mark.parametrize(
    "text",
    [
        "4111 1111 1111 1112",  # The check digit is wrong.
        "trace 4111111111111111aaaaaaaaaaaaaaaa",
        "span a4111111111111111",
        "id_4111111111111111",
        "12345678-4111-1111-1111-111111111111",
        "0.4111111111111111, -1.4111111111111111e5",
        "1764179821000000000 ns, 17641798210000004111111111111111",
        "1999 2000 2001 4111 1111 1111 1111 2002 2003",
        '{"id": 4111111111111111, "ids": [4111111111111111, 5555555555554444]}',
        {"id": 4111111111111111, "within": '[{"id": 4111111111111111}]'},
        "2026112617570112",
    ],
)
def test_numbers_that_are_no_cards_stay(text: Any) -> None:
    """Ids, times and rows of numbers are what loops are known by."""
    assert list(redact_texts(_texts([text]), KEY)) == list(_texts([text]))


def test_the_number_of_a_card_is_known_by_its_name_too() -> None:
    """P17: a number of JSON is a card where its key says so, and stays JSON."""
    (done,) = redact_texts(_texts([{"card_number": 4111111111111111, "n": 2}]), KEY)

    assert json.loads(done)["card_number"].startswith("[redacted:")


def _filled(form: str, chance: Random) -> str:
    """Return an example with random characters, of which one is a digit, in its places."""
    kinds = {"": ascii_letters + digits, "x": "0123456789abcdef", "d": digits}
    kinds["u"] = ascii_uppercase + digits

    def fill(place: re.Match[str]) -> str:
        return "7" + "".join(chance.choices(kinds[place[2]], k=int(place[1]) - 1))

    return re.sub(r"<(\d+)([xdu]?)>", fill, form)


FORMS_OF_ISSUERS = {form.about: form for form in (*ISSUED, *COMMANDS)}


@pytest.mark.parametrize("about", FORMS_OF_ISSUERS)
def test_each_form_finds_its_examples(about: str) -> None:
    """P17: each row of the table finds what it describes, wherever it stands, and only that."""
    form, chance = FORMS_OF_ISSUERS[about], Random(about)
    examples = [_filled(example, chance) for example in form.examples]
    longest = [max(re.findall(r"[^ '=:]*7[^ '=:]*", example), key=len) for example in examples]

    for around in ("{}", "set {} now", "a\n{}", "({})", '{{"key of it": "{}"}}'):
        texts = [around.format(example) for example in examples]
        redacted = redact_texts(_texts(texts), KEY)
        for text, part, done in zip(texts, longest, redacted, strict=True):
            assert "[redacted:" in done, text
            assert part not in done
            assert json.loads(done)
    stays = [form.near_miss, form.near_miss.upper(), f"import {form.near_miss}"]
    assert list(redact_texts(_texts(stays), KEY)) == list(_texts(stays))


def test_a_command_hides_no_other_secret() -> None:
    """P17: what stands between a command and its password is searched, too."""
    text = f"curl -H 'Authorization: Bearer {secret(1)}' -u ada:{secret(2)} https://x"

    (done,) = redact_texts(_texts([text]), KEY)

    assert secret(1) not in done
    assert secret(2) not in done
    assert "-u ada:[redacted:" in done
