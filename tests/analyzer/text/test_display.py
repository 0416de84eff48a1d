import time

import pytest

from looptrace.analyzer.text.display import LABEL_LENGTH_MAX, call_label, label, plain

ROW = {"kind": "tool", "name": None, "arguments": None, "text": None, "phase": None}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"path":"tests/test_cart.py"}', "f(tests/test_cart.py)"),
        ('{"query":"refund policy","top":3,"deep":true}', "f(refund policy, 3, true)"),
        ('{"old":"a, b","new":""}', 'f("a, b", "")'),
        ('{"code":"if x:\\n  y"}', 'f("if x:\\n y")'),
        ('{"count":"5","none":"null"}', 'f("5", "null")'),
        ('{"where":{"id":1}}', 'f({"id": 1})'),
        ("[1,2]", "f([1, 2])"),
        ("tests/test_cart.py -x", "f(tests/test_cart.py -x)"),
        ("{}", "f()"),
        ("", "f()"),
        (None, "f(?)"),
    ],
)
def test_call_reads_like_code(arguments: str | None, expected: str) -> None:
    """A reader knows a call by its values; unknown arguments must not look like none."""
    assert call_label("f", arguments) == expected


def test_unnamed_call_is_shown() -> None:
    """A trace may hold a call without the name of its tool."""
    assert call_label(None, "{}") == "?()"


def test_long_value_leaves_room_for_the_others() -> None:
    """The path that tells two edits apart must survive a page of new text beside it."""
    written = call_label("write", '{"path":"src/cart.py","text":"' + "x" * 5000 + '"}')

    assert written.startswith("write(src/cart.py, xxx")
    assert "…" in written
    assert written.endswith("x)")
    assert len(written) <= LABEL_LENGTH_MAX


def test_many_values_end_in_an_ellipsis() -> None:
    """Values that are left out are seen to be left out."""
    arguments = "{" + ",".join(f'"k{number}":{number}' for number in range(20)) + "}"

    assert call_label("f", arguments) == "f(0, 1, 2, 3, 4, 5, 6, 7, …)"


@pytest.mark.parametrize("arguments", ["[" * 100_000, "9" * 5000, '{"a":', "\ud800", "NaN"])
def test_no_argument_text_breaks_a_label(arguments: str) -> None:
    """Arguments are whatever a model wrote: too deep, too long, cut off, not even Unicode."""
    written = call_label("f", arguments)

    assert written.startswith("f(")
    assert len(written) <= LABEL_LENGTH_MAX
    assert written.isprintable()


def test_plain_text_is_one_line_of_printable_characters() -> None:
    """Escapes would act on a terminal, and overrides would show another text than is there."""
    hostile = "a\x1b[31mred\r\n\tb\u202egnp.exe\u2028c\x9bd\ud800e\x00f"

    assert plain(hostile, 100) == "a\ufffd[31mred b\ufffdgnp.exe c\ufffdd\ufffde\ufffdf"


@pytest.mark.parametrize("length_max", [1, 2, 3, 10, 11])
def test_plain_text_is_shortened_in_the_middle(length_max: int) -> None:
    """The head says what it is and the tail which one; the bound holds at every length."""
    text = "abcdefghijklmnop"

    shortened = plain(text, length_max)

    assert len(shortened) == length_max
    head, tail = shortened.split("…")
    assert text.startswith(head)
    assert text.endswith(tail)
    assert 0 <= len(head) - len(tail) <= 1


def test_plain_text_of_the_bound_is_kept() -> None:
    """An ellipsis for nothing would hide a character and save none."""
    assert plain("abcdef", 6) == "abcdef"


def test_megabytes_cost_no_time() -> None:
    """A report shows thousands of labels, and each may come from a megabyte of text."""
    text = "a \x1b" * 400_000
    started_seconds = time.process_time()
    for _ in range(1000):
        plain(text, 80)

    assert time.process_time() - started_seconds < 2


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ({"kind": "tool", "name": "run", "arguments": '{"x":1}'}, "run(1)"),
        ({"kind": "model", "name": "gpt", "text": "Let me\nlook."}, "Let me look."),
        ({"kind": "model", "name": "gpt", "text": ""}, "gpt"),
        ({"kind": "handoff", "name": "reviewer"}, "→ reviewer"),
        ({"kind": "handoff", "name": "reviewer", "text": "Please."}, "→ reviewer: Please."),
        ({"kind": "attempt", "phase": "test"}, "test"),
        ({"kind": "attempt", "name": "done"}, "done"),
        (
            {"kind": "attempt", "name": "blocked", "arguments": '["key","port 22"]'},
            "blocked (key, port 22)",
        ),
        ({"kind": "user"}, "?"),
    ],
)
def test_label_says_what_a_turn_did(row: dict[str, str], expected: str) -> None:
    """Each kind of turn has another field that says most."""
    assert label(ROW | row) == expected
