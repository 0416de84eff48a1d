//! Whether a span failed, and with what: its status, its level, its exception, its result.

use std::sync::LazyLock;

use regex::Regex;

use super::events::{is_exception, text_in, value_in};
use super::names::Field;
use super::plain::{as_text, is_true};
use super::seen::Seen;
use crate::patterns::pattern;
use crate::same::errors::says_nothing;
use crate::same::frames::said;
use crate::same::text::strip;
use crate::same::traces::{TRACEBACK, raised};
use crate::wire::span::Event;
use crate::wire::value::Value;

const STATUS_OK: i64 = 1;
/// The status of a span that failed.
pub const STATUS_ERROR: i64 = 2;
const BAD_LEVELS: &[&str] = &["error", "failure", "failed"];
const TYPES_THAT_SAY_NOTHING: &[&str] = &[
    "",
    "_OTHER",
    "TOOL_ERROR",
    "Exception",
    "Error",
    "tool_error",
    "tool_execution_error",
];
static TYPED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"(?s)\A([A-Za-z_][\w.]*(?:Error|Exception|Failure|Timeout|Interrupt)):[\s\x1c-\x1f]*(.*)\z",
    )
});
static REPR: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?s)\A([A-Za-z_][\w.]*)\((?:'(.*)'|"(.*)"),?\)\z"#));

/// Type, message and stack trace of a failure.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failure {
    /// Its type.
    pub kind: Option<String>,
    /// Its message.
    pub message: Option<String>,
    /// Its stack trace, else the text that its message comes from.
    pub trace: Option<String>,
}

/// Whether the level of a span, or what else it says of itself, is that of a failure.
///
/// By the conventions only an operation that failed has a type of its error.
#[must_use]
pub fn has_bad_level(seen: &Seen<'_>, dialect: Option<usize>) -> bool {
    let says = |field, word: &str| {
        let value = seen.text(field, dialect);
        value.is_some_and(|value| value.to_lowercase() == word)
    };
    if says(Field::IsError, "true") || says(Field::Success, "false") {
        return true;
    }
    if seen.text(Field::ErrorType, dialect).is_some() {
        return true;
    }
    let level = seen.text(Field::Level, dialect);
    level.is_some_and(|level| BAD_LEVELS.contains(&&*level.to_lowercase()))
}

