//! Changes that are undone: what a check says of one is said of that change alone.
//!
//! A mutation test changes the code, sees a test fail and puts the code back, again and again. The
//! failure is that of the change: another change may fail in the same way. A failure that came
//! without a change is none of them, whatever is changed and put back to mend it.

use std::collections::{BTreeMap, VecDeque};

use serde::{Deserialize, Serialize};

use super::codes::{UNKNOWN, code, pair};
use super::row::Row;
use crate::patterns::rows;
use crate::tables::MARKS;

rows! {
    UNDOES: Pattern = MARKS["undoes"];
    UNDOING: Pattern = MARKS["undoing_command"];
    GOES_TO: Pattern = MARKS["goes_to"];
    GOES_BY_TOOL: Pattern = MARKS["goes_by_tool"];
    OPENS: Pattern = MARKS["opens"];
}

// The words for what was there and what is put there, in keys of edits.
const SWAPPED: [[&str; 2]; 5] = [
    ["old", "new"],
    ["old_str", "new_str"],
    ["old_string", "new_string"],
    ["old_text", "new_text"],
    ["search", "replace"],
];
// Failures without a change that are kept.
const OWN_KEPT: usize = 16;

/// Whether a tool puts back what was changed, by its name.
#[must_use]
pub fn undoes(name: &str) -> bool {
    UNDOES.is_match(name)
}

/// Whether a command puts back what was changed.
#[must_use]
pub fn undoes_by_command(arguments: &str) -> bool {
    UNDOING.is_match(arguments)
}

/// Whether a tool goes to another revision or place, by its name.
#[must_use]
pub fn goes_to(name: &str) -> bool {
    GOES_BY_TOOL.is_match(name)
}

/// Whether a tool opens a page, a file or a folder, by its name.
#[must_use]
pub fn opens(name: &str) -> bool {
    OPENS.is_match(name)
}

/// Whether a command goes to another revision or place.
#[must_use]
pub fn goes_by_command(arguments: &str) -> bool {
    GOES_TO.is_match(arguments)
}

/// The code of an edit that replaces a text, and that of the edit that puts it back.
#[must_use]
pub fn edit_codes(arguments: &str) -> Option<(i64, i64)> {
    let mut edit = serde_json::from_str::<serde_json::Map<_, _>>(arguments).ok()?;
    let [old, new] = SWAPPED
        .into_iter()
        .find(|keys| keys.iter().all(|key| edit.contains_key(*key)))?;
    let written = |edit: &_| serde_json::to_string(edit).map_or(UNKNOWN, |text| code(&text));
    let forth = written(&edit);
    // In place, because the order of the keys counts.
    let before = edit[old].clone();
    let after = std::mem::replace(&mut edit[new], before);
    edit[old] = after;
    Some((forth, written(&edit)))
}

/// What was tried since the code was last put back.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Trials {
    epoch: i64,
    /// Whether the code was put back, and each change since.
    undone: bool,
    /// The code of what was changed since.
    change: i64,
    /// The file of the last change, where it names one.
    #[serde(default)]
    file: i64,
    /// The code of the call that went to the revision or the place at hand.
    #[serde(default)]
    place: i64,
    /// The code of the call that opened the page or the file at hand.
    #[serde(default)]
    page: i64,
    /// Whether that was checked.
    checked: bool,
    /// The code of the edit that would put the last one back.
    back: i64,
    /// Whether a program was put into service since the last failure of a server.
    #[serde(default)]
    deployed: bool,
    /// Outcomes of failures that came without a change.
    own: VecDeque<i64>,
    /// The last outcome of each run of tests since a change, and whether it was another before.
    runs: BTreeMap<i64, (i64, bool)>,
}

impl Trials {
    /// Follow what a call changes, and let what a check says be said of the change before it.
    pub fn mark(&mut self, row: &mut Row) {
        if self.epoch != row.epoch {
            *self = Self {
                epoch: row.epoch,
                ..Self::default()
            };
        }
        if !row.is("tool") {
            return;
        }
        self.follow_places(row);
        self.follow_deploys(row);
        if self.varies(row) {
            // A flaky test is run again to see how often it fails.
            (row.outcome, row.signature, row.error) = (UNKNOWN, UNKNOWN, UNKNOWN);
            return;
        }
        if row.vague && self.file != UNKNOWN {
            // What failed before an edit of another file may have been something else.
            row.error = pair(row.error, self.file);
            row.check = pair(row.check, self.file);
        }
        if row.works {
            self.file = row.file;
        }
        let puts_back = row.edit != UNKNOWN && row.edit == self.back;
        if !row.failed && (row.undoes || puts_back) {
            (self.undone, self.change, self.checked) = (true, UNKNOWN, false);
            self.back = UNKNOWN;
        } else if row.own || row.check != UNKNOWN || row.tests_failed > 0.0 {
            self.check(row);
        } else if row.works {
            if row.tests_total.is_nan() {
                self.runs.clear();
            }
            self.undone &= !self.checked;
            self.change = pair(self.change.max(1), row.call);
            self.back = row.edit_back;
        }
    }

