//! Test and coverage figures, read from the output of tools.
//!
//! Only summaries that test runners write themselves count, in the runner's own form and at its
//! place in the line; prose about tests has no figures. A text may hold several summaries. The last
//! summary of the last runner counts, except for runners that write one for each package.

use std::sync::LazyLock;

use regex::{Captures, Regex};

use super::places::printed_lines;
use super::text::{CUT_MARK, head};
use super::tools::purpose;
use super::turn::{Figures, Turn};
use crate::patterns::pattern;
use crate::tables::{RUNNERS, Row, any_of};

// Groups of the mark of a cut text.
const FAILED: usize = 6;
const TOTAL: usize = 7;
const COVERAGE: usize = 8;

const PERCENT_MAX: f64 = 100.0;
const BARE_CHARS: usize = 200;

/// The patterns of what is counted in the summaries of one runner.
struct Counted {
    failed: Vec<Regex>,
    total: Option<Regex>,
}

static COUNTED: LazyLock<Vec<Counted>> = LazyLock::new(|| {
    let of = |row: &Row| Counted {
        failed: row.counts.failed.iter().map(|text| pattern(text)).collect(),
        total: row.counts.total.as_deref().map(pattern),
    };
    RUNNERS["runners"].iter().map(of).collect()
});
static MARKERS: LazyLock<Regex> = LazyLock::new(|| any("markers"));
// Each group is the summary of a runner.
static SUMMARIES: LazyLock<Regex> = LazyLock::new(|| {
    let rows = RUNNERS["runners"].iter();
    let groups: Vec<String> = rows.map(|row| format!("({})", row.pattern)).collect();
    pattern(&groups.join("|"))
});
static WHOLE: LazyLock<Regex> = LazyLock::new(|| any("coverage"));
static PACKAGES: LazyLock<Regex> = LazyLock::new(|| any("package_coverage"));
static PERCENT: LazyLock<Regex> = LazyLock::new(|| pattern(r"([0-9]+(?:\.[0-9]+)?) *(?:%|\|)"));
static COMMANDS: LazyLock<Regex> = LazyLock::new(|| any("commands"));
static BARE_PARTS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"\\n|\n|": ?"|"[,}\]]|</?[a-z_]+>"#));
static BARE: LazyLock<Regex> = LazyLock::new(|| {
    pattern(concat!(
        r"\A\W*(?:[A-Za-z]+(?: tests)?(?:: |\.{1,3} ?))?([0-9]{1,7}) (?:tests? )?(fail|pass)(?:ed|ing)",
        r"(?:, ([0-9]{1,7}) (?:tests? )?(fail|pass)(?:ed|ing))?(?:\.|:|\s*$)"
    ))
});

fn any(name: &str) -> Regex {
    pattern(&any_of(&RUNNERS[name]))
}

/// Return the figures of a turn: of its result, else of its error, else of the head of either.
///
/// Errors count as failed tests, skipped tests belong to the total, coverage is in percent.
#[must_use]
pub fn figures_of_turn(turn: &Turn) -> Figures {
    if turn.kind != "tool" {
        return Figures::default();
    }
    let other = turn.error.filter(|error| Some(*error) != turn.result);
    let read = |text: Option<&str>| text.map(figures).unwrap_or_default();
    let found = read(turn.result).or(read(other));
    if found.failed.is_some() {
        return found;
    }
    match turn.result.or(turn.error).and_then(bare_counts) {
        Some((failed, total)) if runs_tests(turn) => Figures {
            failed: Some(failed),
            total,
            ..found
        },
        _ => found,
    }
}

/// Whether a tool is named for tests, or its command runs tests.
fn runs_tests(turn: &Turn) -> bool {
    let is_command = |arguments: &str| COMMANDS.is_match(arguments);
    purpose(turn.name).tests || turn.arguments.is_some_and(is_command)
}

/// Return the figures of a text; of a cut one, those of its mark.
#[must_use]
pub fn figures(text: &str) -> Figures {
    if !MARKERS.is_match(text) {
        return Figures::default();
    }
    let printed = printed_lines(text);
    let (failed, total) = counted(&printed);
    marked(&printed).or(Figures {
        failed,
        total,
        coverage: coverage(&printed),
    })
}

/// Return the figures in the mark of a cut text.
fn marked(printed: &str) -> Figures {
    let Some(mark) = CUT_MARK.captures(printed) else {
        return Figures::default();
    };
    let figure = |group| mark.get(group).map(|figure| figure.as_str());
    Figures {
        failed: figure(FAILED).and_then(|figure| figure.parse().ok()),
        total: figure(TOTAL).and_then(|figure| figure.parse().ok()),
        coverage: figure(COVERAGE).and_then(|figure| figure.parse().ok()),
    }
}

/// Return failed tests and all tests by the summaries of a text.
fn counted(printed: &str) -> (Option<i64>, Option<i64>) {
    let runner_of = |found: &Captures| (1..found.len()).find(|group| found.get(*group).is_some());
    let found: Vec<(Option<usize>, &str)> = SUMMARIES
        .captures_iter(printed)
        .map(|found| (runner_of(&found), found.get_match().as_str()))
        .collect();
    let Some((Some(last), _)) = found.last() else {
        return (None, None);
    };
    let of_last = found.iter().filter(|(runner, _)| *runner == Some(*last));
    let mut parts: Vec<&str> = of_last.map(|(_, part)| *part).collect();
    let (runner, counts) = (&RUNNERS["runners"][last - 1].counts, &COUNTED[last - 1]);
    if runner.lines {
        return counted_lines(&parts);
    }
    if !runner.adds {
        parts.drain(..parts.len() - 1);
    }
    let failed = counts
        .failed
        .iter()
        .map(|failed| numbers(failed, &parts).iter().sum::<i64>());
    let failed = failed.max().unwrap_or_default();
    let totals = counts
        .total
        .as_ref()
        .map(|total| numbers(total, &parts))
        .unwrap_or_default();
    let total = (!totals.is_empty()).then(|| totals.iter().sum());
    // A run without a test says nothing about the tests.
    if failed > 0 || total > Some(0) {
        (Some(failed), total)
    } else {
        (None, None)
    }
}

