//! The counts of one agent in its task: tokens, its last calls, and what it waits for.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::codes::{UNKNOWN, pair};
use super::how::{Counting, NS_PER_S};
use super::marks::asked::{Asked, Searches};
use super::marks::{NOTHING_FOUND, is_courteous};
use super::reads::{Read, Reads};
use super::row::Row;
use super::wishes::Wish;

// An agent may look at so many things in turn while it waits: as many as a round may have.
const CALLS_COMPARED: usize = 40;
// An agent that answers, and is asked again after so long, did not wait in between.
const ASKED_AGAIN_NS: i64 = 300 * NS_PER_S;
// Back-offs usually double the pause; the time of the calls themselves makes it look less.
const BACK_OFF: f64 = 1.5;
// Whoever looks again by a clock stands still as long each time, give or take a part of it. A queue
// stops a task for less, but nobody looks at one state by such a clock.
const STILL_NS_MIN: i64 = 8 * NS_PER_S;
const AWAITED_NS_MIN: i64 = 4 * NS_PER_S;
const PACE_PARTS: i64 = 20;
// A wait is overdue after so many times the longest one before it with the same tool.
const OVER_USUAL: i64 = 2;

// So many names in a row may be tried, as other words of a search may.
const GUESSES_FREE: i64 = 2;
// Runs of a program that reads what its last run wrote, before they count.
const SETTLING_FREE: i64 = 2;
// Looks in a row that come after a moment, at what says that it goes on, and at what may.
const QUICK_NS_MIN: i64 = 2 * NS_PER_S;
const QUICK_PENDING: i64 = 10;
const QUICK_STATES: i64 = 2;
// What was made is kept so long.
const MADE_KEPT: usize = 8;

// Of so many calls it is kept how often they were made.
const FULFILLED_KEPT: usize = 256;

// With the tool, the signature of the guesses after these.
const GUESSED: i64 = 1;

/// A call of an agent, as far as later ones are compared with it.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Seen {
    call: i64,
    outcome: i64,
    end_ns: i64,
    /// Since the call before it, if that is equal; else 0.
    gap_ns: i64,
    /// How long the task had stood still up to it, and how long of that since the call was made before.
    #[serde(default)]
    still_ns: i64,
    #[serde(default)]
    pace_ns: i64,
    /// How long its agent had paused up to it, and how long of that since the call was made before.
    #[serde(default)]
    paused_ns: i64,
    #[serde(default)]
    pause_ns: i64,
    /// Calls of the agent that did more than look, up to it.
    doing: i64,
    waits_seen: i64,
    tool: i64,
    failed: bool,
    /// Equal looks in a row up to it that came soon.
    #[serde(default)]
    quick: i64,
    /// The changes of the task up to it.
    #[serde(default)]
    changes_seen: i64,
}

/// The counts of one agent in its task.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Agent {
    /// Its tokens up to the turn.
    pub input_sum: i64,
    /// The tokens that it wrote.
    pub output_sum: i64,
    /// Its own changes.
    #[serde(default)]
    changes: i64,
    epoch: i64,
    doing: i64,
    /// Whether its last turn is a response.
    spoke: bool,
    /// Whether its last response says that it waits.
    #[serde(default)]
    says_waits: bool,
    /// Whether its last response says that it tries in another way to find the same.
    #[serde(default)]
    tries_otherwise: bool,
    /// How often it said so since a call that found something.
    #[serde(default)]
    tries: i64,
    /// Whether its last call was told to come again later, and how long it stood still after that.
    #[serde(default)]
    later: bool,
    #[serde(default)]
    later_ns: i64,
    /// The ids of what it made, each with the call that did.
    #[serde(default)]
    made: VecDeque<(Vec<i64>, i64)>,
    /// How long the task stood still since the reset, but for moments.
    #[serde(default)]
    still_ns: i64,
    /// The same with pauses of a second or more.
    #[serde(default)]
    paused_ns: i64,
    /// The end of its last call that did or showed something new.
    since_ns: Option<i64>,
    /// The tool of its last call.
    tool: i64,
    /// Since when it waits, if its last call was a poll.
    waits_ns: Option<i64>,
    /// In a box, because most agents have none.
    searches: Option<Box<Searches>>,
    #[serde(default)]
    reads: Option<Box<Reads>>,
    /// Its calls that are no notes.
    #[serde(default)]
    others: i64,
    /// Its last calls in a row that quote what is not known.
    #[serde(default)]
    guesses: i64,
    /// Its last calls in a row of programs that read what their last run wrote.
    #[serde(default)]
    settling: i64,
    /// How often each call was made since a message asked for so many.
    #[serde(default)]
    fulfilled: BTreeMap<i64, i64>,
    /// Its last calls since the reset, the newest first; copies of the counts share them.
    calls: VecDeque<Arc<Seen>>,
}

