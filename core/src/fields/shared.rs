//! Values that many spans share, which are held once.

use std::hash::Hash;
use std::sync::Arc;

use foldhash::HashSet;

use super::span_fields::{Name, Shape};

// Names may hold ids, so that there may be as many as spans; beyond this, all are forgotten.
const KEPT_MAX: usize = 10_000;

/// The names and shapes of the spans so far.
#[derive(Debug, Default)]
pub struct Shared {
    names: HashSet<Name>,
    shapes: HashSet<Arc<Shape>>,
}

impl Shared {
    /// A name, the same one as before if it is known.
    pub fn name(&mut self, text: &str) -> Name {
        name_in(&mut self.names, text)
    }

    /// A shape, the same one as before if it is known.
    pub fn shape(&mut self, shape: &Shape) -> Arc<Shape> {
        held_once(&mut self.shapes, shape, || Arc::new(shape.clone()))
    }
}

/// A name, the same one as before if it is among these.
pub fn name_in(names: &mut HashSet<Name>, text: &str) -> Name {
    held_once(names, text, || Name::from(text))
}

fn held_once<T: Eq + Hash + ?Sized>(
    known: &mut HashSet<Arc<T>>,
    value: &T,
    made: impl FnOnce() -> Arc<T>,
) -> Arc<T> {
    if let Some(held) = known.get(value) {
        return Arc::clone(held);
    }
    if known.len() >= KEPT_MAX {
        known.clear();
    }
    let held = made();
    known.insert(Arc::clone(&held));
    held
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_held_once_and_many_are_forgotten() {
        let mut shared = Shared::default();
        let name = shared.name("a");
        assert!(Arc::ptr_eq(&name, &shared.name("a")));
        for number in 0..KEPT_MAX {
            shared.name(&number.to_string());
        }
        assert!(!Arc::ptr_eq(&name, &shared.name("a")));
    }
}
