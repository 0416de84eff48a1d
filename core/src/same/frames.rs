//! What a command wrote, without what a tool puts around it: lines, or an object.

use std::borrow::Cow;

use serde_json::Value;

use super::json::parsed;
use super::masks::unsurrounded;
use crate::patterns::rows;
use crate::tables::MARKS;

rows! {
    FRAME_LINES: Pattern = MARKS["frame_lines"];
    OUTPUT_KEYS: Pattern = MARKS["output_keys"];
    BESIDE: Pattern = MARKS["run_keys_beside"];
}

// A longer line is what a command wrote.
const LINE_BYTES_MAX: usize = 300;
// A tool puts no more lines at either end.
const LINES_MAX: usize = 16;
// A longer object shows something.
const OBJECT_BYTES_MAX: usize = 2_000;
// In longer texts of failures nothing is looked for.
const FAILURE_BYTES_MAX: usize = 20_000;

/// The key of an output, and its text.
type Output<'a> = (&'a str, &'a str);

/// The text between the first and the last line that belong to no frame; nothing where all do. Of
/// an object of a run that has one output, that output.
#[must_use]
pub fn framed(result: &str) -> Cow<'_, str> {
    match unsurrounded(result) {
        Cow::Borrowed(text) => written(unframed(text)),
        Cow::Owned(text) => Cow::Owned(written(unframed(&text)).into_owned()),
    }
}

fn unframed(text: &str) -> &str {
    let mut inner = text.trim();
    for _ in 0..LINES_MAX {
        let (line, rest) = inner.split_once('\n').unwrap_or((inner, ""));
        if !is_frame(line) {
            break;
        }
        inner = rest.trim_start();
    }
    for _ in 0..LINES_MAX {
        let (rest, line) = inner.rsplit_once('\n').unwrap_or(("", inner));
        if !is_frame(line) {
            break;
        }
        inner = rest.trim_end();
    }
    inner
}

/// All that a run wrote, its errors last, by the object of a run that failed; any other text, and
/// one of a run that wrote nothing, as it is.
#[must_use]
pub fn said(text: &str) -> Cow<'_, str> {
    let may = text.len() <= FAILURE_BYTES_MAX && text.starts_with(['{', '[']);
    let mut outputs = Vec::new();
    if may
        && let Some(value) = parsed(text)
        && is_run("", &value, &mut outputs)
    {
        outputs.retain(|(_, output)| !output.is_empty());
        outputs.sort_by_key(|(key, _)| key.contains("err"));
        if !outputs.is_empty() {
            let texts: Vec<&str> = outputs.iter().map(|(_, output)| *output).collect();
            return Cow::Owned(texts.join("\n"));
        }
    }
    Cow::Borrowed(text)
}

/// The one output in an object of a run; any other text as it is.
fn written(text: &str) -> Cow<'_, str> {
    // Of several outputs one is empty, and most objects have no empty value.
    let may = text.len() <= OBJECT_BYTES_MAX
        && text.starts_with(['{', '['])
        && (text.contains("\"\"") || text.contains("[]"));
    let mut outputs = Vec::new();
    if may
        && let Some(value) = parsed(text)
        && is_run("", &value, &mut outputs)
        && let mut outputs = outputs.iter().filter(|(_, output)| !output.is_empty())
        && let (output, None) = (outputs.next(), outputs.next())
    {
        return Cow::Owned(output.map_or("", |(_, text)| unframed(text)).to_owned());
    }
    Cow::Borrowed(text)
}

/// Whether an object has outputs, and beside them only flags, figures and what names its run.
fn is_run<'a>(key: &'a str, value: &'a Value, outputs: &mut Vec<Output<'a>>) -> bool {
    has_only(key, value, outputs) && !outputs.is_empty()
}

fn has_only<'a>(key: &'a str, value: &'a Value, outputs: &mut Vec<Output<'a>>) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => true,
        Value::String(text) if OUTPUT_KEYS.is_match(key) => {
            outputs.push((key, text.trim()));
            true
        }
        Value::String(text) => text.trim().is_empty() || BESIDE.is_match(key),
        Value::Array(items) => {
            if items.is_empty() && OUTPUT_KEYS.is_match(key) {
                outputs.push((key, ""));
            }
            items.iter().all(|item| has_only(key, item, outputs))
        }
        Value::Object(items) => items.iter().all(|(key, item)| has_only(key, item, outputs)),
    }
}

fn is_frame(line: &str) -> bool {
    let line = line.trim();
    !line.is_empty() && line.len() <= LINE_BYTES_MAX && FRAME_LINES.is_match(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_failed_says_what_it_wrote() {
        for (result, text) in [
            (
                r#"{"stderr":"b: not found\n","stdout":"a\n","exit_code":1}"#,
                "a\nb: not found",
            ),
            (r#"{"returncode":1,"stderr":"no","stdout":""}"#, "no"),
            (
                r#"{"exit_code":1,"stdout":""}"#,
                r#"{"exit_code":1,"stdout":""}"#,
            ),
            (r#"{"error":"no","row":"a"}"#, r#"{"error":"no","row":"a"}"#),
            ("[x] no", "[x] no"),
        ] {
            assert_eq!(said(result), text, "{result}");
        }
    }

    #[test]
    fn what_a_command_wrote_stands_between_the_lines_of_its_tool() {
        for (result, inner) in [
            ("<returncode>0</returncode>\n<output>\n</output>", ""),
            (
                "<returncode>0</returncode>\n<output>\na\n\nb\n</output>",
                "a\n\nb",
            ),
            ("Exit code: 0\nWall time: 0.1 seconds\nOutput:\n", ""),
            ("Exit code: 0\nOutput:\nOutput: 41", "Output: 41"),
            (
                "a\n[The command completed with exit code 0.]\n[Current working directory: /a]\n\
                 [Python interpreter: /b]\n[Command finished with exit code 0]",
                "a",
            ),
            ("STDOUT:\n\nSTDERR:\n\nEXIT CODE: 0\n", ""),
            ("root@a1:/app# \nroot@a1:/app#", ""),
            ("3 files changed", "3 files changed"),
            ("Output:\na\n<system-reminder>\nb\n</system-reminder>", "a"),
            ("", ""),
            (r#"{"output":"","exit_code":1}"#, ""),
            (r#"{"result":null,"stderr":"","stdout":""}"#, ""),
            (
                r#"{"command_id":"c-3","cwd":"/app","output":"","success":true}"#,
                "",
            ),
            (r#"{"metadata":{"duration_seconds":0.1},"output":""}"#, ""),
            (r#"{"id":"ci_41","status":"completed","outputs":[]}"#, ""),
            (
                r#"[{"stdout":"","outcome":{"type":"exit","exit_code":0}}]"#,
                "",
            ),
            (r#"{"logs":{"stdout":[],"stderr":[]},"results":[]}"#, ""),
            (r#"{"stdout":"0\n","stderr":"","exit_code":1}"#, "0"),
            (
                r#"{"content":[{"type":"text","text":"Output:\na"}],"logs":[]}"#,
                "a",
            ),
            (r#"{"output":"a"}"#, r#"{"output":"a"}"#),
            (
                r#"{"stdout":"a","stderr":"b","error":""}"#,
                r#"{"stdout":"a","stderr":"b","error":""}"#,
            ),
            (
                r#"{"answer":"41","text":""}"#,
                r#"{"answer":"41","text":""}"#,
            ),
            (r#"{"exit_code":0}"#, ""),
            (r#"{"rows":3,"of":""}"#, r#"{"rows":3,"of":""}"#),
        ] {
            assert_eq!(framed(result), inner, "{result}");
        }
    }
}
