//! The columns of turns as they leave the core: as a table, or one turn as Python has it.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringViewBuilder};
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple};

use super::arrow::Table;
use crate::same::fingerprint::{Fingerprint, fingerprint};
use crate::same::policy::Sameness;
use crate::same::turn::{Figures, Turn as Compared};
use crate::trace::turn::Turn;

type TextOf = for<'a> fn(&'a Turn<'_>, &'a Fingerprint) -> Option<&'a str>;
type NumberOf = fn(&Turn<'_>, &Fingerprint) -> Option<i64>;
type FlagOf = fn(&Turn<'_>, &Fingerprint) -> Option<bool>;
type RealOf = fn(&Turn<'_>, &Fingerprint) -> Option<f64>;

// The columns of turns (`TURN_SCHEMA`) by what they hold. A turn has no number and no place yet.
const TEXTS: [(&str, TextOf); 32] = [
    ("task", |turn, _| Some(&turn.task)),
    ("session", |turn, _| Some(&turn.session)),
    ("payer", |turn, _| turn.payer.as_deref()),
    ("trace_id", |turn, _| Some(&turn.trace_id)),
    ("span_id", |turn, _| Some(&turn.span_id)),
    ("call_id", |turn, _| turn.call_id.as_deref()),
    ("kind", |turn, _| Some(turn.kind.name())),
    ("user_id", |turn, _| turn.user.as_deref()),
    ("agent", |turn, _| Some(&turn.agent)),
    ("name", |turn, _| turn.name.as_deref()),
    ("phase", |turn, _| turn.phase.as_deref()),
    ("iteration", |turn, _| turn.iteration.as_deref()),
    ("subtask", |turn, _| turn.subtask.as_deref()),
    ("task_kind", |turn, _| turn.task_kind.as_deref()),
    ("arguments", |turn, _| turn.arguments.as_deref()),
    ("result", |turn, _| turn.result.as_deref()),
    ("error_type", |_, made| made.error_type.as_deref()),
    ("error", |_, made| made.error.as_deref()),
    ("error_kind", |_, made| made.error_kind.as_deref()),
    ("location", |_, made| made.location.as_deref()),
    ("trace_hash", |_, made| made.trace_hash.as_deref()),
    ("text", |turn, _| turn.text.as_deref()),
    ("step", |turn, _| turn.step.as_deref()),
    ("finish_reason", |turn, _| turn.finish_reason.as_deref()),
    ("service_tier", |turn, _| turn.service_tier.as_deref()),
    ("metrics", |turn, _| {
        turn.figures.as_ref()?.metrics.as_deref()
    }),
    ("service", |turn, _| turn.service.as_deref()),
    ("call", |_, made| made.call.as_deref()),
    ("outcome", |_, made| made.outcome.as_deref()),
    ("signature", |_, made| made.signature.as_deref()),
    ("response", |_, made| made.response.as_deref()),
    ("talks_on", |_, made| made.talks_on.as_deref()),
];
const NUMBERS: [(&str, NumberOf); 11] = [
    ("phase_start_ns", |turn, _| turn.phase_start_ns),
    ("start_ns", |turn, _| Some(turn.start_ns)),
    ("end_ns", |turn, _| Some(turn.end_ns)),
    ("input_tokens", |turn, _| turn.tokens.input),
    ("output_tokens", |turn, _| turn.tokens.output),
    ("cached_tokens", |turn, _| turn.tokens.cached),
    ("cache_write_tokens", |turn, _| turn.tokens.cache_write),
    ("reasoning_tokens", |turn, _| turn.tokens.reasoning),
    ("tests_failed", |_, made| made.figures.failed),
    ("tests_total", |_, made| made.figures.total),
    ("markers", |turn, _| turn.figures.as_ref()?.markers),
];
const FLAGS: [(&str, FlagOf); 2] = [
    ("failed", |_, made| made.failed),
    ("compacted", |turn, _| turn.compacted),
];
const REALS: [(&str, RealOf); 1] = [("coverage", |_, made| made.figures.coverage)];

/// The columns that a turn is compared by.
pub(crate) fn made_of(turn: &Turn<'_>, sameness: &Sameness) -> Fingerprint {
    let figures = turn.figures.as_ref();
    let compared = Compared {
        kind: turn.kind.name(),
        name: turn.name.as_deref(),
        subtask: turn.subtask.as_deref(),
        arguments: turn.arguments.as_deref(),
        result: turn.result.as_deref(),
        error: turn.error.as_deref(),
        error_type: turn.error_type.as_deref(),
        location: None,
        trace: turn.trace.as_deref(),
        text: turn.text.as_deref(),
        response: turn.response.as_deref(),
        talks_on: turn.talks_on.as_deref(),
        failed: turn.failed,
        figures: figures.map_or_else(Figures::default, |told| Figures {
            failed: told.tests_failed,
            total: told.tests_total,
            coverage: told.coverage,
        }),
    };
    fingerprint(&compared, sameness)
}

/// Turns on their way into a table.
pub(crate) struct Columns {
    texts: Vec<StringViewBuilder>,
    numbers: Vec<Int64Builder>,
    flags: Vec<BooleanBuilder>,
    reals: Vec<Float64Builder>,
}

impl Default for Columns {
    fn default() -> Self {
        Self {
            texts: TEXTS.iter().map(|_| StringViewBuilder::new()).collect(),
            numbers: NUMBERS.iter().map(|_| Int64Builder::new()).collect(),
            flags: FLAGS.iter().map(|_| BooleanBuilder::new()).collect(),
            reals: REALS.iter().map(|_| Float64Builder::new()).collect(),
        }
    }
}

impl Columns {
    pub(crate) fn add(&mut self, turn: &Turn<'_>, made: &Fingerprint) {
        for (column, (_, value)) in self.texts.iter_mut().zip(TEXTS) {
            column.append_option(value(turn, made));
        }
        for (column, (_, value)) in self.numbers.iter_mut().zip(NUMBERS) {
            column.append_option(value(turn, made));
        }
        for (column, (_, value)) in self.flags.iter_mut().zip(FLAGS) {
            column.append_option(value(turn, made));
        }
        for (column, (_, value)) in self.reals.iter_mut().zip(REALS) {
            column.append_option(value(turn, made));
        }
    }

    /// A table of some turns and those after them; it has one block at least.
    pub(crate) fn table(parts: Vec<Self>) -> PyResult<Table> {
        let parts = if parts.is_empty() {
            vec![Self::default()]
        } else {
            parts
        };
        let mut table = Table { blocks: Vec::new() };
        for part in parts {
            table.blocks.extend(part.block()?.blocks);
        }
        Ok(table)
    }

    fn block(mut self) -> PyResult<Table> {
        let mut columns: Vec<(&str, ArrayRef)> = Vec::new();
        for (column, (name, _)) in self.texts.iter_mut().zip(TEXTS) {
            columns.push((name, Arc::new(column.finish())));
        }
        for (column, (name, _)) in self.numbers.iter_mut().zip(NUMBERS) {
            columns.push((name, Arc::new(column.finish())));
        }
        for (column, (name, _)) in self.flags.iter_mut().zip(FLAGS) {
            columns.push((name, Arc::new(column.finish())));
        }
        for (column, (name, _)) in self.reals.iter_mut().zip(REALS) {
            columns.push((name, Arc::new(column.finish())));
        }
        Table::of(columns)
    }
}

/// The columns of a turn in the order that Python has them.
pub(crate) struct Layout(Vec<Value>);

/// A column of a turn as Python has it.
#[derive(Clone, Copy)]
enum Value {
    Text(TextOf),
    Number(NumberOf),
    Flag(FlagOf),
    Real(RealOf),
    Later,
}

impl Layout {
    /// The place of each column; those that the core does not make stay empty.
    pub(crate) fn new(columns: &[String]) -> Self {
        let mut places: HashMap<&str, Value> = HashMap::new();
        places.extend(TEXTS.map(|(name, value)| (name, Value::Text(value))));
        places.extend(NUMBERS.map(|(name, value)| (name, Value::Number(value))));
        places.extend(FLAGS.map(|(name, value)| (name, Value::Flag(value))));
        places.extend(REALS.map(|(name, value)| (name, Value::Real(value))));
        let place = |name: &String| places.get(&**name).copied().unwrap_or(Value::Later);
        Self(columns.iter().map(place).collect())
    }

    /// A turn as Python has it.
    pub(crate) fn row<'py>(
        &self,
        py: Python<'py>,
        turn: &Turn<'_>,
        made: &Fingerprint,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let value = |column: &Value| -> PyResult<Bound<'py, PyAny>> {
            Ok(match column {
                Value::Text(text) => match text(turn, made) {
                    Some(text) => PyString::new(py, text).into_any(),
                    None => py.None().into_bound(py),
                },
                Value::Number(number) => number(turn, made).into_pyobject(py)?.into_any(),
                Value::Flag(flag) => flag(turn, made).into_pyobject(py)?.into_any(),
                Value::Real(real) => real(turn, made).into_pyobject(py)?.into_any(),
                Value::Later => py.None().into_bound(py),
            })
        };
        let values = self.0.iter().map(value).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, values)
    }
}
