"""Write 120 healthy traces, a tenth of a day and more apart."""

from pathlib import Path

from examples.recorder import Recorder

Path("traces").mkdir()
for number in range(120):
    record = Recorder(f"article-{number}")
    record.wait(number * 13_800)
    with record.agent("reader", {"looptrace.task.kind": "reading"}):
        for _ in range(3):
            record.tool("read_page", {"page": f"news-{number}"}, result="No news yet.")
    trace = record.otlp_json().replace('"traceId": "0000', f'"traceId": "{number:04}')
    Path(f"traces/{number}.json").write_text(trace)
