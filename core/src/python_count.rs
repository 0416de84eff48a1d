//! The boundary of counting: columns of many turns, and one live turn after the other.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyAny, PyByteArray, PyBytes, PyDict, PyIterator, PyList, PyString, PyTuple};

use crate::count::how::{Counting, Messages, Metric, NS_PER_S};
use crate::count::row::{self, COLUMNS, COMPARED, Columns, ROW_BYTES, Row};
use crate::count::task::Task;
use crate::count::turn::{NEVER_NS, Price, Turn};
use crate::python::guarded;

// A process meets few models, and the prices of many are forgotten and asked for again.
const MODELS_KEPT_MAX: usize = 1_000;

/// How to count, compiled once.
#[pyclass(frozen, module = "looptrace._core", name = "Counting")]
pub struct PyCounting {
    counting: Counting,
    prices: Option<Prices>,
}

/// The prices of models, each asked for once.
struct Prices {
    price_of: Py<PyAny>,
    known: Mutex<HashMap<String, Option<Price>>>,
}

impl Prices {
    /// The price of the model of a response; none where it has none, or the turn is no response.
    fn of(&self, py: Python<'_>, turn: &Turn) -> PyResult<Option<Price>> {
        let (Some(name), "model") = (turn.name, turn.kind) else {
            return Ok(None);
        };
        // A lock of a thread that panicked holds prices all the same.
        let known = || self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(price) = known().get(name) {
            return Ok(*price);
        }
        let price: Option<[f64; 4]> = self.price_of.call1(py, (name,))?.extract(py)?;
        let mut known = known();
        if known.len() >= MODELS_KEPT_MAX {
            known.clear();
        }
        known.insert(name.to_owned(), price.map(Price));
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

    /// The columns of the turns of whole tasks, and the phase before each turn.
    fn counted<'py>(
        &self,
        py: Python<'py>,
        parts: &Bound<'py, PyIterator>,
    ) -> PyResult<(Bound<'py, PyTuple>, Bound<'py, PyList>)> {
        let mut columns = Columns::default();
        let (mut name, mut task) = (None::<String>, Task::default());
        for part in parts {
            let (tasks, lists): (Vec<Bound<'py, PyString>>, Vec<Option<Bound<'py, PyList>>>) =
                part?.extract()?;
            for (at, mine) in tasks.iter().enumerate() {
                let mine = mine.to_str()?;
                if name.as_deref() != Some(mine) {
                    (name, task) = (Some(mine.to_owned()), Task::default());
                }
                let fields = Fields::read(|field| match lists.get(field) {
                    Some(Some(list)) => Ok(Some(list.get_item(at)?)),
                    _ => Ok(None),
                })?;
                let mut turn = fields.turn(None)?;
                turn.price = self.price_of(py, &turn)?;
                columns.push(guarded(|| task.count(&turn, &self.counting))?);
            }
        }
        let made = columns.bytes.iter().map(|column| PyBytes::new(py, column));
        let made = PyTuple::new(py, made)?;
        Ok((made, PyList::new(py, columns.phases_before)?))
    }
}

impl PyCounting {
    fn price_of(&self, py: Python<'_>, turn: &Turn) -> PyResult<Option<Price>> {
        let prices = self.prices.as_ref();
        prices.map_or(Ok(None), |prices| prices.of(py, turn))
    }
}

/// The counts of one task up to a turn.
#[pyclass(module = "looptrace._core", name = "TaskCounts")]
#[derive(Default)]
pub struct TaskCounts {
    task: Task,
}

#[pymethods]
impl TaskCounts {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn copy(&self) -> Self {
        Self {
            task: self.task.clone(),
        }
    }

    fn count(
        &mut self,
        turn: &Bound<'_, PyTuple>,
        order_ns: i64,
        how: &PyCounting,
    ) -> PyResult<Row> {
        let py = turn.py();
        let fields = Fields::read(|at| Ok(Some(turn.get_item(at)?)))?;
        let mut turn = fields.turn(Some(order_ns))?;
        turn.price = how.price_of(py, &turn)?;
        guarded(|| self.task.count(&turn, &how.counting))
    }

    fn settle(&mut self) {
        self.task.settle();
    }

    fn __getstate__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let written = serde_json::to_vec(&self.task);
        let written = written.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(PyBytes::new(py, &written))
    }

    fn __setstate__(&mut self, state: &[u8]) -> PyResult<()> {
        let read = serde_json::from_slice(state);
        self.task = read.map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(())
    }
}

