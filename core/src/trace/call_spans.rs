//! Calls with spans in traces without responses, so that the response that asked for one does not
//! tell it again.
//!
//! A step of a durable workflow, or a function that has lost its context, has a trace of its own.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt};

use super::bounded::Bounded;
use super::call_ids::written_id;
use super::span::hash_of;
use crate::fields::made_ids::is_made;
use crate::fields::message::ToolCall;
use crate::fields::said::told;

/// The most calls of a trace of which responses of other traces are told.
pub const CALLS_MAX: usize = 8;

/// A call of a session, by its id and what it does.
pub type CallPlace = (String, u64);

/// The calls of many traces.
#[derive(Debug)]
pub struct CallSpans {
    of_trace: Bounded<String, Vec<CallPlace>>,
    counts: HashMap<u64, usize>,
}

impl CallSpans {
    /// Nothing is known, and so many traces are remembered.
    #[must_use]
    pub fn of(traces_max: usize) -> Self {
        Self {
            of_trace: Bounded::new(traces_max),
            counts: HashMap::new(),
        }
    }

    /// Learn all calls of a trace; returns the sessions in which one is new or gone.
    pub fn learn(&mut self, trace_id: &str, now: Vec<CallPlace>) -> BTreeSet<String> {
        let before = self.of_trace.get(trace_id).map(Vec::as_slice);
        if before.unwrap_or_default() == now {
            return BTreeSet::new();
        }
        let before = self.of_trace.remove(trace_id).unwrap_or_default();
        for (_, place) in &now {
            *self.counts.entry(*place).or_default() += 1;
        }
        self.forget(&before);
        let changed = before
            .iter()
            .chain(&now)
            .map(|(session, _)| session.clone());
        let changed = changed.collect();
        if !now.is_empty()
            && let Some((_, lost)) = self.of_trace.set(trace_id.to_owned(), now)
        {
            self.forget(&lost);
        }
        changed
    }

    /// Whether a call that a response asked for has a span in such a trace of its session.
    #[must_use]
    pub fn has(&self, session: &str, call: &ToolCall) -> bool {
        let arguments = call.arguments.as_deref();
        !self.counts.is_empty()
            && place_of(session, call.call_id.as_ref(), &call.name, arguments)
                .is_some_and(|place| self.counts.contains_key(&place))
    }

    fn forget(&mut self, places: &[CallPlace]) {
        for (_, place) in places {
            if let Some(count) = self.counts.get_mut(place) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(place);
                }
            }
        }
    }
}

/// What tells a call in a session; `None` if its id or its arguments are unknown.
#[must_use]
pub fn place_of(
    session: &str,
    id: Option<&String>,
    name: &str,
    arguments: Option<&str>,
) -> Option<u64> {
    let id = told(id).filter(|id| !is_made(id)).map(written_id)?;
    Some(hash_of((session, id, name, arguments?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(id: &str) -> ToolCall {
        ToolCall {
            call_id: Some(id.into()),
            name: "f".into(),
            arguments: Some("{}".into()),
        }
    }

    fn place(id: &str) -> CallPlace {
        let call = call(id);
        let place = place_of("s", call.call_id.as_ref(), "f", Some("{}"));
        ("s".into(), place.unwrap_or_default())
    }

    #[test]
    fn a_call_is_known_while_a_trace_has_it() {
        let mut calls = CallSpans::of(2);
        assert_eq!(calls.learn("t", vec![place("1")]).len(), 1);
        assert!(calls.learn("t", vec![place("1")]).is_empty());
        assert!(calls.has("s", &call("1")) && calls.has("s", &call("1#2")));
        assert!(!calls.has("r", &call("1")) && !calls.has("s", &call("2")));
        calls.learn("u", vec![place("1"), place("2")]);
        calls.learn("t", Vec::new());
        assert!(calls.has("s", &call("1")));
        calls.learn("v", vec![place("3")]);
        calls.learn("w", vec![place("4")]); // The oldest is forgotten.
        assert!(!calls.has("s", &call("1")) && calls.has("s", &call("4")));
    }

    #[test]
    fn a_call_without_an_id_or_arguments_is_not_known() {
        assert_eq!(place_of("s", None, "f", Some("{}")), None);
        assert_eq!(place_of("s", Some(&"~1.2".into()), "f", Some("{}")), None);
        assert_eq!(place_of("s", Some(&"1".into()), "f", None), None);
    }
}
