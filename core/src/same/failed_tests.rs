//! The tests that a text says have failed, by the names that runners write.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use super::places::printed_lines;
use super::text::CUT_MARK;
use crate::patterns::pattern;
use crate::tables::{RUNNERS, any_of};

// The group of the mark of a cut text that stands for all names.
const NAMES: usize = 9;

static FAILED_LINE: LazyLock<Regex> = LazyLock::new(|| {
    let names = pattern(r"\?P<\w+>");
    pattern(&names.replace_all(&any_of(&RUNNERS["failed_tests"]), "?:"))
});
static NAMED: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    let rows = RUNNERS["failed_tests"].iter();
    rows.map(|row| pattern(&format!(r"\A(?:{})\z", row.pattern)))
        .collect()
});
static NOT_OF_A_NAME: LazyLock<Regex> = LazyLock::new(|| pattern(r"[^\w.\[\]-]+"));

/// Return the tests that a text says have failed: their file, and their names.
///
/// Names are sorted and joined with commas, `None` where a text names none. The file is the name of
/// their file if only one is known. The mark of a cut text stands for all names.
#[must_use]
pub fn failed_tests(text: &str) -> (Option<String>, Option<String>) {
    let printed = printed_lines(text);
    let mark = CUT_MARK.captures(&printed);
    if let Some(hashed) = mark.and_then(|mark| Some(mark.get(NAMES)?.as_str().to_owned())) {
        return (None, Some(hashed));
    }
    let (mut files, mut names) = (BTreeSet::new(), BTreeSet::new());
    for line in FAILED_LINE.find_iter(&printed) {
        for found in NAMED.iter().filter_map(|form| form.captures(line.as_str())) {
            let group = |name| found.name(name).map(|group| group.as_str());
            files.extend(group("file").and_then(|file| file.rsplit(['/', '\\']).next()));
            let listed = group("names")
                .into_iter()
                .flat_map(|names| names.split(", "));
            names.extend(listed.chain(group("name")).map(plain_name));
        }
    }
    names.remove("");
    let file = if files.len() == 1 {
        files.pop_first()
    } else {
        None
    };
    let names: Vec<String> = names.into_iter().collect();
    (
        file.map(str::to_owned),
        (!names.is_empty()).then(|| names.join(",")),
    )
}

fn plain_name(name: &str) -> String {
    NOT_OF_A_NAME
        .replace_all(name, "-")
        .trim_matches('-')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failed_tests_of_examples_are_named() {
        for row in &RUNNERS["failed_tests"] {
            for example in &row.examples {
                let (file, names) = failed_tests(&example.text);
                let read = [file, names].map(Option::unwrap_or_default).join(":");
                assert_eq!(read, example.read, "{}", example.text);
            }
            for text in &row.others {
                assert_eq!(failed_tests(text), (None, None), "{text}");
            }
        }
    }
}
