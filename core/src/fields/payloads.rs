//! Values in spans: JSON in strings, wrappers around arguments and results.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::json::parse;
use super::literal::{literal, literal_within};
use super::plain::{as_text, canonical, has_only, some_in, true_in};
use crate::patterns::pattern;
use crate::same::errors::is_redacted;
use crate::same::text::is_space;
use crate::wire::value::{Map, Value};

// Escaped backslashes and whole pairs are taken with the rest, so that none of them begins a half.
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    )
});
const HALF_CHARS: usize = 6;
// How an object begins that Python or JSON wrote as a text.
const DICT_BEGINS: [&str; 2] = ["{'", "{\""];
// Longer histories of messages stay texts.
const OBJECTS_CHARS_MAX: usize = 1_000_000;
// OpenLLMetry's keys around the query of a LangChain retriever.
const RETRIEVER_KEYS: &[&str] = &["query", "tags", "metadata", "kwargs"];
/// A value of a span, or one that was made of it.
#[derive(Clone, Debug)]
pub enum Held<'a> {
    /// As the span has it.
    Given(&'a Value<'a>),
    /// Read from a text, or put together.
    Made(Value<'a>),
}

impl<'a> Deref for Held<'a> {
    type Target = Value<'a>;

    fn deref(&self) -> &Value<'a> {
        match self {
            Self::Given(value) => value,
            Self::Made(value) => value,
        }
    }
}

/// The value of a string that is JSON, and any other value as it is.
#[must_use]
pub fn parsed<'a>(value: &'a Value<'a>) -> Held<'a> {
    match value {
        Value::Text(text) => parsed_text(text).map_or(Held::Given(value), Held::Made),
        _ => Held::Given(value),
    }
}

/// The value of a string that is JSON or objects of Python, and any other value as it is.
#[must_use]
pub fn parsed_or_literal<'a>(value: &'a Value<'a>) -> Held<'a> {
    match parsed(value) {
        Held::Given(Value::Text(text)) => objects_in(text).map_or(Held::Given(value), Held::Made),
        read => read,
    }
}

/// An object of Python, or a list of them, that is written as a text; else `None`.
#[must_use]
pub fn objects_in(text: &str) -> Option<Value<'static>> {
    let first = text.strip_prefix('[').unwrap_or(text);
    let is_object = DICT_BEGINS.iter().any(|begin| first.starts_with(begin));
    is_object.then(|| literal_within(text, OBJECTS_CHARS_MAX))?
}

/// The value of a text that is JSON, or the text without escapes that no reader accepts; else
/// `None`.
#[must_use]
pub fn parsed_text(text: &str) -> Option<Value<'_>> {
    let first = text.trim_start_matches(is_space).bytes().next()?;
    let is_like_json = matches!(
        first,
        b'{' | b'[' | b'"' | b'-' | b'0'..=b'9' | b't' | b'f' | b'n'
    );
    if let Some(value) = is_like_json.then(|| parse(text)).flatten() {
        return Some(value);
    }
    if !text.contains("\\u") {
        return None;
    }
    let whole = ESCAPES.replace_all(text, |found: &Captures<'_>| {
        if found[0].len() == HALF_CHARS {
            r"\ufffd".to_owned()
        } else {
            found[0].to_owned()
        }
    });
    (whole != text).then(|| Value::Text(Cow::Owned(whole.into_owned())))
}

/// The value of a call's only argument, as some frameworks show it without its name.
#[must_use]
pub fn bare(arguments: &str) -> Option<String> {
    match parsed_text(arguments)? {
        Value::Map(map) => match map.fields() {
            [(_, value)] => Some(as_text(value).into_owned()),
            _ => None,
        },
        _ => None,
    }
}

/// A value that borrows nothing.
#[must_use]
pub fn owned(value: &Value<'_>) -> Value<'static> {
    match value {
        Value::None => Value::None,
        Value::Text(text) => Value::Text(Cow::Owned(text.clone().into_owned())),
        Value::Bool(is_true) => Value::Bool(*is_true),
        Value::Int(number) => Value::Int(*number),
        Value::Digits(digits) => Value::Digits(Cow::Owned(digits.clone().into_owned())),
        Value::Float(number) => Value::Float(*number),
        Value::List(items) => Value::List(items.iter().map(owned).collect()),
        Value::Map(map) => {
            let mut made = Map::default();
            for (key, value) in map.fields() {
                made.put(Cow::Owned(key.clone().into_owned()), owned(value));
            }
            Value::Map(made)
        }
    }
}

/// Whether a value is the placeholder of a removed one.
#[must_use]
pub fn is_removed(value: &Value<'_>) -> bool {
    matches!(value, Value::Text(text) if is_redacted(text))
}

/// A call's arguments in canonical form, without the wrappers of frameworks.
///
/// `None` where the span has none. Known wrappers are `{"args": [], "kwargs": {}}` of decorators,
/// and LangChain's `{"input_str": "{'a': 1}", "tags": ..., "metadata": ...}`, with `query` for
/// retrievers, `{"input": "{'a': 1}"}`, the bare text `{'a': 1}` of Python, and the arguments of a
/// function of the Vercel AI SDK, `{"args": [{"a": 1}, {"toolCallId": "c", "messages": []}]}`, and the
/// line `[TOOL INPUT: f]` of Claude Code.
#[must_use]
pub fn arguments_of(value: &Value<'_>) -> Option<String> {
    let bare = unlabelled(value, "[TOOL INPUT: ");
    let once = parsed(&bare);
    let given = parsed(&once);
    if *given == Value::None || is_removed(&given) {
        return None;
    }
    let only = match &*given {
        Value::Map(map) if map.fields().len() == 1 => map.get("input").unwrap_or(&Value::None),
        other => other,
    };
    let named = match only {
        Value::Text(text) if DICT_BEGINS.iter().any(|begin| text.starts_with(begin)) => {
            named_in(text)
        }
        _ => None,
    };
    match named.as_ref().unwrap_or(&given) {
        Value::Map(map) => Some(unwrapped_arguments(map)),
        other => Some(canonical(other)),
    }
}

/// A value without the line before it that names its tool; Claude Code and its likes write one.
#[must_use]
pub fn unlabelled<'v>(value: &'v Value<'_>, label: &str) -> Cow<'v, Value<'v>> {
    let rest = match value {
        Value::Text(text) => text.strip_prefix(label),
        _ => None,
    };
    match rest.and_then(|rest| rest.split_once("]\n")) {
        Some((_, rest)) => Cow::Owned(Value::Text(rest.into())),
        None => Cow::Borrowed(value),
    }
}