// Stands for what is found by another name that is tried, where it is not there either.
const TRIED: i64 = 2;
// Who has said so often that it tries in another way goes on to do so without a word.
const TRIES_SAID: i64 = 2;

/// What the task knows of waits.
pub struct Waits<'a> {
    /// How long the task stood still before the turn.
    pub idle_ns: Option<i64>,
    /// The same with the time before the messages that it answers.
    pub quiet_ns: i64,
    /// The times that the task stood still, or a call waited.
    pub seen: &'a mut i64,
    /// The longest wait with each tool.
    pub usual_ns: &'a mut BTreeMap<i64, i64>,
    /// What the last message asks for.
    pub wish: Wish,
}

impl Agent {
    /// Name what a search with a short answer was for, by the searches before it.
    pub fn search(&mut self, row: &mut Row, asked: Asked) {
        if asked.is_note() {
            // After any other call there may be more to say.
            row.search_result = pair(row.search_result, self.others + 1);
        } else {
            self.others += 1;
        }
        let tries = !asked.is_note() && self.tries_again(row);
        let searches = self.searches.get_or_insert_default();
        row.search_result = searches.thing(asked, row.search_result, row.call, tries);
    }

    /// Whether a call that finds nothing is another try to find the same, as the agent says, or has
    /// said more than once since it found something.
    fn tries_again(&mut self, row: &Row) -> bool {
        if !(row.not_there || row.search_result == NOTHING_FOUND) {
            self.tries = 0;
            return false;
        }
        let says = std::mem::take(&mut self.tries_otherwise);
        self.tries += i64::from(says);
        says || self.tries >= TRIES_SAID
    }

    /// Count a call that is no search and no note; one for what is not there, by a name that the
    /// agent only tries, finds nothing of what it looks for.
    pub fn act(&mut self, row: &mut Row) {
        if !row.is("tool") {
            return;
        }
        self.others += 1;
        if self.tries_again(row) && row.search_result == UNKNOWN {
            row.search_result = TRIED;
        }
    }

    /// Mark a read of a file whose lines were all shown since the last change.
    pub fn read(&mut self, row: &mut Row, read: Read) {
        let reads = self.reads.get_or_insert_default();
        row.shown_before = reads.take(read, row.changes_seen);
    }

    /// Let a hand-over after changes of other agents be about other work. `changes_seen` are those
    /// of the task.
    pub fn hand_over(&mut self, row: &mut Row, changes_seen: i64) {
        self.changes += i64::from(row.changes);
        if row.hands_over {
            let others = changes_seen - self.changes;
            row.outcome = pair(row.outcome, others + 1);
            row.signature = pair(row.signature, others + 1);
        }
    }

    /// Count guesses in a row: after some, the next is as wrong as the last, whatever it names.
    pub fn guess(&mut self, row: &mut Row) {
        if !row.is("tool") {
            return;
        }
        self.guesses = if row.guesses { self.guesses + 1 } else { 0 };
        if self.guesses > GUESSES_FREE {
            row.signature = pair(row.name, GUESSED);
        }
    }

    /// Let what removes a thing that was made, or finds it wrong, be the same for each thing that one
    /// call makes.
    pub fn unmake(&mut self, row: &mut Row, ids: &[i64]) {
        let has_any = |made: &[i64]| made.iter().any(|id| ids.contains(id));
        if row.makes && row.call != UNKNOWN {
            self.made.truncate(MADE_KEPT - 1);
            self.made.push_front((ids.to_vec(), row.call));
        } else if row.removes
            && let Some((_, made)) = self.made.iter().find(|one| has_any(&one.0))
        {
            (row.call, row.outcome) = (pair(row.name, *made), pair(row.name, *made));
            // The next one that is made is another.
            row.changes = true;
        } else if row.check != UNKNOWN
            && let Some((_, made)) = self.made.iter().find(|one| has_any(&one.0))
        {
            // What is wrong with it is wrong with each that the call makes.
            row.call = pair(row.name, *made);
            row.check = pair(row.call, row.outcome);
        }
    }

