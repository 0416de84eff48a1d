"""How often the right note is among the first three, by signature alone and by words as well.

Half of the gates have a note. For each of the other half whose cause has a note, the notes that its
gate would show are looked at: is one of the same cause among the first three? The causes are those
of made-up incidents (`CAUSES`), whose tools, arguments and messages vary, and, with `--data`, the
problems of InterCode, which several runs tried.

    python -m benchmarks.near_notes --data ../shared/labelled
"""

import argparse
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from benchmarks.labelled import labelled_runs
from looptrace.analyzer.engine.batch import detect
from looptrace.analyzer.gates.events import GateEvent
from looptrace.analyzer.gates.near_notes import distances, words_of
from looptrace.analyzer.gates.notes import ResolutionNote, Signs, notes_like
from looptrace.analyzer.settings.sections import default
from looptrace.analyzer.testing.notation import tasks_in
from looptrace.analyzer.text.digests import digest

SHOWN = 3
SPLITS = 20
VARIANTS = 8
TIMES = 6
_SQL = "ic_sql"

# By cause: tools, arguments, and messages, each in the words of several programs.
CAUSES: dict[str, tuple[Sequence[str], Sequence[str], Sequence[str]]] = {
    "lock": (
        ("psql", "migrate", "run_sql"),
        ("alter table orders_{n}", "create index on orders_{n}", "vacuum orders_{n}"),
        (
            "ERROR: could not obtain lock on relation orders_{n}",
            "lock timeout: relation orders_{n} is locked by process {n}",
            "deadlock detected while waiting for lock on orders_{n}",
        ),
    ),
    "quota": (
        ("search_web", "fetch", "http_get"),
        ("weather in city {n}", "https://api.example/v1/{n}", "page {n}"),
        (
            "429 Too Many Requests: daily quota exceeded",
            "Quota exceeded for this project, resets at midnight",
            "rate limit: the daily quota of 1000 requests is used up",
        ),
    ),
    "credentials": (
        ("deploy", "kubectl", "push_image"),
        ("service-{n}", "apply -f pod{n}.yaml", "registry/app:{n}"),
        (
            "403 Forbidden: token has expired",
            "Unauthorized: the access token expired {n} minutes ago",
            "denied: your authorization token has expired, login again",
        ),
    ),
    "module": (
        ("pytest", "run_tests", "python"),
        ("tests/test_{n}.py", "module_{n}", "-m app.part{n}"),
        (
            "ModuleNotFoundError: No module named yaml_{n}",
            "ImportError: cannot import name loader from yaml_{n}",
            "No module named yaml_{n}; is it installed?",
        ),
    ),
    "disk": (
        ("write_file", "docker_build", "save"),
        ("/data/out_{n}.csv", "image-{n}", "report {n}"),
        (
            "OSError: No space left on device: /data",
            "write /data/tmp{n}: no space left on device",
            "disk full: cannot write {n} bytes to /data",
        ),
    ),
    "encoding": (
        ("read_csv", "load", "parse_file"),
        ("customers_{n}.csv", "export{n}.txt", "batch {n}"),
        (
            "UnicodeDecodeError: utf-8 codec cannot decode byte 0xe4 in position {n}",
            "invalid UTF-8 byte sequence at line {n}: 0xe4",
            "cannot decode byte 0xfc as utf-8 (line {n})",
        ),
    ),
    "column": (
        ("psql", "run_sql", "query"),
        (
            "select customer_name from t{n}",
            "select customername, {n}",
            "order by customer_name {n}",
        ),
        (
            "ERROR: column customer_name does not exist in t{n}",
            "Unknown column customer_name in field list",
            "no such column: customer_name",
        ),
    ),
    "merge": (
        ("git", "git_push", "merge_branch"),
        ("push origin feature-{n}", "feature-{n}", "main into feature-{n}"),
        (
            "rejected: non-fast-forward, fetch first",
            "Updates were rejected because the remote contains work; pull first",
            "merge conflict in src/part{n}.py; pull and rebase first",
        ),
    ),
    "selector": (
        ("click", "browser_click", "press"),
        ("#submit-{n}", "button.save", "Save order {n}"),
        (
            "element #submit-{n} is not visible: covered by a cookie banner",
            "click intercepted by div.cookie-banner",
            "timeout: cookie banner covers the element",
        ),
    ),
    "timezone": (
        ("book", "create_event", "schedule"),
        ("2026-03-0{n}T10:00", "meeting {n} at 10", "slot {n}"),
        (
            "start must have a time zone offset",
            "invalid datetime: missing timezone in start",
            "400: start has no UTC offset (event {n})",
        ),
    ),
    "address": (
        ("ship_order", "create_label", "validate"),
        ("order {n}", "parcel-{n}", "customer {n}"),
        (
            "postal code does not match the country of order {n}",
            "invalid address: postcode and country differ",
            "422: postal_code not valid for country DE",
        ),
    ),
    "context": (
        ("summarize", "ask_model", "complete"),
        ("document {n}", "chapter-{n}.txt", "notes {n}"),
        (
            "maximum context length is 8192 tokens, got {n}00000",
            "prompt is too long: {n}00000 tokens exceed the context",
            "400: input exceeds the context window of the model",
        ),
    ),
}


