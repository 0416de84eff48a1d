//! Values that many spans share, which are held once.

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
        if let Some(name) = self.names.get(text) {
            return Arc::clone(name);
        }
        if self.names.len() >= KEPT_MAX {
            self.names.clear();
        }
        let name = Name::from(text);
        self.names.insert(Arc::clone(&name));
        name
    }

    /// A shape, the same one as before if it is known.
    pub fn shape(&mut self, shape: Shape) -> Arc<Shape> {
        if let Some(shape) = self.shapes.get(&shape) {
            return Arc::clone(shape);
        }
        if self.shapes.len() >= KEPT_MAX {
            self.shapes.clear();
        }
        let shape = Arc::new(shape);
        self.shapes.insert(Arc::clone(&shape));
        shape
    }
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