    /// Count runs of a program that is to be run more than once: the first ones repeat nothing.
    pub fn settle(&mut self, row: &mut Row) {
        if !row.is("tool") {
            return;
        }
        self.settling = if row.settles { self.settling + 1 } else { 0 };
        if (1..=SETTLING_FREE).contains(&self.settling) {
            (row.outcome, row.signature) = (UNKNOWN, UNKNOWN);
        }
    }

    /// Let each call that goes well be another one, as often as a message asks for, and a response
    /// say its words so often.
    pub fn fulfil(&mut self, row: &mut Row, wish: Wish) {
        if wish.times == 0 {
            return;
        }
        if row.chant_times <= wish.times {
            row.chant_times = 0;
        }
        if !row.is("tool") || row.failed || row.call == UNKNOWN {
            return;
        }
        if self.fulfilled.len() >= FULFILLED_KEPT && !self.fulfilled.contains_key(&row.call) {
            self.fulfilled.clear();
        }
        let made = self.fulfilled.entry(row.call).or_default();
        *made += 1;
        if *made <= wish.times {
            for seen in [
                &mut row.outcome,
                &mut row.signature,
                &mut row.search_result,
                &mut row.check,
            ] {
                *seen = pair(*seen, *made);
            }
        }
    }

    /// Begin to count what another message asks for.
    pub fn wish_anew(&mut self) {
        self.fulfilled.clear();
    }

