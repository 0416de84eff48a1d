//! Messages that a hook, a goal or a wrapper writes for each round.

use std::cell::RefCell;
use std::slice::from_ref;
use std::sync::{Arc, LazyLock};

use foldhash::{HashMap, HashMapExt};

use fancy_regex::Regex as Fancy;
use regex::Regex;

use super::span::hash_of;
use crate::fields::message::Message;
use crate::patterns::{around, pattern};
use crate::same::masks::masked;
use crate::same::text::head;
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
    static KEPT: RefCell<HashMap<u64, Option<String>>> = RefCell::new(HashMap::new());
}

/// The words of the last message if it follows an answer, and came before; else `None`.
#[must_use]
pub fn comes_again(given: &[Arc<Message>]) -> Option<String> {
    let [earlier @ .., before, last] = given else {
        return None;
    };
    if earlier.is_empty() || before.role != "assistant" || !before.calls.is_empty() {
        return None;
    }
    before.text.as_ref().filter(|text| !text.is_empty())?;
    let words = round_words(from_user(last)?)?;
    let came = |text: &str| round_words(text).as_deref() == Some(&*words);
    earlier
        .iter()
        .filter_map(|message| from_user(message))
        .any(came)
        .then_some(words)
}

fn from_user(message: &Message) -> Option<&str> {
    let text = message.text.as_deref().filter(|text| !text.is_empty())?;
    (message.role == "user" && message.results.is_empty()).then_some(text)
}

/// A message without ids and numbers of rounds; `None` if it has few words.
#[must_use]
pub fn round_words(text: &str) -> Option<String> {
    let text = head(text, ROUND_CHARS);
    let key = hash_of(text);
    if let Some(words) = KEPT.with_borrow(|kept| kept.get(&key).cloned()) {
        return words;
    }
    let mut words = masked(text, &[], false).to_lowercase();
    for (form, name) in FORMS.iter() {
        words = form.replace_all(&words, *name).into_owned();
    }
    let is_long = PLAIN_WORD.find_iter(&words).count() >= ROUND_WORDS_MIN;
    let words = is_long.then_some(words);
    KEPT.with_borrow_mut(|kept| {
        if kept.len() >= ROUNDS_KEPT {
            kept.clear();
        }
        kept.insert(key, words.clone());
    });
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(role: &str, text: &str) -> Arc<Message> {
        let (role, text) = (role.to_owned(), Some(text.to_owned()));
        Arc::new(Message {
            role,
            text,
            ..Message::default()
        })
    }

    #[test]
    fn a_message_comes_again_with_another_number() {
        let goal = |round: u8| {
            said(
                "user",
                &format!("Round {round}: go on until all tests pass."),
            )
        };
        let done = said("assistant", "I will.");
        let given = [goal(1), done.clone(), goal(2)];
        assert!(comes_again(&given).is_some());
        assert!(comes_again(&[goal(1), goal(2)]).is_none());
        assert!(
            comes_again(&[
                said("user", "Mend page 3 of the whole book."),
                done,
                goal(2)
            ])
            .is_none()
        );
    }
}
