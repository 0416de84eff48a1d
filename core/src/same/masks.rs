//! The volatile parts of results and errors, which are masked before texts are compared.
//!
//! A part is masked by its form alone, so that a turn reads the same whatever comes after it.
//! Times, ids, addresses and temporary paths are masked, because a program makes new ones each
//! time. So are counters of the agent's own calls ("read 3 times"), unless a tool is asked for
//! figures. White space does not count. In errors, attempt numbers are masked as well, because a
//! client that retries counts them, and places are left out. So are attempt numbers in results,
//! unless these say that something goes on. In results, a value is masked if its key says that it
//! is fresh (`durationMs`, `message_id`), in JSON at any depth and in lines of text. What is new
//! because of the call itself is left out before. Durations that were measured are kept.
//!
//! A result of nothing but such values is news and stays as it is: the time that a poll returns,
//! or the commit that a call looked up. Digests in results are kept too, because a digest changes
//! with its content.
//!
//! Other numbers stay, although they may change on every call. Pages, percents, rows, failing
//! tests and steps are the figures that show that work goes on, and a failure at a later step is
//! another failure. For the same reason nothing is learned from a token that changes while all
//! else stays: paging, polling and the deletion of one thing after the other look like that. An id
//! that the call itself names is not a volatile part of its error, because another id is other
//! work.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{NoExpand, Regex, escape};

use super::places::without_places;
use super::policy::{Results, Sameness};
use super::text::{Form, compared, one_spaced, words_in};
use super::waits::is_unfinished;
use crate::patterns::{Pattern, pattern, replaced, rows};
use crate::tables::{MASKS, Row, any_of};

/// What stands in the place of a value that is new with every result.
pub const FRESH: &str = "<fresh>";

static TEXTS: LazyLock<Vec<(Pattern, &str)>> = LazyLock::new(|| each("texts"));
rows! {
    // Most texts have no volatile part, and looking for any of them is one way through a text.
    ANY: Pattern = MASKS["texts"];
    COUNTERS: Pattern = MASKS["counters"];
    ANY_ATTEMPT: Pattern = MASKS["attempts"];
    FOOTERS: Pattern = MASKS["footers"];
}

static ATTEMPTS: LazyLock<Vec<(Pattern, &str)>> = LazyLock::new(|| each("attempts"));
static TICKETS: LazyLock<Vec<(Pattern, &str)>> = LazyLock::new(|| each("tickets"));
static PROMPTS: LazyLock<Vec<(Pattern, &str)>> = LazyLock::new(|| each("prompts"));
static DIGESTS: LazyLock<Regex> = LazyLock::new(|| any("digests"));
static MEASURES: LazyLock<Regex> = LazyLock::new(|| any("measures"));
static SURROUNDINGS: LazyLock<Regex> = LazyLock::new(|| any("surroundings"));
static COUNTER_KEYS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let rows = MASKS["counter_keys"].iter();
    rows.map(|row| pattern(&format!(r"\A(?:{})\z", row.pattern)))
        .collect()
});
// The mask of ids: it gives what a call's arguments may name.
static IDS: LazyLock<&Pattern> = LazyLock::new(|| {
    let mut ids = TEXTS.iter().filter(|(_, name)| name.ends_with("<id>"));
    ids.next()
        .map_or_else(|| panic!("masks.toml: no ids"), |(ids, _)| ids)
});
const COUNT: &str = "<count>";

static KEY_AND_MASK: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"[\w.-]+[\\"']*\s*[:=]\s*[\\"']*<[a-z ]+>|<[a-z ]+>"#));
static JSON_KEY: LazyLock<Regex> = LazyLock::new(|| pattern(r#""[\w.-]+" ?:"#));
static KEY_WORDS: LazyLock<Regex> =
    LazyLock::new(|| pattern("[A-Z]?[a-z]+|[A-Z]+|[0-9]+|[^A-Za-z0-9_-]+"));

/// The masks of an array; neighbours with one mask are looked for together.
fn each(name: &str) -> Vec<(Pattern, &'static str)> {
    let is_one = |a: &Row, b: &Row| a.mask == b.mask && !a.mask.contains('$');
    MASKS[name]
        .chunk_by(is_one)
        .map(|rows| (Pattern::any(rows), &*rows[0].mask))
        .collect()
}

fn any(name: &str) -> Regex {
    pattern(&any_of(&MASKS[name]))
}

/// Return the keys with a new value in every result, unless a team says otherwise.
pub fn volatile_keys() -> impl Iterator<Item = &'static str> {
    MASKS["volatile_keys"]
        .iter()
        .flat_map(|row| row.keys.iter().map(String::as_str))
}

/// A result or an error without what a harness added to it for the model.
#[must_use]
pub fn unsurrounded(text: &str) -> Cow<'_, str> {
    if text.contains("</") {
        SURROUNDINGS.replace_all(text, "")
    } else {
        Cow::Borrowed(text)
    }
}

