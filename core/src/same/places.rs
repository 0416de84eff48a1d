//! Places in the texts of failures: they move with every edit and are not part of a failure.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use crate::patterns::{Pattern, pattern, replaced, rows};
use crate::tables::FAILURES;

// Stands for a quote within a string until the ends of strings are known.
const INNER: &str = "\x00";

rows! {
    FRAMES: Pattern = FAILURES["frames"];
    LINES: Pattern = FAILURES["lines"];
    PLACES: Pattern = FAILURES["places"];
}

static COLOURS: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::new(r"(?:\x1b|\\u001b)\[[0-9;]*[A-Za-z]".into()));
static LINE_ENDS: LazyLock<Pattern> = LazyLock::new(|| Pattern::new("\r\n?".into()));
static HOLDS_STRINGS: LazyLock<Regex> = LazyLock::new(|| pattern(r#"^\s*(?:\{|"|\[\s*[\[{"])"#));
// Where the lines in a text in JSON begin and end.
static IN_JSON: LazyLock<Regex> = LazyLock::new(|| pattern(r#"(?:\\r)?\\n|": ?"|"[,}\]]"#));
static BLANK_LINES: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"\s*\n\s*".into()));

/// The lines that a tool printed, without colours; also read from within JSON.
#[must_use]
pub fn printed_lines(text: &str) -> Cow<'_, str> {
    let plain = replaced(
        replaced(Cow::Borrowed(text), &COLOURS, ""),
        &LINE_ENDS,
        "\n",
    );
    if !HOLDS_STRINGS.is_match(text) {
        return plain;
    }
    let lines = plain.replace(r#"\""#, INNER);
    let lines = IN_JSON.replace_all(&lines, "\n");
    Cow::Owned(lines.replace(r"\t", "\t").replace(INNER, "\""))
}

/// The text of a failure without the parts that an edit moves.
#[must_use]
pub fn without_places(text: &str) -> String {
    let mut text = printed_lines(text);
    for step in [&FRAMES, &LINES] {
        if let Cow::Owned(kept) = step.keep_groups(&text) {
            text = Cow::Owned(kept);
        }
    }
    let text = if text.is_ascii() {
        PLACES.keep_groups(&text)
    } else {
        // No place goes over the end of a line, and few lines have letters beyond ASCII.
        let lines = text.split_inclusive('\n');
        Cow::Owned(lines.map(|line| PLACES.keep_groups(line)).collect())
    };
    replaced(text, &BLANK_LINES, "\n").into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_in_json_has_the_lines_that_it_holds() {
        let told = r#"{"stdout":"a \"b\"\n\tc","code":1}"#;
        assert_eq!(printed_lines(told), "{\"stdout\na \"b\"\n\tc\n\"code\":1}");
        assert_eq!(printed_lines("\x1b[31mred\x1b[0m\r\nend\r"), "red\nend\n");
        assert!(matches!(printed_lines("plain\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn an_edit_moves_no_failure() {
        let tried = |line: &str, quote: &str| {
            without_places(&format!(
                "Traceback (most recent call last):\n  File \"/srv/main.py\", line 3, in <module>\n    \
                 {quote}\n  File \"/srv/cart.py\", line {line}, in total\n    {quote}\n    ~~^\nKeyError: a\n\
                 src/a.ts({line},7): error TS1005\n  |\n{line} |  {quote}\n  |  ^^^ help: {line}\n"
            ))
        };
        assert_eq!(
            tried("7", "go()").replace("help: 7", ""),
            tried("12", "come()").replace("help: 12", "")
        );
        assert!(tried("7", "go()").contains("cart.py"));
        assert_eq!(without_places("row 3 is wrong"), "row 3 is wrong");
    }
}
