//! Results and errors of calls whose spans do not tell them.

use std::borrow::Cow;

use super::turn::{Turn, lent};
use crate::fields::failures::error_of;
use crate::fields::message::ToolResult;
use crate::same::errors::says_nothing;

/// Whether a call has no result, or no error where it failed.
#[must_use]
pub fn lacks(result: Option<&str>, failed: Option<bool>, error: Option<&str>) -> bool {
    result.is_none() || (failed == Some(true) && error.is_none())
}

/// Add a result that a model was given to its call, and the error in it to one that failed.
pub fn fill_result<'t>(turn: &mut Turn<'t>, found: &'t ToolResult) {
    let Some(text) = found.text.as_deref() else {
        return;
    };
    if turn.result.is_none() {
        turn.result = Some(Cow::Borrowed(text));
        turn.failed = turn.failed.or(found.failed);
    }
    let lacks = turn.failed == Some(true) && turn.error.is_none();
    if lacks && !text.is_empty() && !says_nothing(text) {
        let (error_type, error) = error_of(text);
        turn.error = Some(Cow::Owned(error));
        let trace = turn.trace.take().filter(|trace| !trace.is_empty());
        turn.trace = trace.or(lent(Some(text)));
        let known = turn.error_type.take().filter(|name| !name.is_empty());
        turn.error_type = known.or(error_type.map(Cow::Owned));
    }
}
