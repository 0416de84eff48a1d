//! Declared tasks and their parents: a task shares the counters of its root.

use std::collections::BTreeSet;

use super::bounded::{Bounded, TRACES_TOLD_MAX};
use super::span::{ANCESTORS_MAX, Start};
use crate::fields::said::told;
use crate::fields::span_fields::SpanFields;

/// A declared task: the first span that names its parent, and the traces that declare it.
#[derive(Debug)]
struct Task {
    parent: Option<(Start, String)>,
    children: BTreeSet<String>,
    traces: Bounded<String, ()>,
}

/// The parents of declared tasks, as far as spans have shown them.
#[derive(Debug)]
pub struct Tasks(Bounded<String, Task>);

impl Tasks {
    /// No task is known; at most so many are remembered.
    #[must_use]
    pub fn of(count_max: usize) -> Self {
        Self(Bounded::new(count_max))
    }

    /// The task whose counters a declared task shares; a circle of tasks ends at its smallest name.
    #[must_use]
    pub fn root_of<'a>(&'a self, declared: &'a str) -> &'a str {
        let mut passed = vec![declared];
        while let Some(parent) = passed.last().and_then(|task| self.parent(task))
            && passed.len() <= ANCESTORS_MAX
        {
            if let Some(place) = passed.iter().position(|task| *task == parent) {
                return passed[place..].iter().min().copied().unwrap_or(declared);
            }
            passed.push(parent);
        }
        passed.last().copied().unwrap_or(declared)
    }

    fn parent(&self, task: &str) -> Option<&str> {
        self.0
            .get(task)?
            .parent
            .as_ref()
            .map(|(_, parent)| &**parent)
    }

    /// Learn from a span that declares a task; returns the traces that change by that.
    pub fn learn(&mut self, span: &SpanFields, name: &str, start: Start) -> BTreeSet<String> {
        let task = self.task(name);
        task.traces.set(span.trace_id.to_string(), ());
        let Some(parent) = told(span.rare().task_parent.as_ref()).filter(|parent| *parent != name)
        else {
            return BTreeSet::new();
        };
        let said = (start, parent.to_owned());
        let before = task.parent.clone();
        if before.as_ref().is_some_and(|before| *before <= said) {
            return BTreeSet::new();
        }
        task.parent = Some(said);
        if before.as_ref().is_some_and(|(_, before)| before == parent) {
            return BTreeSet::new();
        }
        if let Some(above) = before.and_then(|(_, before)| self.0.get_mut(&before)) {
            above.children.remove(name);
        }
        self.task(parent).children.insert(name.to_owned());
        self.traces_below(name)
    }

    fn task(&mut self, name: &str) -> &mut Task {
        self.0.or_set(name, || Task {
            parent: None,
            children: BTreeSet::new(),
            traces: Bounded::new(TRACES_TOLD_MAX),
        })
    }

    /// The traces that declare a task or any of its subtasks.
    fn traces_below(&self, name: &str) -> BTreeSet<String> {
        let (mut below, mut waiting) = (BTreeSet::from([name]), vec![name]);
        let mut found = BTreeSet::new();
        while let Some(name) = waiting.pop() {
            let Some(task) = self.0.get(name) else {
                continue;
            };
            found.extend(task.traces.keys().cloned());
            waiting.extend(
                task.children
                    .iter()
                    .map(|child| &**child)
                    .filter(|c| below.insert(c)),
            );
        }
        found
    }
}
