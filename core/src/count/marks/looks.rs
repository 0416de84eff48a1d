//! What a call shows, as far as other calls may show the same.

use std::sync::LazyLock;

use super::tool::Tool;
use crate::count::codes::{UNKNOWN, code, pair};
use crate::count::row::Row;
use crate::count::turn::Turn;
use crate::patterns::Pattern;
use crate::same::text::{head, is_longer};
use crate::same::waits;
use crate::tables::{FAILURES, MARKS};

static OUTPUTLESS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["outputless"]));
static HOSTS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["hosts"]));
static ADDRESSES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["addresses"]));
static OF_THING: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&FAILURES["of_thing"]));
static OF_REQUEST: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&FAILURES["of_request"]));
static SAYS_NO: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&FAILURES["says_no"]));

// The characters of what a step on the way somewhere shows, which is no news and need be none.
const ON_THE_WAY: i64 = -1;
/// Stands for the characters of a result that the trace does not show.
pub const UNSHOWN: i64 = -2;

// Shorter texts are words.
const BLANK_BYTES_MIN: usize = 32;
// What is longer than a page of a terminal is not the same of two machines.
const ALIKE_CHARS_MAX: i64 = 500;
// A longer failure tells of more than one thing.
const THING_CHARS_MAX: usize = 300;
// The name of one of many things has no more words.
const THING_WORDS_MAX: usize = 4;
// A machine is named at the beginning of a command.
const NAMED_CHARS: usize = 500;

/// Set how much a call shows, and tell apart what it shows of several machines.
pub fn mark_look(row: &mut Row, arguments: &str, shown: &str, tool: Tool) {
    let is_of_many = !(row.failed || tool.shows_state || tool.checker.shell)
        && (tool.assesses || is_one_thing(arguments) && !ADDRESSES.is_match(arguments));
    row.look_chars = if tool.leads {
        ON_THE_WAY
    } else if is_of_many || is_blank(shown) || OUTPUTLESS.is_match(&waits::ends_of(shown)) {
        0
    } else {
        shown.chars().count() as i64
    };
    if row.failed || !(1..ALIKE_CHARS_MAX).contains(&row.look_chars) {
        return;
    }
    let named = head(arguments, NAMED_CHARS);
    if let Some(host) = HOSTS.find_at(named, 0) {
        let host = code(&named[host]);
        row.outcome = if host == UNKNOWN {
            row.outcome
        } else {
            pair(row.outcome, host)
        };
    }
}

/// Whether arguments are so short that they name one of many things.
#[must_use]
pub fn is_one_thing(arguments: &str) -> bool {
    arguments.split_whitespace().count() <= THING_WORDS_MAX
}

/// Whether a failure is an answer: the thing that was asked for is not there, or not as hoped.
///
/// Such an answer says nothing of the next thing. One on a path or a page is none, because whoever
/// looks in a wrong place has to look in another.
#[must_use]
pub fn answers(turn: &Turn, tool: Tool, shown: &str) -> bool {
    if tool.checker.shell || tool.checker.tells || is_longer(shown, THING_CHARS_MAX) {
        return false;
    }
    let arguments = turn.arguments.unwrap_or_default();
    // Of an address that is checked, that it is not there is what was asked.
    let is_place = || ADDRESSES.is_match(arguments) && !(tool.checker.checks && tool.reads);
    let is_named = || is_one_thing(arguments) && !is_place();
    if tool.checker.checks && is_named() && SAYS_NO.is_match(shown) {
        // What is checked may lack something: that is a verdict on it, not on the request.
        return true;
    }
    if OF_REQUEST.is_match(shown) {
        return false;
    }
    let says_no = || match turn.error_kind {
        Some("not_found") => true,
        Some("unknown" | "untold") => SAYS_NO.is_match(shown),
        _ => false,
    };
    OF_THING.is_match(shown) || (!tool.changes && is_named() && says_no())
}

/// Whether a text is one sign again and again, such as the zeros of an empty disk.
fn is_blank(text: &str) -> bool {
    if text.len() < BLANK_BYTES_MIN {
        return false;
    }
    let mut signs = text.chars().filter(|sign| sign.is_alphanumeric());
    let first = signs.next();
    signs.all(|sign| Some(sign) == first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(arguments: &str, shown: &str, leads: bool) -> Row {
        let tool = Tool {
            leads,
            shows_state: true,
            ..Tool::default()
        };
        let mut row = Row {
            outcome: 7,
            ..Row::default()
        };
        mark_look(&mut row, arguments, shown, tool);
        row
    }

    #[test]
    fn what_shows_nothing_has_no_length() {
        let zeros = "00 ".repeat(40);
        for (shown, chars) in [
            (&*zeros, 0),
            ("without output", 0),
            ("0", 1),
            ("21 rows", 7),
        ] {
            assert_eq!(look("{}", shown, false).look_chars, chars, "{shown}");
        }
        assert_eq!(look("{}", "the list", true).look_chars, ON_THE_WAY);
    }

    #[test]
    fn a_verdict_is_an_answer_about_what_is_checked() {
        let says = |name, arguments, shown| {
            let turn = Turn {
                name: Some(name),
                arguments: Some(arguments),
                error_kind: Some("unknown"),
                ..Turn::default()
            };
            answers(&turn, super::super::tool::tool(Some(name)), shown)
        };
        let lacks = r#"{"error":"missing email","valid":false}"#;
        assert!(says("validate_row", r#"{"row":7}"#, lacks));
        assert!(!says("send_row", r#"{"row":7}"#, lacks));
        let text = r#"{"row":"a text of many words that was written anew"}"#;
        assert!(!says("validate_row", text, lacks));
        assert!(!says("validate_row", r#"{"row":7}"#, "missing field: row"));
    }

    #[test]
    fn two_machines_may_answer_alike() {
        let one = look("nmap 10.0.0.1", "22 closed", false);
        assert_ne!(
            one.outcome,
            look("nmap 10.0.0.2", "22 closed", false).outcome
        );
        assert_eq!(look("nmap all", "22 closed", false).outcome, 7);
    }
}
