"""Exports that are bad in parts: each part costs itself alone, and a message says what to do."""

import json
import re
from copy import deepcopy
from io import BytesIO
from random import Random
from typing import Any

import polars as pl
import pytest

from looptrace.analyzer.engine.batch import analyse
from looptrace.analyzer.schema.turns import TOKEN_COLUMNS
from looptrace.collector.files.reader import read_spans
from looptrace.collector.importers.spans import time_ns
from looptrace.collector.otlp.span_rows import BadSpanError
from tests.collector.conftest import Write
from tests.collector.importers.exported_run import spans
from tests.collector.importers.exports import EXPORTS, IN_LINES, SAVED, SYSTEMS, text_of
from tests.seeds import seeds

HOSTILE: tuple[Any, ...] = (
    *("9999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1e999999999", 1 << 63, -(10**18), 1e308),
    *(None, True, 0, -1, "", "x", "\ud800", 2**70, -5.5, [], {}, [[]], [None], {"a": None}, ["a"]),
)


def problems(write: Write, text: bytes) -> list[tuple[str, str]]:
    """Read an export; return the places of its problems, and their reasons."""
    name = write("export.json", text)
    skipped = read_spans([name]).skipped
    return [(each.where.removeprefix(f"{name}:"), each.why) for each in skipped]


def test_a_bad_span_costs_itself_alone(write: Write) -> None:
    """The others of its trace are read."""
    trace = EXPORTS["jaeger"](spans("loop"))
    trace["data"][0]["spans"][3]["spanID"] = ""
    trace["data"][0]["spans"][4]["startTime"] = "noon"
    del trace["data"][0]["spans"][5]["traceID"]
    text = json.dumps(trace).encode()
    assert [where for where, _ in problems(write, text)] == ["1.data[0]"] * 3
    assert [why.split(":")[0] for _, why in problems(write, text)] == [
        f"spans[{index}] was left out" for index in (3, 4, 5)
    ]
    assert problems(write, text)[2][1] == (
        "spans[5] was left out: it has no 'traceID'; correct it or export it again"
    )
    assert read_spans([write("export.json", text)]).spans.height == len(spans("loop")) - 3


def test_a_line_that_is_no_record_is_reported(write: Write) -> None:
    """The lines around it are read."""
    lines = text_of("langsmith", "loop").splitlines()
    text = b"\n".join([lines[0], b'{"id": "x"}', b"[1]", b"{", *lines[1:]])
    said = problems(write, text)
    assert [where for where, _ in said] == ["2", "3[0]", "4"]
    assert said[0][1].startswith("this run of LangSmith was left out: it has no")
    assert read_spans([write("export.json", text)]).spans.height == len(lines)


UNREAD = {
    "jaeger": "1.data[0].spans[0].steps",
    "mlflow": "1.data.spans[0].steps",
    "langfuse": "1.observations[0].steps",
    "langfuse_page": "1.observations[0].steps",
    "langfuse_export": "1.steps",
    "phoenix": "1.data[0].steps",
    "langsmith": "1.steps",
    "langsmith_tree": "1.child_runs[0].steps",
    "weave": "1.steps",
    "braintrust": "1.events[0].steps",
    "zipkin": "1[0][0].steps",
}


@pytest.mark.parametrize("name", UNREAD)
def test_a_list_of_records_that_nothing_reads_is_reported(name: str, write: Write) -> None:
    """They were left out without a word, and half a trace with them."""
    export = EXPORTS[name](spans("loop"))
    record = export
    for part in UNREAD[name].replace("]", "").replace("[", ".").split(".")[1:-1]:
        record = record[int(part) if part.isdigit() else part]
    record = record[0] if isinstance(record, list) else record
    record["steps"] = [{"uid": 4, "name": "weigh", "started": "2026-04-07T08:00:00Z"}] * 2
    record["scores"] = [{"id": "s", "name": "good", "timestamp": "2026-04-07T08:00:00Z"}]
    is_list = name in IN_LINES
    text = "\n".join(map(json.dumps, export)) if is_list else json.dumps(export)
    assert problems(write, text.encode()) == [
        (
            UNREAD[name],
            "2 records here were not read: no form of them is known; export them as a list",
        )
    ]


