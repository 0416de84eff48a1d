//! What a call shows, as far as other calls may show the same.

use std::sync::LazyLock;

use super::codes::{UNKNOWN, code, pair};
use super::row::Row;
use crate::patterns::Pattern;
use crate::same::text::head;
use crate::same::waits;
use crate::tables::MARKS;

static OUTPUTLESS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["outputless"]));
static HOSTS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["hosts"]));

// The characters of what a step on the way somewhere shows, which is no news and need be none.
const ON_THE_WAY: i64 = -1;
// Shorter texts are words.
const BLANK_BYTES_MIN: usize = 32;
// What is longer than a page of a terminal is not the same of two machines.
const ALIKE_CHARS_MAX: i64 = 500;
// A machine is named at the beginning of a command.
const NAMED_CHARS: usize = 500;

/// Set how much a call shows, and tell apart what it shows of several machines.
pub fn mark_look(row: &mut Row, arguments: &str, shown: &str, leads: bool) {
    row.look_chars = if leads {
        ON_THE_WAY
    } else if is_blank(shown) || OUTPUTLESS.is_match(&waits::ends_of(shown)) {
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
        let mut row = Row {
            outcome: 7,
            ..Row::default()
        };
        mark_look(&mut row, arguments, shown, leads);
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
    fn two_machines_may_answer_alike() {
        let one = look("nmap 10.0.0.1", "22 closed", false);
        assert_ne!(
            one.outcome,
            look("nmap 10.0.0.2", "22 closed", false).outcome
        );
        assert_eq!(look("nmap all", "22 closed", false).outcome, 7);
    }
}
