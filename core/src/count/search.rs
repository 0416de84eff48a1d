//! Searches: what they found, and which calls ask how something is used.

use std::sync::LazyLock;

use super::codes::{UNKNOWN, code};
use super::marks::Tool;
use super::turn::Turn;
use crate::patterns::Pattern;
use crate::same::errors::answers_no;
use crate::same::text::is_longer;
use crate::tables::MARKS;

static ASKS_HELP: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["asks_help"]));
static QUERIES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["queries"]));
static SEARCHING: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["searching_command"]));
static CHANGES_FOUND: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["changes_found"]));
static NOTHING: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["nothing"]));
static ACKNOWLEDGES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["acknowledges"]));

// A longer answer shows something, whatever its first words are.
const NOTHING_CHARS_MAX: usize = 500;
/// The code of finding nothing, in whatever words and by whatever search.
pub const NOTHING_FOUND: i64 = 1;

/// Whether a command asks how a program is used.
#[must_use]
pub fn asks_help(arguments: &str) -> bool {
    ASKS_HELP.is_match(arguments)
}

/// The code of what a search found that did not fail: nothing, or its tool and answer.
#[must_use]
pub fn found(turn: &Turn, tool: Tool, outcome: i64) -> i64 {
    let arguments = turn.arguments.unwrap_or_default();
    let by_command =
        || SEARCHING.is_match(arguments) && !CHANGES_FOUND.is_match(arguments) && !tool.changes;
    let Some(result) = turn.error.or(turn.result) else {
        return UNKNOWN;
    };
    if !(tool.searches || by_command()) || ACKNOWLEDGES.is_match(result) {
        return UNKNOWN;
    }
    let is_short = !is_longer(result, NOTHING_CHARS_MAX);
    if is_short && (NOTHING.is_match(result) || answers_no(result)) {
        return NOTHING_FOUND;
    }
    match turn.name {
        Some(name) if tool.searches && !QUERIES.is_match(name) => code(name) ^ outcome,
        _ => UNKNOWN,
    }
}

#[cfg(test)]
mod tests {
    use super::super::marks::tool;
    use super::*;

    #[test]
    fn what_a_search_found_is_nothing_or_its_answer() {
        let found_by = |name, arguments, result| {
            let turn = Turn {
                name,
                arguments,
                result: Some(result),
                ..Turn::default()
            };
            found(&turn, tool(name), 7)
        };
        let grep = Some(r#"{"command":"grep -rn a src"}"#);
        assert_eq!(found_by(Some("search"), None, "0 rows"), NOTHING_FOUND);
        assert_eq!(found_by(Some("bash"), grep, ""), NOTHING_FOUND);
        assert_eq!(found_by(Some("bash"), grep, "a.py"), UNKNOWN);
        assert_eq!(found_by(None, grep, "Exit code 1"), NOTHING_FOUND);
        assert_eq!(found_by(Some("search"), None, "3 rows"), code("search") ^ 7);
        assert_eq!(found_by(Some("sql_query"), None, "3 rows"), UNKNOWN);
        assert_eq!(found_by(Some("search"), None, "ok"), UNKNOWN);
        assert_eq!(found_by(Some("edit"), grep, "None"), UNKNOWN);
    }

    #[test]
    fn names_are_read_in_any_way_to_join_words() {
        assert!(tool(Some("search_docs")).searches && !tool(Some("search_docs")).changes);
        assert!(tool(Some("read_todos")).notes && tool(Some("read_todos")).reads);
        assert!(!tool(Some("edit_tests")).checker.checks && !tool(None).reads);
    }
}
