//! The tables of `core/data`: rows of patterns, each with a sentence and with examples.
//!
//! A file has arrays of rows. One of them, `parts`, has pieces of patterns: `{KIND}` in a pattern is
//! the piece of that kind, and a piece may have those that stand before it. `forms` says of an array
//! how its patterns are read, such as in any letter case: `{}` is the pattern of a row.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

/// A row of a table: how the world writes one thing.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[allow(
    dead_code,
    reason = "sentences and examples are for readers and for tests"
)]
pub struct Row {
    /// What the row finds, in a sentence or two.
    pub says: String,
    /// A regular expression in the syntax of the crate `regex`, or of `fancy_regex` where it looks
    /// around a match. A match in which a group `not` takes part does not count.
    pub pattern: String,
    /// What stands in the place of a match, where the table masks.
    pub mask: String,
    /// The name of a kind or of a part.
    pub kind: String,
    /// Keys, in place of a pattern.
    pub keys: Vec<String>,
    /// What is counted in a match.
    pub counts: Counts,
    /// Texts that the row finds.
    pub examples: Vec<Example>,
    /// Texts that look alike and that the row does not find.
    pub others: Vec<String>,
}

/// What is counted in the summary of a test run.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Counts {
    /// Patterns of failed tests. The one with the greatest sum counts: a suite that cannot start has
    /// no failed test.
    pub failed: Vec<String>,
    /// The pattern of all tests; the sum of its matches counts.
    pub total: Option<String>,
    /// Whether all summaries of a text are one run; else the last one counts.
    pub adds: bool,
    /// Whether each summary is the line of a test or of a package.
    pub lines: bool,
}

/// A text that a row finds, and what is read of it where the table says so.
#[derive(Clone, Debug, Deserialize)]
#[serde(from = "Told")]
#[allow(dead_code, reason = "examples are for tests")]
pub struct Example {
    /// The text.
    pub text: String,
    /// Figures or names, as the table writes them.
    pub read: String,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Told {
    Text(String),
    Read { text: String, read: String },
}

impl From<Told> for Example {
    fn from(told: Told) -> Self {
        let (text, read) = match told {
            Told::Text(text) => (text, String::new()),
            Told::Read { text, read } => (text, read),
        };
        Self { text, read }
    }
}

/// The arrays of rows of one file, by their names.
pub type Table = BTreeMap<String, Vec<Row>>;

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    forms: BTreeMap<String, String>,
    #[serde(flatten)]
    arrays: Table,
}

