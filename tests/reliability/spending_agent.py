"""An agent that spends 1,000 tokens with each response, until its gate is open.

Arguments: the address of a server, its task, seconds between responses, and most responses. Its
last line is the number of its responses.
"""

import sys
import time

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from looptrace.collector import LoopSpanProcessor


def main(address: str, task: str, pause_s: float, responses_max: int) -> int:
    """Respond until the gate is open, or often enough; return how often."""
    processor = LoopSpanProcessor.forward(f"http://{address}")
    provider = TracerProvider(resource=Resource.create({"service.name": "api"}))
    provider.add_span_processor(processor)
    tracer, gate, responses = provider.get_tracer("agents"), processor.gate(task), 0
    attributes: dict[str, str | int] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "gpt-4o",
        "gen_ai.conversation.id": task,
        "user.id": "ada",
        "gen_ai.usage.input_tokens": 1_000,
    }
    while responses < responses_max and not gate.check().open:
        with tracer.start_as_current_span("chat gpt-4o", attributes=attributes):
            responses += 1
        time.sleep(pause_s)
    provider.shutdown()
    return responses


if __name__ == "__main__":
    print(main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4])))