def tokens(write: Write, export: Any) -> set[tuple[int | None, ...]]:
    """Return the tokens of the responses in an export: all, and their parts (`TOKEN_COLUMNS`)."""
    read = read_spans([write("export.json", json.dumps(export).encode())])
    turns = analyse(read.spans).turns.filter(kind="model")
    return set(turns.select(TOKEN_COLUMNS).rows())


def test_tokens_are_summed_as_langfuse_does(write: Write) -> None:
    """By the beginnings of their names; cached ones are input, thoughts are output."""
    trace = EXPORTS["langfuse"](spans("ok"))
    usage = {"input": 20, "input_cached_tokens": 100, "output": 9, "output_reasoning_tokens": 31}
    for each in trace["observations"]:
        each["usageDetails"] = usage | {"total": 160}
    assert tokens(write, trace) == {(120, 40, 100, None, 31)}


def test_tokens_of_a_run_may_be_those_of_its_message(write: Write) -> None:
    """A tree of runs has them nowhere else."""
    runs = EXPORTS["langsmith"](spans("ok"))
    for run in runs:
        if run["run_type"] == "llm":
            message = run["outputs"]["generations"][0][0]["message"]
            message["usage_metadata"] = {
                "input_tokens": 120,
                "output_tokens": 9,
                "input_token_details": {"cache_read": 100, "cache_creation": 5},
                "output_token_details": {"reasoning": 4},
            }
    assert tokens(write, runs) == {(120, 9, 100, 5, 4)}


def test_tokens_of_a_run_of_the_api_have_parts(write: Write) -> None:
    """The API sums them up in fields of its own."""
    runs = EXPORTS["langsmith"](spans("ok"))
    for run in runs:
        if run["run_type"] == "llm":
            run |= {"prompt_tokens": 120, "completion_tokens": 9, "total_tokens": 129}
            run["prompt_token_details"] = {"cache_read": 100}
            run["completion_token_details"] = {"reasoning": 4}
    assert tokens(write, runs) == {(120, 9, 100, None, 4)}


def test_tokens_of_mlflow_are_those_of_the_api(write: Write) -> None:
    """Anthropic counts what was cached beside the rest."""
    trace = EXPORTS["mlflow"](spans("ok"))
    usage = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 100}
    for span in trace["data"]["spans"]:
        span["attributes"]["mlflow.chat.tokenUsage"] = json.dumps(usage)
        span["attributes"]["mlflow.message.format"] = json.dumps("anthropic")
    assert tokens(write, trace) == {(120, 9, 100, None, None)}


def test_tokens_of_weave_have_the_parts_of_the_api(write: Write) -> None:
    """OpenAI counts what was cached or thought within the rest, and Anthropic beside it."""
    within = {
        "prompt_tokens": 120,
        "completion_tokens": 9,
        "prompt_tokens_details": {"cached_tokens": 100},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }
    beside = {"input_tokens": 20, "output_tokens": 9, "cache_read_input_tokens": 100}
    for usage, found in ((within, (120, 9, 100, None, 4)), (beside, (120, 9, 100, None, None))):
        calls = EXPORTS["weave"](spans("ok"))
        for call in calls:
            call["summary"] = {"usage": {"model": usage}}
        assert tokens(write, calls) == {found}


def test_tokens_of_openai_agents_may_be_those_of_a_turn(write: Write) -> None:
    """The SDK for JavaScript tells the usage of a response only where its turn ends."""
    export = EXPORTS["openai_agents"](spans("ok"))
    usage = {"input_tokens": 120, "output_tokens": 9, "cached_input_tokens": 100}
    data, told = {"sdk_span_type": "turn", "turn": 1, "usage": usage}, []
    for record in export["data"]:
        told.append(record)
        if record.get("span_data", {}).get("type") == "generation":
            turn = {"type": "custom", "name": "turn", "data": data}
            told.append({**record, "id": f"{record['id']}-turn", "span_data": turn})
            record["parent_id"] = f"{record['id']}-turn"
            record["span_data"] = {"type": "response", "response_id": "resp_1"}
    assert tokens(write, {"data": told}) == {(120, 9, 100, None, None)}

    told = [each for each in told if not str(each["id"]).endswith("-turn")]
    assert len(read_spans([write("export.json", json.dumps(told).encode())]).spans) == len(told) - 1


