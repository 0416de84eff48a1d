//! Notes that an agent adds to a file of its own, or tells.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use crate::patterns::{pattern, rows};
use crate::same::gist::Gist;
use crate::tables::{MARKS, any_of};

static NOTE_COUNTS: LazyLock<Regex> = LazyLock::new(|| pattern(&any_of(&MARKS["note_counts"])));
rows! {
    NOTE_FILES: Pattern = MARKS["note_files"];
    APPENDS: Pattern = MARKS["appends"];
    APPENDING: Pattern = MARKS["appending"];
}

// The kinds of files of notes.
const NOTE_ENDS: [&str; 4] = [".md", ".txt", ".org", ".rst"];
// A note that says less may be about anything.
const NOTE_STEMS_MIN: usize = 2;

/// Whether a call adds to a file of the agent's own notes.
#[must_use]
pub fn notes_in_file(name: &str, arguments: &str) -> bool {
    NOTE_ENDS.iter().any(|end| arguments.contains(end))
        && (APPENDS.is_match(name) || APPENDING.is_match(arguments))
        && NOTE_FILES.is_match(arguments)
}

/// What a note says, without its number and what writes it; none if it says too little.
#[must_use]
pub fn gist_of(text: &str) -> Option<Gist> {
    let text = NOTE_COUNTS.replace_all(written_by(text), "");
    let gist = Gist::of(&text).filter(|gist| gist.says(NOTE_STEMS_MIN));
    gist.map(|gist| (*gist).clone())
}

/// What a command writes into a file: the lines that follow, or the longest text in quotes; any
/// other text as it is.
fn written_by(text: &str) -> &str {
    if !text.contains(">>") {
        return text;
    }
    if text.contains("<<") {
        let lines = text.split_once('\n').map(|(_, lines)| lines);
        let lines = lines.and_then(|lines| lines.trim_end().rsplit_once('\n'));
        return lines.map_or(text, |(lines, _)| lines);
    }
    let quoted = ['"', '\''].into_iter();
    let quoted = quoted.flat_map(|quote| text.split(quote).skip(1).step_by(2));
    quoted.max_by_key(|part| part.len()).unwrap_or(text)
}

/// All texts of a list, a line each.
#[must_use]
pub fn texts_in(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(texts_in).collect::<Vec<_>>().join("\n"),
        Value::Object(items) => items.values().map(texts_in).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_what_a_command_writes() {
        assert_eq!(written_by("echo 'a b' >> notes.md"), "a b");
        assert_eq!(written_by("cat >> notes.md <<'EOF'\na b\nEOF\n"), "a b");
        assert_eq!(written_by("a > b"), "a > b");
        assert!(!notes_in_file("append_file", r#"{"path":"rows.csv"}"#));
        assert!(notes_in_file(
            "bash",
            r#"{"command":"echo 'a b' >> docs/notes.md"}"#
        ));
    }

    #[test]
    fn a_note_says_the_same_under_another_number() {
        let says = |text| gist_of(text).unwrap_or_default();
        let one = says("Step 1: check the login form");
        assert!(one.is_like(&says("10:04 Step 2: check the login form")));
        assert!(!one.is_like(&says("Step 2: check the mail form")));
        assert!(gist_of("Done.").is_none());
    }
}
