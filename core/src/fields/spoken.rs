//! Calls and results that agents write into the texts of messages.
//!
//! Some agents give a model no tools of its API. It asks for a call in a form that the agent reads,
//! and the next message of the user is the result, which no person wrote.

use std::sync::LazyLock;

use regex::Regex;

use super::message::{ToolCall, ToolResult, UNNAMED};
use super::parts::Sorted;
use super::payloads::{arguments_of, first_some, parsed_text};
use super::plain::{as_text, bounded_name, canonical_object};
use super::results::result_of;
use crate::patterns::pattern;
use crate::tables::{SPOKEN, any_of};
use crate::wire::value::{Map, Value};

static TAGS: LazyLock<Vec<Regex>> = LazyLock::new(|| each("tags"));
static OBJECTS: LazyLock<Vec<Regex>> = LazyLock::new(|| each("objects"));
static COMMANDS: LazyLock<Vec<Regex>> = LazyLock::new(|| each("commands"));
static ARGUMENTS: LazyLock<Regex> = LazyLock::new(|| pattern(&any_of(&SPOKEN["arguments"])));
static HEADS: LazyLock<Regex> = LazyLock::new(|| pattern(&any_of(&SPOKEN["heads"])));
static RESULTS: LazyLock<Vec<Regex>> = LazyLock::new(|| each("results"));

// Most texts have none of these, and all calls have one.
const CALLS_BEGIN: [&str; 4] = ["</", "THOUGHT:", "DISCUSSION", "<tool_call>"];
const RESULTS_BEGIN: [&str; 6] = [
    "[",
    "EXECUTION",
    "OBSERVATION:",
    "<returncode>",
    "<exception>",
    "<tool_response>",
];
// The prompt of a shell at the end of a result.
const PROMPT: &str = "bash-$";
const SHELL: &str = "bash";
// The tag of Cline and Roo for a tool of a server, whose name and arguments stand within.
const OF_SERVER: &str = "use_mcp_tool";

fn each(name: &str) -> Vec<Regex> {
    SPOKEN[name]
        .iter()
        .map(|row| pattern(&row.pattern))
        .collect()
}

/// Take the calls or the results out of the texts of a message that has neither.
pub fn sort_spoken(role: &str, sorted: &mut Sorted) {
    if !(sorted.calls.is_empty() && sorted.results.is_empty()) {
        return;
    }
    let begins = |text: &String| {
        let text = text.trim();
        RESULTS_BEGIN.iter().any(|sign| text.starts_with(sign)) || text.ends_with(PROMPT)
    };
    let has_call = |text: &String| CALLS_BEGIN.iter().any(|sign| text.contains(sign));
    if role == "assistant" && sorted.texts.iter().any(has_call) {
        let text = sorted.texts.join("\n");
        let (calls, rest) = calls_in(&text);
        if !calls.is_empty() {
            (sorted.calls, sorted.texts) = (calls, vec![rest]);
        }
    } else if role == "user" && sorted.texts.first().is_some_and(begins) {
        let results = results_in(&sorted.texts.join("\n"));
        if !results.is_empty() {
            (sorted.results, sorted.texts) = (results, Vec::new());
        }
    }
}

/// The calls in a text, and the text before the first one.
fn calls_in(text: &str) -> (Vec<ToolCall>, String) {
    let mut found = Vec::new();
    let mut add = |forms: &[Regex], read: fn(&regex::Captures) -> Option<ToolCall>| {
        for form in forms {
            let calls = form.captures_iter(text);
            found.extend(calls.filter_map(|each| {
                let at = each.get(0)?.start();
                Some((at, read(&each)?))
            }));
        }
    };
    add(&TAGS, tagged);
    add(&OBJECTS, |each| object(&each[1]));
    add(&COMMANDS, |each| {
        Some(call(SHELL, &[("command", &each[1])]))
    });
    found.sort_by_key(|(at, _)| *at);
    let start = found.first().map_or(text.len(), |(at, _)| *at);
    let calls = found.into_iter().map(|(_, call)| call).collect();
    (calls, text[..start].trim().to_owned())
}

fn tagged(found: &regex::Captures) -> Option<ToolCall> {
    let given: Vec<_> = ARGUMENTS
        .captures_iter(&found[2])
        .map(|each| each.extract::<2>().1)
        .map(|[name, value]| (name, value))
        .collect();
    let value = |key: &str| given.iter().find(|(name, _)| *name == key);
    if &found[1] == OF_SERVER
        && let Some((_, name)) = value("tool_name")
    {
        let arguments = value("arguments").map(|(_, text)| Value::Text((*text).into()));
        return Some(ToolCall {
            call_id: None,
            name: bounded_name(name),
            arguments: arguments.and_then(|text| arguments_of(&text)),
        });
    }
    Some(call(&found[1], &given))
}

fn object(text: &str) -> Option<ToolCall> {
    let Value::Map(map) = parsed_text(text)? else {
        return None;
    };
    let arguments = first_some(&map, &["arguments", "parameters"]).and_then(arguments_of);
    let name = map.get("name").map(as_text)?;
    Some(ToolCall {
        call_id: None,
        name: bounded_name(&name),
        arguments,
    })
}

