//! A span in its fields, in any dialect.

use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::asked::{WAITS_FOR_PERSON, is_interrupt, needs_input};
use super::failures::{Failure, STATUS_ERROR, failed_by, failure_of, has_bad_level};
use super::figures::{figures_of, tokens_of};
use super::histories::Histories;
use super::made_ids::give_ids;
use super::names::Field;
use super::numbers::number_calls;
use super::payloads::{Held, arguments_of, parsed, parsed_text};
use super::plain::{as_text, bounded_name, canonical, canonical_json, is_true, whole};
use super::results::result_of;
use super::seen::Seen;
use super::shared::Shared;
use super::span_fields::{Given, Intervention, Rare, Role, Shape, SpanFields, apart};
use super::table::Table;
use super::table_rows::{Kind, Nobody};
use crate::patterns::pattern;
use crate::same::text::is_longer;
use crate::same::text::strip;
use crate::wire::span::{Event, OPEN, RECORD};
use crate::wire::value::Value;

// Spans of no kind have whole states as their input; arguments of calls are shorter.
const SPARE_CHARS_MAX: usize = 20_000;
// Dialects that write an empty object where content is hidden.
const HIDDEN_AS_EMPTY: &[&str] = &["langsmith", "google_adk"];
// smolagents reports the end of a run as a call to this tool.
const NOT_A_CALL: &str = "final_answer";
const EMPTY: &str = "{}";
const INTERVENTION_EVENT: &str = "looptrace.human_intervention";
// Enumerations of clients are written with their own names: `FinishReason.MAX_TOKENS`.
static ENUM: LazyLock<Regex> = LazyLock::new(|| pattern(r"\A(?:finish|stop)_?reason[._]+"));

/// What a call was given and gave, and whether that says that it failed.
#[derive(Debug, Default)]
struct Payloads {
    arguments: Option<String>,
    result: Option<String>,
    says_failed: Option<bool>,
}

/// Reads spans by the keys of a table of dialects.
#[derive(Debug)]
pub struct Reader {
    /// The table.
    pub table: Arc<Table>,
    /// What its spans share.
    pub shared: Shared,
    histories: Histories,
}

impl Reader {
    /// Read by the keys of this table.
    #[must_use]
    pub fn new(table: Arc<Table>) -> Self {
        Self {
            table,
            shared: Shared::default(),
            histories: Histories::default(),
        }
    }

    /// The fields of a span.
    pub fn fields(&mut self, span: Given<'_>) -> SpanFields {
        let seen = Seen::new(span.attributes, span.events, &self.table);
        let read = One::new(&seen, span);
        read.fields(&mut self.histories, &mut self.shared)
    }
}

/// A span that is being read.
pub(super) struct One<'s, 'a> {
    pub(super) seen: &'s Seen<'a>,
    pub(super) span: Given<'s>,
    said: Option<Kind>,
    is_lone: bool,
    pub(super) dialect: Option<usize>,
    kind: Option<Role>,
}

impl<'s, 'a> One<'s, 'a> {
    fn new(seen: &'s Seen<'a>, span: Given<'s>) -> Self {
        let row = seen.row_of_kind(span.name, span.scope.unwrap_or_default());
        let row = row.map(|row| &seen.table.rows[row]);
        let said = row.map(|row| row.kind);
        let kind = match said {
            Some(Kind::Tool | Kind::Part | Kind::Step) => Some(Role::Tool),
            Some(Kind::Model | Kind::Request) => Some(Role::Model),
            Some(Kind::Agent) => Some(Role::Agent),
            Some(Kind::Structure | Kind::Frame) | None => None,
        };
        Self {
            seen,
            span,
            said,
            is_lone: said == Some(Kind::Step) || row.is_some_and(|row| row.lone),
            dialect: row.map(|row| row.dialect),
            kind,
        }
    }

