"""B. Attempts: one task is blocked by the same thing, one is done again and again, one goes on.

`payments` is blocked three times: the agent is granted the authority to work around it. A fourth
time, and a person must decide. `release-notes` is done three times: the agent is told to take its
next task. `import` is attempted as often and goes forward each time, so nothing is said.
"""

from pathlib import Path

from examples.recorder import Recorder, tell


def work(record: Recorder) -> None:
    """Record the attempts of an autopilot at three tasks."""
    blocked = {
        "looptrace.task.id": "payments",
        "looptrace.task.status": "blocked",
        "looptrace.blockers": ["no key for the bank's sandbox"],
    }
    for _ in range(4):
        with record.agent("autopilot", blocked):
            record.wait(300)

    done = {"looptrace.task.id": "release-notes", "looptrace.task.status": "done"}
    for _ in range(3):
        with record.agent("autopilot", done):
            record.wait(60)

    for files in range(1, 6):
        attempt = {
            "looptrace.task.id": "import",
            "looptrace.task.status": "in_progress",
            "looptrace.completed_work": f"{files} of 5 files read",
        }
        with record.agent("autopilot", attempt):
            record.wait(120)


if __name__ == "__main__":
    tell(work, Path(__file__).stem)
