//! What a short text says, in whatever order and in whatever words that only join or ask.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::LazyLock;

use foldhash::{HashMap, HashMapExt};
use regex::Regex;
use serde::{Deserialize, Serialize};

use super::text::head;
use crate::patterns::{pattern, rows};
use crate::tables::ROUNDS;

// A longer text says more than one thing.
const GIST_CHARS: usize = 600;
// Words are alike by their first characters: "parcel", "parcels".
const STEM_CHARS: usize = 4;
// The stems of both of all stems, in tenths, that make two texts alike.
const SHARED_TENTHS: usize = 6;
// Fewer stems than these stand in texts about many things.
const PART_STEMS_MIN: usize = 3;
// So many words that differ in their places may be another thing in the same sentence.
const FILLED_MAX: usize = 2;

const GISTS_KEPT: usize = 1_000;

rows! {
    JOINING: Pattern = ROUNDS["joining_words"];
}

static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\w'’.:/@#-]*\w"));

thread_local! {
    // Each later history has the messages of the earlier ones.
    static KEPT: RefCell<HashMap<String, Option<Rc<Gist>>>> = RefCell::new(HashMap::new());
}

/// The stems of a text, and what it names: numbers, names, addresses.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Gist {
    words: Vec<String>,
    stems: BTreeSet<String>,
    names: BTreeSet<String>,
}

impl Gist {
    /// Read a text; `None` if it is long, or all its words only join or ask.
    #[must_use]
    pub fn of(text: &str) -> Option<Rc<Self>> {
        let shown = head(text, GIST_CHARS);
        if shown.len() < text.len() {
            return None;
        }
        if let Some(gist) = KEPT.with_borrow(|kept| kept.get(shown).cloned()) {
            return gist;
        }
        let gist = Self::read(shown).map(Rc::new);
        KEPT.with_borrow_mut(|kept| {
            if kept.len() >= GISTS_KEPT {
                kept.clear();
            }
            kept.insert(shown.to_owned(), gist.clone());
        });
        gist
    }

    fn read(shown: &str) -> Option<Self> {
        let mut gist = Self::default();
        let mut begins = true;
        for found in WORD.find_iter(shown) {
            let word = found.as_str();
            if !begins && is_name(word) || word.contains(|sign: char| sign.is_numeric()) {
                gist.names.insert(word.to_owned());
            }
            let lower = word.to_lowercase();
            if !is_joining(&lower) {
                gist.stems.insert(head(&lower, STEM_CHARS).to_owned());
            }
            gist.words.push(lower);
            begins = shown[found.end()..]
                .trim_start_matches(' ')
                .starts_with(ENDS);
        }
        (!gist.stems.is_empty()).then_some(gist)
    }

    /// Whether another text says the same of the same things.
    ///
    /// Another word in its place is another thing: "the price of apples", "the price of pears".
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        if self.names != other.names {
            return false;
        }
        if self.words.len() == other.words.len() {
            let pairs = self.words.iter().zip(&other.words);
            let differ = pairs.filter(|(one, two)| one != two).count();
            if differ <= FILLED_MAX {
                return differ == 0;
            }
        }
        let both = self.stems.intersection(&other.stems).count();
        let all = self.stems.union(&other.stems).count();
        10 * both >= SHARED_TENTHS * all
    }

    /// Whether one of two texts has all that the other asks for.
    #[must_use]
    pub fn is_part(&self, other: &Self) -> bool {
        let is_within = self.stems.is_subset(&other.stems) || other.stems.is_subset(&self.stems);
        self.names == other.names && is_within && self.words.len() != other.words.len()
    }

    /// Whether it says enough to be compared.
    #[must_use]
    pub fn says_enough(&self) -> bool {
        self.says(PART_STEMS_MIN)
    }

    /// Whether it has so many stems.
    #[must_use]
    pub fn says(&self, stems_min: usize) -> bool {
        self.stems.len() >= stems_min
    }
}

const ENDS: [char; 6] = ['.', '!', '?', '\n', ':', ';'];

/// Whether a word in lower case only joins others or puts a question.
#[must_use]
pub fn is_joining(word: &str) -> bool {
    JOINING.is_match(word)
}

/// Whether a word within a sentence is a name.
fn is_name(word: &str) -> bool {
    word != "I" && !word.starts_with("I'") && word.starts_with(char::is_uppercase)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gist(text: &str) -> Rc<Gist> {
        Gist::of(text).unwrap_or_default()
    }

    #[test]
    fn a_question_in_other_words_asks_the_same() {
        let one = gist("Where is my parcel?");
        for same in [
            "Can you tell me where my parcel is?",
            "I still need to know where the parcel is",
            "So where is that parcel now?",
        ] {
            assert!(one.is_part(&gist(same)), "{same}");
        }
        for other in [
            "Where is my invoice?",
            "Where is parcel 7?",
            "Is Ada at home?",
        ] {
            assert!(!one.is_part(&gist(other)), "{other}");
        }
    }

    #[test]
    fn an_answer_in_other_words_says_the_same() {
        let one = gist("Your order is being processed. Please see the tracking page for updates.");
        let same = gist("For updates see the tracking page; your order is still processed.");
        assert!(one.is_like(&same));
        let price = gist("The price of apples in the market is low.");
        assert!(!price.is_like(&gist("The price of pears in the market is low.")));
        assert!(!one.is_like(&gist("Your parcel left the harbour and comes tomorrow.")));
        assert!(Gist::of("Is it?").is_none());
    }
}
