//! What the error of a call quotes of the call itself, and what is fresh in it.
//!
//! An edit that is refused quotes the text that it was to replace, so that eight refused edits of
//! other texts would be eight failures.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Value};

use super::json::parsed;
use super::masks::{FRESH, fresh};
use super::policy::Sameness;
use super::text::{head, is_longer, is_space, is_word, strip};
use super::tools::purpose;
use super::written::Written;
use crate::patterns::{Pattern, pattern};
use crate::tables::{QUOTES, any_of};

static CONTENT_KEY: LazyLock<Regex> = LazyLock::new(|| pattern(&any_of(&QUOTES["contents"])));

const QUOTED: &str = "<argument>";
const QUOTED_CHARS_MIN: usize = 4;
// As much of a text that is quoted as far as dots must be quoted at least.
const BEGUN_CHARS_MIN: usize = 20;
// Longer arguments are known by their beginning, and more of them than any call has are not tried.
const CONTENT_CHARS_MAX: usize = 2_000;
const CONTENTS_MAX: usize = 20;
// In longer errors nothing is looked for.
const ERROR_CHARS_MAX: usize = 20_000;

/// Return the error of a call without fresh values, and without what it quotes of the call.
///
/// Only text that the call was to write or to run is such a quote. A target and what a look asks
/// for count, because another one is other work; so does a value that the arguments name.
#[must_use]
pub fn compared_error(
    error: &str,
    tool: Option<&str>,
    arguments: Option<&str>,
    sameness: &Sameness,
) -> String {
    let given = arguments.unwrap_or_default();
    let mut error = Cow::Borrowed(error);
    for pattern in fresh(sameness, true) {
        error = without_fresh(error, pattern, given);
    }
    let mut error = error.into_owned();
    let purpose = purpose(tool);
    let edits = purpose.changes;
    let looks = tool.is_none() || purpose.reads || purpose.searches;
    if !given.starts_with('{') || (looks && !edits) || is_longer(&error, ERROR_CHARS_MAX) {
        return error;
    }
    if let Some(Value::Object(values)) = parsed(given) {
        for content in contents(&values, edits) {
            error = without(error, &content);
        }
    }
    error
}

/// Put the placeholder of fresh values in the place of those that the arguments do not name.
fn without_fresh<'a>(error: Cow<'a, str>, pattern: &Pattern, given: &str) -> Cow<'a, str> {
    if !pattern.is_match(&error) {
        return error;
    }
    let name = |found: &Captures| {
        if given.contains(value_end(&found[0])) {
            found[0].to_owned()
        } else {
            format!("{}{FRESH}{}", &found[1], &found[2])
        }
    };
    match pattern.whole().replace_all(&error, name) {
        Cow::Borrowed(_) => error,
        Cow::Owned(changed) => Cow::Owned(changed),
    }
}

/// The last part of a key and its value that no sign divides.
fn value_end(text: &str) -> &str {
    let divides = |c: char| is_space(c) || r#""'\:=,;&)]}"#.contains(c);
    let mut parts = text.rsplit(divides).filter(|part| !part.is_empty());
    parts.next().unwrap_or(text)
}

/// Return the texts among arguments, the longest first: of several words, or any that an edit is
/// given.
fn contents(values: &Map<String, Value>, edits: bool) -> Vec<String> {
    let is_content = |(key, _): &(&String, &Value)| CONTENT_KEY.is_match(key);
    let named = values.iter().filter(is_content).map(|(_, item)| item);
    let mut left: Vec<&Value> = named.collect();
    let mut texts = Vec::new();
    while let Some(item) = left.pop() {
        match item {
            Value::Array(items) => left.extend(items),
            Value::Object(items) => left.extend(items.values()),
            Value::String(text) if edits => add_with_lines(&mut texts, text),
            Value::String(text) => texts.push(strip(text)),
            _ => {}
        }
    }
    let tells =
        |text: &&str| is_longer(text, QUOTED_CHARS_MIN - 1) && (edits || text.contains(is_space));
    let cut = |text: &str| head(text, CONTENT_CHARS_MAX).to_owned();
    let mut texts: Vec<String> = texts.into_iter().filter(tells).map(cut).collect();
    texts.sort_by_key(|text| Reverse(text.chars().count()));
    texts.truncate(CONTENTS_MAX);
    texts
}

/// Add a text and those of its lines that have several words, without the marks of a diff.
fn add_with_lines<'a>(texts: &mut Vec<&'a str>, text: &'a str) {
    texts.push(strip(text));
    let lines = text
        .split('\n')
        .enumerate()
        .map(|(place, line)| match place {
            0 => line,
            _ => line.strip_prefix(['-', '+', ' ']).unwrap_or(line),
        });
    texts.extend(lines.map(strip).filter(|line| line.contains(' ')));
}

