"""What SDKs and agents print: the loop is found in each form, a run that works is silent."""

import json
from random import Random

import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans
from looptrace.collector.importers.console.javascript import inspected
from tests.collector.conftest import Write
from tests.collector.importers.exported_run import spans
from tests.collector.importers.printed import PRINTED
from tests.seeds import seeds


@pytest.mark.parametrize("name", PRINTED)
def test_the_loop_is_found(name: str, write: Write) -> None:
    """Five equal calls fail, in every form."""
    read = read_spans([write("printed.txt", PRINTED[name](spans("loop")).encode())])
    assert read.skipped == ()
    analysis = analyse(read.spans)
    found = {f.attempts for f in analysis.findings if f.rule == "repeated_call"}
    assert found == {5}


@pytest.mark.parametrize("name", PRINTED)
def test_a_run_that_works_is_silent(name: str, write: Write) -> None:
    """All of its six calls are read, with arguments and results, and no rule fires."""
    read = read_spans([write("printed.txt", PRINTED[name](spans("ok")).encode())])
    analysis = analyse(read.spans)
    assert (read.skipped, analysis.findings) == ((), ())
    calls = analysis.turns.filter(kind="tool")
    assert calls.height == 6
    assert calls.select("arguments", "result").null_count().row(0) == (0, 0)


@pytest.mark.parametrize("seed", seeds(80))
def test_nothing_printed_ends_the_reading(seed: int, write: Write) -> None:
    """A console is cut, mixed and overwritten in any place; what is bad is reported."""
    rng = Random(seed)
    text = PRINTED[rng.choice(list(PRINTED))](spans("loop"))
    for _ in range(rng.choice([1, 5, 50])):
        place = rng.randrange(len(text))
        noise = rng.choice(
            ["", "'", '"', "{", "}", "[", "\n", "\\ud83d", "08", "9" * 30, ": ", "\0"]
        )
        text = text[:place] + noise + text[place + rng.choice([0, 1, 9]) :]
    read = read_spans([write("printed.txt", text.encode())])
    assert read.spans.height + len(read.skipped) > 0


def test_lines_of_the_program_are_reported_once(write: Write) -> None:
    """A console has its words between the spans, which are read."""
    text = PRINTED["console_javascript"](spans("loop")).replace("\n}\n", "\n}\nround done\n")
    read = read_spans([write("printed.txt", f"agent starts\n{text}\nbye\n".encode())])
    assert read.spans.height == len(spans("loop"))
    (skipped,) = read.skipped
    assert skipped.why.endswith(f"({len(spans('loop'))} more like it)")


def test_a_printed_span_that_is_cut_off_costs_itself(write: Write) -> None:
    """A process that ends stops in the middle of a span."""
    text = PRINTED["console_javascript"](spans("loop"))
    read = read_spans([write("printed.txt", text[: text.rindex("gen_ai.operation")].encode())])
    assert read.spans.height == len(spans("loop")) - 1
    assert len(read.skipped) == 1


INSPECTED = (
    ("{ a: 1, 'b-c': -2.5, d: 10n }", {"a": 1, "b-c": -2.5, "d": 10}),
    ("{ a: [ 'x', 'y', ... 3 more items ], b: [Object], c: [Array] }", {"a": ["x", "y"]}),
    ("<ref *1> Span { a: Resource { b: undefined }, c: [Circular *1] }", {"a": {"b": None}}),
    ("{ a: [Object: null prototype] { b: true }, c: NaN, d: null }", {"a": {"b": True}}),
    ("{ a: `it's \"x\"`, b: 'x\\n' +\n    'y\\'', c: \"it's\" }", {"a": 'it\'s "x"', "c": "it's"}),
    (
        "{ a: '\\u00e9\\x41', [Symbol(x)]: 1, 'c d': 'long'... 40 more characters }",
        {"a": "\u00e9A"},
    ),
)


@pytest.mark.parametrize(("text", "expected"), INSPECTED)
def test_objects_of_node_are_read(text: str, expected: dict[str, object]) -> None:
    """What Node.js leaves out is unknown; the rest keeps its types."""
    found = inspected(text)
    assert {key: found[key] for key in expected} == expected


def test_values_of_several_lines_stay_whole(write: Write) -> None:
    """.NET prints a tag as it is, also one with lines."""
    text = PRINTED["console_dotnet"](spans("ok")).replace('{"order": "A17"}', "SELECT 1\nFROM t")
    read = read_spans([write("printed.txt", text.encode())])
    assert read.skipped == ()
    turns = analyse(read.spans).turns.filter(kind="tool")
    assert "SELECT 1\nFROM t" in turns["arguments"].to_list()


def test_results_without_an_id_find_their_calls(write: Write) -> None:
    """Terminal agents give one observation for all commands of a step; none of them is lost."""
    steps = [
        {
            "step_id": number,
            "source": "agent",
            "message": "",
            "tool_calls": [
                {"tool_call_id": f"c{number}-{i}", "function_name": "bash", "arguments": {"k": i}}
                for i in range(2)
            ],
            "observation": {"results": [{"content": f"screen {number}"}]},
        }
        for number in range(1, 3)
    ]
    copied = {"step_id": 9, "source": "agent", "message": "old", "is_copied_context": True}
    shown = {"step_id": 10, "source": "agent", "message": "I wait.", "observation": {
        "results": [{"content": "nothing"}]
    }}  # fmt: skip
    sub_agent = {"schema_version": "ATIF-v1.7", "trajectory_id": "s", "steps": steps[:1]}
    trajectory = {
        "schema_version": "ATIF-v1.7",
        "agent": {"name": "terminus", "version": "2"},
        "steps": [*steps, copied, shown],
        "subagent_trajectories": [sub_agent | {"agent": {"name": "helper", "version": "1"}}],
    }
    read = read_spans([write("trajectory.json", json.dumps(trajectory).encode())])
    turns = analyse(read.spans).turns
    calls = turns.filter(kind="tool")
    assert sorted(calls["result"].drop_nulls()) == ["screen 1", "screen 1", "screen 2"]
    assert calls["agent"].value_counts(sort=True).rows() == [("terminus", 4), ("helper", 2)]
    assert "old" not in turns["text"].to_list()
