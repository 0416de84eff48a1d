//! All traces made once, as files have them.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::sessions::Sessions;
use super::span::Span;
use super::ties::Ties;
use super::turns::{Made, turns_of};

/// Traces that are all there.
#[derive(Debug)]
pub struct Every {
    ties: Ties,
    traces: BTreeMap<String, Vec<Span>>, // the spans of each, in any order at first
}

impl Every {
    /// No traces yet; `join_services` says that services share the ids of their sessions.
    #[must_use]
    pub fn new(join_services: bool) -> Self {
        Self {
            ties: Ties::unbounded(join_services),
            traces: BTreeMap::new(),
        }
    }

    /// Take a span.
    pub fn take(&mut self, span: Span) {
        self.ties.learn(&span.fields);
        let trace = self.traces.entry(span.fields.trace_id.to_string());
        trace.or_default().push(span);
    }

    /// Make the turns of all traces, one after the other, by their starts.
    pub fn make(&mut self, mut tell: impl FnMut(&Draft<'_>, Made<'_>)) {
        let mut sessions = Sessions::unbounded();
        let mut drafts = Vec::new();
        for spans in self.traces.values_mut() {
            spans.sort_by(|one, other| one.place().cmp(&other.place()));
            let ended: Vec<&Span> = spans.iter().collect();
            drafts.push(Draft::new(&ended, &[], &self.ties));
        }
        for draft in &drafts {
            draft.teach(&mut sessions);
        }
        drafts.sort_by_key(|draft| (draft.start_ns, draft.trace_id()));
        for draft in drafts {
            let made = turns_of(&draft, &sessions, true, &mut |_, _, _| false);
            tell(&draft, made);
        }
    }
}
