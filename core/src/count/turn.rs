//! The fields of a turn from which its codes, marks and counts are made.

/// The prices of a million tokens: input, output, input read from a cache and put into one, and
/// thought.
#[derive(Clone, Copy, Debug)]
pub struct Price(pub [f64; 5]);

/// A fingerprinted turn, as `schema/turns.py` describes it; figures are NaN where it does not say.
#[allow(missing_docs)]
#[derive(Clone, Debug, Default)]
pub struct Turn<'a> {
    pub kind: &'a str,
    pub agent: Option<&'a str>,
    pub name: Option<&'a str>,
    pub subtask: Option<&'a str>,
    pub task_kind: Option<&'a str>,
    pub phase: Option<&'a str>,
    pub iteration: Option<&'a str>,
    pub call: Option<&'a str>,
    pub outcome: Option<&'a str>,
    pub signature: Option<&'a str>,
    pub response: Option<&'a str>,
    pub talks_on: Option<&'a str>,
    pub trace_id: Option<&'a str>,
    pub step: Option<&'a str>,
    pub call_id: Option<&'a str>,
    pub arguments: Option<&'a str>,
    pub result: Option<&'a str>,
    pub error: Option<&'a str>,
    pub error_kind: Option<&'a str>,
    pub text: Option<&'a str>,
    pub finish_reason: Option<&'a str>,
    pub service_tier: Option<&'a str>,
    pub metrics: Option<&'a str>,
    pub failed: bool,
    pub compacted: bool,
    pub start_ns: i64,
    pub end_ns: i64,
    pub order_ns: i64,
    /// Before all times where no span around the turn declares its phase.
    pub phase_start_ns: i64,
    pub markers: i64,
    pub input_tokens: i64,
    pub output_tokens: i64,
    pub cached_tokens: i64,
    pub cache_write_tokens: i64,
    pub reasoning_tokens: i64,
    pub tests_failed: f64,
    pub tests_total: f64,
    pub coverage: f64,
    /// Unknown where there are no prices, or none of its model.
    pub price: Option<Price>,
}

/// Before all times: no span around the turn declares its phase.
pub const NEVER_NS: i64 = -1;
