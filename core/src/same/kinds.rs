//! The signs of a failed call, the kinds of failure, and which kinds have an external cause.

use std::sync::LazyLock;

use super::block_pages::block_page;
use super::errors::{answers_no, exits_with_one, is_bare};
use super::frames::{framed, said};
use super::text::{head, is_longer, joined};
use super::tools::{self, purpose};
use super::traces::raised;
use super::turn::Turn;
use super::waits;
use super::waits::is_unfinished;
use crate::patterns::{Pattern, rows};
use crate::tables::{CHECKS, FAILURES};

// A longer result shows something, whatever its first words are.
const REFUSAL_CHARS_MAX: usize = 300;
// No type needs more.
const TYPE_CHARS_MAX: usize = 200;
// What an external cause is read from: the first and the last line. Between them is what a tool
// quotes, such as the code of an edit that it refuses.
const LINE_CHARS_MAX: usize = 300;
/// The kinds of failure that the agent does not cause.
pub const EXTERNAL: [&str; 5] = [
    "rate_limit",
    "contention",
    "authentication",
    "network",
    "dependency",
];

// Where a command throws its errors away.
const DROPPED: [&str; 2] = ["2>/dev/null", "2> /dev/null"];

// The kind of a page by which a service keeps programs out, and of one that does so for a while.
const KEPT_OUT: &str = "permission";
const SLOWED: &str = "rate_limit";
// The kind of a failure of one's own code.
const OWN_MODULE: &str = "runtime";

rows! {
    HEAD: Pattern = FAILURES["failure_head"] | FAILURES["of_edit"];
    EXIT: Pattern = FAILURES["failure_exit"];
    EXITS: Pattern = FAILURES["exits"];
    USAGE: Pattern = FAILURES["usage"];
    EXIT_TIMEOUT: Pattern = FAILURES["exit_timeout"];
    FAILED_TEST: Pattern = FAILURES["failed_test"];
    ERROR_TYPE: Pattern = FAILURES["error_type"];
    REFUSAL: Pattern = FAILURES["refusals"];
    REFUSED: Pattern = FAILURES["refusals"] | FAILURES["timeouts"];
    VERDICT: Pattern = CHECKS["verdict"];
    MODULE: Pattern = FAILURES["module"];
    OWN_FILE: Pattern = FAILURES["own_file"];
    SERVER_STATUS: Pattern = FAILURES["server_status"];
    MODEL_SERVER: Pattern = FAILURES["model_server"];
}

static KINDS: LazyLock<Vec<(&str, Pattern)>> = LazyLock::new(|| {
    let rows = FAILURES["error_kinds"].iter();
    rows.map(|row| (&*row.kind, Pattern::from(row))).collect()
});

/// The recorded failure, else what the text says; failing tests make a run fail.
///
/// A command that answers "no" by its exit code has answered. `failing` is the figure of failed
/// tests in the texts of the turn.
#[must_use]
pub fn failed(turn: &Turn, failing: Option<i64>) -> Option<bool> {
    if turn.kind != "tool" {
        return turn.failed;
    }
    let tests_fail = failing.is_some_and(|figure| figure > 0)
        || turn
            .result
            .is_some_and(|result| FAILED_TEST.is_match(result));
    if tests_fail && !shows(turn) {
        return Some(true);
    }
    // A command that cannot run says why.
    let writes_nothing = |text: &str| text.is_empty() || is_bare(text);
    let says_no =
        |text: &str| answers_no(text) || (turn.failed == Some(true) && writes_nothing(text));
    let answers =
        turn.error.or(turn.result).is_some_and(says_no) || turn.result.is_some_and(answers_no);
    if answers && turn.arguments.is_some_and(tools::answers_by_code) {
        return Some(false);
    }
    // A look at all that there is finds some of it without a right to read the rest.
    let is_one = || turn.result.is_some_and(exits_with_one);
    if turn.arguments.is_some_and(drops_errors) && is_one() {
        return Some(false);
    }
    turn.failed
        .or_else(|| Some(says_failed(turn.result?, turn.name, turn.arguments)))
}

/// Whether the result of a call says that it failed.
#[must_use]
pub fn says_failed(result: &str, tool: Option<&str>, arguments: Option<&str>) -> bool {
    HEAD.is_match(result)
        || (EXITS.is_match(result) && EXIT.is_match(result))
        || is_refused(result, tool, arguments)
        || (block_page(result).is_some() && !arguments.is_some_and(tools::looks_at_file))
        || is_usage(result)
}

// Whether an answer has nothing but how a command is used.
fn is_usage(result: &str) -> bool {
    const BEGINS: &[u8] = b"usage:";
    let head = result.trim_start().as_bytes().get(..BEGINS.len());
    head.is_some_and(|head| head.eq_ignore_ascii_case(BEGINS)) && USAGE.is_match(&framed(result))
}

