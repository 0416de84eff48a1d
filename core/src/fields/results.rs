//! Results of calls, without the wrappers of frameworks, and whether they say that calls failed.

use std::borrow::Cow;

use super::object_texts;
use super::payloads::{is_removed, is_text, parsed_or_literal, unlabelled};
use super::plain::{as_text, canonical, canonical_object, has_only, is_true, true_in, whole};
use crate::same::errors::is_redacted;
use crate::wire::value::{Map, Value};

// The tags of the Vercel AI SDK on results of tools.
const VERCEL_OUTPUTS: &[&str] = &["text", "json", "content", "error-text", "error-json"];
// The keys under which shell tools return the exit code of a command.
const EXIT_CODES: [&str; 5] = [
    "exit_code",
    "exitCode",
    "exit_status",
    "returncode",
    "return_code",
];
// The keys under which they tell that they ended a command whose time was over (NYU CTF baseline:
// nyuctf_baseline/tools/tools.py; execa: lib/return/result.js).
const RAN_OUT: [&str; 2] = ["timed_out", "timedOut"];
// What opencode writes for a command that printed nothing.
const NO_OUTPUT: &str = "(no output)";
// The text of nothing in JSON.
const NULL: &str = "null";
// Results within results are read no deeper.
const DEPTH_MAX: usize = 64;

/// What a call returned, and whether that says that the call failed.
pub type Returned = (Option<String>, Option<bool>);

/// Whether a result is the text of nothing: a call may return it, and a span without a result has
/// no such text.
fn is_null(value: &Value<'_>) -> bool {
    matches!(value, Value::Text(text) if *text == NULL)
}

/// The result of a call, unwrapped, and whether the result says that the call failed.
///
/// Nothing where the span has none. Known wrappers are LangChain's tool message, the content parts
/// of MCP, Bedrock and the GenAI conventions, and Google's function response.
#[must_use]
pub fn result_of(value: &Value<'_>) -> Returned {
    result_within(&unlabelled(value, "[TOOL RESULT: "), 0)
}

fn result_within(value: &Value<'_>, depth: usize) -> Returned {
    let read = parsed_or_literal(value);
    if *read == Value::None && is_null(value) {
        return (Some(NULL.to_owned()), None);
    }
    if *read == Value::None || is_removed(&read) {
        return (None, None);
    }
    let mut value: &Value<'_> = &read;
    if let Value::List(items) = value {
        if let Some(texts) = texts_of(items) {
            let is_unknown = texts.iter().any(|text| is_redacted(text));
            return ((!is_unknown).then(|| texts.join("\n")), None);
        }
        if let [only] = items.as_slice()
            && is_response(only)
        {
            value = only;
        }
    }
    let Value::Map(map) = value else {
        let failed = match value {
            Value::Text(text) => object_texts::says_failed(text),
            _ => None,
        };
        return (Some(canonical(value)), failed);
    };
    of_object(map, depth)
}

/// The result that an object is, which may have wrappers of its own.
fn of_object(map: &Map<'_>, depth: usize) -> Returned {
    if depth < DEPTH_MAX
        && let Some((inner, failed)) = unwrapped(map)
    {
        let (text, failed_within) = match inner {
            Inner::Value(inner) => result_within(inner, depth + 1),
            Inner::Object(inner) => of_object(inner, depth + 1),
        };
        return (text, failed.or(failed_within));
    }
    of_plain(map)
}

fn of_plain(map: &Map<'_>) -> Returned {
    let error = true_in(map, "error");
    match error {
        Some(error) if has_only(map, &["error", "success", "status", "ok"]) => {
            (Some(canonical(error)), Some(true))
        }
        _ => {
            let failed = if error.is_some() {
                Some(true)
            } else {
                says_failed(map)
            };
            (Some(canonical_object(map)), failed)
        }
    }
}