macro_rules! tables {
    ($($(#[$says:meta])* $name:ident = $file:literal;)+) => {
        $(
            $(#[$says])*
            pub static $name: LazyLock<Table> =
                LazyLock::new(|| table(include_str!(concat!("../data/", $file))));
        )+
        #[cfg(test)]
        const FILES: &[(&str, &LazyLock<Table>)] = &[$(($file, &$name)),+];
    };
}

tables! {
    /// What is a check, and which answers are good.
    CHECKS = "checks.toml";
    /// How failures are written, and the parts of them that an edit moves.
    FAILURES = "failures.toml";
    /// What is new in a result because the call sends or makes something.
    MADE = "made.toml";
    /// Marks of calls and responses, by their names, arguments and texts.
    MARKS = "marks.toml";
    /// What is masked before texts are compared.
    MASKS = "masks.toml";
    /// Pages of what is found.
    PAGES = "pages.toml";
    /// The arguments that an error may quote.
    QUOTES = "quotes.toml";
    /// Messages that a hook, a goal or a wrapper writes for each round.
    ROUNDS = "rounds.toml";
    /// How runners of tests write figures and names.
    RUNNERS = "runners.toml";
    /// Calls and results that agents write into texts.
    SPOKEN = "spoken.toml";
    /// The purpose of a call by its tool and its command.
    TOOL_KINDS = "tool_kinds.toml";
    /// Calls that wait, and results of what has not ended.
    WAITING = "waiting.toml";
    /// What a person asks for: how often, and for how long.
    WISHES = "wishes.toml";
}

/// Read a table that was compiled in; a wrong one is found by the tests of the core.
fn table(text: &str) -> Table {
    let file: File = toml::from_str(text).unwrap_or_else(|error| panic!("core/data: {error}"));
    let File { mut forms, arrays } = file;
    let mut table = arrays;
    let mut parts = Vec::new();
    for row in table.get_mut("parts").into_iter().flatten() {
        fill(&mut row.pattern, &parts);
        parts.push((format!("{{{}}}", row.kind), row.pattern.clone()));
    }
    for (name, rows) in &mut table {
        let form = forms.remove(name);
        for row in rows {
            let counted = row.counts.failed.iter_mut().chain(&mut row.counts.total);
            counted.for_each(|pattern| fill(pattern, &parts));
            fill(&mut row.pattern, &parts);
            if let Some(form) = &form {
                row.pattern = form.replace("{}", &row.pattern);
            }
        }
    }
    assert!(forms.is_empty(), "core/data: forms of no array: {forms:?}");
    table
}

fn fill(pattern: &mut String, parts: &[(String, String)]) {
    for (name, part) in parts {
        if pattern.contains(name) {
            *pattern = pattern.replace(name, part);
        }
    }
}

impl AsRef<str> for Row {
    fn as_ref(&self) -> &str {
        &self.pattern
    }
}

/// Join patterns, or those of rows, into one that finds any of them.
#[must_use]
pub fn any_of(patterns: &[impl AsRef<str>]) -> String {
    let each: Vec<String> = patterns
        .iter()
        .map(|pattern| format!("(?:{})", pattern.as_ref()))
        .collect();
    each.join("|")
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;
    use crate::patterns::{Forms, around};

    /// Whether a text has the form of a row.
    fn finder(row: &Row) -> Box<dyn Fn(&str) -> bool> {
        if ["(?=", "(?!", "(?<=", "(?<!"]
            .iter()
            .any(|sign| row.pattern.contains(sign))
        {
            let around = around(from_ref(row));
            return Box::new(move |text| around.is_match(text).unwrap_or(false));
        }
        let form = Forms::any(from_ref(row));
        Box::new(move |text| form.found(text))
    }

    /// What is wrong with a row.
    fn faults(row: &Row) -> Vec<String> {
        let mut faults = Vec::new();
        if row.says.is_empty() || row.examples.is_empty() {
            faults.push("a sentence and an example are needed".to_owned());
        }
        // The module of masks makes patterns of keys.
        if row.keys.is_empty() {
            let found = finder(row);
            let examples = row.examples.iter().map(|example| (&example.text, true));
            let told = examples.chain(row.others.iter().map(|text| (text, false)));
            let wrong = told.filter(|(text, expected)| found(text) != *expected);
            faults.extend(wrong.map(|(text, _)| format!("{text:?}")));
        }
        faults
    }

    #[test]
    fn rows_find_their_examples_and_no_others() {
        let mut wrong = Vec::new();
        for (file, table) in FILES {
            for (name, rows) in table.iter() {
                for row in rows {
                    let faults = faults(row).into_iter();
                    wrong.extend(
                        faults.map(|fault| format!("{file}, {name}, {}: {fault}", row.says)),
                    );
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }

    #[test]
    fn each_file_is_read() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/core/data");
        let files = std::fs::read_dir(folder).expect("the tables stand there");
        let mut names: Vec<String> = files
            .map(|file| {
                file.expect("it is a file")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect();
        names.sort();
        assert!(names.iter().eq(FILES.iter().map(|(name, _)| name)));
    }

    #[test]
    fn parts_and_forms_are_put_into_patterns() {
        let text = "[forms]\nrows = '(?i){}'\n[[parts]]\nkind = 'A'\npattern = '[ab]'\n\
                    [[parts]]\nkind = 'B'\npattern = '{A}{2}'\n[[rows]]\npattern = '{B}c{1,3}'\n";
        assert_eq!(table(text)["rows"][0].pattern, "(?i)[ab]{2}c{1,3}");
    }
}
