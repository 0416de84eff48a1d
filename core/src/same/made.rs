//! What is new in the result of a call because it sends or makes something, and counters of calls.
//!
//! A message that is sent twenty times has twenty ids, and is one message. The ids that a list
//! shows are news, and so are the figures that a tool is asked for. A call without arguments names
//! nothing to send or to make: what it returns is what it is for.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

use super::masks::FRESH;
use super::policy::Results;
use super::text::is_word;
use super::tools::{purpose, reads_by_command};
use crate::patterns::{Pattern, next_place, pattern, rows};
use crate::tables::MADE;

rows! {
    ARGUMENTS: Pattern = MADE["arguments"];
    ACTS: Pattern = MADE["acts"];
    NOTHING: Pattern = MADE["nothing"];
    KEYS: Pattern = MADE["keys"];
}
// In this order where several begin at one place. As one pattern they take fifty times as long.
static WORDS: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let rows = MADE["words"].iter().chain(&MADE["counted"]);
    rows.map(Pattern::from).collect()
});
// The last character of a key, and what divides it from its value.
static SIGN: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"[\w-](?:\\?["']?\s{0,2}[:=]\s{0,2}|>)"#));
static VALUE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r#"\A(?:\\?"(?:[^"\\]|\\[^"]){0,400}\\?"|\[[^\[\]{}]{0,400}\]|'[^'\n]{0,400}'"#,
        r#"|[^\s"'\\,;&)\]}<>\[{(]{1,200})"#
    ))
});
static OF_MANY: LazyLock<Regex> = LazyLock::new(|| pattern(r"\A ?(?:of|/) ?\d"));

const KEY_CHARS_MAX: usize = 61;

/// Whether a call sends or makes something that its arguments name.
#[must_use]
pub fn makes(tool: Option<&str>, arguments: Option<&str>) -> bool {
    let (Some(tool), Some(arguments)) = (tool, arguments) else {
        return false;
    };
    if NOTHING.is_match(arguments) {
        return false;
    }
    let is_asked = || ARGUMENTS.is_match(arguments) && !reads_by_command(arguments);
    (purpose(Some(tool)).makes && !ACTS.is_match(arguments)) || is_asked()
}

/// Return the result of a call that sends or makes something, without what is new in it.
#[must_use]
pub fn made_result(result: &str, results: &Results) -> String {
    let telling = results
        .telling_keys
        .iter()
        .map(|key| key.to_lowercase())
        .collect();
    without_words(&without_values(result, &telling))
}

/// Return a text without the values of keys of what was made.
fn without_values(text: &str, telling: &BTreeSet<String>) -> String {
    let (mut made, mut copied, mut at) = (String::new(), 0, 0);
    while let Some(sign) = SIGN.find_at(text, at) {
        let key = key_before(text, at, sign.start());
        at = sign.end();
        let Some(key) = key else { continue };
        let Some(value) = VALUE.find(&text[at..]) else {
            continue;
        };
        if KEYS.is_match(key) && !telling.contains(&key.to_lowercase()) {
            made += &text[copied..at];
            made += FRESH;
            copied = at + value.end();
        }
        at += value.end();
    }
    made + &text[copied..]
}

/// The key whose last character is at a place, if it is one, and does not begin before another.
fn key_before(text: &str, first: usize, last: usize) -> Option<&str> {
    let end = next_place(text, last);
    let is_of_key = |c: char| c == '-' || is_word(c);
    let start = text[..end].trim_end_matches(is_of_key).len();
    let key = &text[start..end];
    let begins = start >= first && key.starts_with(|c: char| c.is_ascii_alphabetic());
    (begins && key.chars().count() <= KEY_CHARS_MAX).then_some(key)
}

/// Return a text without numbers, links and references of what was made.
fn without_words(text: &str) -> String {
    let (mut made, mut copied) = (String::new(), 0);
    let find = |words: &Pattern| words.find_at(text, 0);
    let mut next: Vec<Option<Range<usize>>> = WORDS.iter().map(find).collect();
    while let Some((form, words)) = first_of(&next) {
        let at = if is_whole(text, &words, form == WORDS.len() - 1) {
            made += &text[copied..words.start];
            made += FRESH;
            copied = words.end;
            copied
        } else {
            next_place(text, words.start)
        };
        for (words, found) in WORDS.iter().zip(&mut next) {
            if found.as_ref().is_some_and(|found| found.start < at) {
                *found = words.find_at(text, at);
            }
        }
    }
    made + &text[copied..]
}

