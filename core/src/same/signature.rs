//! The signature of a turn: a head to read, and a digest if the head omits any.
//!
//! Turns that are neither a failure nor a test run are compared in full, by call and outcome.
//! Attempts are compared by status and blockers, else by the work that they report. Hand-offs are
//! compared by the request.

use std::sync::LazyLock;

use regex::Regex;

use super::failed_tests::failed_tests;
use super::masks;
use super::text::{digest, head, is_longer, joined, slug};
use super::tools::purpose;
use super::turn::Turn;
use crate::patterns::{pattern, rows};
use crate::tables::FAILURES;

/// What is known of a turn before its signature is written.
pub struct Known<'a> {
    /// The turn.
    pub turn: &'a Turn<'a>,
    /// The arguments as they are compared.
    pub request: Option<&'a str>,
    /// The result as it is compared.
    pub answer: Option<&'a str>,
    /// The error as it is compared.
    pub message: Option<&'a str>,
    /// The digest of the call.
    pub call: Option<&'a str>,
    /// The digest of the outcome.
    pub outcome: Option<&'a str>,
    /// Whether the turn failed.
    pub failed: bool,
    /// Whether the text of the failure says nothing.
    pub hidden: bool,
    /// The text of the failure.
    pub error: Option<&'a str>,
    /// The type of the failure.
    pub error_type: Option<&'a str>,
    /// The place of the failure.
    pub location: Option<&'a str>,
    /// Failing tests by the turn's own text.
    pub failing: Option<i64>,
}

// The head of a signature, the whole that must be equal, and whether the head says all of it.
struct Parts {
    head: Option<String>,
    whole: Option<String>,
    says_all: bool,
}

// Signatures in the forms that the requirements name may be longer than the others.
const SIGNATURE_CHARS_MAX: usize = 50;
const FORM_CHARS_MAX: usize = 80;
const GIST_CHARS_MAX: usize = 40;
// A head is written from at most this much of a text.
const READ_CHARS: usize = 200;

// A longer answer shows what was done.
const UNCHANGED_CHARS_MAX: usize = 300;

rows! {
    UNCHANGED: Pattern = FAILURES["unchanged"];
}

// Arguments that say what was changed and where, and what was searched for.
static CHANGED_FILE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r#""(?i-u:(?:target_?|notebook_?)?(?:file|path)|file_?(?:path|name))" ?: ?"((?:[^"\\]|\\.)+)"#,
    )
});
static CHANGE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r#""(?i-u:description|instructions?|summary|explanation|message|title"#,
        r#"|new_?(?:str|string|text)|replacement|contents?|text|code|patch|diff)":"#,
        r#""((?:[^"\\]|\\.)+)"#
    ))
});
/// Arguments that say what was searched for; the only group is that.
pub const SEARCHED: &str = concat!(
    r#""(?i-u:query|q|pattern|search|search_?term|keywords?|regex|term|question)":"#,
    r#""((?:[^"\\]|\\.)+)"#
);
static SEARCH: LazyLock<Regex> = LazyLock::new(|| pattern(SEARCHED));
// A file without its folders; also the file of a place, unless the file is temporary.
static FILE_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"([^/\\]+)$"));
static FILE_OF_PLACE: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"([^/\\<>:\s]+\.[^/\\<>:\s]+)(?::[0-9]+)?$"));
// A text that a slug holds completely.
static ONLY_WORDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"^[\w.]+( [\w.]+)*$"));
static GAPS: LazyLock<Regex> = LazyLock::new(|| pattern(r"\s+"));

/// The file that a call changes, by its arguments.
#[must_use]
pub fn changed_file(arguments: &str) -> Option<&str> {
    value(&CHANGED_FILE, arguments)
}

/// The signature of a turn; `None` where it has none.
#[must_use]
pub fn signature(known: &Known<'_>) -> Option<String> {
    let is_reported = matches!(known.turn.kind, "handoff" | "attempt" | "switch");
    if is_reported {
        let parts = if known.turn.kind == "handoff" {
            of_handoff(known)
        } else {
            of_attempt(known)
        };
        return written(parts, FORM_CHARS_MAX);
    }
    if known.turn.kind == "tool" && known.failing.is_some_and(|failing| failing > 0) {
        return written(of_tests(known), FORM_CHARS_MAX);
    }
    if known.failed {
        return written(of_error(known), FORM_CHARS_MAX);
    }
    let name = known.turn.name.filter(|_| known.turn.kind == "tool")?;
    let purpose = purpose(Some(name));
    if purpose.changes
        && let Some(answer) = known.answer.filter(|answer| is_unchanged(answer))
    {
        return written(of_no_change(name, known.request?, answer), FORM_CHARS_MAX);
    }
    let (head, chars_max) = if purpose.changes {
        (of_change(known.request?), FORM_CHARS_MAX)
    } else if purpose.searches {
        (of_search(known.request?), FORM_CHARS_MAX)
    } else {
        (of_other(name, known.request?), SIGNATURE_CHARS_MAX)
    };
    let whole = Some(format!("{}-{}", known.call?, known.outcome?));
    written(
        Parts {
            head: Some(head),
            whole,
            says_all: false,
        },
        chars_max,
    )
}

fn written(parts: Parts, chars_max: usize) -> Option<String> {
    let text = parts.head?;
    if parts.says_all && !is_longer(&text, chars_max) {
        return Some(text);
    }
    Some(format!(
        "{}#{}",
        head(&text, chars_max),
        digest(&parts.whole?)
    ))
}

