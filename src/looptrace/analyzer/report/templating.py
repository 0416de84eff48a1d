"""The templates of reports and their filters: HTML is escaped, Markdown quotes texts as code."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, partial
from typing import TYPE_CHECKING

from looptrace.analyzer.llm_judge import GOAL_LENGTH_MAX
from looptrace.analyzer.report.strip import BARS, MARKS
from looptrace.analyzer.report.wording import (
    NAME_LENGTH_MAX,
    SENTENCE_LENGTH_MAX,
    cost_text,
    count_text,
    counted,
    counts_percents,
    duration_text,
    loop_cost_text,
    ordinal,
    reached_text,
)
from looptrace.analyzer.text.display import plain
from looptrace.analyzer.text.times import known_us

if TYPE_CHECKING:
    from jinja2 import Environment, Template

# The longest text of an escalation is a person's request.
_CODE_LENGTH_MAX = GOAL_LENGTH_MAX
# A box of a diagram has room for this many characters.
SHORT_LENGTH_MAX = 32
_BACKTICKS = re.compile("`+")
_FENCE_LENGTH_MIN = 3


@cache
def template(name: str) -> Template:
    """Return a template of the folder `templates`."""
    return environment("looptrace.analyzer.report").get_template(name)


def environment(*packages: str) -> Environment:
    """Return the templates of packages, those of the first before others; HTML is escaped."""
    # The report at a terminal has no template.
    import jinja2  # noqa: PLC0415

    made = jinja2.Environment(
        loader=jinja2.ChoiceLoader([jinja2.PackageLoader(package) for package in packages]),
        autoescape=jinja2.select_autoescape(("html.j2",)),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {"bar_names": BARS, "mark_names": MARKS}
    made.filters |= {
        "code": code,
        "cost": cost_text,
        "count": count_text,
        "counted": counted,
        "ordinal": ordinal,
        "reached": reached_text,
        "duration": duration_text,
        "fenced": fenced,
        "loop_cost": loop_cost_text,
        "name": partial(plain, length_max=NAME_LENGTH_MAX),
        "number": "{:,}".format,
        "sentence": partial(plain, length_max=SENTENCE_LENGTH_MAX),
        "short": partial(plain, length_max=SHORT_LENGTH_MAX),
        "utc": known_us,
    }
    made.tests["percents"] = counts_percents
    return made


def code(text: str) -> str:
    """Write any text of one line as inline code of Markdown."""
    text = plain(text, _CODE_LENGTH_MAX)
    if not text:
        return "(empty)"
    fence = _fence(text, 1)
    # Readers of Markdown remove one space at both ends.
    return f"{fence} {text} {fence}" if "`" in text else f"{fence}{text}{fence}"


def fenced(lines: Iterable[str]) -> str:
    """Write any lines as a block of code of Markdown."""
    inside = list(lines)
    fence = _fence("\n".join(inside), _FENCE_LENGTH_MIN)
    return "\n".join([f"{fence}text", *inside, fence])


def _fence(text: str, length_min: int) -> str:
    """Return backticks, one more than the longest run of them in a text."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    return "`" * max(length_min, longest + 1)
