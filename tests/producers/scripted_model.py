"""A model on loopback that answers by a script, in the form of OpenAI's chat completions.

The name of the model is the script. The step is the number of answers that a request already has,
so the server keeps no state.
"""

import json
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

ATTEMPTS = 6
PATH = "tests/test_cart.py"


class Answer(NamedTuple):
    """What the model says, and the call that it asks for."""

    text: str
    tool: str = ""
    arguments: Mapping[str, str] = {}


AGAIN = Answer("Let me try running the tests again.", "run_tests", {"path": PATH})
SCRIPTS: Mapping[str, Sequence[Answer]] = {
    "loop": (*[AGAIN] * ATTEMPTS, Answer("The tests still fail.")),
    "ok": (
        Answer("I read the cart.", "read_file", {"path": "cart.py"}),
        Answer("I add the tax.", "edit_file", {"path": "cart.py", "text": "total += tax"}),
        Answer("I run the tests.", "run_tests", {"path": PATH}),
        Answer("The tests pass now."),
    ),
}


def completion(request: Mapping[str, Any]) -> dict[str, Any]:
    """Return the next answer of the script that a request names."""
    answered = sum(message["role"] == "assistant" for message in request["messages"])
    answer = SCRIPTS[request["model"]][answered]
    message: dict[str, Any] = {"role": "assistant", "content": answer.text}
    if answer.tool:
        function = {"name": answer.tool, "arguments": json.dumps(answer.arguments)}
        call = {"id": f"call_{answered + 1}", "type": "function", "function": function}
        message["tool_calls"] = [call]
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "tool_calls" if answer.tool else "stop",
    }
    given, said = 100 + 40 * answered, 20 + answered
    return {
        "id": f"chatcmpl-{answered + 1}",
        "object": "chat.completion",
        "created": 1_790_000_000 + answered,
        "model": request["model"],
        "choices": [choice],
        "usage": {"prompt_tokens": given, "completion_tokens": said, "total_tokens": given + said},
    }


def chunks(whole: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a completion as the parts of a stream."""
    (choice,) = whole["choices"]
    calls = [{"index": i, **call} for i, call in enumerate(choice["message"].get("tool_calls", ()))]
    delta = {**choice["message"], **({"tool_calls": calls} if calls else {})}
    common = {**whole, "object": "chat.completion.chunk"}
    first = {"index": 0, "delta": delta, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}
    return [
        {**common, "choices": [first], "usage": None},
        {**common, "choices": [last], "usage": None},
        {**common, "choices": []},
    ]


class ModelHandler(BaseHTTPRequestHandler):
    """Answers requests for completions; a subclass answers others."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        """Answer a request."""
        body = self._body()
        if self.path.endswith("/chat/completions"):
            self._complete(json.loads(body))
        else:
            self.handle_other(body)

    @abstractmethod
    def handle_other(self, body: bytes) -> None:
        """Answer a request that is not the model's."""

    def _complete(self, request: Mapping[str, Any]) -> None:
        whole = completion(request)
        if request.get("stream"):
            parts = [*map(json.dumps, chunks(whole)), "[DONE]"]
            self.answer("text/event-stream", "".join(f"data: {p}\n\n" for p in parts).encode())
        else:
            self.answer("application/json", json.dumps(whole).encode())

    def answer(self, content_type: str, body: bytes, status: int = 200) -> None:
        """Send an answer."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _body(self) -> bytes:
        """Return the body of the request, of a known length or in pieces."""
        if self.headers.get("Transfer-Encoding", "") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        pieces: list[bytes] = []
        while size := int(self.rfile.readline().partition(b";")[0], 16):
            pieces.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(pieces)

    def log_message(self, *_: Any) -> None:
        """Print no line for each request."""
