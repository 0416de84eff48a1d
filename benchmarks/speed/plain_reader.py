"""A plain reader before the plain loop: what one would write first for files of OTLP.

Spans become objects of protobuf, or dictionaries of JSON, one after the other; of each only what
the four rules compare is kept, as it is written: no name is masked, no dialect is guessed span by
span, nothing is bounded, and bad input ends it. `python -m benchmarks.speed.plain_reader FILE...`
prints how many spans and loops it found.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from opentelemetry.proto.trace.v1.trace_pb2 import TracesData

from benchmarks import plain

# A file of messages has the length of each before it, in so many bytes.
PREFIX_BYTES = 4
ERROR = 2

# By what a span says of its kind.
_KINDS = {
    "execute_tool": "tool",
    "chat": "model",  # GenAI
    "TOOL": "tool",
    "LLM": "model",  # OpenInference
}
# Where each dialect has the session, a tool's name, arguments and result.
_SESSION = ("gen_ai.conversation.id", "session.id")
_NAME = ("gen_ai.tool.name", "tool.name")
_ARGUMENTS = ("gen_ai.tool.call.arguments", "input.value")
_RESULT = ("gen_ai.tool.call.result", "output.value")

Attributes = dict[str, Any]


class Codes(dict[object, int]):
    """A number for each thing, from 1; None is 0, which is unknown."""

    def __missing__(self, thing: object) -> int:
        code = self[thing] = len(self) + 1 if thing is not None else plain.UNKNOWN
        return code


def protobuf_spans(data: bytes) -> Iterator[tuple[int, bool, Attributes]]:
    """Return the end, the failure and the attributes of each span of a message."""
    for resource in TracesData.FromString(data).resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                attributes = {a.key: _value(a.value) for a in span.attributes}
                yield span.end_time_unix_nano, span.status.code == ERROR, attributes


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None


def json_spans(line: bytes) -> Iterator[tuple[int, bool, Attributes]]:
    """Return the same of a line of OTLP/JSON."""
    for resource in json.loads(line)["resourceSpans"]:
        for scope in resource["scopeSpans"]:
            for span in scope["spans"]:
                attributes = {a["key"]: next(iter(a["value"].values())) for a in span["attributes"]}
                failed = span.get("status", {}).get("code") == ERROR
                yield int(span["endTimeUnixNano"]), failed, attributes


def spans_of(path: Path) -> Iterator[tuple[int, bool, Attributes]]:
    """Return the spans of a file of JSON lines, or of messages after their lengths."""
    with path.open("rb") as file:
        if path.suffix == ".jsonl":
            for line in file:
                yield from json_spans(line)
            return
        while head := file.read(PREFIX_BYTES):
            yield from protobuf_spans(file.read(int.from_bytes(head, "big")))


class Reader:
    """Makes a row of each span, with codes that are equal where its texts are."""

    def __init__(self) -> None:
        self.codes = Codes()
        self.turns: dict[str, int] = {}
        self.news: dict[str, object] = {}  # the last result of each session

    def row(self, end_ns: int, failed: bool, attributes: Attributes) -> plain.Row | None:
        """Return the row of a tool's or a model's span; None of others."""
        by = attributes.get("gen_ai.operation.name") or attributes.get("openinference.span.kind")
        kind = _KINDS.get(str(by))
        session = _first(attributes, _SESSION)
        if kind is None or session is None:
            return None
        turn = self.turns[session] = self.turns.get(session, 0) + 1
        call = outcome = signature = response = plain.UNKNOWN
        if kind == "tool":
            name, result = _first(attributes, _NAME), _first(attributes, _RESULT)
            call = self.codes[name, _first(attributes, _ARGUMENTS)]
            outcome = self.codes[failed, result]
            signature = self.codes[name, outcome]
            self.news[session] = result
        else:
            response = self.codes[_answer(attributes)]
            call = self.codes[self.news.get(session)]
        codes = (call, outcome, signature, response)
        # No call looks, so that its start does not matter.
        return (session, "", kind, turn, *codes, False, False, failed, end_ns, end_ns)


def _first(attributes: Attributes, keys: tuple[str, ...]) -> Any:
    return next((attributes[key] for key in keys if key in attributes), None)


def _answer(attributes: Attributes) -> str | None:
    """Return the text of a model's last message."""
    if written := attributes.get("gen_ai.output.messages"):
        parts = json.loads(written)[-1]["parts"]
        return next((part["content"] for part in parts if part["type"] == "text"), None)
    keys = [key for key in attributes if key.startswith("llm.output_messages.")]
    return next((attributes[key] for key in keys if key.endswith(".message.content")), None)


def read_loops(
    spans: Iterable[tuple[int, bool, Attributes]], settings: plain.Settings
) -> list[plain.Loop]:
    """Return the loops of spans in any order."""
    reader = Reader()
    ordered = sorted(spans, key=lambda span: span[0])
    rows = [row for span in ordered if (row := reader.row(*span))]
    rows.sort(key=lambda row: (row[0], row[3]))
    return plain.loops(rows, settings)


def main() -> None:
    """Read files, and print what was found."""
    spans = [span for path in sys.argv[1:] for span in spans_of(Path(path))]
    print(json.dumps({"spans": len(spans), "loops": len(read_loops(spans, plain.DEFAULT))}))


if __name__ == "__main__":
    main()
