//! Pages by which a service keeps programs out, for good or for a while.

use super::text::head;
use crate::patterns::rows;
use crate::tables::FAILURES;

// The title of a page stands at its beginning.
const HEAD_CHARS: usize = 1_000;
// So many tags and lines may stand before it.
const BEFORE_TITLE_MAX: usize = 12;

rows! {
    BLOCK_PAGE: Pattern = FAILURES["block_pages"];
    BEFORE_TITLE: Pattern = FAILURES["before_titles"];
}

/// The beginning of a page by which a service keeps programs out.
#[must_use]
pub fn block_page(result: &str) -> Option<&str> {
    let title = title_of(head(result, HEAD_CHARS));
    BLOCK_PAGE.find_at(title, 0).map(|place| &title[place])
}

/// A page from its title on, without the tags, the address and the status before it.
fn title_of(page: &str) -> &str {
    let mut rest = page;
    for _ in 0..BEFORE_TITLE_MAX {
        rest = rest.trim_start_matches(|sign: char| !(sign.is_alphanumeric() || sign == '<'));
        let after = if rest.starts_with('<') {
            rest.split_once('>').map(|(_, after)| after)
        } else {
            let line = BEFORE_TITLE.find_at(rest, 0);
            line.map(|line| &rest[line.end..])
        };
        let Some(after) = after else { break };
        rest = after;
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_read_below_an_address_a_status_and_tags() {
        for page in [
            "Title: Robot or human?\nNo",
            "<!DOCTYPE html><html lang=\"en\">\n<head><title>Robot or human?</title>",
            "URL: https://a.example/b\nStatus: 403\nTitle: Robot or human?",
        ] {
            assert_eq!(block_page(page), Some("Robot or human?"), "{page}");
        }
        assert_eq!(block_page("He asked: Robot or human?"), None);
    }
}
