//! Searches: what they asked for and found, and which calls ask how something is used.

use std::collections::{BTreeSet, VecDeque};
use std::sync::LazyLock;

use regex::Regex;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::notes::{gist_of, notes_in_file, texts_in};
use super::statements::statement_of;
use super::tool::Tool;
use crate::count::codes::{UNKNOWN, code, pair};
use crate::count::row::Row;
use crate::count::turn::Turn;
use crate::patterns::{Pattern, pattern};
use crate::same::errors::answers_no;
use crate::same::gist::Gist;
use crate::same::pages::{asks_page, page_of, without_place};
use crate::same::text::{head, is_longer, words_in};
use crate::same::tools::looks_by_command;
use crate::tables::MARKS;

static ASKS_HELP: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["asks_help"]));
static SEARCHING: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::any(&[&MARKS["searching_command"][..], &MARKS["asking_statement"]].concat())
});
static ASKING: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["asking_statement"]));
static CHANGES_FOUND: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["changes_found"]));
static EMPTY: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["empty"]));
static NOTHING: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::any(&[&MARKS["empty"][..], &MARKS["nothing"]].concat()));
static ACKNOWLEDGES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["acknowledges"]));

// A longer answer shows something, whatever its first words are.
const NOTHING_CHARS_MAX: usize = 500;
// A longer answer is news at the first search alone, whatever was asked.
const ANSWER_CHARS_MAX: usize = 100;
/// The code of finding nothing, in whatever words and by whatever search.
pub const NOTHING_FOUND: i64 = 1;

static SEARCHED: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["searched_keys"]));
static RUN: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["run_keys"]));
static PAGES: LazyLock<Pattern> = LazyLock::new(|| Pattern::any(&MARKS["page_keys"]));
// What joins the parts of an address or a path, and the words of a name.
static PARTS: LazyLock<Regex> = LazyLock::new(|| pattern(r#"[^@./:\\=,;#?&|<>${}()\s"'`]+"#));
static WORDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"[A-Z]?[\p{L}--[A-Z]]+|[A-Z]+|[0-9]+"));

// Searches with which a new one is compared.
const SEARCHES_KEPT: usize = 8;
// What is longer is a program, or a text of its own.
const ASKED_CHARS: usize = 1_000;
const ASKED_WORDS_MAX: usize = 64;
// Of so many words of a command, one may be another.
const NEAR_WORDS: usize = 12;
// Words are alike by their first characters: "refunds", "refunding".
const STEM_CHARS: usize = 4;
// Shorter words stand in any sentence.
const WORD_CHARS_MIN: usize = 3;
// Scripts without spaces between words begin here.
const WITHOUT_SPACES: char = '\u{2e80}';

/// Whether many things may rightly have the answer of a search, such as that there is none.
#[must_use]
pub fn is_common(turn: &Turn, tool: Tool, search_result: i64) -> bool {
    let answer = turn.error.or(turn.result).unwrap_or_default();
    search_result == NOTHING_FOUND
        || (search_result != UNKNOWN && (!tool.in_words || !is_longer(answer, ANSWER_CHARS_MAX)))
}

/// Whether a command asks how a program is used.
#[must_use]
pub fn asks_help(arguments: &str) -> bool {
    ASKS_HELP.is_match(arguments)
}

/// Whether a result is empty, or an object with nothing in it.
#[must_use]
pub fn is_empty(result: &str) -> bool {
    !is_longer(result, NOTHING_CHARS_MAX) && EMPTY.is_match(result)
}

/// Whether a result says that there is nothing.
#[must_use]
pub fn says_nothing(result: &str) -> bool {
    !is_longer(result, NOTHING_CHARS_MAX) && (NOTHING.is_match(result) || answers_no(result))
}

/// Whether a command or a statement only looks at something.
#[must_use]
pub fn only_looks(arguments: &str, tool: Tool) -> bool {
    (tool.checker.looks(arguments) || ASKING.is_match(arguments)) && !changes_found(arguments)
}

