"""The rule `rephrased_request`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, ladder_setting, repeats, setting
from looptrace.rules.turns import UNKNOWN, Flags, Lane, LaneSpec
from looptrace.rules.vocabulary import streak

# The beginning of a request says what it asks for; a longer request includes its material.
_CHARS_MAX = 4_000
_PERCENT = 100
_WORD = re.compile(r"\w+")
# Addresses, paths and names with numbers in them are one number each: 10.0.0.12 is not 12.
_TOKEN = re.compile(r"\S+")
_NUMBER = re.compile(r"\d+")
# What stands between two things of a list, and what marks one of them as done.
_BETWEEN = re.compile(r"[,;]|\n|(?<=\s)(?:and|&|[-*•])(?=\s)|\[ \]")
_DONE = re.compile(r"\[x\]|[✓✔✅☑]")
# Words that only mark or join the things of a list.
_JOINING = frozenset({"x", "and"})

# A name before what it holds, such as a question and its answer; in JSON or in XML, too.
_LABEL = re.compile(
    r"(?<![\w/.])([^\W\d]\w{2,19}):(?=\s)|\"(\w{2,30})\" ?:|<(?!/)([^\W\d][\w-]{1,29})>"
)
# What has fewer words tells nothing of how new it is.
_HELD_MIN = 3

Words = Sequence[str]
Numbers = tuple[str, ...]  # those of one token
# A text without so many signs between things may only have lost words.
_LIST_MIN = 2


class _Request(NamedTuple):
    """Who is asked, the answer, the words, their numbers, and what is left and done of a list.

    And the words of each labelled part, with its label.
    """

    asked: int
    answer: int
    words: Words
    numbers: frozenset[Numbers]
    left: int
    done: int
    parts: tuple[tuple[str, frozenset[str]], ...]


@dataclass(frozen=True, slots=True)
class RephrasedRequest(Rule):
    """An agent makes request after request, and asks hardly anything new.

    It asks the same again if most of its words were in its agent's last requests, to any agent,
    in any order. A new number, also within an address, or one new word in an otherwise equal
    request, is a new target, also if it is new to the asked agent alone. So is a form that is
    filled in anew, such as “Question: … Answer: …”, and the same request to another agent that has
    another answer. A list that gets shorter from one request to a later one, or of which more is
    done, is progress. `collaboration_loop` also finds equal requests to one agent.

    ## Looping
    - `handoff(web, "Find the opening hours of the museum.") handoff(web, "Please find the hours
      of opening of the museum.") handoff(files, "Find the hours of the museum, please.")
      handoff(web, "Please find the opening hours of that museum.")`

    ## Not looping
    - `handoff(web, "Find the opening hours of museum {n} in the old town.") x6`: new targets.
    - `handoff(web, "Find the opening hours of the zoo.") handoff(web, "Find the opening hours of
      the museum.") handoff(web, "Find the opening hours of the library.") handoff(web, "Find the
      opening hours of the theatre.")`: so are these.
    - `handoff(web, "Find the hours of the zoo, the museum, the library and the pool.") handoff(web,
      "Find the hours of the zoo today.") handoff(web, "Find the hours of the museum today.")
      handoff(web, "Find the hours of the library today.")`: so is each thing of a list.
    - `(handoff(writer, "Write the section on {n}.") handoff(editor, "Edit the section on {n}."))
      x6`: so is each section to the editor.
    - `handoff(web, "Find the opening hours of the museum, please.") x3`: some tries are normal.
    - `handoff(dev, "Mend the files a.py, b.py, c.py, d.py") handoff(dev, "Mend the files b.py,
      c.py, d.py") handoff(dev, "Mend the files c.py, d.py") handoff(dev, "Mend the files d.py")`:
      less is left each time.
    - `handoff(dev, "Mend the modules one, two, three, four.") handoff(dev, "Mend the modules [x]
      one, two, three and four.") handoff(dev, "Mend the modules [x] one [x] two three and four.")
      handoff(dev, "Mend the modules [x] one [x] two [x] three four.")`: more is done each time.
    - `handoff(judge, "Rate the answer from one to five. Question: Who painted the Night Watch?
      Answer: Rembrandt") handoff(judge, "Rate the answer from one to five. Question: What do bees
      collect? Answer: Nectar") handoff(judge, "Rate the answer from one to five. Question: Why is
      the sea salty? Answer: Rivers") handoff(judge, "Rate the answer from one to five. Question:
      How do geckos climb walls? Answer: Hairs")`: one form, other questions.
    - `handoff(ann, "Is the change of the cart well written?")->"yes" handoff(bob, "Is the change of
      the cart well written?")->"no" handoff(cid, "Is the change of the cart well written?")->"oh"
      handoff(dan, "Is the change of the cart well written?")->"hm"`: each says something else.
    - `handoff(web, ?) x6`: the requests are unknown.
    - `handoff(web, "Go on.") x6`: too short to tell.
    - `(user("And now?") handoff(web, "Find the opening hours of the museum.")) x6`
    """

    name = "rephrased_request"
    lane = LaneSpec(by="agent", kinds=("handoff",))
    exact = False
    reads_texts = True

    attempts_min: int = setting(
        4,
        ge=2,
        le=50,
        doc="Requests in a row, each asking the same as earlier ones, that make a loop.",
    )
    new_percent_max: int = setting(
        50, ge=0, le=90, doc="Percent of a request's words that may be new if it asks the same."
    )
    window: int = setting(5, ge=1, le=50, doc="Earlier requests to compare a request with.")
    words_min: int = setting(
        5, ge=1, le=100, doc="Different words that a request must have to be compared."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(4, "warn"), Rung(6, "pivot"), Rung(8, "gate")))

    @property
    def lookback(self) -> int:
        """The requests of a loop, and those with which the second is compared."""
        return self.attempts_min + self.window

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count the requests in a row that ask for the same as earlier ones."""
        again = self._again(lane)
        return repeats(streak(lane, again) + 1, self.attempts_min, np.ones_like(lane.rows))

    def _again(self, lane: Lane) -> Flags:
        names = lane.turns.name[lane.rows].tolist()
        answers = lane.outcome.tolist()
        given = zip(lane.texts, names, answers, strict=True)
        requests = [_request(*asked) for asked in given]
        again = np.zeros(len(lane.rows), dtype=np.bool_)
        for i, (request, position) in enumerate(zip(requests, lane.position.tolist(), strict=True)):
            before = requests[i - min(self.window, position) : i]
            again[i] = bool(before) and self._asks_the_same(request, before)
        return again

    def _asks_the_same(self, request: _Request, before: Sequence[_Request]) -> bool:
        different = set(request.words)
        if len(different) < self.words_min:
            return False
        new = different.difference(*(each.words for each in before))
        if _PERCENT * len(new) > self.new_percent_max * len(different):
            return False
        if request.numbers.difference(*(each.numbers for each in before)):
            return False
        if _goes_on(request, before) or _fills_in(request, before):
            return False
        if _asks_another(request, before):
            return False
        own = [each for each in before if each.asked == request.asked]
        return not any(_has_new_target(request, some) for some in (before, own) if some)

    def say(self, loop: Loop) -> str:
        """Quote the first request."""
        return f"{loop.attempts} requests from {loop.labels[0]} on ask hardly anything new"


