"""Write the spans of two tasks of one session, with tokens."""

import json
from pathlib import Path


def text(key, value):
    kind = "intValue" if isinstance(value, int) else "stringValue"
    return {"key": key, "value": {kind: str(value)}}


lines = []
for number in range(12):
    task = ("plan", "search")[number % 2]
    end_ns = (1764147600 + number) * 10**9
    attributes = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.conversation.id": "trip-7",
        "gen_ai.usage.input_tokens": 2000,
        "gen_ai.usage.output_tokens": 100,
        "looptrace.task.id": task,
    }
    span = {
        "traceId": f"{number % 2:032x}".replace("0", "a", 1),
        "spanId": f"{number:016x}".replace("0", "b", 1),
        "name": "chat gpt-4o",
        "startTimeUnixNano": str(end_ns - 10**9),
        "endTimeUnixNano": str(end_ns),
        "attributes": [text(*each) for each in attributes.items()],
    }
    resource = {"attributes": [text("service.name", "travel")]}
    spans = {"resource": resource, "scopeSpans": [{"spans": [span]}]}
    lines.append(json.dumps({"resourceSpans": [spans]}))
Path("trip.jsonl").write_text("\n".join(lines))
