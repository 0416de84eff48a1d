//! The declarations of a team, and the columns that turns are compared by.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::arrow::{Flags, Floats, Ints, Table, Texts, texts};
use super::guarded;
use crate::same::fingerprint::{Fingerprint, fingerprint};
use crate::same::masks;
use crate::same::policy::{Results, Sameness, Tool};
use crate::same::turn::{Figures, Turn};

/// The declarations of a team, compiled once.
#[pyclass(frozen, module = "looptrace._core")]
pub(crate) struct Policy {
    pub(crate) sameness: Sameness,
}

type DeclaredTool = (Vec<String>, Vec<String>, bool);

#[pymethods]
impl Policy {
    #[new]
    fn new(
        tools: BTreeMap<String, DeclaredTool>,
        masks: Vec<(String, String)>,
        volatile_keys: BTreeSet<String>,
        telling_keys: BTreeSet<String>,
    ) -> PyResult<Self> {
        let tools = tools
            .into_iter()
            .map(|(name, (volatile_keys, same_call, polling))| {
                (
                    name,
                    Tool {
                        volatile_keys,
                        same_call,
                        polling,
                    },
                )
            });
        let results = Results {
            keys: volatile_keys,
            telling_keys,
        };
        let sameness = Sameness::new(tools.collect(), masks, results)
            .map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { sameness })
    }

    /// The columns that turns are compared by, of a table of turns.
    fn fingerprinted(&self, py: Python<'_>, turns: &Bound<'_, PyAny>) -> PyResult<Table> {
        let turns = Table::read(turns)?;
        py.detach(|| {
            let mut made = Vec::new();
            for block in &turns.blocks {
                let columns = Columns::of(block)?;
                for row in 0..block.num_rows() {
                    let turn = columns.turn(row);
                    made.push(guarded(|| fingerprint(&turn, &self.sameness))?);
                }
            }
            written(&made)
        })
    }

    #[pyo3(signature = (text, *, error = false))]
    fn masked(&self, text: &str, error: bool) -> PyResult<String> {
        guarded(|| masks::masked(text, &self.sameness.masks, error))
    }

    #[pyo3(signature = (result, *, counters = true))]
    fn answer(&self, result: &str, counters: bool) -> PyResult<String> {
        let without = masks::Counters {
            calls: counters,
            attempts: counters,
            steps: false,
        };
        guarded(|| masks::answer(result, &self.sameness, without))
    }

    fn prompt_words(&self, text: &str) -> PyResult<Option<String>> {
        guarded(|| masks::prompt_words(text, &self.sameness.masks))
    }
}

/// The texts that are read, in order.
const TEXTS: [&str; 12] = [
    "kind",
    "name",
    "subtask",
    "arguments",
    "result",
    "error",
    "error_type",
    "location",
    "trace_hash",
    "text",
    "response",
    "talks_on",
];

struct Columns<'a> {
    texts: Vec<Texts<'a>>,
    failed: Flags<'a>,
    tests_failed: Ints<'a>,
    tests_total: Ints<'a>,
    coverage: Floats<'a>,
}

impl<'a> Columns<'a> {
    fn of(block: &'a RecordBatch) -> PyResult<Self> {
        let texts = TEXTS.iter().map(|name| Texts::of(block, name));
        Ok(Self {
            texts: texts.collect::<PyResult<_>>()?,
            failed: Flags::of(block, "failed")?,
            tests_failed: Ints::of(block, "tests_failed")?,
            tests_total: Ints::of(block, "tests_total")?,
            coverage: Floats::of(block, "coverage")?,
        })
    }

    fn turn(&self, row: usize) -> Turn<'a> {
        let text = |place: usize| self.texts[place].at(row);
        Turn {
            failed: self.failed.at(row),
            figures: Figures {
                failed: self.tests_failed.at(row),
                total: self.tests_total.at(row),
                coverage: self.coverage.at(row),
            },
            kind: text(0).unwrap_or_default(),
            name: text(1),
            subtask: text(2),
            arguments: text(3),
            result: text(4),
            error: text(5),
            error_type: text(6),
            location: text(7),
            trace: text(8),
            text: text(9),
            response: text(10),
            talks_on: text(11),
        }
    }
}

type Made = fn(&Fingerprint) -> Option<&str>;

/// The texts that are made.
const MADE: [(&str, Made); 10] = [
    ("error_type", |turn| turn.error_type.as_deref()),
    ("error", |turn| turn.error.as_deref()),
    ("error_kind", |turn| turn.error_kind.as_deref()),
    ("location", |turn| turn.location.as_deref()),
    ("trace_hash", |turn| turn.trace_hash.as_deref()),
    ("call", |turn| turn.call.as_deref()),
    ("outcome", |turn| turn.outcome.as_deref()),
    ("signature", |turn| turn.signature.as_deref()),
    ("response", |turn| turn.response.as_deref()),
    ("talks_on", |turn| turn.talks_on.as_deref()),
];

/// The columns of fingerprints, in the order of `_core.pyi`.
fn written(made: &[Fingerprint]) -> PyResult<Table> {
    macro_rules! numbers {
        ($array:ident, $read:expr) => {
            Arc::new(made.iter().map($read).collect::<$array>()) as ArrayRef
        };
    }
    let mut columns = vec![
        (
            "tests_failed",
            numbers!(Int64Array, |turn| turn.figures.failed),
        ),
        (
            "tests_total",
            numbers!(Int64Array, |turn| turn.figures.total),
        ),
        (
            "coverage",
            numbers!(Float64Array, |turn| turn.figures.coverage),
        ),
        ("failed", numbers!(BooleanArray, |turn| turn.failed)),
    ];
    for (name, text) in MADE {
        columns.push((name, texts(made.iter().map(text))));
    }
    Table::of(columns)
}
