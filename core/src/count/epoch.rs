//! The counts since the last reset: progress, tries, and visits to phases.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::codes::UNKNOWN;
use super::how::{Metric, NS_PER_S};
use super::marks::Marked;
use super::pairs;
use super::row::{Row, STATUSES, place};
use super::spending::Spending;

// A pause of the task from which on it is at rest: nobody works while a person or a machine sleeps.
const REST_NS: i64 = 300 * NS_PER_S;
// A turn is at work for so long: a call may wait for an approval, and a machine sleep within it.
const TURN_NS_MAX: i64 = 3_600 * NS_PER_S;
// Figures of unknown calls are compared with one another, too.
const ANY_CALL: i64 = 1;
// Figures of all calls; no code of a call is this.
const EVERY_CALL: i64 = UNKNOWN;

/// The best figures of one call since all its tests passed.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Best {
    tests_failed: Option<f64>,
    coverage: Option<f64>,
    #[serde(default)]
    tests_passed: Option<f64>,
}

impl Best {
    /// Whether more tests pass than ever, and no more fail than at best: known failures may stay.
    fn has_less_passed(&self, row: &Row) -> bool {
        let passed = row.tests_total - row.tests_failed;
        self.tests_passed.is_some_and(|best| passed > best)
            && self
                .tests_failed
                .is_some_and(|best| row.tests_failed <= best)
    }

    fn add_passed(&mut self, row: &Row) {
        let passed = row.tests_total - row.tests_failed;
        if !passed.is_nan() {
            let most = self.tests_passed.unwrap_or(passed);
            self.tests_passed = Some(most.max(passed));
        }
    }

    fn add(&mut self, tests_failed: f64, coverage: f64) {
        if !tests_failed.is_nan() {
            let least = self.tests_failed.unwrap_or(tests_failed);
            self.tests_failed = Some(least.min(tests_failed));
        }
        if !coverage.is_nan() {
            self.coverage = Some(self.coverage.unwrap_or(coverage).max(coverage));
        }
    }

    fn has_more_failed(&self, tests_failed: f64) -> bool {
        self.tests_failed.is_some_and(|best| tests_failed < best)
    }

    fn has_less_coverage(&self, coverage: f64) -> bool {
        self.coverage.is_some_and(|best| coverage > best)
    }

    fn compares(&self, row: &Row) -> bool {
        (self.tests_failed.is_some() && !row.tests_failed.is_nan())
            || (self.coverage.is_some() && !row.coverage.is_nan())
    }
}

/// The improvements and the best of the author's own figure in a phase.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Own {
    improvements: i64,
    best: Option<f64>,
}

/// The counts since the last reset.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Epoch {
    busy_ns: i64,
    steps: i64,
    errors: i64,
    errors_before: i64,
    figures: i64,
    figures_before: i64,
    tries: i64,
    tries_before: i64,
    /// The last reported work of an attempt.
    work: i64,
    improvements: i64,
    fewer: i64,
    more: i64,
    marked: i64,
    /// By what figures are of.
    best: BTreeMap<i64, Best>,
    /// By phase.
    own: BTreeMap<i64, Own>,
    /// The last known phase, and the improvements at its last turn.
    phase: i64,
    phase_text: Option<Arc<str>>,
    converging: i64,
    /// By phase and its improvements; transitions also by the phase before.
    #[serde(with = "pairs")]
    visits: BTreeMap<(i64, i64), i64>,
    #[serde(with = "pairs")]
    transitions: BTreeMap<(i64, i64, i64, i64), i64>,
    /// What its turns have spent.
    pub spending: Spending,
}

impl Epoch {
    /// Count the time at work up to a turn.
    pub fn work(&mut self, row: &Row, start_ns: i64, before_ns: i64) {
        let idle_ns = start_ns.saturating_sub(before_ns);
        let rest_ns = if idle_ns >= REST_NS { idle_ns } else { 0 };
        let advance_ns = row.end_ns.saturating_sub(before_ns).saturating_sub(rest_ns);
        self.busy_ns = self.busy_ns.saturating_add(advance_ns.min(TURN_NS_MAX));
    }