/// The texts of a list of parts that are all texts.
fn texts_of<'v>(items: &'v [Value<'_>]) -> Option<Vec<&'v str>> {
    let text = |part: &'v Value<'_>| match part {
        // The text of a part has the name `content` in the conventions.
        Value::Map(map) => {
            let is_text = is_text(map, "type", "text");
            match map.get("text").or(map.get("content").filter(|_| is_text)) {
                Some(Value::Text(text)) => Some(&**text),
                _ => None,
            }
        }
        _ => None,
    };
    if items.is_empty() {
        None
    } else {
        items.iter().map(text).collect()
    }
}

enum Inner<'m, 'a> {
    Value(&'m Value<'a>),
    Object(&'m Map<'a>),
}

const NOTHING: &Value<'static> = &Value::None;
const EMPTY: &Value<'static> = &Value::Text(Cow::Borrowed(""));

/// What a wrapper has in it, and whether it says that the call failed; `None` where there is none.
fn unwrapped<'m, 'a>(map: &'m Map<'a>) -> Option<(Inner<'m, 'a>, Option<bool>)> {
    let mut at = map;
    let mut is_inner = false;
    if let (Some(_), Some(Value::Map(kwargs))) = (true_in(at, "lc"), at.get("kwargs")) {
        (at, is_inner) = (kwargs, true);
    }
    if let (Some(Value::Map(data)), true) = (at.get("data"), is_text(at, "type", "tool")) {
        (at, is_inner) = (data, true);
    }
    let get = |key: &str| at.get(key).unwrap_or(NOTHING);
    let found = |value, failed| Some((Inner::Value(value), failed));
    if at.fields().len() == 2
        && let (Some(kind), Some(value)) = (at.get("type"), at.get("value"))
    {
        let kind = as_text(kind);
        if VERCEL_OUTPUTS.contains(&&*kind) {
            return found(value, kind.starts_with("error").then_some(true));
        }
    }
    let is_parts =
        |value: &Value<'_>| matches!(value, Value::List(items) if texts_of(items).is_some());
    let is_message = is_text(at, "type", "tool")
        || at.get("isError").is_some()
        || (at.get("content").is_some_and(is_parts)
            && has_only(at, &["content", "structuredContent", "_meta"]));
    if let (Some(content), true) = (at.get("content"), is_message) {
        return found(content, says_failed(at));
    }
    if let Some(Value::Map(output)) = at.get("tool_output") {
        return found(
            output.get("raw_output").unwrap_or(NOTHING),
            says_failed(output),
        );
    }
    if let (Some(output), Some(_)) = (at.get("raw_output"), at.get("raw_input")) {
        return found(output, says_failed(at)); // LlamaIndex
    }
    if let Some(response) = response_in(at) {
        return found(response, None);
    }
    if let (Some(response), true) = (
        at.get("response"),
        has_only(at, &["id", "name", "response"]),
    ) {
        return found(response, None);
    }
    if let (Some(Value::Map(about)), Some(output)) = (at.get("metadata"), at.get("output"))
        && let (Some(code), Some(_)) = (about.get("exit"), about.get("truncated"))
    {
        // The shell of opencode (packages/opencode/src/tool/shell.ts).
        let is_empty = is_text(at, "output", NO_OUTPUT);
        let failed = is_true(code).then_some(true);
        return found(if is_empty { EMPTY } else { output }, failed);
    }
    let is_output = at.get("output").is_some() && has_only(at, &["output", "kwargs"]);
    if is_output || (at.fields().len() == 1 && at.get("result").is_some()) {
        return found(at.get("output").unwrap_or_else(|| get("result")), None);
    }
    is_inner.then_some((Inner::Object(at), None))
}

/// Whether a result says that its call failed; an exit code counts more than a flag.
fn says_failed(map: &Map<'_>) -> Option<bool> {
    let is_whole = |value: &&Value<'_>| matches!(value, Value::Digits(_)) || whole(value).is_some();
    let mut codes = EXIT_CODES
        .iter()
        .filter_map(|key| map.get(key))
        .filter(is_whole)
        .peekable();
    let has_code = codes.peek().is_some();
    if codes.any(is_true) {
        return Some(true);
    }
    if EXIT_CODES.iter().any(|key| map.get(key).is_some()) && ran_out(map) {
        return Some(true);
    }
    for key in ["is_error", "isError"] {
        // False is what servers write without a thought, so that the text decides.
        if map.get(key) == Some(&Value::Bool(true)) {
            return Some(true);
        }
    }
    let is_false = |key: &str| map.get(key) == Some(&Value::Bool(false));
    let has_status = |status: &str| is_text(map, "status", status);
    if has_status("error") || has_status("failed") || is_false("success") || is_false("ok") {
        return Some(true);
    }
    (has_code || has_status("success")).then_some(false)
}

/// Whether the time of a command was over before it wrote anything; what it wrote is an answer.
fn ran_out(map: &Map<'_>) -> bool {
    let is_over = |key: &&str| map.get(key) == Some(&Value::Bool(true));
    let is_empty = |value: &Value<'_>| match value {
        Value::Text(text) => text.trim().is_empty(),
        Value::Map(_) | Value::List(_) => false,
        _ => true,
    };
    RAN_OUT.iter().any(is_over) && map.fields().iter().all(|(_, value)| is_empty(value))
}

