//! All traces made once, as files have them.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::sessions::Sessions;
use super::span::Span;
use super::ties::Ties;
use super::turns::{Made, turns_of};

/// The spans of a trace, in any order at first.
#[derive(Debug, Default)]
pub struct Spans {
    /// Those that ended.
    pub ended: Vec<Span>,
    /// Those that are still open, which only give what the others inherit.
    pub above: Vec<Span>,
}

/// Traces that are all there.
#[derive(Debug)]
pub struct Every {
    ties: Ties,
    traces: BTreeMap<String, Spans>,
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

    /// Take a span that ended.
    pub fn take(&mut self, span: Span) {
        self.ties.learn(&span.fields);
        self.trace_of(&span).ended.push(span);
    }

    /// Take a span that is still open.
    pub fn open(&mut self, span: Span) {
        self.ties.learn(&span.fields);
        self.trace_of(&span).above.push(span);
    }

    fn trace_of(&mut self, span: &Span) -> &mut Spans {
        self.traces.entry(span.fields.trace_id.clone()).or_default()
    }

    /// How the traces belong together.
    #[must_use]
    pub fn ties(&self) -> &Ties {
        &self.ties
    }

    /// Make the turns of all traces, one after the other, by their starts.
    pub fn make(&mut self, ended: bool, mut tell: impl FnMut(&Draft<'_>, Made<'_>)) {
        let mut sessions = Sessions::unbounded();
        let mut drafts = Vec::new();
        for spans in self
            .traces
            .values_mut()
            .filter(|spans| !spans.ended.is_empty())
        {
            spans
                .ended
                .sort_by(|one, other| one.place().cmp(&other.place()));
            let ended: Vec<&Span> = spans.ended.iter().collect();
            let above: Vec<&Span> = spans.above.iter().collect();
            drafts.push(Draft::new(&ended, &above, &self.ties));
        }
        for draft in &drafts {
            draft.teach(&mut sessions);
        }
        drafts.sort_by_key(|draft| (draft.start_ns, draft.trace_id()));
        for draft in drafts {
            let made = turns_of(&draft, &sessions, ended);
            tell(&draft, made);
        }
    }
}