/// Replace the volatile parts of a text: first those that a team declares, then the others.
///
/// Counters, and the places that edits move, are also taken out of the text of an `error`.
#[must_use]
pub fn masked(text: &str, masks: &[(Regex, String)], error: bool) -> String {
    let form = if error { Form::Error } else { Form::Result };
    let whole = unsurrounded(text);
    let mut text = compared(&whole, form);
    for (mask, name) in masks {
        if let Cow::Owned(changed) = mask.replace_all(&text, NoExpand(name)) {
            text = Cow::Owned(changed);
        }
    }
    if error {
        text = Cow::Owned(without_places(&text));
    }
    if ANY.is_match(&text) {
        for (mask, name) in TEXTS.iter() {
            text = replaced(text, mask, name);
        }
    }
    if !error {
        return text.trim().to_owned();
    }
    for (mask, name) in ATTEMPTS.iter().chain(TICKETS.iter()) {
        text = replaced(text, mask, name);
    }
    one_spaced(uncounted(Cow::Borrowed(text.trim()))).into_owned()
}

/// The counters in a result that say nothing of what was asked for.
#[derive(Clone, Copy)]
pub struct Counters {
    /// How often the agent called.
    pub calls: bool,
    /// How often the tool tried, unless its work goes on.
    pub attempts: bool,
    /// How many steps the agent has taken, below a text that is stored.
    pub steps: bool,
}

/// Replace the volatile parts of a result, unless it has no other parts.
#[must_use]
pub fn answer(result: &str, sameness: &Sameness, without: Counters) -> String {
    let Counters {
        calls: counters,
        attempts,
        steps,
    } = without;
    let mut text = unsurrounded(result.trim());
    if steps {
        text = replaced(text, &FOOTERS, "");
    }
    // Each value stands after one of these signs, and the patterns of its key are slow.
    if text.contains([':', '=']) {
        for pattern in fresh(sameness, counters) {
            text = replaced(text, pattern, "${1}<fresh>${2}");
        }
    }
    let whole = Cow::Owned(masked(&text, &sameness.masks, false));
    let mut whole = if counters { uncounted(whole) } else { whole };
    if attempts && ANY_ATTEMPT.is_match(&whole) && !is_unfinished(result) {
        for (mask, name) in ATTEMPTS.iter() {
            whole = replaced(whole, mask, name);
        }
    }
    let mut masked = one_spaced(whole).into_owned();
    if !says_more(&masked) {
        return result.trim().to_owned();
    }
    if masked.contains("<duration>") {
        for measure in MEASURES.find_iter(&text) {
            masked.push(' ');
            masked.push_str(measure.as_str());
        }
    }
    if may_have_digest(&text) {
        for digest in DIGESTS.find_iter(&text) {
            masked.push(' ');
            masked.push_str(digest.as_str());
        }
    }
    masked
}

/// Whether a text has words beside its masks and their keys.
fn says_more(masked: &str) -> bool {
    static WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"\w"));
    // Most results have no mask, and the pattern of a key is slow.
    if !masked.contains('<') {
        return WORD.is_match(masked);
    }
    let said = KEY_AND_MASK.replace_all(masked, "");
    if said.starts_with(['{', '[']) {
        // The names of lists of such values say no more than theirs.
        return WORD.is_match(&JSON_KEY.replace_all(&said, ""));
    }
    WORD.is_match(&said)
}

/// Whether a text has as many hex digits in a row as the shortest digest, or words for data in
/// base64. The pattern of digests asks for letters of all scripts beside them, which is slow.
fn may_have_digest(text: &str) -> bool {
    const HEX_MIN: usize = 12;
    if text.contains("base64,") || text.contains("\"data\":") {
        return true;
    }
    let mut run = 0;
    text.bytes().any(|byte| {
        run = if byte.is_ascii_hexdigit() { run + 1 } else { 0 };
        run == HEX_MIN
    })
}

/// Return the words of a message: lower case, without volatile parts, numbers and spacing.
///
/// Numbers do not count because an orchestrator counts its rounds in the prompt, unless there is
/// nothing else. A text without words or figures is unknown.
#[must_use]
pub fn prompt_words(text: &str, masks: &[(Regex, String)]) -> Option<String> {
    if is_figure(text) {
        return Some(text.trim().to_owned());
    }
    let words = masked(&compared(text, Form::Prompt), masks, false).to_lowercase();
    let mut words = Cow::Owned(words);
    for (mask, name) in PROMPTS.iter() {
        words = replaced(words, mask, name);
    }
    let words = words.trim();
    (!words.is_empty()).then(|| words.to_owned())
}

/// Whether a text is a figure and nothing else, which a person says and no orchestrator counts.
fn is_figure(text: &str) -> bool {
    let has_digit = text.contains(|sign: char| sign.is_ascii_digit());
    has_digit && !text.contains(char::is_alphabetic)
}

