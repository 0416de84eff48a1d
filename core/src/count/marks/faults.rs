//! Answers that tell of one fault, whatever else was tried or is told: a price that is not taken, a
//! loss that is no number, a pod that crashes.

use std::borrow::Cow;
use std::collections::BTreeSet;

use serde_json::{Map, Value};

use crate::count::codes::{UNKNOWN, code, code_of, pair};
use crate::count::row::Row;
use crate::count::turn::Turn;
use crate::patterns::{replaced, rows};
use crate::same::masks::masked;
use crate::same::text::is_longer;
use crate::same::tools::looks_at_file;
use crate::same::waits::ends_of;
use crate::tables::MARKS;

rows! {
    KNOBS: Pattern = MARKS["knobs"];
    NOT_TAKEN: Pattern = MARKS["not_taken"];
    TURNED_DOWN: Pattern = MARKS["turned_down"];
    PLAN_WORDS: Pattern = MARKS["plan_words"];
    PROPOSED_KEYS: Pattern = MARKS["proposed_keys"];
    NO_EFFECT: Pattern = MARKS["no_effects"];
    LASTING: Pattern = MARKS["lasting_faults"];
}

// A longer answer has more to say than no.
const NOT_TAKEN_CHARS_MAX: usize = 300;

/// The code of what a call is about, however much of it or in which way: a lot, whatever is bid; a
/// person, however the name is written.
#[must_use]
pub fn thing_of(arguments: &str) -> i64 {
    code(&plainly_named(&replaced(
        Cow::Borrowed(arguments),
        &KNOBS,
        "",
    )))
}

/// A text in lower case, without what joins a letter and its next sign in a name.
fn plainly_named(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut signs = text.chars().peekable();
    while let Some(sign) = signs.next() {
        let joins = matches!(sign, ' ' | '_' | '-' | '.')
            && plain.ends_with(char::is_alphabetic)
            && signs.peek().is_some_and(|next| next.is_alphanumeric());
        if !joins {
            plain.extend(sign.to_lowercase());
        }
    }
    plain
}

/// The code of the thing of a call that went well, and of the fault that its answer tells of;
/// unknown if it tells of none. What `changes` something shows what it wrote.
#[must_use]
pub fn fault_of(row: &Row, turn: &Turn, arguments: &str, changes: bool) -> i64 {
    let Some(shown) = turn.result.filter(|_| !row.failed && !row.unfinished) else {
        return UNKNOWN;
    };
    let is_short = !is_longer(shown, NOT_TAKEN_CHARS_MAX);
    if has_no_effect(shown) {
        // Nothing came of it, whatever was done.
        return pair(row.name, row.outcome);
    }
    let fault = if is_short && NOT_TAKEN.is_match(shown) {
        row.outcome
    } else if changes || looks_at_file(arguments) {
        UNKNOWN
    } else {
        lasting(&ends_of(shown))
    };
    if fault == UNKNOWN {
        return UNKNOWN;
    }
    // A pod has another name after each change.
    pair(
        pair(row.name, thing_of(&masked(arguments, &[], false))),
        fault,
    )
}

/// Whether a short result says that nothing came of an act.
#[must_use]
pub fn has_no_effect(shown: &str) -> bool {
    !is_longer(shown, NOT_TAKEN_CHARS_MAX) && NO_EFFECT.is_match(shown)
}

/// The code of a proposal that a person did not take, whatever plan was proposed; unknown if what the
/// person said is longer than no, or is no refusal.
#[must_use]
pub fn turned_down(row: &Row, turn: &Turn, arguments: &str) -> i64 {
    let shown = turn.error.or(turn.result).unwrap_or_default();
    let says_no = || TURNED_DOWN.is_match(shown) || NOT_TAKEN.is_match(shown);
    if is_longer(shown, NOT_TAKEN_CHARS_MAX) || !says_no() {
        return UNKNOWN;
    }
    let given = proposed_for(turn.name.unwrap_or_default(), arguments);
    pair(pair(row.name, given), code_of(turn.outcome))
}

/// The code of what a plan is for, without the plan; unknown if it is no plan, but one of many steps.
fn proposed_for(name: &str, arguments: &str) -> i64 {
    let Ok(mut given) = serde_json::from_str::<Map<String, Value>>(arguments) else {
        return UNKNOWN;
    };
    let is_plan = PLAN_WORDS.is_match(name) || given.keys().any(|key| PLAN_WORDS.is_match(key));
    given.retain(|key, _| !PROPOSED_KEYS.is_match(key));
    if is_plan {
        code(&Value::Object(given).to_string())
    } else {
        UNKNOWN
    }
}

