//! Apologies that an agent sends, in other words each time, and calls nothing else.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use crate::count::codes::code;
use crate::patterns::{pattern, replaced, rows};
use crate::same::gist::is_joining;
use crate::same::text::{head, is_dense, is_longer};
use crate::tables::MARKS;

rows! {
    APOLOGIES: Pattern = MARKS["apologies"];
    JOINING: Pattern = MARKS["joining_elsewhere"];
    DECLINES: Pattern = MARKS["declines"];
    DECLINES_ON: Pattern = MARKS["declines_on"];
}

// A sign of a script without spaces between words, or a word of another one.
static WORD: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r"[\p{Han}\p{Hiragana}\p{Katakana}]|[\w--[\p{Han}\p{Hiragana}\p{Katakana}]]+")
});

// Of a longer text no more pairs are read.
const PAIRS_MAX: usize = 64;
// What is longer says more than that.
const APOLOGY_CHARS: usize = 400;
const DECLINED_CHARS: usize = 200;
// Words are alike by their first characters; shorter ones stand in any sentence.
const STEM_CHARS: usize = 4;
// Pairs of signs that both have, in a script without spaces.
const PAIRS_MIN: usize = 2;
// Two texts that differ in one place of at most this part of their words are one form of words.
const FORM_PARTS: usize = 3;

/// What an apology says beside that it is one.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Apology {
    words: Vec<String>,
    stems: BTreeSet<String>,
    names: BTreeSet<String>,
    numbers: BTreeSet<String>,
    pairs: Vec<i64>,
}

/// Whether the arguments of a call that tells somebody something hold an apology.
#[must_use]
pub fn apologises(arguments: &str) -> bool {
    APOLOGIES.is_match(arguments)
}

/// Whether an answer says that somebody cannot do what is asked, and nothing else.
///
/// A number, a list or a colon tells something, and so does another sentence that is no advice.
#[must_use]
pub fn declines(answer: &str) -> bool {
    let tells = |sign: char| sign.is_numeric() || matches!(sign, ':' | ';' | '"' | '\n');
    let answer = answer.trim();
    if is_longer(answer, DECLINED_CHARS) || answer.contains(tells) {
        return false;
    }
    let said = without_apologies(answer);
    if said.is_empty() {
        return said.len() < answer.len();
    }
    let mut sentences = said.split_terminator(['.', '!', '?', '。']).map(str::trim);
    sentences
        .next()
        .is_some_and(|first| DECLINES.is_match(first))
        && sentences.all(|next| {
            let next = without_apologies(next);
            next.is_empty() || DECLINES_ON.is_match(next) || DECLINES.is_match(next)
        })
}

/// A text without the apologies with which it begins.
fn without_apologies(text: &str) -> &str {
    let mut rest = text.trim_start_matches(|sign: char| !sign.is_alphanumeric());
    while let Some(place) = APOLOGIES
        .find_at(rest, 0)
        .filter(|place| place.start == 0 && place.end > 0)
    {
        rest = rest[place.end..].trim_start_matches(|sign: char| !sign.is_alphanumeric());
    }
    rest
}

impl Apology {
    /// Read a text; `None` if it is long, or no apology.
    #[must_use]
    pub fn of(text: &str) -> Option<Self> {
        APOLOGIES
            .is_match(head(text, APOLOGY_CHARS))
            .then(|| Self::about(text))?
    }

    /// Read what a text is about, apology or not; `None` if it is long.
    #[must_use]
    pub fn about(text: &str) -> Option<Self> {
        let shown = head(text, APOLOGY_CHARS);
        if shown.len() < text.len() {
            return None;
        }
        let rest = replaced(shown.into(), &APOLOGIES, " ");
        let mut apology = Self {
            pairs: pairs_of(&rest),
            ..Self::default()
        };
        let mut begins = true;
        for found in WORD.find_iter(&rest) {
            let word = found.as_str();
            let lower = word.to_lowercase();
            if word.contains(|sign: char| sign.is_numeric()) {
                apology.numbers.insert(lower.clone());
            } else if !begins && word.starts_with(char::is_uppercase) && word.len() > 1 {
                apology.names.insert(lower.clone());
            }
            if is_content(&lower) && lower.chars().count() >= STEM_CHARS {
                apology.stems.insert(head(&lower, STEM_CHARS).to_owned());
            }
            apology.words.push(lower);
            begins = rest[found.end()..].starts_with(['.', '!', '?', ';', '\n']);
        }
        Some(apology)
    }

