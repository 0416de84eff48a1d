"""A tiny notation for turns, in which rules show loops and other runs.

    run_tests(cart.py)->!"expected 42, got 41" x3
    (create(a.py)->"exists" remove(a.py)->ok) x3

docs/writing-a-rule.md has all of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import polars as pl

from looptrace import semconv
from looptrace._core import round_words
from looptrace.analyzer.fingerprint.fingerprints import add_fingerprints
from looptrace.analyzer.schema.turns import SILENCE, TURN_SCHEMA, numbered
from looptrace.analyzer.text.payloads import canonical
from looptrace.errors import InputError
from looptrace.rules.vocabulary import NS_PER_S

TASK = "example"

_TOKEN = re.compile(
    r"""\s*(?:
        (?P<agent>@\w+)
      | (?P<phase>\#\#?\w+)
      | %(?P<iteration>[\w{}]+)
      | (?P<subtask>\$\w*)
      | ~(?P<pause>\d+)
      | \^(?P<took>\d+)
      | x(?P<times>\d+)(?!\w)
      | (?P<bracket>[()\[\]])
      | (?P<name>[\w.]+)\((?P<arguments>(?:"[^"]*"|[^()"])*)\)
        (?:->(?P<failed>!)?(?:"(?P<text>[^"]*)"|(?P<word>[^\s()\[\]"]+)))?
    )""",
    re.VERBOSE,
)
_USAGE = {"read": "input_tokens", "cached": "cached_tokens", "wrote": "output_tokens"}
_SAYS = ("given", "asked", "finish", "compacted", *_USAGE)
_SAID = re.compile(
    rf'\s*,?\s*(?P<how>{"|".join(_SAYS)})=(?:"(?P<text>[^"]*)"|(?P<word>[^\s,]+))\s*$'
)
_CHANTED = re.compile(r'"(?P<text>[^"]*)"\s*\*\s*(?P<times>\d+)')
_CLOSING = {"(": ")", "[": "]"}


class NotationError(InputError):
    """A text is not in the notation; the message names the place."""


@dataclass(frozen=True, slots=True)
class WrittenTurn:
    """One turn as it is written; the texts may still hold `{n}`."""

    agent: str
    name: str
    arguments: str
    result: str | None
    failed: bool
    phase: str | None = None
    subtask: str | None = None
    pause_s: int = 0  # before it
    took_s: int = 1
    step: int = 0
    iteration: str | None = None
    spanned: bool = False  # a span around it declares the phase
    declares: bool = False  # which begins with it

    def with_number(self, n: int) -> WrittenTurn:
        """Return the turn of round `n`."""

        def put(text: str) -> str:
            return text.replace("{n}", str(n))

        result = None if self.result is None else put(self.result)
        iteration = None if self.iteration is None else put(self.iteration)
        return replace(self, arguments=put(self.arguments), result=result, iteration=iteration)


def turns_in(text: str) -> pl.DataFrame:
    """Return the turns (`TURN_SCHEMA`) that a text in the notation describes, one a second.

    Raises:
        NotationError: if the text is not in the notation.
    """
    return tasks_in({TASK: text})


def tasks_in(texts: Mapping[str, str]) -> pl.DataFrame:
    """Return the turns (`TURN_SCHEMA`) of several tasks, as texts by the name of the task.

    Raises:
        NotationError: if a text is not in the notation.
    """
    rows = [row for task, text in texts.items() for row in _rows(task, parse(text))]
    return numbered(add_fingerprints(pl.DataFrame(rows, TURN_SCHEMA, orient="row")))


def parse(text: str) -> list[WrittenTurn]:
    """Return the turns of a text as written, without derived columns.

    Raises:
        NotationError: if the text is not in the notation.
    """
    return _Parser(text).parse()


class _Parser:
    """Reads a text from left to right."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.agent = ""
        self.phase: str | None = None
        self.subtask: str | None = None
        self.pause_s, self.took_s = 0, 1
        self.steps = 0
        self.iteration: str | None = None
        self.spanned = self.declares = False

    def parse(self) -> list[WrittenTurn]:
        turns = self._sequence("")
        if not turns:
            raise NotationError(f"there are no turns in {self.text!r}")
        return turns

    def _sequence(self, closing: str) -> list[WrittenTurn]:
        turns: list[WrittenTurn] = []
        last: list[WrittenTurn] = []
        declared = False  # a phase right before `last`, which applies only to its first round
        for token in self._tokens():
            if token["bracket"] == closing and closing:
                self._check_pause()
                return turns + last
            if token["times"]:
                begun = [replace(turn, declares=False) for turn in last[:1]] + last[1:]
                again = begun if declared else last
                rounds = range(1, int(token["times"]) + 1)
                written = (turn.with_number(n) for n in rounds for turn in (last, again)[n > 1])
                turns += self._new_steps(list(written), last)
                last = []
                continue
            turns += last
            declared = self.declares
            last = self._item(token)
        if closing:
            raise NotationError(f"{closing!r} is missing at the end of {self.text!r}")
        self._check_pause()
        return turns + last

    def _check_pause(self) -> None:
        """Check that no group ends with a pause, which would belong to none of its rounds."""
        if self.pause_s:
            raise NotationError(f"~{self.pause_s} stands before no turn in {self.text!r}")

    def _item(self, token: re.Match[str]) -> list[WrittenTurn]:
        if token["agent"]:
            self.agent = token["agent"][1:]
            return []
        if token["phase"]:
            self.phase = token["phase"].lstrip("#")
            self.spanned = self.declares = token["phase"].startswith("##")
            return []
        if token["iteration"]:
            self.iteration = token["iteration"]
            return []
        if token["subtask"]:
            self.subtask = token["subtask"][1:] or None
            return []
        if token["pause"]:
            self.pause_s = int(token["pause"])
            return []
        if token["took"]:
            self.took_s = int(token["took"])
            return []
        if token["bracket"]:
            if token["bracket"] not in _CLOSING:
                raise NotationError(f"{token['bracket']!r} closes nothing in {self.text!r}")
            inner = self._sequence(_CLOSING[token["bracket"]])
            if token["bracket"] == "[":
                self.steps += 1
                inner = [replace(turn, step=self.steps) for turn in inner]
            return inner
        return [self._turn(token)]

    def _turn(self, token: re.Match[str]) -> WrittenTurn:
        text = token["text"]
        result = token["word"] if text is None else text.replace(r"\n", "\n")
        known_result = None if token["text"] is None and token["word"] in ("?", None) else result
        pause_s, self.pause_s = self.pause_s, 0
        took_s, self.took_s = self.took_s, 1
        declares, self.declares = self.declares, False
        return WrittenTurn(
            agent=self.agent,
            name=token["name"],
            arguments=token["arguments"],
            result=known_result,
            failed=bool(token["failed"]),
            phase=self.phase,
            subtask=self.subtask,
            pause_s=pause_s,
            took_s=took_s,
            iteration=self.iteration,
            spanned=self.spanned,
            declares=declares,
        )

    def _new_steps(self, repeated: list[WrittenTurn], once: list[WrittenTurn]) -> list[WrittenTurn]:
        """Return repeated turns with a step of its own for the parallel calls of each round."""
        for i, turn in enumerate(repeated):
            if turn.step:
                round_number = i // len(once)
                repeated[i] = replace(turn, step=turn.step + self.steps * (round_number + 1))
        self.steps = max([self.steps, *(turn.step for turn in repeated)])
        return repeated

    def _tokens(self) -> Iterator[re.Match[str]]:
        while self.text[self.position :].strip():
            token = _TOKEN.match(self.text, self.position)
            if token is None:
                rest = self.text[self.position :].strip()
                raise NotationError(f"expected a turn at {rest[:30]!r} in {self.text!r}")
            self.position = token.end()
            yield token


