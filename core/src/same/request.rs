//! The arguments that make two calls the same.
//!
//! Besides declared keys, a few keys are dropped by their names: clients send a fresh token in them
//! with every call. All other arguments count, because a different id is different work. Their
//! notation does not count: a key without a value equals a missing key, and "16" is the number 16.

use std::borrow::Cow;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Number, Value};

use super::json::{canonical, parsed};
use super::masks::FRESH;
use super::policy::{Sameness, Tool};
use super::tools::purpose;
use super::turn::Turn;
use crate::patterns::{pattern, replaced, rows};
use crate::tables::TOOL_KINDS;

// Keys that exist to carry a new value with every call, without case, "_" and "-". A call without
// other arguments looks the value up, so the value counts there.
const VOLATILE_KEYS: [&str; 8] = [
    "requestid",
    "correlationid",
    "idempotencykey",
    "nonce",
    "toolcallid",
    "traceid",
    "traceparent",
    "timestamp",
];
static MAY_BE_VOLATILE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r#"(?i)"(?:request|correlation|tool[_-]?call|trace)[_-]?id"|"idempotency[_-]?key""#,
        r#"|"nonce"|"traceparent"|"timestamp""#
    ))
});
// Why an agent hands over to another one, in its words.
const REASON_KEYS: [&str; 6] = [
    "reason",
    "message",
    "context",
    "summary",
    "notes",
    "explanation",
];
// What is run: a line of a command or of code. A word alone may be one of a tool's own commands,
// whose other arguments count.
static RUNS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#""(?:command|cmd|code|script)" ?: ?(?:\[|"[^"]*[ /(])"#));
static WHY_LOOK: LazyLock<Why> = LazyLock::new(|| Why::of(&["look"]));
static WHY_RUN: LazyLock<Why> = LazyLock::new(|| Why::of(&["look", "run"]));
// What a caller names a run of another agent; the last one is its request, unless that has a key.
const NAMING_KEYS: [&str; 8] = [
    "name",
    "agent_name",
    "agent_id",
    "id",
    "label",
    "title",
    "nickname",
    "description",
];
// Around what a command prints.
const LABEL_QUOTES: [char; 4] = ['\\', '"', '\'', ' '];
// A shorter name may be a part of any word.
const NAME_BYTES_MIN: usize = 4;
const REQUEST_KEY: &str = "\"prompt\":";
// A shorter answer only says that the agent has begun, and there may be many of them.
const FINDING_WORDS_MIN: usize = 8;
static PLAIN_WORD: LazyLock<Regex> = LazyLock::new(|| pattern(r"[^\W\d_]+"));
// Without leading zeros, which codes have, and short enough that no JSON reader rounds them.
const WHOLE_NUMBER_DIGITS_MAX: usize = 15;
rows! {
    VERSIONS: Pattern = TOOL_KINDS["versions"];
    LABELS: Pattern = TOOL_KINDS["labels"];
    REPLIES: Pattern = TOOL_KINDS["replies"];
}

static MAY_BE_LOOSE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#":\s*(?:null|""|\[\]|\{\}|"-?(?:0|[1-9][0-9]{0,14})")"#));

// Paths under a key that could be written in fewer words.
static SPELLINGS: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#"("(?i:(?:[a-z]+_?)?(?:path|file|file_?name|dir|directory|folder|cwd))":")([^"\\:]*/[^"\\:]*)""#,
    )
});

/// The arguments of a turn as they are compared. What is no JSON object stays as it is.
///
/// A file that is written as its next version, with the same content, is the same file, and so is
/// one whose path is spelled in another way. An answer to an answer has the same subject, and
/// thoughts are numbered.
#[must_use]
pub fn request<'a>(turn: &Turn<'a>, sameness: &Sameness) -> Option<Cow<'a, str>> {
    let asked = asked(turn, sameness)?;
    if turn.kind != "tool" {
        return Some(asked);
    }
    if purpose(turn.name).thinks {
        return Some(texts_of(&asked).map_or(asked, Cow::Owned));
    }
    let asked = replaced(replaced(asked, &REPLIES, "$1"), &LABELS, "$1");
    let asked = plainly_spelled(asked);
    if !purpose(turn.name).changes {
        return Some(asked);
    }
    Some(replaced(asked, &VERSIONS, "$1.$2"))
}

