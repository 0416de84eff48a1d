//! The spans of one trace and their parents.

use std::cell::OnceCell;

use foldhash::HashMap;

use super::frames::Frames;
use super::span::{ANCESTORS_MAX, Place, Span};
use super::steps::settled_kinds;
use super::ties::{Session, Ties};
use crate::fields::span_fields::{Role, SpanFields};

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
    /// What spans inherit.
    pub frames: Frames<'a>,
    places: HashMap<&'a str, Place>,
    parents: Vec<Option<u32>>,
    reaches: Vec<u32>, // how many spans are above each
    holders: OnceCell<Vec<bool>>,
    circle: Option<Place>,
}

impl<'a> Tree<'a> {
    /// Relate spans of a trace, which names a `user` or none; those that ended are in order.
    #[must_use]
    pub fn new(
        spans: &[&'a Span],
        above: &[&'a Span],
        user: Option<&'a str>,
        ties: &'a Ties,
    ) -> Self {
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
        let (reaches, is_odd) = reaches(&parents);
        let trace = spans.first().map_or("", |span| &*span.fields.trace_id);
        let session = ties.session(trace);
        let mut tree = Self {
            kinds,
            ended,
            ties,
            frames: Frames::new(session.clone(), user, &spans),
            session,
            places,
            parents,
            reaches,
            holders: OnceCell::new(),
            circle: is_odd.iter().position(|odd| *odd),
            spans,
        };
        tree.relate(&is_odd);
        tree
    }

    /// Tell the frames what is above each span: that of its parent, or all within reach if its
    /// parents form a circle or a too long chain.
    fn relate(&mut self, is_odd: &[bool]) {
        let mut path: Vec<Place> = Vec::new();
        for (start, is_odd) in is_odd.iter().enumerate() {
            if *is_odd {
                let mut line: Vec<Place> = self.ancestors(start).collect();
                line.reverse();
                line.push(start);
                self.frames
                    .relate(start, None, &line, &self.spans, self.ties);
                continue;
            }
            let mut at = Some(start);
            while let Some(place) = at.filter(|place| !self.frames.knows(*place)) {
                path.push(place);
                at = self.parent(place);
            }
            for place in path.drain(..).rev() {
                self.frames
                    .relate(place, at, &[place], &self.spans, self.ties);
                at = Some(place);
            }
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

    /// Whether a span with a kind that ended is within a span.
    #[must_use]
    pub fn holds(&self, place: Place) -> bool {
        self.holders.get_or_init(|| self.holders_of())[place]
    }

    fn holders_of(&self) -> Vec<bool> {
        let mut found = vec![false; self.spans.len()];
        for place in (0..self.ended).filter(|place| self.kinds[*place].is_some()) {
            for above in self.ancestors(place) {
                if found[above] {
                    break;
                }
                found[above] = true;
            }
        }
        found
    }

    /// When a span that is not known to have ended was given up: at the end of the nearest span
    /// above it that has one, else at that of the trace.
    #[must_use]
    pub fn given_up_ns(&self, place: Place) -> i64 {
        let mut above = self.ancestors(place).filter(|at| *at < self.ended);
        let around = above.find(|above| !self.fields(*above).is_open);
        // Those that ended are in order.
        let last = around.or(self.ended.checked_sub(1)).unwrap_or(place);
        self.fields(last).end_ns.max(self.fields(place).end_ns)
    }

    /// A span whose parents form a circle or a too long chain.
    #[must_use]
    pub fn circle(&self) -> Option<Place> {
        self.circle
    }

    /// The task whose counters a declared task shares.
    #[must_use]
    pub fn root_of(&self, declared: &'a str) -> &'a str {
        self.ties.root_of(declared)
    }

    /// The phase that a span of a kind or its nearest ancestor declares, and its start.
    ///
    /// The start is not known if a call or a response declares its own phase.
    #[must_use]
    pub fn phase(&self, place: Place, kind: Option<Role>) -> (Option<&'a str>, Option<i64>) {
        let Some((declares, phase)) = self.frames.of(place).phase else {
            return (None, None);
        };
        let fields = self.fields(declares);
        let is_alone = matches!(kind, Some(Role::Tool | Role::Model)) && declares == place;
        let start = (!is_alone).then_some(fields.start_ns);
        (
            Some(phase),
            fields
                .rare()
                .phase_start_ns
                .filter(|start| *start != 0)
                .or(start),
        )
    }
}

/// How many spans are above each, and whether they form a circle or are too many.
fn reaches(parents: &[Option<u32>]) -> (Vec<u32>, Vec<bool>) {
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
    let is_odd = |place| is_round[place] || reaches[place] as usize > ANCESTORS_MAX;
    let odd = (0..parents.len()).map(is_odd).collect();
    (reaches, odd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_ends_and_a_chain_is_counted() {
        // 0 -> 1 -> 2 -> 1; 3 -> 3; 4 -> 0; 5
        let parents = [Some(1), Some(2), Some(1), Some(3), Some(0), None];
        let odd = vec![true, true, true, true, true, false];
        assert_eq!(reaches(&parents), (vec![2, 1, 1, 0, 3, 0], odd));
        let chain: Vec<_> = (0..200_u32).map(|place| place.checked_sub(1)).collect();
        let (reach, odd) = reaches(&chain);
        let first = odd.iter().position(|odd| *odd);
        assert_eq!((reach[199], first), (199, Some(101)));
    }
}
