"""Keys of one's own give the same turns and findings from files, stores, servers and processes."""

import json
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.engine.live_spans import LiveSpans
from looptrace.analyzer.fields.dialect_table import SHIPPED, KindRow
from looptrace.analyzer.settings.sections import parsed
from looptrace.analyzer.settings.toml_reader import SettingsError
from looptrace.analyzer.settings.toml_writer import toml_of
from looptrace.collector.files.reader import read_spans
from looptrace.collector.sdk.processor import LoopSpanProcessor
from tests.commands import json_of, run
from tests.otlp import Attributes, Trace
from tests.reliability.serving import OK, served, until

OWN = """
[attributes]
tool = ["acme.tool.name"]
arguments = ["acme.in#call.args"]
result = ["acme.out"]
session = ["acme.chat"]
agent = ["acme.who"]
is_error = ["acme.failed"]
answer = ["acme.said"]

[[attributes.kinds]]
scope = "acme.llm*"
kind = "model"

[[attributes.kinds]]
key = "acme.kind"
is = ["STEP", "FLOW"]
kind = "structure"
"""


def call(number: int, result: str, *, failed: bool) -> Attributes:
    """Return the attributes of a call, as a team of its own would write them."""
    return {
        "acme.tool.name": "dig",
        "acme.in": json.dumps({"call": {"args": {"bed": number}}}),
        "acme.out": result,
        "acme.failed": failed,
    }


def trace_of(*, looping: bool, chat: str = "c1") -> Trace:
    """Return a run whose spans only [attributes] explains."""
    trace = Trace(session_key=None, name=chat)
    root = trace.span("handle", None, {"acme.chat": chat, "acme.who": "gardener"})
    step = trace.span("step", root, {"acme.kind": "STEP"})
    for number in range(6):
        trace.span("llm", step, {"acme.said": f"I dig {number}"}, scope="acme.llm.chat")
        bed, result = (0, "no such bed") if looping else (number, f"found {number} stones")
        trace.span("run", step, call(bed, result, failed=looping))
    return trace


@pytest.fixture
def settings_file(tmp_path: Path) -> Path:
    """Write the settings."""
    file = tmp_path / "looptrace.toml"
    file.write_text(OWN + "[server]\nretention_days = 36500\n", encoding="utf-8")
    return file


@pytest.mark.parametrize("looping", [True, False])
def test_own_keys_are_read_in_batch_and_live(looping: bool, tmp_path: Path) -> None:
    """Calls, results, failures, responses, session and agent are known; others are not."""
    settings = parsed(OWN.encode(), "looptrace.toml")
    file = tmp_path / "trace.jsonl"
    file.write_text(trace_of(looping=looping).lines(), encoding="utf-8")
    spans = read_spans([str(file)]).spans

    found = analyse(spans, policy=settings.policy)
    without = analyse(spans)

    tools = found.turns.filter(kind="tool")
    assert tools.height == 6
    assert tools["failed"].to_list() == [looping] * 6 or not looping
    assert tools.select("arguments", "outcome").null_count().row(0) == (0, 0)
    assert set(found.turns["agent"]) == {"gardener"}
    assert set(found.turns["session"]) == {"c1"}
    assert found.turns.filter(kind="model")["text"].to_list() == [f"I dig {n}" for n in range(6)]
    assert bool(found.findings) == looping
    assert found.understood.share == 1.0
    assert without.summary.turns == 0
    live = LiveSpans(settings.policy)
    events = live.take(spans)[1].events + live.rest()[1].events
    assert {event.rule for event in events} == {event.rule for event in found.events}


def test_a_store_and_a_server_read_them_too(tmp_path: Path, settings_file: Path) -> None:
    """The same findings come from an ingest, and from a server that is sent the spans."""
    file, config = tmp_path / "trace.jsonl", str(settings_file)
    file.write_text(trace_of(looping=True).lines(), encoding="utf-8")
    store = str(tmp_path / "store")
    run("ingest", file, "--store", store, "--config", config)
    reports = [json_of("analyze", path, "--config", config) for path in (str(file), store)]

    with served(tmp_path / "served", "--config", config) as server:
        assert server.send(trace_of(looping=True).request()) == OK
        (gate,) = until(server.gates)
        until(lambda: server.number('looptrace_understood_spans{became="turns"}') == 12)

    rules = [[finding["rule"] for finding in report["findings"]] for report in reports]
    assert rules[0] == rules[1] != []
    assert gate["task"] == "c1"
    assert gate["agent"] == "gardener"


def test_traces_of_an_own_session_are_one_task(tmp_path: Path, settings_file: Path) -> None:
    """The session of an own key joins traces, in a store too."""
    file, store = tmp_path / "traces.jsonl", str(tmp_path / "store")
    text = ""
    for name in "abcdef":
        trace = Trace(session_key=None, name=name)
        trace.span("run", None, {**call(0, "no", failed=True), "acme.chat": "one"})
        text += trace.lines()
    file.write_text(text, encoding="utf-8")
    config = str(settings_file)
    run("ingest", file, "--store", store, "--config", config)

    for path in (str(file), store):
        found = json_of("analyze", path, "--config", config)
        assert found["tasks"] == 1
        assert found["findings"]


def test_a_process_reads_them(settings_file: Path) -> None:
    """`local()` finds the loop by the keys of its settings."""
    provider = TracerProvider()
    processor = LoopSpanProcessor.local(settings_file).use(provider)
    tracer = provider.get_tracer("acme")
    with tracer.start_as_current_span("handle", attributes={"acme.chat": "c1"}):
        for _ in range(6):
            tracer.start_span("run", attributes=dict(call(0, "no", failed=True))).end()
        processor.force_flush()
    assert processor.counts.emitted > 0
    processor.shutdown()


def test_a_span_is_explained_by_them(tmp_path: Path, settings_file: Path) -> None:
    """The dialect is one's own, with the keys as the file has them."""
    trace = trace_of(looping=True)
    span = trace.span("run", None, call(7, "no", failed=True))
    file = tmp_path / "trace.jsonl"
    file.write_text(trace.lines(), encoding="utf-8")

    command = ("analyze", str(file), "--explain-span", span, "--config", str(settings_file))
    text = run(*command).stdout

    assert "read as a tool, by own, because of `acme.tool.name`" in text
    assert "arguments = acme.in#call.args" in text


def test_the_settings_are_written_and_read_again() -> None:
    """A file made of the settings gives the same table."""
    settings = parsed(OWN.encode(), "looptrace.toml")

    again = parsed(toml_of(settings).encode(), "again.toml")

    assert again.policy.dialects == settings.policy.dialects
    assert again.policy.dialects != SHIPPED
    assert KindRow("tool", "acme.tool.name") in again.policy.dialects.dialects[0].kinds


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[[attributes.kinds]]\nkind = "tool"\n', "needs a key, a name or a scope"),
        ('[[attributes.kinds]]\nkind = "tool"\nname = "x"\nis = ["y"]\n', "and a key for `is`"),
        ('[[attributes.kinds]]\nkind = "call"\nname = "x"\n', "Known: tool, model, request, agent"),
        ('[attributes]\ntols = ["x"]\n', "Did you mean tool?"),
        ("[attributes]\ntool = 3\n", "attributes.tool"),
    ],
)
def test_mistakes_are_named(text: str, why: str) -> None:
    """An error says where and what."""
    with pytest.raises(SettingsError, match=why):
        parsed(text.encode(), "looptrace.toml")
