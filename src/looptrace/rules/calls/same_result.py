"""The rule `same_result`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rung, ladder_setting, repeats, setting
from looptrace.rules.counting import RowRule
from looptrace.rules.needs import again
from looptrace.rules.turns import UNKNOWN, Lane, LaneSpec
from looptrace.rules.vocabulary import in_a_row, pair, streak

# A search that is made twice at once is a retry; made more often, it repeats.
RETRIED = 2


@dataclass(frozen=True, slots=True)
class SameResult(RowRule):
    """Different searches have the same answer, such as none.

    The rule looks only at searches: tools whose name says so (search, grep, find, lookup, query,
    ...), commands such as `grep` and `find`, lists that are empty under one filter in several
    spellings, and pages of a list that all show the same. Other tools may rightly give one result
    for many things. Finding nothing is one answer, in whatever words, also by a failure, or past
    the last page; a name that is not there either, which the agent only tries by its own words,
    finds nothing of what it looks for. Another answer to a command or query that only looks counts
    if it asks nearly the same as an earlier one: it has all words of that and more, or less.
    Searches for many things, of which a short answer holds, such as names, days or addresses, are a
    batch: what they are given has no word in common but that of their form. So is one word in each
    of many folders, none of which is within another. A plan that is written again and again counts
    as a search, and so does an update that sets a state as it was, and only says something else of
    it. Notes and thoughts that say the same in other words, with no other call between them, are
    one; so are apologies that a tool sends, and tasks that are given away and get the same answer,
    such as that nobody can do them. A search may be made twice at once. Parallel searches of one
    response count once. `repeated_call` finds the same search again, and sooner; `repeated_failure`
    and `signature_repeat` find failures.

    ## Looping
    - `search(refund {n})->"no results" x5`
    - `(say("Other words {n}.") grep(refund {n})->"") x5`
    - `bash(grep -rn refund{n} src)->"" x5`
    - `sql(select a from b)->3 sql(select a from b limit 1)->3 sql(select distinct a from b)->3
      sql(select a as c from b)->3 sql(select a from b order by a)->3`
    - `write_todos(step {n})->"Updated" x5`
    - `(grep(refund {n})->"No matches found" glob_search(refund {n})->"No files found") x3`
    - `list_issues(open)->"[]" list_issues(is:open)->"[]" list_issues(OPEN)->"[]"
      list_issues(opened)->"[]" list_issues(status open)->"[]"`
    - `(say("Perhaps user {n}.") get_user(u{n}a)->"User u{n}a not found") x5`
    - `save_memory(The user prefers dark mode.)->a save_memory(User prefers dark mode)->b
      save_memory(The user prefers the dark mode.)->c save_memory(Preference of the user: dark
      mode)->d save_memory(The user prefers dark mode in this app)->e`
    - `send_message(Sorry, I see no order.)->ok send_message(Apologies, the order is gone.)->ok
      send_message(Unfortunately no such order exists.)->ok send_message(I am afraid the order is
      lost.)->ok send_message(We regret: no order found.)->ok`

    ## Not looping
    - `search(refund {n})->"no results" x4`: there were other words to try.
    - `search(refund {n})->"{n} results" x9`: the answers differ.
    - `(write_todos(step {n})->"Updated" edit(a, {n})->ok) x9`: a plan and its work.
    - `search(refund)->"no results" x9`: `repeated_call` finds one repeated search.
    - `lookup_customer({n}@shop.example)->"[]" x9`: many customers.
    - `(say("Next is user {n}.") get_user(u{n}a)->"User u{n}a not found") x9`: many users.
    - `list_orders(customer {n})->"[]" x9`: so are these.
    - `grep({"pattern":"total","path":"svc/a{n}x"})->"No matches found" x9`: many folders.
    - `save_memory(The dog of the user is called Rex)->a save_memory(The user lives in Oslo now)->a
      save_memory(The user works on ships)->a save_memory(No nuts in any meal)->a save_memory(Plays
      chess every Monday)->a`: other facts.
    - `send_message(Sorry, order {n} is late.)->sent x9`: many orders.
    - `run_query(select * from t{n} where id is null)->"[]" x9`: many tables.
    - `read_file(part{n}.md)->"# Notes" x9`: other files may begin alike.
    - `edit(part{n}.md)->ok x9`: work on many things.
    - `query(insert {n})->"1 row" x9`: work on many things, too.
    - `bash(wc -l part{n}.md)->"120" x9`: many files, too.
    - `bash(mkdir part{n})->"" x9`: a command that does something is no search.
    - `(search(refund {n})->"no results" edit(a, {n})->ok) x9`: work in between.
    - `[search(a)->none search(b)->none search(c)->none search(d)->none search(e)->none]`: a batch.
    - `search(refund {n})->? x9`: the answers are unknown.
    - `search(?)->"no results" x9`: the searches are unknown.
    """

    name = "same_result"
    lane = LaneSpec(by="agent", kinds=("tool",), once="twin_search")
    learns_limit = True
    needs = again("search_result")

    attempts_min: int = setting(
        5, ge=2, le=100, doc="Searches in a row with the same answer that make a loop."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(5, "warn"), Rung(8, "pivot"), Rung(12, "gate")))

    @property
    def lookback(self) -> int:
        """The searches of a loop, and those that the first of them may repeat."""
        return self.attempts_min + RETRIED

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count equal answers in a row to searches of which none is made three times at once."""
        asked, answer = lane.call, lane.search_result
        anew = (asked != UNKNOWN) & (in_a_row(lane, pair(asked, answer)) <= RETRIED)
        reached = np.minimum(in_a_row(lane, answer), streak(lane, anew))
        return repeats(reached, self.attempts_min, answer)

    def say(self, loop: Loop) -> str:
        """Name the first search."""
        return f"{loop.attempts} calls from {loop.labels[0]} on had the same answer"
