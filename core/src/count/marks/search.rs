//! What searches found, and which calls ask how something is used.

use super::tool::Tool;
use crate::count::codes::{UNKNOWN, code};
use crate::count::row::Row;
use crate::count::turn::Turn;
use crate::patterns::rows;
use crate::same::errors::answers_no;
use crate::same::made::makes;
use crate::same::pages::{asks_page, is_past_end, leads_on, page_of, without_place};
use crate::same::text::is_longer;
use crate::same::tools::looks_by_command;
use crate::tables::MARKS;

rows! {
    ASKS_HELP: Pattern = MARKS["asks_help"];
    SEARCHING: Pattern = MARKS["searching_command"] | MARKS["asking_statement"];
    ASKING: Pattern = MARKS["asking_statement"];
    CHANGES_FOUND: Pattern = MARKS["changes_found"];
    EMPTY: Pattern = MARKS["empty"];
    NOTHING: Pattern = MARKS["empty"] | MARKS["nothing"];
    ACKNOWLEDGES: Pattern = MARKS["acknowledges"];
}

// A longer answer shows something, whatever its first words are.
const NOTHING_CHARS_MAX: usize = 500;
// A longer answer is news at the first search alone, whatever was asked.
const ANSWER_CHARS_MAX: usize = 100;
// What stands between the place of a page and what it shows.
const BETWEEN: [char; 6] = [' ', '\n', ':', '：', '-', '.'];
/// The code of finding nothing, in whatever words and by whatever search.
pub const NOTHING_FOUND: i64 = 1;

/// Whether many things may rightly have the answer of a search, such as that there is none.
#[must_use]
pub fn is_common(turn: &Turn, tool: Tool, search_result: i64) -> bool {
    let answer = turn.error.or(turn.result).unwrap_or_default();
    if tool.moves {
        // Past the end there is nothing, however far one moves.
        return false;
    }
    search_result == NOTHING_FOUND
        || (search_result != UNKNOWN && (!tool.in_words || !is_longer(answer, ANSWER_CHARS_MAX)))
}

/// Whether a command asks how a program is used.
#[must_use]
pub fn asks_help(arguments: &str) -> bool {
    ASKS_HELP.is_match(arguments)
}

/// Whether a result is empty, or an object with nothing in it.
#[must_use]
pub fn is_empty(result: &str) -> bool {
    !is_longer(result, NOTHING_CHARS_MAX) && EMPTY.is_match(result)
}

/// Whether a result says that there is nothing.
#[must_use]
pub fn says_nothing(result: &str) -> bool {
    !is_longer(result, NOTHING_CHARS_MAX) && (NOTHING.is_match(result) || answers_no(result))
}

/// Whether a command or a statement only looks at something.
#[must_use]
pub fn only_looks(arguments: &str, tool: Tool) -> bool {
    (tool.checker.looks(arguments) || ASKING.is_match(arguments)) && !changes_found(arguments)
}

/// Whether a search or a statement changes what it names.
#[must_use]
pub fn changes_found(arguments: &str) -> bool {
    CHANGES_FOUND.is_match(arguments)
}

/// Whether a page has nothing in it.
#[must_use]
pub fn is_empty_page(answer: &str) -> bool {
    says_nothing(without_place(answer).trim_start_matches(BETWEEN))
}