    /// Whether another one is about the same, in whatever words.
    ///
    /// Another name or number is about something else, and so is another word in the same sentence.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        let names_no_other = self.names.is_empty()
            || other.names.is_empty()
            || !self.names.is_disjoint(&other.names);
        let shared = other.pairs.iter().filter(|pair| self.pairs.contains(pair));
        self.numbers == other.numbers
            && names_no_other
            && (!self.stems.is_disjoint(&other.stems) || shared.count() >= PAIRS_MIN)
            && !self.is_form_of(other)
    }

    /// Whether both are one form of words, filled in another way.
    fn is_form_of(&self, other: &Self) -> bool {
        let (one, two) = (&self.words, &other.words);
        let same = |(a, b): &(&String, &String)| a == b;
        let before = one.iter().zip(two).take_while(same).count();
        let (one_rest, two_rest) = (&one[before..], &two[before..]);
        let ends = one_rest.iter().rev().zip(two_rest.iter().rev());
        let after = ends.take_while(same).count();
        let (one_rest, two_rest) = (
            &one_rest[..one_rest.len() - after],
            &two_rest[..two_rest.len() - after],
        );
        let says = |words: &[String]| words.iter().any(|word| is_content(word));
        let differing = one_rest.len().max(two_rest.len());
        says(one_rest)
            && says(two_rest)
            && differing * FORM_PARTS < one.len().max(two.len()) + FORM_PARTS
    }
}

/// The codes of pairs of signs of a script without spaces between words; a sign alone is one, too.
#[must_use]
pub fn pairs_of(text: &str) -> Vec<i64> {
    let runs = text
        .split(|sign| !is_dense(sign))
        .filter(|run| !run.is_empty());
    let pairs = runs.flat_map(|run| {
        let places: Vec<usize> = run.char_indices().map(|(at, _)| at).collect();
        let ends = places.iter().skip(2).copied().chain([run.len()]);
        let parts = places
            .iter()
            .zip(ends)
            .map(|(from, to)| code(&run[*from..to]));
        parts.collect::<Vec<_>>()
    });
    pairs.take(PAIRS_MAX).collect()
}

fn is_content(word: &str) -> bool {
    !is_joining(word) && !JOINING.is_match(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn like(one: &str, two: &str) -> bool {
        let read = |text| Apology::of(text).expect("an apology");
        read(one).is_like(&read(two))
    }

    #[test]
    fn an_apology_in_other_words_is_the_same() {
        for (one, two) in [
            (
                "I'm sorry, I could not find your parcel.",
                "Apologies, but your parcel could not be located.",
            ),
            (
                "Leider kann ich Ihre Sendung nicht finden.",
                "Es tut mir leid, Ihre Sendung ist nicht auffindbar.",
            ),
            ("很抱歉，我找不到您的包裹。", "对不起，系统里没有您的包裹。"),
        ] {
            assert!(like(one, two), "{one} {two}");
        }
    }

    #[test]
    fn who_declines_tells_nothing_else() {
        for answer in [
            "I'm sorry, but I'm unable to process this request at the moment.",
            "I don't have access to the figures. Please ask the data analyst.",
            "The check was not possible. Apologies!",
            "Sorry!",
            "Leider kann ich das nicht tun.",
            "抱歉，我无法处理您的请求。",
        ] {
            assert!(declines(answer), "{answer}");
        }
        for answer in [
            "I can't find order 7.",
            "I cannot reproduce it. The log says no.",
            "I can't share the plan, so I wrote: no plan",
            "It is done.",
            "No.",
            "",
        ] {
            assert!(!declines(answer), "{answer}");
        }
        assert!(!declines(&format!(
            "I can't. Please {}",
            "wait ".repeat(60)
        )));
    }

    #[test]
    fn an_apology_for_something_else_is_another() {
        for (one, two) in [
            (
                "Sorry Ada, your order is late.",
                "Sorry Bo, your order is late.",
            ),
            (
                "Ada, sorry, the order is late.",
                "Bo, sorry, the order is late.",
            ),
            ("Sorry, order 8 is late.", "My apologies, order 9 is late."),
            (
                "Sorry, the shop is closed.",
                "Unfortunately we ship no wine.",
            ),
            (
                "抱歉，张伟，您的订单已延迟。",
                "抱歉，王芳，您的订单已延迟。",
            ),
        ] {
            assert!(!like(one, two), "{one} {two}");
        }
        assert!(Apology::of("Your order is late.").is_none());
    }
}
