//! A map of bounded size: a new key removes the oldest.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::Hash;

use foldhash::{HashMap, HashMapExt};

/// Traces of one group or task that learn of changes. If there are more, the last ones do.
pub const TRACES_TOLD_MAX: usize = 1_000;

/// Keeps at most `count_max` keys; a key that is set again keeps its place.
#[derive(Debug)]
pub struct Bounded<K, V> {
    count_max: usize,
    next: u64,
    values: HashMap<K, (u64, V)>,
    order: BTreeMap<u64, K>,
}

impl<K: Clone + Eq + Hash, V> Bounded<K, V> {
    /// An empty map.
    #[must_use]
    pub fn new(count_max: usize) -> Self {
        Self {
            count_max,
            next: 0,
            values: HashMap::new(),
            order: BTreeMap::new(),
        }
    }

    /// The value of a key.
    pub fn get<Q: ?Sized + Eq + Hash>(&self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.values.get(key).map(|(_, value)| value)
    }

    /// The value of a key, to change it.
    pub fn get_mut<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        self.values.get_mut(key).map(|(_, value)| value)
    }

    /// The value of a key, which is set if it is not there.
    pub fn or_set<Q>(&mut self, key: &Q, value: impl FnOnce() -> V) -> &mut V
    where
        Q: ?Sized + Eq + Hash + ToOwned<Owned = K>,
        K: Borrow<Q>,
    {
        if !self.values.contains_key(key) {
            self.set(key.to_owned(), value());
        }
        let known = self.values.get_mut(key);
        known.map_or_else(|| unreachable!("it was set above"), |(_, value)| value)
    }

    /// Set a value; returns the oldest one where there is no room for it.
    pub fn set(&mut self, key: K, value: V) -> Option<(K, V)> {
        if let Some((_, before)) = self.values.get_mut(&key) {
            *before = value;
            return None;
        }
        self.order.insert(self.next, key.clone());
        self.values.insert(key, (self.next, value));
        self.next += 1;
        if self.values.len() <= self.count_max {
            return None;
        }
        let (_, oldest) = self.order.pop_first()?;
        let (_, value) = self.values.remove(&oldest)?;
        Some((oldest, value))
    }

    /// Forget a key; returns its value.
    pub fn remove<Q: ?Sized + Eq + Hash>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let (place, value) = self.values.remove(key)?;
        self.order.remove(&place);
        Some(value)
    }

    /// The keys, the oldest first.
    pub fn keys(&self) -> impl Iterator<Item = &K> {
        self.order.values()
    }

    /// How many keys there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_key_removes_the_oldest() {
        let mut map = Bounded::new(2);
        assert_eq!(map.set("a", 1), None);
        assert_eq!(map.set("b", 2), None);
        assert_eq!(map.set("a", 3), None);
        assert_eq!(map.set("c", 4), Some(("a", 3)));
        assert_eq!(map.keys().copied().collect::<Vec<_>>(), ["b", "c"]);
        assert_eq!(map.get("b"), Some(&2));
        assert_eq!((map.remove("b"), map.len()), (Some(2), 1));
    }
}
