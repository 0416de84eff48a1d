//! What searches asked for, and which of them were for the same thing.

use std::borrow::Cow;
use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::apologies::apologises;
use super::asked_value::AskedValue;
use super::notes::{notes_in_file, texts_in};
use super::search::NOTHING_FOUND;
use super::tool::Tool;
use crate::count::codes::{code, pair};
use crate::count::turn::Turn;
use crate::patterns::rows;
use crate::same::pages::{asks_page, without_place};
use crate::tables::MARKS;

rows! {
    PAGES: Pattern = MARKS["page_keys"];
}

// The key of what was said before (CrewAI).
const CONTEXT: &str = "context";
// Searches with which a new one is compared.
const SEARCHES_KEPT: usize = 8;

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

impl Asked {
    /// Read the arguments of a search.
    #[must_use]
    pub fn of(turn: &Turn, tool: Tool, declined: bool) -> Self {
        let arguments = turn.arguments.unwrap_or_default();
        let name = turn.name.unwrap_or_default();
        let each = serde_json::from_str::<serde_json::Map<String, Value>>(arguments);
        let in_file = notes_in_file(name, arguments);
        let is_note = in_file || tool.takes_notes || tool.thinks || says_again(tool, arguments);
        // Thoughts are numbered, and a file has places.
        let counts = |value: &Value| !(tool.thinks || in_file) || value.is_string();
        let values = match each {
            Ok(each) => each
                .iter()
                .filter(|(key, value)| !is_page(key, value) && counts(value))
                // Beside a task that is given away stands whatever was said before.
                .filter(|(key, _)| !(tool.gives_work && key.as_str() == CONTEXT))
                .map(|(key, value)| match value {
                    Value::String(text) if tool.gives_work && declined => {
                        AskedValue::declined(key, text)
                    }
                    Value::String(text) if is_note => AskedValue::noted(key, text),
                    // An address names a page after this sign.
                    Value::String(text) if text.contains('=') => {
                        AskedValue::of(key, &without_place(text))
                    }
                    Value::Array(_) if is_note => AskedValue::noted(key, &texts_in(value)),
                    Value::String(text) => AskedValue::of(key, text),
                    other => AskedValue::of(key, &without_pages(other).to_string()),
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
            lists: !tool.searches && (tool.lists || asks_page(arguments)),
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
            && both().any(|(one, _)| one.gist.is_some() || one.apology.is_some())
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
            if differing.iter().any(|(one, two)| one.is_elsewhere(two)) {
                // One word is looked for in each of many folders.
                return false;
            }
            // The same query with other options is the same search, but for another time or id.
            differing.retain(|(one, two)| one.has_digit && two.has_digit);
        }
        let is_like = |(one, two): &(&AskedValue, &AskedValue)| one.is_like(two, self.is_command);
        differing.is_empty() || differing.iter().any(is_like)
    }
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
    /// none of those with it may be for the same thing. One that `tries` other words is for that.
    pub fn thing(&mut self, asked: Asked, answer: i64, call: i64, tries: bool) -> i64 {
        let mut alike = self.0.iter().filter(|one| one.answer == answer).peekable();
        let thing = match alike.peek() {
            None => answer,
            Some(last) => {
                let last = last.thing;
                let again = (tries && answer == NOTHING_FOUND)
                    || alike.any(|one| asked.is_again(&one.asked, answer));
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

/// Whether a call tells somebody something that it may have told before in other words: an apology,
/// or work that it gives away.
#[must_use]
pub fn says_again(tool: Tool, arguments: &str) -> bool {
    tool.gives_work || (tool.tells && apologises(arguments))
}

/// Whether a value says which part is shown, or how much: by its key, or as a cursor.
fn is_page(key: &str, value: &Value) -> bool {
    let is_plain = value.is_string() || value.is_number();
    PAGES.is_match(key) || (is_plain && asks_page(&format!("\"{key}\":{value}")))
}

/// A value without what says which part is shown, where it is an object.
fn without_pages(value: &Value) -> Cow<'_, Value> {
    let Value::Object(fields) = value else {
        return Cow::Borrowed(value);
    };
    let named = fields.iter().filter(|(key, value)| !is_page(key, value));
    let rest = named.map(|(key, value)| (key.clone(), without_pages(value).into_owned()));
    Cow::Owned(Value::Object(rest.collect()))
}

#[cfg(test)]
mod tests {
    use super::super::tool::tool;
    use super::*;

    #[test]
    fn a_command_with_more_after_it_asks_the_same() {
        let asked = |arguments: &str| {
            let turn = Turn {
                name: Some("bash"),
                arguments: Some(arguments),
                ..Turn::default()
            };
            Asked::of(&turn, tool(Some("bash")), false)
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
            let asked = Asked::of(&turn, tool(turn.name), false);
            searches.thing(asked, answer, code(command), false)
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
        Asked::of(&turn, tool(Some(name)), false)
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
    fn another_page_of_the_same_is_no_other_filter() {
        let again = |one: &str, two: &str| {
            let asked = |arguments| asked_of("contacts", arguments);
            asked(one).is_again(&asked(two), 7)
        };
        assert!(again(r#"{"page":1}"#, r#"{"page":2}"#));
        let given = |city, cursor| {
            format!(r#"{{"variables":{{"city":"{city}","cursor":"{cursor}"}},"page":1}}"#)
        };
        assert!(again(&given("Oslo", "Y3Vyc"), &given("Oslo", "eyJpZ")));
        assert!(!again(&given("Oslo", "Y3Vyc"), &given("Bergen", "Y3Vyc")));
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
