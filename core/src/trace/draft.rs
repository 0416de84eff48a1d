//! The spans of a trace on their way to turns: related, settled, merged, with the results shown.

use std::collections::BTreeSet;

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
    given: Vec<Given<'a>>, // as the spans were read
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
                view.kind == Some(Role::Model) && !view.heard.fields.heard().is_empty()
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
            given,
        }
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
        let mut shown = Vec::new();
        for (number, each) in self.given.iter().enumerate() {
            if let Some(call) = each.call {
                let fields = self.tree.fields(each.place);
                shown.push(Shown {
                    session: &self.tree.frames.session(each.place).name,
                    call,
                    result: each.result,
                    told: (fields.end_ns, &fields.span_id, number),
                    hash: hash_of((self.tree.spans[each.place].hash, number)),
                });
            }
        }
        let mut taught = Taught {
            sessions: sessions.learn(self.trace_id(), &shown),
            traces: Vec::new(),
        };
        if let Some(start_ns) = self.start_ns {
            let session = &self.tree.session.name;
            taught.traces = sessions.note_trace(self.trace_id(), session, start_ns);
        }
        taught
    }
}
