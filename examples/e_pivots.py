"""E. Pivots: the same response to the same failure, until a person must decide.

In `stuck` a check rejects a model's answer, which comes again. At the third and the sixth time the
agent is told to try another approach; it does not, and at the ninth a gate opens. In `recovers` the
check accepts an answer in between, and the count begins anew.
"""

from pathlib import Path

from examples.recorder import Recorder, tell

ANSWER = "I add a null check in login()."
REJECTED = "The tests still fail: login() returns None. Try again."


def work(record: Recorder) -> None:
    """Record two tasks of one agent."""
    with record.agent("coder", {"looptrace.task.id": "stuck"}):
        for _ in range(10):
            record.response(ANSWER, given=REJECTED)

    with record.agent("coder", {"looptrace.task.id": "recovers"}):
        for _ in range(2):
            record.response(ANSWER, given=REJECTED)
        record.response("Then the next test.", given="All tests pass.")
        for _ in range(2):
            record.response(ANSWER, given=REJECTED)


if __name__ == "__main__":
    tell(work, Path(__file__).stem)
