//! The boundary of counting: columns of many turns, and one live turn after the other.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyAny, PyDict, PyTuple};

use super::arrow::{Flags, Floats, Ints, Table, Texts, texts};
use super::guarded;
use super::needs::PyNeeds;
use crate::count::how::{Counting, Messages, Metric, NS_PER_S};
use crate::count::row::{self, COLUMNS, Columns, ROW_BYTES, Row};
use crate::count::task::Task;
use crate::count::turn::{NEVER_NS, Price, Turn};
use crate::task::needs::Asked;

// A process meets few models, and the prices of many are forgotten and asked for again.
const MODELS_KEPT_MAX: usize = 1_000;
const TIERS_KEPT_MAX: usize = 20;

/// How to count, compiled once.
#[pyclass(frozen, module = "looptrace._core", name = "Counting")]
pub struct PyCounting {
    pub(crate) counting: Counting,
    prices: Option<Prices>,
}

/// The prices of a model, by the tier of the service; "" where none is said.
type Tiers = HashMap<String, Option<Price>>;

/// The prices of models, each asked for once.
struct Prices {
    price_of: Py<PyAny>,
    known: Mutex<HashMap<String, Tiers>>,
}

impl Prices {
    /// The price of the model of a response; none where it has none, or the turn is no response.
    fn of(&self, turn: &Turn) -> PyResult<Option<Price>> {
        let (Some(name), "model") = (turn.name, turn.kind) else {
            return Ok(None);
        };
        // A lock of a thread that panicked holds prices all the same.
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let tier = turn.service_tier.unwrap_or_default();
        if let Some(price) = known().get(name).and_then(|tiers| tiers.get(tier)) {
            return Ok(*price);
        }
        let price: Option<[f64; 5]> =
            Python::attach(|py| self.price_of.call1(py, (name, tier))?.extract(py))?;
        let mut known = known();
        if known.len() >= MODELS_KEPT_MAX {
            known.clear();
        }
        let tiers = known.entry(name.to_owned()).or_default();
        if tiers.len() >= TIERS_KEPT_MAX {
            tiers.clear();
        }
        tiers.insert(tier.to_owned(), price.map(Price));
        Ok(price.map(Price))
    }
}

#[pymethods]
impl PyCounting {
    #[new]
    #[pyo3(signature = (seconds, messages, messages_kept, by_decision, converging, price_of=None))]
    fn new(
        seconds: [i64; 5],
        messages: &str,
        messages_kept: usize,
        by_decision: bool,
        converging: Vec<(String, String, Option<String>)>,
        price_of: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let [
            idle_ns,
            poll_wait_ns,
            pending_wait_ns,
            run_pause_ns,
            run_rest_ns,
        ] = seconds.map(|seconds| seconds.saturating_mul(NS_PER_S));
        let mut counting = Counting {
            idle_ns,
            poll_wait_ns,
            pending_wait_ns,
            run_pause_ns,
            run_rest_ns,
            messages: match messages {
                "new" => Messages::New,
                "all" => Messages::All,
                "none" => Messages::None,
                other => return Err(PyValueError::new_err(format!("no messages: {other}"))),
            },
            messages_kept,
            by_decision,
            ..Counting::default()
        };
        for (phase, metric, better) in converging {
            let metric = match (metric.as_str(), better) {
                (_, Some(better)) => Metric::Own(metric, better == "lower"),
                ("tests_failed", None) => Metric::TestsFailed,
                ("coverage", None) => Metric::Coverage,
                ("markers", None) => Metric::Markers,
                (other, None) => return Err(PyValueError::new_err(format!("no metric: {other}"))),
            };
            counting.converge(&phase, metric);
        }
        let prices = price_of.map(|price_of| Prices {
            price_of,
            known: Mutex::default(),
        });
        Ok(Self { counting, prices })
    }

    /// The columns of the turns of whole tasks, of a table of turns.
    fn counted(&self, py: Python<'_>, turns: &Bound<'_, PyAny>) -> PyResult<Table> {
        let turns = Table::read(turns)?;
        py.detach(|| {
            let mut columns = Columns::default();
            self.count(&turns, |_, _, row, _| columns.push(row))?;
            written(columns, None)
        })
    }

