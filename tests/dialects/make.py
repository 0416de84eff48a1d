"""Writes the examples of this folder: `python -m tests.dialects.make`, from the project's root.

Running it again changes nothing. The shapes were read off the producers' sources, which the table
names; tools, words and ids are our own.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.dialects import coding, conventions, frameworks
from tests.dialects.work import LOOP, OTHER, SESSION

FOLDER = Path(__file__).parent


def main() -> None:
    """Write two examples of each producer, a span a line."""
    writers = conventions.WRITERS | coding.WRITERS | frameworks.WRITERS
    for name, write in writers.items():
        for end, calls in (("", LOOP), ("-ok", OTHER)):
            trace = write(calls)
            text = json.dumps(trace.request(), ensure_ascii=False)
            if end:  # The other work is done in another session.
                text = text.replace(SESSION, SESSION + end)
                text = text.replace(trace.trace_id, trace.trace_id[::-1])
            text = text.replace('{"traceId"', '\n{"traceId"')
            (FOLDER / f"{name}{end}.json").write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
