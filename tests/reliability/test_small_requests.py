"""P7: what a server costs depends on the spans, and hardly on how many requests they are."""

import json
from pathlib import Path

from tests.otlp import Trace
from tests.reliability.serving import served, until

SPANS = 3_000
# As many spans in small requests may cost so many times as much as they do in large ones; HTTP
# alone takes some 2 ms a request.
RATIO_MAX = 8


def requests_of(spans_each: int) -> list[bytes]:
    """Return requests with so many spans each, and together SPANS."""
    requests = []
    for number in range(SPANS // spans_each):
        trace = Trace(f"session-{spans_each}-{number}")
        for call in range(spans_each):
            trace.span(f"call {call}", attributes={"gen_ai.tool.name": f"tool-{call}"})
        requests.append(json.dumps(trace.request()).encode())
    return requests


def cost_s(store_dir: Path, spans_each: int) -> tuple[float, int]:
    """Return the processor time for receiving, judging and storing, and the rows of the log."""
    with served(store_dir, "--no-grpc", config="[server]\nstore_every_s = 2\n") as server:
        until(lambda: server.number("looptrace_detection_is_current") == 1)
        before_s = server.cpu_s
        server.send_all(requests_of(spans_each))
        until(lambda: server.number("looptrace_storing_spans_total") == SPANS)
        return server.cpu_s - before_s, int(server.number("looptrace_storing_seq"))


def test_small_requests_cost_little_more_than_large_ones(tmp_path: Path) -> None:
    """P7: spans in batches of 5 share what is paid once for a block."""
    large_s, _ = cost_s(tmp_path / "large", 500)
    small_s, rows = cost_s(tmp_path / "small", 5)
    assert rows < SPANS / 5 / 3
    assert small_s < RATIO_MAX * large_s, f"{small_s:.1f} s and {large_s:.1f} s"