/// Count and name the failing tests; without names the text is compared.
fn of_tests(known: &Known<'_>) -> Parts {
    let texts = joined("\n", [known.turn.result, known.error]);
    let (file, names) = failed_tests(&texts);
    let count = format!("test-fail:{}-", known.failing.unwrap_or_default());
    if names.is_some() {
        let which = joined(":", [file.as_deref(), names.as_deref()]);
        let head = format!("{count}{which}");
        return Parts {
            whole: Some(head.clone()),
            head: Some(head),
            says_all: true,
        };
    }
    let text = known
        .message
        .or(known.answer)
        .map(|text| masks::masked(text, &[], false));
    Parts {
        head: text.as_deref().map(|text| format!("{count}{}", slug(text))),
        whole: text.map(|text| format!("{count}{text}")),
        says_all: false,
    }
}

/// Name type, gist and file; a text that says nothing proves sameness only for the same call.
fn of_error(known: &Known<'_>) -> Parts {
    let named = known.error_type.unwrap_or("Error");
    if known.hidden {
        let name = known.turn.name;
        let whole = name
            .zip(known.request)
            .map(|(name, asked)| format!("{named}\n{name}\n{asked}"));
        let head = name.map(|name| format!("error:{named}-{name}"));
        return Parts {
            head,
            whole,
            says_all: false,
        };
    }
    let gist = known.message.map(slug);
    let gist = gist
        .as_deref()
        .map(|words| head(words, GIST_CHARS_MAX).trim_end_matches('-'));
    // A temporary file has another name each time.
    let place = known
        .location
        .map(|location| masks::masked(location, &[], false));
    let file = place
        .as_deref()
        .and_then(|place| first(&FILE_OF_PLACE, place));
    let file = file.filter(|file| !gist.is_some_and(|gist| gist.contains(file)));
    let only_words = known
        .message
        .is_some_and(|message| !is_longer(message, GIST_CHARS_MAX) && ONLY_WORDS.is_match(message));
    Parts {
        head: Some(format!("error:{}", joined("-", [Some(named), gist, file]))),
        whole: known
            .message
            .map(|text| format!("{named}\n{text}\n{}", file.unwrap_or_default())),
        says_all: only_words,
    }
}

fn of_change(request: &str) -> String {
    let path = changed_file(request);
    let Some(file) = path.and_then(|path| first(&FILE_NAME, path)) else {
        return format!("file:{}", slug(request));
    };
    let gist = value(&CHANGE, request).map(slug);
    let gist = gist.as_deref().map(|words| head(words, GIST_CHARS_MAX));
    format!("file:{}", joined(":", [Some(file), gist]))
}

/// Compare the file and the answer, because no other text was found there either.
fn of_no_change(name: &str, request: &str, answer: &str) -> Parts {
    let path = changed_file(request).unwrap_or(request);
    let file = first(&FILE_NAME, path).unwrap_or(path);
    Parts {
        head: Some(format!("file:{}:unchanged", slug(file))),
        whole: Some(format!("{name}\n{path}\n{answer}")),
        says_all: false,
    }
}

fn is_unchanged(answer: &str) -> bool {
    !is_longer(answer, UNCHANGED_CHARS_MAX) && UNCHANGED.is_match(answer)
}

fn of_search(request: &str) -> String {
    format!(
        "search:{}",
        slug(value(&SEARCH, request).unwrap_or(request))
    )
}

fn of_other(name: &str, request: &str) -> String {
    format!(
        "{name}:{}",
        GAPS.replace_all(head(request, READ_CHARS), " ")
    )
}

/// Compare the request and its receiver, whatever the answer was.
fn of_handoff(known: &Known<'_>) -> Parts {
    let asked = known.request.map(slug);
    let head = format!(
        "request:{}",
        joined(":", [known.turn.name, asked.as_deref()])
    );
    Parts {
        head: Some(head),
        whole: known.call.map(str::to_owned),
        says_all: false,
    }
}

/// Compare the blockers of an attempt, else its work; a status alone says all that is known.
fn of_attempt(known: &Known<'_>) -> Parts {
    let is_blocked = known.turn.name == Some("blocked") && known.request.is_some();
    let report = if is_blocked {
        known.request
    } else {
        known.turn.result
    };
    let whose = known.turn.subtask.filter(|_| known.turn.kind == "switch");
    let whole = if is_blocked {
        known.call
    } else {
        known.outcome
    };
    let gist = report.map(slug);
    Parts {
        head: Some(joined(":", [whose, known.turn.name, gist.as_deref()])),
        whole: Some(joined("-", [whose, known.turn.name, whole])),
        says_all: report.is_none_or(|report| ONLY_WORDS.is_match(report)),
    }
}

/// The value of a key in arguments, which stands after the third quote. To look for the group takes
/// ten times as long.
fn value<'t>(pattern: &Regex, arguments: &'t str) -> Option<&'t str> {
    pattern.find(arguments)?.as_str().splitn(4, '"').nth(3)
}

fn first<'t>(pattern: &Regex, text: &'t str) -> Option<&'t str> {
    pattern.captures(text)?.get(1).map(|group| group.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_arguments_name_the_file_as_far_as_it_goes() {
        let whole = r#"{"path":"src/cart.py","content":"x = 1"}"#;
        assert_eq!(of_change(whole), "file:cart.py:x-1");
        assert_eq!(of_change(r#"{"file_name":"src/car"#), "file:car");
        assert_eq!(of_search(r#"{"query":"the rate"#), "search:the-rate");
    }
}
