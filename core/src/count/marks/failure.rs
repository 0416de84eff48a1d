//! The marks of failures.

use std::sync::LazyLock;

use regex::Regex;

use super::tool::Tool;
use super::{MISSING, RAN_OUT};
use crate::count::codes::{UNKNOWN, code, pair};
use crate::count::row::Row;
use crate::count::turn::Turn;
use crate::patterns::{pattern, rows};
use crate::same::kinds::kind_in;
use crate::same::made::makes;
use crate::same::{tools, waits};
use crate::tables::{FAILURES, MARKS};

rows! {
    EXISTS: Pattern = FAILURES["exists"];
    GUESSES: Pattern = FAILURES["guesses"];
    OWN_SERVER: Pattern = MARKS["own_server"];
}

static IDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"(?-u:[A-Za-z_-]*[0-9][\w-]*)"));
static GIVEN: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\w.-]{3,}"));

// The kind of a failure of which a framework hides what went wrong.
const UNTOLD: &str = "untold";

// What was made has fewer ids.
const IDS_MAX: usize = 16;
// What has more digits counts nothing.
const COUNT_DIGITS_MAX: usize = 3;

// The agent may mend these by its own edits: a login, a missing module.
const MENDABLE: [&str; 2] = ["authentication", "dependency"];

/// Set the code of an own failure.
///
/// "404 Not Found" for one page after another is a search, so the error of a look has its call; and
/// a question that timed out may be answered at the second try.
pub fn mark_failure(row: &mut Row, turn: &Turn, looks: bool) {
    let told = turn.error_kind.is_some_and(|kind| kind != UNTOLD);
    if !row.failed || row.unfinished || row.external || !told {
        return;
    }
    let asks = (looks || turn.error_kind == Some(RAN_OUT)) && row.call != UNKNOWN;
    row.error = if asks {
        pair(row.outcome, row.call)
    } else {
        row.outcome
    };
}

/// Whether a failure names what its call was given, so that it is one of that by its own words.
pub fn names_given(arguments: &str, error: &str) -> bool {
    let is_key = |end: usize| arguments[end..].starts_with("\":");
    let mut words = GIVEN
        .find_iter(arguments)
        .filter(|word| !is_key(word.end()));
    words.any(|word| error.contains(word.as_str()))
}

/// The codes of words with a digit, as ids have, at the beginning and the end of a text.
pub fn ids_in(text: &str) -> Vec<i64> {
    let ends = waits::ends_of(text);
    let ids = IDS.find_iter(&ends).take(IDS_MAX);
    ids.map(|id| code(id.as_str())).collect()
}

/// The same without short numbers, which count something.
pub fn long_ids_in(text: &str) -> Vec<i64> {
    let ends = waits::ends_of(text);
    let is_long = |id: &str| id.len() > COUNT_DIGITS_MAX || id.contains(char::is_alphabetic);
    let ids = IDS.find_iter(&ends).map(|id| id.as_str());
    ids.filter(|id| is_long(id))
        .take(IDS_MAX)
        .map(code)
        .collect()
}

/// Whether a failure quotes a name or a part of what its call was given, which could be any other.
pub fn guesses(arguments: &str, error: &str) -> bool {
    GUESSES.is_match(&waits::ends_of(error)) && names_given(arguments, error)
}

/// Whether a call removes what is gone already, or makes what is there already.
pub fn is_gone(turn: &Turn, tool: Tool) -> bool {
    let removes = tool.removes || turn.arguments.is_some_and(tools::removes);
    let says = || kind_in(turn.result.unwrap_or_default()) == Some(MISSING);
    let exists = |text: Option<&str>| text.is_some_and(|text| EXISTS.is_match(text));
    (removes && (turn.error_kind == Some(MISSING) || says()))
        || ((exists(turn.error) || exists(turn.result)) && makes(turn.name, turn.arguments))
}

pub fn is_mendable(turn: &Turn) -> bool {
    match turn.error_kind {
        Some("network") => turn.error.is_some_and(|error| OWN_SERVER.is_match(error)),
        Some(kind) => MENDABLE.contains(&kind),
        None => false,
    }
}
