//! What rules look back on: where they may fire, and which settled turns are kept for them.

use std::collections::{BTreeMap, BTreeSet};

use super::numbers::{Column, word};
use super::turns::{Turns, Watch};
use crate::count::codes::UNKNOWN;
use crate::count::row::Words;

// If more turns are counted, all rules evaluate them; no rule is asked about each turn.
const ASKED_MAX: usize = 64;

impl Turns {
    /// The rules that may fire at the turns that may move, from a place on; the longest turn or
    /// pause among them or shortly before took so long.
    #[must_use]
    pub fn asked(&self, begin: usize, longest_ns: i64, watch: &Watch) -> BTreeSet<usize> {
        let (begin, needs) = (self.settled + begin, &watch.needs);
        if self.len() - begin > ASKED_MAX {
            let bounds = needs.bounds.iter();
            let bounds = bounds.filter(|bound| bound.least_ns <= longest_ns);
            return bounds.map(|bound| bound.rule).collect();
        }
        let mut asked = BTreeSet::new();
        for at in begin..self.len() {
            let turn = self.words(at);
            let mut found = vec![None; needs.again.len()];
            let again = |place: usize| {
                *found[place].get_or_insert_with(|| self.again(&turn, at, &needs.again[place]))
            };
            needs.ask(&turn, longest_ns, again, &mut asked);
        }
        asked
    }

    /// Whether a turn before a place is known to equal this one in all columns.
    fn again(&self, turn: &Words, at: usize, columns: &[Column]) -> bool {
        let is_same = |other: &[u8]| {
            let mut each = columns.iter();
            each.all(|column| word(other, *column) as i64 == column.of(turn))
        };
        let known = columns.iter().all(|column| column.of(turn) != UNKNOWN);
        known && (0..at).any(|other| is_same(self.numbers.at(other)))
    }

    /// Drop the settled turns that no later turns depend on.
    ///
    /// A reset ends the lanes, so turns before the last reset are never looked at. A gate shows the
    /// last failures of its task.
    pub(super) fn keep(&mut self, watch: &Watch) {
        let Some(last) = self.settled.checked_sub(1).map(|last| self.words(last)) else {
            return;
        };
        let goes_on = |column: Column, words: &Words| column.of(words) == column.of(&last);
        let mut wanted = vec![false; self.settled];
        let lanes = &watch.needs.lanes;
        let mut following: Vec<BTreeMap<i64, usize>> = vec![BTreeMap::new(); lanes.len()];
        let mut failures = 0;
        for at in (0..self.settled).rev() {
            let words = self.words(at);
            if !goes_on(watch.resets_seen, &words) {
                break;
            }
            let kind = watch.needs.kind.of(&words);
            for (lane, after) in lanes.iter().zip(&mut following) {
                if lane.has(kind, &words) && goes_on(lane.epoch, &words) {
                    let after = after
                        .entry(lane.by.map_or(0, |by| by.of(&words)))
                        .or_default();
                    *after += 1;
                    wanted[at] |= *after < lane.lookback;
                }
            }
            if watch.failed.of(&words) != 0 {
                wanted[at] |= failures < watch.failures_max && goes_on(watch.epoch, &words);
                failures += 1;
            }
        }
        let is_wanted = |at: usize| wanted.get(at).is_none_or(|wanted| *wanted);
        self.numbers.retain(is_wanted);
        self.evidence.retain(is_wanted);
        self.settled = wanted.iter().filter(|wanted| **wanted).count();
    }
}