    /// The columns of the tasks in which a rule may fire, and of these tasks, with the places of
    /// their turns; and the places of such rules.
    fn asked(
        &self,
        py: Python<'_>,
        turns: &Bound<'_, PyAny>,
        needs: &Bound<'_, PyNeeds>,
        tasks: HashSet<String>,
    ) -> PyResult<(Table, BTreeSet<usize>)> {
        let (turns, needs) = (Table::read(turns)?, &needs.get().needs);
        py.detach(|| {
            let (mut columns, mut places) = (Columns::default(), Vec::new());
            let (mut asked, mut every) = (Asked::of(needs), BTreeSet::new());
            let mut waiting: Vec<Row> = Vec::new();
            let mut is_wanted = false;
            let mut at = 0;
            self.count(&turns, |name, begins, row, start_ns| {
                if begins {
                    every.append(&mut asked.begin());
                    waiting.clear();
                    is_wanted = name.is_some_and(|name| tasks.contains(name));
                }
                asked.ask(&row, start_ns);
                waiting.push(row);
                at += 1;
                if is_wanted || !asked.rules.is_empty() {
                    places.extend(at - waiting.len() as i64..at);
                    waiting.drain(..).for_each(|row| columns.push(row));
                }
            })?;
            every.append(&mut asked.begin());
            Ok((written(columns, Some(places))?, every))
        })
    }
}

impl PyCounting {
    /// Count the turns of whole tasks; take the name of each one's task, whether it is the first
    /// of it, and its start.
    fn count(
        &self,
        turns: &Table,
        mut take: impl FnMut(Option<&str>, bool, Row, i64),
    ) -> PyResult<()> {
        let (mut name, mut task) = (None, Task::default());
        for block in &turns.blocks {
            let tasks = Texts::of(block, "task")?;
            let fields = Read::of(block)?;
            for row in 0..block.num_rows() {
                let mine = tasks.at(row);
                let begins = name != mine;
                if begins {
                    (name, task) = (mine, Task::default());
                }
                let mut turn = fields.turn(row);
                turn.price = self.price_of(&turn)?;
                let counted = guarded(|| task.count(&turn, &self.counting))?;
                take(mine, begins, counted, turn.start_ns);
            }
        }
        Ok(())
    }
}

impl PyCounting {
    pub(crate) fn price_of(&self, turn: &Turn) -> PyResult<Option<Price>> {
        let prices = self.prices.as_ref();
        prices.map_or(Ok(None), |prices| prices.of(turn))
    }
}

/// A table of columns, with the places of their turns if these are only some.
fn written(columns: Columns, places: Option<Vec<i64>>) -> PyResult<Table> {
    let columns = columns.split();
    let mut made: Vec<(&str, ArrayRef)> = Vec::new();
    if let Some(places) = places {
        made.push(("place", Arc::new(Int64Array::from(places))));
    }
    for (name, codes) in columns.codes {
        let names: Option<(&str, &[&str])> = match name {
            "speaker" => Some(("speaker_text", &row::SPEAKERS)),
            "reset" => Some(("reset_text", &row::RESETS)),
            _ => None,
        };
        if let Some((name, names)) = names {
            let place = |code: &i64| usize::try_from(code - 1).ok();
            let named = codes.iter().map(|code| names.get(place(code)?).copied());
            made.push((name, texts(named)));
        }
        made.push((name, Arc::new(Int64Array::from(codes))));
    }
    for (name, figures) in columns.figures {
        made.push((name, Arc::new(Float64Array::from(figures))));
    }
    for (name, flags) in columns.flags {
        made.push((name, Arc::new(BooleanArray::from(flags))));
    }
    let phases = columns.phases_before.iter().map(Option::as_deref);
    made.push(("phase_before_text", texts(phases)));
    Table::of(made)
}

/// The fields that are read, in the order in which they are given.
pub const READ: [&str; 38] = [
    "kind",
    "agent",
    "name",
    "subtask",
    "task_kind",
    "phase",
    "iteration",
    "call",
    "outcome",
    "signature",
    "response",
    "talks_on",
    "trace_id",
    "step",
    "call_id",
    "arguments",
    "result",
    "error",
    "error_kind",
    "text",
    "finish_reason",
    "service_tier",
    "metrics",
    "failed",
    "compacted",
    "start_ns",
    "end_ns",
    "order_ns",
    "phase_start_ns",
    "markers",
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "reasoning_tokens",
    "tests_failed",
    "tests_total",
    "coverage",
];
const TEXTS: usize = 23;
const FLAGS: usize = TEXTS + 2;
const NUMBERS: usize = FLAGS + 10;

/// A turn by its texts and whole numbers, in the order of `READ`.
fn turn_of<'a>(
    text: impl Fn(usize) -> Option<&'a str>,
    number: impl Fn(usize) -> Option<i64>,
) -> Turn<'a> {
    Turn {
        kind: text(0).unwrap_or_default(),
        agent: text(1),
        name: text(2),
        subtask: text(3),
        task_kind: text(4),
        phase: text(5),
        iteration: text(6),
        call: text(7),
        outcome: text(8),
        signature: text(9),
        response: text(10),
        talks_on: text(11),
        trace_id: text(12),
        step: text(13),
        call_id: text(14),
        arguments: text(15),
        result: text(16),
        error: text(17),
        error_kind: text(18),
        text: text(19),
        finish_reason: text(20),
        service_tier: text(21),
        metrics: text(22),
        start_ns: number(0).unwrap_or_default(),
        end_ns: number(1).unwrap_or_default(),
        order_ns: number(2).unwrap_or_default(),
        phase_start_ns: number(3).unwrap_or(NEVER_NS),
        markers: number(4).unwrap_or_default(),
        input_tokens: number(5).unwrap_or_default(),
        output_tokens: number(6).unwrap_or_default(),
        cached_tokens: number(7).unwrap_or_default(),
        cache_write_tokens: number(8).unwrap_or_default(),
        reasoning_tokens: number(9).unwrap_or_default(),
        ..Turn::default()
    }
}