    fn value(&self, field: Field) -> Option<Held<'s>> {
        self.seen.value(field, self.dialect)
    }

    fn text(&self, field: Field) -> Option<String> {
        self.seen.text(field, self.dialect)
    }

    fn named(&self, field: Field) -> Option<String> {
        self.seen.name(field, self.dialect)
    }

    fn is_hidden(&self) -> bool {
        let name = self
            .dialect
            .map(|dialect| &self.seen.table.dialects[dialect]);
        name.is_some_and(|name| HIDDEN_AS_EMPTY.contains(&name.as_str()))
    }

    fn fields(&self, histories: &mut Histories, shared: &mut Shared) -> SpanFields {
        let (name, is_named) = self.name();
        let is_end = name == NOT_A_CALL && self.span.status != STATUS_ERROR;
        let mut kind = self.kind.filter(|_| !is_end);
        let mut payloads = match (self.kind, kind) {
            (Some(_), Some(Role::Tool)) => self.of_call(),
            (Some(_), _) => Payloads::default(),
            (None, _) => self.spare(),
        };
        let is_bad = has_bad_level(self.seen, self.dialect);
        let has_result = payloads.result.is_some();
        let says = payloads.says_failed;
        let failed = failed_by(self.span.status, is_bad, says, has_result, self.span.events);
        let (failed, failure) = self.failure(kind, &payloads, failed);
        kind = kind.filter(|_| self.is_shown(&payloads, failed == Some(true)));
        let (mut given, mut answer) = self.messages(kind, histories);
        give_ids(&mut given, &mut answer, histories.made(self.span.trace_id));
        number_calls(&mut given, &mut answer);
        if payloads.result.as_deref() == Some(EMPTY) && (failed == Some(true) || self.is_hidden()) {
            // Producers write an empty result if a call failed or outputs are hidden.
            payloads.result = None;
        }
        let is_model = kind == Some(Role::Model);
        let scope = self.span.scope.unwrap_or_default();
        let tokens = || tokens_of(self.seen, self.dialect, self.span.name, scope);
        SpanFields {
            kind,
            shape: self.shape(kind).map(|shape| shared.shape(&shape)),
            session: self.named(Field::Session).map(|name| shared.name(&name)),
            user: self.named(Field::UserId).map(|name| shared.name(&name)),
            agent: self.agent(kind, &name).map(|name| shared.name(&name)),
            rare: apart(self.rare(is_model)),
            name,
            is_named,
            call_id: self.text(Field::CallId),
            arguments: payloads.arguments,
            result: payloads.result,
            failed,
            failure: apart(failure),
            given,
            answer,
            finish_reason: if is_model { self.finish_reason() } else { None },
            compacted: if is_model { self.compacted() } else { None },
            tokens: if is_model { apart(tokens()) } else { None },
            is_part: self.said == Some(Kind::Part),
            is_request: self.said == Some(Kind::Request),
            is_open: self.span.attributes.get(OPEN) == Some(&Value::Bool(true)),
            is_record: self.span.attributes.get(RECORD) == Some(&Value::Bool(true)),
            is_common: self.dialect.is_some_and(|at| self.seen.table.common[at]),
            ..SpanFields::default()
        }
    }

    /// The failure, and whether it is one; a call that waits for a person has not failed.
    fn failure(
        &self,
        kind: Option<Role>,
        payloads: &Payloads,
        failed: Option<bool>,
    ) -> (Option<bool>, Failure) {
        let result = payloads.result.as_deref();
        let waits = || Failure {
            kind: Some(WAITS_FOR_PERSON.to_owned()),
            ..Failure::default()
        };
        if failed != Some(true) {
            let asks = kind == Some(Role::Tool) && result.is_some_and(needs_input);
            return (failed, if asks { waits() } else { Failure::default() });
        }
        let said = self.span.status_message;
        let failure = failure_of(self.seen, self.dialect, self.span.events, said, result);
        if is_interrupt(&failure) {
            return (None, waits());
        }
        (failed, failure)
    }

    fn rare(&self, is_model: bool) -> Rare {
        Rare {
            payer: self.named(Field::Payer),
            connection: self.named(Field::Connection),
            service_tier: if is_model { self.service_tier() } else { None },
            task: self.named(Field::Task),
            task_parent: self.named(Field::TaskParent),
            task_kind: self.named(Field::TaskKind),
            phase: self.named(Field::Phase),
            phase_start_ns: self.phase_start_ns(),
            iteration: self.named(Field::Iteration),
            status: self.text(Field::Status),
            blockers: self.blockers(),
            completed_work: self.text(Field::CompletedWork),
            figures: figures_of(self.seen, self.dialect),
            interventions: interventions(self.span.events),
            links: Vec::new(), // They are no attributes.
        }
    }

    /// The name, and whether a key has it.
    fn name(&self) -> (String, bool) {
        let field = match self.kind {
            Some(Role::Tool) => Some(Field::Tool),
            Some(Role::Model) => Some(Field::Model),
            Some(Role::Agent) => Some(Field::Agent),
            None => None,
        };
        match field
            .and_then(|field| self.value(field))
            .filter(|value| is_true(value))
        {
            Some(value) => {
                let name = as_text(&value);
                // A name may have the quotation marks of JSON.
                let read = if name.starts_with('"') {
                    parsed_text(&name)
                } else {
                    None
                };
                let name = read.as_ref().map_or(name.as_ref().into(), as_text);
                (bounded_name(&name), true)
            }
            None => (
                bounded_name(&self.seen.table.name_in(self.span.name)),
                false,
            ),
        }
    }

    fn agent(&self, kind: Option<Role>, name: &str) -> Option<String> {
        let is_named = self
            .dialect
            .is_some_and(|place| self.seen.table.named_by_span[place]);
        let by_span = || (is_named && kind == Some(Role::Agent)).then(|| name.to_owned());
        let scope = self.span.scope.unwrap_or_default();
        let nobody = &self.seen.table.nobody;
        let is_somebody = |name: &String| {
            let of_scope = |row: &&Nobody| row.scope.is_empty() || row.scope == scope;
            !nobody.iter().filter(of_scope).any(|row| row.agent == *name)
        };
        let named = self.named(Field::Agent).filter(is_somebody);
        named.or_else(by_span)
    }

    fn of_call(&self) -> Payloads {
        let arguments = self.value(Field::Arguments);
        let arguments = arguments.and_then(|value| arguments_of(&value));
        let result = self.value(Field::Result).map(|value| result_of(&value));
        let (result, says_failed) = result.unwrap_or_default();
        let mut found = Payloads {
            arguments,
            result,
            says_failed,
        };
        // Strands' newer form has both in messages of the tool's own span.
        if found.arguments.is_none() {
            let mut calls = self
                .messages_of(Field::Given)
                .into_iter()
                .flat_map(|m| m.calls);
            found.arguments = calls.next().and_then(|call| call.arguments);
        }
        if found.result.is_none() {
            let mut results = self
                .messages_of(Field::Answer)
                .into_iter()
                .flat_map(|m| m.results);
            if let Some(result) = results.next() {
                (found.result, found.says_failed) = (result.text, result.failed);
            }
        }
        if self.is_hidden()
            && [&found.arguments, &found.result]
                .iter()
                .all(|text| text.as_deref() == Some(EMPTY))
        {
            found.arguments = None;
        }
        found
    }

    /// The same of spans of no kind, which may be calls; what is long is left out.
    ///
    /// An attempt is no call, and has its results in fields of its own.
    fn spare(&self) -> Payloads {
        let has = |field| self.seen.has(field, self.dialect);
        if !has(Field::Arguments) || has(Field::Status) {
            return Payloads::default();
        }
        let short = |field| {
            self.value(field)
                .filter(|value| !is_longer(&as_text(value), SPARE_CHARS_MAX))
        };
        let result = short(Field::Result).map(|value| result_of(&value));
        let (result, says_failed) = result.unwrap_or_default();
        let arguments = short(Field::Arguments).and_then(|value| arguments_of(&value));
        Payloads {
            arguments,
            result,
            says_failed,
        }
    }

    /// Whether a part says something, or a step shows a whole call.
    fn is_shown(&self, payloads: &Payloads, has_failed: bool) -> bool {
        let is_said = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
        match self.said {
            Some(Kind::Part) => {
                is_said(&payloads.arguments) || is_said(&payloads.result) || has_failed
            }
            Some(Kind::Step) => {
                payloads.arguments.is_some() && (payloads.result.is_some() || has_failed)
            }
            _ => true,
        }
    }

    fn shape(&self, kind: Option<Role>) -> Option<Shape> {
        (kind.is_none() || self.is_lone).then(|| Shape {
            scope: self.span.scope.map(bounded_name),
            name: bounded_name(self.span.name),
            keys: self.seen.keys(),
            known: self.dialect.is_some(),
        })
    }

    fn phase_start_ns(&self) -> Option<i64> {
        // A value that no span can have is unknown.
        let value = self.value(Field::PhaseStartNs)?;
        whole(&value).filter(|time| *time >= 0)
    }

    /// What blocked an attempt, in canonical order.
    fn blockers(&self) -> Option<String> {
        let value = self.value(Field::Blockers)?;
        let value = parsed(&value);
        let mut names: Vec<String> = match &*value {
            Value::None => return None,
            Value::List(names) => names.iter().map(canonical).collect(),
            name => vec![canonical(name)],
        };
        names.sort_unstable();
        names.dedup();
        let names = names.into_iter().map(|name| Value::Text(name.into()));
        Some(canonical_json(&Value::List(names.collect())))
    }

    /// Why a model stopped, given the words of a response's choices.
    ///
    /// The choice that was cut off is chosen.
    fn finish_reason(&self) -> Option<String> {
        let value = self.value(Field::FinishReason)?;
        let value = parsed(&value);
        let words = match &*value {
            Value::List(words) => words.as_slice(),
            word => std::slice::from_ref(word),
        };
        let plain: Vec<String> = words
            .iter()
            .filter_map(|word| match word {
                Value::Text(word) => Some(strip(word).to_lowercase().replace('-', "_")),
                _ => None,
            })
            .map(|word| ENUM.replace(&word, "").into_owned())
            .collect();
        let cut = plain.iter().find_map(|word| self.seen.table.reason(word));
        let first = || {
            plain
                .iter()
                .map(String::as_str)
                .find(|word| !word.is_empty())
        };
        cut.or_else(first).map(bounded_name)
    }

    /// How fast and at what price a response was made, as its provider calls it.
    fn service_tier(&self) -> Option<String> {
        let tier = self.text(Field::ServiceTier)?;
        Some(bounded_name(&strip(&tier).to_lowercase())).filter(|tier| !tier.is_empty())
    }

    fn compacted(&self) -> Option<bool> {
        let value = self.value(Field::Compacted)?;
        (*parsed(&value) == Value::Bool(true)).then_some(true)
    }
}

fn interventions(events: &[Event<'_>]) -> Vec<Intervention> {
    let said = |event: &Event<'_>, key: &str| {
        let value = event
            .attributes
            .get(key)
            .filter(|value| **value != Value::None);
        value.map(|value| as_text(value).into_owned())
    };
    let happened = events
        .iter()
        .filter(|event| event.name == INTERVENTION_EVENT);
    let made = happened.map(|event| Intervention {
        // A time beyond what a column holds is the last that it does.
        at_ns: event.time_ns.parse().unwrap_or(i64::MAX),
        decision: said(event, "looptrace.decision"),
        note: said(event, "looptrace.note"),
    });
    made.collect()
}
