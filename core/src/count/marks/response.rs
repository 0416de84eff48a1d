//! The marks of responses.

use super::chants::{CHANT_BYTES_MIN, chant_of};
use super::checks::score_in;
use crate::count::codes::{UNKNOWN, code};
use crate::count::row::{CUTS, Row, STATUSES, place};
use crate::count::turn::Turn;
use crate::fields::said::SILENCE;
use crate::patterns::rows;
use crate::same::rounds::round_words;
use crate::same::waits;
use crate::tables::{MARKS, ROUNDS};

rows! {
    BRIEF: Pattern = MARKS["brief"];
    REJECTS: Pattern = ROUNDS["rejects"];
    COURTESY: Pattern = MARKS["courtesy"];
    TRIES_OTHERWISE: Pattern = MARKS["tries_otherwise"];
    TURNS_DOWN: Pattern = ROUNDS["turns_down"];
}

// A limit of fewer tokens is meant: for a yes, a no, or the name of a class.
const CUT_TOKENS_MIN: i64 = 64;

// A longer text says more.
const COURTESY_BYTES_MAX: usize = 500;

// What a response says before its calls; a longer text tells of more than the next one.
const TRY_BYTES_MAX: usize = 400;

// A verdict alone is shorter than this, with the name of who gives it.
const VERDICT_BYTES_MAX: usize = 100;

// A score and what is said of it are shorter than this.
const SCORE_BYTES_MAX: usize = 300;

// The message that all courtesies are.
const COURTESIES: &str = "courtesy";

/// Whether an answer to a message is a sentence or two without code, or another one to a program
/// that could not use the last one.
#[must_use]
pub fn is_brief(answer: &str, message: Option<&str>) -> bool {
    BRIEF.is_match(answer) || message.is_some_and(rejects)
}

/// Whether a program says by a message that it cannot use the last answer.
fn rejects(message: &str) -> bool {
    REJECTS.is_match(&waits::ends_of(message))
}

/// Whether a response answers thanks, a farewell or an offer to wait by the same.
#[must_use]
pub fn is_courteous(row: &Row) -> bool {
    row.reminded == code(COURTESIES)
}

/// Whether a text is thanks, a farewell or an offer to wait, and nothing else.
fn is_courtesy(text: &str) -> bool {
    text.len() <= COURTESY_BYTES_MAX && COURTESY.is_match(text)
}

/// The code of a verdict that takes nothing and says nothing else, in whatever case and after
/// whatever name; unknown of other texts.
fn verdict_in(text: &str) -> i64 {
    if text.len() > VERDICT_BYTES_MAX {
        return UNKNOWN;
    }
    let said = text.rsplit_once(": ").map_or(text, |(_, said)| said);
    let said = said.trim_matches(|sign: char| !sign.is_alphanumeric());
    if TURNS_DOWN.is_match(said) {
        code(&said.to_lowercase())
    } else {
        UNKNOWN
    }
}

/// The code of a verdict, or of a score with a few words on it in the whole `text`; a question asks
/// for more.
fn judgement_in(verdict: &str, text: &str) -> i64 {
    let verdict = verdict_in(verdict);
    if verdict != UNKNOWN || text.len() > SCORE_BYTES_MAX || text.contains('?') {
        return verdict;
    }
    score_in(text).unwrap_or(UNKNOWN)
}

/// Set the marks of responses and attempts.
pub fn mark_response(row: &mut Row, turn: &Turn) {
    row.silent = turn.response == Some(SILENCE);
    if !(1..CUT_TOKENS_MIN).contains(&turn.output_tokens) {
        row.cut = turn.finish_reason.map_or(0, |reason| place(&CUTS, reason));
    }
    if turn.compacted {
        row.compacted = row.response;
    }
    if row.is("attempt") || row.is("switch") {
        row.status = turn.name.map_or(0, |name| place(&STATUSES, name));
    }
    if !row.is("model") {
        return;
    }
    row.unheard = turn.arguments.is_some_and(waits::is_silence);
    if let Some(given) = turn.arguments.map(str::trim_end) {
        let last_line = given.rsplit('\n').next().unwrap_or_default();
        row.told_verdict = judgement_in(last_line, given);
    }
    let Some(text) = turn.text else { return };
    let mut signs = text
        .chars()
        .filter(|sign| sign.is_alphanumeric())
        .peekable();
    // Dots and rulers say nothing.
    row.only_calls = signs.peek().is_none();
    if !row.only_calls && signs.all(char::is_numeric) {
        // Who counts does not talk.
        row.talks_on = UNKNOWN;
    }
    row.brief = is_brief(text, turn.arguments);
    row.awaits = waits::says_waits(text);
    row.tries_otherwise = text.len() <= TRY_BYTES_MAX && TRIES_OTHERWISE.is_match(text);
    row.verdict = judgement_in(text.trim(), text.trim());
    if is_courtesy(text) && turn.arguments.is_some_and(is_courtesy) {
        row.reminded = code(COURTESIES);
    } else if let Some(message) = turn.arguments.filter(|text| rejects(text)) {
        // It speaks of an answer, so it comes again without its conversation, too.
        row.reminded = round_words(message).map_or(UNKNOWN, |words| code(&words));
    }
    if text.len() >= CHANT_BYTES_MIN {
        (row.chant_times, row.chant_chars) = chant_of(text);
    }
}
