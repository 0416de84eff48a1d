//! Pages: which part of what is found a call asks for, and its answer shows.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::Regex;

use super::text::is_longer;
use crate::patterns::{Pattern, pattern, replaced};
use crate::tables::{PAGES, any_of};

// A shorter answer without a list may rightly be that to each part, such as that it was saved.
const WORDS_CHARS_MAX: usize = 100;
static ASKED: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&PAGES["asked"]));
static LISTS: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&PAGES["lists"]));
static TOLD: LazyLock<Regex> = LazyLock::new(|| pattern(&any_of(&PAGES["told"])));

/// Whether arguments ask for one page of many.
#[must_use]
pub fn asks_page(arguments: &str) -> bool {
    ASKED.is_match(arguments)
}

/// Whether a call asks for one page of many, and got one.
#[must_use]
pub fn is_page(arguments: &str, shown: &str) -> bool {
    let shows = || is_longer(shown, WORDS_CHARS_MAX) || LISTS.is_match(shown);
    asks_page(arguments) && shows()
}

/// What a page shows, without what it says of its place among the others.
#[must_use]
pub fn without_place(page: Cow<'_, str>) -> Cow<'_, str> {
    replaced(page, &TOLD, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_compared_without_its_place() {
        for (one, two) in [
            (
                r#"{"items":["a"],"page":3,"next_page":4}"#,
                r#"{"items":["a"],"page":4,"next_page":null}"#,
            ),
            (
                r#"{"data":["a"],"links":{"next":"/a?page=4","self":"/a?page=3"}}"#,
                r#"{"data":["a"],"links":{"next":"/a?page=5","self":"/a?page=4"}}"#,
            ),
            ("Page 3 of 8\na, b", "Page 4 of 8\na, b"),
        ] {
            assert_eq!(without_place(one.into()), without_place(two.into()));
        }
        let other = r#"{"items":["b"],"page":4}"#;
        assert_ne!(
            without_place(r#"{"items":["a"],"page":3}"#.into()),
            without_place(other.into())
        );
    }
}
