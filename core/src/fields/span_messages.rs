//! What models and agents were given, and what they answered.

use std::sync::{Arc, LazyLock};

use regex::Regex;

use super::envelopes::answer_of;
use super::histories::{Histories, read};
use super::message::Message;
use super::names::Field;
use super::numbers::Messages;
use super::parts::with_fields;
use super::payloads::{Held, owned, parsed};
use super::seen::Found;
use super::span::One;
use super::span_fields::Role;
use crate::patterns::pattern;
use crate::same::text::strip;
use crate::wire::value::Value;

// Messages in JSON begin like this.
static CUT_OFF: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"\A[\s\x1c-\x1f]*(?:\[[\s\x1c-\x1f]*\{[\s\x1c-\x1f]*"|\{[\s\x1c-\x1f]*"(?:messages|parts|role)")"#,
    )
});
impl One<'_, '_> {
    /// The messages that a field of a call has.
    pub(super) fn messages_of(&self, field: Field) -> Vec<Message> {
        let Some((_, found)) = self.seen.read(field, self.dialect) else {
            return Vec::new();
        };
        let messages = checked(&found, read(self.seen, &found, "tool"));
        messages
            .into_iter()
            .flatten()
            .map(|message| (*message).clone())
            .collect()
    }

    /// What a model or an agent was given, and what it answered.
    pub(super) fn messages(
        &self,
        kind: Option<Role>,
        histories: &mut Histories,
    ) -> (Messages, Messages) {
        if !matches!(kind, Some(Role::Model | Role::Agent)) {
            return (None, None);
        }
        let trace = self.span.trace_id;
        let given = self
            .seen
            .read(Field::Given, self.dialect)
            .and_then(|(_, found)| {
                checked(&found, histories.read(self.seen, &found, "user", trace))
            });
        let answer = self
            .seen
            .read(Field::Answer, self.dialect)
            .and_then(|(_, found)| {
                let messages = match &found {
                    Found::One(value) => {
                        read(self.seen, &Found::One(answer_of(value)), "assistant")
                    }
                    Found::Flat(_) => read(self.seen, &found, "assistant"),
                };
                checked(&found, messages)
            });
        (given, self.with_calls(answer))
    }

    /// An answer with the calls that stand in a field of their own.
    fn with_calls(&self, answer: Messages) -> Messages {
        let has_calls = answer
            .iter()
            .flatten()
            .any(|message| !message.calls.is_empty());
        let Some((_, found)) = self.seen.read(Field::AnswerCalls, self.dialect) else {
            return answer;
        };
        if has_calls {
            return answer;
        }
        let held = self.seen.held(found);
        let told = parsed(&held);
        let calls = typed_calls(&told);
        let found = Found::One(calls.map_or(Held::Given(&told), Held::Made));
        // The key may be one of whole messages, whose texts are those of the answer.
        let asked = read(self.seen, &found, "assistant").into_iter();
        let asked = asked.filter(|message| !message.calls.is_empty()).collect();
        match checked(&found, asked) {
            Some(asked) => Some(
                answer
                    .unwrap_or_default()
                    .into_iter()
                    .chain(asked)
                    .collect(),
            ),
            None => answer,
        }
    }
}

/// A list of calls that name no type, as one of calls.
fn typed_calls(value: &Value<'_>) -> Option<Value<'static>> {
    let Value::List(items) = value else {
        return None;
    };
    let typed = items.iter().map(|item| match item {
        Value::Map(call) => Value::Map(with_fields("type", "tool_call", call)),
        other => other.clone(),
    });
    Some(owned(&Value::List(typed.collect())))
}

/// What was read of a value; text that may be JSON that a limit on lengths cut off is unknown.
fn checked(found: &Found<'_>, messages: Vec<Arc<Message>>) -> Messages {
    let text = match found {
        Found::One(value) => match &**value {
            Value::Text(text) => Some(text),
            _ => None,
        },
        Found::Flat(_) => None,
    };
    let first = messages.first()?;
    if let Some(text) = text
        && first.text.as_deref() == Some(strip(text))
        && CUT_OFF.is_match(text)
    {
        return Some(vec![Arc::new(Message::default())]);
    }
    Some(messages)
}
