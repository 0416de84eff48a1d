//! How much of the spans was understood: what each became, and what the others look like.

use std::collections::BTreeMap;

use foldhash::HashSet;

use super::draft::Draft;
use super::span::Place;
use super::tree::Tree;
use super::turns::Made;
use super::view::View;
use crate::fields::span_fields::{Role, Shape};

/// Names of spans may hold ids, so that there may be as many shapes as spans.
pub const SHAPES_MAX: usize = 1_000;

/// How many spans became what. The shapes are of spans that are neither turn nor agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Understood {
    /// Turns.
    pub turns: usize,
    /// Of the turn of another span.
    pub parts: usize,
    /// Runs of agents.
    pub agents: usize,
    /// Known, and no turn by themselves.
    pub structure: usize,
    /// Not understood.
    pub unread: usize,
    /// Traces that lack parents of spans.
    pub incomplete: usize,
    /// By how many tokens the sum of responses differs from the usage of whole runs.
    pub differing_tokens: i64,
    /// Shapes that were not understood, each with the number of its spans.
    pub shapes: BTreeMap<Shape, usize>,
    /// The other shapes.
    pub known_shapes: BTreeMap<Shape, usize>,
}

impl Understood {
    /// Add what was understood of other traces.
    pub fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.parts += other.parts;
        self.agents += other.agents;
        self.structure += other.structure;
        self.unread += other.unread;
        self.incomplete += other.incomplete;
        self.differing_tokens += other.differing_tokens;
        for (all, more) in [
            (&mut self.shapes, &other.shapes),
            (&mut self.known_shapes, &other.known_shapes),
        ] {
            for (shape, count) in more {
                *all.entry(shape.clone()).or_default() += count;
            }
        }
    }

    /// The most frequent of some shapes, which come first.
    #[must_use]
    pub fn most_frequent(shapes: &BTreeMap<Shape, usize>) -> Vec<(&Shape, usize)> {
        let mut sorted: Vec<_> = shapes
            .iter()
            .map(|(shape, count)| (shape, *count))
            .collect();
        sorted.sort_by(|(one, count), (other, more)| {
            more.cmp(count)
                .then_with(|| one.name.cmp(&other.name))
                .then_with(|| one.cmp(other))
        });
        sorted.truncate(SHAPES_MAX);
        sorted
    }
}

/// What the spans of a trace became; those that were adopted have no kind, and are calls.
///
/// A span of no dialect is a part of a call if it lies within the call's span, and structure if a
/// span of a turn or an agent lies within it.
#[must_use]
pub fn understood_of(draft: &Draft<'_>, made: &Made<'_>) -> Understood {
    let tree = &draft.tree;
    let mut understood = Understood::default();
    let mut kept = vec![false; tree.ended];
    for view in &draft.views {
        kept[view.place] = true;
    }
    for place in &made.repeats {
        kept[*place] = false;
    }
    let adopted: HashSet<&Place> = made.adopted.iter().collect();
    for (place, is_kept) in kept.into_iter().enumerate() {
        let fields = tree.fields(place);
        understood.differing_tokens += fields.tokens().differing.unwrap_or(0);
        let tells = tree.spans[place].tells_of_turns(None);
        let is_turn = match tree.kinds[place] {
            _ if adopted.contains(&place) => true,
            Some(Role::Agent) => {
                understood.agents += 1;
                continue;
            }
            Some(_) => is_kept && !fields.is_part && View::new(place, tree).speaks(tree),
            None => tells,
        };
        if is_turn {
            understood.turns += 1;
        } else if tree.kinds[place].is_some() {
            understood.parts += 1;
        } else if let Some(shape) = fields
            .shape
            .as_ref()
            .filter(|s| !s.known && !tree.holds(place))
        {
            if tree
                .ancestors(place)
                .any(|above| tree.kinds[above] == Some(Role::Tool))
            {
                understood.parts += 1;
            } else {
                understood.unread += 1;
                *understood.shapes.entry(Shape::clone(shape)).or_default() += 1;
            }
        } else {
            understood.structure += 1;
            if let Some(shape) = &fields.shape {
                *understood
                    .known_shapes
                    .entry(Shape::clone(shape))
                    .or_default() += 1;
            }
        }
    }
    understood.incomplete = usize::from(is_incomplete(tree));
    understood
}

/// Whether a trace lacks parents of spans.
///
/// One missing parent above all spans is no sign of a loss: it is the caller in another service.
fn is_incomplete(tree: &Tree<'_>) -> bool {
    let tops = (0..tree.ended).filter(|place| tree.parent(*place).is_none());
    let parents = tops.map(|place| tree.fields(place).parent_span_id.as_deref());
    parents.collect::<HashSet<_>>().len() > 1
}
