//! Twin spans of two instrumentations that record the same call, merged into the outer span.

use std::cmp::Reverse;

use foldhash::{HashMap, HashMapExt};

use super::span::Place;
use super::tree::Tree;
use super::view::View;
use crate::fields::said::told;
use crate::fields::span_fields::Role;

// Calls at one time, without parents, of which one may be within another.
const AROUND_MAX: usize = 16;

/// The spans that ended, in order; each that repeats another one is merged into it.
///
/// That is a tool's span within a span of the same call, or a model's within a model's. Each span
/// adds what the other does not know.
#[must_use]
pub fn merged_views<'a>(tree: &Tree<'a>) -> Vec<View<'a>> {
    let mut views: Vec<View<'a>> = (0..tree.ended)
        .map(|place| View::new(place, tree))
        .collect();
    let mut twins: Vec<(Place, Place)> = (0..tree.ended)
        .filter_map(|place| Some((place, twin_of(place, tree)?)))
        .collect();
    let mut is_twin = vec![false; tree.ended];
    for (place, _) in &twins {
        is_twin[*place] = true;
    }
    twins.extend(copies(tree, &is_twin));
    twins.extend(without_parents(tree));
    // A span that is still open has nothing to merge with yet.
    twins.retain(|(_, twin)| *twin < tree.ended);
    let lasts = lasts(&twins, tree.ended);
    if lasts.is_empty() {
        return views;
    }
    let mut is_merged = vec![false; tree.ended];
    for (place, last) in lasts {
        is_merged[place] = true;
        let inner = views[place].clone();
        views[last].add(&inner);
    }
    views.retain(|view| !is_merged[view.place]);
    views
}

/// The nearest ancestor that has a kind, if it records the same thing.
fn twin_of(place: Place, tree: &Tree<'_>) -> Option<Place> {
    let kind = tree.kinds[place].filter(|kind| *kind != Role::Agent)?;
    if tree.parent(place)? == place {
        return Some(place); // A circle of one: nothing is merged into it.
    }
    let above = tree
        .ancestors(place)
        .find(|above| tree.kinds[*above].is_some());
    if let Some(above) = above.filter(|above| tree.kinds[*above] == Some(kind))
        && (kind == Role::Model || is_same_call(above, place, tree))
    {
        return Some(above);
    }
    if kind == Role::Model || tree.fields(place).arguments.is_none() {
        return None;
    }
    // Agents and responses may lie between the spans of one call.
    let mut around = tree
        .ancestors(place)
        .filter(|at| tree.kinds[*at] == Some(Role::Tool));
    around.find(|outer| does_same(*outer, place, tree))
}

fn does_same(outer: Place, inner: Place, tree: &Tree<'_>) -> bool {
    let (outer, inner) = (tree.fields(outer), tree.fields(inner));
    let has_same_id =
        outer.call_id.is_none() || inner.call_id.is_none() || outer.call_id == inner.call_id;
    outer.name == inner.name && outer.arguments == inner.arguments && has_same_id
}

/// Whether two spans of tools show one call.
///
/// Agents write the server before the name of a tool, `github__search`, and the server does not.
fn is_same_call(outer: Place, inner: Place, tree: &Tree<'_>) -> bool {
    let (outer, inner) = (tree.fields(outer), tree.fields(inner));
    if inner.is_part || outer.name == inner.name {
        return true;
    }
    if inner.call_id == outer.call_id && told(inner.call_id.as_ref()).is_some() {
        return true;
    }
    let (long, short) = (outer.name.to_lowercase(), inner.name.to_lowercase());
    let is_told = inner.arguments.is_none() || inner.arguments == outer.arguments;
    long == short || (is_told && ends_with_name(&long, &short))
}

/// Whether a name ends with another one, and no word is cut.
fn ends_with_name(long: &str, short: &str) -> bool {
    let before = long
        .strip_suffix(short)
        .and_then(|before| before.chars().next_back());
    !short.is_empty() && before.is_some_and(|last| !last.is_alphanumeric())
}

