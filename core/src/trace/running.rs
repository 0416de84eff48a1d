//! Responses whose usage is that of their run so far: each then has what it used itself.
//!
//! Spring AI up to 1.1 calls the tools within the request to a model, and adds the usage of the
//! responses before to each. All of them lie in one span, with the calls between them. Who makes the
//! calls himself gets the usage of each response alone, and no span says so: but a request has those
//! before it in it, so that a sum is at least twice what came before.

use foldhash::{HashMap, HashMapExt};

use super::span::hash_of;
use super::view::View;
use crate::fields::figures::Tokens;
use crate::fields::span_fields::Role;

/// What a run has used, by the response before.
#[derive(Clone, Copy)]
struct Before {
    sum: Tokens,
    input: i64,   // of the last response alone
    called: bool, // whether a call came after it
}

/// Take from responses what those before them in their run have used; `views` are in order.
pub(super) fn count_once(views: &mut [View<'_>]) {
    if !views.iter().any(|view| view.tokens.so_far) {
        return;
    }
    let mut runs: HashMap<&str, Before> = HashMap::new();
    for view in views {
        let Some(run) = view.fields().parent_span_id.as_deref() else {
            continue;
        };
        if view.kind == Some(Role::Tool)
            && let Some(before) = runs.get_mut(run)
        {
            before.called = true;
        }
        let sum = view.tokens;
        let (true, Some(input), Some(output)) = (sum.so_far, sum.input, sum.output) else {
            continue;
        };
        if let Some(before) = runs.get(run).filter(|before| before.called) {
            let (read, wrote) = (
                before.sum.input.unwrap_or(0),
                before.sum.output.unwrap_or(0),
            );
            if input >= read + before.input && output >= wrote {
                view.tokens.input = Some(input - read);
                view.tokens.output = Some(output - wrote);
                view.content = hash_of((view.content, read, wrote));
            }
        }
        let input = view.tokens.input.unwrap_or(0);
        let before = Before {
            sum,
            input,
            called: false,
        };
        runs.insert(run, before);
    }
}
