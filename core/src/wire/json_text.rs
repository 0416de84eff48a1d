//! What is done with JSON texts before they are read: names, escapes, and what of a broken one is
//! still whole.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::bytes::Regex;

use crate::wire::json::{DEPTH_MAX, Fault, Json};

/// The most characters of the input in a message about it.
pub const SHOWN_CHARACTERS_MAX: usize = 60;
// Longer documents are not searched for all names: a million would be a hundred megabytes.
const NAMED_BYTES_MAX: usize = 4096;
// The brackets around a span: request, resourceSpans, scopeSpans and their lists.
const SPAN_PARENTS: &[u8] = b"{[{[{[";
// A text with this is not UTF-8, and stays as it is.
const NO_TEXT: &[u8] = b"\xff\xfe";

fn pattern(text: &str) -> Regex {
    #[expect(
        clippy::unwrap_used,
        reason = "the patterns are constant, and tests use each"
    )]
    Regex::new(text).unwrap()
}

// None of them can be inside a string, where its quotes would be escaped.
static REQUEST: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?-u)\{\s*"resource(?:_?[sS]pans|_?[lL]ogs|_?[mM]etrics)"\s*:"#));
static DOCUMENT: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"(?-u)^(?:\xef\xbb\xbf)?\s*(?:\{\s*(?:"[A-Za-z$_]|\}|\z)|\[\s*(?:[\[{\]]|\z))"#)
});
static UNDERSCORED: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?-u)"([a-z]+(?:_[a-z0-9]+)+)"\s*:"#));
static NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?-u)"([^"\\]*)"\s*:"#));
static OTHER_SIGNAL: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"^resource_?(?:[lL]ogs|[mM]etrics|[pP]rofiles)$"));

/// Whether a text begins as a JSON object or list does.
pub fn begins_document(head: &[u8]) -> bool {
    DOCUMENT.is_match(head)
}

/// Where export requests begin in a text.
pub fn request_starts(text: &[u8]) -> Vec<usize> {
    REQUEST.find_iter(text).map(|found| found.start()).collect()
}

/// A request with the names of its fields in lower camel case instead of underscores.
pub fn camel_case(request: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(request.len());
    let mut from = 0;
    for found in UNDERSCORED.captures_iter(request) {
        let Some(name) = found.get(1) else { continue };
        out.extend_from_slice(&request[from..name.start()]);
        let mut is_first_of_word = false;
        for byte in name.as_bytes() {
            match byte {
                b'_' => is_first_of_word = true,
                _ if is_first_of_word => {
                    out.push(byte.to_ascii_uppercase());
                    is_first_of_word = false;
                }
                _ => out.push(*byte),
            }
        }
        from = name.end();
    }
    out.extend_from_slice(&request[from..]);
    out
}

/// A text with U+FFFD for each escaped half of a surrogate pair (`\ud83d`).
///
/// JavaScript writes them where it cuts a string in the middle of an emoji.
pub fn with_whole_escapes(text: &[u8]) -> Cow<'_, [u8]> {
    if memchr::memmem::find(text, NO_TEXT).is_some() {
        return Cow::Borrowed(text);
    }
    let mut out = Cow::Borrowed(text);
    let mut at = 0;
    while let Some(next) = memchr::memchr(b'\\', &text[at..]) {
        at += next;
        match surrogate(&text[at..]) {
            Some(true) if surrogate(&text[at + 6..]) == Some(false) => at += 12,
            Some(_) => {
                out.to_mut()[at..at + 6].copy_from_slice(b"\\ufffd");
                at += 6;
            }
            None if text[at + 1..].first() == Some(&b'\\') => at += 2,
            None => at += 1,
        }
    }
    out
}

/// Whether a text begins with the escape of the first half of a pair, or of the second.
fn surrogate(text: &[u8]) -> Option<bool> {
    let [b'\\', b'u', b'd' | b'D', half, third, fourth, ..] = text else {
        return None;
    };
    if !third.is_ascii_hexdigit() || !fourth.is_ascii_hexdigit() {
        return None;
    }
    match half {
        b'8' | b'9' | b'a' | b'b' | b'A' | b'B' => Some(true),
        b'c'..=b'f' | b'C'..=b'F' => Some(false),
        _ => None,
    }
}

