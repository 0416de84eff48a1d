//! What rules need of a turn to fire at it, and the lanes that they look back on.

use super::numbers::Column;
use crate::count::row::Words;

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
