"""Distributions that offer plug-ins, as pip leaves them on the disk."""

from pathlib import Path

import pytest


def install_judges(
    folder: Path, monkeypatch: pytest.MonkeyPatch, module: str, **offered: str
) -> None:
    """Put a distribution with this module on the path; `offered` names judges in it."""
    name = folder.name
    metadata = folder / f"{name}-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / f"{name}_module.py").write_text(module)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = [f"{judge} = {name}_module:{what}" for judge, what in offered.items()]
    (metadata / "entry_points.txt").write_text("\n".join(["[looptrace.judges]", *lines]))
    monkeypatch.syspath_prepend(str(folder))