def _rows(task: str, written: list[WrittenTurn]) -> list[dict[str, Any]]:
    """Return the rows of a task, one turn after the other."""
    ends = accumulate(turn.pause_s + turn.took_s for turn in written)
    rows = [
        _row(turn, end) | {"task": task, "session": task, "trace_id": task, "span_id": f"{i:04d}"}
        for i, (turn, end) in enumerate(zip(written, ends, strict=True))
    ]
    _link_responses(rows, written)
    _span_phases(rows, written)
    return rows


def _row(turn: WrittenTurn, end_s: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(TURN_SCHEMA) | {
        "agent": turn.agent,
        "phase": turn.phase,
        "subtask": turn.subtask,
        "iteration": turn.iteration,
        "start_ns": (end_s - turn.took_s) * NS_PER_S,
        "end_ns": end_s * NS_PER_S,
    }
    if turn.name == "say":
        return row | _model_columns(turn.arguments)
    if turn.name == "fail":
        error = None if turn.arguments == "?" else turn.arguments.strip('"')
        return row | {"kind": "model", "name": "model", "failed": True, "error": error}
    if turn.name == "silence":
        named = {"kind": "model", "name": semconv.SILENT}
        return row | named | {"finish_reason": semconv.OPEN_REASON}
    if turn.name == "handoff":
        return row | _handoff_columns(turn)
    if turn.name in ("attempt", "switch"):
        return row | _attempt_columns(turn)
    if turn.name == "progress":
        return row | {"kind": "progress"} | _figure_columns(turn.arguments)
    if turn.name == "user":
        return row | {"kind": "user", "call_id": "user", "text": turn.arguments.strip('"')}
    if turn.name == "prompt":
        return row | {"kind": "user", "text": turn.arguments.strip('"')}
    if turn.name == "remind":
        text = turn.arguments.strip('"')
        return row | {"kind": "user", "text": text, "arguments": round_words(text)}
    return row | {
        "kind": "tool",
        "name": turn.name,
        "arguments": None if turn.arguments == "?" else turn.arguments,
        "result": None if turn.failed else turn.result,
        "failed": True if turn.failed else None,
        "error": turn.result if turn.failed else None,
        "step": str(turn.step) if turn.step else None,
    }


def _link_responses(rows: list[dict[str, Any]], written: list[WrittenTurn]) -> None:
    """Link each response to the agent's last one, unless it has the context of a new request."""
    last: dict[str, str | None] = {}
    for row, turn in zip(rows, written, strict=True):
        if row["kind"] == "model":
            if "given" in _model_parts(turn.arguments)[1]:
                row["talks_on"] = last.get(turn.agent)
            last[turn.agent] = row["text"]


def _span_phases(rows: list[dict[str, Any]], written: list[WrittenTurn]) -> None:
    """Set the start of phases that spans around the turns declare."""
    since_ns = None
    for row, turn in zip(rows, written, strict=True):
        since_ns = row["start_ns"] if turn.declares else since_ns
        row["phase_start_ns"] = since_ns if turn.spanned else None


def _handoff_columns(turn: WrittenTurn) -> dict[str, Any]:
    agent, _, request = (part.strip() for part in turn.arguments.partition(","))
    text = None if request == "?" else request.strip('"')
    columns = {"arguments": text, "text": text, "result": turn.result}
    return {"kind": "handoff", "name": agent} | columns


def _attempt_columns(turn: WrittenTurn) -> dict[str, Any]:
    status, comma, blockers = (part.strip() for part in turn.arguments.partition(","))
    arguments = blockers if comma and blockers != "?" else None
    return {"kind": turn.name, "name": status, "arguments": arguments, "result": turn.result}


def _figure_columns(written: str) -> dict[str, Any]:
    pairs = (part.split("=") for part in written.split(","))
    figures = {name.strip(): float(value) for name, value in pairs}
    metrics = {name: value for name, value in figures.items() if name not in TURN_SCHEMA}
    known = {name: value for name, value in figures.items() if name in TURN_SCHEMA}
    return known | {"metrics": canonical(metrics) if metrics else None}


def _model_columns(written: str) -> dict[str, Any]:
    text, parts = _model_parts(written)
    chanted = _CHANTED.fullmatch(text.strip())
    said = None if text.strip() == "?" else text.strip().strip('"')
    said = chanted["text"] * int(chanted["times"]) if chanted else said
    silent = text.strip() == "nothing"
    context = parts.get("given", parts.get("asked"))
    tokens = {column: int(parts[name]) for name, column in _USAGE.items() if name in parts}
    return tokens | {
        "kind": "model",
        "name": "model",
        "text": "" if silent else said,
        "response": SILENCE if silent else said,
        "arguments": None if context == "?" else context,
        "finish_reason": parts.get("finish"),
        "compacted": True if "compacted" in parts else None,
    }


def _model_parts(written: str) -> tuple[str, dict[str, str]]:
    """Return the text of a response, and what follows it by its name."""
    parts: dict[str, str] = {}
    while match := _SAID.search(written):
        parts[match["how"]] = match["word"] if match["text"] is None else match["text"]
        written = written[: match.start()]
    return written, parts
