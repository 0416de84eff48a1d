//! What an agent reports twice: in a span, and in a record of its log.
//!
//! Coding agents export both. A record that repeats a span is no turn of its own; it adds to the
//! span's what that lacks. Both name the session, but often not the same trace, so that they meet
//! here, whatever comes first.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use foldhash::{HashMap, HashMapExt};

use super::agents::is_from_user;
use super::call_ids::written_id;
use super::span::hash_of;
use super::turn::{Kind, Turn, lent};
use super::view::View;
use crate::fields::figures::Tokens;
use crate::fields::made_ids::is_made;
use crate::fields::said::told;
use crate::fields::span_fields::{Name, Role};

// Both are written when a call ends, one of them in milliseconds.
const NEAR_NS: i64 = 1_000_000_000;
// An agent may choose a model, or run hooks, before it passes on a person's message.
const NEAR_MESSAGE_NS: i64 = 30 * NEAR_NS;
// The size of a report besides its texts.
const CHARS_PER_REPORT: usize = 300;

/// What a record tells of a call or a response, or the words of a person.
#[derive(Debug, Default, PartialEq)]
pub struct Told {
    /// A hash of the record.
    pub hash: u64,
    name: String,
    arguments: Option<String>,
    result: Option<String>,
    failed: Option<bool>,
    error_type: Option<String>,
    error: Option<String>,
    tokens: Tokens,
    note: Option<String>,
}

/// A call, a response or a message, as a span or a record reports it.
#[derive(Debug)]
struct Report {
    trace: Name,
    span: String,
    mark: Mark,
    told: Option<Arc<Told>>, // of a record
    number: u64,
}

/// By what a report is known again.
#[derive(Clone, Copy, Debug)]
struct Mark {
    is_record: bool,
    is_message: bool,
    start_ns: i64,
    end_ns: i64,
    id: Option<u64>, // of the call
    arguments: Option<u64>,
}

/// The reports of many traces.
#[derive(Debug)]
pub struct Records {
    at: HashMap<u64, Vec<Report>>, // by the session and what is reported
    of_span: HashMap<u64, (u64, Vec<Vec<u64>>)>, // a hash of what each reports, and its places
    order: BTreeMap<u64, u64>,     // which span reported, the first ones first
    next: u64,
    chars: usize,
    chars_max: usize,
    /// Whether there are only spans or only records, so that nothing is asked.
    pub are_alone: bool,
}

impl Records {
    /// Nothing is known, and so many characters are remembered.
    #[must_use]
    pub fn of(chars_max: usize) -> Self {
        Self {
            at: HashMap::new(),
            of_span: HashMap::new(),
            order: BTreeMap::new(),
            next: 0,
            chars: 0,
            chars_max,
            are_alone: false,
        }
    }

