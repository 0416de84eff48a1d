//! Calls that wait for a person: frameworks end them with an exception, other agents with a state.

use std::sync::LazyLock;

use regex::Regex;

use super::failures::Failure;
use crate::patterns::pattern;
use crate::same::waits::ends_of;

/// The type of what ended a call that waits for a person; it is no failure.
pub const WAITS_FOR_PERSON: &str = "waits_for_person";
// LangGraph's and pydantic-ai's; the run goes on with what the person says.
const INTERRUPTS: &[&str] = &[
    "GraphInterrupt",
    "NodeInterrupt",
    "ApprovalRequired",
    "CallDeferred",
];
// The state of a task of A2A, in its forms.
static NEEDS_INPUT: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?i)"state"\s*:\s*"(?:TASK_STATE_)?(?:input|auth)[-_]required""#));

/// Whether an exception only hands the call to a person.
#[must_use]
pub fn is_interrupt(failure: &Failure) -> bool {
    let is_one = |name: &str| INTERRUPTS.contains(&name);
    match (failure.kind.as_deref(), failure.message.as_deref()) {
        (Some(kind), _) => is_one(kind),
        (None, Some(text)) => text.split_once('(').is_some_and(|(name, _)| is_one(name)),
        (None, None) => false,
    }
}

/// Whether the result of a call says that a person must answer first.
#[must_use]
pub fn needs_input(result: &str) -> bool {
    NEEDS_INPUT.is_match(&ends_of(result))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_is_known_by_its_type_or_its_text() {
        let failure = |kind: Option<&str>, text: &str| Failure {
            kind: kind.map(str::to_owned),
            message: Some(text.to_owned()),
            trace: None,
        };
        for (kind, text, is_one) in [
            (Some("GraphInterrupt"), "(Interrupt(value='ok?'),)", true),
            (None, "GraphInterrupt((Interrupt(value='ok?'),))", true),
            (Some("ApprovalRequired"), "", true),
            (Some("KeyboardInterrupt"), "", false),
            (Some("ValueError"), "GraphInterrupt(x)", false),
            (None, "no GraphInterrupt(x)", false),
        ] {
            assert_eq!(is_interrupt(&failure(kind, text)), is_one, "{text}");
        }
    }

    #[test]
    fn a_task_of_another_agent_waits_by_its_state() {
        for (text, waits) in [
            (r#"{"status":{"state":"input-required"}}"#, true),
            (r#"{"status": {"state": "TASK_STATE_AUTH_REQUIRED"}}"#, true),
            (r#"{"status":{"state":"completed"}}"#, false),
            (r#"{"error":"input-required"}"#, false),
        ] {
            assert_eq!(needs_input(text), waits, "{text}");
        }
    }
}
