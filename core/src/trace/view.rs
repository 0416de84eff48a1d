//! A span as its turns see it: settled, and with what its twins add.

use super::span::{Place, Span, hash_of};
use super::tree::Tree;
use crate::fields::figures::Tokens;
use crate::fields::made_ids::is_made;
use crate::fields::message::ToolCall;
use crate::fields::said::told;
use crate::fields::span_fields::{Role, SpanFields};

/// A request to a model that lasted so long was one, although nothing is told of an answer: it was
/// cut off. Spans that only prepare a request take a moment.
const CUT_OFF_NS: i64 = 60_000_000_000;

/// What is told of a span, by itself or by its twins.
#[derive(Clone, Debug)]
pub struct View<'a> {
    /// Its place in the tree.
    pub place: Place,
    /// The span itself, of which names, times and all else are.
    pub span: &'a Span,
    /// What it is.
    pub kind: Option<Role>,
    /// The span that names it.
    named: &'a Span,
    /// When it ended, or was given up.
    pub end_ns: i64,
    /// The span with what was given.
    pub heard: &'a Span,
    /// The span with the answer.
    pub answered: &'a Span,
    /// The span with the calls that the answer asks for.
    asked: &'a Span,
    /// Whether it failed.
    pub failed: Option<bool>,
    /// The id of the call.
    pub call_id: Option<&'a str>,
    /// Arguments.
    pub arguments: Option<&'a str>,
    /// Result.
    pub result: Option<&'a str>,
    /// Type of the failure.
    pub error_type: Option<&'a str>,
    /// Message of the failure.
    pub error: Option<&'a str>,
    /// Of the failure.
    pub stacktrace: Option<&'a str>,
    /// Why a model stopped.
    pub finish_reason: Option<&'a str>,
    /// How fast and at what price it was made.
    pub service_tier: Option<&'a str>,
    /// Whether the history was compacted.
    pub compacted: Option<bool>,
    /// Tokens.
    pub tokens: Tokens,
    /// A hash of all that is told of it.
    pub content: u64,
}

impl<'a> View<'a> {
    /// A span as it is.
    #[must_use]
    pub fn new(place: Place, tree: &Tree<'a>) -> Self {
        let span = tree.spans[place];
        let fields = &span.fields;
        // What was answered has ended, although its producer did not say when.
        let has_end = !fields.is_open
            || fields.end_ns > fields.start_ns
            || fields.result.is_some()
            || fields.failed.is_some()
            || fields.answer.as_ref().is_some_and(|said| !said.is_empty());
        let (end_ns, content) = if has_end {
            (fields.end_ns, span.hash)
        } else {
            let end_ns = tree.given_up_ns(place);
            (end_ns, hash_of((span.hash, end_ns)))
        };
        Self {
            place,
            span,
            kind: tree.kinds[place],
            named: span,
            end_ns,
            heard: span,
            answered: span,
            asked: span,
            failed: fields.failed,
            call_id: fields.call_id.as_deref(),
            arguments: fields.arguments.as_deref(),
            result: fields.result.as_deref(),
            error_type: fields.failure().kind.as_deref(),
            error: fields.failure().message.as_deref(),
            stacktrace: fields.failure().trace.as_deref(),
            finish_reason: fields.finish_reason.as_deref(),
            service_tier: fields.rare().service_tier.as_deref(),
            compacted: fields.compacted,
            tokens: *fields.tokens(),
            content,
        }
    }