/// The twins among calls and responses that lost their parents: the inner is shorter, and the same
/// call, a part of it, or the other half of a response.
fn without_parents(tree: &Tree<'_>) -> Vec<(Place, Place)> {
    let is_lost = |place: &Place| {
        matches!(tree.kinds[*place], Some(Role::Tool | Role::Model))
            && tree.fields(*place).parent_span_id.is_none()
    };
    let mut lost: Vec<Place> = (0..tree.ended).filter(is_lost).collect();
    let times = |place: Place| (tree.fields(place).start_ns, tree.fields(place).end_ns);
    lost.sort_by_key(|place| (times(*place).0, Reverse(times(*place).1)));
    let mut found: Vec<(Place, Place)> = Vec::new();
    // The calls around the one that is looked at, the innermost last.
    let mut around: Vec<Place> = Vec::new();
    for place in lost {
        let (start_ns, end_ns) = times(place);
        around.retain(|outer| times(*outer).1 > start_ns);
        let is_outer = |outer: &Place| {
            // The clocks of a client and of a server differ.
            let is_apart = tree.kinds[place] == Some(Role::Tool) && are_apart(*outer, place, tree);
            let is_within = is_apart || (times(*outer).0 < start_ns && end_ns < times(*outer).1);
            let ends = is_apart || end_ns <= times(*outer).1;
            let may_be = ends && tree.kinds[*outer] == tree.kinds[place];
            may_be
                && match tree.kinds[place] {
                    Some(Role::Model) => {
                        let is_taken = found.iter().any(|(_, taken)| taken == outer);
                        is_within && !is_taken && are_halves(*outer, place, tree)
                    }
                    _ => {
                        let is_same = is_within && is_again(*outer, place, tree);
                        is_same || is_part_of(*outer, place, tree)
                    }
                }
        };
        if let Some(outer) = around.iter().rev().copied().find(is_outer) {
            found.push((place, outer));
        } else {
            if around.len() == AROUND_MAX {
                around.remove(0);
            }
            around.push(place);
        }
    }
    found
}

/// Whether one of two spans at one time shows the call of the other, and may show less of it.
fn is_again(outer: Place, inner: Place, tree: &Tree<'_>) -> bool {
    let (outer, inner) = (tree.fields(outer), tree.fields(inner));
    let is_told = inner.arguments.is_none() || inner.arguments == outer.arguments;
    let has_other_id = inner.call_id.is_some() && outer.call_id.is_some();
    let (long, short) = (outer.name.to_lowercase(), inner.name.to_lowercase());
    outer.arguments.is_some()
        && is_told
        && (long == short || ends_with_name(&long, &short))
        && (!has_other_id || outer.call_id == inner.call_id)
}

/// Whether two spans are those of two services.
fn are_apart(one: Place, other: Place, tree: &Tree<'_>) -> bool {
    let service = |place: Place| tree.fields(place).service.as_deref();
    matches!((service(one), service(other)), (Some(one), Some(other)) if one != other)
}

fn is_part_of(outer: Place, inner: Place, tree: &Tree<'_>) -> bool {
    let (outer, inner) = (tree.fields(outer), tree.fields(inner));
    inner.is_part && told(inner.call_id.as_ref()).is_some() && inner.call_id == outer.call_id
}

/// Whether one of two spans of models counts tokens, and the other has an answer: the only one, or
/// the same.
fn are_halves(outer: Place, inner: Place, tree: &Tree<'_>) -> bool {
    let counts = |place: Place| {
        let tokens = tree.fields(place).tokens();
        tokens.input.is_some() || tokens.output.is_some()
    };
    let said = |place: Place| {
        let answer = tree.fields(place).answer.as_ref();
        answer.filter(|said| !said.is_empty())
    };
    let (counting, telling) = if counts(inner) {
        (inner, outer)
    } else {
        (outer, inner)
    };
    let is_one = said(counting).is_none_or(|said_too| said(telling) == Some(said_too));
    counts(counting) && !counts(telling) && said(telling).is_some() && is_one
}

