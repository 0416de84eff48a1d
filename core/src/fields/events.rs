//! What the events of a span say, beside its attributes.

use foldhash::HashSet;
use std::borrow::Cow;

use super::payloads::{Held, arguments_of, owned, parsed};
use super::plain::{has_only, is_true, some_in, true_in};
use super::results::result_of;
use crate::wire::span::Event;
use crate::wire::value::{Map, Value};

// Messages were span events before GenAI 1.37. Some frameworks still put them into an event.
// Azure's agents list the calls of a run when it has ended.
const MESSAGE_EVENTS: [(&str, &str); 5] = [
    ("gen_ai.system.message", "system"),
    ("gen_ai.user.message", "user"),
    ("gen_ai.assistant.message", "assistant"),
    ("gen_ai.tool.message", "tool"),
    ("gen_ai.run_step.tool_calls", "assistant"),
];
const DETAILS_EVENT: &str = "gen_ai.client.inference.operation.details";
const EVENT_CONTENT: &str = "gen_ai.event.content";
const MESSAGES: &str = "@gen_ai.messages";
// The parts of a message in an event; `parts` are those of newer conventions.
const MESSAGE_PARTS: [&str; 3] = ["content", "parts", "tool_calls"];
// AgentCore's log records have what a span was given and what it answered in one body, under the
// name of the span's scope. The keys of each: of messages, and of a tool.
const DIRECTIONS: [(&str, &str, &str); 2] = [
    (
        "input",
        "gen_ai.input.messages",
        "gen_ai.tool.call.arguments",
    ),
    (
        "output",
        "gen_ai.output.messages",
        "gen_ai.tool.call.result",
    ),
];

// The attributes of events of messages.
const EVENT_KEYS: &[&str] = &[
    "content",
    "message",
    "role",
    "id",
    "finish_reason",
    "tool.result",
];

/// Attributes of a span, and what its events add to them. The first of a key counts.
pub type Entries<'a> = Vec<(Cow<'a, str>, Held<'a>)>;

/// Add to a span's attributes what its events say.
///
/// The attributes of a details event count as the span's. Each other event that the table or GenAI
/// knows becomes `@name`, with its attributes. Messages become `@gen_ai.messages`, a list of them.
pub fn add_events<'a>(entries: &mut Entries<'a>, events: &'a [Event<'a>], known: &HashSet<String>) {
    let mut messages = Vec::new();
    // Events may repeat keys; those of later details count before earlier ones, as do the span's.
    let mut told: Entries<'a> = Vec::new();
    for event in events {
        let said = Said::of(&event.attributes);
        let name =
            said.get("event.name")
                .map_or(Cow::Borrowed(&*event.name), |value| match value {
                    Value::Text(name) => Cow::Borrowed(&**name),
                    _ => Cow::Borrowed(""),
                });
        let role = MESSAGE_EVENTS.iter().find(|(known, _)| *known == name);
        if name == DETAILS_EVENT {
            told.extend(said.entries());
        } else if role.is_some() || known.contains(&*name) {
            told.push((
                Cow::Owned(format!("@{name}")),
                Held::Made(Value::Map(said.map())),
            ));
        } else if DIRECTIONS
            .iter()
            .any(|(direction, ..)| said.get(direction).is_some())
        {
            told.extend(both(&said));
        }
        if let Some(message) = role.and_then(|(_, role)| message_in(&said, role)) {
            messages.push(Value::Map(message));
        }
    }
    if !messages.is_empty() {
        told.push((Cow::Borrowed(MESSAGES), Held::Made(Value::List(messages))));
    }
    add_new(entries, told);
}

/// Add the entries whose keys are new.
fn add_new<'a>(entries: &mut Entries<'a>, told: Entries<'a>) {
    if told.is_empty() {
        return;
    }
    let mut keys: HashSet<String> = entries
        .iter()
        .map(|(key, _)| key.clone().into_owned())
        .collect();
    for (key, value) in told {
        if keys.insert(key.clone().into_owned()) {
            entries.push((key, value));
        }
    }
}

/// What an event says; Semantic Kernel and Azure write it as JSON in one attribute.
struct Said<'a> {
    attributes: &'a Map<'a>,
    body: Option<Map<'a>>,
}

impl<'a> Said<'a> {
    fn of(attributes: &'a Map<'a>) -> Self {
        let content = attributes.get(EVENT_CONTENT).map(parsed);
        let body = match content {
            Some(Held::Made(Value::Map(body))) => Some(body),
            Some(Held::Given(Value::Map(body))) => Some(body.clone()),
            _ => None,
        };
        Self { attributes, body }
    }

    fn get(&self, key: &str) -> Option<&Value<'a>> {
        let in_body = self.body.as_ref().and_then(|body| body.get(key));
        in_body.or_else(|| self.attributes.get(key))
    }

    fn map(&self) -> Map<'a> {
        let mut map = self.attributes.clone();
        for (key, value) in self.body.iter().flat_map(Map::fields) {
            map.put(key.clone(), value.clone());
        }
        map
    }

    fn entries(&self) -> Entries<'a> {
        let map = self.map();
        let fields = map.fields().iter().cloned();
        fields
            .map(|(key, value)| (key, Held::Made(value)))
            .collect()
    }
}