    /// Count waits, and say whether the turn is a poll.
    ///
    /// A call is quiet if it only looks at something or shows what goes on, if it does not fail and
    /// equals a call shortly before, or if it looks, after a pause, at something that is missing. A
    /// quiet call that equals an earlier one, with only quiet calls since, is a poll if its task
    /// waited in between: the task stood still, a call waited, a look or a call that shows nothing
    /// took long, what goes on was looked at again after a moment, or the time between looks grows or
    /// is that of a clock.
    pub fn wait(&mut self, row: &mut Row, start_ns: i64, waits: Waits, how: &Counting) {
        if self.epoch != row.epoch {
            (self.epoch, self.waits_ns, self.searches) = (row.epoch, None, None);
            self.guesses = 0;
            self.calls.clear();
        }
        // A thought between two looks is no call, as the words of a response are none.
        let is_call = row.is("tool") && !(row.pauses || row.thinks);
        let asked_again = waits.quiet_ns >= ASKED_AGAIN_NS;
        if row.is("model") && self.spoke && asked_again {
            self.since_ns = None;
        }
        if row.is("model") && !row.brief && waits.quiet_ns >= STILL_NS_MIN {
            // Whoever is asked again after a while, and writes at length, does not talk on.
            row.talks_on = UNKNOWN;
        }
        if is_courteous(row) && waits.quiet_ns >= AWAITED_NS_MIN {
            // Who thanks after a while is a person; agents answer at once.
            row.reminded = UNKNOWN;
        }
        let spoke = std::mem::replace(&mut self.spoke, row.is("model"));
        let still_ns = waits.idle_ns.filter(|ns| *ns >= AWAITED_NS_MIN);
        self.still_ns = self.still_ns.saturating_add(still_ns.unwrap_or(0));
        let paused_ns = waits.idle_ns.filter(|ns| *ns >= NS_PER_S);
        self.paused_ns = self.paused_ns.saturating_add(paused_ns.unwrap_or(0));
        // What a game does not take in one place is another act in the next.
        row.relapses = is_call && row.failed && (row.of_place || self.went_well_before(row));
        let stood_still = waits.idle_ns.is_some_and(|ns| ns >= how.poll_wait_ns);
        let mut waited = row.pauses || stood_still;
        if row.is("model") {
            // Who says that it waits, and stands still, does.
            waited |= self.says_waits && still_ns.is_some();
            self.says_waits = row.awaits;
            if !row.only_calls {
                self.tries_otherwise = row.tries_otherwise;
            }
        }
        waited |= self.comes_later(row, waits.idle_ns.unwrap_or(0));
        let looks = row.only_reads || row.unfinished || row.watches;
        let equal = is_call.then(|| self.last_equal(row)).flatten();
        let since = equal.is_some_and(|at| *waits.seen > self.calls[at].waits_seen);
        let missing = row.missing && (since || stood_still);
        let quiet = looks
            || missing
            || (equal.is_some() && !row.failed && !is_above_zero(row.tests_failed));
        if is_call {
            self.doing += i64::from(!quiet);
            let took_ns = row.end_ns.saturating_sub(start_ns);
            let looked = looks || missing || row.in_vain;
            waited |= looked && took_ns >= how.poll_wait_ns && !row.asks;
        }
        let place = equal.filter(|&at| quiet && self.calls[at].doing == self.doing);
        let seen = place.map(|at| &self.calls[at]);
        let mut quick = 0;
        let between_ns = seen.map_or(0, |one| row.end_ns.saturating_sub(one.end_ns));
        if let Some(one) = seen {
            let pending = row.unfinished || row.watches;
            waited |= pending && between_ns >= how.pending_wait_ns;
            let quick_max = if pending { QUICK_PENDING } else { QUICK_STATES };
            let in_turn = place == Some(0) || (pending && self.is_by_round(row, one));
            let at_once = in_turn && !row.failed && one.changes_seen == row.changes_seen;
            let may_change = at_once && (pending || row.states) && between_ns >= QUICK_NS_MIN;
            quick = one.quick + i64::from(may_change);
            waited |= may_change && one.quick < quick_max;
            let least_ns = (BACK_OFF * one.gap_ns as f64).max(NS_PER_S as f64);
            let grows = one.gap_ns > 0 && between_ns as f64 >= least_ns;
            // What a model thinks before the call is no pause of a back-off.
            let paused = !spoke || self.still_ns > one.still_ns;
            waited |= looks && grows && paused && place == Some(0);
            // Without a response before the call, the pause may be that of a model that thinks.
            waited |= spoke && !row.changes && self.is_by_clock(row, one);
            waited |= !row.changes && waits.wish.is_due(between_ns);
        }
        *waits.seen += i64::from(waited);
        row.waits_seen = *waits.seen;
        if row.restates {
            // Whoever says by a clock how something is, and why, says something new.
            row.search_result = pair(row.search_result, row.waits_seen + 1);
        }
        let backs_off = is_call && self.backs_off(row);
        row.polls = row.pauses
            || row.unheard
            || backs_off
            || seen.is_some_and(|one| row.waits_seen > one.waits_seen);
        if row.polls && (row.missing || backs_off) {
            // What is waited for has not come: that is no failure.
            (row.own, row.tries, row.error) = (false, false, UNKNOWN);
        }
        if self.since_ns.is_none() || (is_call && seen.is_none()) {
            self.since_ns = Some(row.end_ns);
        }
        let since_ns = self.since_ns.unwrap_or(row.end_ns);
        if row.polls && row.is("tool") && !row.well {
            let usual_ns = waits.usual_ns.get(&row.name).copied().unwrap_or(0);
            let over_ns = row.end_ns.saturating_sub(since_ns);
            let took_ns = row.end_ns.saturating_sub(start_ns);
            let watch_ns = waits.wish.lasts_ns(between_ns.max(took_ns));
            row.overdue_ns = over_ns
                .saturating_sub(usual_ns.saturating_mul(OVER_USUAL).max(watch_ns))
                .max(0);
        }
        if is_call {
            self.end_wait(row, waits.usual_ns);
            self.waits_ns = row.polls.then_some(since_ns);
            self.tool = row.name;
            // The pauses of a back-off lie between calls in a row.
            let gap_ns = if place == Some(0) { between_ns } else { 0 };
            // The figures of a queue change, and the clock by which it is looked at does not.
            let last = self.calls.iter().find(|one| one.call == row.call);
            let last = last.filter(|_| row.call != UNKNOWN);
            let pace_ns = last.map_or(0, |one| self.still_ns - one.still_ns);
            let pause_ns = last.map_or(0, |one| self.paused_ns - one.paused_ns);
            self.keep(row, gap_ns, pace_ns, pause_ns, quick);
        }
    }

    /// Whether an agent that was told to come again later does, after more than the last time.
    fn comes_later(&mut self, row: &Row, idle_ns: i64) -> bool {
        let least_ns = ((BACK_OFF * self.later_ns as f64) as i64).clamp(NS_PER_S, AWAITED_NS_MIN);
        let comes = self.later && idle_ns >= least_ns;
        if comes {
            self.later_ns = idle_ns;
        }
        if row.is("tool") {
            (self.later, self.later_ns) = (row.later, if row.later { self.later_ns } else { 0 });
        }
        comes
    }