/// Whether a command only looks, and throws away the errors of that.
fn drops_errors(arguments: &str) -> bool {
    DROPPED.iter().any(|sign| arguments.contains(sign)) && tools::looks_by_command(arguments)
}

// Whether a call shows stored text, which may be the output of a run long ago.
fn shows(turn: &Turn) -> bool {
    turn.name.is_some_and(shows_files) || turn.arguments.is_some_and(tools::reads_by_command)
}

fn shows_files(tool: &str) -> bool {
    let purpose = purpose(Some(tool));
    let looks = purpose.reads || purpose.searches;
    looks && !(purpose.changes || purpose.tests || tool.to_lowercase().contains("check"))
}

/// The text of the failure: a failed call without one tells it by its result.
#[must_use]
pub fn error<'a>(turn: &Turn<'a>, failed: Option<bool>) -> Option<&'a str> {
    if is_failed_call(turn, failed) {
        turn.error.or(turn.result)
    } else {
        turn.error
    }
}

/// The type of the failure: a failed call without one may name it in its text.
#[must_use]
pub fn error_type(turn: &Turn, failed: Option<bool>) -> Option<String> {
    if turn.error_type.is_some() || !is_failed_call(turn, failed) {
        return turn.error_type.map(str::to_owned);
    }
    type_in(turn.error.or(turn.result)?).map(str::to_owned)
}

/// The first type of error that a text names.
#[must_use]
pub fn type_in(text: &str) -> Option<&str> {
    ERROR_TYPE.first_group(text)
}

/// The kind of a failure by any of its words; that there was an error says nothing.
#[must_use]
pub fn kind_in(text: &str) -> Option<&'static str> {
    let (_, kinds) = KINDS.split_last()?;
    kinds
        .iter()
        .find(|(_, regex)| regex.is_match(text))
        .map(|(name, _)| *name)
}

fn is_failed_call(turn: &Turn, failed: Option<bool>) -> bool {
    turn.kind == "tool" && failed == Some(true)
}

/// Whether a result says that its call was refused, or was not answered in time.
///
/// A wait that ends, work that goes on, and a critic's verdict are no failures.
fn is_refused(result: &str, tool: Option<&str>, arguments: Option<&str>) -> bool {
    if is_longer(result, REFUSAL_CHARS_MAX) || !REFUSED.is_match(result) || is_unfinished(result) {
        return false;
    }
    let purpose = purpose(tool);
    if purpose.judges && VERDICT.is_match(result) {
        return false;
    }
    let waits = purpose.pauses || purpose.watches || arguments.is_some_and(waits::waits);
    !waits || REFUSAL.is_match(result)
}

/// The kind of a failed call or response; a failing test is one of logic.
///
/// A `hidden` failure has a text that says nothing.
#[must_use]
pub fn error_kind(
    turn: &Turn,
    error: Option<&str>,
    error_type: Option<&str>,
    failing: Option<i64>,
    hidden: bool,
) -> &'static str {
    if failing.is_some_and(|figure| figure > 0) {
        return "logic";
    }
    let text = joined(": ", [error_type, error]);
    if turn.kind == "model" && MODEL_SERVER.is_match(&text) {
        return "network";
    }
    let Some(error) = error.filter(|_| !hidden) else {
        return if EXIT_TIMEOUT.is_match(&text) {
            "timeout"
        } else {
            "untold"
        };
    };
    if is_own_module(turn, error) {
        return OWN_MODULE;
    }
    if let Some(kind) = error_type.and_then(kind_of_type) {
        return kind;
    }
    if let Some(title) = block_page(error) {
        // One site after the other may keep programs out, and none of them is to be waited for.
        return kind_in(title)
            .filter(|kind| *kind == SLOWED)
            .unwrap_or(KEPT_OUT);
    }
    // What was written before an exception is not its cause.
    let error = &*said(error);
    let error = raised(error).unwrap_or(error);
    let text = joined(": ", [error_type, Some(error)]);
    let head = joined(
        ": ",
        [error_type, Some(first_line(error)), Some(last_line(error))],
    );
    let is_local = is_local(turn, error);
    let fits = |(name, regex): &&(&str, Pattern)| {
        if EXTERNAL.contains(name) {
            !is_local && regex.is_match(&head)
        } else {
            regex.is_match(&text)
        }
    };
    KINDS.iter().find(fits).map_or("unknown", |(name, _)| name)
}

/// The kind of a type of error by its name; the word "error" in it says nothing.
#[must_use]
pub fn kind_of_type(error_type: &str) -> Option<&'static str> {
    let (_, kinds) = KINDS.split_last()?;
    let named = kinds
        .iter()
        .find(|(name, _)| *name == error_type)
        .map(|(name, _)| *name);
    named.or_else(|| kind_in(head(error_type, TYPE_CHARS_MAX)))
}

