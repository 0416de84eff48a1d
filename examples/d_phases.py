"""D. Phases: to and fro between two phases, one way too often, and one phase too often.

`oscillates` goes fix, test, fix, test. `transits` goes from fix to test six times, with other
phases in between. `visits` comes back to test eleven times, each time from elsewhere. `once` passes
through each phase once, which is no loop.
"""

from pathlib import Path

from examples.recorder import Recorder, tell


def go_through(record: Recorder, task: str, phases: str) -> None:
    """Record one call in each phase; no call is like another."""
    with record.agent("coder", {"looptrace.task.id": task}):
        for number, phase in enumerate(phases.split()):
            call = {"step": f"{phase} {number}"}
            record.tool("work", call, f"part {number}", attributes={"looptrace.phase": phase})


def work(record: Recorder) -> None:
    """Record four tasks of one agent."""
    go_through(record, "oscillates", "fix test " * 6)
    go_through(record, "transits", "fix test plan fix test docs " * 3)
    go_through(record, "visits", "fix test plan test docs test review test " * 3)
    go_through(record, "once", "plan design fix test review docs release")


if __name__ == "__main__":
    tell(work, Path(__file__).stem)