fn response_in<'m, 'a>(map: &'m Map<'a>) -> Option<&'m Value<'a>> {
    match map.fields() {
        [(key, value)] if key == "functionResponse" || key == "function_response" => Some(value),
        _ => None,
    }
}

fn is_response(value: &Value<'_>) -> bool {
    matches!(value, Value::Map(map) if response_in(map).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(text: &str) -> (Option<String>, Option<bool>) {
        result_of(&Value::Text(text.into()))
    }

    #[test]
    fn wrappers_of_results_are_taken_off() {
        for (text, wanted, failed) in [
            (
                r#"[{"text": "a"}, {"type": "text", "text": "b"}, {"type": "text", "content": "c"}]"#,
                "a\nb\nc",
                None,
            ),
            (
                "[TOOL RESULT: ls]\n{\"isError\": true, \"content\": \"no\"}",
                "no",
                Some(true),
            ),
            (
                r#"{"content": [{"text": "no"}], "isError": true}"#,
                "no",
                Some(true),
            ),
            (
                r#"{"lc": 1, "kwargs": {"content": "x", "type": "tool", "status": "error"}}"#,
                "x",
                Some(true),
            ),
            (
                r#"{"content": [{"type": "text", "text": "no"}]}"#,
                "no",
                None,
            ),
            (
                r#"{"content": [{"text": "no"}], "isError": false}"#,
                "no",
                None,
            ),
            (r#"{"lc": 1, "kwargs": {"a": 1}}"#, r#"{"a":1}"#, None),
            (r#"{"type": "error-text", "value": "no"}"#, "no", Some(true)),
            (
                r#"[{"functionResponse": {"id": "c", "name": "f", "response": {"output": 1}}}]"#,
                "1",
                None,
            ),
            (r#"{"error": "no"}"#, "no", Some(true)),
            ("{'error': 'no'}", "no", Some(true)),
            ("[{'text': 'a'}, {'text': 'b'}]", "a\nb", None),
            (
                r#"[{"type": "note", "content": "a"}]"#,
                r#"[{"content":"a","type":"note"}]"#,
                None,
            ),
            (
                "{'success': True, 'n': 1}",
                r#"{"n":1,"success":true}"#,
                None,
            ),
            (
                r#"{"exit_code": 0, "out": ""}"#,
                r#"{"exit_code":0,"out":""}"#,
                Some(false),
            ),
            (
                r#"{"stdout": null, "returncode": null, "timed_out": true}"#,
                r#"{"returncode":null,"stdout":null,"timed_out":true}"#,
                Some(true),
            ),
            (
                r#"{"stdout": "$ ", "returncode": null, "timed_out": true}"#,
                r#"{"returncode":null,"stdout":"$ ","timed_out":true}"#,
                None,
            ),
            (
                r#"{"job": "b", "exitCode": null, "timedOut": true}"#,
                r#"{"exitCode":null,"job":"b","timedOut":true}"#,
                None,
            ),
            (r#"{"result": {"result": "{\"result\": 1}"}}"#, "1", None),
            (
                r#"{"title": "t", "metadata": {"exit": 1, "truncated": false}, "output": "x"}"#,
                "x",
                Some(true),
            ),
            (
                r#"{"metadata": {"exit": 1, "truncated": false}, "output": "(no output)"}"#,
                "",
                Some(true),
            ),
            (
                r#"{"metadata": {"exit": 0, "truncated": false}, "output": "x"}"#,
                "x",
                None,
            ),
        ] {
            assert_eq!(result(text), (Some(wanted.to_owned()), failed), "{text}");
        }
        assert_eq!(result("null"), (Some("null".to_owned()), None));
        assert_eq!(result_of(&Value::None), (None, None));
    }

    #[test]
    fn half_escapes_in_other_texts_are_replaced() {
        assert_eq!(result(r"{cut \ud83d").0.as_deref(), Some(r"{cut \ufffd"));
        assert_eq!(
            result(r"\\ud83d \ud83d\ude00").0.as_deref(),
            Some(r"\\ud83d \ud83d\ude00")
        );
    }
}
