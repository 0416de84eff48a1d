//! The values that a search is given, and which of them are alike.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::apologies::{Apology, pairs_of};
use super::notes::gist_of;
use super::statements::statement_of;
use crate::count::codes::{UNKNOWN, code};
use crate::patterns::{pattern, rows};
use crate::same::gist::Gist;
use crate::same::notations::digits_of_date;
use crate::same::text::{head, words_in};
use crate::tables::MARKS;

rows! {
    SEARCHED: Pattern = MARKS["searched_keys"];
    RUN: Pattern = MARKS["run_keys"];
    PLACES: Pattern = MARKS["place_keys"];
}

// What joins the parts of an address or a path, and the words of a name.
static PARTS: LazyLock<Regex> = LazyLock::new(|| pattern(r#"[^@./:\\=,;#?&|<>${}()\s"'`]+"#));
static WORDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Z]?[\p{L}--[A-Z]]+|[A-Z]+|[0-9]+"));

// What is longer is a program, or a text of its own.
const ASKED_CHARS: usize = 1_000;
const ASKED_WORDS_MAX: usize = 64;
// Of so many words of a command, one may be another.
const NEAR_WORDS: usize = 12;
// Words are alike by their first characters: "refunds", "refunding".
const STEM_CHARS: usize = 4;
// Shorter words stand in any sentence.
const WORD_CHARS_MIN: usize = 3;

/// A word between spaces: its code, that of a file without its folders, and of each of its parts
/// the code and the stems of its words.
type Word = (i64, i64, Vec<(i64, Vec<i64>)>);

/// A value of what a search asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct AskedValue {
    pub(super) key: i64,
    pub(super) code: i64,
    /// It says what is searched for, as a query does.
    pub(super) is_searched: bool,
    /// Whether it says where that is searched for, as a folder does.
    #[serde(default)]
    is_place: bool,
    /// Whether all that differs may be a number: a time, an id.
    pub(super) has_digit: bool,
    /// The codes of its pairs of signs, where it has no spaces between words.
    pairs: Vec<i64>,
    /// Whether it is what is run, as a command is.
    pub(super) runs: bool,
    /// The codes of its words, short ones too.
    pub(super) spoken: Vec<i64>,
    words: Vec<Word>,
    /// What it says, if it is a sentence of a note.
    #[serde(default)]
    pub(super) gist: Option<Gist>,
    /// What it says, if it is an apology.
    #[serde(default)]
    pub(super) apology: Option<Apology>,
    /// The codes of the words of a statement of SQL, without its aliases' places; empty for others.
    #[serde(default)]
    statement: BTreeSet<i64>,
}

impl AskedValue {
    /// Read a value under a key.
    pub fn of(key: &str, text: &str) -> Self {
        let read = head(text, ASKED_CHARS);
        // The parts of a date say nothing apart: two days of a month are two things.
        let day = digits_of_date(read);
        let read = day.as_deref().unwrap_or(read);
        let words = read.split_whitespace().take(ASKED_WORDS_MAX);
        Self {
            key: code(key),
            code: code(text),
            is_searched: SEARCHED.is_match(key),
            is_place: PLACES.is_match(key),
            runs: RUN.is_match(key),
            has_digit: read.contains(|sign: char| sign.is_ascii_digit()),
            pairs: pairs_of(read),
            spoken: words
                .clone()
                .map(|word| code(&word.to_lowercase()))
                .collect(),
            words: words.map(word_of).collect(),
            gist: None,
            apology: None,
            statement: statement_of(read),
        }
    }

    /// The same of a note.
    pub fn noted(key: &str, text: &str) -> Self {
        Self {
            gist: gist_of(text),
            apology: Apology::of(text),
            ..Self::of(key, text)
        }
    }

    /// The same of a request that was declined, which need only be about the same.
    pub fn declined(key: &str, text: &str) -> Self {
        Self {
            apology: Apology::about(text),
            ..Self::noted(key, text)
        }
    }

    /// Whether one has all words of the other; another number is another thing.
    pub fn is_spelling(&self, other: &Self) -> bool {
        let stems = |value: &Self| -> BTreeSet<i64> {
            let parts = value.words.iter().flat_map(|word| &word.2);
            parts.flat_map(|part| part.1.iter().copied()).collect()
        };
        let (one, two) = (stems(self), stems(other));
        !(self.has_digit || other.has_digit || one.is_empty() || two.is_empty())
            && (one.is_subset(&two) || two.is_subset(&one))
    }

