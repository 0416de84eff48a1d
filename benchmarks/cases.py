"""Public cases: what people's agents and tools really wrote, with the right verdict of each.

A case is a folder with `want.json` (`source`, `verdict`, and for a loop the `names` of which a
finding must have one) beside the files to analyse. A shape is one file of spans in `shapes`, or a
folder whose files belong together; each of them is a loop.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click

from looptrace.analyzer.engine.batch import analyse
from looptrace.collector.files.reader import read_spans

WANTED = "want.json"
SHAPES = "shapes"
# The rules on what an agent meets and does not cause.
OUTAGES = ("model_outage", "external_failure")

Outcome = Literal["right", "wrong", "missed"]


@dataclass(frozen=True, slots=True)
class Case:
    """One case: its files, the right verdict, and the names of which a loop's finding has one."""

    name: str
    paths: tuple[Path, ...]
    is_loop: bool
    names: tuple[str, ...]
    source: str


@dataclass(frozen=True, slots=True)
class Result:
    """A case with what was found: the sentences of the findings, and how that is judged."""

    case: Case
    found: tuple[str, ...]

    @property
    def outcome(self) -> Outcome:
        """Return whether the verdict is right, a false alarm or another loop, or a missed one.

        A healthy agent may meet an outage, which is no loop of its own.
        """
        if not self.case.is_loop:
            loops = [text for text in self.found if not text.startswith(OUTAGES)]
            return "wrong" if loops else "right"
        if not self.found:
            return "missed"
        names = self.case.names
        named = any(name in text for name in names for text in self.found)
        return "right" if named or not names else "wrong"


def cases(folder: Path) -> Iterator[Case]:
    """Yield the cases of a folder, then its shapes, by name."""
    for wanted in sorted(folder.glob(f"*/{WANTED}")):
        want = json.loads(wanted.read_text(encoding="utf-8"))
        files = tuple(sorted(path for path in wanted.parent.iterdir() if path != wanted))
        is_loop = want["verdict"] == "loop"
        yield Case(wanted.parent.name, files, is_loop, tuple(want.get("names", ())), want["source"])
    for shape in sorted((folder / SHAPES).glob("*")):
        files = tuple(sorted(shape.iterdir())) if shape.is_dir() else (shape,)
        yield Case(f"{SHAPES}/{shape.stem}", files, True, (), "")


def result_of(case: Case) -> Result:
    """Analyse the files of a case with the defaults."""
    found = analyse(read_spans([str(path) for path in case.paths]).spans)
    return Result(case, tuple(f"{each.rule}: {each.reason}" for each in found.findings))


def as_json(results: list[Result]) -> str:
    """Write each case with the right verdict, its outcome, and the source; a shape has none."""
    rows = [
        {
            "case": result.case.name,
            "right": "a loop" if result.case.is_loop else "healthy",
            "outcome": result.outcome,
            "source": re.split(r"[;(,]", result.case.source)[0].strip(),
        }
        for result in results
    ]
    return json.dumps(rows, indent=2, ensure_ascii=False)


@click.command()
@click.option("--data", type=click.Path(exists=True, path_type=Path), required=True)
@click.option("--json", "is_json", is_flag=True, help="Write docs/quality_cases.json.")
def main(data: Path, is_json: bool) -> None:
    """Print each case with its outcome, and what was found."""
    results = [result_of(case) for case in cases(data)]
    right = sum(result.outcome == "right" for result in results)
    if is_json:
        click.echo(as_json(results))
        return
    for result in results:
        click.echo(f"{result.outcome:7} {result.case.name}: {'; '.join(result.found)[:200]}")
    click.echo(f"{right} of {len(results)} are right")


if __name__ == "__main__":
    main()
