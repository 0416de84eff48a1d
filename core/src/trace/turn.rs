//! A turn before it is fingerprinted; the columns are those of `analyzer/schema/turns.py`.

use std::borrow::Cow;

use super::span::hash_of;
use crate::fields::figures::{Figures, Tokens};

/// What a turn is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// A call of a tool.
    Tool,
    /// A response of a model.
    Model,
    /// A run that another agent or a program asked for.
    Handoff,
    /// An attempt at the task.
    Attempt,
    /// Recorded progress.
    Progress,
    /// An attempt at one of several tasks of a session.
    Switch,
    /// A message of a person.
    User,
}

impl Kind {
    /// Its name in the table of turns.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Tool => "tool",
            Self::Model => "model",
            Self::Handoff => "handoff",
            Self::Attempt => "attempt",
            Self::Progress => "progress",
            Self::Switch => "switch",
            Self::User => "user",
        }
    }
}

/// What identifies a turn: trace, span, kind and call.
pub type Key = (String, String, Kind, Option<String>);

/// A hash of what identifies a turn within its trace.
#[must_use]
pub fn key_hash(span_id: &str, kind: Kind, call_id: Option<&str>) -> u64 {
    hash_of((span_id, kind, call_id))
}

/// A turn of a trace. `None` is unknown.
#[derive(Clone, Debug)]
pub struct Turn<'t> {
    /// Whose counters count.
    pub task: Text<'t>,
    /// Declared task, where the counters are its root's.
    pub subtask: Option<Text<'t>>,
    /// Declared kind of the task.
    pub task_kind: Option<Text<'t>>,
    /// The id of the session, else of the trace.
    pub session: Text<'t>,
    /// The session of a caller, from whose budget it is paid.
    pub payer: Option<Text<'t>>,
    /// The task of the session; the table has no such column.
    pub session_name: Text<'t>,
    /// The trace of the span that shows the turn.
    pub trace_id: Text<'t>,
    /// The span that shows the turn.
    pub span_id: Text<'t>,
    /// What it is.
    pub kind: Kind,
    /// Names one of several calls that a model's span shows.
    pub call_id: Option<Text<'t>>,
    /// The user for whom it was taken.
    pub user: Option<Text<'t>>,
    /// The agent that took the turn; "" where none is named.
    pub agent: Text<'t>,
    /// Tool, model, agent handed to, status of an attempt, or a decision.
    pub name: Option<Text<'t>>,
    /// Declared phase.
    pub phase: Option<Text<'t>>,
    /// Start of the span that declares the phase for those within.
    pub phase_start_ns: Option<i64>,
    /// Declared iteration.
    pub iteration: Option<Text<'t>>,
    /// What went in.
    pub arguments: Option<Text<'t>>,
    /// What came out.
    pub result: Option<Text<'t>>,
    /// Whether it failed.
    pub failed: Option<bool>,
    /// Type of the failure.
    pub error_type: Option<Text<'t>>,
    /// Message of the failure.
    pub error: Option<Text<'t>>,
    /// The stack trace of the failure, else its text; it is hashed later.
    pub trace: Option<Text<'t>>,
    /// What a model or a person said.
    pub text: Option<Text<'t>>,
    /// The answer of a model, which is hashed later.
    pub response: Option<Text<'t>>,
    /// The response that a model's history ends with, which is hashed later.
    pub talks_on: Option<Text<'t>>,
    /// Shared by the parallel calls of a response.
    pub step: Option<Text<'t>>,
    /// Start, in ns since 1970, UTC.
    pub start_ns: i64,
    /// End, in ns since 1970, UTC.
    pub end_ns: i64,
    /// Why a model stopped.
    pub finish_reason: Option<Text<'t>>,
    /// How fast and at what price the response was made.
    pub service_tier: Option<Text<'t>>,
    /// Whether the history was compacted.
    pub compacted: Option<bool>,
    /// Tokens of a response.
    pub tokens: Tokens,
    /// Recorded progress.
    pub figures: Option<Cow<'t, Figures>>,
    /// `service.name` of the resource.
    pub service: Option<Text<'t>>,
    /// A hash of all but the task, the same in one process.
    pub content: u64,
}

/// A text of a span, or one that was made of several.
pub type Text<'t> = Cow<'t, str>;

/// A text that may be there.
#[must_use]
pub fn lent(text: Option<&str>) -> Option<Text<'_>> {
    text.map(Cow::Borrowed)
}

fn owned(text: Option<Text<'_>>) -> Option<Text<'static>> {
    text.map(|text| Cow::Owned(text.into_owned()))
}

impl Turn<'_> {
    /// What identifies it.
    #[must_use]
    pub fn key(&self) -> Key {
        let call_id = self.call_id.as_deref().map(str::to_owned);
        (
            self.trace_id.to_string(),
            self.span_id.to_string(),
            self.kind,
            call_id,
        )
    }

    /// A hash of what identifies it within its trace.
    #[must_use]
    pub fn key_hash(&self) -> u64 {
        key_hash(&self.span_id, self.kind, self.call_id.as_deref())
    }

    /// The turn with texts of its own.
    #[must_use]
    pub fn into_owned(self) -> Turn<'static> {
        Turn {
            task: Cow::Owned(self.task.into_owned()),
            subtask: owned(self.subtask),
            task_kind: owned(self.task_kind),
            session: Cow::Owned(self.session.into_owned()),
            payer: owned(self.payer),
            session_name: Cow::Owned(self.session_name.into_owned()),
            trace_id: Cow::Owned(self.trace_id.into_owned()),
            span_id: Cow::Owned(self.span_id.into_owned()),
            kind: self.kind,
            call_id: owned(self.call_id),
            user: owned(self.user),
            agent: Cow::Owned(self.agent.into_owned()),
            name: owned(self.name),
            phase: owned(self.phase),
            phase_start_ns: self.phase_start_ns,
            iteration: owned(self.iteration),
            arguments: owned(self.arguments),
            result: owned(self.result),
            failed: self.failed,
            error_type: owned(self.error_type),
            error: owned(self.error),
            trace: owned(self.trace),
            text: owned(self.text),
            response: owned(self.response),
            talks_on: owned(self.talks_on),
            step: owned(self.step),
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            finish_reason: owned(self.finish_reason),
            service_tier: owned(self.service_tier),
            compacted: self.compacted,
            tokens: self.tokens,
            figures: self.figures.map(|known| Cow::Owned(known.into_owned())),
            service: owned(self.service),
            content: self.content,
        }
    }
}
