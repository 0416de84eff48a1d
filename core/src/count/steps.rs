//! Steps of a task: which calls repeat an earlier one that the same response asked for.
//!
//! A step is what one response asked for: calls in parallel, or all calls up to the next turn of
//! another kind, among them those that a tool or a wrapper tried again by itself. Where the turn
//! before the calls is no response in their trace, only parallel calls are known to be a step.
//!
//! Agents that work at the same time cannot learn from one another either: a failure that another
//! agent met in a call that began after this agent's response did is the same try, and so are equal
//! requests that are made at once. So are equal responses to one input: they are samples.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use serde::{Deserialize, Serialize};

use super::codes::{UNKNOWN, pair};
use super::marks::Marked;
use super::row::Row;

// More calls than these after one response are not all of it: later responses were not recorded.
const STEP_CALLS_MAX: i64 = 8;
// A tool or a wrapper hardly tries more than five times by itself; other equal calls are the
// agent's own.
const TRIES_MAX: i64 = 4;

// Failures and requests of agents at work with which a new one is compared.
const OTHERS_KEPT: usize = 16;
// Requests that are made within this time are made at once: no agent answers sooner.
const AT_ONCE_NS: i64 = 200_000_000;

/// What an agent did, and when that began and ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Done {
    agent: i64,
    what: i64,
    start_ns: i64,
    end_ns: i64,
}

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
    /// The calls since that response, and how often each came with its outcome.
    calls: i64,
    #[serde(default, with = "super::pairs")]
    tries: BTreeMap<i64, i64>,
    /// Where the first turn of each parallel step stands, among turns that may move.
    #[serde(with = "super::pairs")]
    first_ns: BTreeMap<i64, i64>,
    /// The last thought that a tool took down.
    #[serde(default)]
    thought: i64,
    /// Whether the last call was no thought.
    #[serde(default)]
    acted: bool,
    /// When the last response of each agent began.
    responses_ns: BTreeMap<i64, i64>,
    /// The last failures, and the last requests to agents and to models.
    failures: VecDeque<Done>,
    requests: VecDeque<Done>,
}

impl Steps {
    /// Forget where steps began before this: these turns can no longer move.
    pub fn settle(&mut self, since_ns: i64) {
        self.first_ns.retain(|_, first_ns| *first_ns >= since_ns);
    }

    /// Mark a call that is the same as an earlier one of its step, in each sense.
    pub fn mark(&mut self, one: &mut Marked) {
        self.mark_step(one);
        let (row, start_ns) = (&mut one.row, one.start_ns);
        if row.thinks {
            // A new thought changes nothing between two calls, as the words of a response do not.
            row.new_thought = self.acted && self.thought != row.call;
            self.thought = row.call;
        }
        if row.is("tool") {
            self.acted = !row.thinks;
        }
        if row.is("model") {
            self.responses_ns.insert(row.agent, start_ns);
        }
        let asked = if row.is("model") {
            pair(row.call, row.response)
        } else {
            row.call
        };
        if (row.is("model") || row.is("handoff")) && asked != UNKNOWN {
            let done = Done::of(row, asked, start_ns);
            row.twin |= seen(&mut self.requests, done, |one, other| {
                other.agent == one.agent
                    && one.start_ns < other.end_ns
                    && (one.start_ns - other.start_ns).abs() <= AT_ONCE_NS
            });
        } else if row.error != UNKNOWN {
            let since_ns = self.responses_ns.get(&row.agent).copied();
            let since_ns = since_ns.unwrap_or(start_ns);
            let done = Done::of(row, row.error, start_ns);
            row.twin_failure |= seen(&mut self.failures, done, |one, other| {
                other.agent != one.agent && since_ns < other.start_ns
            });
        }
    }

    fn mark_step(&mut self, one: &mut Marked) {
        let row = &mut one.row;
        let is_call = row.is("tool");
        if !is_call {
            self.trace = row.is("model").then_some(one.trace);
            self.alone.clear();
            self.tries.clear();
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
        if !is_parallel {
            let tries = self.tries.entry(codes[0]).or_default();
            *tries += 1;
            again[0] &= *tries <= TRIES_MAX;
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

impl Done {
    fn of(row: &Row, what: i64, start_ns: i64) -> Self {
        Self {
            agent: row.agent,
            what,
            start_ns,
            end_ns: row.end_ns,
        }
    }
}

/// Whether the same was done before by another at work, and keep it.
fn seen(before: &mut VecDeque<Done>, one: Done, fits: impl Fn(&Done, &Done) -> bool) -> bool {
    let is_seen = before
        .iter()
        .any(|other| other.what == one.what && fits(&one, other));
    before.truncate(OTHERS_KEPT - 1);
    before.push_front(one);
    is_seen
}

#[cfg(test)]
mod tests {
    use super::super::how::NS_PER_S;
    use super::super::tests::{at, each};
    use crate::count::turn::Turn;

    fn failure(second: i64, agent: &'static str) -> Turn<'static> {
        Turn {
            agent: Some(agent),
            failed: true,
            name: Some("run"),
            call: Some(agent),
            outcome: Some("no"),
            error: Some("no"),
            error_kind: Some("unknown"),
            ..at(second, "tool")
        }
    }

    fn response(second: i64, agent: &'static str) -> Turn<'static> {
        Turn {
            agent: Some(agent),
            start_ns: (second - 1) * NS_PER_S,
            ..at(second, "model")
        }
    }

    #[test]
    fn agents_at_work_cannot_learn_from_one_another() {
        let turns = [
            response(2, "a"),
            response(3, "b"),
            failure(3, "a"),
            failure(4, "b"),
            response(6, "c"),
            failure(6, "c"),
        ];
        let twins = each(&turns, |row| row.twin_failure);
        assert_eq!(twins, [false, false, false, true, false, false]);
        let alone = [
            response(2, "a"),
            failure(3, "a"),
            at(4, "handoff"),
            failure(5, "a"),
        ];
        assert!(!each(&alone, |row| row.twin_failure).contains(&true));
    }

    #[test]
    fn equal_requests_that_are_made_at_once_are_one() {
        let asked = |start_ns: i64, second: i64, request| Turn {
            start_ns,
            call: Some(request),
            ..at(second, "handoff")
        };
        let turns = [
            asked(0, 4, "solve it"),
            asked(1_000_000, 5, "solve it"),
            asked(2_000_000, 6, "review it"),
            asked(NS_PER_S, 7, "solve it"),
            asked(8 * NS_PER_S, 8, "solve it"),
            asked(8 * NS_PER_S, 9, "solve it"),
        ];
        let twins = each(&turns, |row| row.twin);
        assert_eq!(twins, [false, true, false, false, false, false]);
    }

    #[test]
    fn equal_responses_that_are_asked_for_at_once_are_samples() {
        let sampled = |start_ns: i64, second: i64| Turn {
            start_ns,
            call: Some("what is it?"),
            response: Some("391"),
            ..at(second, "model")
        };
        let turns = [
            sampled(0, 4),
            sampled(1_000_000, 5),
            sampled(5 * NS_PER_S, 6),
            sampled(6 * NS_PER_S, 7),
        ];
        let twins = each(&turns, |row| row.twin);
        assert_eq!(twins, [false, true, false, false]);
    }
}