/// The object that a text is, in JSON or in Python.
fn named_in(text: &str) -> Option<Value<'_>> {
    let is_object = |value: &Value<'_>| matches!(value, Value::Map(_));
    let named = parsed_text(text).filter(is_object);
    named.or_else(|| literal(text).filter(is_object))
}

fn unwrapped_arguments(map: &Map<'_>) -> String {
    let whole_value = |map: &Map<'_>| super::plain::canonical_object(map);
    if map.get("tags").is_some() || map.get("metadata").is_some() {
        if let Some(text) = map.get("input_str") {
            if let Some(inputs) = true_in(map, "inputs") {
                return canonical(inputs);
            }
            let read = match text {
                Value::Text(text) => literal(text),
                _ => None,
            };
            return canonical(&parsed(read.as_ref().unwrap_or(text)));
        }
        if let Some(query) = map.get("query").filter(|_| has_only(map, RETRIEVER_KEYS)) {
            return canonical(query);
        }
    }
    if let (Some(Value::List(given)), true) = (map.get("args"), has_only(map, &["args"]))
        && let [own, Value::Map(options)] = given.as_slice()
        && options.get("toolCallId").is_some()
        && options.get("messages").is_some()
    {
        return canonical(own);
    }
    // A call as LangChain gives it to its tools, with its id.
    if let (Some(own @ Value::Map(_)), true) = (map.get("args"), is_text(map, "type", "tool_call"))
        && has_only(map, &["args", "id", "name", "type"])
    {
        return canonical(own);
    }
    if map.get("kwargs").is_some() && has_only(map, &["args", "kwargs", "sanitize_inputs_outputs"])
    {
        return match (true_in(map, "args"), true_in(map, "kwargs")) {
            (None, Some(named)) => canonical(named),
            (None, None) => "{}".to_owned(),
            (Some(positional), None) => canonical(positional),
            (Some(_), Some(_)) => whole_value(map),
        };
    }
    whole_value(map)
}

/// Whether a key has this text as its value.
#[must_use]
pub fn is_text(map: &Map<'_>, key: &str, text: &str) -> bool {
    matches!(map.get(key), Some(Value::Text(said)) if said == text)
}

/// The first of these keys that is not nothing.
#[must_use]
pub fn first_some<'m, 'a>(map: &'m Map<'a>, keys: &[&str]) -> Option<&'m Value<'a>> {
    keys.iter().find_map(|key| some_in(map, key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(text: &str) -> Option<String> {
        arguments_of(&Value::Text(text.into()))
    }

    #[test]
    fn wrappers_of_arguments_are_taken_off() {
        for (text, wanted) in [
            (r#"{"b": 1.0, "a": "x"}"#, r#"{"a":"x","b":1}"#),
            (r#""{\"a\": 1}""#, r#"{"a":1}"#),
            (r#"{"args": [], "kwargs": {"a": 1}}"#, r#"{"a":1}"#),
            ("[TOOL INPUT: ls]\n{\"a\": 1}", r#"{"a":1}"#),
            ("[TOOL INPUT: ls] {\"a\": 1}", "[TOOL INPUT: ls] {\"a\": 1}"),
            (r#"{"args": [1], "kwargs": {}}"#, "[1]"),
            (
                r#"{"args": [{"a": 1}, {"toolCallId": "c", "messages": []}]}"#,
                r#"{"a":1}"#,
            ),
            (r#"{"args": [1, {"a": 2}]}"#, r#"{"args":[1,{"a":2}]}"#),
            (
                r#"{"args": {"a": 1}, "id": "c", "name": "f", "type": "tool_call"}"#,
                r#"{"a":1}"#,
            ),
            (r#"{"input": "{'a': 1}"}"#, r#"{"a":1}"#),
            (
                r#"{"input_str": "{'a': (1,)}", "tags": []}"#,
                r#"{"a":[1]}"#,
            ),
            (r#"{"query": " x ", "tags": null}"#, "x"),
            ("{'a': True}", r#"{"a":true}"#),
            (" plain ", "plain"),
            ("5", "5"),
        ] {
            assert_eq!(arguments(text).as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(arguments("null"), None);
        assert_eq!(arguments("[redacted]"), None);
    }
}