def test_tokens_of_braintrust_have_parts(write: Write) -> None:
    """Its clients sum the input up."""
    export = EXPORTS["braintrust"](spans("ok"))
    for span in export["events"]:
        span.setdefault("metrics", {}).update(
            {"prompt_tokens": 120, "completion_tokens": 9, "prompt_cached_tokens": 100}
        )
        span["metadata"] = (span.get("metadata") or {}) | {"provider": "anthropic"}
    assert tokens(write, export) == {(120, 9, 100, None, None)}


def test_records_beside_others_are_read(write: Write) -> None:
    """An object may hold its records under several names."""
    runs = EXPORTS["langsmith"](spans("loop"))
    text = json.dumps({"runs": runs[:3], "more_runs": runs[3:]}).encode()
    assert problems(write, text) == []
    assert read_spans([write("export.json", text)]).spans.height == len(runs)


def test_a_list_of_ids_says_what_to_export(write: Write) -> None:
    """Langfuse's list of traces names its observations only."""
    text = json.dumps({"data": [{"id": "t", "sessionId": "s", "observations": ["a", "b"]}]})
    assert [why for _, why in problems(write, text.encode())] == [
        f"observations[{index}] was left out: it has only the ids of observations; export each "
        "trace, or the observations; correct it or export it again"
        for index in (0, 1)
    ]


def test_an_empty_export_says_so(write: Write) -> None:
    """A list that an API answers may be empty."""
    for text in (b'{"data": [], "total": 0}', b'{"runs": []}'):
        ((where, why),) = problems(write, text)
        assert (where, why.split(":")[0]) == ("1", "the export is empty")


def test_numbers_that_json_has_not_are_read(write: Write) -> None:
    """Python writes NaN and Infinity."""
    text = text_of("braintrust", "loop").replace(b'"metrics": {', b'"metrics": {"score": NaN, ')
    assert b"NaN" in text
    assert problems(write, text) == []


def test_runs_without_a_name_stay_apart(write: Write) -> None:
    """Two trajectories in a folder are two tasks."""
    for name in ("swe_agent", "mini_swe_agent", "openhands"):
        paths = [write(f"{name}-{end}.json", text_of(name, end)) for end in ("loop", "ok")]
        if name == "openhands":  # Sessions begin at other times.
            later = text_of(name, "ok").replace(b"T08:", b"T09:")
            paths[1] = write("openhands-ok.json", later)
        read = read_spans(paths)
        assert read.skipped == ()
        assert analyse(read.spans).turns["task"].n_unique() == 2


@pytest.mark.parametrize("name", ["phoenix_frame", "langsmith"])
def test_a_table_is_read(name: str, write: Write) -> None:
    """Parquet says the same as lines; times may be times, and absent values are null."""
    lines = pl.DataFrame(EXPORTS[name](spans("loop")), infer_schema_length=None)
    table = BytesIO()
    lines.with_columns(
        pl.col("start_time", "end_time").str.to_datetime(time_zone="UTC")
    ).write_parquet(table)
    read = read_spans([write("spans.parquet", table.getvalue())])
    assert read.skipped == ()
    attempts = {each.rule: each.attempts for each in analyse(read.spans).findings}
    assert attempts["repeated_call"] == 5


def test_another_table_is_none(write: Write) -> None:
    """It is named by its columns; one that is cut off cannot be read."""
    table = BytesIO()
    pl.DataFrame({"price": [1.5]}).write_parquet(table)
    said = [
        read_spans([write("x.parquet", data)]).skipped
        for data in (table.getvalue(), table.getvalue()[:-9])
    ]
    assert said[0][0].why.endswith("(docs/inputs.md): it has price")
    assert said[1][0].why.startswith("cannot be read: ")


