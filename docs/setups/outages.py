"""Write seven sessions that one failing service stops."""

from pathlib import Path

from examples.recorder import Recorder

Path("traces").mkdir()
for number in range(7):
    record = Recorder(f"session-{number}")
    with record.agent("fetcher", {}):
        for _ in range(4):
            record.tool("fetch", {"page": "news"}, error="HTTPError: 503 Service Unavailable")
    trace = record.otlp_json().replace('"traceId": "0000', f'"traceId": "{number:04}')
    Path(f"traces/{number}.json").write_text(trace)
