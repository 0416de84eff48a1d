//! Patterns that are found fast in any text, and forms of which a text has any or none.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use regex::{Captures, Regex, bytes};

use crate::tables::{Row, any_of};
use crate::words::{self, Rows};

/// Compile a pattern that stands in the code or in a table; the tests of the core compile each.
#[must_use]
pub fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Statics of patterns or forms, each of the rows of one array or of several.
macro_rules! rows {
    ($(
        $(#[$says:meta])*
        $seen:vis $name:ident: $kind:ident = $($table:ident[$array:literal])|+;
    )+) => {
        $(
            $(#[$says])*
            $seen static $name: std::sync::LazyLock<$crate::patterns::$kind> =
                std::sync::LazyLock::new(|| {
                    $crate::patterns::$kind::any(&[$(&$table[$array][..]),+].concat())
                });
        )+
    };
}
pub(crate) use rows;

/// Compile rows that look around a match. A match that takes too many steps is none.
#[must_use]
pub fn around(rows: &[Row]) -> fancy_regex::Regex {
    let text = any_of(rows);
    fancy_regex::Regex::new(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

/// Replace each match where there is one, without a copy where there is none.
#[must_use]
pub fn replaced<'a>(text: Cow<'a, str>, pattern: &Pattern, name: &str) -> Cow<'a, str> {
    let changed = if text.is_ascii() {
        match pattern
            .all
            .ascii()
            .replace_all(text.as_bytes(), name.as_bytes())
        {
            Cow::Borrowed(_) => None,
            Cow::Owned(changed) => String::from_utf8(changed).ok(),
        }
    } else {
        match pattern.whole().replace_all(&text, name) {
            Cow::Borrowed(_) => None,
            Cow::Owned(changed) => Some(changed),
        }
    };
    changed.map_or(text, Cow::Owned)
}

/// The place of the next character; one further than the end after the last.
#[must_use]
pub fn next_place(text: &str, at: usize) -> usize {
    at + text[at..].chars().next().map_or(1, char::len_utf8)
}

/// A pattern that is found fast in any text.
///
/// Where words begin and end among letters beyond ASCII is found a hundred times slower than all
/// else, and most texts have no such letters. So a text of ASCII is read by a pattern for ASCII,
/// which finds the same there, and any other text is first looked through without borders of words.
/// Each is compiled when the first such text comes.
#[derive(Clone, Debug)]
struct One {
    text: String,
    whole: OnceLock<Regex>,
    ascii: OnceLock<bytes::Regex>,
    borderless: OnceLock<Regex>,
}

impl One {
    fn new(text: String) -> Self {
        Self {
            text,
            whole: OnceLock::new(),
            ascii: OnceLock::new(),
            borderless: OnceLock::new(),
        }
    }

    fn is_match(&self, text: &str) -> bool {
        if text.is_ascii() {
            return self.ascii().is_match(text.as_bytes());
        }
        self.may_match(text) && self.whole().is_match(text)
    }

    fn find_at(&self, text: &str, at: usize) -> Option<Range<usize>> {
        if text.is_ascii() {
            return Some(self.ascii().find_at(text.as_bytes(), at)?.range());
        }
        Some(self.whole().find_at(text, at)?.range())
    }

    fn whole(&self) -> &Regex {
        self.whole.get_or_init(|| pattern(&self.text))
    }

    fn ascii(&self) -> &bytes::Regex {
        let make = || {
            bytes::Regex::new(&words::in_ascii(&self.text))
                .unwrap_or_else(|error| panic!("{}: {error}", self.text))
        };
        self.ascii.get_or_init(make)
    }

    fn may_match(&self, text: &str) -> bool {
        let make = || pattern(&self.text.replace(r"\b", ""));
        !self.text.contains(r"\b") || self.borderless.get_or_init(make).is_match(text)
    }
}

/// A pattern of rows, each of which reads a text only where this has a word that the row needs.
#[derive(Clone, Debug)]
pub struct Pattern {
    all: One,
    forms: Vec<String>,
    parts: OnceLock<Parts>,
}

/// The rows of a pattern: those that any text may have, and each that needs a word.
#[derive(Clone, Debug)]
struct Parts {
    free: Option<One>,
    bound: Vec<(Rows, One)>,
}

impl Parts {
    fn of(forms: &[String]) -> Self {
        let (mut free, mut bound) = (Vec::new(), Vec::new());
        for form in forms {
            let Some(split) = words::split(form) else {
                free.push(form);
                continue;
            };
            let (row, words) = &split.bound;
            bound.push((*row, One::new(words.clone())));
            free.extend(&split.free);
        }
        Self {
            free: (!free.is_empty()).then(|| One::new(any_of(&free))),
            bound,
        }
    }

    fn is_match(&self, text: &str) -> bool {
        if self.free.as_ref().is_some_and(|free| free.is_match(text)) {
            return true;
        }
        if self.bound.is_empty() {
            return false;
        }
        let found = words::found(text);
        let mut bound = self.bound.iter();
        bound.any(|(row, one)| found.meets(*row) && one.is_match(text))
    }
}

impl From<&Row> for Pattern {
    fn from(row: &Row) -> Self {
        Self::new(row.pattern.clone())
    }
}

impl Pattern {
    /// A pattern in the syntax of the crate `regex`, without a backslash and a `b` of their own.
    #[must_use]
    pub fn new(text: String) -> Self {
        Self::of(vec![text])
    }

    /// A pattern that finds any of these rows.
    #[must_use]
    pub fn any(rows: &[Row]) -> Self {
        Self::of(rows.iter().map(|row| row.pattern.clone()).collect())
    }

    fn of(forms: Vec<String>) -> Self {
        Self {
            all: One::new(any_of(&forms)),
            forms,
            parts: OnceLock::new(),
        }
    }

    /// Whether a text has it.
    #[must_use]
    pub fn is_match(&self, text: &str) -> bool {
        let parts = self.parts.get_or_init(|| Parts::of(&self.forms));
        parts.is_match(text)
    }

    /// The place of the first match from a place on.
    #[must_use]
    pub fn find_at(&self, text: &str, at: usize) -> Option<Range<usize>> {
        self.all.find_at(text, at)
    }

    /// The texts of all matches.
    pub fn find_all<'t>(&'t self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let mut at = 0;
        std::iter::from_fn(move || {
            let found = self.find_at(text, at)?;
            at = found.end;
            Some(&text[found])
        })
    }

    /// The groups of the first match.
    #[must_use]
    pub fn captures<'t>(&self, text: &'t str) -> Option<Groups<'t>> {
        self.is_match(text).then(|| self.captures_at(text, 0))?
    }

    /// The groups of the first match from a place on.
    #[must_use]
    pub fn captures_at<'t>(&self, text: &'t str, at: usize) -> Option<Groups<'t>> {
        if text.is_ascii() {
            let found = self.all.ascii().captures_at(text.as_bytes(), at)?;
            return Some(Groups::Ascii(text, found));
        }
        Some(Groups::Any(self.all.whole().captures_at(text, at)?))
    }

    /// The first group that takes part in the first match.
    #[must_use]
    pub fn first_group<'t>(&self, text: &'t str) -> Option<&'t str> {
        self.captures(text)?.given().next()
    }

    /// Put the groups of each match in its place.
    #[must_use]
    pub fn keep_groups<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !text.is_ascii() && !self.all.may_match(text) {
            return Cow::Borrowed(text);
        }
        let (mut kept, mut copied) = (String::new(), 0);
        let mut at = 0;
        while at <= text.len()
            && let Some(found) = self.captures_at(text, at)
        {
            let place = found.range();
            kept += &text[copied..place.start];
            kept.extend(found.given());
            copied = place.end;
            at = if place.is_empty() {
                next_place(text, place.end)
            } else {
                place.end
            };
        }
        if copied == 0 {
            return Cow::Borrowed(text);
        }
        Cow::Owned(kept + &text[copied..])
    }

    /// The compiled pattern.
    #[must_use]
    pub fn whole(&self) -> &Regex {
        self.all.whole()
    }
}

