//! The spans of a trace on their way to turns: related, settled, merged, with the results shown.

use std::collections::BTreeSet;

use super::call_spans::{CALLS_MAX, CallPlace, place_of};
use super::history::{Given, ResultsInTrace, given_results, models_given};
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
    /// Whether it has all spans of the trace.
    pub is_whole: bool,
    /// The same, as the spans were read.
    pub given: Vec<Given<'a>>,
}

/// What a trace changed for others of its session.
#[derive(Debug, Default)]
pub struct Taught {
    /// Sessions in which a result is new or another.
    pub sessions: BTreeSet<String>,
    /// Traces that became or are no longer the first of a session.
    pub traces: Vec<String>,
}

impl<'a> Draft<'a> {
    /// Relate and merge the spans of a trace; those that ended are in order, by end, start and id.
    #[must_use]
    pub fn new(spans: &[&'a Span], above: &[&'a Span], ties: &'a Ties) -> Self {
        let tree = Tree::new(spans, above, ties);
        let given = given_results(models_given(&tree), &tree);
        let views = merged_views(&tree);
        let results = if views.len() == tree.ended {
            ResultsInTrace::new(&given, &tree)
        } else {
            let models = views.iter().filter(|view| {
                let fields = &view.heard.fields;
                let is_told = !fields.heard().is_empty() || fields.brings_results();
                view.kind == Some(Role::Model) && is_told
            });
            let models = models.map(|view| (view.place, view.heard));
            ResultsInTrace::new(&given_results(models, &tree), &tree)
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
            is_whole: true,
            given,
        }
    }

    /// Some spans of a trace, none of which is merged, without results.
    #[must_use]
    pub fn part(tree: Tree<'a>) -> Option<Self> {
        let views = merged_views(&tree);
        (views.len() == tree.ended).then(|| Self {
            tree,
            views,
            results: ResultsInTrace::default(),
            start_ns: None,
            is_whole: false,
            given: Vec::new(),
        })
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
        let mut taught = Taught {
            sessions: sessions.learn(self.trace_id(), &shown(&self.given, 0, &self.tree)),
            traces: Vec::new(),
        };
        let calls = self.call_places();
        taught
            .sessions
            .extend(sessions.calls.learn(self.trace_id(), calls));
        if let Some(start_ns) = self.start_ns {
            let session = &self.tree.session.name;
            taught.traces = sessions.note_trace(self.trace_id(), session, start_ns);
        }
        taught
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
}

/// The results that are shown with their calls, of those that models were given; `before` them the
/// trace has shown so many.
pub(super) fn shown<'d>(given: &[Given<'d>], before: usize, tree: &'d Tree<'_>) -> Vec<Shown<'d>> {
    let shown = given.iter().zip(before..).filter_map(|(each, number)| {
        let fields = tree.fields(each.place);
        Some(Shown {
            session: &tree.frames.session(each.place).name,
            call: each.call?,
            result: each.result,
            told: (fields.end_ns, &fields.span_id, number),
            hash: hash_of((tree.spans[each.place].hash, number)),
        })
    });
    shown.collect()
}
