"""P17: content stays out of what is written, as far as the policy says."""

import json
import stat
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.llm_judge import NoOpinion, Opinion
from looptrace.analyzer.normalize.turn_builder import turns_of
from looptrace.analyzer.schema.spans import SPAN_SCHEMA
from looptrace.collector.content.policy import CONTENTS, TEXT_BYTES_MAX, with_content
from looptrace.collector.files.reader import read_spans
from looptrace.collector.server.ingest.ingest_log import IngestLog
from looptrace.collector.store.key import content_key
from looptrace.collector.store.layout import LOG_FILE
from looptrace.collector.store.locks import StoreError
from looptrace.collector.store.reader import open_gates
from looptrace.collector.store.writer import ingest
from tests.collector.store.stored import spans_of
from tests.commands import run
from tests.otlp import Event, Trace, Value, exception, tool_call
from tests.reliability.serving import OK, looping, served, until
from tests.reliability.test_webhook_network import hook_toml, serving

KEY = b"k" * 32
EXAMPLES = sorted(Path("examples/traces").iterdir())
CANARIES = 60

# How a secret is written, where `{}` is what must not be found again. Each is 32 hex digits.
FORMS = (
    "sk-proj-{}",
    "sk-ant-api03-{}AA",
    "sk_live_{}",
    "ghp_{}",
    "github_pat_{}",
    "glpat-{}",
    "xoxb-{}",
    "hf_{}",
    "npm_{}",
    "AIzaSy{}",
    "eyJhbGciOiJIUzI1NiJ9.eyJ{}.s1gnature",
    "Authorization: Bearer {}",
    "curl -H 'authorization: Basic {}=='",
    "password={}",
    '{{"db_password": "{}"}}',
    "AWS_SECRET_ACCESS_KEY={}",
    "postgres://app:{}@db.example/x",
    "https://{}@git.example/x.git",
    "https://api.example/v1?api_key={}&page=2",
    "-----BEGIN PRIVATE KEY-----\n{}\n{}==\n-----END PRIVATE KEY-----",
    "export TOKEN='{}'",
    'connect(client_secret="{}", timeout=3)',
)
PLACES = (
    "arguments", "result", "messages", "answer", "deep", "list", "key", "name", "status", "url",
    "event", "exception", "stacktrace", "scope", "task",
)  # fmt: skip
"""Where a secret may stand in a span."""


def secret(number: int) -> str:
    """Return a secret that no other number gives, and that no hash contains by chance."""
    return f"{number:04x}beef" * 4


def written(number: int) -> str:
    """Return a text with a secret in it."""
    form = FORMS[number % len(FORMS)]
    return "before " + form.format(secret(number), secret(number)) + " after"


def plant(trace: Trace, number: int) -> None:
    """Write a span with one secret in one place."""
    place, text = PLACES[number % len(PLACES)], written(number)
    message: Value = [{"role": "user", "parts": [{"type": "text", "content": text}]}]
    attributes: dict[str, dict[str, Value]] = {
        "arguments": {"gen_ai.tool.call.arguments": json.dumps({"command": text})},
        "result": {"gen_ai.tool.call.result": text},
        "messages": {"gen_ai.input.messages": json.dumps(message)},
        "answer": {"gen_ai.output.messages": json.dumps(message)},
        "deep": {"gen_ai.tool.call.result": json.dumps({"body": json.dumps({"text": text})})},
        "list": {"http.request.header.x": [text, "plain"]},
        "key": {"headers": {text: "value"}},
        "url": {"url.full": f"https://example/{text}"},
        "task": {"looptrace.task.id": text},
    }
    events: dict[str, Event] = {
        "event": ("log", {"log.message": text}),
        "exception": ("exception", {"exception.type": "E", "exception.message": text}),
        "stacktrace": ("exception", {"exception.type": "E", "exception.stacktrace": text}),
    }
    kind = "chat" if place in ("messages", "answer") else "execute_tool"
    trace.span(
        text if place == "name" else "execute_tool run",
        attributes={"gen_ai.operation.name": kind, **attributes.get(place, {})},
        events=[events[place]] if place in events else [],
        status="error",
        message=text if place == "status" else "",
        scope=text if place == "scope" else None,
    )


