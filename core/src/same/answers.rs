//! What a response says, without what a model puts around it: thoughts, tags, marks and labels.

use std::borrow::Cow;

use super::json::{canonical, parsed};
use super::text::{head, one_spaced};
use crate::patterns::{replaced, rows};
use crate::tables::MASKS;

rows! {
    WRAPPINGS: Pattern = MASKS["wrappings"];
}

// A label ends within so many characters.
const LABEL_CHARS: usize = 40;
// What may stand at the end of a sentence, or not.
const ENDS: [char; 2] = ['.', ' '];

/// The words of a response as they are compared; all of it where nothing else is left.
#[must_use]
pub fn said(response: &str) -> Cow<'_, str> {
    let whole = response.trim();
    let bare = bare(whole);
    let bare = one_spaced(bare);
    match bare.trim().trim_end_matches(ENDS) {
        "" => Cow::Borrowed(whole),
        said => Cow::Owned(said.to_owned()),
    }
}

/// A response without its wrappings; an object in one form.
fn bare(whole: &str) -> Cow<'_, str> {
    let has_mark = whole.contains(['<', '>', '`', '*', '{']) || whole.contains("__");
    if !has_mark && !head(whole, LABEL_CHARS).contains(": ") {
        return Cow::Borrowed(whole);
    }
    let bare = replaced(Cow::Borrowed(whole), &WRAPPINGS, "");
    let value = bare.trim_start().starts_with('{').then(|| parsed(&bare));
    value
        .flatten()
        .and_then(|value| canonical(&value))
        .map_or(bare, Cow::Owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_answer_is_the_same_in_any_wrapping() {
        for text in [
            "<thinking>Add the rows.</thinking>\n<answer>The total is 42.</answer>",
            "<reflection step=\"3\">Once more.</reflection><output>The total is 42.</output>",
            "Thought: add them\nand again\nFinal Answer: The total is 42",
            "**The total\nis 42.**",
            "> The total is 42.",
            "Result: The total is 42.",
        ] {
            assert_eq!(said(text), "The total is 42", "{text}");
        }
        let object = said("```json\n{\"answer\": \"42\"}\n```");
        assert_eq!(object, said("{ \"answer\" : \"42\" }"));
    }

    #[test]
    fn what_has_nothing_else_stays() {
        for text in [
            "<thinking>Add the rows.</thinking>",
            "...",
            "The total is 41",
        ] {
            assert_eq!(said(text), text);
        }
        assert_ne!(said("2 * 3"), said("23"));
    }
}
