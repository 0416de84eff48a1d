//! Texts of failures without information: redacted ones, and an exit code and nothing else.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::frames::framed;
use super::text::{is_longer, strip};
use super::waits::ends_of;
use crate::patterns::{pattern, replaced, rows};
use crate::tables::FAILURES;

// Longer errors have information.
const SAYS_NOTHING_CHARS_MAX: usize = 500;

rows! {
    SAYS_NOTHING: Pattern = FAILURES["says_nothing"];
    VAGUE: Pattern = FAILURES["vague"];
    REDACTED: Pattern = FAILURES["redacted"];
    EXIT_WORDS: Pattern = FAILURES["exit_words"];
    COMMAND_EXITED: Pattern = FAILURES["command_exited"];
    EXIT_ONE: Pattern = FAILURES["exit_one"];
    ERROR_COUNTS: Pattern = FAILURES["error_counts"];
    SHOWN_COMMAND: Pattern = FAILURES["shown_command"];
}

static CODE: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?i)(?:code|exit|status)\W{0,4}-?\d"));
static WORDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"[^\W\d_]+"));

/// Whether a text only says that there was an error, for example after redaction.
#[must_use]
pub fn says_nothing(error: &str) -> bool {
    let error = strip(error);
    if is_longer(error, SAYS_NOTHING_CHARS_MAX) {
        return false;
    }
    is_redacted(error)
        || SAYS_NOTHING.is_match(error)
        || has_exit_words(error)
        || COMMAND_EXITED.is_match(error)
}

/// Whether a text only says what failed, and nothing of why.
#[must_use]
pub fn is_vague(error: &str) -> bool {
    let error = strip(error);
    !is_longer(error, SAYS_NOTHING_CHARS_MAX) && VAGUE.is_match(error)
}

/// Whether a text is the placeholder of a removed one.
#[must_use]
pub fn is_redacted(text: &str) -> bool {
    REDACTED.is_match(strip(text))
}

/// Whether a text is the exit code 1 of a command and nothing else.
///
/// Commands such as `grep` and `test` answer "no" by it.
#[must_use]
pub fn answers_no(text: &str) -> bool {
    if is_longer(text, SAYS_NOTHING_CHARS_MAX) || !EXIT_ONE.is_match(text) {
        return false;
    }
    let shown = replaced(Cow::Borrowed(text), &SHOWN_COMMAND, " ");
    EXIT_ONE.is_match(&shown) && (has_exit_words(&shown) || is_none(&framed(text)))
}

/// Whether a text is the frame of a command that wrote nothing, and has no exit code.
#[must_use]
pub fn is_bare(text: &str) -> bool {
    let may = text.starts_with('{') && !is_longer(text, SAYS_NOTHING_CHARS_MAX);
    may && !CODE.is_match(text) && framed(text).is_empty()
}

/// Whether the end of a text, or an object, tells that a command exited with 1.
#[must_use]
pub fn exits_with_one(text: &str) -> bool {
    EXIT_ONE.is_match(&ends_of(text))
}

// A count is one of what was looked for.
fn is_none(written: &str) -> bool {
    matches!(written, "" | "0")
}

fn has_exit_words(error: &str) -> bool {
    let lower = error.to_lowercase();
    let tells = ["exit", "exitcode", "returncode", "exited"];
    let mut told = false;
    for word in WORDS.find_iter(&lower) {
        if !EXIT_WORDS.is_match(word.as_str()) {
            return false;
        }
        told = told || tells.contains(&word.as_str());
    }
    told && !ERROR_COUNTS.is_match(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_code_says_nothing_and_a_message_does() {
        for text in [
            "Exit code 2",
            " [redacted]\n",
            "error",
            "",
            "Process exited with code 1",
        ] {
            assert!(says_nothing(text), "{text}");
        }
        for text in [
            "exit code 1\n1 failed",
            "grep: a: No such file\nexit code 1",
            "code 1",
        ] {
            assert!(!says_nothing(text), "{text}");
        }
    }

    #[test]
    fn a_frame_without_a_code_is_bare() {
        assert!(is_bare(r#"{"status":"error","output":""}"#));
        for text in [
            r#"{"output":"","exit_code":2}"#,
            r#"{"status":"error","output":"no such file"}"#,
            "",
        ] {
            assert!(!is_bare(text), "{text}");
        }
    }

    #[test]
    fn only_the_code_one_answers_no() {
        let ran = "The command `grep foo a` exited with code 1.";
        let framed = "exitcode: 1 (execution failed)\nCode output: ";
        let object = r#"[{"stdout":"","stderr":"","outcome":{"type":"exit","exit_code":1}}]"#;
        let bare = "$ grep foo a\n[exit code: 1]";
        for text in ["Exit code 1", bare, ran, framed, object] {
            assert!(answers_no(text), "{text}");
        }
        for text in [
            "Exit code 2",
            "exit code 1.5",
            "grep: a: No such file\nexit code 1",
        ] {
            assert!(!answers_no(text), "{text}");
        }
    }
}