@pytest.fixture
def spans(tmp_path: Path) -> pl.DataFrame:
    """Spans with a secret each, in every place and every form."""
    trace = Trace()
    for number in range(CANARIES):
        plant(trace, number)
    path = tmp_path / "traces.jsonl"
    path.write_text(trace.lines(), encoding="utf-8")
    return read_spans([str(path)]).spans


def all_of(store: Path) -> str:
    """Return everything that was written, unpacked."""
    files = [path for path in store.rglob("*") if path.is_file()]
    tables = [pl.read_parquet(path).write_json() for path in files if path.suffix == ".parquet"]
    others = [p.read_bytes().decode("latin-1") for p in files if p.suffix != ".parquet"]
    return "\n".join([*tables, *others])


def found(text: str) -> set[int]:
    """Return the numbers of the secrets in a text."""
    return {number for number in range(CANARIES) if secret(number) in text}


@pytest.mark.parametrize("content", ["redacted", "hashes"])
def test_no_secret_is_written(spans: pl.DataFrame, tmp_path: Path, content: Any) -> None:
    """P17: of 60 secrets in all places of spans none is in any file of the store."""
    ingest(spans, tmp_path / "store", content=content)

    assert found(all_of(tmp_path / "store")) == set()


def test_the_search_would_find_them(spans: pl.DataFrame, tmp_path: Path) -> None:
    """P17, the control arm: without a policy all 60 are found, but for parts that are not kept."""
    ingest(spans, tmp_path / "store", content="full")

    assert found(all_of(tmp_path / "store")) == set(range(CANARIES))


def test_no_secret_reaches_reports(spans: pl.DataFrame, tmp_path: Path) -> None:
    """P17: reports on a store have no more content than the store."""
    store = tmp_path / "store"
    ingest(spans, store, content="redacted")

    for form in ("json", "html", "terminal"):
        told = run("analyze", store, "--format", form)
        assert found(told.output) == set(), form