    /// Learn what a span or a record reports; returns the other traces that change by that.
    ///
    /// What was reported stays known, because a long trace loses its spans.
    pub fn learn(&mut self, session: &str, view: &View<'_>) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        let fields = view.fields();
        // Records name a session.
        if self.are_alone || *session == *fields.trace_id {
            return changed;
        }
        let places = places(session, view);
        if places.is_empty() {
            return changed;
        }
        let span = hash_of((&fields.trace_id, &fields.span_id));
        let hash = hash_of((&places, view.content));
        if self.of_span.get(&span).is_some_and(|known| known.0 == hash) {
            return changed;
        }
        changed.extend(self.forget(span));
        let number = self.next;
        self.next += 1;
        let told = fields.is_record.then(|| Arc::new(told_by(view)));
        for place in &places {
            let report = Report {
                trace: fields.trace_id.clone(),
                span: fields.span_id.clone(),
                mark: mark_of(view, place.is_message),
                told: told.clone(),
                number,
            };
            changed.extend(self.met_by(&place.near, report.mark));
            self.chars += report.chars();
            self.at.entry(place.near[0]).or_default().push(report);
        }
        let places = places.into_iter().map(|place| place.near).collect();
        self.of_span.insert(span, (hash, places));
        self.order.insert(number, span);
        while self.chars > self.chars_max
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.forget(oldest);
        }
        changed.remove(&*fields.trace_id);
        changed
    }

    /// Whether a span reports what a record does.
    #[must_use]
    pub fn repeats(&self, session: &str, view: &View<'_>) -> bool {
        view.fields().is_record && self.met(session, view, false).next().is_some()
    }

    /// What a record tells of a span's call or response: the one that ended nearest.
    #[must_use]
    pub fn of_span(&self, session: &str, view: &View<'_>) -> Option<&Told> {
        let end_ns = view.fields().end_ns;
        let met = self.met(session, view, false);
        let nearest = met.min_by_key(|met| (met.mark.end_ns.abs_diff(end_ns), &met.span));
        nearest?.told.as_deref()
    }

    /// Whether a record has the message of a span.
    #[must_use]
    pub fn has_message(&self, session: &str, view: &View<'_>) -> bool {
        let message = view.message().unwrap_or_default();
        let mut met = self.met(session, view, true);
        // An agent puts its surroundings around the words of a person.
        met.any(|met| {
            let told = met.told.as_ref().and_then(|told| told.note.as_deref());
            told.is_none_or(|note| message.contains(note))
        })
    }

    /// The reports of what a view is, from the other side.
    fn met(
        &self,
        session: &str,
        view: &View<'_>,
        is_message: bool,
    ) -> impl Iterator<Item = &Report> {
        let places = if self.at.is_empty() {
            Vec::new()
        } else {
            places(session, view)
        };
        let places = places.into_iter();
        let places = places.filter(move |place| place.is_message == is_message);
        let reports = places
            .flat_map(|place| place.near)
            .filter_map(|key| self.at.get(&key))
            .flatten();
        let is_record = view.fields().is_record;
        let mut own = None; // Most have no other side.
        reports.filter(move |other| {
            other.mark.is_record != is_record
                && own
                    .get_or_insert_with(|| mark_of(view, is_message))
                    .meets(other.mark)
        })
    }

    fn met_by(&self, near: &[u64], mark: Mark) -> BTreeSet<String> {
        let others = near.iter().filter_map(|key| self.at.get(key)).flatten();
        let met = others.filter(|other| mark.meets(other.mark));
        met.map(|other| other.trace.to_string()).collect()
    }

    /// Forget what a span reported; returns the traces of what met it.
    fn forget(&mut self, span: u64) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        let Some((_, places)) = self.of_span.remove(&span) else {
            return changed;
        };
        for near in places {
            let Some(reports) = self.at.get_mut(&near[0]) else {
                continue;
            };
            let is_own = |each: &Report| hash_of((&each.trace, &each.span)) == span;
            let Some(place) = reports.iter().position(is_own) else {
                continue;
            };
            let lost = reports.swap_remove(place);
            if reports.is_empty() {
                self.at.remove(&near[0]);
            }
            self.order.remove(&lost.number);
            self.chars -= lost.chars();
            changed.extend(self.met_by(&near, lost.mark));
        }
        changed
    }
}

impl Report {
    fn chars(&self) -> usize {
        let told = self.told.as_ref().map_or(0, |told| {
            let texts = [&told.arguments, &told.result, &told.error, &told.note];
            texts.into_iter().flatten().map(String::len).sum()
        });
        CHARS_PER_REPORT + told
    }
}

impl Mark {
    /// Whether one of two reports is a span's, the other a record's, and both are of one thing.
    fn meets(self, other: Self) -> bool {
        let may_be =
            |one: Option<u64>, two: Option<u64>| one == two || one.is_none() || two.is_none();
        if self.is_record == other.is_record {
            false
        } else if self.id.is_some() && self.id == other.id {
            // A span may wait for hooks that run after the call.
            let start_ns = self.start_ns.max(other.start_ns);
            start_ns.saturating_sub(self.end_ns.min(other.end_ns)) <= NEAR_NS
        } else {
            self.end_ns.saturating_sub(other.end_ns).abs() <= near_ns(self.is_message)
                && may_be(self.id, other.id)
                && may_be(self.arguments, other.arguments)
        }
    }
}

