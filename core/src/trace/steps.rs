//! Steps of programs, which are calls where nothing is done within them that is known.
//!
//! A decorator around a function says neither whether a model called it, nor whether it only frames
//! calls and responses. An activity of a workflow and a request without a name are alike.

use super::span::{ANCESTORS_MAX, Span};
use crate::fields::span_fields::Role;

/// The kinds of spans; steps around spans that are known become structure.
#[must_use]
pub fn settled_kinds(spans: &[&Span], parents: &[Option<u32>]) -> Vec<Option<Role>> {
    let mut kinds: Vec<_> = spans.iter().map(|span| span.fields.kind).collect();
    if !spans.iter().any(|span| span.fields.is_lone()) {
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
            if spans[parent].fields.is_lone() {
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

/// Whether a span is known, and not one that calls have within them too, such as a request.
fn is_known(span: &Span) -> bool {
    let is_known = || span.fields.shape.as_ref().is_some_and(|shape| shape.known);
    span.fields.kind.is_some() || (!span.fields.is_common && is_known())
}
