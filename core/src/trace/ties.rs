//! Which traces belong together: sessions named late, links, parents of tasks, whatever comes first.

use std::collections::{BTreeMap, BTreeSet};

use foldhash::{HashMap, HashMapExt};

use super::bounded::{Bounded, TRACES_TOLD_MAX};
use super::shared_names::SharedNames;
use super::span::Start;
use super::tasks::Tasks;
use crate::fields::said::told;
use crate::fields::span_fields::SpanFields;

// The name that OpenTelemetry's SDKs give to a service without one.
const UNKNOWN_SERVICE: &str = "unknown_service";

/// The traces of a group or a task, in the order in which they came.
type Traces = BTreeMap<u64, String>;

/// A session: its id in spans, and the name of its task.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Session {
    /// As spans write it.
    pub id: String,
    /// The id, and mostly the service that has the session.
    pub name: String,
}

/// Traces that links join: their first span, and the first span that names a session.
#[derive(Debug)]
struct Group {
    traces: Traces,
    first: Start,
    named: Option<(Start, Session)>,
    names: HashMap<String, String>, // one of each session that its traces name
}

/// A trace: its group, the first span that names a session, and the connections it begins with.
#[derive(Debug)]
struct Tied {
    number: u64,
    group: u64,
    named: Option<(Start, Session)>,
    begun: BTreeMap<String, Option<(Start, Session)>>, // none where a span with a parent has it
}

/// The session of each trace and the parent of each task, as far as spans have shown them.
#[derive(Debug)]
pub struct Ties {
    join_services: bool,
    next: u64,
    traces: Bounded<String, Tied>,
    groups: HashMap<u64, Group>,
    links: Bounded<String, BTreeSet<String>>, // to traces not yet seen
    tasks: Tasks,
    shared: SharedNames,
}

impl Ties {
    /// Nothing is known, and so many traces and sessions are remembered; `join_services` says that
    /// services share the ids of their sessions.
    #[must_use]
    pub fn new(join_services: bool, count_max: usize) -> Self {
        Self {
            join_services,
            next: 0,
            traces: Bounded::new(count_max),
            groups: HashMap::new(),
            links: Bounded::new(count_max),
            tasks: Tasks::of(count_max),
            shared: SharedNames::of(count_max),
        }
    }

    /// The session of a trace: its own, else that of its linked traces.
    #[must_use]
    pub fn session(&self, trace_id: &str) -> Session {
        let found = self.traces.get(trace_id).map(|tied| {
            let group = &self.groups[&tied.group];
            let begun = || {
                tied.begun
                    .values()
                    .flatten()
                    .min()
                    .filter(|_| group.named.is_none())
            };
            let named = tied.named.as_ref().or_else(begun).or(group.named.as_ref());
            named.map_or_else(|| alone(&group.first.1), |(_, session)| session.clone())
        });
        let session = found.unwrap_or_else(|| alone(trace_id));
        Session {
            name: self.shared.name(&session.name).to_owned(),
            ..session
        }
    }

    /// The session that a span of a service names.
    #[must_use]
    pub fn named(&self, session: &str, service: Option<&str>) -> Session {
        let name = self.name_of(session, service);
        let name = self.shared.name(&name).to_owned();
        Session {
            id: session.to_owned(),
            name,
        }
    }

    /// The names of sessions that several services share, by their other names.
    #[must_use]
    pub fn shared(&self) -> &SharedNames {
        &self.shared
    }

    /// Learn the names of sessions that several services share, by their other names.
    pub fn join(&mut self, names: impl IntoIterator<Item = (String, String)>) {
        for (name, other) in names {
            self.shared.share(&name, &other);
        }
        self.shared.take_anew();
    }

    /// The names of sessions that were joined since they were last taken, with what they became.
    pub fn take_joined_anew(&mut self) -> HashMap<String, String> {
        self.shared.take_anew()
    }

    /// The task whose counters a declared task shares; a circle of tasks ends at its smallest name.
    #[must_use]
    pub fn root_of<'a>(&'a self, declared: &'a str) -> &'a str {
        self.tasks.root_of(declared)
    }

    /// Learn from a span; returns the traces that change by that.
    pub fn learn(&mut self, span: &SpanFields) -> BTreeSet<String> {
        let mut changed = BTreeSet::new();
        let start = (
            span.start_ns,
            span.trace_id.to_string(),
            span.span_id.clone(),
        );
        self.note_trace(&span.trace_id, &start);
        if let Some(connection) = told(span.rare().connection.as_ref()) {
            self.note_connection(span, connection, &start, &mut changed);
        }
        self.note_session(span, &start, &mut changed);
        self.note_links(span, &mut changed);
        if let Some(task) = told(span.rare().task.as_ref()) {
            changed.extend(self.tasks.learn(span, task, start));
        }
        changed
    }

    fn name_of(&self, session: &str, service: Option<&str>) -> String {
        match service.filter(|service| !self.join_services && !service.is_empty()) {
            Some(name) if name.split(':').next() != Some(UNKNOWN_SERVICE) => {
                format!("{session}@{}", name.replace('%', "%25").replace('@', "%40"))
            }
            _ => session.to_owned(),
        }
    }

    fn note_trace(&mut self, trace_id: &str, start: &Start) {
        if self.traces.get(trace_id).is_some() {
            return;
        }
        let number = self.next;
        self.next += 1;
        let traces = Traces::from([(number, trace_id.to_owned())]);
        let group = Group {
            traces,
            first: start.clone(),
            named: None,
            names: HashMap::new(),
        };
        self.groups.insert(number, group);
        let tied = Tied {
            number,
            group: number,
            named: None,
            begun: BTreeMap::new(),
        };
        let Some((_, lost)) = self.traces.set(trace_id.to_owned(), tied) else {
            return;
        };
        if let Some(group) = self.groups.get_mut(&lost.group) {
            group.traces.remove(&lost.number);
            if group.traces.is_empty() {
                self.groups.remove(&lost.group);
            }
        }
    }