    /// Whether a call that had no answer in time is made again after a longer pause each time.
    fn backs_off(&self, row: &Row) -> bool {
        let Some(last) = self.calls.front().filter(|one| row.ran_out && one.failed) else {
            return false;
        };
        let pause_ns = self.paused_ns - last.paused_ns;
        last.call == row.call
            && row.call != UNKNOWN
            && (NS_PER_S..ASKED_AGAIN_NS).contains(&pause_ns)
            && last.pause_ns > 0
            && pause_ns as f64 >= BACK_OFF * last.pause_ns as f64
    }

    /// Whether the task stood still before a look as long as before an equal one.
    fn is_by_clock(&self, row: &Row, one: &Seen) -> bool {
        let least_ns = if row.awaits {
            AWAITED_NS_MIN
        } else {
            STILL_NS_MIN
        };
        keeps_pace(self.still_ns - one.still_ns, one.pace_ns, least_ns)
    }

    /// Whether all calls since an equal one came at once with that or with this one, as where a
    /// response looks at all that goes on.
    fn is_by_round(&self, row: &Row, one: &Seen) -> bool {
        let since = self
            .calls
            .iter()
            .take_while(|call| call.end_ns > one.end_ns);
        let at_once = |from: i64, to: i64| to.saturating_sub(from) < NS_PER_S;
        let mut each = since.map(|call| call.end_ns);
        each.all(|end_ns| at_once(end_ns, row.end_ns) || at_once(one.end_ns, end_ns))
    }

    fn last_equal(&self, row: &Row) -> Option<usize> {
        let is_known = row.call != UNKNOWN && row.outcome != UNKNOWN;
        let same = |one: &Arc<Seen>| one.call == row.call && one.outcome == row.outcome;
        is_known.then(|| self.calls.iter().position(same)).flatten()
    }

    /// Whether a call went well the last time; of a call that is made for the first time, one of many
    /// things, whether the last call of the same tool went well, or the last one that failed in this
    /// way has gone well since.
    fn went_well_before(&self, row: &Row) -> bool {
        if row.call == UNKNOWN {
            return false;
        }
        let find = |is_such: &dyn Fn(&Seen) -> bool| self.calls.iter().position(|one| is_such(one));
        if let Some(last) = find(&|one| one.call == row.call) {
            return !self.calls[last].failed;
        }
        let other = find(&|one| row.one_thing && one.tool == row.name);
        if other.is_some_and(|at| !self.calls[at].failed) {
            return true;
        }
        // A file that is written anew fails of the same, however well it went in between.
        let may_be_other = row.outcome != UNKNOWN && !row.rewrites;
        let alike = find(&|one| one.failed && one.outcome == row.outcome);
        alike.filter(|_| may_be_other).is_some_and(|at| {
            let call = self.calls[at].call;
            let well = find(&|one| one.call == call && call != UNKNOWN && !one.failed);
            well.is_some_and(|since| since < at)
        })
    }

    /// Keep how long a wait took that ended with this call.
    fn end_wait(&self, row: &Row, usual_ns: &mut BTreeMap<i64, i64>) {
        let Some(since_ns) = self.waits_ns else {
            return;
        };
        if !row.polls && self.tool == row.name {
            let usual = usual_ns.entry(row.name).or_default();
            *usual = (*usual).max(row.end_ns.saturating_sub(since_ns));
        }
    }

    fn keep(&mut self, row: &Row, gap_ns: i64, pace_ns: i64, pause_ns: i64, quick: i64) {
        self.calls.truncate(CALLS_COMPARED - 1);
        self.calls.push_front(Arc::new(Seen {
            call: row.call,
            outcome: row.outcome,
            end_ns: row.end_ns,
            gap_ns,
            still_ns: self.still_ns,
            pace_ns,
            paused_ns: self.paused_ns,
            pause_ns,
            doing: self.doing,
            waits_seen: row.waits_seen,
            tool: row.name,
            failed: row.failed,
            quick,
            changes_seen: row.changes_seen,
        }));
    }
}

/// Whether a task stood still as long as before, as a clock makes it.
fn keeps_pace(still_ns: i64, before_ns: i64, least_ns: i64) -> bool {
    still_ns.min(before_ns) >= least_ns && (still_ns - before_ns).abs() <= before_ns / PACE_PARTS
}

// Figures that are not known are not above zero.
fn is_above_zero(figure: f64) -> bool {
    figure > 0.0
}
