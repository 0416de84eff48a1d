//! What requests and responses of APIs wrap around messages, definitions of tools, and answers in
//! the pieces in which they were streamed.

use std::borrow::Cow;

use super::payloads::{Held, is_text, owned, parsed};
use super::plain::{has_any, is_true, some_in, true_in};
use crate::wire::value::{Map, Value};

// A function with one of these keys, and without arguments, is the definition of a tool.
const DEFINING_KEYS: &[&str] = &[
    "parameters",
    "description",
    "input_schema",
    "inputSchema",
    "strict",
];
const GIVEN_KEYS: &[&str] = &["arguments", "args", "input"];
// The fields of requests and responses that hold messages: of LangChain, OpenAI, Google, Vercel.
const HOLDERS: [&str; 8] = [
    "messages",
    "generations",
    "choices",
    "candidates",
    "contents",
    "output",
    "input",
    "prompt",
];
// What has one of these keys is a message or a part of one, whatever else it has.
const MESSAGE_KEYS: &[&str] = &[
    "role",
    "content",
    "parts",
    "name",
    "toolName",
    "function",
    "toolUse",
    "function_call",
    "functionCall",
    "tool_call",
    "toolResult",
    "function_response",
    "functionResponse",
    "call_id",
    "tool_call_id",
];

/// What the envelope of an API holds; `None` where there is no envelope.
#[must_use]
pub fn held_in<'m, 'a>(map: &'m Map<'a>) -> Option<&'m Value<'a>> {
    if let Some(content @ Value::Map(_)) = map.get("content")
        && !has_any(map, &["role", "type"])
    {
        return Some(content); // Google's candidate, which has one message
    }
    let is_message = has_any(map, MESSAGE_KEYS);
    for name in HOLDERS {
        let Some(held) = map.get(name) else { continue };
        let is_list = matches!(held, Value::List(_));
        if is_list && matches!(name, "messages" | "generations") {
            return Some(held);
        }
        // `input` and `output` are also parts of calls and results.
        if !is_message && is_true(held) && holds(held) {
            return Some(held);
        }
    }
    if let Some(message @ Value::Map(_)) = map.get("message") {
        return Some(message);
    }
    let arguments = map
        .get("args")
        .filter(|held| matches!(held, Value::List(_)));
    arguments.filter(|_| map.get("kwargs").is_some())
}

/// Whether what a field has may be messages: a text, or objects.
fn holds(held: &Value<'_>) -> bool {
    match held {
        Value::List(items) => items.iter().all(|item| matches!(item, Value::Map(_))),
        Value::Text(_) => true,
        Value::Map(map) => map.get("content").is_some(),
        _ => false,
    }
}

/// Whether a message is only the definition of a tool, as LangChain's callbacks send.
#[must_use]
pub fn is_definition(item: &Map<'_>) -> bool {
    if !is_text(item, "role", "tool") || true_in(item, "tool_call_id").is_some() {
        return false;
    }
    match item.get("content").map(parsed).as_deref() {
        Some(Value::Map(content)) => match content.get("function") {
            Some(function) => defines_tool(function),
            None => is_tool(content),
        },
        _ => false,
    }
}

/// Whether an object is the definition of a tool and no call of it.
#[must_use]
pub fn defines_tool(function: &Value<'_>) -> bool {
    matches!(function, Value::Map(map) if is_tool(map))
}

fn is_tool(map: &Map<'_>) -> bool {
    map.get("name").is_some() && has_any(map, DEFINING_KEYS) && !has_any(map, GIVEN_KEYS)
}

/// An answer, read if it is a text of JSON; streamed pieces, each a message of Google's, are one
/// message.
#[must_use]
pub fn answer_of<'a>(value: &'a Value<'a>) -> Held<'a> {
    let pieces = parsed(value);
    let whole = one_message(&pieces).map(|message| Held::Made(owned(&message)));
    whole.unwrap_or(match *pieces {
        Value::List(_) | Value::Map(_) => pieces,
        _ => Held::Given(value),
    })
}

fn one_message<'a>(pieces: &Value<'a>) -> Option<Value<'a>> {
    let Value::List(pieces) = pieces else {
        return None;
    };
    if pieces.len() < 2 {
        return None;
    }
    // Each part, or instead of it the text that several have together.
    let (mut parts, mut texts) = (Vec::new(), Vec::<Option<String>>::new());
    for piece in pieces.iter().filter(|piece| **piece != Value::None) {
        let Value::Map(piece) = piece else {
            return None;
        };
        let Some(Value::List(said)) = piece.get("parts") else {
            return None;
        };
        if !is_text(piece, "role", "model") {
            return None;
        }
        for part in said {
            match (texts.last_mut(), only_text(part)) {
                (Some(Some(before)), Some(text)) => before.push_str(text),
                (_, Some(text)) => {
                    texts.push(Some(text.to_owned()));
                    parts.push(Value::None);
                }
                _ => {
                    texts.push(None);
                    parts.push(part.clone());
                }
            }
        }
    }
    for (part, text) in parts.iter_mut().zip(texts) {
        if let Some(text) = text {
            let mut map = Map::default();
            map.put("text".into(), Value::Text(Cow::Owned(text)));
            *part = Value::Map(map);
        }
    }
    let mut message = Map::default();
    message.put("role".into(), Value::Text("model".into()));
    message.put("parts".into(), Value::List(parts));
    Some(Value::List(vec![Value::Map(message)]))
}

/// The text of a part that has nothing else.
fn only_text<'v>(part: &'v Value<'_>) -> Option<&'v str> {
    match part {
        Value::Map(map) => match map.fields() {
            [(key, Value::Text(text))] if key == "text" => Some(text),
            _ => None,
        },
        _ => None,
    }
}

/// The parts of what a message says, of those keys that have something.
pub fn said_in<'m, 'a>(item: &'m Map<'a>) -> impl Iterator<Item = &'m Value<'a>> {
    let keys = ["content", "contents", "parts", "blocks"].into_iter();
    keys.filter_map(|key| some_in(item, key))
        .flat_map(|value| match value {
            Value::List(parts) => parts.as_slice(),
            other => std::slice::from_ref(other),
        })
}
