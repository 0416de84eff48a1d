//! The codes and marks of a turn, which follow from its fields alone.

mod apologies;
pub mod asked;
mod asked_value;
mod call;
pub mod chants;
mod checks;
mod failure;
mod faults;
mod looks;
mod notes;
mod response;
mod search;
mod statements;
mod states;
mod tool;

use std::sync::Arc;

use asked::Asked;
use call::mark_call;
use checks::tells_fault;
use failure::{ids_in, long_ids_in, mark_failure};
use response::mark_response;
pub use response::{is_brief, is_courteous};
pub use search::NOTHING_FOUND;
use search::is_common;
use tool::tool;

use super::codes::{UNKNOWN, code_of, pair};
use super::drafts::codes_of_texts;
use super::how::{Counting, Metric};
use super::reads::Read;
use super::row::{KINDS, Row, place};
use super::turn::{Price, Turn};
use super::wishes::Wish;
use crate::patterns::rows;
use crate::same::kinds::EXTERNAL;
use crate::tables::MARKS;

rows! {
    NARROWS: Pattern = MARKS["narrows"];
    UNTESTED: Pattern = MARKS["untested"];
}

// The kind of a wait that fails by it, which has only not ended yet.
const RAN_OUT: &str = "timeout";
// The kind of a look at something that may come.
const MISSING: &str = "not_found";

/// What counting needs of a turn beside its columns.
#[derive(Clone, Debug, Default)]
#[allow(missing_docs)]
pub struct Marked {
    pub row: Row,
    pub start_ns: i64,
    pub order_ns: i64,
    pub phase_start_ns: i64,
    pub markers: bool,
    pub input_tokens: i64,
    pub output_tokens: i64,
    /// What the turn spends of a budget.
    pub tokens_spent: i64,
    /// What it costs, in billionths of the currency.
    pub money_spent: i64,
    pub has_id: bool,
    pub trace: i64,
    pub step: i64,
    /// A message that came before in its conversation.
    pub repeated: i64,
    /// What a search with a short answer asked for.
    pub asked: Option<Box<Asked>>,
    /// What was read of a file.
    pub read: Option<Read>,
    /// What a message asks for.
    pub wish: Wish,
    /// The ids of what was made, or those of what is removed.
    pub ids: Vec<i64>,
    /// The longer texts that a working call wrote, or a critic was given.
    pub texts: Vec<i64>,
    pub phase: Option<Arc<str>>,
    /// The metric of its phase, and the author's own figure.
    pub metric: Option<Arc<Metric>>,
    pub own_figure: Option<f64>,
}

/// Code and mark a turn.
#[must_use]
pub fn mark(turn: &Turn, how: &Counting) -> Marked {
    let mut row = coded(turn);
    let tool = tool(turn.name);
    row.searches = tool.searches;
    mark_response(&mut row, turn);
    if row.is("tool") {
        mark_call(&mut row, turn, tool);
    } else {
        mark_failure(&mut row, turn, tool.searches || tool.reads);
    }
    let ids = ids_of(&row, turn);
    let trace = code_of(turn.trace_id);
    let (metric, own_figure) = how.metric_of(row.phase, turn);
    Marked {
        start_ns: turn.start_ns,
        order_ns: turn.order_ns,
        phase_start_ns: turn.phase_start_ns,
        markers: turn.markers > 0 || turn.result.is_some_and(|text| NARROWS.is_match(text)),
        input_tokens: turn.input_tokens,
        output_tokens: turn.output_tokens,
        tokens_spent: tokens_spent(turn),
        money_spent: money_spent(turn),
        has_id: turn.call_id.is_some(),
        trace,
        step: pair(trace, code_of(turn.step)),
        repeated: if row.is("user") {
            code_of(turn.arguments)
        } else {
            UNKNOWN
        },
        asked: (!(tool.plans || tool.updates || row.faulty)
            && is_common(turn, tool, row.search_result))
        .then(|| Box::new(Asked::of(turn, tool, row.declined))),
        read: read_of(&row, turn),
        wish: turn
            .text
            .filter(|_| row.is("user"))
            .map(Wish::of)
            .unwrap_or_default(),
        ids,
        texts: texts_of(&row, turn),
        phase: turn.phase.map(Arc::from),
        metric,
        own_figure,
        row,
    }
}