/// Whether a result tells of a fault that no waiting mends.
#[must_use]
pub fn lasts(shown: &str) -> bool {
    LASTING.is_match(&ends_of(shown))
}

/// The code of all faults that last, by their words alone.
fn lasting(text: &str) -> i64 {
    if !LASTING.is_match(text) {
        return UNKNOWN;
    }
    let text = masked(text, &[], false);
    let mut found = BTreeSet::new();
    let mut at = 0;
    while let Some(place) = LASTING.find_at(&text, at) {
        at = place.end;
        found.insert(&text[place]);
    }
    if found.is_empty() {
        return UNKNOWN;
    }
    code(&found.into_iter().collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(arguments: &str, result: &str) -> i64 {
        let row = Row {
            name: 5,
            outcome: code(result),
            ..Row::default()
        };
        let turn = Turn {
            result: Some(result),
            ..Turn::default()
        };
        fault_of(&row, &turn, arguments, false)
    }

    #[test]
    fn a_price_that_is_not_taken_is_one_of_its_thing() {
        let no = r#"{"accepted":false}"#;
        let one = fault(r#"{"lot":"L1","amount":4}"#, no);
        assert_ne!(one, UNKNOWN);
        assert_eq!(one, fault(r#"{"lot":"L1","amount":7}"#, no));
        assert_ne!(one, fault(r#"{"lot":"L2","amount":4}"#, no));
        let yes = fault(r#"{"lot":"L1","amount":9}"#, r#"{"accepted":true}"#);
        assert_eq!(yes, UNKNOWN);
    }

    #[test]
    fn another_plan_that_a_person_refuses_is_one_more_try() {
        let asked = |arguments: &str, result: &str| {
            let turn = Turn {
                outcome: Some(result),
                result: Some(result),
                ..Turn::default()
            };
            let row = Row {
                name: 5,
                ..Row::default()
            };
            let turn = Turn {
                name: Some("request_approval"),
                ..turn
            };
            turned_down(&row, &turn, arguments)
        };
        let no = "User rejected the plan.";
        let one = asked(r#"{"plan":"Add a cache."}"#, no);
        assert_ne!(one, UNKNOWN);
        assert_eq!(one, asked(r#"{"plan":"Measure first.","title":"B"}"#, no));
        assert_ne!(one, asked(r#"{"plan":"Measure first.","task_id":7}"#, no));
        assert_eq!(asked(r#"{"title":"Refund A"}"#, no), UNKNOWN);
        let why = "User rejected the plan. Feedback:\n\nNo cache, please.";
        assert_ne!(one, asked(r#"{"plan":"Measure first."}"#, why));
        assert_eq!(
            asked(r#"{"plan":"a"}"#, "User has approved your plan."),
            UNKNOWN
        );
    }

    #[test]
    fn what_has_no_effect_is_the_same_whatever_was_done() {
        let nothing = "Nothing happens.";
        let one = fault(r#"{"action":"take apple 1"}"#, nothing);
        assert_ne!(one, UNKNOWN);
        assert_eq!(one, fault(r#"{"action":"open fridge 2"}"#, nothing));
        assert_eq!(fault(r#"{"action":"look"}"#, "A kitchen."), UNKNOWN);
    }

    #[test]
    fn a_pod_that_crashes_is_the_same_under_another_name() {
        let shown = |pod: &str, count| {
            let line = format!("{pod}   0/1     CrashLoopBackOff   {count}   5m");
            let asked = format!(r#"{{"command":"kubectl get pod {pod}"}}"#);
            fault(&asked, &line)
        };
        let one = shown("web-7d4b9c5f6-x2x9p", 3);
        assert_ne!(one, UNKNOWN);
        assert_eq!(one, shown("web-7d4b9c5f6-qtvhf", 4));
        assert_ne!(one, shown("api-7d4b9c5f6-qtvhf", 4));
    }

    #[test]
    fn a_fault_in_a_stored_text_is_none_of_now() {
        let asked = r#"{"command":"cat notes.md"}"#;
        assert_eq!(fault(asked, "loss: nan"), UNKNOWN);
        assert_ne!(
            fault(r#"{"command":"python train.py"}"#, "loss: nan"),
            UNKNOWN
        );
    }
}