/// Whether a search or a statement changes what it names.
#[must_use]
pub fn changes_found(arguments: &str) -> bool {
    CHANGES_FOUND.is_match(arguments)
}

/// The code of what a search found: nothing, or its tool and answer, here without its frame.
///
/// Some tools say by a failure that there is nothing.
#[must_use]
pub fn found(turn: &Turn, tool: Tool, row: &Row, answer: &str) -> i64 {
    let failed = row.failed;
    let arguments = turn.arguments.unwrap_or_default();
    let changes = || tool.changes || changes_found(arguments);
    let by_command = || !failed && SEARCHING.is_match(arguments) && !changes();
    let waits = row.pauses || row.watches || row.unfinished;
    let looks = !tool.in_words && !waits && !failed;
    let by_look = || looks && looks_by_command(arguments) && !changes();
    if turn.error.or(turn.result).is_none() || ACKNOWLEDGES.is_match(answer) {
        return UNKNOWN;
    }
    let searches = (tool.searches && !(failed && tool.changes)) || by_command();
    let lists = tool.lists && !waits && !failed;
    if says_nothing(answer) && (searches || lists || by_look()) {
        return NOTHING_FOUND;
    }
    let Some(name) = turn.name.filter(|_| !failed) else {
        return UNKNOWN;
    };
    // Another page shows other things, with other ids and times.
    let looks = tool.lists || tool.reads || tool.searches;
    if looks
        && !waits
        && !changes()
        && let Some(page) = page_of(arguments, answer)
    {
        return code(name) ^ code(&page);
    }
    let shows = if tool.in_words {
        searches
    } else {
        !waits && (by_command() || by_look())
    };
    if shows {
        code(name) ^ row.outcome
    } else {
        UNKNOWN
    }
}

/// A word between spaces: its code, that of a file without its folders, and of each of its parts
/// the code and the stems of its words.
type Word = (i64, i64, Vec<(i64, Vec<i64>)>);

/// What a search asks for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Asked {
    tool: i64,
    /// Whether its words have places, as in a command.
    is_command: bool,
    values: Vec<AskedValue>,
    /// Whether it is a note, which says the same in other words.
    #[serde(default)]
    is_note: bool,
    /// Whether it lists what fits a filter.
    #[serde(default)]
    lists: bool,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct AskedValue {
    key: i64,
    code: i64,
    /// It says what is searched for, as a query does.
    is_searched: bool,
    /// Whether all that differs may be a number: a time, an id.
    has_digit: bool,
    /// The codes of its pairs of signs, where it has no spaces between words.
    pairs: Vec<i64>,
    /// Whether it is what is run, as a command is.
    runs: bool,
    /// The codes of its words, short ones too.
    spoken: Vec<i64>,
    words: Vec<Word>,
    /// What it says, if it is a sentence of a note.
    #[serde(default)]
    gist: Option<Gist>,
    /// The codes of the words of a statement of SQL, without its aliases' places; empty for others.
    #[serde(default)]
    statement: BTreeSet<i64>,
}