/// The groups of a match.
pub enum Groups<'t> {
    /// In a text of ASCII.
    Ascii(&'t str, bytes::Captures<'t>),
    /// In any other text.
    Any(Captures<'t>),
}

impl<'t> Groups<'t> {
    /// The place of the whole match.
    #[must_use]
    pub fn range(&self) -> Range<usize> {
        match self {
            Self::Ascii(_, found) => found.get_match().range(),
            Self::Any(found) => found.get_match().range(),
        }
    }

    /// The text of a group that takes part in the match.
    #[must_use]
    pub fn get(&self, group: usize) -> Option<&'t str> {
        match self {
            Self::Ascii(text, found) => found.get(group).map(|one| &text[one.range()]),
            Self::Any(found) => found.get(group).map(|one| one.as_str()),
        }
    }

    /// The same of a group by its name.
    #[must_use]
    pub fn name(&self, name: &str) -> Option<&'t str> {
        match self {
            Self::Ascii(text, found) => found.name(name).map(|one| &text[one.range()]),
            Self::Any(found) => found.name(name).map(|one| one.as_str()),
        }
    }

    /// The texts of the groups that take part in the match.
    fn given(&self) -> impl Iterator<Item = &'t str> {
        let groups = match self {
            Self::Ascii(_, found) => found.len(),
            Self::Any(found) => found.len(),
        };
        (1..groups).filter_map(|group| self.get(group))
    }
}