/// Count the lines of tests and of packages, as Go writes them.
fn counted_lines(parts: &[&str]) -> (Option<i64>, Option<i64>) {
    let count = |beginning: &str| {
        parts
            .iter()
            .filter(|part| part.starts_with(beginning))
            .count()
    };
    let tests = count("--- ");
    // A truncated run has tests without their package; Go shows all tests only on request.
    if tests == parts.len() {
        return (None, None);
    }
    let failed = count("--- FAIL").max(count("FAIL"));
    let total = (count("--- PASS") > 0).then(|| integer(tests));
    (Some(integer(failed)), total)
}

fn integer(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The numbers that a pattern finds: of each match the first group that has one.
fn numbers(pattern: &Regex, parts: &[&str]) -> Vec<i64> {
    let matches = parts.iter().flat_map(|part| pattern.captures_iter(part));
    let number = |found: Captures| found.iter().skip(1).flatten().next()?.as_str().parse().ok();
    matches.filter_map(number).collect()
}

/// Return the last figure for the whole; without one, the mean of Go's packages.
fn coverage(printed: &str) -> Option<f64> {
    let whole = WHOLE
        .find_iter(printed)
        .last()
        .and_then(|found| percent(found.as_str()));
    let percent = whole.or_else(|| {
        let packages = PACKAGES
            .find_iter(printed)
            .filter_map(|found| percent(found.as_str()));
        let (sum, count) = packages.fold((0.0, 0.0), |(sum, count), one| (sum + one, count + 1.0));
        (count > 0.0).then(|| sum / count)
    })?;
    (percent <= PERCENT_MAX).then_some(percent)
}

fn percent(text: &str) -> Option<f64> {
    PERCENT.captures(text)?[1].parse().ok()
}

/// Read "2 failed, 10 passed" from the head of the answer of a tool that runs tests.
///
/// It may stand in a string of JSON, in a tag, or after a line with the exit code.
fn bare_counts(text: &str) -> Option<(i64, Option<i64>)> {
    let head = head(text, BARE_CHARS);
    if !head.contains("fail") && !head.contains("pass") {
        return None;
    }
    let found = BARE_PARTS
        .split(head)
        .find_map(|part| BARE.captures(part))?;
    let first: i64 = found[1].parse().ok()?;
    let is_failed = |group: usize| found.get(group).is_some_and(|word| word.as_str() == "fail");
    // A single count may not be the count of all tests.
    let Some(second) = found
        .get(3)
        .and_then(|second| second.as_str().parse::<i64>().ok())
    else {
        return Some((if is_failed(2) { first } else { 0 }, None));
    };
    Some(match (is_failed(2), is_failed(4)) {
        (true, false) => (first, Some(first + second)),
        (false, true) => (second, Some(first + second)),
        // The same is counted twice, and the later count stands.
        (true, true) => (second, Some(second)),
        (false, false) => (0, Some(second)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: &str) -> String {
        let read = figures(text);
        let total = read
            .total
            .map(|total| format!(" of {total}"))
            .unwrap_or_default();
        read.failed
            .map(|failed| format!("{failed}{total}"))
            .unwrap_or_default()
    }

    #[test]
    fn examples_have_their_figures_as_text_and_within_json() {
        for row in &RUNNERS["runners"] {
            for example in &row.examples {
                let text = &example.text;
                let json = serde_json::json!({"exit_code": 1, "stdout": text}).to_string();
                for text in [text.clone(), text.replace('\n', "\r\n"), json] {
                    assert_eq!(told(&text), example.read, "{text}");
                }
            }
            for text in &row.others {
                assert_eq!(figures(text), Figures::default(), "{text}");
            }
        }
    }

    #[test]
    fn coverage_of_examples_is_read_in_percent() {
        for row in RUNNERS["coverage"]
            .iter()
            .chain(&RUNNERS["package_coverage"])
        {
            for example in &row.examples {
                let percent = figures(&example.text).coverage;
                let read = percent
                    .map(|percent| format!("{percent}%"))
                    .unwrap_or_default();
                assert_eq!(read, example.read, "{}", example.text);
            }
            for text in &row.others {
                assert_eq!(figures(text).coverage, None, "{text}");
            }
        }
    }

    #[test]
    fn a_tool_that_runs_tests_may_answer_with_bare_counts() {
        let turn = Turn {
            kind: "tool",
            name: Some("run_tests"),
            ..Turn::default()
        };
        let read = |result| {
            figures_of_turn(&Turn {
                result: Some(result),
                ..turn.clone()
            })
        };
        assert_eq!(read("2 failed: login, logout").failed, Some(2));
        assert_eq!(read("9 passed, 3 failed").total, Some(12));
        assert_eq!(read("9 passed").failed, Some(0));
        let other = Turn {
            name: Some("upload"),
            result: Some("2 failed: a.png"),
            ..turn
        };
        assert_eq!(figures_of_turn(&other), Figures::default());
    }
}
