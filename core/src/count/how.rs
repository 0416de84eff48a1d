//! How a team wants its turns to be counted; `detect/counters.py` says what each setting means.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codes::code;
use super::turn::Turn;

/// Nanoseconds of a second.
pub const NS_PER_S: i64 = 1_000_000_000;

/// Which messages are a person's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Messages {
    /// Those in other words than the earlier ones of the task.
    #[default]
    New,
    /// All of them.
    All,
    /// None but decisions.
    None,
}

/// The metric that gets better while a phase converges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Fewer failed tests.
    TestsFailed,
    /// More coverage.
    Coverage,
    /// A marker of something completed.
    Markers,
    /// The author's own, by its name; a lower figure is better if the flag says so.
    Own(String, bool),
}

/// How to count, with times in nanoseconds.
#[derive(Clone, Debug, Default)]
pub struct Counting {
    /// Silence after which counts are reset.
    pub idle_ns: i64,
    /// Idle time after which a look is a poll.
    pub poll_wait_ns: i64,
    /// Time between two looks at what runs after which the second is a poll.
    pub pending_wait_ns: i64,
    /// Idle time after which the same prompt begins a new run.
    pub run_pause_ns: i64,
    /// Idle time after which anything does.
    pub run_rest_ns: i64,
    /// Who counts as a person.
    pub messages: Messages,
    /// The last different messages with which a new one is compared.
    pub messages_kept: usize,
    /// Whether only decisions resolve a gate.
    pub by_decision: bool,
    /// The metrics of iterative phases by the codes of their names.
    pub converging: BTreeMap<i64, Arc<Metric>>,
}

impl Counting {
    /// Let a phase converge on a metric.
    pub fn converge(&mut self, phase: &str, metric: Metric) {
        self.converging.insert(code(phase), Arc::new(metric));
    }

    /// The metric of the phase of a turn, and the author's own figure of it; higher is better.
    #[must_use]
    pub fn metric_of(&self, phase: i64, turn: &Turn) -> (Option<Arc<Metric>>, Option<f64>) {
        let metric = self.converging.get(&phase).cloned();
        let Some(Metric::Own(name, lower)) = metric.as_deref() else {
            return (metric, None);
        };
        let figures = turn.metrics.and_then(|text| {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(text).ok()
        });
        let figure = figures.and_then(|each| each.get(name).and_then(serde_json::Value::as_f64));
        let figure = figure.map(|own| if *lower { -own } else { own });
        (metric, figure)
    }
}
