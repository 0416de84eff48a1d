//! One date, one number or one time of day in several notations, where it is all of an argument.
//!
//! Whoever writes the second of March as `02/03/2026`, `March 2, 2026` and `2026-03-02` asks the
//! same. Of two small numbers after each other the first is the day, unless a year stands before them,
//! or the answer has the date with its month first, and not the other one.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};

use crate::patterns::pattern;

// A text under a key or in a list that may be one of these.
static VALUES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(r#"([:\[,] ?)"([$€£]?[0-9][0-9A-Za-z ,.:/+-]*|[A-Za-z]+[.,]? [0-9A-Za-z ,.]*[0-9])""#)
});
static MIDNIGHT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?-u)[T ]00:00(?::00(?:\.0+)?)?(?:Z|\+00:00)?$"));
static GROUPED: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?-u)^[0-9]{1,3}(?:,[0-9]{3})+(?:\.0+)?$|^[0-9]{1,3}(?: [0-9]{3})+$",
        r"|^[0-9]{1,3}(?:\.[0-9]{3})+,00$|^[0-9]{3,15}(?:\.0+)?$"
    ))
});
static TIME: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"(?i-u)^([0-9]{1,2})(?:[:.]([0-9]{2})(?::00)?)? ?([ap])\.?m\.?$",
        r"|^([0-9]{1,2}):([0-9]{2})(?::00)?$|^([0-9]{1,2})h([0-9]{2})?$"
    ))
});

// Two small numbers and a year: the month may stand first.
static SMALL_DATE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"(?-u)^([0-9]{1,2})[./-]([0-9]{1,2})[./-]([0-9]{4})$"));

// The first letters of the months in English.
const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const WEEKDAYS: [&str; 7] = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"];
const ORDINALS: [&str; 4] = ["st", "nd", "rd", "th"];
// What is longer holds a text.
const ARGUMENTS_BYTES_MAX: usize = 2_000;
const YEARS: std::ops::RangeInclusive<u32> = 1900..=2099;
const MONTHS_MAX: u32 = 12;
const DAYS_MAX: u32 = 31;
const YEAR_DIGITS: usize = 4;
const COMPACT_DIGITS: usize = 8;
const NOON: u32 = 12;

/// Arguments in which each such value stands in one notation, by what the call was `told`.
#[must_use]
pub fn in_one_notation<'a>(arguments: &'a str, told: &str) -> Cow<'a, str> {
    if arguments.len() > ARGUMENTS_BYTES_MAX {
        return Cow::Borrowed(arguments);
    }
    VALUES.replace_all(arguments, |found: &Captures<'_>| {
        let plain = other_way(&found[2], told).or_else(|| plain(&found[2]));
        plain.map_or_else(
            || found[0].to_owned(),
            |plain| format!("{}{plain}", &found[1]),
        )
    })
}

/// A date whose month stands first, as the answer to it shows.
fn other_way(text: &str, told: &str) -> Option<String> {
    let found = SMALL_DATE.captures(text)?;
    let [one, two, year] = [1, 2, 3].map(|group| found[group].parse::<u32>().unwrap_or_default());
    let day = |month: u32, day: u32| format!("{year}-{month:02}-{day:02}");
    let (usual, other) = (day(two, one), day(one, two));
    let fits = (1..=MONTHS_MAX).contains(&one) && (1..=MONTHS_MAX).contains(&two);
    let is_told = fits && told.contains(&other) && !told.contains(&usual);
    is_told.then(|| format!("\"{other} date\""))
}

/// An error in which each such value that the call was given stands in one notation.
#[must_use]
pub fn told_in_one_notation(error: String, arguments: Option<&str>) -> String {
    let given = arguments.filter(|given| given.len() <= ARGUMENTS_BYTES_MAX);
    let given = VALUES.captures_iter(given.unwrap_or_default());
    given.fold(error, |error, value| {
        let text = &value[2];
        if !error.contains(text) {
            return error;
        }
        match plain(text) {
            Some(plain) => error.replace(text, &plain),
            None => error,
        }
    })
}

/// The digits of a date in its one notation; none of any other text.
#[must_use]
pub fn digits_of_date(text: &str) -> Option<String> {
    let plain = date(text)?;
    Some(plain.chars().filter(char::is_ascii_digit).collect())
}

/// A value in its one notation; none of any other text.
fn plain(text: &str) -> Option<String> {
    date(text).or_else(|| number(text)).or_else(|| time(text))
}

/// A date, with its year first and its day last.
fn date(text: &str) -> Option<String> {
    let text = MIDNIGHT.replace(text, "");
    if text.len() == COMPACT_DIGITS && text.bytes().all(|byte| byte.is_ascii_digit()) {
        let (year, rest) = text.split_at(YEAR_DIGITS);
        return of_parts(&[year, &rest[..2], &rest[2..]]);
    }
    let parts = text.split(|sign: char| !sign.is_ascii_alphanumeric());
    let parts: Vec<&str> = parts
        .filter(|part| !part.is_empty() && !is_weekday(part))
        .collect();
    of_parts(&parts)
}