/// Whether a module is missing that is a file of the project, or that the call itself names as a
/// file or a folder.
fn is_own_module(turn: &Turn, error: &str) -> bool {
    if turn.kind == "tool" && OWN_FILE.is_match(error) {
        return true;
    }
    let named = MODULE.captures(error).and_then(|found| found.get(1));
    let (Some(module), Some(asked)) = (named, turn.arguments) else {
        return false;
    };
    let at = |sign: &str| asked.contains(&format!("{module}{sign}"));
    turn.kind == "tool" && [".py", ".js", ".ts", "/"].into_iter().any(at)
}

// Calls that edit, or look at stored text: their failures quote it, and are their own. What carries
// a file to or from a server does neither.
// What begins with the status of a server is its answer.
fn is_local(turn: &Turn, error: &str) -> bool {
    turn.kind == "tool"
        && !SERVER_STATUS.is_match(first_line(error))
        && (purpose(turn.name).changes
            || (!purpose(turn.name).carries && turn.arguments.is_some_and(tools::looks_at_file)))
}

fn first_line(text: &str) -> &str {
    line_from(text.trim_start())
}

// Its last characters, if it is long; white space after it counts only as far as it fits.
fn last_line(text: &str) -> &str {
    let said = text.trim_end();
    let line = said.rfind('\n').map_or(0, |end| end + 1);
    let long = said
        .char_indices()
        .nth_back(LINE_CHARS_MAX - 1)
        .map_or(0, |(place, _)| place);
    line_from(&text[line.max(long)..])
}

