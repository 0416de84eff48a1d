//! The spans of a trace on their way to turns: related, settled, merged, with the results shown.

use std::collections::BTreeSet;

use super::call_spans::{CALLS_MAX, CallPlace, place_of};
use super::frames::only_user;
use super::history::{Given, ResultsInTrace, given_results, models_given};
use super::running::count_once;
use super::sessions::{Sessions, Shown};
use super::span::{Span, hash_of};
use super::ties::Ties;
use super::tree::Tree;
use super::twins::merged_views;
use super::view::View;
use crate::fields::span_fields::Role;

/// A trace before other traces of its session are asked.
pub struct Draft<'a> {
    /// The spans and their parents.
    pub tree: Tree<'a>,
    /// The spans that ended, without those that were merged.
    pub views: Vec<View<'a>>,
    /// The results that its models were given.
    pub results: ResultsInTrace<'a>,
    /// The start of the first span that tells of turns.
    pub start_ns: Option<i64>,
    /// What its models were given, as the spans were read.
    pub given: Vec<Given<'a>>,
    before: Option<usize>, // how much the rest of the trace was given, of a part of one
}

/// What a trace changed for others of its session.
#[derive(Debug, Default)]
pub struct Taught {
    /// Sessions in which a result is new or another.
    pub sessions: BTreeSet<String>,
    /// Traces that became or are no longer the first of a session, or report what this one does.
    pub traces: Vec<String>,
}

impl<'a> Draft<'a> {
    /// Relate and merge the spans of a trace; those that ended are in order, by end, start and id.
    #[must_use]
    pub fn new(spans: &[&'a Span], above: &[&'a Span], ties: &'a Ties) -> Self {
        let user = only_user(spans.iter().chain(above).copied());
        let tree = Tree::new(spans, above, user, ties);
        let given = given_results(models_given(&tree), &tree);
        Self::of(tree, given, None)
    }

    /// A trace with what its models were given; or a part of one, whose models were given so much
    /// `before`.
    #[must_use]
    pub fn of(tree: Tree<'a>, given: Vec<Given<'a>>, before: Option<usize>) -> Self {
        let mut views = merged_views(&tree);
        count_once(&mut views);
        let results = if views.len() == tree.ended {
            ResultsInTrace::new(&given, before.unwrap_or(0), &tree)
        } else {
            let models = views.iter().filter(|view| {
                let fields = &view.heard.fields;
                let is_told = !fields.heard().is_empty() || fields.brings_results();
                view.kind == Some(Role::Model) && is_told
            });
            let models = models.map(|view| (view.place, view.heard));
            ResultsInTrace::new(&given_results(models, &tree), 0, &tree)
        };
        let members = views
            .iter()
            .filter(|view| view.span.tells_of_turns(view.kind));
        let start_ns = members.map(|view| view.fields().start_ns).min();
        Self {
            tree,
            views,
            results,
            start_ns,
            given,
            before,
        }
    }

    /// Whether it has all spans of the trace.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.before.is_none()
    }

    /// The id of the trace.
    #[must_use]
    pub fn trace_id(&self) -> &'a str {
        self.tree
            .spans
            .first()
            .map_or("", |span| &span.fields.trace_id)
    }

    /// Tell the session of the results that were shown, and of the start of the trace.
    pub fn teach(&self, sessions: &mut Sessions) -> Taught {
        let (trace_id, is_whole) = (self.trace_id(), self.is_whole());
        let mut taught = Taught {
            sessions: sessions.learn(trace_id, &self.shown(), is_whole),
            traces: self.teach_records(sessions),
        };
        if !is_whole {
            return taught;
        }
        let calls = self.call_places();
        taught
            .sessions
            .extend(sessions.calls.learn(trace_id, calls));
        if let Some(start_ns) = self.start_ns {
            let session = &self.tree.session.name;
            let traces = sessions.note_trace(trace_id, session, start_ns);
            taught.traces.extend(traces);
        }
        taught
    }

    fn teach_records(&self, sessions: &mut Sessions) -> Vec<String> {
        let mut changed = BTreeSet::new();
        for view in &self.views {
            let session = &self.tree.frames.session(view.place).name;
            changed.extend(sessions.records.learn(session, view));
        }
        changed.remove(self.trace_id());
        changed.into_iter().collect()
    }

    /// The calls of a trace that has no response and few calls; none of another.
    #[must_use]
    pub fn call_places(&self) -> Vec<CallPlace> {
        let is_call = |view: &&View<'_>| view.kind == Some(Role::Tool) && !view.fields().is_part;
        let has_model = self.tree.kinds.contains(&Some(Role::Model));
        if has_model || self.views.iter().filter(is_call).count() > CALLS_MAX {
            return Vec::new();
        }
        let places = self.views.iter().filter(is_call).filter_map(|view| {
            let session = &self.tree.frames.session(view.place).name;
            let id = view.fields().call_id.as_ref();
            let place = place_of(session, id, view.name(), view.arguments)?;
            Some((session.clone(), place))
        });
        places.collect()
    }

    /// The results that are shown with their calls, of those that models were given.
    fn shown(&self) -> Vec<Shown<'_>> {
        let numbered = self.given.iter().zip(self.before.unwrap_or(0)..);
        let shown = numbered.filter_map(|(each, number)| {
            let fields = self.tree.fields(each.place);
            Some(Shown {
                session: &self.tree.frames.session(each.place).name,
                call: each.call?,
                result: each.result,
                told: (fields.end_ns, &fields.span_id, number),
                asked_ns: fields.start_ns,
                hash: hash_of((self.tree.spans[each.place].hash, number)),
            })
        });
        shown.collect()
    }
}
