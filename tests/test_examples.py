from __future__ import annotations

import gzip
from pathlib import Path

from examples.make_traces import TRACES, write


def _contents(directory: Path) -> dict[str, bytes]:
    """Read all files; packed ones unpacked, because zlib's versions pack differently."""
    files = {path.name: path.read_bytes() for path in sorted(directory.iterdir())}
    return {
        name: gzip.decompress(content) if name.endswith(".gz") else content
        for name, content in files.items()
    }


def test_example_traces_are_what_the_script_writes(tmp_path: Path) -> None:
    """A trace edited by hand, or a script changed without running it, would show here."""
    write(tmp_path)
    assert _contents(tmp_path) == _contents(TRACES)


def test_readme_lists_every_example_trace() -> None:
    """The table in the examples' README is how a reader knows what looptrace should say."""
    readme = (TRACES.parent / "README.md").read_text(encoding="utf-8")
    missing = [path.name for path in TRACES.iterdir() if f"`{path.name}`" not in readme]
    assert missing == []
