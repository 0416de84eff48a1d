//! Names of sessions that several services share: one session has one name.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashMapExt};

use super::bounded::{Bounded, TRACES_TOLD_MAX};

/// The names that became another name; of those that mean one session, the smallest is kept.
#[derive(Debug)]
pub struct SharedNames {
    joined: Bounded<String, String>,
    anew: HashMap<String, String>, // names that were joined since they were last taken
    sharing: Bounded<String, BTreeSet<String>>, // names that have become one
    naming: Bounded<String, Bounded<String, ()>>, // the last traces that use each name
}

impl SharedNames {
    /// No name is shared; at most so many are remembered.
    #[must_use]
    pub fn of(count_max: usize) -> Self {
        Self {
            joined: Bounded::new(count_max),
            anew: HashMap::new(),
            sharing: Bounded::new(count_max),
            naming: Bounded::new(count_max),
        }
    }

    /// The name that is kept.
    #[must_use]
    pub fn name<'a>(&'a self, name: &'a str) -> &'a str {
        self.joined.get(name).map_or(name, |kept| kept)
    }

    /// The names that became another one, each with it.
    pub fn joined(&self) -> impl Iterator<Item = (&str, &str)> {
        let names = self.joined.keys();
        names.filter_map(|name| Some((&**name, &**self.joined.get(name)?)))
    }

    /// Those that did since they were last taken.
    pub fn take_anew(&mut self) -> HashMap<String, String> {
        std::mem::take(&mut self.anew)
    }

    /// Note that a trace uses a name.
    pub fn note(&mut self, name: &str, trace_id: &str) {
        let traces = || Bounded::new(TRACES_TOLD_MAX);
        let traces = self.naming.or_set(name, traces);
        traces.set(trace_id.to_owned(), ());
    }

    /// Make two names mean one session; returns the traces whose session got another name.
    pub fn share(&mut self, first: &str, second: &str) -> BTreeSet<String> {
        let (first, second) = (self.name(first).to_owned(), self.name(second).to_owned());
        if first == second {
            return BTreeSet::new();
        }
        let (low, high) = if first < second {
            (first, second)
        } else {
            (second, first)
        };
        let names = self
            .sharing
            .remove(&high)
            .unwrap_or_else(|| BTreeSet::from([high]));
        for name in &names {
            self.joined.set(name.clone(), low.clone());
            self.anew.insert(name.clone(), low.clone());
        }
        let using = names.iter().filter_map(|name| self.naming.get(name));
        let renamed = using.flat_map(|traces| traces.keys().cloned()).collect();
        let mut all = self
            .sharing
            .remove(&low)
            .unwrap_or_else(|| BTreeSet::from([low.clone()]));
        all.extend(names);
        self.sharing.set(low, all);
        renamed
    }
}