    /// Count figures and improvements; return whether there was progress.
    ///
    /// Figures are progress if they are better than all earlier ones of the same call, or of all
    /// calls.
    pub fn progress(&mut self, one: &mut Marked) -> bool {
        let own = self.own_improves(one);
        let row = &mut one.row;
        let (mut fewer, mut more, mut grows) = (false, false, false);
        if !(row.tests_failed.is_nan() && row.coverage.is_nan()) {
            row.measured = if row.call == UNKNOWN {
                ANY_CALL
            } else {
                row.call
            };
            let best = self.best.entry(row.measured).or_default();
            let compares = best.compares(row) && !is_at_most_zero(row.tests_failed);
            fewer = best.has_more_failed(row.tests_failed);
            more = best.has_less_coverage(row.coverage);
            grows = best.has_less_passed(row);
            let passes = row.tests_failed == 0.0;
            if passes {
                // Later figures are compared only with figures from here on.
                *best = Best::default();
            } else {
                best.add(row.tests_failed, row.coverage);
            }
            best.add_passed(row);
            let ever = self.best.entry(EVERY_CALL).or_default();
            fewer |= ever.has_more_failed(row.tests_failed);
            more |= ever.has_less_coverage(row.coverage);
            ever.add(row.tests_failed, row.coverage);
            self.figures += i64::from(compares);
            if fewer || more || grows || passes {
                self.figures_before = self.figures;
            }
        }
        let improves = fewer || more || grows || one.markers || own;
        self.fewer += i64::from(fewer);
        self.more += i64::from(more);
        self.marked += i64::from(one.markers);
        self.improvements += i64::from(improves);
        row.improvements = self.improvements;
        row.figures_compared = self.figures;
        row.turns_since_best = self.figures - self.figures_before;
        row.turns_since_best_before = self.figures_before;
        improves
    }

    /// Count the best own figures of a phase; return whether this is one.
    fn own_improves(&mut self, one: &Marked) -> bool {
        let (Some(Metric::Own(..)), Some(figure)) = (one.metric.as_deref(), one.own_figure) else {
            return false;
        };
        let own = self.own.entry(one.row.phase).or_default();
        let is_better = own.best.is_some_and(|best| figure > best);
        if is_better || own.best.is_none() {
            own.best = Some(figure);
        }
        own.improvements += i64::from(is_better);
        is_better
    }

    /// Count the tries since the last progress.
    pub fn attempt(&mut self, row: &mut Row, improves: bool) {
        let attempt = row.is("attempt");
        let own = row.own && !row.twin_signature && !row.twin;
        let done = attempt && row.status == place(&STATUSES, "done");
        let mut progress = improves || row.works || done;
        if attempt && row.outcome != UNKNOWN {
            progress |= row.outcome != self.work;
            self.work = row.outcome;
        }
        self.steps += i64::from(!row.is("user") && !row.is("switch"));
        self.errors += i64::from(own);
        if row.is("tool") && !row.failed {
            self.errors_before = self.errors;
        }
        self.tries += i64::from((own && row.tries) || attempt || row.is("progress"));
        if progress {
            self.tries_before = self.tries;
        }
        row.busy_ns = self.busy_ns;
        row.steps = self.steps;
        row.errors = self.errors - self.errors_before;
        row.errors_before = self.errors_before;
        row.tries_since_progress = self.tries - self.tries_before;
        row.tries_since_progress_before = self.tries_before;
    }

    /// Count visits and transitions; `declared` if the phase began since the turn before.
    pub fn visit(&mut self, one: &mut Marked, declared: bool) {
        let row = &mut one.row;
        let before = self.phase;
        row.phase_before = before;
        row.phase_before_text.clone_from(&self.phase_text);
        if row.phase == UNKNOWN {
            return;
        }
        if row.phase != before {
            self.phase_text.clone_from(&one.phase);
        }
        self.phase = row.phase;
        row.converging = match one.metric.as_deref() {
            None => 0,
            Some(Metric::TestsFailed) => self.fewer,
            Some(Metric::Coverage) => self.more,
            Some(Metric::Markers) => self.marked,
            Some(Metric::Own(..)) => self.own.get(&row.phase).map_or(0, |own| own.improvements),
        };
        // A visit to an iterative phase is judged when it ends, at the transition to another phase.
        let left = std::mem::replace(&mut self.converging, row.converging);
        row.enters = !row.is("user") && (row.phase != before || declared);
        let visits = self.visits.entry((row.phase, row.converging)).or_default();
        *visits += i64::from(row.enters);
        row.visits = *visits;
        let way = (row.phase, row.converging, before, left);
        let transitions = self.transitions.entry(way).or_default();
        *transitions += i64::from(row.enters && before != UNKNOWN);
        row.transitions_seen = *transitions;
    }
}

