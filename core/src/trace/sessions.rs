//! What the traces of a session show about each other: which is the first, and the results of calls.
//!
//! Some frameworks make a trace of each model call. They show the result of a call only in the
//! history that a later trace repeats.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt, HashSet};

use super::bounded::Bounded;
use super::call_spans::CallSpans;
use super::history::{CallParts, Found, parts_of};
use super::records::Records;
use super::span::hash_of;
use crate::fields::message::{ToolCall, ToolResult};

// Traces that show a result of one call; the first ones count.
const CLAIMS_MAX: usize = 100;
// The size of a result besides its text.
const CHARS_PER_RESULT: usize = 1_000;

/// A result that a trace shows of a call in a session: when it was told, and a hash of it all.
#[derive(Clone, Debug)]
pub struct Shown<'a> {
    /// The session.
    pub session: &'a str,
    /// The call.
    pub call: &'a ToolCall,
    /// What it returned.
    pub result: &'a ToolResult,
    /// The end and the id of the span that was given it, and which of the results it is.
    pub told: (i64, &'a str, usize),
    /// The start of that span.
    pub asked_ns: i64,
    /// A hash of the result and of where it was given.
    pub hash: u64,
}

/// What is known about the sessions of many traces.
#[derive(Debug)]
pub struct Sessions {
    firsts: Bounded<String, Traces>,
    of_trace: Bounded<String, (String, i64)>,
    results: HashMap<u64, Vec<Claim>>, // by the session and the call, the first that was told first
    order: BTreeMap<u64, u64>,         // where each claim is, the oldest first
    shown: HashMap<String, Vec<(u64, u64)>>, // the claims of each trace: place and hash
    next: u64,
    chars: usize,
    chars_max: usize,
    /// The calls that have spans in traces without responses.
    pub calls: CallSpans,
    /// What both spans and logs report.
    pub records: Records,
}

/// The traces of a session by their starts.
#[derive(Debug, Default)]
struct Traces {
    by_start: BTreeSet<(i64, String)>,
    has_past: bool, // whether its first trace is forgotten
}

/// A result that a trace shows of a call.
#[derive(Debug)]
struct Claim {
    session: String,
    told: (i64, String, String, usize),
    asked_ns: i64,
    hash: u64,
    result: ToolResult,
    number: u64,
}

impl Sessions {
    /// Nothing is known; so many traces are remembered, and so many characters of results.
    #[must_use]
    pub fn new(count_max: usize, chars_max: usize) -> Self {
        Self {
            firsts: Bounded::new(count_max),
            of_trace: Bounded::new(count_max),
            results: HashMap::new(),
            order: BTreeMap::new(),
            shown: HashMap::new(),
            next: 0,
            chars: 0,
            chars_max,
            calls: CallSpans::of(count_max),
            records: Records::of(chars_max),
        }
    }

    /// Note the session of a trace and its start; returns the other traces that became or are no
    /// longer the first of a session.
    pub fn note_trace(&mut self, trace_id: &str, session: &str, start_ns: i64) -> Vec<String> {
        if self
            .of_trace
            .get(trace_id)
            .is_some_and(|(before, at)| before == session && *at == start_ns)
        {
            return Vec::new();
        }
        let mut changed = Vec::new();
        if let Some((before, at)) = self.of_trace.remove(trace_id) {
            let was = self.first_of(&before).map(str::to_owned);
            if let Some(traces) = self.firsts.get_mut(&before) {
                traces.by_start.remove(&(at, trace_id.to_owned()));
                if traces.by_start.is_empty() && !traces.has_past {
                    self.firsts.remove(&before);
                }
            }
            if before != session && was.as_deref() == Some(trace_id) {
                changed.extend(self.first_of(&before).map(str::to_owned));
            }
        }
        let was = self.first_of(session).map(str::to_owned);
        let traces = self.firsts.or_set(session, Traces::default);
        traces.by_start.insert((start_ns, trace_id.to_owned()));
        self.of_trace
            .set(trace_id.to_owned(), (session.to_owned(), start_ns));
        let is = self.first_of(session);
        if is != was.as_deref() {
            changed.extend(was.filter(|was| was != trace_id));
        }
        changed
    }

    /// Whether a trace is the first one of its session.
    #[must_use]
    pub fn is_first(&self, trace_id: &str) -> bool {
        let session = self.of_trace.get(trace_id);
        session.and_then(|(session, _)| self.first_of(session)) == Some(trace_id)
    }

    fn first_of(&self, session: &str) -> Option<&str> {
        let traces = self.firsts.get(session).filter(|traces| !traces.has_past)?;
        traces.by_start.first().map(|(_, trace)| &**trace)
    }

    /// Forget a trace; what its history showed about earlier turns stays known.
    pub fn forget_trace(&mut self, trace_id: &str) {
        if let Some((session, at)) = self.of_trace.remove(trace_id)
            && let Some(traces) = self.firsts.get_mut(&session)
        {
            traces.has_past = true;
            traces.by_start.remove(&(at, trace_id.to_owned()));
        }
        self.shown.remove(trace_id);
    }