fn line_from(text: &str) -> &str {
    let line = head(text, LINE_CHARS_MAX);
    line.split_once('\n').map_or(line, |(line, _)| line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_of_refusals_have_failed_whatever_their_status() {
        let refused = |text: &str| is_refused(text, Some("ask"), Some("a"));
        for row in [&FAILURES["refusals"][..], &FAILURES["timeouts"]].concat() {
            assert!(
                row.examples.iter().all(|example| refused(&example.text)),
                "{}",
                row.says
            );
            assert!(!row.others.iter().any(|text| refused(text)), "{}", row.says);
        }
    }

    #[test]
    fn a_page_that_keeps_programs_out_has_failed_however_long_it_is() {
        let below = "Enable cookies and reload the page. ".repeat(40);
        let asked = Some(r#"{"url":"https://a.example/b"}"#);
        let turn = |page: &str| says_failed(page, Some("fetch"), asked);
        for title in [
            "# Just a moment...\n",
            "URL: https://a.example/b\nStatus: 403\nTitle: Just a moment...\n",
            "<!DOCTYPE html><html lang=\"en\">\n<head><title>Just a moment...</title>",
        ] {
            assert!(turn(&format!("{title}{below}")), "{title}");
        }
        assert!(!turn(&format!("It takes just a moment...\n{below}")));
        let saved = Some(r#"{"file_path":"a.html"}"#);
        assert!(!says_failed(
            &format!("# Just a moment...\n{below}"),
            Some("read"),
            saved
        ));
    }

    #[test]
    fn waits_and_pages_are_no_refusals() {
        let sleeps = r#"{"command":"sleep 30 && gh pr checks 12"}"#;
        let page = format!(
            "Denied by policy. {}",
            "All that a page says of it. ".repeat(11)
        );
        let goes_on = "Command timed out, and is still running in the background.";
        for (result, tool, arguments) in [
            ("Timed out after 30 s.", "wait_for", "#button"),
            ("Timed out after 30 s.", "bash", sleeps),
            (goes_on, "bash", "make"),
            (&page, "read", "policy.md"),
        ] {
            assert!(!is_refused(result, Some(tool), Some(arguments)), "{result}");
        }
    }

    #[test]
    fn an_answer_by_an_exit_code_is_no_failure() {
        let ran = |arguments: &str, result: &str, failing| {
            let turn = Turn {
                kind: "tool",
                name: Some("bash"),
                ..Turn::default()
            };
            failed(
                &Turn {
                    arguments: Some(arguments),
                    result: Some(result),
                    ..turn
                },
                failing,
            )
        };
        let command = |text: &str| format!(r#"{{"command":"{text}"}}"#);
        assert_eq!(
            ran(&command("grep -rn foo src"), "Exit code 1", None),
            Some(false)
        );
        let gemini = "<untrusted_context>\nOutput: (empty)\nExit Code: 1\nProcess Group PGID: 7\n\
                      </untrusted_context>";
        assert_eq!(ran(&command("grep foo a"), gemini, None), Some(false));
        assert_eq!(ran(&command("make"), gemini, None), Some(true));
        let told = r#"{"status":"error","output":""}"#;
        let of = |text: &str, result: &str| {
            let arguments = command(text);
            let told = Turn {
                kind: "tool",
                name: Some("bash"),
                failed: Some(true),
                arguments: Some(&arguments),
                result: Some(result),
                ..Turn::default()
            };
            failed(&told, None)
        };
        assert_eq!(of("grep -rn foo src", told), Some(false));
        assert_eq!(of("make", told), Some(true));
        let code = r#"{"status":"error","output":"","exit_code":2}"#;
        assert_eq!(of("grep -rn foo src", code), Some(true));
        assert_eq!(ran(&command("grep foo a"), "Exit code 2", None), Some(true));
        assert_eq!(
            ran(&command("python a.py"), "Exit code 1", None),
            Some(true)
        );
        assert_eq!(ran(&command("pytest"), "1 failed", Some(1)), Some(true));
        let told = |arguments: &str, result: &str| {
            let turn = Turn {
                kind: "tool",
                name: Some("bash"),
                failed: Some(true),
                arguments: Some(arguments),
                result: Some(result),
                error: Some("/a/b.txt"),
                ..Turn::default()
            };
            failed(&turn, None)
        };
        let some = r#"{"returncode":1,"stderr":"","stdout":"/a/b.txt\n"}"#;
        let none = r#"{"returncode":1,"stderr":"","stdout":"0\n"}"#;
        let all = command("find / -name b.txt 2>/dev/null");
        assert_eq!(told(&all, some), Some(false));
        assert_eq!(told(&command("grep -c b a.txt"), none), Some(false));
        assert_eq!(told(&command("find / -name b.txt"), some), Some(true));
        assert_eq!(told(&command("make b.txt 2>/dev/null"), some), Some(true));
        assert_eq!(ran(&command("cat a.log"), "1 failed", Some(1)), Some(false));
        let cut = "--- FAIL: TestX (0.01s)";
        assert_eq!(ran(&command("go test"), cut, None), Some(true));
        assert_eq!(
            failed(
                &Turn {
                    kind: "tool",
                    ..Turn::default()
                },
                None
            ),
            None
        );
    }

    #[test]
    fn the_head_of_a_failure_says_whose_it_is() {
        let quotes =
            "Your edit was refused.\n  self.socket = connect(host)  # line 502\nMend the edit.";
        for (name, arguments, error, kind) in [
            ("run", "main.py", "ConnectionError: no route", "network"),
            (
                "run",
                "main.py",
                "Traceback:\n  File x\nconnection refused",
                "network",
            ),
            (
                "run",
                "main.py",
                "[x] opens a connection\nTraceback (most recent call last):\n  b\nEOFError\n",
                "runtime",
            ),
            (
                "run",
                "main.py",
                r#"{"stdout":"connection made","stderr":"Traceback (most recent call last):\n  b\nKeyError: 'a'\n"}"#,
                "runtime",
            ),
            ("run", "main.py", quotes, "unknown"),
            ("edit", "net.py", "connection is not defined", "unknown"),
            (
                "bash",
                r#"{"command":"cat net.py"}"#,
                "socket, 502",
                "unknown",
            ),
            ("fetch", "a", "429 Too Many Requests", "rate_limit"),
            ("run", "test_cart.py", "No module named 'cart'", "runtime"),
            (
                "run",
                "test_cart.py",
                "No module named 'yaml'",
                "dependency",
            ),
        ] {
            let turn = Turn {
                kind: "tool",
                name: Some(name),
                ..Turn::default()
            };
            let turn = Turn {
                arguments: Some(arguments),
                ..turn
            };
            assert_eq!(
                error_kind(&turn, Some(error), None, None, false),
                kind,
                "{error}"
            );
        }
    }

    #[test]
    fn a_type_tells_more_than_its_text() {
        let turn = Turn {
            kind: "tool",
            result: Some("java.io.IOException: no"),
            ..Turn::default()
        };
        assert_eq!(
            error_type(&turn, Some(true)).as_deref(),
            Some("IOException")
        );
        assert_eq!(error_type(&turn, None), None);
        assert_eq!(error(&turn, Some(true)), turn.result);
        assert_eq!(error(&turn, Some(false)), None);
        assert_eq!(kind_of_type("dependency"), Some("dependency"));
        assert_eq!(kind_of_type("TypeError"), None);
        assert_eq!(error_kind(&turn, None, None, None, false), "untold");
        let model = Turn {
            kind: "model",
            ..Turn::default()
        };
        assert_eq!(
            error_kind(&model, Some("x"), Some("500 Internal"), None, true),
            "network"
        );
    }

    #[test]
    fn lines_have_an_end() {
        assert_eq!(first_line(" \n a\nb"), "a");
        assert_eq!(last_line("a\n b \n\n"), " b ");
        let long = format!("a{}  ", "b".repeat(400));
        assert_eq!(last_line(&long), "b".repeat(300));
        assert_eq!(last_line("  \n "), "  ");
    }
}