@pytest.mark.parametrize("seed", seeds(16))
@pytest.mark.parametrize("name", SYSTEMS | SAVED)
def test_whatever_an_export_holds_nothing_is_raised(name: str, seed: int, write: Write) -> None:
    """Values are replaced and left out at random places."""
    random = Random(f"{name}-{seed}")
    text = text_of(name, "loop")
    documents = [json.loads(line) for line in (text.splitlines() if name in IN_LINES else [text])]
    for _ in range(3):
        mutate(documents, random)
    mutated = "\n".join(map(json.dumps, documents)).encode()
    analyse(read_spans([write("export.json", mutated)]).spans)


def mutate(value: Any, random: Random) -> None:
    """Replace or leave out one value somewhere within another."""
    holder, key = random.choice(list(places(value)))
    if isinstance(holder, dict) and random.random() < 0.2:
        del holder[key]
    else:
        holder[key] = deepcopy(random.choice(HOSTILE))  # A later change is within it.


def places(value: Any) -> Any:
    """Yield each place within a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, held in items:
        yield value, key
        if isinstance(held, dict | list):
            yield from places(held)


SECOND_NS = 1_000_000_000


@pytest.mark.parametrize(
    ("value", "at_ns"),
    [
        (1_700_000_000, 1_700_000_000 * SECOND_NS),
        (1_700_000_000.5, 1_700_000_000 * SECOND_NS + SECOND_NS // 2),
        ("1700000000123", 1_700_000_000_123 * 1_000_000),
        (1_700_000_000_123_456, 1_700_000_000_123_456_000),
        ("1.7e18", 1_700_000_000 * SECOND_NS),
        ("2023-11-14T22:13:20Z", 1_700_000_000 * SECOND_NS),
        *((none, 0) for none in ("", None, 0, -1, "0001-01-01T00:00:00Z")),
    ],
)
def test_a_time_may_have_any_unit(value: object, at_ns: int) -> None:
    """Its size shows it. Go writes the year 1 where there is no time, and others -1."""
    assert time_ns(value) == at_ns


@pytest.mark.parametrize(
    "value",
    [2**63 - 1, 2**70, 10**400, 99e15, "1e999999999", float("nan"), -float("inf"), True, []],
)
def test_what_is_no_time_is_refused_where_it_stands(value: object) -> None:
    """Else the row of a later line would have no place, and the whole source would be lost."""
    with pytest.raises(BadSpanError, match="expected a time before 2262"):
        time_ns(value)


@pytest.mark.parametrize("name", ["qwen_stream", "droid_stream", "copilot_stream", "cline_stream"])
def test_a_count_that_is_no_number_costs_no_other_line(name: str, write: Write) -> None:
    """It is reported where it stands, and not at the line that completes its response."""
    lines = text_of(name, "loop").splitlines()
    whole = read_spans([write("whole.jsonl", b"\n".join(lines))]).spans.height
    count = re.compile(rb'((?:outputTokens|put_tokens)": ?)\d+')
    at = next(at for at, line in enumerate(lines) if count.search(line))
    lines[at] = count.sub(rb'\1"many"', lines[at])
    read = read_spans([write("bad.jsonl", b"\n".join(lines))])

    (skipped,) = read.skipped
    assert skipped.where == f"bad.jsonl:{at + 1}"
    assert whole - read.spans.height <= 1


@pytest.mark.parametrize(
    "line",
    [
        {"role": "user", "content": "Go.", "created_at": "soon"},
        {**dict.fromkeys(("uuid", "parentUuid", "cwd", "version"), "1"), "type": "user",
            "sessionId": "s", "timestamp": "soon", "message": {"role": "user", "parts": []}},
    ],
)  # fmt: skip
def test_a_bad_time_of_a_message_is_reported(line: dict[str, object], write: Write) -> None:
    """Messages become rows at the end of a source, where an error would end the reading of all."""
    read = read_spans([write("chat.jsonl", json.dumps(line).encode())])
    (skipped,) = read.skipped
    assert "expected a time before 2262, found 'soon'" in skipped.why
