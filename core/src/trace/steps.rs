//! Steps of programs, which are calls where nothing is done within them that is known.
//!
//! A decorator around a function says neither whether a model called it, nor whether it only frames
//! calls and responses.

use super::span::Span;
use super::tree::ANCESTORS_MAX;
use crate::fields::span_fields::Role;

/// The kinds of spans; steps around spans that are known become structure.
#[must_use]
pub fn settled_kinds(spans: &[&Span], parents: &[Option<u32>]) -> Vec<Option<Role>> {
    let mut kinds: Vec<_> = spans.iter().map(|span| span.fields.kind).collect();
    if !spans.iter().any(|span| is_step(span)) {
        return kinds;
    }
    for start in (0..spans.len()).filter(|place| is_known(spans[*place])) {
        let mut above = start;
        for _ in 0..ANCESTORS_MAX {
            let Some(parent) = parents[above].map(|parent| parent as usize) else {
                break;
            };
            if parent == start {
                break;
            }
            if is_step(spans[parent]) {
                kinds[parent] = None;
                break; // It marks those around itself, as all that is known does.
            }
            if is_known(spans[parent]) {
                break;
            }
            above = parent;
        }
    }
    kinds
}

/// Whether a span is a call only if no known span lies within it.
fn is_step(span: &Span) -> bool {
    span.fields.kind == Some(Role::Tool) && span.fields.shape.is_some()
}

fn is_known(span: &Span) -> bool {
    span.fields.kind.is_some() || span.fields.shape.as_ref().is_some_and(|shape| shape.known)
}