/// The names of the fields of an object that is no request of any signal, as they are shown.
///
/// Of a long object some at its start. An empty one may be of any signal.
pub fn foreign_names(document: &[u8]) -> Result<Option<String>, Fault> {
    let names = names(document)?;
    let is_signal = |name: &String| OTHER_SIGNAL.is_match(name.as_bytes());
    if names.is_empty() || names.iter().any(is_signal) {
        return Ok(None);
    }
    Ok(Some(
        names
            .join(", ")
            .chars()
            .take(SHOWN_CHARACTERS_MAX)
            .collect(),
    ))
}

fn names(document: &[u8]) -> Result<Vec<String>, Fault> {
    let mut names: Vec<String> = Vec::new();
    if document.len() > NAMED_BYTES_MAX {
        let found = NAME.captures_iter(&document[..NAMED_BYTES_MAX]);
        let names = found.filter_map(|found| found.get(1));
        return Ok(names
            .map(|name| String::from_utf8_lossy(name.as_bytes()).into())
            .collect());
    }
    Json::new(document).token()?;
    Json::new(document.trim_ascii_start()).object(|json, name| {
        let name = str::from_utf8(name).map_err(|_| Fault::NotUtf8)?;
        if !names.iter().any(|known| known == name) {
            names.push(name.to_owned());
        }
        json.skip()
    })?;
    Ok(names)
}

/// A request up to its last whole span before `stop`, with its brackets closed.
///
/// Values that are nested too deep are null. Empty where no span is whole.
pub fn readable_prefix(request: &[u8], stop: usize) -> Vec<u8> {
    let (mut open, mut open_at_last) = (Vec::new(), Vec::new());
    let (mut out, mut whole, mut taken_to) = (Vec::new(), 0, 0);
    let mut at = 0;
    while let Some(bracket) = next_bracket(&request[..stop], &mut at) {
        match request[bracket] {
            opening @ (b'{' | b'[') => {
                open.push(opening);
                if open.len() == DEPTH_MAX + 1 {
                    out.extend_from_slice(&request[taken_to..bracket]);
                    out.extend_from_slice(b"null");
                }
            }
            _ if open.pop().is_some() => {
                if open.len() == DEPTH_MAX {
                    taken_to = at;
                } else if open.is_empty() || open == SPAN_PARENTS {
                    out.extend_from_slice(&request[taken_to..at]);
                    (taken_to, whole) = (at, out.len());
                    open_at_last.clone_from(&open);
                }
            }
            _ => {}
        }
    }
    out.truncate(whole);
    if whole > 0 {
        let closed = open_at_last.iter().rev();
        out.extend(closed.map(|open| if *open == b'{' { b'}' } else { b']' }));
    }
    out
}

/// The place of the next bracket outside of strings; `at` goes behind it.
fn next_bracket(text: &[u8], at: &mut usize) -> Option<usize> {
    let mut is_in_string = false;
    while let Some(byte) = text.get(*at) {
        *at += 1;
        match byte {
            b'"' => is_in_string = !is_in_string,
            b'\\' if is_in_string => *at += 1,
            b'{' | b'}' | b'[' | b']' if !is_in_string => return Some(*at - 1),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_of_pairs_are_replaced() {
        for (text, whole) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\ud83d\ude00\ude00""#, r#""\ud83d\ude00\ufffd""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d\\\ud83d""#, r#""\\ud83d\\\ufffd""#),
            (r#""\ud83!\u0041""#, r#""\ud83!\u0041""#),
        ] {
            assert_eq!(
                &*with_whole_escapes(text.as_bytes()),
                whole.as_bytes(),
                "{text}"
            );
        }
    }

    #[test]
    fn names_lose_their_underscores() {
        let text = br#"{"trace_id" : "a_b", "x": "\"a_b\": ", "start_time_2nano":1, "A_b":2}"#;
        let camel = br#"{"traceId" : "a_b", "x": "\"a_b\": ", "startTime2nano":1, "A_b":2}"#;
        assert_eq!(camel_case(text), camel);
    }

    #[test]
    fn whole_spans_are_kept() {
        let text = br#"{"r":[{"s":[{"t":[{"a":"}]"},{"b":[1]},{"c":"#;
        let prefix = readable_prefix(text, text.len());
        assert_eq!(prefix, br#"{"r":[{"s":[{"t":[{"a":"}]"},{"b":[1]}]}]}]}"#);
        assert!(readable_prefix(b"{\"r\":[", 6).is_empty());
    }
}
