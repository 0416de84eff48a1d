//! The spans of one trace and their parents, and what spans inherit from those above them.

use foldhash::{HashMap, HashMapExt};

use super::span::Span;
use super::steps::settled_kinds;
use super::ties::{Session, Ties};
use crate::fields::said::told;
use crate::fields::span_fields::{Role, SpanFields};

/// Parents beyond this are ignored. No framework seen nests more than about twenty spans.
pub const ANCESTORS_MAX: usize = 100;

/// A place in the tree.
pub type Place = usize;

/// The spans of a trace, those that ended first, in order.
pub struct Tree<'a> {
    /// The spans that ended, and then those that are open.
    pub spans: Vec<&'a Span>,
    /// What each is, where steps around others are structure.
    pub kinds: Vec<Option<Role>>,
    /// How many spans ended.
    pub ended: usize,
    /// How the traces and tasks belong together.
    pub ties: &'a Ties,
    /// The session of the trace.
    pub session: Session,
    /// The sessions that spans name, each with the name of its task.
    pub sessions: HashMap<(&'a str, Option<&'a str>), Session>,
    places: HashMap<&'a str, Place>,
    parents: Vec<Option<u32>>,
    reaches: Vec<u32>, // how many spans are above each
    circle: Option<Place>,
    says: Says,
}

/// Which inherited fields any span has.
#[derive(Default)]
struct Says {
    session: bool,
    task: bool,
    task_kind: bool,
    agent: bool,
    phase: bool,
    iteration: bool,
}

impl<'a> Tree<'a> {
    /// Relate the spans of a trace, which have an id each; those that ended are in order.
    #[must_use]
    pub fn new(spans: &[&'a Span], above: &[&'a Span], ties: &'a Ties) -> Self {
        let ended = spans.len();
        let spans = [spans, above].concat();
        let places: HashMap<&str, Place> = spans
            .iter()
            .enumerate()
            .map(|(at, span)| (&*span.fields.span_id, at))
            .collect();
        let parents: Vec<Option<u32>> = spans
            .iter()
            .map(|span| places.get(span.fields.parent_span_id.as_deref()?))
            .map(|place| place.and_then(|place| u32::try_from(*place).ok()))
            .collect();
        let kinds = settled_kinds(&spans, &parents);
        let (reaches, circle) = reaches(&parents);
        let mut says = Says::default();
        let mut sessions = HashMap::new();
        for span in &spans {
            let fields = &span.fields;
            says.task |= told(fields.task.as_ref()).is_some();
            says.task_kind |= told(fields.task_kind.as_ref()).is_some();
            says.agent |= told(fields.agent.as_ref()).is_some();
            says.phase |= told(fields.phase.as_ref()).is_some();
            says.iteration |= told(fields.iteration.as_ref()).is_some();
            if let Some(session) = told(fields.session.as_ref()) {
                says.session = true;
                let service = fields.service.as_deref();
                sessions
                    .entry((session, service))
                    .or_insert_with(|| ties.named(session, service));
            }
        }
        let trace = spans.first().map_or("", |span| &*span.fields.trace_id);
        let session = ties.session(trace);
        Self {
            kinds,
            ended,
            ties,
            session,
            sessions,
            places,
            parents,
            reaches,
            circle,
            says,
            spans,
        }
    }