def _request(text: str | None, asked: int, answer: int) -> _Request:
    shown = (text or "")[:_CHARS_MAX].lower()
    numbers = (tuple(_NUMBER.findall(token)) for token in _TOKEN.findall(shown))
    done = len(_DONE.findall(shown))
    left = len(_BETWEEN.findall(shown)) - done
    words = _WORD.findall(shown)
    named = frozenset(filter(None, numbers))
    return _Request(asked, answer, words, named, left, done, _parts(shown))


def _parts(text: str) -> tuple[tuple[str, frozenset[str]], ...]:
    labels = list(_LABEL.finditer(text))
    ends = [*(label.start() for label in labels[1:]), len(text)]
    return tuple(
        (label[label.lastindex or 0], frozenset(_WORD.findall(text[label.end() : end])))
        for label, end in zip(labels, ends, strict=False)
    )


def _asks_another(request: _Request, before: Sequence[_Request]) -> bool:
    """Return whether another agent gets an equal request, and has another answer: a panel."""
    equal = any(each.words == request.words for each in before)
    asked = {each.asked for each in before}
    answers = {each.answer for each in before} - {UNKNOWN}
    return equal and request.asked not in asked and request.answer not in answers


def _fills_in(request: _Request, before: Sequence[_Request]) -> bool:
    """Return whether a request fills in the form of earlier ones, each time with something else."""
    labels = [label for label, _ in request.parts]
    forms = [each.parts for each in before if [label for label, _ in each.parts] == labels]
    return bool(labels and forms) and all(_holds_new(request.parts, form) for form in forms)


def _holds_new(
    parts: Sequence[tuple[str, frozenset[str]]], others: Sequence[tuple[str, frozenset[str]]]
) -> bool:
    """Return whether the first part that differs has mostly words that the other has not."""
    pairs = ((words, other) for (_, words), (_, other) in zip(parts, others, strict=True))
    words, other = next(((a, b) for a, b in pairs if a != b), (frozenset(), frozenset()))
    return len(words) >= _HELD_MIN and 2 * len(words & other) <= len(words)


def _goes_on(request: _Request, before: Sequence[_Request]) -> bool:
    """Return whether less is left of a list than in an earlier request, for the first time.

    Something of it must be gone or done: prose loses commas, too.
    """
    words = {*request.words} - _JOINING
    others = [(each, {*each.words} - _JOINING) for each in before]
    if any(each.left <= request.left and words == other for each, other in others):
        return False
    return any(
        each.left >= _LIST_MIN
        and each.left > request.left
        and (words < other or (words == other and request.done > each.done))
        for each, other in others
    )


def _has_new_target(request: _Request, before: Sequence[_Request]) -> bool:
    """Return whether a request has new words in the one place where it differs from the last one.

    Such requests use one phrase for many targets, which may have been named in a list before.
    """
    filling = _filling(request.words, before[-1].words)
    asked = (each.words for each in before if each.left - request.left < _LIST_MIN)
    return bool(filling) and {*filling}.isdisjoint(word for words in asked for word in words)


def _filling(words: Words, other: Words) -> Words:
    """Return the words in the one place where two requests differ; none if they differ more."""
    begin = _common(words, other)
    rest, other_rest = words[begin:], other[begin:]
    end = _common(rest[::-1], other_rest[::-1])
    filling = rest[: len(rest) - end]
    replaced = 0 < len(filling) <= begin + end and len(other_rest) > end
    return filling if replaced else ()


def _common(words: Words, other: Words) -> int:
    """Count the words with which both begin."""
    both = min(len(words), len(other))
    return next((i for i in range(both) if words[i] != other[i]), both)