def test_no_secret_outlives_its_arrival(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """P17: a server lets no secret come as far as its log, its files or what it prints."""
    store, trace = tmp_path / "store", Trace()
    for number in range(CANARIES):
        plant(trace, number)
    with served(store, "--no-grpc") as server:
        assert server.send(trace.request()) == OK
        server.send(trace.lines().encode()[: 1 << 12])  # It is cut off, and is refused.

    kept = logged_spans(store) + all_of(store)
    assert kept.count("[redacted:") >= CANARIES
    assert found(kept + "".join(capfd.readouterr())) == set()


def logged_spans(store: Path) -> str:
    """Return the contents of a server's log."""
    log = IngestLog(store / LOG_FILE, bytes_max=1 << 30)
    logged = log.read(0, 1_000)
    log.close()
    return "" if logged is None else logged.spans.write_json()


def test_no_secret_of_a_person_is_kept_or_sent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P17: the note and the name of a decision are redacted where they enter, by whatever way."""
    store = tmp_path / "store"
    monkeypatch.setenv("SECRET", "whsec_" + secret(0))
    with serving() as receiver:
        config = hook_toml(receiver.url, 'secrets = ["env:SECRET"]')
        with served(store, "--no-grpc", config=config) as server:
            for name in ("one", "two", "three"):
                # No call comes after the gate: of an agent that has ended, webhooks get none.
                assert server.send(looping(name, 3).request()) == OK
            until(lambda: len(receiver.hits) == 3)
            first, *others = [gate["id"] for gate in server.gates()]
            server.resolve(first, "continue", note=written(0), who=written(1))
            at_server = ("--server", f"http://{server.address}")
            for number, place in ((2, at_server), (4, ("--store", str(store)))):
                words = ["--note", written(number), "--by", written(number + 1)]
                gate = others.pop()
                options = ["gates", "resolve", *place, gate, "--decision", "continue", *words]
                assert run(*options).exit_code == 0
            until(lambda: len(receiver.hits) == 6)
            listed = json.dumps(server.ask("GET", "/v1/gates")[1])
        sent = "".join(body.decode() for body, _ in receiver.requests)

    kept = all_of(store)
    assert min(listed.count("[redacted:"), sent.count("[redacted:")) >= 3
    assert kept.count("before ") >= 3  # The notes are there, without the secrets.
    assert found(listed + sent + kept) == set()


def test_no_secret_of_a_judge_is_kept(tmp_path: Path) -> None:
    """P17: what a language model answers, or why it did not, may repeat a secret of the agent."""
    ingest(read_spans([str(EXAMPLES[0].parent)]).spans, tmp_path / "store")
    with open_gates(tmp_path / "store") as gates:
        first, second, *_ = gates.gates()
        gates.add_opinion(first.id, Opinion(False, False, False, written(0)), resolves=True)
        gates.add_opinion(second.id, NoOpinion(written(1)))
        assert len(gates.opinions()) == 2

    assert found(all_of(tmp_path / "store")) == set()


def test_ingest_redacts_unless_told_otherwise(tmp_path: Path) -> None:
    """P17: without an option no secret is stored."""
    trace = Trace()
    plant(trace, 0)
    path, store = tmp_path / "traces.jsonl", tmp_path / "store"
    path.write_text(trace.lines(), encoding="utf-8")

    done = run("ingest", path, "--store", store)

    assert done.exit_code == 0
    assert secret(0) not in all_of(store)
    assert "[redacted:" in all_of(store)


def findings(spans: pl.DataFrame) -> list[tuple[str, str, int, int, int]]:
    """Judge spans, and give what is found without its words."""
    judged = detect(turns_of(spans)[0])
    return [(f.rule, f.task, f.turn_first, f.turn_last, f.attempts) for f in judged.findings]


@pytest.mark.parametrize("content", ["redacted", "hashes"])
@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_findings_are_the_same(path: Path, content: Any) -> None:
    """P17: whatever is left of content, every rule finds in the examples what it found before.

    A hash does not say how long a result was, which `no_news` asks.
    """
    spans = read_spans([str(path)]).spans
    differs = {"no_news"} if content == "hashes" else set()

    def exact(spans: pl.DataFrame) -> list[tuple[str, str, int, int, int]]:
        return [finding for finding in findings(spans) if finding[0] not in differs]

    assert exact(with_content(spans, content, KEY)) == exact(spans)


def _tool(trace: Trace, arguments: Value, result: str, error: str = "") -> None:
    attributes = tool_call("run", json.dumps(arguments), result=result)
    trace.span("run", None, attributes, status="error" if error else None, message=error)


@pytest.mark.parametrize(
    ("error", "rule"),
    [
        ("429 Too Many Requests", "external_failure"),
        ("connection refused", "external_failure"),
        ("No module named 'flask'", "external_failure"),
        ("TimeoutError: no answer, connection lost", "signature_repeat"),
        ("the column is there already", "repeated_failure"),
    ],
)
def test_kinds_of_failures_outlast_hashing(error: str, rule: str) -> None:
    """P17: a failure of the outside is not held against the agent because its words are gone."""
    trace = Trace()
    for number in range(6):
        _tool(trace, {"n": number}, "", error)
    spans = spans_of(trace)

    assert findings(with_content(spans, "hashes", KEY)) == findings(spans)
    assert rule in {found[0] for found in findings(spans)}


def test_what_an_author_declares_outlasts_hashing() -> None:
    """P17: iterations, the beginning of phases and metrics of one's own are no content."""
    trace = Trace()
    declared: dict[str, Value] = {
        "looptrace.iteration": "3",
        "looptrace.phase": "fix",
        "looptrace.metric.loss": 0.25,
    }
    above = trace.span("iteration", attributes=declared)
    trace.span("run", parent=above, attributes={"gen_ai.operation.name": "execute_tool"})
    said = ["iteration", "phase", "phase_start_ns", "metrics"]
    plain, hashed = (
        turns_of(spans)[0].select(said).rows()
        for spans in (spans_of(trace), with_content(spans_of(trace), "hashes", KEY))
    )

    assert ("3", "fix") in {row[:2] for row in plain}
    assert hashed == plain


@pytest.mark.parametrize("rule", ["chant", "signature_repeat"])
def test_what_reads_words_is_lost(rule: str) -> None:
    """P17: docs/security.md says which rules find less in hashes: this shows it."""
    trace = Trace()
    if rule == "chant":
        said = [{"role": "assistant", "parts": [{"type": "text", "content": "on and on, " * 90}]}]
        answer = {"gen_ai.output.messages": json.dumps(said)}
        trace.span("chat", attributes={"gen_ai.operation.name": "chat", **answer})
    else:  # The same failing test, by its name.
        result = "FAILED tests/test_a.py::test_b - x\n1 failed, 9 passed in 1.2s"
        for number in range(8):
            _tool(trace, {"n": number}, result)
    spans = spans_of(trace)

    full, redact_texts, hashes = (
        {found[0] for found in findings(with_content(spans, content, KEY))} for content in CONTENTS
    )
    assert rule in full & redact_texts
    assert rule not in hashes


def test_hashes_hold_no_words() -> None:
    """P17: a policy of hashes keeps no word of arguments, results, messages and errors."""
    trace = Trace(session_key="session.id")
    said = ["Ada Lovelace", "the secret plan", "what she said", "boom went it"]
    attributes: dict[str, Value] = {
        "openinference.span.kind": "TOOL",
        "tool.name": "send_mail",
        "input.value": json.dumps({"to": said[0], "ssn": 123456789}),
        "output.value": said[1],
        "unknown.attribute": said[2],
    }
    trace.span("mail", None, attributes, [exception("E", said[3])], status="error", message=said[3])
    spans = spans_of(trace)

    told = with_content(spans, "hashes", KEY).write_json()

    assert [word for word in (*said, "123456789") if word in told] == []
    assert all(word in spans.write_json() for word in (*said, "123456789"))
    assert all(word in told for word in ("send_mail", "s1", "ssn", "hash:"))


def one_call(arguments: str, result: str) -> pl.DataFrame:
    """Return the span of a call."""
    trace = Trace()
    trace.span("run", attributes=tool_call("run", json.dumps({"code": arguments}), result=result))
    return spans_of(trace)


LONG = "".join(f"line {number}\n" for number in range(1_000))


@pytest.mark.parametrize("content", ["redacted", "hashes"])
@pytest.mark.parametrize(
    ("first", "second", "call_same", "outcome_same"),
    [
        ("line 500", "line 500", True, True),
        ("line 500", "line 5000", False, False),
        ("at 2026-01-01 09:59:59", "at 2026-01-01 10:00:01", False, True),
    ],
    ids=["the same", "another word", "another time"],
)
def test_long_texts_compare_as_they_did(
    content: Any, first: str, second: str, call_same: bool, outcome_same: bool
) -> None:
    """P17: two long texts that differ where they are cut differ still, unless only in a time."""
    texts = [LONG.replace("line 500", middle) for middle in (first, second)]
    one, other = (
        turns_of(with_content(one_call(text, text), content, KEY))[0].row(0, named=True)
        for text in texts
    )

    assert (one["call"] == other["call"]) is call_same
    assert (one["outcome"] == other["outcome"]) is outcome_same


def test_no_stored_text_is_long() -> None:
    """P17: a text is cut where it is longer than 2,048 bytes, and the cut is marked."""
    spans = with_content(one_call(LONG, LONG), "redacted", KEY)

    attributes = json.loads(spans["attributes"][0])
    kept = attributes["gen_ai.tool.call.result"]
    assert len(kept.encode()) <= TEXT_BYTES_MAX
    assert "[cut hash:" in kept
    assert with_content(spans, "redacted", KEY).equals(spans)


def test_the_key_is_drawn_once_for_its_owner_alone(tmp_path: Path) -> None:
    """P17: hashes that anyone can make can be guessed."""
    key = content_key(tmp_path)
    path = tmp_path / "looptrace-store.key"

    assert content_key(tmp_path) == key != content_key_elsewhere(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600

    path.write_bytes(b"short")
    with pytest.raises(StoreError, match="is not the key of this store"):
        content_key(tmp_path)


def content_key_elsewhere(tmp_path: Path) -> bytes:
    """Return the key of another store."""
    other = tmp_path.with_name("other store")
    other.mkdir()
    return content_key(other)


def test_no_spans_are_no_trouble() -> None:
    """A request may hold none."""
    for content in ("full", "redacted", "hashes"):
        empty = SPAN_SCHEMA.to_frame()
        assert with_content(empty, content, KEY).equals(empty)