fn of_parts(parts: &[&str]) -> Option<String> {
    let [first, second, third] = parts else {
        return None;
    };
    let year_first = first.len() == YEAR_DIGITS && first.parse::<u32>().is_ok();
    let (year, [one, two]) = if year_first {
        (first, [second, third])
    } else {
        (third, [first, second])
    };
    let year = year.parse().ok().filter(|year| YEARS.contains(year))?;
    let (month, day) = match (month(one), month(two)) {
        (Some(named), None) => (named, day(two)?),
        (None, Some(named)) => (named, day(one)?),
        (None, None) if year_first => in_order(day(one)?, day(two)?),
        (None, None) => in_order(day(two)?, day(one)?),
        (Some(_), Some(_)) => return None,
    };
    let fits = (1..=MONTHS_MAX).contains(&month) && (1..=DAYS_MAX).contains(&day);
    fits.then(|| format!("\"{year}-{month:02}-{day:02} date\""))
}

/// The month and the day of two numbers; the greater one is the day if there is no such month.
fn in_order(month: u32, day: u32) -> (u32, u32) {
    if month > MONTHS_MAX {
        (day, month)
    } else {
        (month, day)
    }
}

fn is_weekday(part: &str) -> bool {
    is_name(part, &WEEKDAYS).is_some()
}

fn month(part: &str) -> Option<u32> {
    is_name(part, &MONTHS).and_then(|at| u32::try_from(at + 1).ok())
}

/// The place of a name among some, by its first letters.
fn is_name(part: &str, names: &[&str]) -> Option<usize> {
    let begins = part
        .get(..3)
        .filter(|_| part.bytes().all(|byte| byte.is_ascii_alphabetic()))?;
    names
        .iter()
        .position(|name| begins.eq_ignore_ascii_case(name))
}

fn day(part: &str) -> Option<u32> {
    let bare = ORDINALS
        .iter()
        .find_map(|end| part.strip_suffix(end))
        .unwrap_or(part);
    bare.parse().ok().filter(|_| bare.len() <= 2)
}

/// A whole number without what groups its digits.
fn number(text: &str) -> Option<String> {
    let bare = text.trim_start_matches(['$', '€', '£']);
    if bare.starts_with('0') || !GROUPED.is_match(bare) {
        return None;
    }
    let whole = bare.trim_end_matches(",00");
    let whole = match whole.rsplit_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|byte| byte == b'0') && whole.len() >= 3 => whole,
        _ => whole,
    };
    Some(
        whole
            .bytes()
            .filter(u8::is_ascii_digit)
            .map(char::from)
            .collect(),
    )
}

/// A time of day in 24 hours.
fn time(text: &str) -> Option<String> {
    let found = TIME.captures(text)?;
    let read = |group| {
        found
            .get(group)
            .and_then(|part| part.as_str().parse::<u32>().ok())
    };
    let hour = read(1).or_else(|| read(4)).or_else(|| read(6))?;
    let minute = read(2)
        .or_else(|| read(5))
        .or_else(|| read(7))
        .unwrap_or_default();
    let hour = match found.get(3).map(|half| half.as_str()) {
        Some("p" | "P") => hour % NOON + NOON,
        Some(_) => hour % NOON,
        None => hour,
    };
    Some(format!("\"{hour:02}:{minute:02}\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(texts: &[&str]) -> String {
        let read = |text: &&str| in_one_notation(&format!(r#"{{"a":"{text}"}}"#), "").into_owned();
        let all: Vec<String> = texts.iter().map(read).collect();
        assert!(all.iter().all(|text| *text == all[0]), "{all:?}");
        all[0].clone()
    }

    #[test]
    fn one_value_in_many_notations_is_one() {
        let day = one(&[
            "2026-03-02",
            "March 2, 2026",
            "02/03/2026",
            "2 March 2026",
            "2026/03/02",
            "Mar. 2nd, 2026",
            "2.3.2026",
            "20260302",
            "Monday, 2 March 2026",
            "2026-03-02T00:00:00Z",
        ]);
        assert_ne!(day, one(&["2026-03-03"]));
        assert_ne!(day, one(&["2026-02-03", "03/02/2026", "February 3, 2026"]));
        assert_eq!(one(&["03/25/2026", "25.3.2026"]), one(&["2026-03-25"]));
        assert_ne!(day, one(&["2026-03-02T09:00:00Z"]));
        let sum = one(&["1,000", "1 000", "1000.0", "1.000,00", "$1,000", "1000"]);
        assert_eq!(sum, r#"{"a":1000}"#);
        let hour = one(&["14:00", "2pm", "2:00 PM", "14h", "14:00:00", "2 p.m."]);
        assert_ne!(hour, one(&["2:00"]));
    }

    #[test]
    fn other_texts_stay() {
        for text in [
            "3.10",
            "10.0.0.12",
            "007",
            "12 files",
            "May I come",
            "1,2,3",
            "2026-13-40",
        ] {
            let given = format!(r#"{{"a":"{text}"}}"#);
            assert_eq!(in_one_notation(&given, ""), given);
        }
    }

    #[test]
    fn the_answer_shows_which_number_is_the_month() {
        let read = |told| in_one_notation(r#"{"a":"03/02/2026"}"#, told).into_owned();
        let march = in_one_notation(r#"{"a":"2026-03-02"}"#, "").into_owned();
        assert_eq!(read("No rooms on 2026-03-02."), march);
        for told in [
            "No rooms.",
            "On 2026-02-03",
            "From 2026-02-03 to 2026-03-02",
        ] {
            assert_ne!(read(told), march, "{told}");
        }
    }
}