impl Asked {
    /// Read the arguments of a search.
    #[must_use]
    pub fn of(turn: &Turn, tool: Tool) -> Self {
        let arguments = turn.arguments.unwrap_or_default();
        let name = turn.name.unwrap_or_default();
        let each = serde_json::from_str::<serde_json::Map<String, Value>>(arguments);
        let in_file = notes_in_file(name, arguments);
        let is_note = tool.takes_notes || tool.thinks || in_file;
        // Thoughts are numbered, and a file has places.
        let counts = |value: &Value| !(tool.thinks || in_file) || value.is_string();
        let values = match each {
            Ok(each) => each
                .iter()
                .filter(|(key, value)| !PAGES.is_match(key) && counts(value))
                .map(|(key, value)| match value {
                    Value::String(text) if is_note => AskedValue::noted(key, text),
                    // An address names a page after this sign.
                    Value::String(text) if text.contains('=') => {
                        AskedValue::of(key, &without_place(text))
                    }
                    Value::Array(_) if is_note => AskedValue::noted(key, &texts_in(value)),
                    Value::String(text) => AskedValue::of(key, text),
                    other => AskedValue::of(key, &other.to_string()),
                })
                .collect(),
            Err(_) if is_note => vec![AskedValue::noted("", arguments)],
            Err(_) => vec![AskedValue::of("", arguments)],
        };
        Self {
            tool: code(name),
            is_command: !tool.in_words,
            values,
            is_note,
            lists: !tool.searches && (tool.lists || (tool.reads && asks_page(arguments))),
        }
    }

    /// Write it, for a search that may still move.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Read what `bytes` wrote.
    #[must_use]
    pub fn read(bytes: &[u8]) -> Self {
        serde_json::from_slice(bytes).unwrap_or_default()
    }

    /// Whether a search with the answer of another one may be for the same thing.
    fn is_again(&self, other: &Self, answer: i64) -> bool {
        if self.is_note {
            self.says_again(other)
        } else if self.lists {
            self.filters_again(other)
        } else if self.is_command && answer != NOTHING_FOUND {
            self.is_near(other)
        } else {
            self.is_like(other)
        }
    }

    /// Whether it is a note of the agent.
    #[must_use]
    pub fn is_note(&self) -> bool {
        self.is_note
    }

    /// Whether two filters are one, spelled in another way or with less in it.
    fn filters_again(&self, other: &Self) -> bool {
        let mut common = 0;
        let is_like = |one: &AskedValue| {
            let Some(two) = other.values.iter().find(|two| two.key == one.key) else {
                return true;
            };
            common += 1;
            one.code == two.code || one.is_spelling(two)
        };
        self.tool == other.tool
            && self.values.iter().all(is_like)
            && common == self.values.len().min(other.values.len())
    }

    /// Whether two notes say the same in other words; what is no sentence is a name, and must be equal.
    fn says_again(&self, other: &Self) -> bool {
        let both = || self.values.iter().zip(&other.values);
        self.values.len() == other.values.len()
            && both().any(|(one, _)| one.gist.is_some())
            && both().all(|(one, two)| one.key == two.key && one.says_again(two))
    }

    /// Whether two commands ask nearly the same: one has all words of the other, and more.
    ///
    /// Another place, such as a folder, is another thing; what is said of a command does not matter.
    fn is_near(&self, other: &Self) -> bool {
        let both = self.values.iter().filter_map(|one| {
            let mut others = other.values.iter();
            Some((one, others.find(|two| two.key == one.key)?))
        });
        let mut runs = 0;
        let near = both.into_iter().all(|(one, two)| {
            runs += usize::from(one.runs);
            let is_said = !one.runs && one.spoken.len().max(two.spoken.len()) > 1;
            one.code == two.code || is_said || (one.runs && one.is_near(two))
        });
        near && runs > 0 && self.tool == other.tool
    }

    /// Whether two searches may be for one thing, in whatever words.
    ///
    /// They are for two things if the same tool was asked the same in all but what is searched for,
    /// and that has nothing in common, such as two names, addresses, days or packages.
    fn is_like(&self, other: &Self) -> bool {
        let keys = |asked: &Self| asked.values.iter().map(|one| one.key).collect::<Vec<_>>();
        if self.tool != other.tool || keys(self) != keys(other) {
            return true;
        }
        let both = || self.values.iter().zip(&other.values);
        let differ = |one: &AskedValue, two: &AskedValue| one.code != two.code;
        let mut differing: Vec<_> = both().filter(|(one, two)| differ(one, two)).collect();
        if differing.iter().any(|(one, _)| one.is_searched) {
            differing.retain(|(one, _)| one.is_searched);
        } else if self.values.iter().any(|one| one.is_searched) {
            // The same query elsewhere is the same search, but for another time or id.
            differing.retain(|(one, two)| one.has_digit && two.has_digit);
        }
        let is_like = |(one, two): &(&AskedValue, &AskedValue)| one.is_like(two, self.is_command);
        differing.is_empty() || differing.iter().any(is_like)
    }
}

