//! Repetition within long texts: how often a text says its last words, one time after the other.

use crate::same::text::{CUT_MARK, MARK_BEGINNING, is_space};

/// Nobody would call a repetition in a shorter text a chant.
pub const CHANT_BYTES_MIN: usize = 100;
// A text that chants does so up to its end, so the end is enough.
const TAIL_CHARS: usize = 8_192;
// The repeated part must be at least as long, else most texts would seem to repeat.
const SEED_CHARS: usize = 32;
// Repeated words may hold a repetition, and so on: at most so many lengths are tried.
const LENGTHS_MAX: usize = 16;
// A table may have many rows with the same figures.
const CELL: char = '|';
// Each end of a cut text has at most this many characters, and two signs around the mark.
const END_CHARS: usize = 902;

/// Measure how often a text repeats its last words, and how many characters these repeats have.
///
/// Only some lengths are tried: the distances back to where the last characters occur before. The
/// nearest comes first. The next ones are tried because the words may hold a repetition of their
/// own. The repetition with the greatest product of times and characters counts. The time is
/// linear. The mark of a text that was cut has what was measured before.
#[must_use]
pub fn chant_of(text: &str) -> (i64, i64) {
    if let Some(before) = at_cut_end(text) {
        return before;
    }
    let shown = text.trim_end_matches(is_space);
    let begin = shown.char_indices().rev().nth(TAIL_CHARS - 1);
    let tail: Vec<char> = shown[begin.map_or(0, |(at, _)| at)..].chars().collect();
    let end = tail.len();
    if end < SEED_CHARS {
        return (0, 0);
    }
    let seed = &tail[end - SEED_CHARS..];
    let (mut best, mut chars) = ((0, 0), SEED_CHARS);
    for _ in 0..LENGTHS_MAX {
        let before = (end + SEED_CHARS - 1).saturating_sub(chars).min(end);
        let again = tail[..before]
            .windows(SEED_CHARS)
            .rposition(|part| part == seed);
        let Some(again) = again else { break };
        let length = end - SEED_CHARS - again;
        chars = chars_of(&tail, length);
        let words = &tail[end - length..];
        if is_said(words) {
            // The signs between two repeats need not stand before the first.
            let between = words.iter().take_while(|c| !c.is_alphanumeric()).count();
            let said = chars + between;
            let chant = ((said / length) as i64, said as i64);
            if chant.0 * chant.1 > best.0 * best.1 {
                best = chant;
            }
        }
    }
    best
}

/// What was measured before the text was cut at its end; zeros if the whole text has no chant.
fn at_cut_end(text: &str) -> Option<(i64, i64)> {
    let at = text.rfind(MARK_BEGINNING)?;
    let mark = CUT_MARK.captures_at(text, at)?;
    let whole = mark.get(0).filter(|whole| whole.start() == at)?;
    if text[whole.end()..].chars().nth(END_CHARS).is_some() {
        return None;
    }
    let figure = |group| {
        mark.get(group)
            .map_or(Ok(0), |digits| digits.as_str().parse())
    };
    Some((figure(4).ok()?, figure(5).ok()?))
}

/// Count the characters at the end that repeat with this length.
fn chars_of(tail: &[char], length: usize) -> usize {
    let (end, mut chars) = (tail.len(), length);
    let words = &tail[end - length..];
    while chars + length <= end && tail[end - chars - length..].starts_with(words) {
        chars += length;
    }
    let pairs = words.iter().rev().zip(tail[..end - chars].iter().rev());
    chars + pairs.take_while(|(word, before)| word == before).count()
}

/// Whether words hold a letter, or a digit outside a table; rulers have neither.
fn is_said(words: &[char]) -> bool {
    words.iter().any(|c| c.is_alphabetic())
        || (!words.contains(&CELL) && words.iter().any(|c| c.is_numeric()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_the_words_is_counted() {
        for words in [
            "I will look once more",
            "0 1 1 0 1 2 3 and so on, to 0",
            "7 1 8",
        ] {
            for between in [" ", "\n\n", ", ", " - "] {
                for times in [20, 21] {
                    let text = vec![words; times].join(between);
                    assert_eq!(chant_of(&text).0, times as i64, "{text}");
                    let text = format!("So: {}", format!("{words}{between}").repeat(times));
                    assert_eq!(chant_of(&text).0, times as i64, "{text}");
                }
            }
        }
    }

    #[test]
    fn long_work_does_not_chant() {
        let list: String = (0..200)
            .map(|n| format!("{n}. Check the part number {n} of the login page.\n"))
            .collect();
        let rulers = ["-".repeat(900), "= ".repeat(900)];
        for text in [list.as_str(), "", "x", &rulers[0], &rulers[1]] {
            assert!(chant_of(text).0 <= 2, "{text}");
        }
    }

    #[test]
    fn words_may_hold_a_repetition() {
        for inner in [5, 14, 15, 40] {
            let words = format!("stop it. {}", "no ".repeat(inner));
            assert_eq!(chant_of(&words.repeat(20)).0, 20, "{inner}");
        }
    }

    #[test]
    fn a_chant_that_was_cut_off_is_one() {
        let text = format!("Well. {}I will lo", "I will look once more. ".repeat(50));
        assert_eq!(chant_of(&text).0, 50);
    }
}