// Kind, name and arguments of spans of one time.
type CopyKey<'a> = (Role, &'a str, Option<&'a str>);

/// The copies of spans, each with the span that it repeats.
///
/// `BeeAI`'s instrumentation wrote a run when it ended, and again within each run around it, as that
/// ended. So the parent of the one is above the other too; calls at one time have one parent.
fn copies(tree: &Tree<'_>, is_twin: &[bool]) -> Vec<(Place, Place)> {
    let mut found = Vec::new();
    let time = |place: &Place| (tree.fields(*place).end_ns, tree.fields(*place).start_ns);
    let every: Vec<Place> = (0..tree.ended).filter(|place| !is_twin[*place]).collect();
    // The spans are in order, so that those of one time stand together.
    let at_one_time = every.chunk_by(|one, other| time(one) == time(other));
    for places in at_one_time.filter(|places| places.len() > 1) {
        for group in alike(places, tree).iter().filter(|group| group.len() > 1) {
            add_copies(group, tree, &mut found);
        }
    }
    found
}

/// The spans that may be copies of each other, by groups.
fn alike(places: &[Place], tree: &Tree<'_>) -> Vec<Vec<Place>> {
    let mut at: HashMap<CopyKey, usize> = HashMap::new();
    let mut groups: Vec<Vec<Place>> = Vec::new();
    for place in places {
        if let Some(key) = copy_key(*place, tree) {
            let group = *at.entry(key).or_insert(groups.len());
            if group == groups.len() {
                groups.push(Vec::new());
            }
            groups[group].push(*place);
        }
    }
    groups
}

fn add_copies(group: &[Place], tree: &Tree<'_>, found: &mut Vec<(Place, Place)>) {
    // The first of them below each parent.
    let mut below: HashMap<Option<&str>, Place> = HashMap::new();
    for place in group {
        below
            .entry(tree.fields(*place).parent_span_id.as_deref())
            .or_insert(*place);
    }
    for place in group {
        let parent = tree.fields(*place).parent_span_id.as_deref();
        let above = tree
            .ancestors(*place)
            .map(|above| Some(&*tree.fields(above).span_id));
        let above = above.chain([None]).filter(|above| *above != parent);
        let first = above.filter_map(|above| below.get(&above)).min();
        found.extend(first.map(|first| (*place, *first)));
    }
}

/// What a span and its copies share; `None` if it has no copies.
fn copy_key<'a>(place: Place, tree: &Tree<'a>) -> Option<CopyKey<'a>> {
    let fields = tree.fields(place);
    let kind = tree.kinds[place].filter(|kind| *kind != Role::Agent)?;
    if told(fields.call_id.as_ref()).is_some() || fields.start_ns == fields.end_ns {
        return None;
    }
    Some((kind, &fields.name, fields.arguments.as_deref()))
}

/// Each span with the last one that follows it; one that leads into a circle has none.
fn lasts(twins: &[(Place, Place)], count: usize) -> Vec<(Place, Place)> {
    const UNKNOWN: Place = Place::MAX;
    const CIRCLE: Place = Place::MAX - 1;
    if twins.is_empty() {
        return Vec::new();
    }
    let mut follows = vec![UNKNOWN; count];
    for (place, twin) in twins {
        follows[*place] = *twin;
    }
    let mut found = vec![UNKNOWN; count];
    let mut passes = vec![usize::MAX; count]; // the walk that has passed each
    let mut order = Vec::new();
    for (walk, (start, _)) in twins.iter().enumerate() {
        let (mut at, mut path) = (*start, Vec::new());
        let last = loop {
            if follows[at] == UNKNOWN {
                break at;
            }
            if found[at] != UNKNOWN {
                break found[at];
            }
            if passes[at] == walk {
                break CIRCLE;
            }
            passes[at] = walk;
            path.push(at);
            at = follows[at];
        };
        for each in path {
            found[each] = last;
            order.push(each);
        }
    }
    order
        .into_iter()
        .map(|each| (each, found[each]))
        .filter(|(_, last)| *last < CIRCLE)
        .collect()
}
