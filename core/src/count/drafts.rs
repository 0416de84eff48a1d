//! What an agent wrote, and what a critic says of it in a word or two.
//!
//! "Rejected." of one text after the other may be a verdict on each of many. Of texts that the task
//! wrote itself it is one verdict, until the critic takes one.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::codes::{UNKNOWN, code, pair};
use super::row::Row;
use crate::same::text::head;

// Texts that are kept, and those of one call.
const TEXTS_KEPT: usize = 16;
const TEXTS_MAX: usize = 4;
// A shorter value is a name, a path or a number; of a longer one no more is read.
const TEXT_BYTES_MIN: usize = 8;
const TEXT_CHARS_MAX: usize = 200;
// The last verdicts of all agents.
const VERDICTS_KEPT: usize = 4;

/// The last texts that calls of a task wrote, and how often each critic was content.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Drafts {
    wrote: VecDeque<i64>,
    taken: BTreeMap<i64, i64>,
}

impl Drafts {
    /// Keep what a call wrote; let a critic's short verdict on such a text be the same for each, but
    /// for a score, which says how good each of many is.
    pub fn judge(&mut self, row: &mut Row, texts: &[i64]) {
        if !row.judges {
            if row.works {
                self.wrote.extend(texts);
                let many = self.wrote.len().saturating_sub(TEXTS_KEPT);
                self.wrote.drain(..many);
            }
            return;
        }
        let taken = self.taken.entry(row.name).or_default();
        if row.check == UNKNOWN {
            *taken += 1;
        } else if row.verdict == UNKNOWN && texts.iter().any(|text| self.wrote.contains(text)) {
            row.check = pair(pair(row.name, row.outcome), *taken + 1);
        }
    }
}

/// Verdicts that agents of one task gave as their whole responses, and which each agent was told.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Verdicts {
    given: VecDeque<(i64, i64)>,
    told: BTreeMap<i64, i64>,
}

impl Verdicts {
    /// Keep the verdict that a response is; let another one, to the verdict of another agent, answer
    /// a message that came before, from the second on.
    pub fn hear(&mut self, row: &mut Row) {
        if !row.is("model") {
            return;
        }
        let is_of_other = |one: &(i64, i64)| one.0 != row.agent && one.1 == row.told_verdict;
        let told = if row.told_verdict != UNKNOWN && self.given.iter().any(is_of_other) {
            row.told_verdict
        } else {
            UNKNOWN
        };
        let before = self.told.insert(row.agent, told);
        if told != UNKNOWN && before == Some(told) && row.reminded == UNKNOWN {
            row.reminded = told;
        }
        if row.verdict != UNKNOWN {
            self.given.truncate(VERDICTS_KEPT - 1);
            self.given.push_front((row.agent, row.verdict));
        }
    }
}

/// The codes of the longer texts among arguments.
#[must_use]
pub fn codes_of_texts(arguments: &str) -> Vec<i64> {
    let quoted = arguments.split('"').skip(1).step_by(2);
    let long = quoted.filter(|text| text.len() >= TEXT_BYTES_MIN);
    long.take(TEXTS_MAX)
        .map(|text| code(head(text, TEXT_CHARS_MAX)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, call, each};
    use super::*;
    use crate::count::turn::Turn;

    fn round(second: i64, draft: &'static str, verdict: &'static str) -> [Turn<'static>; 2] {
        let told = |second, name, result| Turn {
            arguments: Some(draft),
            ..call(second, name, result)
        };
        [
            told(second, "write_draft", "saved"),
            told(second + 1, "critic", verdict),
        ]
    }

    #[test]
    fn a_verdict_of_another_agent_comes_again_from_the_second_on() {
        let said = |second, agent, given, text| Turn {
            agent: Some(agent),
            arguments: Some(given),
            text: Some(text),
            ..at(second, "model")
        };
        let turns = [
            said(1, "writer", "Write it.", "Warm bread."),
            said(2, "reviewer", "Warm bread.", "Rejected."),
            said(3, "writer", "reviewer: Rejected.", "Good bread."),
            said(4, "reviewer", "Good bread.", "Rejected."),
            said(5, "writer", "Rejected.", "Bread of the town."),
            said(6, "baker", "Abgelehnt.", "Black bread."),
            said(7, "baker", "Abgelehnt.", "White bread."),
        ];
        let reminded = each(&turns, |row| row.reminded != UNKNOWN);
        assert_eq!(reminded, [false, false, false, false, true, false, false]);
    }

    #[test]
    fn a_short_verdict_on_own_texts_is_one_until_a_text_is_taken() {
        let drafts = [
            round(0, r#"{"text":"Warm bread."}"#, "Rejected."),
            round(2, r#"{"text":"Good bread for all."}"#, "Rejected."),
            round(4, r#"{"text":"Bread of the town."}"#, "Approved."),
            round(6, r#"{"text":"Milk of the town."}"#, "Rejected."),
        ]
        .concat();
        let checks = each(&drafts, |row| row.check);
        assert!(checks[1] != UNKNOWN && checks[1] == checks[3]);
        assert!(checks[5] == UNKNOWN && checks[7] != checks[3]);
        let others = [
            call(0, "critic", "Rejected."),
            call(1, "set_state", "ok"),
            Turn {
                call: Some("another"),
                arguments: Some(r#"{"text":"Old books of ours"}"#),
                ..call(2, "critic", "Rejected.")
            },
        ];
        let checks = each(&others, |row| row.check);
        assert_ne!(checks[0], checks[2]);
    }
}
