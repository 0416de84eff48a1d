//! Chat messages in every shape that frameworks write: roles, texts, calls and results.

use std::borrow::Cow;

use super::envelopes::{held_in, is_definition, said_in};
use super::message::{Message, ToolResult};
use super::parts::{Sorted, call_in, is_part, is_thought, tells_type, text_in};
use super::payloads::{is_text, parsed_or_literal, parsed_text};
use super::plain::{as_text, canonical_object, has_any, true_in};
use super::results::result_of;
use super::spoken::sort_spoken;
use crate::same::errors::is_redacted;
use crate::same::text::strip;
use crate::wire::value::{Map, Value};

const ROLES: [(&str, &str); 5] = [
    ("human", "user"),
    ("ai", "assistant"),
    ("model", "assistant"),
    ("function", "tool"),
    ("developer", "system"),
];
// What has none of these keys is no message, but what a message says.
const SAID_KEYS: &[&str] = &[
    "role", "type", "content", "contents", "text", "parts", "blocks", "message", "choices",
];
// A response that begins so may be its calls, written as a text.
const CALLS_BEGIN: &str = "[";

/// The messages that a value holds, whatever their shape.
///
/// `role` is the role of messages that name none.
#[must_use]
pub fn messages_of(value: &Value<'_>, role: &str) -> Vec<Message> {
    let mut found = Vec::new();
    add_items(&parsed_or_literal(value), role, &mut found);
    found
}