    /// Learn all results that a trace shows now, or some beside those that it has shown; returns the
    /// sessions in which one is another now.
    ///
    /// Of several results of a call, the one that was told first counts.
    pub fn learn(
        &mut self,
        trace_id: &str,
        shown: &[Shown<'_>],
        is_whole: bool,
    ) -> BTreeSet<String> {
        let now = shown.iter().map(|each| (place_of(each), each.hash));
        let now: Vec<(u64, u64)> = now.collect();
        let before = self.shown.get(trace_id).filter(|_| is_whole);
        let before = before.map(Vec::as_slice).unwrap_or_default();
        if before == now {
            return BTreeSet::new();
        }
        let (old, new): (HashSet<_>, HashSet<_>) = (
            before.iter().copied().collect(),
            now.iter().copied().collect(),
        );
        let mut changed = BTreeSet::new();
        for (place, hash) in old.difference(&new) {
            let is_lost = |claim: &Claim| claim.hash == *hash && claim.told.1 == trace_id;
            changed.extend(self.forget(*place, is_lost));
        }
        for (each, at) in shown.iter().zip(&now).filter(|(_, at)| !old.contains(at)) {
            if self.add(trace_id, each, at.0) {
                changed.insert(each.session.to_owned());
            }
        }
        let known = self.shown.entry(trace_id.to_owned()).or_default();
        if is_whole {
            known.clear();
        }
        known.extend(now);
        self.make_room();
        changed
    }

    fn make_room(&mut self) {
        while self.chars > self.chars_max {
            let Some((number, place)) = self.order.pop_first() else {
                break;
            };
            self.forget(place, |claim| claim.number == number);
        }
    }

    /// Add what a trace shows; returns whether it is the result that counts.
    fn add(&mut self, trace_id: &str, shown: &Shown<'_>, place: u64) -> bool {
        let (end_ns, span_id, number) = shown.told;
        let told = (end_ns, trace_id.to_owned(), span_id.to_owned(), number);
        let claims = self.results.entry(place).or_default();
        let at = claims.partition_point(|claim| claim.told < told);
        if at >= CLAIMS_MAX {
            return false;
        }
        let (hash, result) = (shown.hash, shown.result.clone());
        self.chars += chars(&result);
        claims.insert(
            at,
            Claim {
                session: shown.session.to_owned(),
                told,
                asked_ns: shown.asked_ns,
                hash,
                result,
                number: self.next,
            },
        );
        self.order.insert(self.next, place);
        self.next += 1;
        if claims.len() > CLAIMS_MAX
            && let Some(last) = claims.pop()
        {
            self.chars -= chars(&last.result);
            self.order.remove(&last.number);
        }
        at == 0
    }

    /// Forget claims; returns the session if the one that counted is among them.
    fn forget(&mut self, place: u64, is_lost: impl Fn(&Claim) -> bool) -> Option<String> {
        let claims = self.results.get_mut(&place)?;
        let first = claims.first().filter(|claim| is_lost(claim));
        let session = first.map(|claim| claim.session.clone());
        for lost in claims.extract_if(.., |claim| is_lost(claim)) {
            self.order.remove(&lost.number);
            self.chars -= chars(&lost.result);
        }
        if claims.is_empty() {
            self.results.remove(&place);
        }
        session
    }

    /// The result of a call in a session, a hash of it, and when a model was asked with it.
    #[must_use]
    pub fn result(&self, session: &str, call: CallParts<'_>) -> Option<Found<'_>> {
        let claim = self.results.get(&hash_of((session, call)))?.first()?;
        Some((&claim.result, claim.hash, claim.asked_ns))
    }
}

fn place_of(shown: &Shown<'_>) -> u64 {
    hash_of((shown.session, parts_of(shown.call)))
}

fn chars(result: &ToolResult) -> usize {
    CHARS_PER_RESULT + result.text.as_ref().map_or(0, String::len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_trace_is_that_which_began_first_whatever_comes_first() {
        let mut sessions = Sessions::new(100, 100_000);
        assert!(sessions.note_trace("b", "s", 2).is_empty());
        assert!(sessions.is_first("b"));
        assert_eq!(sessions.note_trace("a", "s", 1), ["b"]);
        assert!(sessions.is_first("a") && !sessions.is_first("b"));
        assert_eq!(sessions.note_trace("a", "t", 1), ["b"]);
        assert!(sessions.is_first("a") && sessions.is_first("b"));
        sessions.forget_trace("b");
        assert!(sessions.note_trace("c", "s", 0).is_empty());
        assert!(!sessions.is_first("c"));
    }

    #[test]
    fn the_result_that_was_told_first_counts() {
        let mut sessions = Sessions::new(100, 100_000);
        let text = |text: &str| Some(text.to_owned());
        let call = ToolCall {
            call_id: text("1"),
            name: "ls".to_owned(),
            arguments: None,
        };
        let said = |said: &str| ToolResult {
            call_id: text("1"),
            text: text(said),
            failed: None,
        };
        let mut learn = |trace_id: &str, end_ns: i64, result: &ToolResult| {
            let told = (end_ns, "span", 0);
            let hash = hash_of(&result.text);
            let shown = [Shown {
                session: "s",
                call: &call,
                result,
                told,
                asked_ns: 0,
                hash,
            }];
            let shown = if end_ns == 0 { &[] } else { &shown[..] };
            let changed = !sessions.learn(trace_id, shown, true).is_empty();
            let found = sessions.result("s", parts_of(&call));
            (changed, found.and_then(|(result, ..)| result.text.clone()))
        };
        assert_eq!(learn("a", 2, &said("late")), (true, text("late")));
        assert_eq!(learn("b", 1, &said("soon")), (true, text("soon")));
        assert_eq!(learn("c", 3, &said("last")), (false, text("soon")));
        assert_eq!(learn("b", 1, &said("soon")), (false, text("soon")));
        // A trace that turns out not to show it takes it back.
        assert_eq!(learn("b", 0, &said("soon")), (true, text("late")));
    }
}
