//! One span in canonical fields: what turns are made of.

use std::sync::{Arc, LazyLock};

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

/// A name that many spans share.
pub type Name = Arc<str>;

/// What few spans say, apart from the others so that these are small.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // They are those of `analyzer/schema/span_fields.py`.
pub struct Rare {
    pub links: Vec<String>,
    pub payer: Option<String>,
    pub connection: Option<String>,
    pub service_tier: Option<String>,
    pub task: Option<String>,
    pub task_parent: Option<String>,
    pub task_kind: Option<String>,
    pub phase: Option<String>,
    pub phase_start_ns: Option<i64>,
    pub iteration: Option<String>,
    pub status: Option<String>,
    pub blockers: Option<String>,
    pub completed_work: Option<String>,
    pub figures: Figures,
    pub interventions: Vec<Intervention>,
}

impl Rare {
    /// Whether it is an attempt at a task.
    #[must_use]
    pub fn has_status(&self) -> bool {
        self.status
            .as_ref()
            .is_some_and(|status| !status.is_empty())
    }
}

static NOTHING_RARE: LazyLock<Rare> = LazyLock::new(Rare::default);
static NO_FAILURE: LazyLock<Failure> = LazyLock::new(Failure::default);
static NO_TOKENS: LazyLock<Tokens> = LazyLock::new(Tokens::default);

/// One span in canonical fields; `None` is unknown. `given` and `answer` belong to a model.
#[derive(Clone, Debug, Default, PartialEq)]
#[allow(missing_docs)] // They are those of `analyzer/schema/span_fields.py`.
pub struct SpanFields {
    pub trace_id: Name,
    pub span_id: String,
    pub parent_span_id: Option<String>,
    pub start_ns: i64,
    pub end_ns: i64,
    pub service: Option<Name>,
    pub kind: Option<Role>,
    pub shape: Option<Arc<Shape>>,
    pub session: Option<Name>,
    pub user: Option<Name>,
    pub agent: Option<Name>,
    pub rare: Option<Box<Rare>>,
    pub name: String,
    pub call_id: Option<String>,
    pub arguments: Option<String>,
    pub result: Option<String>,
    pub failed: Option<bool>,
    pub failure: Option<Box<Failure>>,
    pub given: Messages,
    pub answer: Messages,
    pub finish_reason: Option<String>,
    pub compacted: Option<bool>,
    pub tokens: Option<Box<Tokens>>,
    /// Whether a key names it, and not its span alone.
    pub is_named: bool,
    pub is_part: bool,
    /// Whether it was a response, although nothing may be told of an answer.
    pub is_request: bool,
    pub is_open: bool,
    pub is_record: bool,
    /// Whether programs write such spans also within calls.
    pub is_common: bool,
}

impl SpanFields {
    /// Whether the span is structure if a known one lies within it.
    #[must_use]
    pub fn is_lone(&self) -> bool {
        self.kind.is_some() && self.shape.is_some()
    }

    /// What few spans say.
    #[must_use]
    pub fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&NOTHING_RARE)
    }

    /// Its failure.
    #[must_use]
    pub fn failure(&self) -> &Failure {
        self.failure.as_deref().unwrap_or(&NO_FAILURE)
    }

    /// Its tokens.
    #[must_use]
    pub fn tokens(&self) -> &Tokens {
        self.tokens.as_deref().unwrap_or(&NO_TOKENS)
    }
}

/// A value in a place of its own; none if it says nothing.
#[must_use]
pub fn apart<T: Default + PartialEq>(value: T) -> Option<Box<T>> {
    (value != T::default()).then(|| Box::new(value))
}