// Figures that are not known are neither at most zero nor above it.
fn is_at_most_zero(figure: f64) -> bool {
    figure <= 0.0
}

#[cfg(test)]
mod tests {
    use super::super::tests::{at, call, counted, counting, each, in_phase};
    use super::*;
    use crate::count::turn::Turn;

    #[test]
    fn better_figures_are_progress() {
        let figures = |second, failed: f64, coverage: f64| Turn {
            tests_failed: failed,
            coverage,
            ..at(second, "progress")
        };
        let none = f64::NAN;
        let turns = [
            figures(0, 3.0, 50.0),
            figures(1, 3.0, 50.0),
            figures(2, 2.0, none),
            figures(3, 4.0, 60.0),
            figures(4, 0.0, none),
            figures(5, 2.0, none),
            figures(6, 2.0, none),
        ];
        assert_eq!(each(&turns, |row| row.improvements), [0, 0, 1, 2, 3, 3, 3]);
        assert_eq!(
            each(&turns, |row| row.figures_compared),
            [0, 1, 2, 3, 3, 3, 4]
        );
        assert_eq!(
            each(&turns, |row| row.turns_since_best),
            [0, 1, 0, 0, 0, 0, 1]
        );
        let tries = each(&turns, |row| row.tries_since_progress);
        assert_eq!(tries, [1, 2, 0, 0, 0, 1, 2]);
    }

    #[test]
    fn other_completed_work_is_progress() {
        let attempt = |second, work| Turn {
            name: Some("blocked"),
            outcome: work,
            ..at(second, "attempt")
        };
        let turns = [
            attempt(0, Some("one")),
            attempt(1, Some("one")),
            attempt(2, None),
            attempt(3, Some("two")),
            call(4, "edit", "ok"),
        ];
        let tries = each(&turns, |row| row.tries_since_progress);
        assert_eq!(tries, [0, 1, 2, 0, 0]);
    }

    #[test]
    fn time_at_rest_is_no_time_at_work() {
        let turns = [at(0, "model"), at(10, "model"), at(400, "model")];
        let busy_s = each(&turns, |row| row.busy_ns / NS_PER_S);
        assert_eq!(busy_s, [0, 10, 10]);
        let long = Turn {
            start_ns: 400 * NS_PER_S,
            ..at(9_000, "tool")
        };
        let [first, second, third] = turns;
        let busy_s = each(&[first, second, third, long], |row| row.busy_ns / NS_PER_S);
        assert_eq!(busy_s, [0, 10, 10, 3_610]);
    }

    #[test]
    fn a_phase_is_entered_from_another_or_declared_anew() {
        let anew = Turn {
            phase_start_ns: 4 * NS_PER_S,
            ..in_phase(5, "test")
        };
        let turns = [
            in_phase(0, "fix"),
            in_phase(1, "test"),
            at(2, "model"),
            in_phase(3, "test"),
            anew,
            in_phase(6, "fix"),
            in_phase(7, "test"),
        ];
        assert_eq!(each(&turns, |row| row.visits), [1, 1, 0, 1, 2, 2, 3]);
        assert_eq!(
            each(&turns, |row| row.transitions_seen),
            [0, 1, 0, 0, 1, 1, 2]
        );
        let before = each(&turns, |row| row.phase_before_text.clone());
        let expected = ["", "fix", "test", "test", "test", "test", "fix"];
        assert_eq!(before[0], None);
        assert_eq!(
            before[1..],
            expected[1..]
                .iter()
                .map(|text| Some(Arc::from(*text)))
                .collect::<Vec<_>>()
        );
    }

    #[test]
    fn visits_are_counted_anew_when_the_metric_of_the_phase_gets_better() {
        let mut how = counting();
        how.converge("fix", Metric::Own("loss".to_owned(), true));
        let loss = |second, metrics| Turn {
            metrics: Some(metrics),
            ..in_phase(second, "fix")
        };
        let turns = [
            loss(0, r#"{"loss": 3}"#),
            in_phase(1, "test"),
            loss(2, r#"{"loss": 2.5}"#),
            in_phase(3, "test"),
            loss(4, r#"{"loss": 4, "other": "x"}"#),
        ];
        let rows = counted(&turns, &how);
        let visits: Vec<_> = rows
            .iter()
            .map(|row| (row.converging, row.visits))
            .collect();
        assert_eq!(visits, [(0, 1), (0, 1), (1, 1), (0, 2), (1, 2)]);
        assert_eq!(rows[2].improvements, 1);
    }
}