/// The fields of one turn.
pub(crate) struct Fields {
    texts: Vec<Option<PyBackedStr>>,
    flags: [bool; 2],
    numbers: Vec<Option<i64>>,
    figures: [f64; 3],
}

impl Fields {
    /// The fields of a turn, in which those of `READ` have these places.
    pub(crate) fn read(turn: &Bound<'_, PyTuple>, places: &[usize]) -> PyResult<Self> {
        let at = |field: usize| turn.get_borrowed_item(places[field]);
        let text = |field| at(field)?.extract();
        let flag = |field| at(field)?.is_truthy();
        let number = |field| at(field)?.extract();
        let figure = |field| {
            let figure = at(field)?.extract::<Option<f64>>()?;
            Ok::<_, PyErr>(figure.unwrap_or(f64::NAN))
        };
        Ok(Self {
            texts: (0..TEXTS).map(text).collect::<PyResult<_>>()?,
            flags: [flag(TEXTS)?, flag(TEXTS + 1)?],
            numbers: (FLAGS..NUMBERS).map(number).collect::<PyResult<_>>()?,
            figures: [figure(NUMBERS)?, figure(NUMBERS + 1)?, figure(NUMBERS + 2)?],
        })
    }

    pub(crate) fn turn(&self) -> Turn<'_> {
        let [tests_failed, tests_total, coverage] = self.figures;
        Turn {
            failed: self.flags[0],
            compacted: self.flags[1],
            tests_failed,
            tests_total,
            coverage,
            ..turn_of(|at| self.texts[at].as_deref(), |at| self.numbers[at])
        }
    }
}

/// The columns of a table of turns.
pub(crate) struct Read<'a> {
    texts: Vec<Texts<'a>>,
    flags: Vec<Flags<'a>>,
    numbers: Vec<Ints<'a>>,
    coverage: Floats<'a>,
}

impl<'a> Read<'a> {
    pub(crate) fn of(block: &'a RecordBatch) -> PyResult<Self> {
        let texts = READ[..TEXTS].iter().map(|name| Texts::of(block, name));
        let flags = READ[TEXTS..FLAGS].iter().map(|name| Flags::of(block, name));
        let coverage = READ.len() - 1;
        let numbers = READ[FLAGS..coverage].iter();
        let numbers = numbers.map(|name| Ints::of(block, name));
        Ok(Self {
            texts: texts.collect::<PyResult<_>>()?,
            flags: flags.collect::<PyResult<_>>()?,
            numbers: numbers.collect::<PyResult<_>>()?,
            coverage: Floats::of(block, READ[coverage])?,
        })
    }

    pub(crate) fn turn(&self, row: usize) -> Turn<'a> {
        let flag = |place: usize| self.flags[place].at(row).unwrap_or_default();
        let number = |place: usize| self.numbers[place].at(row);
        let figure = |place: usize| number(place).map_or(f64::NAN, |tests| tests as f64);
        Turn {
            failed: flag(0),
            compacted: flag(1),
            tests_failed: figure(NUMBERS - FLAGS),
            tests_total: figure(NUMBERS - FLAGS + 1),
            coverage: self.coverage.at(row).unwrap_or(f64::NAN),
            ..turn_of(|place| self.texts[place].at(row), number)
        }
    }
}

/// The code of a text, by which columns of codes are searched.
#[pyfunction]
pub fn code_of(text: &str) -> i64 {
    crate::count::codes::code(text)
}

/// How often a text says its last words, and how many characters these repeats have.
#[pyfunction]
pub fn chant_of(text: &str) -> PyResult<(i64, i64)> {
    guarded(|| crate::count::marks::chants::chant_of(text))
}

/// Add the names of columns to the module, and those whose places are codes.
pub fn add_names(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    let names = PyDict::new(py);
    names.set_item("kind", row::KINDS)?;
    names.set_item("status", row::STATUSES)?;
    names.set_item("cut", row::CUTS)?;
    names.set_item("speaker", row::SPEAKERS)?;
    names.set_item("reset", row::RESETS)?;
    module.add("PLACES", names)?;
    module.add("COLUMNS", PyTuple::new(py, COLUMNS)?)?;
    module.add("COLUMNS_SEEN", row::SEEN)?;
    module.add("ROW_BYTES", ROW_BYTES)?;
    module.add("COUNTED_FROM", PyTuple::new(py, READ)?)
}
