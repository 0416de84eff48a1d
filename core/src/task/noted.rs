//! What is noted of the turns of a task, in time or not: their traces, and long turns and pauses.

use std::sync::Arc;

use super::turns::Watch;

// The model of a turn that stands for an agent that does nothing; `semconv.py` has it.
const SILENT: &str = "(silent)";

/// What is noted of the turns of a task.
#[derive(Clone, Debug, Default)]
pub struct Noted {
    /// The first traces with turns there.
    pub traces: Vec<Arc<str>>,
    /// The end and the duration of long turns that may move, or ended shortly before; that of the
    /// pause before a turn, if it is longer.
    lasted_ns: Vec<(i64, i64)>,
    last_ns: i64,
}

impl Noted {
    /// Note a turn.
    pub fn note(&mut self, times_ns: (i64, i64), trace: &str, name: Option<&str>, watch: &Watch) {
        let (start_ns, end_ns) = times_ns;
        let since_ns = if self.last_ns == 0 {
            start_ns
        } else {
            start_ns.min(self.last_ns)
        };
        let lasted_ns = end_ns.saturating_sub(since_ns);
        if lasted_ns >= watch.long_ns {
            self.lasted_ns.push((end_ns, lasted_ns));
        }
        // It goes when its agent does something.
        if name != Some(SILENT) {
            self.last_ns = self.last_ns.max(end_ns);
        }
        // Most turns are of the trace of the one before.
        let is_known = |traces: &[Arc<str>]| traces.iter().rev().any(|each| **each == *trace);
        if self.traces.len() <= watch.traces_max && !is_known(&self.traces) {
            self.traces.reserve_exact(1);
            self.traces.push(trace.into());
        }
    }

    /// The length of the longest turn or pause that ended since a time, or did when this was asked
    /// last; 0 of short ones.
    pub fn longest_ns(&mut self, since_ns: i64) -> i64 {
        let longest_ns = self.lasted_ns.iter().map(|each| each.1).max();
        self.lasted_ns.retain(|each| each.0 >= since_ns);
        longest_ns.unwrap_or(0)
    }
}