/// The message in an event; `None` where its content was not captured.
fn message_in<'a>(said: &Said<'a>, role: &'static str) -> Option<Map<'a>> {
    let mut message = Map::default();
    let parts = MESSAGE_PARTS
        .iter()
        .filter_map(|name| Some((*name, said.get(name)?)));
    let parts: Vec<_> = parts.filter(|(_, value)| **value != Value::None).collect();
    if parts.iter().all(|(name, _)| *name != "content") {
        message.put("content".into(), Value::None);
    }
    for (name, value) in &parts {
        message.put((*name).into(), owned(&parsed(value)));
    }
    let id = said.get("id").filter(|id| role == "tool" && is_true(id));
    if let Some(id) = id {
        message.put("tool_call_id".into(), id.clone());
    }
    message.put("role".into(), Value::Text(role.into()));
    // Google's ADK writes the model's messages and results as a user's too.
    let inner = match message.get("content") {
        Some(Value::Map(inner)) if inner.get("parts").is_some() => inner.fields().to_vec(),
        _ => Vec::new(),
    };
    if !inner.is_empty() {
        message.put("content".into(), Value::None);
    }
    for (key, value) in inner {
        message.put(key, value);
    }
    (!parts.is_empty() || id.is_some()).then_some(message)
}

/// The attributes that `input` and `output` of one event stand for.
///
/// Each has messages. That of a tool is what it was called with, or what it returned.
fn both<'a>(said: &Said<'a>) -> Entries<'a> {
    let mut found = Vec::new();
    for (direction, key, tool_key) in DIRECTIONS {
        let held = said.get(direction).map(|held| owned(&parsed(held)));
        let messages = match &held {
            Some(Value::Map(held)) => held.get("messages").filter(|messages| is_true(messages)),
            _ => None,
        };
        let Some(Value::List(messages)) = messages else {
            continue;
        };
        let inner = messages.iter().flat_map(unwrapped).collect();
        found.push((Cow::Borrowed(key), Held::Made(Value::List(inner))));
        if let [Value::Map(only)] = messages.as_slice() {
            let content = only.get("content").map(|content| owned(&parsed(content)));
            let inner = match &content {
                Some(Value::Map(content)) => said_within(content).cloned(),
                _ => None,
            };
            let content = inner.or_else(|| only.get("content").cloned());
            found.push((
                Cow::Borrowed(tool_key),
                Held::Made(content.unwrap_or_default()),
            ));
        }
    }
    found
}

/// The messages in the content of one, which may be a list of them or another one.
fn unwrapped(message: &Value<'static>) -> Vec<Value<'static>> {
    let Value::Map(map) = message else {
        return vec![message.clone()];
    };
    let content = map.get("content").map(|content| owned(&parsed(content)));
    let is_message =
        |item: &Value<'_>| matches!(item, Value::Map(map) if map.get("role").is_some());
    match content {
        Some(Value::List(items)) if items.iter().all(is_message) => items,
        Some(Value::Map(content)) => match said_within(&content) {
            Some(said) => {
                let mut made = map.clone();
                let named = content.fields().iter();
                for (key, value) in named.filter(|(key, _)| key != "message") {
                    made.put(key.clone(), value.clone());
                }
                made.put("content".into(), owned(&parsed(said)));
                vec![Value::Map(made)]
            }
            None => vec![message.clone()],
        },
        _ => vec![message.clone()],
    }
}

/// What is said in the attributes of an event, which ADOT writes as the content of a message.
fn said_within<'m, 'a>(content: &'m Map<'a>) -> Option<&'m Value<'a>> {
    let said = content.get("content").or_else(|| content.get("message"));
    said.filter(|_| has_only(content, EVENT_KEYS))
}

/// The arguments of a call, its result, and whether that says that the call failed.
pub type Told = (Option<String>, Option<String>, Option<bool>);

/// What the events of a log record tell of a call, in the names of GenAI.
#[must_use]
pub fn call_in(events: &[Event<'_>]) -> Told {
    let mut entries = Vec::new();
    add_events(&mut entries, events, &HashSet::default());
    let value = |wanted: &str| {
        entries
            .iter()
            .find(|(key, _)| key == wanted)
            .map(|(_, value)| value)
    };
    let [arguments, result] = [DIRECTIONS[0].2, DIRECTIONS[1].2].map(value);
    let arguments = arguments.and_then(|value| arguments_of(value));
    let (result, failed) = result.map(|value| result_of(value)).unwrap_or_default();
    (arguments, result, failed)
}

/// Whether an event is an exception, such as `gen_ai.execute_tool.exception`.
#[must_use]
pub fn is_exception(event: &Event<'_>) -> bool {
    event.name == "exception" || event.name.ends_with(".exception")
}

/// A text among the attributes of an event.
#[must_use]
pub fn text_in<'e>(event: &'e Event<'_>, key: &str) -> Option<&'e str> {
    match some_in(&event.attributes, key) {
        Some(Value::Text(text)) => Some(text),
        _ => None,
    }
}

/// A value among the attributes of an event that is not empty.
#[must_use]
pub fn value_in<'e, 'a>(event: &'e Event<'a>, key: &str) -> Option<&'e Value<'a>> {
    true_in(&event.attributes, key)
}