    /// Let what a call shows be said of the revision or the place at which it is made, and good news
    /// of the page that is open.
    fn follow_places(&mut self, row: &mut Row) {
        if row.goes_to && !row.failed {
            self.place = row.call;
        } else if self.place != UNKNOWN {
            tell_apart(row, self.place);
        }
        if row.opens && !row.failed {
            self.page = row.call;
        } else if row.good && self.page != UNKNOWN {
            tell_apart(row, self.page);
            row.search_result = pair(row.search_result, self.page);
        }
    }

    /// Let a failure of a server be one that the agent may mend, where it deployed before.
    fn follow_deploys(&mut self, row: &mut Row) {
        if row.deploys {
            self.deployed = true;
        } else if row.of_server {
            if self.deployed {
                row.mendable = row.outcome;
            }
            self.deployed = false;
        }
    }

    /// Whether the same run of tests came out in another way before, though nothing was changed.
    fn varies(&mut self, row: &Row) -> bool {
        if row.tests_total.is_nan() || row.call == UNKNOWN || row.outcome == UNKNOWN {
            return false;
        }
        let run = self.runs.entry(row.call).or_insert((row.outcome, false));
        run.1 |= run.0 != row.outcome;
        run.0 = row.outcome;
        run.1
    }

    fn check(&mut self, row: &mut Row) {
        if self.change == UNKNOWN {
            self.own.truncate(OWN_KEPT - 1);
            self.own.push_front(row.outcome);
            return;
        }
        self.checked = true;
        if !self.undone || self.own.contains(&row.outcome) {
            return;
        }
        tell_apart(row, self.change);
        (row.tests_failed, row.tests_total, row.coverage) = (f64::NAN, f64::NAN, f64::NAN);
    }
}

/// Let what a call shows be equal only to what is shown under the same change, or at the same place.
fn tell_apart(row: &mut Row, by: i64) {
    for seen in [
        &mut row.outcome,
        &mut row.signature,
        &mut row.error,
        &mut row.mendable,
        &mut row.check,
    ] {
        *seen = pair(*seen, by);
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{call, each};
    use super::*;
    use crate::count::turn::Turn;

    fn test(second: i64) -> Turn<'static> {
        Turn {
            failed: true,
            error: Some("no"),
            error_kind: Some("logic"),
            ..call(second, "test", "no")
        }
    }

    #[test]
    fn a_failure_of_a_change_that_is_undone_is_that_of_the_change() {
        let round = |second: i64, mutant| {
            [
                call(second, mutant, "ok"),
                test(second + 1),
                call(second + 2, "revert", "ok"),
            ]
        };
        let mutants = [round(0, "a"), round(3, "b"), round(6, "c"), round(9, "c")].concat();
        let errors = each(&mutants, |row| row.error);
        assert!(errors[1] != errors[4] && errors[4] != errors[7]);
        assert_eq!(errors[7], errors[10]);
        let own = [&[test(0)][..], &mutants].concat();
        let errors = each(&own, |row| row.error);
        assert!([2, 5, 8, 11].iter().all(|at| errors[*at] == errors[0]));
    }

    #[test]
    fn what_a_revision_shows_is_said_of_it() {
        let go = |second, to: &'static str| Turn {
            arguments: Some(to),
            ..call(second, to, "ok")
        };
        let (old, older) = ("git switch old", "git switch older");
        let turns = [
            test(0),
            go(1, old),
            test(2),
            go(3, older),
            test(4),
            test(5),
            go(6, old),
            test(7),
        ];
        let errors = each(&turns, |row| row.error);
        assert!(errors[0] != errors[2] && errors[2] != errors[4]);
        assert_eq!(errors[4], errors[5]);
        assert_eq!(errors[2], errors[7]);
    }

    #[test]
    fn another_try_without_putting_back_is_no_trial() {
        let fixes = [
            call(0, "a", "ok"),
            call(1, "revert", "ok"),
            call(2, "b", "ok"),
            test(3),
            call(4, "c", "ok"),
            test(5),
            call(6, "d", "ok"),
            test(7),
        ];
        let errors = each(&fixes, |row| row.error);
        assert!(errors[3] != errors[5] && errors[5] == errors[7]);
    }

    #[test]
    fn a_run_that_came_out_in_another_way_is_a_matter_of_chance() {
        let run = |second: i64, failed: f64| Turn {
            tests_failed: failed,
            tests_total: 9.0,
            failed: failed > 0.0,
            ..call(second, "test", if failed > 0.0 { "no" } else { "ok" })
        };
        let runs = [run(0, 0.0), run(1, 0.0), run(2, 1.0), run(3, 0.0)];
        let known = each(&runs, |row| row.outcome != UNKNOWN);
        assert_eq!(known, [true, true, false, false]);
        let fixed = [run(0, 1.0), call(1, "edit", "ok"), run(2, 0.0), run(3, 0.0)];
        assert!(
            each(&fixed, |row| row.outcome != UNKNOWN)
                .iter()
                .all(|known| *known)
        );
    }

    #[test]
    fn an_edit_is_put_back_by_its_reverse() {
        let edit = r#"{"new":"y","old":"x","path":"a"}"#;
        let back = r#"{"new":"x","old":"y","path":"a"}"#;
        let (forth, reverse) = edit_codes(edit).expect("an edit");
        assert_eq!(edit_codes(back), Some((reverse, forth)));
        assert_eq!(edit_codes(r#"{"path":"a","content":"x"}"#), None);
    }
}
