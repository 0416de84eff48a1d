//! The state that an update sets, apart from what is said of it.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::{Map, Value};

use super::notes::texts_in;
use crate::count::codes::{UNKNOWN, code};
use crate::patterns::{pattern, rows};
use crate::tables::{MARKS, TOOL_KINDS, any_of};

// A shorter text of a plan is a state or an id.
const STEP_BYTES_MIN: usize = 12;

rows! {
    STATES: Pattern = TOOL_KINDS["states"];
    COMMENTS: Pattern = TOOL_KINDS["comments"];
}

static DONE_STEPS: LazyLock<Regex> = LazyLock::new(|| pattern(&any_of(&MARKS["done_steps"])));

/// The code of what an update sets, without its comments; unknown if it sets no state, or has none.
#[must_use]
pub fn state_of(arguments: &str) -> i64 {
    let Ok(mut given) = serde_json::from_str::<Map<String, Value>>(arguments) else {
        return UNKNOWN;
    };
    let (sets, says) = take_comments(&mut given);
    if sets && says {
        code(&Value::Object(given).to_string())
    } else {
        UNKNOWN
    }
}

/// How many steps of a plan are done.
#[must_use]
pub fn done_steps(arguments: &str) -> i64 {
    DONE_STEPS.find_iter(arguments).count() as i64
}

/// Whether an answer only tells again what a plan has, such as "Updated todo list to [...]".
#[must_use]
pub fn tells_plan(arguments: &str, shown: &str) -> bool {
    let Ok(given) = serde_json::from_str::<Value>(arguments) else {
        return false;
    };
    let texts = texts_in(&given);
    let mut steps = texts
        .lines()
        .filter(|step| step.len() >= STEP_BYTES_MIN)
        .peekable();
    steps.peek().is_some() && steps.all(|step| shown.contains(step))
}

/// Take the comments out of what is given; return whether there is a state, and a comment.
fn take_comments(given: &mut Map<String, Value>) -> (bool, bool) {
    let all = given.len();
    given.retain(|key, _| !COMMENTS.is_match(key));
    let mut found = (
        given.keys().any(|key| STATES.is_match(key)),
        given.len() < all,
    );
    for inner in given.values_mut().filter_map(Value::as_object_mut) {
        let (sets, says) = take_comments(inner);
        found = (found.0 || sets, found.1 || says);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_that_is_told_again_is_no_answer() {
        let plan = r#"{"todos":[{"content":"Inspect the code","status":"pending"}]}"#;
        let told = "Updated todo list to [{'content': 'Inspect the code', 'status': 'pending'}]";
        assert!(tells_plan(plan, told));
        assert!(!tells_plan(plan, "Reviewer: add a step"));
        assert!(!tells_plan(r#"{"todos":[]}"#, "Updated todo list to []"));
    }

    #[test]
    fn steps_that_are_done_are_counted() {
        let plan = r#"{"todos":[{"content":"a","status":"completed"},{"content":"b","status":"pending"}]}"#;
        assert_eq!(done_steps(plan), 1);
        assert_eq!(done_steps("- [x] a\n- [ ] b\n- [x] c"), 2);
    }

    #[test]
    fn a_state_is_the_same_whatever_is_said_of_it() {
        let open = state_of(r#"{"id":7,"status":"open","comment":"One."}"#);
        assert_ne!(open, UNKNOWN);
        assert_eq!(
            open,
            state_of(r#"{"id":7,"status":"open","comment":"Two."}"#)
        );
        assert_ne!(
            open,
            state_of(r#"{"id":8,"status":"open","comment":"One."}"#)
        );
        let inner = |text: &str| {
            state_of(&format!(
                r#"{{"id":7,"fields":{{"state":1,"notes":"{text}"}}}}"#
            ))
        };
        assert_eq!(inner("a"), inner("b"));
        for other in [
            r#"{"id":7,"status":"open"}"#,
            r#"{"id":7,"comment":"a"}"#,
            "7",
        ] {
            assert_eq!(state_of(other), UNKNOWN, "{other}");
        }
    }
}