/// The arguments without numbers and marks at their top, if any text is left.
fn texts_of(arguments: &str) -> Option<String> {
    let Some(Value::Object(mut given)) = parsed(arguments) else {
        return None;
    };
    given.retain(|_, item| !matches!(item, Value::Bool(_) | Value::Number(_)));
    canonical(&Value::Object(given)).filter(|texts| texts != "{}")
}

/// What a command showed, without the label that it printed first.
#[must_use]
pub fn without_label<'a>(shown: Cow<'a, str>, arguments: Option<&str>) -> Cow<'a, str> {
    let label = arguments.and_then(|asked| LABELS.captures(asked)?.get(2));
    let Some(label) = label.map(|label| label.trim_matches(LABEL_QUOTES)) else {
        return shown;
    };
    let begins = |at: &usize| shown[..*at].ends_with(['"', '\n']) || shown[..*at].trim().is_empty();
    let Some(at) = shown.find(label).filter(begins) else {
        return shown;
    };
    let rest = &shown[at + label.len()..];
    let ends = ["\n", "\\n"].into_iter();
    let rest = if rest.is_empty() {
        Some(rest)
    } else {
        ends.into_iter().find_map(|end| rest.strip_prefix(end))
    };
    rest.map(|rest| format!("{}{rest}", &shown[..at]))
        .map_or(shown, Cow::Owned)
}

/// The arguments with each path in its shortest form: `./a/`, `a/.` and `b/../a` are `a`.
fn plainly_spelled(arguments: Cow<'_, str>) -> Cow<'_, str> {
    if !arguments.contains('/') {
        return arguments;
    }
    let plain = |found: &Captures<'_>| format!("{}{}\"", &found[1], plain_path(&found[2]));
    match SPELLINGS.replace_all(&arguments, plain) {
        Cow::Borrowed(_) => arguments,
        Cow::Owned(plain) => Cow::Owned(plain),
    }
}

/// An error in which each path that the call was given has its shortest form.
#[must_use]
pub fn plainly_told<'a>(error: Cow<'a, str>, arguments: Option<&str>) -> Cow<'a, str> {
    let given = SPELLINGS.captures_iter(arguments.unwrap_or_default());
    given.fold(error, |error, path| {
        let plain = plain_path(&path[2]);
        if plain == path[2] || !error.contains(&path[2]) {
            return error;
        }
        Cow::Owned(error.replace(&path[2], &plain))
    })
}

/// A path in its shortest form.
#[must_use]
pub fn plain_path(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    let plain = format!("{root}{}", parts.join("/"));
    if plain.is_empty() {
        ".".to_owned()
    } else {
        plain
    }
}

/// The keys of words on why a call is made.
struct Why {
    keys: Vec<&'static str>,
    any: Regex,
}