/// The forms of one array of a table, of which a text has any or none.
pub struct Forms {
    together: Option<Pattern>,
    // Rows that count what they repeat are found a thousand times slower together beyond ASCII.
    alone: Vec<Pattern>,
    // Rows with a match that does not count.
    excepted: Vec<Pattern>,
}

// A match in which this group takes part does not count.
const NOT: &str = "not";

impl Forms {
    /// The forms of these rows.
    #[must_use]
    pub fn any(rows: &[Row]) -> Self {
        let is_excepted = |row: &Row| row.pattern.contains("(?<not>");
        let (excepted, plain): (Vec<Row>, Vec<Row>) = rows.iter().cloned().partition(is_excepted);
        let alone = |rows: &[Row]| rows.iter().map(Pattern::from).collect();
        Self {
            together: (!plain.is_empty()).then(|| Pattern::any(&plain)),
            alone: alone(&plain),
            excepted: alone(&excepted),
        }
    }

    /// Whether a text has any of these forms.
    #[must_use]
    pub fn found(&self, text: &str) -> bool {
        let plain = if text.is_ascii() {
            self.together.as_slice()
        } else {
            &self.alone
        };
        plain.iter().any(|each| each.is_match(text))
            || self.excepted.iter().any(|each| counts(each, text))
    }
}

fn counts(pattern: &Pattern, text: &str) -> bool {
    if !pattern.is_match(text) {
        return false;
    }
    let mut start = 0;
    while start <= text.len()
        && let Some(found) = pattern.captures_at(text, start)
    {
        if found.name(NOT).is_none() {
            return true;
        }
        // Another match may begin within one that does not count.
        start = next_place(text, found.range().start);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn borders_of_words_are_found_among_any_letters() {
        let border = Pattern::new(r"(?i)\b(on) \d+\b".to_owned());
        for (text, expected) in [
            ("on 3", true),
            ("iron 3", false),
            ("“On 3”", true),
            ("éon 3", false),
            ("on ٣", true),
            ("é", false),
        ] {
            assert_eq!(border.is_match(text), expected, "{text}");
            assert_eq!(border.first_group(text).is_some(), expected, "{text}");
            assert_eq!(border.find_at(text, 0).is_some(), expected, "{text}");
            let kept = border.keep_groups(text);
            assert_eq!(kept != text, expected, "{text}");
        }
        assert!(Pattern::new("[|│]".to_owned()).is_match("|"));
    }

    #[test]
    fn signs_beyond_ascii_are_in_no_text_of_ascii() {
        let other = Pattern::new(r"(?i)^(?:läuft|[:：]\b[^ü]x?[ä-ü]{0,2})$".to_owned());
        for (text, expected) in [
            ("LÄUFT", true),
            ("luft", false),
            (":ax", true),
            ("：aä", true),
            (":ü", false),
        ] {
            assert_eq!(other.is_match(text), expected, "{text}");
        }
    }

    #[test]
    fn another_match_may_begin_within_one_that_does_not_count() {
        let row = Row {
            pattern: "still (?<not>be|x)|being built".to_owned(),
            ..Row::default()
        };
        let forms = Forms::any(&[row]);
        assert!(forms.found("still being built"));
        assert!(!forms.found("still being"));
    }
}
