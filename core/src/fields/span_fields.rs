//! One span in canonical fields: what turns are made of.

use super::failures::Failure;
use super::figures::{Figures, Tokens};
use super::numbers::Messages;
use crate::wire::span::Event;
use crate::wire::value::Map;

/// A span as it is read.
#[derive(Clone, Copy, Debug)]
pub struct Given<'a> {
    /// Its trace, whose requests repeat each other.
    pub trace_id: &'a str,
    /// The name of the operation.
    pub name: &'a str,
    /// The instrumentation scope.
    pub scope: Option<&'a str>,
    /// The code of the status.
    pub status: i64,
    /// The message of the status.
    pub status_message: Option<&'a str>,
    /// Its attributes.
    pub attributes: &'a Map<'a>,
    /// Its events.
    pub events: &'a [Event<'a>],
}

/// How a span looks that is neither a turn's nor an agent's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Shape {
    /// The instrumentation scope.
    pub scope: Option<String>,
    /// The name.
    pub name: String,
    /// The names of its attributes, in order.
    pub keys: Vec<String>,
    /// Whether a dialect knows it.
    pub known: bool,
}

/// An event of a span that says that a person stepped in.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Intervention {
    /// When, in nanoseconds since 1970.
    pub at_ns: i64,
    /// What the person decided.
    pub decision: Option<String>,
    /// What the person noted.
    pub note: Option<String>,
}

/// What a span is for turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// A call.
    Tool,
    /// A response.
    Model,
    /// An agent's run.
    Agent,
}

/// One span in canonical fields; `None` is unknown. `given` and `answer` belong to a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // They are those of `analyzer/schema/span_fields.py`.
pub struct SpanFields {
    pub trace_id: String,
    pub span_id: String,
    pub parent_span_id: Option<String>,
    pub start_ns: i64,
    pub end_ns: i64,
    pub service: Option<String>,
    pub links: Vec<String>,
    pub kind: Option<Role>,
    pub shape: Option<Shape>,
    pub session: Option<String>,
    pub connection: Option<String>,
    pub task: Option<String>,
    pub task_parent: Option<String>,
    pub task_kind: Option<String>,
    pub agent: Option<String>,
    pub phase: Option<String>,
    pub phase_start_ns: Option<i64>,
    pub iteration: Option<String>,
    pub status: Option<String>,
    pub blockers: Option<String>,
    pub completed_work: Option<String>,
    pub figures: Figures,
    pub interventions: Vec<Intervention>,
    pub name: String,
    pub call_id: Option<String>,
    pub arguments: Option<String>,
    pub result: Option<String>,
    pub failed: Option<bool>,
    pub failure: Failure,
    pub given: Messages,
    pub answer: Messages,
    pub finish_reason: Option<String>,
    pub compacted: Option<bool>,
    pub tokens: Tokens,
    pub is_part: bool,
}
