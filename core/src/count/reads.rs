//! Reads of a file that show only lines that an earlier read showed.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::codes::{UNKNOWN, code};
use crate::same::json::parsed;
use crate::same::request::is_why_key;

// Keys of a read, in lower case and without "_".
const FILE_KEYS: [&str; 8] = [
    "path",
    "file",
    "filepath",
    "filename",
    "absolutepath",
    "targetfile",
    "relativepath",
    "relativeworkspacepath",
];
const FIRST_KEYS: [&str; 6] = [
    "offset",
    "start",
    "startline",
    "linestart",
    "fromline",
    "startlineoneindexed",
];
const OTHER_KEYS: [&str; 12] = [
    "limit",
    "end",
    "endline",
    "lineend",
    "toline",
    "endlineoneindexedinclusive",
    "maxlines",
    "numlines",
    "linecount",
    "encoding",
    "shouldreadentirefile",
    "reason",
];
const RANGE_KEYS: [&str; 3] = ["viewrange", "linerange", "lines"];
// Some count lines from 0.
const LINES_FREE: i64 = 1;
// What an agent read last.
const FILES_KEPT: usize = 4;
const RANGES_KEPT: usize = 8;

/// The lines of a file that a call showed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    file: i64,
    first: i64,
    last: i64,
}

impl Read {
    /// What a call that only looks has read; `None` if its arguments name more than a file and
    /// lines of it, because it may be a page of something else.
    #[must_use]
    pub fn of(arguments: &str, result: &str) -> Option<Self> {
        let Value::Object(given) = arguments
            .starts_with('{')
            .then(|| parsed(arguments))
            .flatten()?
        else {
            return None;
        };
        let (mut file, mut first) = (None, Some(1));
        for (key, item) in given.iter().filter(|(_, item)| !item.is_null()) {
            let word = key.replace('_', "").to_lowercase();
            let word = word.as_str();
            if FILE_KEYS.contains(&word) {
                file = item.as_str().map(code);
            } else if FIRST_KEYS.contains(&word) {
                first = number(item);
            } else if RANGE_KEYS.contains(&word) {
                // As a number it says how many.
                let from = |range: &Vec<Value>| range.first().and_then(number);
                first = item.as_array().map_or(first, from);
            } else if !(OTHER_KEYS.contains(&word) || is_why_key(key)) {
                return None;
            }
        }
        let first = first.filter(|first| *first >= 0)?;
        let lines = i64::try_from(result.lines().count()).ok()?;
        Some(Self {
            file: file?,
            first,
            last: first + lines,
        })
    }

    /// It in three numbers.
    #[must_use]
    pub fn words(self) -> [i64; 3] {
        [self.file, self.first, self.last]
    }

    /// The read of such numbers; without a file there is none.
    #[must_use]
    pub fn of_words([file, first, last]: [i64; 3]) -> Option<Self> {
        (file != UNKNOWN).then_some(Self { file, first, last })
    }
}

fn number(item: &Value) -> Option<i64> {
    item.as_i64()
        .or_else(|| item.as_str().and_then(|text| text.parse().ok()))
}

/// What an agent has read last, the newest file first.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reads(VecDeque<Shown>);

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Shown {
    file: i64,
    /// The changes of the task up to it; a file may have changed since.
    changes_seen: i64,
    ranges: VecDeque<(i64, i64)>,
}

impl Reads {
    /// Take the next read; return whether all of its lines were shown since the last change.
    pub fn take(&mut self, read: Read, changes_seen: i64) -> bool {
        let at = self.0.iter().position(|shown| shown.file == read.file);
        let known = at.and_then(|at| self.0.remove(at));
        let mut shown = known
            .filter(|shown| shown.changes_seen == changes_seen)
            .unwrap_or(Shown {
                file: read.file,
                changes_seen,
                ranges: VecDeque::new(),
            });
        let again = shown.has(read);
        if !again {
            shown.add((read.first, read.last));
        }
        self.0.push_front(shown);
        self.0.truncate(FILES_KEPT);
        again
    }
}

impl Shown {
    fn has(&self, read: Read) -> bool {
        let mut ranges = self.ranges.iter();
        ranges.any(|(first, last)| *first <= read.first + LINES_FREE && read.last <= *last)
    }

    /// Join a range with those that it touches.
    fn add(&mut self, mut range: (i64, i64)) {
        self.ranges.retain(|(first, last)| {
            let touches = *first <= range.1 && range.0 <= *last;
            if touches {
                range = (range.0.min(*first), range.1.max(*last));
            }
            !touches
        });
        self.ranges.push_front(range);
        self.ranges.truncate(RANGES_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(first: usize, lines: usize) -> Read {
        let arguments = format!(r#"{{"limit":{lines},"offset":{first},"path":"a.md"}}"#);
        Read::of(&arguments, &"line\n".repeat(lines)).expect("a read")
    }

    #[test]
    fn why_a_file_is_read_does_not_matter() {
        let read = |arguments| Read::of(arguments, "line");
        let bare = read(r#"{"limit":1,"offset":3,"path":"a.md"}"#);
        assert!(bare.is_some());
        assert_eq!(
            read(r#"{"limit":1,"offset":3,"path":"a.md","reason":"To see it."}"#),
            bare
        );
    }

    #[test]
    fn a_part_of_what_was_shown_is_shown_again() {
        let mut reads = Reads::default();
        let mut take = |first, lines| reads.take(read(first, lines), 0);
        assert!(!take(1, 100));
        assert!(!take(100, 100), "the next page");
        assert!(take(50, 100), "of two pages");
        assert!(take(1, 199));
        assert!(!take(1, 200), "one line is new");
        assert!(!take(150, 100), "some lines are new");
        assert!(!take(400, 10));
    }

    #[test]
    fn a_change_makes_each_read_new() {
        let mut reads = Reads::default();
        assert!(!reads.take(read(1, 100), 0));
        assert!(!reads.take(read(1, 100), 1));
        assert!(reads.take(read(10, 20), 1));
    }

    #[test]
    fn a_page_of_something_else_is_no_read() {
        assert_eq!(Read::of(r#"{"page":2,"path":"a.pdf"}"#, "text"), None);
        assert_eq!(Read::of(r#"{"offset":-20,"path":"a.log"}"#, "text"), None);
        assert_eq!(Read::of(r#"{"offset":20}"#, "text"), None);
        let ranged = Read::of(
            r#"{"explanation":"to see","target_file":"a","view_range":[3,9]}"#,
            "x\ny",
        );
        let wanted = Read {
            file: code("a"),
            first: 3,
            last: 5,
        };
        assert_eq!(ranged, Some(wanted));
        let counted = Read::of(r#"{"lines":40,"path":"a"}"#, "x").map(|read| read.first);
        assert_eq!(counted, Some(1));
    }
}