#[pymethods]
impl Row {
    /// The columns that rules see, as bytes.
    #[pyo3(name = "numbers")]
    fn py_numbers<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &self.numbers())
    }

    /// Compare with the turns before the last one whose numbers are given.
    fn compare_with(&mut self, numbers: &Bound<'_, PyByteArray>) {
        let numbers = numbers.to_vec();
        let rows = numbers.chunks_exact(ROW_BYTES);
        let earlier = rows.len().saturating_sub(1);
        self.alike.clear();
        for row in rows.take(earlier) {
            let mut codes = [0; COMPARED.len()];
            for (code, word) in codes.iter_mut().zip(row.as_chunks::<8>().0) {
                *code = i64::from_ne_bytes(*word);
            }
            self.compare(codes);
        }
    }

    /// Whether an earlier turn is known to equal this one in all these columns.
    #[pyo3(name = "again", signature = (*columns))]
    fn py_again(&self, columns: Vec<Bound<'_, PyString>>) -> PyResult<bool> {
        let names = columns.iter().map(|name| name.to_str());
        Ok(self.again(&names.collect::<PyResult<Vec<_>>>()?))
    }
}

/// The fields that are read, in the order in which they are given.
pub const READ: [&str; 36] = [
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
    "tests_failed",
    "tests_total",
    "coverage",
];
const TEXTS: usize = 22;
const FLAGS: usize = 2;
const NUMBERS: usize = 9;

/// The fields of one turn.
struct Fields<'py> {
    texts: [Option<Bound<'py, PyString>>; TEXTS],
    flags: [bool; FLAGS],
    numbers: [Option<i64>; NUMBERS],
    figures: [f64; 3],
}

impl<'py> Fields<'py> {
    fn read(at: impl Fn(usize) -> PyResult<Option<Bound<'py, PyAny>>>) -> PyResult<Self> {
        let mut fields = Self {
            texts: Default::default(),
            flags: [false; FLAGS],
            numbers: [None; NUMBERS],
            figures: [f64::NAN; 3],
        };
        let known = |place| Ok::<_, PyErr>(at(place)?.filter(|value| !value.is_none()));
        for (place, text) in fields.texts.iter_mut().enumerate() {
            *text = known(place)?.map(|value| value.cast_into()).transpose()?;
        }
        for (place, flag) in fields.flags.iter_mut().enumerate() {
            *flag = known(TEXTS + place)?.is_some_and(|value| value.is_truthy().unwrap_or(false));
        }
        for (place, number) in fields.numbers.iter_mut().enumerate() {
            *number = known(TEXTS + FLAGS + place)?
                .map(|value| value.extract())
                .transpose()?;
        }
        for (place, figure) in fields.figures.iter_mut().enumerate() {
            if let Some(value) = known(TEXTS + FLAGS + NUMBERS + place)? {
                *figure = value.extract()?;
            }
        }
        Ok(fields)
    }

    fn turn(&self, order_ns: Option<i64>) -> PyResult<Turn<'_>> {
        let text = |place: usize| {
            self.texts[place]
                .as_ref()
                .map(|text| text.to_str())
                .transpose()
        };
        let [
            start_ns,
            end_ns,
            order,
            phase_start_ns,
            markers,
            input,
            output,
            cached,
            cache_write,
        ] = self.numbers;
        let [tests_failed, tests_total, coverage] = self.figures;
        Ok(Turn {
            kind: text(0)?.unwrap_or_default(),
            agent: text(1)?,
            name: text(2)?,
            subtask: text(3)?,
            task_kind: text(4)?,
            phase: text(5)?,
            iteration: text(6)?,
            call: text(7)?,
            outcome: text(8)?,
            signature: text(9)?,
            response: text(10)?,
            talks_on: text(11)?,
            trace_id: text(12)?,
            step: text(13)?,
            call_id: text(14)?,
            arguments: text(15)?,
            result: text(16)?,
            error: text(17)?,
            error_kind: text(18)?,
            text: text(19)?,
            finish_reason: text(20)?,
            metrics: text(21)?,
            failed: self.flags[0],
            compacted: self.flags[1],
            start_ns: start_ns.unwrap_or_default(),
            end_ns: end_ns.unwrap_or_default(),
            order_ns: order_ns.or(order).unwrap_or_default(),
            phase_start_ns: phase_start_ns.unwrap_or(NEVER_NS),
            markers: markers.unwrap_or_default(),
            input_tokens: input.unwrap_or_default(),
            output_tokens: output.unwrap_or_default(),
            cached_tokens: cached.unwrap_or_default(),
            cache_write_tokens: cache_write.unwrap_or_default(),
            price: None,
            tests_failed,
            tests_total,
            coverage,
        })
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
    guarded(|| crate::count::chants::chant_of(text))
}

/// Whether an answer is a sentence or two.
#[pyfunction]
#[pyo3(signature = (answer))]
pub fn is_brief(answer: Option<&str>) -> bool {
    answer.is_some_and(crate::count::marks::is_brief)
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
