"""The rule `token_budget`."""

from dataclasses import dataclass

from looptrace.rules.contract import Evaluation, Loop, Rung, counts, ladder_setting, setting
from looptrace.rules.counting import TurnRule
from looptrace.rules.needs import nears
from looptrace.rules.turns import Lane, LaneSpec
from looptrace.rules.vocabulary import BUDGETED, SOFT_PERCENT, used

# No task reads more in the years of a server.
TOKENS_MAX = 10**15


@dataclass(frozen=True, slots=True)
class TokenBudget(TurnRule):
    """A task, one of its agents, or a minute of it takes more tokens than allowed.

    A guard: nothing need repeat. Tokens that came from a cache are left out,
    because they cost a tenth or less. Those of all agents and sub-agents of the task count, since
    the task began, was completed, or a person last spoke. The attempts of the ladder are percents
    of the limit.

    By default the limit is a hundred full contexts of 200,000 tokens without a word of a person.

    ## Looping
    - `say("Step {n}.", read=900000) x24`
    - `(say("Step {n}.", read=200000, wrote=9000) read(a{n})->"a {n}") x90`: it reads without end.
    - `(@a say("Part {n}.", read=400000) @b say("Page {n}.", read=400000)) x24`: both count.

    ## Not looping
    - `say("Step {n}.", read=150000) x100`: less than allowed.
    - `say("Step {n}.", read=900000, cached=890000) x100`: nearly all of it came from a cache.
    - `(user("And {n}?") say("Step {n}.", read=900000) x9) x9`: a person spoke.
    - `say("It says {n}.", read=3000000) x3`: a few looks at something large.
    - `(say("Row {n}.", read=900, wrote=100) save({n})->ok) x400`: many, but small.
    """

    name = "token_budget"
    lane = LaneSpec(by="task", kinds=("tool", "model", "handoff", "attempt", "progress"))
    needs = (
        nears("tokens_spent", "task")
        | nears("tokens_spent_agent", "agent")
        | nears("tokens_spent_minute", "minute")
    )
    checked = "before_loops"
    counts_percents = True

    task: int = setting(
        20_000_000, ge=0, le=TOKENS_MAX, doc="Tokens that a task is allowed; 0 is no limit."
    )
    agent: int = setting(
        0, ge=0, le=TOKENS_MAX, doc="Tokens that each agent of a task is allowed; 0 is no limit."
    )
    minute: int = setting(
        0, ge=0, le=TOKENS_MAX, doc="Tokens that a task is allowed a minute; 0 is no limit."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(80, "warn"), Rung(100, "gate")))

    def evaluate(self, lane: Lane) -> Evaluation:
        """Compare what was spent with the nearest limit."""
        turns, rows = lane.turns, lane.rows
        spent = turns.tokens_spent, turns.tokens_spent_agent, turns.tokens_spent_minute
        limits = self.task, self.agent, self.minute
        percent, which = used([column[rows] for column in spent], limits)
        return counts(percent, SOFT_PERCENT, (turns.epoch[rows] + 1) * len(BUDGETED) + which)

    def say(self, loop: Loop) -> str:
        """Name the limit and the share of it."""
        place = loop.what % len(BUDGETED)
        limit = (self.task, self.agent, self.minute)[place]
        return f"{BUDGETED[place]} used {loop.attempts} % of its limit of {limit:,} tokens"
