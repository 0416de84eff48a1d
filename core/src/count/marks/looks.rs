//! What a call shows, as far as other calls may show the same.

use std::borrow::Cow;

use super::failure::guesses;
use super::search::{changes_found, is_empty};
use super::tool::Tool;
use crate::count::codes::{UNKNOWN, code_of, pair};
use crate::count::row::Row;
use crate::count::turn::Turn;
use crate::patterns::rows;
use crate::same::request::plain_path;
use crate::same::signature::changed_file;
use crate::same::text::{head, is_longer};
use crate::same::waits;
use crate::tables::{FAILURES, MARKS};

rows! {
    OUTPUTLESS: Pattern = MARKS["outputless"];
    HOSTS: Pattern = MARKS["hosts"];
    ADDRESSES: Pattern = MARKS["addresses"];
    OF_THING: Pattern = FAILURES["of_thing"];
    OF_REQUEST: Pattern = FAILURES["of_request"];
    NAMES_THING: Pattern = MARKS["names_thing"];
    SAYS_INVALID: Pattern = MARKS["says_invalid"] | FAILURES["refusals"];
    OF_CALLER: Pattern = MARKS["of_caller"];
    SAYS_NO: Pattern = FAILURES["says_no"];
}

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

/// Set how much a call shows, and tell apart what it shows of several machines or files.
pub fn mark_look(row: &mut Row, arguments: &str, shown: &str, tool: Tool) {
    let is_of_many = !(row.failed || tool.shows_state || tool.checker.shell)
        && (tool.assesses
            || tool.gives_work
            || is_one_thing(arguments) && !ADDRESSES.is_match(arguments));
    row.look_chars = if tool.leads {
        ON_THE_WAY
    } else if is_of_many
        || row.declined
        || is_blank(shown)
        || is_empty(shown)
        || OUTPUTLESS.is_match(&waits::ends_of(shown))
        || changes_found(arguments)
    {
        0
    } else {
        shown.chars().count() as i64
    };
    if row.failed || !(1..ALIKE_CHARS_MAX).contains(&row.look_chars) {
        return;
    }
    let named = head(arguments, NAMED_CHARS);
    let host = HOSTS
        .find_at(named, 0)
        .map(|host| Cow::Borrowed(&named[host]));
    let file = || {
        let path = changed_file(arguments).filter(|_| tool.reads)?;
        Some(Cow::Owned(plain_path(path)))
    };
    let of = code_of(host.or_else(file).as_deref());
    if of != UNKNOWN {
        row.outcome = pair(row.outcome, of);
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
    let arguments = turn.arguments.unwrap_or_default();
    if is_longer(shown, THING_CHARS_MAX) {
        return false;
    }
    if tool.verdicts && is_verdict(turn, arguments, shown) {
        return true;
    }
    if tool.checker.shell || tool.checker.tells || guesses(arguments, shown) {
        return false;
    }
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

/// Whether a failure is what a tool of verdicts says of the thing that it was given.
///
/// A text that names the tool, or its arguments, is about the call.
fn is_verdict(turn: &Turn, arguments: &str, shown: &str) -> bool {
    let names_tool = turn.name.is_some_and(|name| shown.contains(name));
    is_one_thing(arguments)
        && SAYS_INVALID.is_match(shown)
        && NAMES_THING.is_match(arguments)
        && !(names_tool || OF_CALLER.is_match(shown))
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
        assert!(!says(
            "validate_row",
            r#"{"row":7}"#,
            "Invalid arguments: row"
        ));
        let dance = r#"{"command":"dance"}"#;
        assert!(says("check_command", dance, "Invalid command"));
        assert!(!says("run_command", dance, "Invalid command"));
        assert!(!says("check_command", dance, "This tool is disabled"));
        assert!(!says("check_labels", dance, "Error: 2 labels are missing"));
        let code = r#"{"command":"{\"a\":1,}"}"#;
        assert!(!says("check_command", code, "Invalid command"));
    }

    #[test]
    fn two_machines_may_answer_alike() {
        let one = look("nmap 10.0.0.1", "22 closed", false);
        assert_ne!(
            one.outcome,
            look("nmap 10.0.0.2", "22 closed", false).outcome
        );
        assert_eq!(look("nmap all", "22 closed", false).outcome, 7);
        let read = |path: &str| {
            let tool = Tool {
                reads: true,
                ..Tool::default()
            };
            let mut row = Row {
                outcome: 7,
                ..Row::default()
            };
            let asked = format!(r#"{{"path":"{path}"}}"#);
            mark_look(&mut row, &asked, "# Licensed under the same terms.", tool);
            row.outcome
        };
        assert_ne!(read("a/__init__.py"), read("b/__init__.py"));
        assert_eq!(read("a/__init__.py"), read("./a/__init__.py"));
    }
}