impl Why {
    fn of(kinds: &[&str]) -> Self {
        let rows = TOOL_KINDS["why_keys"].iter();
        let rows = rows.filter(|row| kinds.contains(&row.kind.as_str()));
        let keys: Vec<&str> = rows
            .flat_map(|row| row.keys.iter().map(String::as_str))
            .collect();
        let any = pattern(&format!(r#""(?:{})" ?:"#, keys.join("|")));
        Self { keys, any }
    }

    /// The keys, if the arguments may have one of them.
    fn keys_in(&'static self, arguments: &str) -> &'static [&'static str] {
        if self.any.is_match(arguments) {
            &self.keys
        } else {
            &[]
        }
    }
}

/// Whether a key of any call says why it is made.
#[must_use]
pub fn is_why_key(key: &str) -> bool {
    WHY_LOOK.keys.contains(&key)
}

/// The keys under which a call says why it is made.
fn why_keys(turn: &Turn<'_>, arguments: &str) -> &'static [&'static str] {
    let purpose = purpose(turn.name);
    if RUNS.is_match(arguments) {
        WHY_RUN.keys_in(arguments)
    } else if purpose.reads || purpose.searches {
        WHY_LOOK.keys_in(arguments)
    } else {
        &[]
    }
}

/// The keys by which a call names an agent that it begins anew, where that agent found something.
fn naming_keys(turn: &Turn<'_>) -> &'static [&'static str] {
    let found = |text: &str| {
        PLAIN_WORD
            .find_iter(text)
            .nth(FINDING_WORDS_MIN - 1)
            .is_some()
    };
    let is_run = purpose(turn.name).spawns && turn.result.or(turn.error).is_some_and(found);
    match turn.arguments {
        Some(asked) if is_run && asked.contains(REQUEST_KEY) => &NAMING_KEYS,
        Some(_) if is_run => &NAMING_KEYS[..NAMING_KEYS.len() - 1],
        _ => &[],
    }
}

/// What an agent found that was begun by a call, without the name that the call gave it.
#[must_use]
pub fn without_names<'a>(found: &'a str, turn: &Turn<'_>) -> Cow<'a, str> {
    let keys = naming_keys(turn);
    let Some(Value::Object(given)) = turn.arguments.filter(|_| !keys.is_empty()).and_then(parsed)
    else {
        return Cow::Borrowed(found);
    };
    let names = keys.iter().filter_map(|key| given.get(*key)?.as_str());
    names
        .filter(|name| name.len() >= NAME_BYTES_MIN)
        .fold(Cow::Borrowed(found), |found, name| {
            Cow::Owned(found.replace(name, FRESH))
        })
}

fn asked<'a>(turn: &Turn<'a>, sameness: &Sameness) -> Option<Cow<'a, str>> {
    let arguments = turn.arguments?;
    if turn.kind != "tool" || !arguments.starts_with('{') {
        return Some(Cow::Borrowed(arguments));
    }
    let tool = turn.name.and_then(|name| sameness.tools.get(name));
    let is_declared =
        tool.is_some_and(|tool| !tool.volatile_keys.is_empty() || !tool.same_call.is_empty());
    let unsaid_keys = match turn.name {
        _ if is_declared => &[],
        Some(name) if purpose(Some(name)).hands_over => &REASON_KEYS[..],
        _ => match naming_keys(turn) {
            [] => why_keys(turn, arguments),
            naming => naming,
        },
    };
    if !(is_declared
        || !unsaid_keys.is_empty()
        || MAY_BE_VOLATILE.is_match(arguments)
        || MAY_BE_LOOSE.is_match(arguments))
    {
        return Some(Cow::Borrowed(arguments));
    }
    let unsaid = Tool {
        volatile_keys: unsaid_keys.iter().map(|key| (*key).to_owned()).collect(),
        ..Tool::default()
    };
    Some(reduced(arguments, tool.unwrap_or(&unsaid)).map_or(Cow::Borrowed(arguments), Cow::Owned))
}

fn reduced(arguments: &str, tool: &Tool) -> Option<String> {
    let Some(Value::Object(mut value)) = parsed(arguments) else {
        return None;
    };
    if !tool.same_call.is_empty() {
        let named = tool
            .same_call
            .iter()
            .map(|path| (path.clone(), at(&value, path)));
        return canonical(&strict(Value::Object(named.collect())));
    }
    for path in &tool.volatile_keys {
        drop_at(&mut value, path);
    }
    let stays: Map<String, Value> = value
        .iter()
        .filter(|(key, _)| !is_volatile(key))
        .map(|(key, item)| (key.clone(), item.clone()))
        .collect();
    let compared = strict(Value::Object(stays));
    canonical(&if is_empty(&compared) {
        Value::Object(value)
    } else {
        compared
    })
}

/// The canonical form of a value: without empty keys, whole numbers as numbers.
fn strict(value: Value) -> Value {
    match value {
        Value::String(text) if is_whole_number(&text) => text
            .parse::<i64>()
            .map_or(Value::String(text), |number| Number::from(number).into()),
        Value::Array(items) => Value::Array(items.into_iter().map(strict).collect()),
        Value::Object(items) => {
            let all = items.into_iter().map(|(key, item)| (key, strict(item)));
            Value::Object(all.filter(|(_, item)| !is_empty(item)).collect())
        }
        other => other,
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(items) => items.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

fn is_whole_number(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let has_zero_first = digits.len() > 1 && digits.starts_with('0');
    (1..=WHOLE_NUMBER_DIGITS_MAX).contains(&digits.len())
        && digits.bytes().all(|digit| digit.is_ascii_digit())
        && !has_zero_first
}

fn is_volatile(key: &str) -> bool {
    let word = key.replace(['_', '-'], "").to_lowercase();
    VOLATILE_KEYS.contains(&word.as_str())
}

fn at(value: &Map<String, Value>, path: &str) -> Value {
    let mut keys = path.split('.');
    let first = keys.next().and_then(|key| value.get(key));
    keys.fold(first, |item, key| item?.get(key))
        .cloned()
        .unwrap_or(Value::Null)
}

fn drop_at(value: &mut Map<String, Value>, path: &str) {
    let (above, last) = path.rsplit_once('.').unwrap_or(("", path));
    let mut holder = Some(value);
    for key in above.split('.').filter(|_| !above.is_empty()) {
        holder = holder.and_then(|items| items.get_mut(key)?.as_object_mut());
    }
    if let Some(items) = holder {
        items.shift_remove(last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_keys_empty_keys_and_the_notation_of_numbers_do_not_count() {
        let none = Tool::default();
        let given = r#"{"request_id":"r1","n":"16","a":"","b":{"c":null},"code":"007"}"#;
        assert_eq!(
            reduced(given, &none).as_deref(),
            Some(r#"{"code":"007","n":16}"#)
        );
        assert_eq!(
            reduced(r#"{"traceId":"r1"}"#, &none).as_deref(),
            Some(r#"{"traceId":"r1"}"#)
        );
        assert_eq!(reduced("[1]", &none), None);
    }

    #[test]
    fn why_an_agent_hands_over_does_not_count() {
        let asked = |name, arguments| Turn {
            kind: "tool",
            name: Some(name),
            arguments: Some(arguments),
            ..Turn::default()
        };
        let any = Sameness::new(Default::default(), Vec::new(), Default::default());
        let any = any.expect("no mask is declared");
        let to = |name, arguments| request(&asked(name, arguments), &any).map(Cow::into_owned);
        let said = r#"{"reason":"a","order":7}"#;
        assert_eq!(
            to("transfer_to_sales", said).as_deref(),
            Some(r#"{"order":7}"#)
        );
        assert_eq!(to("cancel", said).as_deref(), Some(said));
    }

    #[test]
    fn what_a_command_prints_first_does_not_count() {
        let any = Sameness::new(Default::default(), Vec::new(), Default::default());
        let any = any.expect("no mask is declared");
        let asked = |arguments| {
            let turn = Turn {
                kind: "tool",
                name: Some("bash"),
                arguments: Some(arguments),
                ..Turn::default()
            };
            request(&turn, &any).map(Cow::into_owned)
        };
        let make = Some(r#"{"command":"make"}"#.to_owned());
        let first = r#"{"command":"echo \"first try\" && make"}"#;
        assert_eq!(asked(first), make);
        assert_eq!(asked(r#"{"command":"echo once more; make"}"#), make);
        let shown = |text| without_label(Cow::Borrowed(text), Some(first)).into_owned();
        assert_eq!(shown("first try\nfailed"), "failed");
        assert_eq!(
            shown(r#"{"stdout":"first try\nfailed"}"#),
            r#"{"stdout":"failed"}"#
        );
        assert_eq!(shown("my first try\nfailed"), "my first try\nfailed");
    }

    #[test]
    fn declared_paths_are_dropped_or_alone_count() {
        let drops = Tool {
            volatile_keys: vec!["a.b".into(), "x.y".into()],
            ..Tool::default()
        };
        assert_eq!(
            reduced(r#"{"a":{"b":1,"c":2}}"#, &drops).as_deref(),
            Some(r#"{"a":{"c":2}}"#)
        );
        let counts = Tool {
            same_call: vec!["a.b".into(), "z".into()],
            ..Tool::default()
        };
        assert_eq!(
            reduced(r#"{"a":{"b":1},"q":2}"#, &counts).as_deref(),
            Some(r#"{"a.b":1}"#)
        );
    }
}