impl AskedValue {
    fn of(key: &str, text: &str) -> Self {
        let read = head(text, ASKED_CHARS);
        let words = read.split_whitespace().take(ASKED_WORDS_MAX);
        Self {
            key: code(key),
            code: code(text),
            is_searched: SEARCHED.is_match(key),
            runs: RUN.is_match(key),
            has_digit: read.contains(|sign: char| sign.is_ascii_digit()),
            pairs: pairs_of(read),
            spoken: words
                .clone()
                .map(|word| code(&word.to_lowercase()))
                .collect(),
            words: words.map(word_of).collect(),
            gist: None,
            statement: statement_of(read),
        }
    }

    /// The same of a note.
    fn noted(key: &str, text: &str) -> Self {
        Self {
            gist: gist_of(text),
            ..Self::of(key, text)
        }
    }

    /// Whether one has all words of the other; another number is another thing.
    fn is_spelling(&self, other: &Self) -> bool {
        let stems = |value: &Self| -> BTreeSet<i64> {
            let parts = value.words.iter().flat_map(|word| &word.2);
            parts.flat_map(|part| part.1.iter().copied()).collect()
        };
        let (one, two) = (stems(self), stems(other));
        !(self.has_digit || other.has_digit || one.is_empty() || two.is_empty())
            && (one.is_subset(&two) || two.is_subset(&one))
    }

    fn says_again(&self, other: &Self) -> bool {
        let is_like = |(one, two): (&Gist, &Gist)| one.is_like(two);
        self.code == other.code
            || self
                .gist
                .as_ref()
                .zip(other.gist.as_ref())
                .is_some_and(is_like)
    }

    /// Whether one has all words of the other, and more; of a long one, few may be others.
    fn is_near(&self, other: &Self) -> bool {
        let (one, two) = (&self.statement, &other.statement);
        if !(one.is_empty() || two.is_empty()) {
            return one.is_subset(two) || two.is_subset(one);
        }
        let (one, two) = (&self.spoken, &other.spoken);
        let lacks = |a: &[i64], b: &[i64]| a.iter().filter(|word| !b.contains(word)).count();
        one.len() != two.len()
            && lacks(one, two).min(lacks(two, one)) * NEAR_WORDS <= one.len().min(two.len())
    }

