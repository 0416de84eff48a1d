//! What a person asks for in so many words: a call so many times, or looks for so long.
//!
//! A die that is to be rolled twelve times shows some figures again, and a watch over an hour sees
//! the same for an hour.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::how::NS_PER_S;
use crate::patterns::{Groups, Pattern, next_place, replaced};
use crate::same::text::{head, is_longer};
use crate::tables::{Row, WISHES};

// A longer message holds other texts, such as a page.
const WISH_CHARS: usize = 4_000;
// A longer one tells what a program is to do so many times.
const TIMES_CHARS_MAX: usize = 600;
// Whoever asks for more of a call means a load.
const TIMES_MAX: i64 = 200;
// A watch without an end lasts a day's work, if it looks no more often than so many times in the
// time that it is to wait. A message may tell of anything that comes at a time.
const WATCH_S: i64 = 8 * 3_600;
const LOOKS_MAX: i64 = 4;
// Whoever watches for longer is told of it.
const SPAN_S_MAX: i64 = 7 * 86_400;

static TIMES: LazyLock<Vec<Pattern>> = LazyLock::new(|| each("times"));
static EVERY: LazyLock<Vec<Pattern>> = LazyLock::new(|| each("every"));
static SPANS: LazyLock<Vec<Pattern>> = LazyLock::new(|| each("spans"));
static NUMBERS: LazyLock<Vec<(Pattern, i64)>> = LazyLock::new(|| figures("numbers"));
static UNITS: LazyLock<Vec<(Pattern, i64)>> = LazyLock::new(|| figures("units"));

fn each(name: &str) -> Vec<Pattern> {
    let rows = WISHES[name].iter();
    rows.map(Pattern::from).collect()
}

fn figures(name: &str) -> Vec<(Pattern, i64)> {
    let figure = |row: &Row| row.kind.parse().unwrap_or(0);
    let rows = WISHES[name].iter();
    rows.map(|row| (Pattern::from(row), figure(row))).collect()
}

/// What a message asks for; nothing of what it does not say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Wish {
    /// How many times something is to be done.
    pub times: i64,
    /// The time between two looks.
    pub every_ns: i64,
    /// How long a watch is to last, where that is told.
    pub watch_ns: i64,
}

impl Wish {
    /// Read a message.
    #[must_use]
    pub fn of(message: &str) -> Self {
        let text = head(message, WISH_CHARS);
        let is_short = !is_longer(message, TIMES_CHARS_MAX);
        let times = found(&TIMES, text, |named| number(named, "number")).filter(|_| is_short);
        let every_s = found(&EVERY, text, seconds);
        let without = |text, form| replaced(text, form, " ");
        let rest = EVERY.iter().fold(Cow::Borrowed(text), without);
        let watch_s = found(&SPANS, &rest, seconds);
        Self {
            times: times.unwrap_or(0).min(TIMES_MAX),
            every_ns: every_s.unwrap_or(0).min(SPAN_S_MAX) * NS_PER_S,
            watch_ns: watch_s.unwrap_or(0).min(SPAN_S_MAX) * NS_PER_S,
        }
    }

    /// How long a watch may last that looks again after such a time.
    #[must_use]
    pub fn lasts_ns(&self, between_ns: i64) -> i64 {
        let keeps_time = between_ns.saturating_mul(LOOKS_MAX) >= self.every_ns;
        if self.watch_ns == 0 && self.every_ns > 0 && keeps_time {
            WATCH_S * NS_PER_S
        } else {
            self.watch_ns
        }
    }

    /// Whether a look comes about as long after an equal one as it is to come.
    #[must_use]
    pub fn is_due(&self, between_ns: i64) -> bool {
        self.every_ns > 0 && between_ns.saturating_mul(2) >= self.every_ns
    }
}

/// The greatest figure that any match of the forms tells.
fn found(
    forms: &[Pattern],
    text: &str,
    figure: impl Fn(&Groups<'_>) -> Option<i64>,
) -> Option<i64> {
    let mut greatest = None;
    for form in forms {
        let mut at = 0;
        while let Some(named) = form.captures_at(text, at) {
            let told = named.name("not").is_some();
            let read = if told { None } else { figure(&named) };
            greatest = greatest.max(read);
            // Any word may stand before another; the next one may be the number.
            at = if told || read.is_some() {
                named.range().end
            } else {
                next_place(text, named.range().start)
            };
        }
    }
    greatest
}

fn seconds(named: &Groups<'_>) -> Option<i64> {
    let unit = named.name("unit").or_else(|| named.name("unit2"))?;
    let how_many = number(named, "number").or_else(|| number(named, "number2"));
    let is_told = named.name("number").is_some_and(|one| !one.is_empty());
    let how_many = how_many.or((!is_told).then_some(1))?;
    Some(how_many * figure_of(&UNITS, unit)?)
}

fn number(named: &Groups<'_>, group: &str) -> Option<i64> {
    let text = named.name(group)?;
    text.parse().ok().or_else(|| figure_of(&NUMBERS, text))
}

fn figure_of(figures: &[(Pattern, i64)], word: &str) -> Option<i64> {
    let row = figures.iter().find(|(form, _)| form.is_match(word))?;
    Some(row.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE_NS: i64 = 60 * NS_PER_S;

    #[test]
    fn so_many_times_are_asked_for() {
        for (text, times) in [
            ("Roll the die twelve times.", 12),
            ("Wirf die Münze zehnmal.", 10),
            ("Lance le test 15 fois.", 15),
            ("请测试10次", 10),
            ("Run the benchmark 20x.", 20),
            ("Take eight samples of each.", 8),
            ("Fix the test. It failed 3 times.", 0),
            ("Make the page 10 times faster.", 0),
            ("Call the search at most 9 times.", 0),
            ("Fix the failing test.", 0),
        ] {
            assert_eq!(Wish::of(text).times, times, "{text}");
        }
    }

    #[test]
    fn a_watch_is_asked_for() {
        for (text, every, watch) in [
            ("Look every 10 minutes for three hours.", 10, 180),
            ("Schau alle 5 Minuten nach, zwei Stunden lang.", 5, 120),
            ("Check it every 5 minutes until it is done.", 5, 0),
            ("Look at it for 90 minutes.", 0, 90),
            ("每5分钟检查一次", 5, 0),
            (
                "Buy it under 9, looking every quarter of an hour until 18:00.",
                15,
                0,
            ),
            ("Look at it.", 0, 0),
        ] {
            let wish = Wish::of(text);
            let told = (wish.every_ns / MINUTE_NS, wish.watch_ns / MINUTE_NS);
            assert_eq!(told, (every, watch), "{text}");
        }
        let long = format!("Call it 9 times. {}", "It has many words. ".repeat(40));
        assert_eq!(Wish::of(&long).times, 0);
        let each_hour = Wish::of("Look every hour.");
        let lasts = |minutes: i64| each_hour.lasts_ns(minutes * MINUTE_NS) / MINUTE_NS;
        assert_eq!(
            (lasts(60), lasts(15), lasts(14), lasts(0)),
            (480, 480, 0, 0)
        );
        assert_eq!(Wish::default().lasts_ns(60 * MINUTE_NS), 0);
        let told = Wish::of("Look each minute for three hours.");
        assert_eq!(told.lasts_ns(0), 180 * MINUTE_NS);
        assert!(Wish::of("Look every 10 minutes.").is_due(9 * MINUTE_NS));
        assert!(!Wish::of("Look every 10 minutes.").is_due(MINUTE_NS));
        assert!(!Wish::default().is_due(MINUTE_NS));
    }
}
