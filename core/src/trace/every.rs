//! All traces made once, as files have them.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::sessions::Sessions;
use super::span::Span;
use super::ties::Ties;
use super::turns::{Made, turns_of};
use crate::threads::{each, shared_out};

/// Traces that are all there.
#[derive(Debug)]
pub struct Every {
    ties: Ties,
    traces: BTreeMap<String, Vec<Span>>, // the spans of each, in any order at first
    has: [bool; 2],                      // whether there are spans, and records of logs
}

impl Every {
    /// No traces yet; `join_services` says that services share the ids of their sessions.
    #[must_use]
    pub fn new(join_services: bool) -> Self {
        Self {
            ties: Ties::new(join_services, usize::MAX),
            traces: BTreeMap::new(),
            has: [false; 2],
        }
    }

    /// Take a span.
    pub fn take(&mut self, span: Span) {
        self.ties.learn(&span.fields);
        self.has[usize::from(span.fields.is_record)] = true;
        let trace = self.traces.entry(span.fields.trace_id.to_string());
        trace.or_default().push(span);
    }

    /// Make the turns of all traces in so many threads. The traces are taken by their starts: each
    /// thread tells a result of its own of some that follow one another.
    pub fn make<T: Default + Send>(
        &mut self,
        threads: usize,
        tell: impl Fn(&mut T, &Draft<'_>, Made<'_>) + Sync,
    ) -> Vec<T> {
        let Self { ties, traces, has } = self;
        let ties = &*ties;
        let shares = shared_out(traces.values_mut(), threads, |spans| spans.len());
        let drafts = each(shares, |share: Vec<&mut Vec<Span>>| -> Vec<Draft<'_>> {
            let drafts = share.into_iter().map(|spans| {
                spans.sort_by(|one, other| one.place().cmp(&other.place()));
                let ended: Vec<&Span> = spans.iter().collect();
                Draft::new(&ended, &[], ties)
            });
            drafts.collect()
        });
        let mut drafts: Vec<Draft<'_>> = drafts.into_iter().flatten().collect();
        let mut sessions = Sessions::new(usize::MAX, usize::MAX);
        sessions.records.are_alone = *has != [true; 2];
        for draft in &drafts {
            draft.teach(&mut sessions);
        }
        drafts.sort_by_key(|draft| (draft.start_ns, draft.trace_id()));
        let shares = shared_out(drafts, threads, |draft| draft.tree.ended);
        each(shares, |drafts| {
            let mut told = T::default();
            for draft in drafts {
                let made = turns_of(&draft, &sessions, true, &mut |_, _, _| false);
                tell(&mut told, &draft, made);
            }
            told
        })
    }
}