/// Where a report is kept, and then where those may be that meet it.
#[derive(Hash)]
struct Place {
    near: Vec<u64>,
    is_message: bool,
}

#[derive(Hash)]
enum What<'a> {
    CallId(&'a str),
    Call(&'a str),
    Response(i64), // by the tokens of its input
    Failed,
    Message,
}

fn places(session: &str, view: &View<'_>) -> Vec<Place> {
    let fields = view.fields();
    let mut found = Vec::new();
    let mut add = |what: What<'_>| {
        let is_message = matches!(what, What::Message);
        let at = end_of(view, is_message) / near_ns(is_message);
        let near = match what {
            What::CallId(_) => vec![hash_of((session, &what))],
            _ => [at, at - 1, at + 1]
                .map(|at| hash_of((session, &what, at)))
                .into(),
        };
        found.push(Place { near, is_message });
    };
    match view.kind {
        Some(Role::Tool) if !fields.is_part => {
            add(What::Call(view.name()));
            if let Some(id) = call_id(view) {
                add(What::CallId(id));
            }
        }
        Some(Role::Model) => {
            if view.failed == Some(true) {
                add(What::Failed);
            } else if let Some(input) = view.tokens.input.filter(|input| *input != 0) {
                add(What::Response(input));
            }
        }
        _ => {}
    }
    if fields.is_record {
        let mut words = fields.rare().interventions.iter();
        if view.kind.is_none() && words.any(|word| word.decision.is_none()) {
            add(What::Message);
        }
    } else if matches!(view.kind, Some(Role::Agent | Role::Model)) && is_from_user(view) {
        add(What::Message);
    }
    found
}

fn mark_of(view: &View<'_>, is_message: bool) -> Mark {
    let fields = view.fields();
    Mark {
        is_record: fields.is_record,
        is_message,
        start_ns: fields.start_ns,
        end_ns: end_of(view, is_message),
        id: call_id(view).map(hash_of),
        arguments: view.arguments.filter(|_| !is_message).map(hash_of),
    }
}

fn near_ns(is_message: bool) -> i64 {
    if is_message { NEAR_MESSAGE_NS } else { NEAR_NS }
}

/// The end; a message was said before its span began.
fn end_of(view: &View<'_>, is_message: bool) -> i64 {
    if is_message {
        view.fields().start_ns
    } else {
        view.end_ns
    }
}

fn told_by(view: &View<'_>) -> Told {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    let mut words = view.fields().rare().interventions.iter();
    Told {
        hash: view.content,
        name: view.name().to_owned(),
        arguments: owned(view.arguments),
        result: owned(view.result),
        failed: view.failed,
        error_type: owned(view.error_type),
        error: owned(view.error),
        tokens: view.tokens,
        note: words.find_map(|word| word.note.clone()),
    }
}

fn call_id<'a>(view: &View<'a>) -> Option<&'a str> {
    let id = view.call_id.filter(|id| !id.is_empty() && !is_made(id));
    id.map(written_id)
}

impl Told {
    /// Add what a record knows to the turn of its span. A failure that either of them saw is kept.
    ///
    /// A result that only the span has tells more: of a command that failed, Gemini CLI's log says
    /// that it was run with success, and Claude Code's that a command failed.
    pub fn fill<'t>(&'t self, turn: &mut Turn<'t>) {
        let add = |own: &mut Option<Cow<'t, str>>, more: &'t Option<String>| {
            let known = own.take().filter(|text| !text.is_empty());
            *own = known.or_else(|| lent(told(more.as_ref())));
        };
        if turn.kind == Kind::Model {
            // Codex names the model in its log alone, and Claude Code as prices do.
            turn.name = lent(Some(&self.name));
            turn.tokens.add(&self.tokens);
        } else {
            add(&mut turn.arguments, &self.arguments);
        }
        if turn.result.is_none() {
            add(&mut turn.error_type, &self.error_type);
            add(&mut turn.error, &self.error);
            add(&mut turn.result, &self.result);
            turn.failed = turn.failed.max(self.failed);
        } else if self.failed == Some(true) {
            turn.failed = self.failed;
        }
    }
}
