//! Messages that a hook, a goal or a wrapper writes for each round, without what differs.

use std::cell::RefCell;
use std::slice::from_ref;
use std::sync::LazyLock;

use fancy_regex::Regex as Fancy;
use foldhash::{HashMap, HashMapExt};
use regex::Regex;

use super::masks::masked;
use super::text::{head, is_dense};
use crate::patterns::{around, pattern};
use crate::tables::ROUNDS;

// Of a message no more is read, and one of fewer words may be a person's "Go on." each time.
const ROUND_CHARS: usize = 2_000;
const ROUND_WORDS_MIN: usize = 5;
const ROUNDS_KEPT: usize = 1_000;

static FORMS: LazyLock<Vec<(Fancy, &'static str)>> = LazyLock::new(|| {
    let rows = ROUNDS["rounds"].iter();
    rows.map(|row| (around(from_ref(row)), &*row.mask))
        .collect()
});
static PLAIN_WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[^\W\d_]+"));

thread_local! {
    // Each later history has the messages of the earlier ones.
    static KEPT: RefCell<HashMap<String, Option<String>>> = RefCell::new(HashMap::new());
}

/// How many words a text has; in scripts without spaces two signs are some word.
fn plain_words_in(text: &str) -> usize {
    let dense = text.chars().filter(|sign| is_dense(*sign)).count();
    let parts = PLAIN_WORD.find_iter(text);
    let spaced = parts.filter(|part| !part.as_str().contains(is_dense));
    spaced.count() + dense.div_ceil(2)
}

/// A message without ids and numbers of rounds; `None` if it has few words.
#[must_use]
pub fn round_words(text: &str) -> Option<String> {
    let text = head(text, ROUND_CHARS);
    if let Some(words) = KEPT.with_borrow(|kept| kept.get(text).cloned()) {
        return words;
    }
    let mut words = masked(text, &[], false).to_lowercase();
    for (form, name) in FORMS.iter() {
        words = form.replace_all(&words, *name).into_owned();
    }
    let is_long = plain_words_in(&words) >= ROUND_WORDS_MIN;
    let words = is_long.then_some(words);
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= ROUNDS_KEPT {
            kept.clear();
        }
        kept.insert(text.to_owned(), words.clone());
    });
    words
}
