"""The rule `no_news`."""

from dataclasses import dataclass

import numpy as np

from looptrace.rules.contract import Evaluation, Loop, Rule, Rung, ladder_setting, setting
from looptrace.rules.needs import again, has
from looptrace.rules.turns import UNKNOWN, Codes, Flags, Lane, LaneSpec
from looptrace.rules.vocabulary import own, pair, same_among, streak

PERCENT = 100
# The repeated results are of several kinds in no order, so a call need not repeat the one before
# it: two calls without news count as one round.
ROUND = 2
# A step on the way to what is new, a result that the trace does not show, and an act that only says
# that it was done, as `look_chars`.
ON_THE_WAY = -1
UNSHOWN = -2
DONE = -3
# After so many acts in a row there is something to see.
ACTS_MAX = 3


@dataclass(frozen=True, slots=True)
class NoNews(Rule):
    r"""Most of the last calls of an agent bring nothing new.

    A call brings nothing new if the same call had the same result shortly before, if any call had
    the same long result (a page, what a command shows, an error), if a search found what one for
    the same thing had found, as [same_result](same_result.md) compares them, or if it reads lines
    of a file that earlier reads showed, and nothing was changed since. Short results, such as "ok",
    and those of tools that make changes or answer about one of many things, are normal for
    different calls, and so is what is well on each of many pages. An act that only says that it was
    done is on the way if something new came before it, and so is a way back, such as to a list.
    Other rules find repeats in a row or a fixed order sooner; this one finds them in any order, and
    only warns. Calls whose results the trace does not show count if nothing but such calls, all
    made before, come in a row.

    ## Looping
    - `(look(page)->same act({n})->"result {n}") x8`
    - `click(button {n})->"the page with the order form, and nothing in its basket yet" x8`
    - `git(commit -m {n})->"On branch main: nothing to commit, the working tree is clean" x8`
    - `(grep(refund {n})->"" grep(refund {n} in all)->"a.py" open(a.py, {n})->"line {n}") x8`
    - `search(refunds)->? x6`
    - `(click(link {n})->"The page on how to get to the museum of the town" go_back()->visit) x5`

    ## Not looping
    - `click(button {n})->"the page with the order form, and {n} things in its basket now" x20`
    - `click(button {n})->"the page with the order form, and nothing in its basket yet" x6`
    - `search(refunds)->? x5`
    - `(test(all)->? fix({n})->?) x20`
    - `edit(part {n})->"The file was changed as it was asked for; nothing else was touched." x20`
    - `(edit(a, {n})->ok build(a)->"The whole app was built, and there is nothing to say.") x20`
    - `send(mail {n})->sent x20`: too short to tell.
    - `rate(comment {n})->"It is friendly, has no insults in it, and may be shown." x20`: many.
    - `(grep(refund {n})->"" edit(a.py, {n})->ok) x20`: it looks after each edit whether it is gone.
    - `(lookup({n}@a.example)->"[]" lookup({n}@b.example)->"1 row") x20`: many customers.
    - `python(step {n})->"The code was executed successfully, with no output." x20`: nor does this.
    - `bash(mkdir {n})->"<returncode>0</returncode>\n<output>\n</output>" x20`: it is empty.
    - `bash(mkdir {n})->"Command executed.\nExit code: 0\nDirectory: /a\nOutput:" x20`
    - `(open(offer {n})->"Offer {n}" go_back()->"The list of offers, sorted by price") x20`: ways.
    - `(click(next)->done look(page)->"page {n}") x20`: acts on the way to what is new.
    - `(look(page)->same act({n})->"a {n}" act(b{n})->"b {n}" act(c{n})->"c {n}") x8`: many are new.
    - `(user("And now?") look(page)->same) x20`: a person asked each time.
    - `(~200 read(page)->same) x20`: it waits.
    - `(wait(30)->ok status(job)->running) x20`: it waits, too.
    - `fetch({n})->!"429 Too Many Requests, and please do not come back before noon" x20`
    """

    name = "no_news"
    lane = LaneSpec(by="agent", kinds=("tool",))
    learns_limit = True
    needs = again("outcome") | again("search_result") | again("call") | has("shown_before")
    exact = False
    actions = ("warn",)

    window: int = setting(12, ge=4, le=100, doc="Last calls of the agent that the rule looks at.")
    old_percent: int = setting(
        50, ge=10, le=100, doc="Percent of them that must bring nothing new to make a loop."
    )
    chars_min: int = setting(
        40, ge=1, le=4_000, doc="Characters that a result must have to be compared across calls."
    )
    ladder: tuple[Rung, ...] = ladder_setting((Rung(2, "warn"),))

    @property
    def lookback(self) -> int:
        """The window, and the calls before it with which its first call is compared."""
        return 2 * self.window + ACTS_MAX

    def evaluate(self, lane: Lane) -> Evaluation:
        """Count at each call the calls without news among the last ones."""
        shows = lane.turns.look_chars[lane.rows] >= self.chars_min
        # A run that goes well, and what a search finds, are news after a change.
        asks = (lane.turns.works | lane.turns.shows)[lane.rows] | (lane.search_result != UNKNOWN)
        fine = asks & (lane.check == UNKNOWN)
        changes = np.where(fine, lane.turns.changes_seen[lane.rows] + 1, 1)
        same = own(lane, pair(pair(lane.call, lane.outcome), changes))
        alike = own(lane, pair(np.where(shows, lane.outcome, UNKNOWN), changes))
        # What a search finds after a change may be a check of it; searches at once are one.
        alone = np.where(lane.turns.twin_search[lane.rows], UNKNOWN, lane.search_result)
        found = own(lane, pair(alone, lane.changes_seen + 1))
        counts = [same_among(lane, codes, self.window) for codes in (same, alike, found)]
        # A hand-over and a way back lead to what is new.
        on_the_way = lane.turns.look_chars[lane.rows] == ON_THE_WAY
        # A file of which one call has shown two texts changes by itself.
        stays = same_among(lane, own(lane, lane.call), self.window) == counts[0]
        shown = lane.turns.shown_before[lane.rows] & stays
        came = (np.maximum.reduce(counts) > 1) | shown
        leads = on_the_way & ~self._led_back(lane, on_the_way, came)
        leads |= self._led_on(lane, came)
        old = np.where(came & ~lane.polls & ~leads, 1, UNKNOWN)
        unseen = np.minimum(self._unseen(lane), self.window)
        reached = np.maximum(same_among(lane, old, self.window) * old, unseen) // ROUND
        old = np.where(unseen > 0, 1, old)
        needed = -(-self.window * self.old_percent // (ROUND * PERCENT))  # rounded up
        length = np.minimum(self.window, lane.position) + 1
        return Evaluation(reached, needed, np.full_like(old, ROUND), length, old, spans="same")

    def _led_back(self, lane: Lane, on_the_way: Flags, came: Flags) -> Flags:
        """Return the ways that came before, and lead back from what came before as well."""
        places = np.arange(len(came))
        since = places - np.maximum.accumulate(np.where(on_the_way, -1, places))
        back = came & (since > 0) & (since <= np.minimum(ACTS_MAX, lane.position))
        old = came & ~lane.polls
        led: Flags = back & old[places - np.where(back, since, 0)]
        return led

    def _led_on(self, lane: Lane, came: Flags) -> Flags:
        """Return the acts that say only that they were done, of which the first came after news."""
        chars = lane.turns.look_chars[lane.rows]
        acts = chars == DONE
        row = streak(lane, acts)
        places = (acts & (row <= ACTS_MAX) & (lane.position >= row)).nonzero()[0]
        news = ~came & ~lane.polls & ~lane.turns.new_thought[lane.rows]
        led: Flags = np.zeros(len(acts), dtype=np.bool_)
        led[places] = news[places - row[places]]
        return led

    def _unseen(self, lane: Lane) -> Codes:
        """Count the calls in a row without a shown result, of which all but the first came before.

        It is 0 where less than two of them stand in a row.
        """
        untold = lane.turns.look_chars[lane.rows] == UNSHOWN
        call = own(lane, pair(np.where(untold, lane.call, UNKNOWN), lane.waits_seen + 1))
        again = streak(lane, same_among(lane, call, self.window) > 1)
        return np.where(again > 0, again + 1, 0)

    def say(self, loop: Loop) -> str:
        """Name the first call."""
        calls = len(loop.labels) * loop.attempts
        return f"{calls} calls brought nothing new, from {loop.labels[0]} on"