fn read_of(row: &Row, turn: &Turn) -> Option<Read> {
    let looks = row.only_reads && !(row.polls || row.watches || row.unfinished);
    let (arguments, result) = (turn.arguments?, turn.result?);
    looks.then(|| Read::of(arguments, result)).flatten()
}

/// The ids of what was made, or those of what is removed or checked.
fn ids_of(row: &Row, turn: &Turn) -> Vec<i64> {
    // What was made and is well is one of many.
    let is_wrong = row.check != UNKNOWN && turn.result.is_some_and(tells_fault);
    let names = row.removes || is_wrong;
    let text = match (row.makes, names) {
        (true, _) => turn.result,
        (_, true) => turn.arguments,
        _ => None,
    };
    let mut ids = text.map(ids_in).unwrap_or_default();
    if row.removes && !row.makes {
        ids.extend(turn.result.map(long_ids_in).unwrap_or_default());
    }
    ids
}

fn texts_of(row: &Row, turn: &Turn) -> Vec<i64> {
    let arguments = turn
        .arguments
        .filter(|_| row.is("tool") && (row.works || row.judges));
    arguments.map(codes_of_texts).unwrap_or_default()
}

/// The tokens that a turn spends: all but those read from a cache, which cost a tenth or less.
fn tokens_spent(turn: &Turn) -> i64 {
    let read = turn.input_tokens.saturating_sub(turn.cached_tokens).max(0);
    read.saturating_add(turn.output_tokens.max(0))
}

/// What a turn costs, in billionths of the currency; 0 where no price is known.
fn money_spent(turn: &Turn) -> i64 {
    let Some(Price(prices)) = turn.price else {
        return 0;
    };
    let (cached, written) = (turn.cached_tokens.max(0), turn.cache_write_tokens.max(0));
    let other = turn
        .input_tokens
        .saturating_sub(cached.saturating_add(written));
    let wrote = turn.output_tokens.max(0);
    let thought = turn.reasoning_tokens.clamp(0, wrote);
    let tokens = [other.max(0), wrote - thought, cached, written, thought];
    let each = tokens.iter().zip(prices);
    // The price of a million tokens, times a billionth.
    let billionths: f64 = each
        .map(|(tokens, price)| *tokens as f64 * price * 1e3)
        .sum();
    billionths.round() as i64
}

impl Row {
    /// Whether the turn is of a kind.
    #[must_use]
    pub fn is(&self, kind: &str) -> bool {
        KINDS[self.kind as usize] == kind
    }
}

fn coded(turn: &Turn) -> Row {
    Row {
        kind: (place(&KINDS, turn.kind) - 1).max(0),
        agent: code_of(turn.agent),
        name: code_of(turn.name),
        subtask: code_of(turn.subtask),
        task_kind: code_of(turn.task_kind),
        phase: code_of(turn.phase),
        iteration: code_of(turn.iteration),
        call: code_of(turn.call),
        outcome: code_of(turn.outcome),
        signature: code_of(turn.signature),
        response: code_of(turn.response),
        talks_on: code_of(turn.talks_on),
        end_ns: turn.end_ns,
        failed: turn.failed,
        external: turn.error_kind.is_some_and(|kind| EXTERNAL.contains(&kind)),
        untested: turn.task_kind.is_some_and(|kind| UNTESTED.is_match(kind)),
        tests_failed: turn.tests_failed,
        tests_total: turn.tests_total,
        coverage: turn.coverage,
        ..Row::default()
    }
}