fn call(name: &str, given: &[(&str, &str)]) -> ToolCall {
    let mut arguments = Map::default();
    for (name, value) in given {
        let value = Value::Text((*value).to_owned().into());
        arguments.put((*name).to_owned().into(), value);
    }
    ToolCall {
        call_id: None,
        name: bounded_name(if name.is_empty() { UNNAMED } else { name }),
        arguments: Some(canonical_object(&arguments)),
    }
}

/// The results in a text: those below heads up to the next one, else what a form has in its group.
fn results_in(text: &str) -> Vec<ToolResult> {
    let heads: Vec<_> = HEADS.find_iter(text).collect();
    if heads
        .first()
        .is_some_and(|head| text[..head.start()].trim().is_empty())
    {
        let ends = heads
            .iter()
            .skip(1)
            .map(regex::Match::start)
            .chain([text.len()]);
        let told = heads.iter().zip(ends);
        return told
            .map(|(head, end)| result(text[head.end()..end].trim()))
            .collect();
    }
    let form = RESULTS.iter().find(|form| form.is_match(text));
    let found = form.into_iter().flat_map(|form| form.captures_iter(text));
    let returned = found.filter_map(|each| each.iter().skip(1).flatten().next());
    returned.map(|text| result(text.as_str())).collect()
}

fn result(text: &str) -> ToolResult {
    let (text, failed) = result_of(&Value::Text(text.into()));
    ToolResult {
        call_id: None,
        text,
        failed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(role: &str, texts: &[&str]) -> Sorted {
        let mut sorted = Sorted {
            texts: texts.iter().map(|text| (*text).to_owned()).collect(),
            ..Sorted::default()
        };
        sort_spoken(role, &mut sorted);
        sorted
    }

    #[test]
    fn calls_in_texts_have_names_and_arguments() {
        for (text, name, arguments, rest) in [
            (
                "I run it.\n<execute_command>\n<command>make test</command>\n</execute_command>",
                "execute_command",
                r#"{"command":"make test"}"#,
                "I run it.",
            ),
            (
                "<function=edit>\n<parameter=path>a</parameter>\n<parameter=text>\nb\nc\n</parameter>\n</function>",
                "edit",
                r#"{"path":"a","text":"b\nc"}"#,
                "",
            ),
            (
                "So.\n<tool_call>\n{\"name\": \"search\", \"arguments\": {\"q\": \"a\"}}\n</tool_call>",
                "search",
                r#"{"q":"a"}"#,
                "So.",
            ),
            (
                "<use_mcp_tool>\n<server_name>shop</server_name>\n<tool_name>find</tool_name>\n\
                 <arguments>\n{\"id\": 3}\n</arguments>\n</use_mcp_tool>",
                "find",
                r#"{"id":3}"#,
                "",
            ),
            (
                "THOUGHT: I look.\n\n```bash\nls -la\n```",
                SHELL,
                r#"{"command":"ls -la"}"#,
                "",
            ),
            (
                "DISCUSSION\nSo:\n```python\na = 1\n```\nI run it.\n```\npython a.py\n```\n",
                SHELL,
                r#"{"command":"python a.py"}"#,
                "",
            ),
        ] {
            let found = sorted("assistant", &[text]);
            let [call] = &found.calls[..] else {
                panic!("{text}: {:?}", found.calls)
            };
            let told = (&*call.name, call.arguments.as_deref());
            assert_eq!(told, (name, Some(arguments)), "{text}");
            assert_eq!(found.texts, [rest], "{text}");
        }
    }

    #[test]
    fn results_in_texts_are_no_words_of_a_person() {
        for (texts, results) in [
            (
                &["[execute_command for 'make'] Result:", "5 errors"][..],
                &["5 errors"][..],
            ),
            (&["EXECUTION RESULT of [bash]:\na"], &["a"]),
            (&["OBSERVATION:\na"], &["a"]),
            (
                &[
                    "[read_file for 'a'] Result:\n1\n",
                    "[read_file for 'b'] Result:\n2",
                ],
                &["1", "2"],
            ),
            (
                &["<tool_response>\na\n</tool_response>\n<tool_response>\nb\n</tool_response>"],
                &["a", "b"],
            ),
            (
                &["<returncode>0</returncode>\n<output>\n</output>"],
                &["<returncode>0</returncode>\n<output>\n</output>"],
            ),
            (
                &["a\n\n(Open file: n/a)\n(Current directory: /app)\nbash-$"],
                &["a"],
            ),
            (
                &[
                    "We're currently solving the following task.\n(Open file: n/a)\n(Current directory: /app)\nbash-$",
                ],
                &[],
            ),
            (&["[1] is a list of one"], &[]),
        ] {
            let found = sorted("user", texts);
            let told: Vec<_> = found
                .results
                .iter()
                .filter_map(|each| each.text.as_deref())
                .collect();
            assert_eq!(told, results, "{texts:?}");
            assert_eq!(found.texts.is_empty(), !results.is_empty(), "{texts:?}");
        }
    }

    #[test]
    fn other_texts_are_as_they_were() {
        for text in [
            "<ul><li>a</li></ul>",
            "Run this:\n```bash\nls\n```",
            "Use `<read_file>`.",
        ] {
            let found = sorted("assistant", &[text]);
            assert!(found.calls.is_empty(), "{text}");
            assert_eq!(found.texts, [text]);
        }
    }
}