/// The code of what a search found: nothing, or its tool and answer, here without its frame.
///
/// Some tools say by a failure that there is nothing.
#[must_use]
pub fn found(turn: &Turn, tool: Tool, row: &Row, answer: &str) -> i64 {
    let failed = row.failed;
    let arguments = turn.arguments.unwrap_or_default();
    let changes = || tool.changes || changes_found(arguments);
    let by_command = || !failed && SEARCHING.is_match(arguments) && !changes();
    let waits = row.pauses || row.watches || row.unfinished;
    let looks = !tool.in_words && !waits && !failed;
    let by_look = || looks && looks_by_command(arguments) && !changes();
    if turn.error.or(turn.result).is_none() || ACKNOWLEDGES.is_match(answer) {
        return UNKNOWN;
    }
    let searches = (tool.searches && !(failed && tool.changes)) || by_command();
    let lists = tool.lists && !waits && !failed;
    let has_page = !(waits || changes()) && (tool.moves || asks_page(arguments));
    let is_empty_page = || has_page && !failed && is_empty_page(answer);
    if is_empty_page() && leads_on(arguments, answer) {
        // There is more to look through.
        return UNKNOWN;
    }
    let has_nothing = says_nothing(answer) && (searches || lists || by_look());
    if has_nothing || is_empty_page() || has_page && is_past_end(answer) {
        return NOTHING_FOUND;
    }
    let Some(name) = turn.name.filter(|_| !failed) else {
        return UNKNOWN;
    };
    // Another page shows other things, with other ids and times, whatever its tool is called.
    let acts = || changes() || tool.updates || makes(turn.name, turn.arguments);
    if !waits
        && !acts()
        && let Some(page) = page_of(arguments, answer)
    {
        return code(name) ^ code(&page);
    }
    let shows = if tool.in_words {
        searches
    } else {
        !waits && (by_command() || by_look())
    };
    if shows {
        code(name) ^ row.outcome
    } else {
        UNKNOWN
    }
}

#[cfg(test)]
mod tests {
    use super::super::tool::tool;
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
            let row = Row {
                outcome: 7,
                ..Row::default()
            };
            found(&turn, tool(name), &row, result)
        };
        let grep = Some(r#"{"command":"grep -rn a src"}"#);
        assert_eq!(found_by(Some("search"), None, "0 rows"), NOTHING_FOUND);
        let page = Some(r#"{"cursor":"c1"}"#);
        let leads_to = |next| format!(r#"{{"items":[],"next_cursor":"{next}"}}"#);
        for (next, found) in [("c2", UNKNOWN), ("c1", NOTHING_FOUND)] {
            let shown = leads_to(next);
            let turn = Turn {
                name: Some("search"),
                arguments: page,
                result: Some(&shown),
                ..Turn::default()
            };
            let row = Row {
                outcome: 7,
                ..Row::default()
            };
            assert_eq!(
                super::found(&turn, tool(turn.name), &row, &shown),
                found,
                "{next}"
            );
        }
        assert_eq!(found_by(Some("bash"), grep, ""), NOTHING_FOUND);
        assert_eq!(found_by(Some("bash"), grep, "a.py"), code("bash") ^ 7);
        let look = |command| found_by(Some("bash"), Some(command), "");
        assert_eq!(look("df -m /a | awk 'NR==9'"), NOTHING_FOUND);
        assert_eq!(look("df -m /a > b.txt"), UNKNOWN);
        assert_eq!(look("find a -exec rm {} +"), UNKNOWN);
        let select = Some(r#"{"sql":"select a from b"}"#);
        assert_eq!(
            found_by(Some("sql_query"), select, "3"),
            code("sql_query") ^ 7
        );
        assert_eq!(found_by(None, grep, "Exit code 1"), NOTHING_FOUND);
        assert_eq!(found_by(Some("search"), None, "3 rows"), code("search") ^ 7);
        assert_eq!(found_by(Some("sql_query"), None, "3 rows"), UNKNOWN);
        assert_eq!(found_by(Some("search"), None, "ok"), UNKNOWN);
        assert_eq!(found_by(Some("edit"), grep, "None"), UNKNOWN);
        let page = Some(r#"{"page":3}"#);
        let list = r#"{"items":[{"id":4}]}"#;
        assert_eq!(
            found_by(Some("list_users"), page, list),
            code("list_users") ^ code(list)
        );
        assert_eq!(found_by(Some("list_users"), None, list), UNKNOWN);
        assert_eq!(found_by(Some("fetch_rows"), page, "50 rows saved"), UNKNOWN);
        let unnamed = found_by(Some("contacts"), page, list);
        assert_eq!(unnamed, code("contacts") ^ code(list));
        assert_eq!(found_by(Some("send_mails"), page, list), UNKNOWN);
    }
}
