//! Steps of a task: which calls repeat an earlier one that the same response asked for.
//!
//! A step is what one response asked for: calls in parallel, or all calls up to the next turn of
//! another kind, among them those that a tool or a wrapper tried again by itself. Where the turn
//! before the calls is no response in their trace, only parallel calls are known to be a step.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::codes::{UNKNOWN, pair};
use super::marks::Marked;

// More calls than these after one response are not all of it: later responses were not recorded.
const STEP_CALLS_MAX: i64 = 8;

/// In which sense, of which step and agent, and what.
type Call = (usize, i64, i64, i64);

/// The steps of one task up to a turn.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Steps {
    /// The calls of the last parallel steps, which stand at one time, and of the last response.
    parallel: BTreeSet<Call>,
    alone: BTreeSet<Call>,
    /// Where the parallel calls stand.
    order_ns: i64,
    /// The trace of the response before the calls.
    trace: Option<i64>,
    /// The calls since that response.
    calls: i64,
    /// Where the first turn of each parallel step stands, among turns that may move.
    #[serde(with = "super::task::pairs")]
    first_ns: BTreeMap<i64, i64>,
}

impl Steps {
    /// Forget where steps began before this: these turns can no longer move.
    pub fn settle(&mut self, since_ns: i64) {
        self.first_ns.retain(|_, first_ns| *first_ns >= since_ns);
    }

    /// Mark a call that is the same as an earlier one of its step, in each sense.
    pub fn mark(&mut self, one: &mut Marked) {
        let row = &mut one.row;
        let is_call = row.is("tool");
        if !is_call {
            self.trace = row.is("model").then_some(one.trace);
            self.alone.clear();
            self.calls = 0;
        }
        let mut is_parallel = false;
        if one.step != UNKNOWN {
            let first_ns = *self.first_ns.entry(one.step).or_insert(one.order_ns);
            is_parallel = one.order_ns == first_ns;
        }
        if !is_call || !(is_parallel || self.is_in_response(one.trace)) {
            return;
        }
        if is_parallel && one.order_ns != self.order_ns {
            self.order_ns = one.order_ns;
            self.parallel.clear();
        }
        let seen = if is_parallel {
            &mut self.parallel
        } else {
            &mut self.alone
        };
        let step = if is_parallel { one.step } else { UNKNOWN };
        let failure = if row.error == UNKNOWN {
            row.mendable
        } else {
            row.error
        };
        let codes = [
            pair(row.call, row.outcome),
            row.signature,
            failure,
            i64::from(row.external),
            row.search_result,
        ];
        let mut again = [false; 5];
        for (sense, code) in codes.into_iter().enumerate() {
            again[sense] = code != UNKNOWN && !seen.insert((sense, step, row.agent, code));
        }
        [
            row.twin,
            row.twin_signature,
            row.twin_failure,
            row.twin_external,
            row.twin_search,
        ] = again;
    }

    /// Count a call that is not parallel; return whether it is of the response before it.
    fn is_in_response(&mut self, trace: i64) -> bool {
        let follows = self.trace == Some(trace);
        self.calls += i64::from(follows);
        follows && self.calls <= STEP_CALLS_MAX
    }
}