    /// The fields of a span.
    #[must_use]
    pub fn fields(&self, place: Place) -> &'a SpanFields {
        &self.spans[place].fields
    }

    /// The place of a span that is known.
    #[must_use]
    pub fn place_of(&self, span_id: &str) -> Option<Place> {
        self.places.get(span_id).copied()
    }

    /// The span above one.
    #[must_use]
    pub fn parent(&self, place: Place) -> Option<Place> {
        self.parents[place].map(|parent| parent as usize)
    }

    /// The spans from a span's parent upwards; a circle of parents ends the walk.
    pub fn ancestors(&self, place: Place) -> impl Iterator<Item = Place> + '_ {
        let count = (self.reaches[place] as usize).min(ANCESTORS_MAX);
        std::iter::successors(self.parent(place), |above| self.parent(*above)).take(count)
    }

    /// A span whose parents form a circle or a too long chain.
    #[must_use]
    pub fn circle(&self) -> Option<Place> {
        self.circle
    }

    /// The session of a span, of its nearest ancestor, or of its trace.
    #[must_use]
    pub fn session(&self, place: Place) -> &Session {
        let name = |fields: &'a SpanFields| fields.session.as_ref();
        let naming = self.nearest(place, self.says.session, name);
        naming
            .and_then(|(at, id)| self.sessions.get(&(id, self.fields(at).service.as_deref())))
            .unwrap_or(&self.session)
    }

    /// The task that a span or its nearest ancestor declares.
    #[must_use]
    pub fn declared_task(&self, place: Place) -> Option<&'a str> {
        Some(
            self.nearest(place, self.says.task, |fields| fields.task.as_ref())?
                .1,
        )
    }

    /// The task whose counters a declared task shares.
    #[must_use]
    pub fn root_of(&self, declared: &'a str) -> &'a str {
        self.ties.root_of(declared)
    }

    /// The kind of task that a span or its nearest ancestor declares.
    #[must_use]
    pub fn task_kind(&self, place: Place) -> Option<&'a str> {
        Some(
            self.nearest(place, self.says.task_kind, |fields| {
                fields.task_kind.as_ref()
            })?
            .1,
        )
    }

    /// The agent that a span or its nearest ancestor names, "" if none does.
    #[must_use]
    pub fn agent(&self, place: Place) -> &'a str {
        let agent = |fields: &'a SpanFields| fields.agent.as_ref();
        self.nearest(place, self.says.agent, agent)
            .map_or("", |(_, agent)| agent)
    }

    /// The iteration that a span or its nearest ancestor belongs to.
    #[must_use]
    pub fn iteration(&self, place: Place) -> Option<&'a str> {
        Some(
            self.nearest(place, self.says.iteration, |fields| {
                fields.iteration.as_ref()
            })?
            .1,
        )
    }

    /// The phase that a span of a kind or its nearest ancestor declares, and its start.
    ///
    /// The start is not known if a call or a response declares its own phase.
    #[must_use]
    pub fn phase(&self, place: Place, kind: Option<Role>) -> (Option<&'a str>, Option<i64>) {
        let phase = |fields: &'a SpanFields| fields.phase.as_ref();
        let Some((declares, phase)) = self.nearest(place, self.says.phase, phase) else {
            return (None, None);
        };
        let fields = self.fields(declares);
        let is_alone = matches!(kind, Some(Role::Tool | Role::Model)) && declares == place;
        let start = (!is_alone).then_some(fields.start_ns);
        (
            Some(phase),
            fields.phase_start_ns.filter(|start| *start != 0).or(start),
        )
    }

    fn nearest(
        &self,
        place: Place,
        is_said: bool,
        field: impl Fn(&'a SpanFields) -> Option<&'a String>,
    ) -> Option<(Place, &'a str)> {
        if !is_said {
            return None;
        }
        let mut line = std::iter::once(place).chain(self.ancestors(place));
        line.find_map(|at| Some((at, told(field(self.fields(at)))?)))
    }
}

/// How many spans are above each, and the first span above which they form a circle or too many.
fn reaches(parents: &[Option<u32>]) -> (Vec<u32>, Option<Place>) {
    const UNSEEN: u32 = u32::MAX;
    const PASSED: u32 = u32::MAX - 1;
    let mut reaches = vec![UNSEEN; parents.len()];
    let mut is_round = vec![false; parents.len()];
    let mut path: Vec<Place> = Vec::new();
    for start in 0..parents.len() {
        let mut at = Some(start);
        path.clear();
        while let Some(place) = at.filter(|place| reaches[*place] == UNSEEN) {
            reaches[place] = PASSED;
            path.push(place);
            at = parents[place].map(|parent| parent as usize);
        }
        let (mut above, mut rounds) = match at {
            None => (None, false),
            Some(place) if reaches[place] != PASSED => (Some(reaches[place]), is_round[place]),
            Some(place) => {
                let begin = path.iter().position(|each| *each == place).unwrap_or(0);
                let length = u32::try_from(path.len() - begin).unwrap_or(PASSED);
                for each in path.drain(begin..) {
                    (reaches[each], is_round[each]) = (length - 1, true);
                }
                (Some(length - 1), true)
            }
        };
        for each in path.drain(..).rev() {
            let reach = above.map_or(0, |above| above + 1);
            (reaches[each], is_round[each]) = (reach, rounds);
            (above, rounds) = (Some(reach), rounds);
        }
    }
    let is_deep = |place: &Place| is_round[*place] || reaches[*place] as usize > ANCESTORS_MAX;
    let circle = (0..parents.len()).find(is_deep);
    (reaches, circle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_ends_and_a_chain_is_counted() {
        // 0 -> 1 -> 2 -> 1; 3 -> 3; 4 -> 0; 5
        let parents = [Some(1), Some(2), Some(1), Some(3), Some(0), None];
        assert_eq!(reaches(&parents), (vec![2, 1, 1, 0, 3, 0], Some(0)));
        let chain: Vec<_> = (0..200_u32).map(|place| place.checked_sub(1)).collect();
        let (reach, circle) = reaches(&chain);
        assert_eq!((reach[199], circle), (199, Some(101)));
    }
}