/// The match that begins first, with the place of its form.
fn first_of(found: &[Option<Range<usize>>]) -> Option<(usize, Range<usize>)> {
    let known = found
        .iter()
        .enumerate()
        .filter_map(|(form, found)| Some((form, found.clone()?)));
    known.min_by_key(|(_, found)| found.start)
}

/// Whether words stand for themselves: their pattern asks for no letters of all scripts beside
/// them, because that is slow. `is_counted` is a noun with a number, unless many are counted.
fn is_whole(text: &str, words: &Range<usize>, is_counted: bool) -> bool {
    let (before, after) = (&text[..words.start], &text[words.end..]);
    let is_link = text[words.clone()].starts_with("http");
    let begins = text[words.clone()].starts_with('#') || !before.ends_with(is_word);
    let is_of_many = is_counted && OF_MANY.is_match(after);
    is_link || (begins && !after.starts_with(is_word) && !is_of_many)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(text: &str) -> String {
        made_result(text, &Results::default())
    }

    fn distinct(written: &str) -> usize {
        let made: BTreeSet<String> = ["3", "4", "5"]
            .iter()
            .map(|n| made(&written.replace("{n}", n)))
            .collect();
        made.len()
    }

    #[test]
    fn what_was_made_has_another_name_each_time() {
        for written in [
            r#"{"ok":true,"result":{"platformMessageId":"17{n}"},"receipt":{"a":[{"partId":{n}}]}}"#,
            r#"{"messageIds":["m{n}","m{n}b"],"ok":true}"#,
            r#"{"text":"{\"fileId\": \"F{n}\"}"}"#,
            r#"{"number":1{n},"html_url":"https://git.example/o/r/issues/1{n}","state":"open"}"#,
            "<result><submissionId>s{n}</submissionId><ok>true</ok></result>",
            "ok: true\nticketId: 7{n}\nlink: https://t.example/7{n}",
            "Email sent. Message ID: 18c{n}",
            "Created AB-10{n}",
            "Order #10{n} placed.",
            "https://git.example/o/r/issues/1{n}",
        ] {
            assert_eq!(distinct(written), 1, "{written}");
        }
    }

    #[test]
    fn how_far_a_call_got_is_news() {
        for written in [
            "1{n} of 40 chunks uploaded",
            "task {n} of 40 created",
            r#"{"row_count":1{n},"ok":true}"#,
            r#"{"id":"a","page":{n},"offset":{n}0}"#,
            "{n} rows were added",
            "for #17{n}é and é10041{n}",
        ] {
            assert_eq!(distinct(written), 3, "{written}");
        }
    }

    #[test]
    fn a_team_may_count_what_was_made() {
        let telling_keys = ["fileId".to_owned()].into();
        let own = Results {
            telling_keys,
            ..Results::default()
        };
        assert_eq!(
            made_result(r#"{"fileId":"F1"}"#, &own),
            r#"{"fileId":"F1"}"#
        );
    }

    #[test]
    fn calls_that_make_something_are_known() {
        for (tool, arguments, expected) in [
            ("send_email", "to a", true),
            ("jira.createTicket", "a", true),
            ("message", r#"{"action":"send","text":"hi"}"#, true),
            ("message", "hi", true),
            ("bash", r#"{"command":"gh issue create --title a"}"#, true),
            (
                "http",
                r#"{"method":"POST","url":"https://api.example"}"#,
                true,
            ),
            ("list_messages", "a", false),
            ("get_created_orders", "a", false),
            ("order_status", "a", false),
            ("claim_job", "a", false),
            ("message", r#"{"action":"read"}"#, false),
            ("create_session", "{}", false),
        ] {
            assert_eq!(
                makes(Some(tool), Some(arguments)),
                expected,
                "{tool} {arguments}"
            );
        }
        assert!(!makes(None, Some("a")));
    }
}