    /// Add what another span of the same thing knows. A failure that either of them saw is kept.
    pub fn add(&mut self, inner: &View<'a>) {
        self.content = hash_of((self.content, inner.content));
        if self.end_ns != self.fields().end_ns {
            self.end_ns = inner.end_ns;
        }
        let failed = self.failed == Some(true) || inner.failed == Some(true);
        self.failed = if failed {
            Some(true)
        } else {
            self.failed.or(inner.failed)
        };
        // A server's name of a tool is shorter than that by which it was asked for.
        let is_model = self.kind == Some(Role::Model);
        if is_model && !self.is_named() && inner.is_named() {
            self.named = inner.named;
        }
        self.call_id = or(self.call_id, inner.call_id);
        self.arguments = self.arguments.or(inner.arguments);
        self.result = self.result.or(inner.result);
        self.error_type = or(self.error_type, inner.error_type);
        self.error = or(self.error, inner.error);
        self.stacktrace = or(self.stacktrace, inner.stacktrace);
        if self.heard.fields.heard().is_empty() {
            self.heard = inner.heard;
        }
        let answer = self.answered.fields.answer.as_ref();
        let is_silent = answer.is_none_or(Vec::is_empty);
        if is_silent {
            self.answered = inner.answered;
        }
        if is_silent || inner.has_ids() && !self.has_ids() {
            self.asked = inner.asked;
        }
        self.finish_reason = or(self.finish_reason, inner.finish_reason);
        self.service_tier = or(self.service_tier, inner.service_tier);
        self.compacted = self
            .compacted
            .filter(|compacted| *compacted)
            .or(inner.compacted);
        self.tokens.add(&inner.tokens);
    }

    /// The fields of the span itself.
    #[must_use]
    pub fn fields(&self) -> &'a SpanFields {
        &self.span.fields
    }

    /// The id of the span.
    #[must_use]
    pub fn id(&self) -> &'a str {
        &self.fields().span_id
    }

    /// Its name: that of the tool or the model.
    #[must_use]
    pub fn name(&self) -> &'a str {
        &self.named.fields.name
    }

    /// Whether a key names it, and not its span alone.
    #[must_use]
    pub fn is_named(&self) -> bool {
        self.named.fields.is_named
    }

    /// The start and the id, by which calls are taken one after the other.
    #[must_use]
    pub fn start(&self) -> (i64, &'a str) {
        (self.fields().start_ns, self.id())
    }

    /// The calls that its answer asks for.
    pub fn calls(&self) -> impl Iterator<Item = &'a ToolCall> + use<'a> {
        self.asked.fields.calls()
    }

    /// Whether its answer asks for a call by an id; without one its result is hard to find.
    fn has_ids(&self) -> bool {
        let id = |call: &ToolCall| told(call.call_id.as_ref()).is_some_and(|id| !is_made(id));
        self.calls().any(id)
    }

    /// Whether it is a turn of its own: a call, or a response; some spans only prepare one.
    ///
    /// Of some requests their producer writes no response.
    #[must_use]
    pub fn speaks(&self, tree: &Tree<'_>) -> bool {
        let lasted_ns = self.end_ns.saturating_sub(self.fields().start_ns);
        let is_request = self.fields().is_request || lasted_ns >= CUT_OFF_NS;
        self.is_answered() || is_request && !tree.holds(self.place)
    }

    /// Whether it is a call, or a request with a sign of its response.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        let answer = self.answered.fields.answer.as_ref();
        self.kind == Some(Role::Tool)
            || answer.is_some_and(|answer| !answer.is_empty())
            || self.tokens.input.is_some_and(|count| count != 0)
            || self.tokens.output.is_some_and(|count| count != 0)
            || self.failed == Some(true)
            || self.finish_reason.is_some_and(|reason| !reason.is_empty())
    }

    /// The last response in a model's history; `None` if it or this response has calls.
    #[must_use]
    pub fn talks_on(&self) -> Option<&'a str> {
        let mut given = self.heard.fields.heard().iter().rev();
        let before = given.find(|message| message.role == "assistant")?;
        self.answered.fields.answer.as_ref()?;
        if !before.calls.is_empty() || self.calls().next().is_some() {
            return None;
        }
        told(before.text.as_ref())
    }

    /// The last message that it was given.
    #[must_use]
    pub fn message(&self) -> Option<&'a str> {
        self.heard.fields.message()
    }
}

fn or<'a>(first: Option<&'a str>, second: Option<&'a str>) -> Option<&'a str> {
    first.filter(|text| !text.is_empty()).or(second)
}