/// Return an error without a text, whatever its white space and however it is escaped.
fn without(error: String, content: &str) -> String {
    let begins = head(content, BEGUN_CHARS_MIN);
    if !error.contains(longest_word(begins)) {
        return error;
    }
    let ends_word = |text: &str, end: &usize| !text[*end..].starts_with(is_word);
    let error = Written::of(content).replaced(error, QUOTED, |text, ends| {
        ends.iter().copied().find(|end| ends_word(text, end))
    });
    if begins.len() == content.len() {
        return error;
    }
    let chars_max = content.chars().count();
    Written::of(begins).replaced(error, QUOTED, |text, ends| {
        dots_after(text, *ends.first()?, chars_max)
    })
}

/// The first of the longest words of a text, or the text if it has none.
fn longest_word(text: &str) -> &str {
    let words = text.split(|c| !is_word(c)).filter(|word| !word.is_empty());
    let mut longest = ("", 0);
    for word in words {
        let chars = word.chars().count();
        if chars > longest.1 {
            longest = (word, chars);
        }
    }
    if longest.1 > 0 { longest.0 } else { text }
}

/// Where the dots end that stand for the rest of a text, at most so many characters further.
fn dots_after(text: &str, at: usize, chars_max: usize) -> Option<usize> {
    let rest = &text[at..];
    let three = head(rest, chars_max + 3)
        .find("...")
        .map(|place| (place, 3));
    let one = head(rest, chars_max + 1)
        .find('…')
        .map(|place| (place, '…'.len_utf8()));
    let (place, length) = three.into_iter().chain(one).min()?;
    Some(at + place + length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::same::masks::volatile_keys;
    use crate::same::policy::Results;

    const EDIT: &str =
        r#"{"path":"a.py","old_string":"def f{n}(a):\n    return a","new_string":"x"}"#;

    fn nothing() -> Sameness {
        let keys = volatile_keys().map(str::to_owned).collect();
        let results = Results {
            keys,
            ..Results::default()
        };
        Sameness::new(Default::default(), Vec::new(), results).expect("no mask is declared")
    }

    fn distinct(tool: &str, arguments: &str, error: &str) -> usize {
        let sameness = nothing();
        let read = |n: &&str| {
            let (error, given) = (error.replace("{n}", n), arguments.replace("{n}", n));
            compared_error(&error, Some(tool), Some(&given), &sameness)
        };
        let errors: std::collections::BTreeSet<String> =
            ["37", "48", "59"].iter().map(read).collect();
        errors.len()
    }

    #[test]
    fn a_refusal_quotes_the_call() {
        for (tool, arguments, error) in [
            (
                "edit",
                EDIT,
                "Not found in a.py:\ndef f{n}(a):\n    return a",
            ),
            (
                "edit",
                EDIT,
                "old_string `def f{n}(a): return a` is not in a.py",
            ),
            (
                "edit",
                EDIT,
                r#"{"error":"not found","old":"def f{n}(a):\n    return a"}"#,
            ),
            (
                "edit",
                r#"{"old_string":"the {n}th paragraph of the text, which is long"}"#,
                "No match for: the {n}th paragraph of the ...",
            ),
            (
                "bash",
                r#"{"command":"rm -rf b{n}"}"#,
                "The command rm -rf b{n} is against the rules.",
            ),
            (
                "submit",
                r#"{"form":"a"}"#,
                r#"{"error":"incomplete","request_id":"r-{n}"}"#,
            ),
        ] {
            assert_eq!(distinct(tool, arguments, error), 1, "{error}");
        }
    }

    #[test]
    fn another_target_is_other_work() {
        for (tool, arguments, error) in [
            (
                "read_file",
                r#"{"path":"src/f{n}.py"}"#,
                "File not found: src/f{n}.py",
            ),
            (
                "bash",
                r#"{"command":"tool{n}"}"#,
                "tool{n}: command not found",
            ),
            (
                "delete_message",
                r#"{"message_id":"m{n}"}"#,
                r#"{"error":"locked","message_id":"m{n}"}"#,
            ),
        ] {
            assert_eq!(distinct(tool, arguments, error), 3, "{error}");
        }
    }

    #[test]
    fn a_hostile_quote_takes_no_time() {
        let sameness = nothing();
        for content in ["\\".repeat(4_000), "\\\"".repeat(2_000), "a ".repeat(2_000)] {
            let given = serde_json::json!({"old_string": content}).to_string();
            let error = format!("{}b", &content[..content.len() - 1]);
            let read = compared_error(&error, Some("edit"), Some(&given), &sameness);
            assert!(!read.is_empty());
        }
    }
}