@dataclass(frozen=True, slots=True)
class Incident:
    """A gate, and its cause: the right note is any of the same cause."""

    cause: str
    opening: GateEvent


Shown = Callable[[GateEvent, Sequence[Incident]], list[int]]


def made_up(seed: int) -> list[Incident]:
    """Return incidents of each cause, with other tools, arguments, messages and numbers."""
    chance = random.Random(seed)
    texts = {}
    for cause, (tools, arguments, messages) in CAUSES.items():
        for number in range(VARIANTS):
            n = str(chance.randint(1, 999))
            tool, argument, message = map(chance.choice, (tools, arguments, messages))
            call = f'{tool}("{argument}")->!"{message}" x{TIMES}'
            texts[f"{cause} {number}"] = call.replace("{n}", n)
    return _incidents(tasks_in(texts), lambda task: task.partition(" ")[0])


def of_intercode(folder: Path) -> list[Incident]:
    """Return the gates of real runs; what several runs tried is one cause."""
    (runs,) = [runs for runs in labelled_runs(folder) if runs.name == "intercode"]
    turns = runs.turns
    sessions = dict(turns.select("task", "session").unique().iter_rows())

    def problem(task: str) -> str:
        form, _, number = str(sessions.get(task, task)).rpartition(":")
        return f"{'sql' if form.startswith(_SQL) else 'bash'} {number.partition('@')[0]}"

    return _incidents(turns, problem)


def _incidents(turns: pl.DataFrame, cause_of: Callable[[str], str]) -> list[Incident]:
    """Return the first gate of each task."""
    found: dict[str, Incident] = {}
    for event in detect(turns, default().policy).events:
        if event.type == "gate_opened":
            found.setdefault(event.task, Incident(cause_of(event.task), event))
    return [*found.values()]


def by_signature(opening: GateEvent, noted: Sequence[Incident]) -> list[int]:
    """Return the places of the notes of the same signature, and of the same type."""
    return _as_shown(opening, noted, with_words=False)


def as_shown(opening: GateEvent, noted: Sequence[Incident]) -> list[int]:
    """Return the places of the notes in the order in which a gate shows them."""
    return _as_shown(opening, noted, with_words=True)


def by_words(opening: GateEvent, noted: Sequence[Incident]) -> list[int]:
    """Return the places of the notes with the nearest words alone."""
    words = [words_of(each.opening) for each in noted]
    return [*distances(words_of(opening), words)]


def _as_shown(opening: GateEvent, noted: Sequence[Incident], *, with_words: bool) -> list[int]:
    def signs(event: GateEvent) -> Signs:
        return Signs(event.signature, event.signature_coarse, words_of(event) if with_words else "")

    notes = [
        (ResolutionNote(str(place), "", "continue", "", 0), signs(each.opening))
        for place, each in enumerate(noted)
    ]
    return [int(note.gate) for note in notes_like(signs(opening), notes, None)]


def splits(incidents: Sequence[Incident]) -> Iterator[tuple[list[Incident], list[Incident]]]:
    """Yield halves: those with a note, and those of the others whose cause has one."""
    for seed in range(SPLITS):
        halves: dict[int, list[Incident]] = defaultdict(list)
        for each in incidents:
            halves[int(digest(f"{seed} {each.opening.task}"), 16) % 2].append(each)
        causes = {each.cause for each in halves[0]}
        yield halves[0], [each for each in halves[1] if each.cause in causes]


def shares(incidents: Sequence[Incident], shown: Shown) -> tuple[float, float]:
    """Return the share of gates with a right note among the first three, and that of right ones."""
    gates = right = notes = right_notes = 0
    for noted, asked in splits(incidents):
        for each in asked:
            first = [noted[place].cause == each.cause for place in shown(each.opening, noted)][
                :SHOWN
            ]
            gates, right = gates + 1, right + any(first)
            notes, right_notes = notes + len(first), right_notes + sum(first)
    return right / gates, right_notes / notes if notes else 0.0


WAYS: dict[str, Shown] = {
    "signature alone": by_signature,
    "words alone": by_words,
    "both, as shown": as_shown,
}


def table(sources: dict[str, Sequence[Incident]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    heads = [f"{name} ({len(incidents)} gates)" for name, incidents in sources.items()]
    lines = [f"| notes by | {' | '.join(heads)} |", f"| --- |{' --- |' * len(heads)}"]
    for way, shown in WAYS.items():
        figures = [shares(incidents, shown) for incidents in sources.values()]
        cells = " | ".join(f"{top:.0%}, {exact:.0%} right" for top, exact in figures)
        lines.append(f"| {way} | {cells} |")
    return lines


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="Folder of the labelled runs.")
    options = parser.parse_args()
    sources: dict[str, Sequence[Incident]] = {"made-up incidents": made_up(1)}
    if options.data:
        sources["problems of InterCode"] = of_intercode(options.data)
    print("\n".join(table(sources)))


if __name__ == "__main__":
    main()
