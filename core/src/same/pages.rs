//! Pages: which part of what is found a call asks for, and its answer shows.

use std::borrow::Cow;

use super::text::is_longer;
use crate::patterns::{replaced, rows};
use crate::tables::PAGES;

// A shorter answer without a list may rightly be that to each part, such as that it was saved.
const WORDS_CHARS_MAX: usize = 100;
// A longer answer shows something.
const PAST_CHARS_MAX: usize = 300;
rows! {
    ASKED: Pattern = PAGES["asked"];
    LISTS: Pattern = PAGES["lists"];
    TOLD: Pattern = PAGES["told"];
    NEXT: Pattern = PAGES["next"];
    PAST_END: Pattern = PAGES["past_end"];
}

/// Whether arguments ask for one page of many.
#[must_use]
pub fn asks_page(arguments: &str) -> bool {
    ASKED.is_match(arguments)
}

/// Whether an answer says that there is no such page, because the pages have ended.
#[must_use]
pub fn is_past_end(shown: &str) -> bool {
    !is_longer(shown, PAST_CHARS_MAX) && PAST_END.is_match(shown)
}

/// The page that a call asked for, without what it says of its place among the others.
#[must_use]
pub fn page_of<'a>(arguments: &str, shown: &'a str) -> Option<Cow<'a, str>> {
    let shows = || is_longer(shown, WORDS_CHARS_MAX) || LISTS.is_match(shown);
    let is_page = asks_page(arguments) && shows();
    is_page.then(|| without_place(shown))
}

/// A text without what it says of a page's place, also in an address.
#[must_use]
pub fn without_place(text: &str) -> Cow<'_, str> {
    replaced(Cow::Borrowed(text), &TOLD, "")
}

/// Whether a call asks for a page, and its answer says where to go on from there.
///
/// A server that does not know the key leads to the page that was asked for.
#[must_use]
pub fn leads_on(arguments: &str, shown: &str) -> bool {
    let mut places = NEXT.find_all(shown).filter_map(place_in);
    asks_page(arguments) && places.any(|place| !arguments.contains(place))
}

/// The value of a key in quotes.
fn place_in(told: &str) -> Option<&str> {
    told.rsplit(['"', '\\']).find(|part| !part.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_compared_without_its_place() {
        let read = |shown| page_of(r#"{"page":3}"#, shown).expect("it is a page");
        for (one, two) in [
            (
                r#"{"items":["a"],"page":3,"next_page":4}"#,
                r#"{"items":["a"],"page":4,"next_page":null}"#,
            ),
            (
                r#"{"data":["a"],"links":{"next":"/a?page=4","self":"/a?page=3"}}"#,
                r#"{"data":["a"],"links":{"next":"/a?page=5","self":"/a?page=4"}}"#,
            ),
            (r#"Page 3 of 8: ["a", "b"]"#, r#"Page 4 of 8: ["a", "b"]"#),
        ] {
            assert_eq!(read(one), read(two));
        }
        let other = r#"{"items":["b"],"page":4}"#;
        assert_ne!(read(r#"{"items":["a"],"page":3}"#), read(other));
        assert_eq!(page_of(r#"{"page":3}"#, "3 rows saved"), None);
        assert_eq!(page_of(r#"{"limit":3}"#, other), None);
    }

    #[test]
    fn a_page_leads_to_another_one() {
        let leads = |shown| leads_on(r#"{"cursor":"c1"}"#, shown);
        assert!(leads(r#"{"items":[],"next_cursor":"c2"}"#));
        assert!(!leads(r#"{"items":[],"next_cursor":"c1"}"#));
        assert!(!leads(r#"{"items":[],"next_cursor":null}"#));
        assert!(!leads_on(r#"{"q":"a"}"#, r#"{"next_cursor":"c2"}"#));
    }
}