/// The messages of a list, or the one whose parts its items are.
#[must_use]
pub fn messages_in_list(items: &[Value<'_>], role: &str) -> Vec<Message> {
    let mut found = Vec::new();
    add_list(items, role, &mut found);
    found
}

/// Add the messages inside the lists and envelopes around them.
pub fn add_items(value: &Value<'_>, role: &str, found: &mut Vec<Message>) {
    match value {
        Value::Map(map) if !map.fields().is_empty() => match held_in(map) {
            Some(held) => add_items(held, role, found),
            None if is_definition(map) => {}
            None => found.push(message_of(map, role)),
        },
        Value::List(items) => add_list(items, role, found),
        Value::Text(text) if !text.is_empty() => {
            found.push(message_of(
                &content_of(Value::Text(Cow::Borrowed(text))),
                role,
            ));
        }
        _ => {}
    }
}

fn add_list(items: &[Value<'_>], role: &str, found: &mut Vec<Message>) {
    if !items.is_empty() && items.iter().all(is_part) {
        found.push(message_of(&content_of(Value::List(items.to_vec())), role));
    } else {
        items.iter().for_each(|item| add_items(item, role, found));
    }
}

fn content_of(content: Value<'_>) -> Map<'_> {
    let mut item = Map::default();
    item.put("content".into(), content);
    item
}

/// The role of this name.
fn role_of(name: &str) -> String {
    let name = name.to_lowercase();
    match ROLES.iter().find(|(given, _)| *given == name) {
        Some((_, role)) => (*role).to_owned(),
        None => name,
    }
}

/// One message.
fn message_of(item: &Map<'_>, default_role: &str) -> Message {
    let mut item = Cow::Borrowed(item);
    for inner in ["kwargs", "data"] {
        if let Some(Value::Map(within)) = item.get(inner)
            && within.get("content").is_some()
        {
            let mut made = within.clone();
            let role = within.get("type").cloned();
            let default = || Value::Text(Cow::Owned(default_role.to_owned()));
            made.put("role".into(), role.unwrap_or_else(default));
            item = Cow::Owned(made);
        }
    }
    let named = true_in(&item, "role").or_else(|| true_in(&item, "type"));
    let mut role = role_of(&named.map_or(Cow::Borrowed(default_role), as_text));
    let mut sorted = Sorted::default();
    let is_named = item.get("role").is_some();
    if tells_type(&item) || (item.get("toolName").is_some() && !is_named) {
        sorted.add_object(&item);
        return alone(sorted);
    }
    match answered_by(&item).filter(|_| role == "tool") {
        Some(call_id) => sorted.results.push(result_for(call_id, &item)),
        None => sort_parts(&item, &role, &mut sorted),
    }
    sort_spoken(&role, &mut sorted);
    if !sorted.results.is_empty() && sorted.texts.is_empty() && role == "user" {
        "tool".clone_into(&mut role);
    }
    if sorted.is_empty() && !has_any(&item, SAID_KEYS) {
        sorted.texts.push(canonical_object(&item)); // an object that the model was asked for
    }
    let Sorted {
        texts,
        calls,
        results,
    } = sorted;
    let is_unknown = texts.iter().any(|text| is_redacted(text));
    let text = (!is_unknown).then(|| joined(texts));
    let is_empty = text.as_deref() == Some("") && calls.is_empty() && results.is_empty();
    let silent = is_empty && is_silent(&item);
    Message {
        role,
        text,
        calls,
        results,
        silent,
    }
}

fn joined(mut texts: Vec<String>) -> String {
    let text = match texts.len() {
        1 => texts.pop().unwrap_or_default(),
        _ => texts.join("\n"),
    };
    let plain = strip(&text);
    if plain.len() == text.len() {
        text
    } else {
        plain.to_owned()
    }
}

/// A message that is a call or a result.
fn alone(sorted: Sorted) -> Message {
    let role = match (sorted.calls.is_empty(), sorted.results.is_empty()) {
        (false, _) => "assistant",
        (true, false) => "tool",
        (true, true) => "user",
    };
    Message {
        role: role.to_owned(),
        text: Some(String::new()),
        calls: sorted.calls,
        results: sorted.results,
        silent: false,
    }
}

/// The id of the call that the message of a tool answers.
fn answered_by<'m>(item: &'m Map<'_>) -> Option<Cow<'m, str>> {
    // The id of an event that has the message of a tool is that of the call.
    let in_event = || item.get("event.name").and_then(|_| true_in(item, "id"));
    let beside = || match item.get("additional_kwargs") {
        Some(Value::Map(beside)) => true_in(beside, "tool_call_id"),
        _ => None,
    };
    let id = true_in(item, "tool_call_id").or_else(in_event);
    id.or_else(beside).map(as_text)
}

fn result_for(call_id: Cow<'_, str>, item: &Map<'_>) -> ToolResult {
    let content = ["content", "text", "parts", "blocks"];
    let content = content.iter().find_map(|key| item.get(key));
    let (text, failed) = content.map(result_of).unwrap_or_default();
    let says_failed = is_text(item, "status", "error").then_some(true);
    ToolResult {
        call_id: Some(call_id.into_owned()),
        text,
        failed: says_failed.or(failed),
    }
}

/// Sort the parts of a message into its texts, calls and results.
fn sort_parts(item: &Map<'_>, role: &str, sorted: &mut Sorted) {
    // OpenInference may write a text both as `content` and as the only part of `contents`.
    let content = item.get("content").or_else(|| item.get("text"));
    let content = content.filter(|content| **content != Value::None);
    if let Some(said) = content.or_else(|| item.get("contents")) {
        match calls_in(said, role) {
            Some(calls) => sorted.add(&calls),
            None => sorted.add(said),
        }
    }
    if let Some(parts) = item.get("parts").or_else(|| item.get("blocks")) {
        sorted.add(parts);
    }
    if true_in(item, "function_call_name").is_some() {
        sorted.add_object(item);
    } else if let Some(calls) = item.get("tool_calls") {
        sorted.add_calls(calls);
    }
    if let Some(results) = item.get("tool_results") {
        sorted.add(results);
    }
    if sorted.calls.is_empty() {
        // LangChain keeps what the API answered beside what it made of it.
        add_beside(item, sorted);
    }
}

/// The calls that a response has as JSON in its text, as Koog writes them.
fn calls_in<'v>(said: &'v Value<'_>, role: &str) -> Option<Value<'v>> {
    let Value::Text(text) = said else { return None };
    if role != "assistant" || !text.starts_with(CALLS_BEGIN) {
        return None;
    }
    let calls = parsed_text(text)?;
    let Value::List(items) = &calls else {
        return None;
    };
    let is_call = |item: &Value<'_>| matches!(item, Value::Map(map) if call_in(map).is_some());
    (!items.is_empty() && items.iter().all(is_call)).then_some(calls)
}

/// Add the calls that a message has beside its content, in the form of OpenAI's API.
fn add_beside(item: &Map<'_>, sorted: &mut Sorted) {
    let mut asked = Sorted::default();
    let beside = match item.get("additional_kwargs") {
        Some(Value::Map(beside)) => Some(beside),
        _ => None,
    };
    if let Some(calls) = beside.and_then(|beside| true_in(beside, "tool_calls")) {
        asked.add_calls(calls);
    }
    for holder in [Some(item), beside].into_iter().flatten() {
        if let Some(call) = true_in(holder, "function_call") {
            let mut part = Map::default();
            part.put("function_call".into(), call.clone());
            asked.add_object(&part);
        }
    }
    sorted.calls.append(&mut asked.calls);
    sorted.results.append(&mut asked.results);
}

/// Whether a message without a text shows that it has none.
fn is_silent(item: &Map<'_>) -> bool {
    let has_said = ["content", "contents", "parts", "blocks"]
        .iter()
        .any(|key| item.get(key).is_some_and(|value| *value != Value::None));
    has_said
        && said_in(item).all(|part| match part {
            Value::Map(part) => is_thought(part) || text_in(part).as_deref() == Some(""),
            Value::Text(text) => text.is_empty(),
            _ => false,
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::json::parse;

    fn read(text: &str, role: &str) -> Vec<Message> {
        messages_of(&Value::Text(text.into()), role)
    }

    fn said(text: &str) -> Vec<(String, Option<String>)> {
        let messages = read(text, "user").into_iter();
        messages
            .map(|message| (message.role, message.text))
            .collect()
    }

    #[test]
    fn texts_are_found_in_every_shape() {
        for text in [
            "hello",
            r#"[{"text": "hello"}]"#,
            r#"[{"role": "user", "content": {"text": {"value": "hello"}}}]"#,
            r#"{"messages": [[{"type": "human", "content": "hello"}]]}"#,
            r#"[{"role": "user", "parts": [{"type": "text", "content": " hello "}]}]"#,
            r#"{"lc": 1, "kwargs": {"content": "hello", "type": "human"}}"#,
            r#"{"choices": [{"message": {"role": "user", "content": [{"type": "text", "text": "hello"}]}}]}"#,
            r#"{"candidates": [{"content": {"role": "user", "parts": [{"text": "hello"}]}}]}"#,
        ] {
            assert_eq!(
                said(text),
                [("user".to_owned(), Some("hello".to_owned()))],
                "{text}"
            );
        }
    }

    #[test]
    fn calls_are_found_in_every_shape() {
        for text in [
            r#"[{"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}]"#,
            r#"[{"role": "ai", "parts": [{"type": "tool_call", "id": "c", "name": "f", "arguments": {"a": 1}}]}]"#,
            r#"[{"role": "assistant", "parts": [{"type": "tool_call", "content": {"type": "function_call", "id": "c", "function": {"name": "f", "arguments": {"a": 1}}}}]}]"#,
            r#"[{"role": "model", "parts": [{"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}}]}]"#,
            r#"[{"type": "function_call", "call_id": "c", "id": "x", "name": "f", "arguments": "{\"a\":1}"}]"#,
            r#"[{"toolName": "f", "toolCallId": "c", "args": {"a": 1}}]"#,
            r#"{"role": "assistant", "content": null, "additional_kwargs": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{\"a\":1}"}}]}}"#,
            r#"{"role": "assistant", "tool_calls": [{"id": "c", "name": "f", "arguments": "{\"a\": 1}"}]}"#,
            r#"{"role": "assistant", "content": "[{\"id\": \"c\", \"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1}}}]"}"#,
            r#"[{"role": "assistant", "blocks": [{"block_type": "tool_call", "tool_call_id": "c", "tool_name": "f", "tool_kwargs": "{\"a\": 1}"}]}]"#,
            r#"[{'role': 'assistant', 'content': None, 'tool_calls': [{'id': 'c', 'function': {'name': 'f', 'arguments': '{"a": 1}'}}]}]"#,
        ] {
            let messages = read(text, "assistant");
            assert_eq!(messages.len(), 1, "{text}");
            assert_eq!(messages[0].role, "assistant", "{text}");
            let calls: Vec<_> = messages[0]
                .calls
                .iter()
                .map(|call| {
                    (
                        call.call_id.as_deref(),
                        &*call.name,
                        call.arguments.as_deref(),
                    )
                })
                .collect();
            assert_eq!(calls, [(Some("c"), "f", Some(r#"{"a":1}"#))], "{text}");
        }
    }

    #[test]
    fn results_are_found_in_every_shape() {
        for text in [
            r#"[{"role": "tool", "tool_call_id": "c", "content": "no", "status": "error"}]"#,
            r#"[{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": true}]}]"#,
            r#"[{"role": "tool", "parts": [{"type": "tool_call_response", "id": "c", "response": {"error": "no"}}]}]"#,
            r#"[{"role": "tool", "parts": [{"type": "tool_call_output", "content": {"type": "function_call_output", "id": "c", "output": {"error": "no"}}}]}]"#,
            r#"[{"type": "function_call_output", "call_id": "c", "output": "no", "error": 1}]"#,
            r#"[{"role": "user", "content": [{"type": "tool_output", "id": "c", "result": {"error": "no"}}]}]"#,
            r#"[{"role": "tool", "additional_kwargs": {"tool_call_id": "c"}, "status": "error", "blocks": [{"block_type": "text", "text": "no"}]}]"#,
            r#"[{"role": "tool", "tool_call_id": "c", "status": "error", "parts": [{"type": "text", "content": "no"}]}]"#,
        ] {
            let messages = read(text, "user");
            assert_eq!(messages.len(), 1, "{text}");
            let wanted = ToolResult {
                call_id: Some("c".into()),
                text: Some("no".into()),
                failed: Some(true),
            };
            assert_eq!(
                (&*messages[0].role, &messages[0].results),
                ("tool", &vec![wanted]),
                "{text}"
            );
        }
    }

    #[test]
    fn what_says_nothing_is_told_from_what_is_unknown() {
        let silent = |text: &str| {
            read(text, "assistant")
                .iter()
                .map(|m| m.silent)
                .collect::<Vec<_>>()
        };
        assert_eq!(silent(r#"[{"role": "assistant", "content": ""}]"#), [true]);
        assert_eq!(
            silent(r#"[{"role": "assistant", "parts": [{"type": "thinking", "text": "x"}]}]"#),
            [true]
        );
        assert_eq!(silent(r#"[{"role": "assistant"}]"#), [false]);
        assert_eq!(
            read(r#"[{"role": "user", "content": "[redacted]"}]"#, "user")[0].text,
            None
        );
    }

    #[test]
    fn definitions_of_tools_are_no_messages() {
        let tool = r#"[{"role": "tool", "content": "{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {}}}"}]"#;
        assert!(read(tool, "user").is_empty());
        let list = parse("[]").unwrap_or_default();
        assert!(messages_of(&list, "user").is_empty());
    }
}