    fn note_connection(
        &mut self,
        span: &SpanFields,
        connection: &str,
        start: &Start,
        changed: &mut BTreeSet<String>,
    ) {
        let before = self.session(&span.trace_id);
        let name = self.name_of(connection, span.service.as_deref());
        let said = (
            start.clone(),
            Session {
                id: connection.to_owned(),
                name,
            },
        );
        if let Some(tied) = self.traces.get_mut(&*span.trace_id) {
            let begun = tied.begun.entry(connection.to_owned());
            let begun = begun.or_insert_with(|| Some(said.clone()));
            *begun = begun
                .take()
                .filter(|_| span.parent_span_id.is_none())
                .map(|before| before.min(said));
        }
        if before != self.session(&span.trace_id) {
            changed.insert(span.trace_id.to_string());
        }
    }

    fn note_session(&mut self, span: &SpanFields, start: &Start, changed: &mut BTreeSet<String>) {
        let session = told(span.session.as_ref()).map(|id| Session {
            id: id.to_owned(),
            name: self.name_of(id, span.service.as_deref()),
        });
        let Some(tied) = self.traces.get_mut(&*span.trace_id) else {
            return;
        };
        let Some(group) = self.groups.get_mut(&tied.group) else {
            return;
        };
        let before = group.session();
        if *start < group.first {
            group.first.clone_from(start);
        }
        if let Some(session) = session {
            let said = (start.clone(), session.clone());
            if tied.named.as_ref().is_none_or(|named| said < *named) {
                tied.named = Some(said.clone());
            }
            if group.named.as_ref().is_none_or(|named| said < *named) {
                group.named = Some(said);
            }
            let first = group
                .names
                .entry(session.id)
                .or_insert_with(|| session.name.clone());
            self.shared.note(&session.name, &span.trace_id);
            if *first != session.name {
                let renamed = self.shared.share(&first.clone(), &session.name);
                self.tell_groups(&renamed, changed);
                changed.extend(renamed);
            }
        }
        let group = self
            .traces
            .get(&*span.trace_id)
            .and_then(|tied| self.groups.get(&tied.group));
        if let Some(group) = group.filter(|group| group.session() != before) {
            changed.extend(group.told());
        }
    }

    /// Tell all traces that are in a group with one of these.
    fn tell_groups(&self, traces: &BTreeSet<String>, changed: &mut BTreeSet<String>) {
        let groups = traces
            .iter()
            .filter_map(|trace| Some(self.traces.get(trace)?.group));
        for group in groups.collect::<BTreeSet<_>>() {
            changed.extend(self.groups[&group].told());
        }
    }

    fn note_links(&mut self, span: &SpanFields, changed: &mut BTreeSet<String>) {
        let name = &*span.trace_id;
        // Traces that linked to this trace before it was seen are joined with it now.
        let mut links = self.links.remove(name).unwrap_or_default();
        links.extend(span.rare().links.iter().cloned());
        for linked in links.into_iter().filter(|linked| linked != name) {
            if self.traces.get(&linked).is_some() {
                self.join_groups(name, &linked, changed);
            } else {
                let waiting = self.links.or_set(&*linked, BTreeSet::new);
                waiting.insert(name.to_owned());
            }
        }
    }

    fn join_groups(&mut self, one: &str, other: &str, changed: &mut BTreeSet<String>) {
        let group_of = |trace: &str| self.traces.get(trace).map(|tied| tied.group);
        let (Some(one), Some(other)) = (group_of(one), group_of(other)) else {
            return;
        };
        let size = |group: &u64| self.groups[group].traces.len();
        let (less, more) = if size(&one) <= size(&other) {
            (one, other)
        } else {
            (other, one)
        };
        if less == more {
            return;
        }
        let Some(less) = self.groups.remove(&less) else {
            return;
        };
        for trace in less.traces.values() {
            if let Some(tied) = self.traces.get_mut(trace) {
                tied.group = more;
            }
        }
        let Some(group) = self.groups.get_mut(&more) else {
            return;
        };
        let before = (less.session(), less.told(), group.session(), group.told());
        group.first = less.first.min(group.first.clone());
        group.named = [less.named, group.named.take()].into_iter().flatten().min();
        group.traces.extend(less.traces);
        let mut same = Vec::new();
        for (session, name) in less.names {
            let known = group.names.entry(session).or_insert_with(|| name.clone());
            if *known != name {
                same.push((known.clone(), name));
            }
        }
        let session = group.session();
        let (less_session, less_traces, more_session, more_traces) = before;
        changed.extend(
            (less_session != session)
                .then_some(less_traces)
                .into_iter()
                .flatten(),
        );
        changed.extend(
            (more_session != session)
                .then_some(more_traces)
                .into_iter()
                .flatten(),
        );
        for (first, second) in same {
            let renamed = self.shared.share(&first, &second);
            self.tell_groups(&renamed, changed);
            changed.extend(renamed);
        }
    }
}

impl Group {
    /// The session of traces that name none themselves.
    fn session(&self) -> Session {
        self.named
            .as_ref()
            .map_or_else(|| alone(&self.first.1), |(_, session)| session.clone())
    }

    fn told(&self) -> Vec<String> {
        self.traces
            .values()
            .rev()
            .take(TRACES_TOLD_MAX)
            .cloned()
            .collect()
    }
}

fn alone(trace_id: &str) -> Session {
    Session {
        id: trace_id.to_owned(),
        name: trace_id.to_owned(),
    }
}