    fn is_like(&self, other: &Self, has_places: bool) -> bool {
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

/// The codes of pairs of signs of a script without spaces between words; a sign alone is one, too.
fn pairs_of(text: &str) -> Vec<i64> {
    let is_dense = |sign: &char| *sign >= WITHOUT_SPACES && sign.is_alphanumeric();
    let runs = text
        .split(|sign| !is_dense(&sign))
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
    pairs.take(ASKED_WORDS_MAX).collect()
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

/// The last searches of an agent that had a short answer, such as none.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Searches(VecDeque<Searched>);

/// A search: its answer, what it asked for, and the code of the thing that it was for.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Searched {
    answer: i64,
    asked: Asked,
    thing: i64,
}

impl Searches {
    /// Return the code of a search with this answer: that of the last one with it, or another if
    /// none of those with it may be for the same thing.
    pub fn thing(&mut self, asked: Asked, answer: i64, call: i64) -> i64 {
        let mut alike = self.0.iter().filter(|one| one.answer == answer).peekable();
        let thing = match alike.peek() {
            None => answer,
            Some(last) => {
                let last = last.thing;
                let again = alike.any(|one| asked.is_again(&one.asked, answer));
                if again { last } else { pair(answer, call) }
            }
        };
        self.0.truncate(SEARCHES_KEPT - 1);
        self.0.push_front(Searched {
            answer,
            asked,
            thing,
        });
        thing
    }
}

#[cfg(test)]
mod tests {
    use super::super::tool::tool;
    use super::*;

    #[test]
    fn what_a_search_found_is_nothing_or_its_answer() {
        let found_by = |name, arguments, result| {
            let turn = Turn {
                name,
                arguments,
                result: Some(result),
                ..Turn::default()
            };
            let row = Row {
                outcome: 7,
                ..Row::default()
            };
            found(&turn, tool(name), &row, result)
        };
        let grep = Some(r#"{"command":"grep -rn a src"}"#);
        assert_eq!(found_by(Some("search"), None, "0 rows"), NOTHING_FOUND);
        assert_eq!(found_by(Some("bash"), grep, ""), NOTHING_FOUND);
        assert_eq!(found_by(Some("bash"), grep, "a.py"), code("bash") ^ 7);
        let look = |command| found_by(Some("bash"), Some(command), "");
        assert_eq!(look("df -m /a | awk 'NR==9'"), NOTHING_FOUND);
        assert_eq!(look("df -m /a > b.txt"), UNKNOWN);
        assert_eq!(look("find a -exec rm {} +"), UNKNOWN);
        let select = Some(r#"{"sql":"select a from b"}"#);
        assert_eq!(
            found_by(Some("sql_query"), select, "3"),
            code("sql_query") ^ 7
        );
        assert_eq!(found_by(None, grep, "Exit code 1"), NOTHING_FOUND);
        assert_eq!(found_by(Some("search"), None, "3 rows"), code("search") ^ 7);
        assert_eq!(found_by(Some("sql_query"), None, "3 rows"), UNKNOWN);
        assert_eq!(found_by(Some("search"), None, "ok"), UNKNOWN);
        assert_eq!(found_by(Some("edit"), grep, "None"), UNKNOWN);
        let page = Some(r#"{"page":3}"#);
        let list = r#"{"items":[{"id":4}]}"#;
        assert_eq!(
            found_by(Some("list_users"), page, list),
            code("list_users") ^ code(list)
        );
        assert_eq!(found_by(Some("list_users"), None, list), UNKNOWN);
        assert_eq!(found_by(Some("fetch_rows"), page, "50 rows saved"), UNKNOWN);
    }

    #[test]
    fn a_command_with_more_after_it_asks_the_same() {
        let asked = |arguments: &str| {
            let turn = Turn {
                name: Some("bash"),
                arguments: Some(arguments),
                ..Turn::default()
            };
            Asked::of(&turn, tool(Some("bash")))
        };
        let count = asked(r#"{"command":"ls src | wc -l","description":"Count it"}"#);
        let more = r#"{"command":"ls src | wc -l | cut -c 1","description":"Only the figure"}"#;
        assert!(asked(more).is_near(&count));
        assert!(!asked(r#"{"command":"ls lib | wc -l"}"#).is_near(&count));
        assert!(!asked(r#"{"command":"ls lib | wc -l | cut -c 1"}"#).is_near(&count));
        let there = asked(r#"{"command":"ls src | wc -l","cwd":"/a"}"#);
        assert!(!asked(r#"{"command":"ls src | wc -l | cut -c 1","cwd":"/b"}"#).is_near(&there));
    }

    #[test]
    fn an_answer_is_of_the_thing_that_was_asked_before_with_it() {
        let mut searches = Searches::default();
        let mut thing = |command: &str, answer| {
            let turn = Turn {
                name: Some("bash"),
                arguments: Some(command),
                ..Turn::default()
            };
            let asked = Asked::of(&turn, tool(turn.name));
            searches.thing(asked, answer, code(command))
        };
        assert_eq!(thing("grep refund src", NOTHING_FOUND), NOTHING_FOUND);
        assert_eq!(thing("wc -l a.csv", 7), 7);
        // Another answer in between changes nothing.
        assert_eq!(thing("grep refunds src", NOTHING_FOUND), NOTHING_FOUND);
        assert_eq!(thing("wc -l a.csv | cut -f 1", 7), 7);
        assert_ne!(thing("wc -l b.csv", 7), 7);
        assert_ne!(thing("grep hello src", NOTHING_FOUND), NOTHING_FOUND);
    }

    fn asked_of(name: &str, arguments: &str) -> Asked {
        let turn = Turn {
            name: Some(name),
            arguments: Some(arguments),
            ..Turn::default()
        };
        Asked::of(&turn, tool(Some(name)))
    }

    #[test]
    fn a_filter_is_the_same_in_another_spelling() {
        let again = |one: &str, two: &str| {
            let asked = |arguments| asked_of("list_orders", arguments);
            asked(one).is_again(&asked(two), NOTHING_FOUND)
        };
        let open = r#"{"customer":"Acme","status":"open"}"#;
        assert!(again(open, r#"{"customer":"Acme","status":"is:OPEN"}"#));
        assert!(again(open, r#"{"customer":"Acme"}"#));
        assert!(again(
            r#"{"customer":"Acme","days":7}"#,
            r#"{"customer":"Acme","days":90}"#
        ));
        assert!(!again(open, r#"{"customer":"Acme","status":"closed"}"#));
        assert!(!again(
            r#"{"customer":"Acme Corp"}"#,
            r#"{"customer":"Globex Corp"}"#
        ));
        assert!(!again(
            r#"{"sprint":"Sprint 1"}"#,
            r#"{"sprint":"Sprint 2"}"#
        ));
        assert!(!again(r#"{"customer":"Acme"}"#, r#"{"vendor":"Globex"}"#));
    }

    #[test]
    fn a_note_says_the_same_in_other_words() {
        let again = |one: &str, two: &str| {
            let asked = |arguments| asked_of("save_memory", arguments);
            asked(one).is_again(&asked(two), 7)
        };
        let dark = r#"{"fact":"The user prefers dark mode."}"#;
        assert!(again(
            dark,
            r#"{"fact":"Preference of the user: dark mode"}"#
        ));
        assert!(!again(dark, r#"{"fact":"The user prefers dark tea."}"#));
        assert!(!again(
            r#"{"key":"lint","value":"yes"}"#,
            r#"{"key":"docs","value":"yes"}"#
        ));
        let called = |who| format!(r#"{{"contact":"{who}","text":"Called, but got no answer."}}"#);
        assert!(!again(&called("Kim"), &called("Lee")));
    }

    #[test]
    fn a_statement_is_the_same_under_other_aliases() {
        let near = |one: &str, two: &str| {
            let asked = |sql| asked_of("db_query", &format!(r#"{{"sql":"{sql}"}}"#));
            asked(one).is_near(&asked(two))
        };
        let open = "SELECT id, total FROM orders WHERE day = '2026-03-02' AND state = 'open'";
        for same in [
            "select o.total, o.id from orders o where o.state='open' and o.day='2026-03-02'",
            "SELECT * FROM orders WHERE state='open' AND day='2026-03-02' LIMIT 10",
        ] {
            assert!(near(open, same), "{same}");
        }
        let other = "SELECT id, total FROM orders WHERE day = '2026-03-03' AND state = 'open'";
        assert!(!near(open, other));
        assert!(!near(
            "select mail from users where id = 7",
            "select name from users where id = 7"
        ));
    }

    #[test]
    fn names_are_read_in_any_way_to_join_words() {
        assert!(tool(Some("search_docs")).searches && !tool(Some("search_docs")).changes);
        assert!(tool(Some("read_todos")).notes && tool(Some("read_todos")).reads);
        assert!(!tool(Some("edit_tests")).checker.checks && !tool(None).reads);
    }
}