    /// Whether two notes say the same.
    pub fn says_again(&self, other: &Self) -> bool {
        let gists = self.gist.as_ref().zip(other.gist.as_ref());
        let apologies = self.apology.as_ref().zip(other.apology.as_ref());
        self.code == other.code
            || gists.is_some_and(|(one, two)| one.is_like(two))
            || apologies.is_some_and(|(one, two)| one.is_like(two))
    }

    /// Whether both are places, and neither may be a part of the other, as a folder is of another.
    pub fn is_elsewhere(&self, other: &Self) -> bool {
        let parts = |value: &Self| -> Vec<i64> {
            let words = value.words.iter().flat_map(|word| &word.2);
            words.map(|part| part.0).collect()
        };
        let (one, two) = (parts(self), parts(other));
        let holds = |a: &[i64], b: &[i64]| a.starts_with(b) || a.ends_with(b);
        self.is_place && other.is_place && !(holds(&one, &two) || holds(&two, &one))
    }

    /// Whether one has all words of the other, and more; of a long one, few may be others.
    pub fn is_near(&self, other: &Self) -> bool {
        let (one, two) = (&self.statement, &other.statement);
        if !(one.is_empty() || two.is_empty()) {
            return one.is_subset(two) || two.is_subset(one);
        }
        let (one, two) = (&self.spoken, &other.spoken);
        let lacks = |a: &[i64], b: &[i64]| a.iter().filter(|word| !b.contains(word)).count();
        one.len() != two.len()
            && lacks(one, two).min(lacks(two, one)) * NEAR_WORDS <= one.len().min(two.len())
    }

    /// Whether a word of one is like one of the other; in a command, one in the same place.
    pub fn is_like(&self, other: &Self, has_places: bool) -> bool {
        match (self.pairs.is_empty(), other.pairs.is_empty()) {
            (true, true) => {}
            (false, false) => return self.pairs.iter().any(|pair| other.pairs.contains(pair)),
            _ => return true,
        }
        if has_places {
            let mut pairs = self.words.iter().zip(&other.words);
            return self.words.len() != other.words.len()
                || pairs.any(|(one, two)| one.0 != two.0 && words_like(one, two));
        }
        let is_like =
            |one: &Word, two: &Word| (one.0 == two.0 && one.0 != UNKNOWN) || words_like(one, two);
        let mut words = self.words.iter();
        words.any(|one| other.words.iter().any(|two| is_like(one, two)))
    }
}

fn word_of(word: &str) -> Word {
    let is_long = word.chars().count() >= WORD_CHARS_MIN;
    let whole = if is_long {
        code(&word.to_lowercase())
    } else {
        UNKNOWN
    };
    let parts = PARTS.find_iter(word).map(|part| {
        let stems = words_in(part.as_str(), &WORDS).filter_map(stem_of);
        (code(&part.as_str().to_lowercase()), stems.collect())
    });
    let file = word.rsplit_once('/').map(|(_, file)| file);
    let file = file.filter(|file| !file.is_empty()).map(code);
    (whole, file.unwrap_or(UNKNOWN), parts.collect())
}

fn stem_of(word: &str) -> Option<i64> {
    let long =
        word.chars().count() >= STEM_CHARS && !word.starts_with(|c: char| c.is_ascii_digit());
    long.then(|| code(&head(word, STEM_CHARS).to_lowercase()))
}

fn words_like(one: &Word, two: &Word) -> bool {
    (one.1 == two.1 && one.1 != UNKNOWN) || parts_like(&one.2, &two.2)
}

/// Whether parts of words are alike: where as many stand, those that differ; else any.
///
/// Two names are alike if one has all words of the other: names of many things share some.
fn parts_like(one: &[(i64, Vec<i64>)], two: &[(i64, Vec<i64>)]) -> bool {
    let is_in = |a: &[i64], b: &[i64]| !a.is_empty() && a.iter().all(|stem| b.contains(stem));
    let share = |a: &[i64], b: &[i64]| is_in(a, b) || is_in(b, a);
    if one.len() == two.len() {
        let mut pairs = one.iter().zip(two);
        let differs = one.iter().zip(two).any(|(a, b)| a.0 != b.0);
        return !differs && !one.is_empty() || pairs.any(|(a, b)| a.0 != b.0 && share(&a.1, &b.1));
    }
    one.iter().any(|a| two.iter().any(|b| share(&a.1, &b.1)))
}
