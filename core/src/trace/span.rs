//! A span with what follows from it alone: made once when it comes, and read each time that its
//! trace is made.

use std::hash::{BuildHasher, Hash, Hasher};
use std::sync::{Arc, LazyLock, OnceLock};

use foldhash::fast::RandomState;

use super::rounds;
use crate::fields::message::{Message, ToolCall};
use crate::fields::payloads::bare;
use crate::fields::span_fields::{Rare, Role, SpanFields};

/// Parents beyond this are ignored. No framework seen nests more than about twenty spans.
pub const ANCESTORS_MAX: usize = 100;

/// A place among the spans of a trace.
pub type Place = usize;
/// Start, trace and id of a span.
pub type Start = (i64, String, String);

// Others in each process, so that nobody can make two texts that share one.
static HASHES: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// What a model or an agent was given and said, in short.
#[derive(Debug, Default)]
pub struct Said {
    /// What it was given since it last spoke.
    pub news: Option<String>,
    /// Its answer in one text.
    pub response: Option<String>,
    /// A hash of what it was given up to each message, that one included.
    pub heard: Vec<u64>,
    comes_again: OnceLock<Option<String>>,
    bares: OnceLock<Vec<Option<String>>>,
}

static NOTHING: Said = Said {
    news: None,
    response: None,
    heard: Vec::new(),
    comes_again: OnceLock::new(),
    bares: OnceLock::new(),
};

/// A span as it was read, and what follows from it.
#[derive(Debug)]
pub struct Span {
    /// As it was read.
    pub fields: SpanFields,
    /// Characters that it is held for, which say which of two copies tells more.
    pub chars: usize,
    /// A hash of all fields.
    pub hash: u64,
    said: Option<Box<Said>>, // of a span that was given something or answered
}

/// A hash of anything, the same in one process.
#[must_use]
pub fn hash_of(value: impl Hash) -> u64 {
    HASHES.hash_one(value)
}

impl Span {
    /// Prepare a span.
    #[must_use]
    pub fn new(fields: SpanFields, chars: usize) -> Self {
        let said = (fields.given.is_some() || fields.answer.is_some()).then(|| {
            let mut said = Box::<Said>::default();
            let mut before = HASHES.build_hasher();
            for message in fields.heard() {
                message.hash(&mut before);
                said.heard.push(before.finish());
            }
            said.news = fields.news();
            said.response = fields.response();
            said
        });
        let heard = said.as_ref().and_then(|said| said.heard.last().copied());
        let hash = content(&fields, heard);
        Self {
            fields,
            chars,
            hash,
            said,
        }
    }

    /// What it was given and said.
    #[must_use]
    pub fn said(&self) -> &Said {
        self.said.as_deref().unwrap_or(&NOTHING)
    }

    /// When it was written, which orders the spans of a trace.
    #[must_use]
    pub fn place(&self) -> (i64, i64, &str) {
        (
            self.fields.end_ns,
            self.fields.start_ns,
            &self.fields.span_id,
        )
    }

    /// The span, and when it began.
    #[must_use]
    pub fn start(&self) -> (i64, &str, &str) {
        (
            self.fields.start_ns,
            &self.fields.trace_id,
            &self.fields.span_id,
        )
    }

    /// The value of the only argument of each call that it asks for, as frameworks show it bare.
    #[must_use]
    pub fn bares(&self) -> &[Option<String>] {
        let read = |call: &ToolCall| bare(call.arguments.as_deref()?);
        self.said()
            .bares
            .get_or_init(|| self.fields.calls().map(read).collect())
    }

    /// The words of the last message if it follows an answer, and came before; else `None`.
    ///
    /// A hook, a goal or a wrapper puts it into each round; ids and numbers of rounds do not count.
    #[must_use]
    pub fn comes_again(&self) -> Option<&str> {
        self.said()
            .comes_again
            .get_or_init(|| rounds::comes_again(self.fields.heard()))
            .as_deref()
    }

    /// Whether it was given the same as another span, and anything.
    #[must_use]
    pub fn heard_same(&self, other: &Self) -> bool {
        let (one, two) = (&self.said().heard, &other.said().heard);
        !one.is_empty() && one.len() == two.len() && one.last() == two.last()
    }

    /// Whether it is more than a node of the tree.
    #[must_use]
    pub fn tells_of_turns(&self, kind: Option<Role>) -> bool {
        kind.is_some()
            || self.fields.rare.as_ref().is_some_and(|rare| {
                rare.has_status() || rare.figures.known() || !rare.interventions.is_empty()
            })
    }
}

/// Whether the last message came after an agent's final answer.
///
/// An agent that calls tools by messages gives its final answer without a call. If no message has
/// a call, the text after a response may be a result that the framework put into words.
#[must_use]
pub fn follows_answer(given: &[Arc<Message>]) -> bool {
    let Some(before) = given.iter().rev().find(|message| message.role != "user") else {
        return false;
    };
    before.role == "assistant"
        && before.calls.is_empty()
        && before.text.as_ref().is_some_and(|text| !text.is_empty())
        && given.iter().any(|message| !message.calls.is_empty())
}

fn content(fields: &SpanFields, heard: Option<u64>) -> u64 {
    let (f, rare) = (fields, fields.rare());
    let names = (
        &f.trace_id,
        &f.span_id,
        &f.parent_span_id,
        &f.service,
        f.kind,
        &f.session,
        &f.user,
        &f.agent,
    );
    let rare = f.rare.as_ref().map(|_| rare_content(rare));
    let call = (&f.name, &f.call_id, &f.arguments, &f.result, f.failed);
    let failure = (&f.failure().kind, &f.failure().message, &f.failure().trace);
    let answer = (
        &f.answer,
        &f.finish_reason,
        f.compacted,
        f.is_part,
        f.is_open,
        f.is_record,
    );
    let rest = (f.start_ns, f.end_ns, heard);
    hash_of((
        names,
        rare,
        &f.shape,
        call,
        failure,
        answer,
        f.tokens(),
        rest,
    ))
}

fn rare_content(rare: &Rare) -> u64 {
    let coverage = rare.figures.coverage.map(f64::to_bits);
    let task = (
        &rare.payer,
        &rare.connection,
        &rare.service_tier,
        &rare.task,
        &rare.task_parent,
        &rare.task_kind,
    );
    let phase = (&rare.phase, rare.phase_start_ns, &rare.iteration);
    let attempt = (&rare.status, &rare.blockers, &rare.completed_work);
    let figures = (
        rare.figures.tests_failed,
        rare.figures.tests_total,
        coverage,
        rare.figures.markers,
        &rare.figures.metrics,
    );
    hash_of((
        &rare.links,
        task,
        phase,
        attempt,
        figures,
        &rare.interventions,
    ))
}
