//! What rules need of a turn to fire at it, and the lanes that they look back on.

use std::collections::BTreeSet;

use foldhash::HashSet;

use super::numbers::Column;
use crate::count::codes::{UNKNOWN, pair};
use crate::count::row::{Row, Words};

// Emptying the sets of a long task would take longer than the short tasks after it.
const SEEN_KEPT_MAX: usize = 1_000;

/// The turns that a rule looks at, as `rules/turns.py` describes them.
#[derive(Clone, Debug)]
pub struct Lane {
    /// Kinds of turn, as bits of their places.
    pub kinds: u8,
    /// What each of them has a lane of; none for one lane of the task.
    pub by: Option<Column>,
    /// What ends the lane where it changes.
    pub epoch: Column,
    /// The mark of turns that are left out.
    pub once: Column,
    /// Marks and codes that a turn must have.
    pub required: Vec<Column>,
    /// On how many turns the result at one of them depends.
    pub lookback: usize,
}

impl Lane {
    /// Whether a turn is in the lane.
    #[must_use]
    pub fn has(&self, kind: i64, words: &Words) -> bool {
        self.kinds >> kind & 1 == 1
            && self.once.of(words) == 0
            && self.required.iter().all(|column| column.of(words) != 0)
    }
}

/// One statement about a turn.
#[derive(Clone, Debug)]
pub enum Condition {
    /// An earlier turn is known to equal it in all columns of the list at this place.
    Again(usize),
    /// The column is known, or set.
    Has(Column),
    /// The column is at least so much.
    AtLeast(Column, i64),
}

/// A form of a rule, its lane, and the ways in which it may fire at a turn.
#[derive(Clone, Debug)]
pub struct Asking {
    /// The place of the rule.
    pub rule: usize,
    /// The place of its lane.
    pub lane: usize,
    /// One of them must hold, with all of its conditions.
    pub ways: Vec<Vec<Condition>>,
    /// How long a turn or a pause is at least at which it may fire.
    pub least_ns: i64,
}

impl Asking {
    /// Whether the rule may fire at a turn of its lane.
    pub fn allows(&self, turn: &Words, mut again: impl FnMut(usize) -> bool) -> bool {
        let mut holds = |condition: &Condition| match condition {
            Condition::Has(column) => column.of(turn) != 0,
            Condition::AtLeast(column, least) => column.of(turn) >= *least,
            Condition::Again(place) => again(*place),
        };
        self.ways.iter().any(|way| way.iter().all(&mut holds))
    }
}

/// What all rules need.
#[derive(Clone, Debug)]
pub struct Needs {
    /// Where the rules look, and other lanes of which turns are kept.
    pub lanes: Vec<Lane>,
    /// The forms of the rules.
    pub bounds: Vec<Asking>,
    /// Columns in which a turn may equal an earlier one.
    pub again: Vec<Vec<Column>>,
    /// The column of kinds.
    pub kind: Column,
}

impl Needs {
    /// Add the rules that may fire at a turn, which took so long, or the pause before it.
    pub fn ask(
        &self,
        turn: &Words,
        lasted_ns: i64,
        mut again: impl FnMut(usize) -> bool,
        asked: &mut BTreeSet<usize>,
    ) {
        let kind = self.kind.of(turn);
        let bounds = self.bounds.iter();
        for bound in bounds.filter(|bound| bound.least_ns <= lasted_ns) {
            if !asked.contains(&bound.rule)
                && self.lanes[bound.lane].has(kind, turn)
                && bound.allows(turn, &mut again)
            {
                asked.insert(bound.rule);
            }
        }
    }
}

/// The rules that may fire in a whole task, of whose turns each is asked about in its place.
pub struct Asked<'a> {
    needs: &'a Needs,
    /// They may fire.
    pub rules: BTreeSet<usize>,
    /// For each list of columns, the codes of the turns so far, and whether the last came again.
    seen: Vec<(HashSet<i64>, bool)>,
    end_ns: Option<i64>,
}

impl<'a> Asked<'a> {
    /// Begin a task.
    #[must_use]
    pub fn of(needs: &'a Needs) -> Self {
        let seen = vec![(HashSet::default(), false); needs.again.len()];
        Self {
            needs,
            rules: BTreeSet::new(),
            seen,
            end_ns: None,
        }
    }

    /// Begin another task; return the rules of the one before.
    pub fn begin(&mut self) -> BTreeSet<usize> {
        for (seen, _) in &mut self.seen {
            if seen.capacity() > SEEN_KEPT_MAX {
                *seen = HashSet::default();
            }
            seen.clear();
        }
        self.end_ns = None;
        std::mem::take(&mut self.rules)
    }

    /// Ask about the next turn.
    pub fn ask(&mut self, row: &Row, start_ns: i64) {
        let turn = row.words();
        for (columns, (seen, came)) in self.needs.again.iter().zip(&mut self.seen) {
            let code = columns.iter().map(|column| column.of(&turn)).reduce(pair);
            // Two codes that are one by chance only let a rule look in vain.
            *came = code.is_some_and(|code| code != UNKNOWN && !seen.insert(code));
        }
        let since_ns = self.end_ns.map_or(start_ns, |end_ns| end_ns.min(start_ns));
        self.end_ns = Some(row.end_ns);
        let lasted_ns = row.end_ns.saturating_sub(since_ns);
        let again = |place: usize| self.seen[place].1;
        self.needs.ask(&turn, lasted_ns, again, &mut self.rules);
    }
}
