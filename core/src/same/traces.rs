//! Where a failure happened and how it got there, read from its stack trace or its text.
//!
//! The innermost frame in the project's own code counts. Without frames, the place is a source file
//! that the text names, else a function.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::sync::LazyLock;

use regex::Regex;

use super::masks::masked;
use super::text::{digest, is_hex};
use crate::patterns::{Groups, Pattern, pattern, replaced, rows};
use crate::tables::FAILURES;

rows! {
    FRAMES: Pattern = FAILURES["trace_frames"];
    FRAME_FUNCTIONS: Pattern = FAILURES["frame_functions"];
    FOREIGN: Pattern = FAILURES["foreign"];
    LINE_IN_TEXT: Pattern = FAILURES["line_in_text"];
    FILE_IN_TEXT: Pattern = FAILURES["file_in_text"];
    FUNCTION_IN_TEXT: Pattern = FAILURES["function_in_text"];
}

// The first is Python's; in its traces the last frame is the innermost.
static FRAME_PLACES: LazyLock<Vec<Pattern>> = LazyLock::new(|| {
    let rows = FAILURES["frame_places"].iter();
    rows.map(Pattern::from).collect()
});
// Line numbers and addresses, which are not compared.
static LINES: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"(?-u):\d+(?::\d+)?\b|\bline \d+|\b0x[0-9a-f]+".into()));

/// What a stack trace of Python begins with.
pub const TRACEBACK: &str = "Traceback (most recent call last)";
// Python writes the exception without an indent, and of a library with its module.
static RAISED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?m)^(?:[A-Za-z_][\w.]*(?:Error|Exception|Failure|Timeout|Interrupt)",
        r"|[a-z_][\w.]*\.[A-Z]\w*)(?::|[^\S\n]*$)"
    ))
});

/// What the last stack trace of Python in a text raised: the last line that names an exception, and
/// all after it.
#[must_use]
pub fn raised(text: &str) -> Option<&str> {
    let (_, trace) = text.rsplit_once(TRACEBACK)?;
    let named = RAISED.find_iter(trace).last()?;
    Some(trace[named.start()..].trim())
}

/// Where a failure happened.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// A file with its line, a file, or a function.
    pub location: Option<String>,
    /// Equal for equal ways there.
    pub trace_hash: Option<String>,
}

/// The place that the stack trace or the text of a failure tells.
#[must_use]
pub fn place_of(text: &str, error_type: Option<&str>) -> Place {
    let frames: Vec<&str> = FRAMES
        .whole()
        .find_iter(text)
        .map(|frame| frame.as_str().trim())
        .collect();
    let shown = if frames.is_empty() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(frames.join("\n"))
    };
    let context = Cow::Owned(without_folders(&masked(&shown, &[], false)));
    let context = replaced(context, &LINES, "<line>");
    Place {
        location: innermost(&frames).or_else(|| place_in_text(text)),
        trace_hash: Some(digest(&format!(
            "{}\n{context}",
            error_type.unwrap_or_default()
        ))),
    }
}

/// Whether a stack trace is the hash of one that was read before.
#[must_use]
pub fn is_hash(trace: &str) -> bool {
    is_hex(trace, 16)
}

// Paths without their folders, which differ from machine to machine.
fn without_folders(text: &str) -> String {
    let ends_path = |sign: char| sign.is_whitespace() || "\"'`(),;=".contains(sign);
    let is_slash = |sign: char| matches!(sign, '/' | '\\');
    let names = text.split_inclusive(ends_path).map(|piece| {
        let path = piece.trim_end_matches(|sign| ends_path(sign) || is_slash(sign));
        &piece[path.rfind(is_slash).map_or(0, |slash| slash + 1)..]
    });
    names.collect()
}

fn innermost(frames: &[&str]) -> Option<String> {
    // Frames of Python come before others, the last one first.
    let order = |(place, frame): &(usize, &str)| {
        let is_python = FRAME_PLACES[0].is_match(frame);
        let order = if is_python {
            (0, Reverse(*place), 0)
        } else {
            (1, Reverse(0), *place)
        };
        (FOREIGN.is_match(frame), order)
    };
    let (_, frame) = frames.iter().copied().enumerate().min_by_key(order)?;
    frame_place(frame)
}

fn frame_place(frame: &str) -> Option<String> {
    match FRAME_PLACES.iter().find_map(|each| each.captures(frame)) {
        Some(found) => line_of(&found),
        None => FRAME_FUNCTIONS.first_group(frame).map(str::to_owned),
    }
}

fn place_in_text(text: &str) -> Option<String> {
    if let Some(found) = LINE_IN_TEXT.captures(text) {
        return line_of(&found);
    }
    let named = FILE_IN_TEXT
        .first_group(text)
        .or_else(|| FUNCTION_IN_TEXT.first_group(text));
    named.map(str::to_owned)
}

fn line_of(found: &Groups<'_>) -> Option<String> {
    let file = found.get(1)?;
    let file = file.strip_prefix("file://").unwrap_or(file);
    Some(format!("{file}:{}", found.get(2)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_innermost_frame_of_the_project_counts() {
        let location = |text: &str| place_of(text, None).location;
        let python = "Traceback (most recent call last):\n  File \"/w/main.py\", line 9, in <module>\n    \
                      total()\n  File \"/w/cart.py\", line 7, in total\n    return tax()\n  File \
                      \"/x/site-packages/rates.py\", line 3, in tax\n    1/0\nKeyError: 'a'\n";
        let java = "E: no rate\n\tat java.base/java.util.Objects.get(Objects.java:2)\n\tat \
                    shop.Cart.tax(Cart.java:7)\n\tat shop.Main.main(Main.java:5)\n";
        let node =
            "TypeError: a\n    at login (file:///srv/auth.ts:7:15)\n    at main (/srv/b.ts:4:3)\n";
        assert_eq!(location(python).as_deref(), Some("/w/cart.py:7"));
        assert_eq!(location(java).as_deref(), Some("Cart.java:7"));
        assert_eq!(location(node).as_deref(), Some("/srv/auth.ts:7"));
    }

    #[test]
    fn a_text_without_frames_names_a_file_or_a_function() {
        for (text, location) in [
            ("src/auth.ts(12,5): error TS2345", Some("src/auth.ts:12")),
            ("cannot parse 'src/cart.py'", Some("src/cart.py")),
            ("null pointer in Cart.total()", Some("Cart.total")),
            ("Error in component <CartView>", Some("CartView")),
            ("it failed at 12:30", None),
        ] {
            assert_eq!(place_of(text, None).location.as_deref(), location, "{text}");
        }
    }

    #[test]
    fn a_path_keeps_its_name() {
        let text = "/home/a/cart.py:3 (C:\\work\\a.cs, b//) // x/ ö/é=/y";
        assert_eq!(without_folders(text), "cart.py:3 (a.cs, b//) // x/ é=y");
    }

    #[test]
    fn folders_and_lines_are_no_part_of_a_trace() {
        let hash = |text: &str, error_type| place_of(text, error_type).trace_hash;
        let one = hash("/home/a/shop/cart.py:12: bad rate at 0x7f21", None);
        assert_eq!(one, hash("/srv/b/cart.py:48: bad rate at 0x7f9c", None));
        assert_ne!(one, hash("/srv/b/cart.py:48: no rate", None));
        assert_ne!(
            one,
            hash("/home/a/shop/cart.py:12: bad rate at 0x7f21", Some("E"))
        );
        assert!(one.is_some_and(|hash| is_hash(&hash)));
    }
}
