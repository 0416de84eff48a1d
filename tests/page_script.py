"""A page as a script: what a reader does who follows it to the letter.

    python -m tests.page_script docs/tutorial.md

runs a page in a folder of its own; pip finds a wheel that was built from the sources.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.paths import ROOT
from tests.wheels import built_wheel

_BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n+)?```(?P<form>\w+)\n(?P<text>.*?)^```$",
    re.DOTALL | re.MULTILINE,
)
TIMEOUT_S = 600


class PageError(Exception):
    """A command of a page failed."""


def script_of(page: str) -> str:
    """Return a script for bash: it writes the files of a page, and runs its commands and code."""
    parts = ["set -euo pipefail"]
    for number, block in enumerate(_BLOCK.finditer(page)):
        if block["file"]:
            end = f"END_OF_FILE_{number}"
            parts.append(f"cat > {block['file']} <<'{end}'\n{block['text']}{end}")
        elif block["form"] == "sh":
            parts.append(block["text"].rstrip())
        elif block["form"] == "python":
            parts.append(f"python - <<'END_OF_SCRIPT'\n{block['text']}END_OF_SCRIPT")
    return "\n".join(parts)


def run(script: str, folder: Path, **environment: str) -> str:
    """Run a script with bash in a folder; return what it printed.

    Raises:
        PageError: if a command of it failed; the message has what was printed.
    """
    # Whatever it left in the background ends with it.
    ends = "trap 'jobs -p | xargs --no-run-if-empty kill 2> /dev/null || true' EXIT"
    done = subprocess.run(
        ["bash", "-c", f"{ends}\n{script}"],
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )
    if done.returncode:
        raise PageError(f"{done.stdout}\nthe page returned {done.returncode}")
    return done.stdout


def main() -> None:
    """Run a page to the letter, and show what it prints."""
    page = (ROOT / sys.argv[1]).read_text(encoding="utf-8")
    with tempfile.TemporaryDirectory() as wheels, tempfile.TemporaryDirectory() as folder:
        built_wheel(Path(wheels))
        try:
            print(run(script_of(page), Path(folder), PIP_FIND_LINKS=wheels))
        except PageError as error:
            sys.exit(str(error))


if __name__ == "__main__":
    main()