/// Failure by the span's status, else by the result; a later step reads its text.
///
/// Some producers set no status. Their span has no result, and its last event is the exception; one
/// that was caught before a further try has a result, or events after it.
#[must_use]
pub fn failed_by(
    status: i64,
    is_bad: bool,
    says_failed: Option<bool>,
    has_result: bool,
    events: &[Event<'_>],
) -> Option<bool> {
    if status == STATUS_ERROR || is_bad {
        return Some(true);
    }
    if says_failed.is_some() || has_result {
        return says_failed;
    }
    if status == STATUS_OK {
        return Some(false);
    }
    events.last().is_some_and(is_exception).then_some(true)
}

/// Type, message and stack trace of a failure, from the first source that has any.
#[must_use]
pub fn failure_of(
    seen: &Seen<'_>,
    dialect: Option<usize>,
    events: &[Event<'_>],
    status_message: Option<&str>,
    result: Option<&str>,
) -> Failure {
    let raised = events.iter().find(|event| is_exception(event));
    let told = seen.value(Field::Error, dialect);
    let told_type = seen
        .value(Field::ErrorType, dialect)
        .filter(|kind| is_true(kind));
    let told_type = told_type.map(|kind| as_text(&kind).into_owned());
    // Claude Code writes a category, or the whole message.
    let (message, told_type) = match told_type {
        Some(text) if text.contains(' ') => {
            let is_text = matches!(
                seen.value(Field::ErrorType, dialect).as_deref(),
                Some(Value::Text(_))
            );
            (Some(text).filter(|_| is_text), None)
        }
        other => (None, other),
    };
    let sources = [
        raised.and_then(|event| text_in(event, "exception.message")),
        status_message,
        match told.as_deref() {
            Some(Value::Text(text)) => Some(&**text),
            _ => None,
        },
        message.as_deref(),
        result,
    ];
    let raised_type = raised.and_then(|event| value_in(event, "exception.type"));
    let raised_type = raised_type.map(|kind| as_text(kind).into_owned());
    let mut types = [raised_type, told_type].into_iter().flatten();
    let known = types.find(|kind| !TYPES_THAT_SAY_NOTHING.contains(&kind.as_str()));
    let kind = known.map(|kind| last_name(&kind).to_owned());
    let trace = raised.and_then(|event| value_in(event, "exception.stacktrace"));
    let trace = trace
        .map(|trace| as_text(trace).into_owned())
        .filter(|trace| !trace.is_empty());
    match sources
        .into_iter()
        .flatten()
        .find(|source| !says_nothing(source))
    {
        Some(source) => {
            let (text_kind, message) = error_of(source);
            Failure {
                kind: kind.or(text_kind),
                message: Some(message),
                trace: trace.or_else(|| Some(source.to_owned())),
            }
        }
        None => Failure {
            kind,
            message: None,
            trace,
        },
    }
}

fn last_name(name: &str) -> &str {
    name.rsplit_once('.').map_or(name, |(_, last)| last)
}

/// Split an error into its type and its message, without the surrounding stack trace, or what a
/// tool puts around the output of a run.
#[must_use]
pub fn error_of(text: &str) -> (Option<String>, String) {
    let text = &*said(text);
    let plain = raised(text).unwrap_or_else(|| match text.split_once(TRACEBACK) {
        // A trace in one line is a part of an object, which counts as a whole.
        Some((head, trace)) if trace.contains('\n') => {
            let last = trace.trim_end().rsplit('\n').next().unwrap_or_default();
            let texts = [strip(head), strip(last)];
            texts
                .into_iter()
                .find(|text| !text.is_empty())
                .unwrap_or(text)
        }
        _ => strip(text),
    });
    let Some(found) = REPR.captures(plain).or_else(|| TYPED.captures(plain)) else {
        return (None, plain.to_owned());
    };
    let message = found
        .get(3)
        .or_else(|| found.get(2))
        .map_or("", |text| text.as_str());
    (
        Some(last_name(&found[1]).to_owned()),
        strip(message).to_owned(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_a_type_and_a_message() {
        let trace =
            "pytest -q\nTraceback (most recent call last)\n  File \"x\"\na.b.KeyError: 'x'\n";
        for (text, kind, message) in [
            ("ValueError: no\nline", Some("ValueError"), "no\nline"),
            ("a.b.TimeoutError('no',)", Some("TimeoutError"), "no"),
            ("Fault(\"it's\")", Some("Fault"), "it's"),
            (trace, Some("KeyError"), "'x'"),
            ("head\nTraceback (most recent call last)\n x", None, "head"),
            (
                "[x] opens\nTraceback (most recent call last):\n  a\nValueError: no\n[*] closed",
                Some("ValueError"),
                "no\n[*] closed",
            ),
            (
                "a.py\nTraceback (most recent call last):\n  b\nlib.exceptions.NotReady: wait",
                None,
                "lib.exceptions.NotReady: wait",
            ),
            (
                r#"{"returncode":1,"stderr":"Traceback (most recent call last):\n  a\nKeyError: 'b'\n","stdout":""}"#,
                Some("KeyError"),
                "'b'",
            ),
            (
                r#"{"error":"Traceback (most recent call last):\n","job":"a"}"#,
                None,
                r#"{"error":"Traceback (most recent call last):\n","job":"a"}"#,
            ),
            (" no ", None, "no"),
        ] {
            assert_eq!(
                error_of(text),
                (kind.map(str::to_owned), message.to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn the_status_counts_before_the_result() {
        let exception = [Event {
            name: "exception".into(),
            ..Event::default()
        }];
        assert_eq!(
            failed_by(STATUS_ERROR, false, Some(false), true, &[]),
            Some(true)
        );
        assert_eq!(failed_by(0, true, None, true, &[]), Some(true));
        assert_eq!(
            failed_by(STATUS_OK, false, Some(true), true, &[]),
            Some(true)
        );
        assert_eq!(failed_by(STATUS_OK, false, None, true, &exception), None);
        assert_eq!(
            failed_by(STATUS_OK, false, None, false, &exception),
            Some(false)
        );
        assert_eq!(failed_by(0, false, None, false, &exception), Some(true));
        assert_eq!(failed_by(0, false, None, false, &[]), None);
    }
}