/// Return the ids in a text that its call's arguments name, joined; `None` without any.
#[must_use]
pub fn named_ids(text: &str, arguments: Option<&str>) -> Option<String> {
    let arguments = arguments?;
    let tickets = TICKETS.iter().flat_map(|(mask, _)| mask.find_all(text));
    let numbers = tickets.filter_map(|ticket| {
        let end = ticket.trim_end_matches([')', ']', '.']);
        end.rsplit([' ', ':', '=', '#']).next()
    });
    let ids = IDS.find_all(text);
    let named: Vec<&str> = ids
        .chain(numbers)
        .filter(|id| arguments.contains(id.trim_matches('_')))
        .collect();
    (!named.is_empty()).then(|| named.join(","))
}

/// Return the patterns of a team's fresh values, which are made when the first text comes.
#[must_use]
pub fn fresh(sameness: &Sameness, counters: bool) -> &[Pattern; 2] {
    let made = || fresh_patterns(&sameness.results, counters);
    sameness.fresh[usize::from(counters)].get_or_init(made)
}

/// Return two patterns of a key that is volatile in results, with its value.
///
/// The first is for texts in quotes and for values after "=". The second is for other values after
/// a colon; they end with the line or with a sign. If a sentence follows, the word before the colon
/// is not a key.
#[must_use]
pub fn fresh_patterns(results: &Results, counters: bool) -> [Pattern; 2] {
    let mut keys: Vec<String> = results.keys.iter().map(|key| pattern_of(key)).collect();
    keys.sort();
    let is_told = |form: &Regex| results.telling_keys.iter().any(|key| form.is_match(key));
    let counted = MASKS["counter_keys"].iter().zip(COUNTER_KEYS.iter());
    let mut forms: Vec<String> = counted
        .filter(|(_, form)| counters && !is_told(form))
        .map(|(row, _)| row.pattern.clone())
        .collect();
    forms.append(&mut keys);
    let key = format!(r#"(^|[\s"'{{,(;&?])(?:{})\\?["']?[ \t]?"#, forms.join("|"));
    let quoted = r#""(?:[^"\\]|\\[^"]){0,200}"|\\"[^"\\]{0,200}\\"|'[^'\n]{0,200}'"#;
    let bare = r#"[^\s"'\\,;&)\]}]{1,200}"#;
    [
        Pattern::new(format!(
            r"(?im){key}(?:[:=][ \t]?(?:{quoted})|=[ \t]?{bare})()"
        )),
        Pattern::new(format!(r"(?im){key}:[ \t]?{bare}([ \t]*(?:[,;)}}\]]|$))")),
    ]
}

/// Return the pattern of a key in any letter case, with a space, "_", "-" or nothing between words.
fn pattern_of(key: &str) -> String {
    let words = words_in(key, &KEY_WORDS).map(|word| escape(&word.to_lowercase()));
    let words: Vec<String> = words.collect();
    if words.is_empty() {
        escape(key)
    } else {
        words.join("[ _-]?")
    }
}

/// Replace the counters of the agent's own calls.
fn uncounted(text: Cow<'_, str>) -> Cow<'_, str> {
    replaced(text, &COUNTERS, COUNT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nothing() -> Sameness {
        let keys = volatile_keys().map(str::to_owned).collect();
        let results = Results {
            keys,
            ..Results::default()
        };
        Sameness::new(Default::default(), Vec::new(), results).expect("no mask is declared")
    }

    #[test]
    fn rows_of_keys_find_their_examples_and_no_others() {
        for row in &MASKS["volatile_keys"] {
            let keys = row.keys.iter().cloned().collect();
            let results = Results {
                keys,
                ..Results::default()
            };
            let forms = fresh_patterns(&results, false);
            let found = |text: &str| forms.iter().any(|form| form.is_match(text));
            assert!(
                row.examples.iter().all(|example| found(&example.text)),
                "{}",
                row.says
            );
            assert!(!row.others.iter().any(|text| found(text)), "{}", row.says);
        }
    }

    #[test]
    fn keys_are_known_in_any_notation() {
        assert_eq!(pattern_of("duration_ms"), "duration[ _-]?ms");
        assert_eq!(pattern_of("lastHTTPCode"), "last[ _-]?http[ _-]?code");
        assert_eq!(pattern_of("__"), "__");
        assert_eq!(pattern_of("x.y"), r"x[ _-]?\.[ _-]?y");
    }

    #[test]
    fn fresh_values_make_no_other_answer_and_news_do() {
        let all = Counters {
            calls: true,
            attempts: true,
            steps: true,
        };
        let read = |text: &str| answer(text, &nothing(), all);
        assert_eq!(read("sent messageId=4, ts=11"), "sent <fresh>, <fresh>");
        assert_eq!(read(r#"{"elapsed_s":12}"#), r#"{"elapsed_s":12}"#);
        assert_eq!(
            read("commit 0f3a9c01b7d24e68 pushed"),
            "commit <id> pushed commit 0f3a9c01b7d24e68"
        );
        assert_eq!(read("attempt 3: stale"), read("attempt 4: stale"));
        assert_ne!(
            read("pending=true, attempt 3"),
            read("pending=true, attempt 4")
        );
        assert_eq!(read("ran for 12 ms"), read("ran for 14 ms"));
        assert_ne!(read("2 rows, mean 12 ms"), read("2 rows, mean 14 ms"));
    }
}
