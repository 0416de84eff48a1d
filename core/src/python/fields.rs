//! The boundary of fields: rows of spans in, fields of spans out, as Python has them.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyString, PyTuple};

use super::arrow::{Table as Arrow, Texts as Column, texts};
use super::guarded;
use crate::fields::events::{Told, call_in};
use crate::fields::figures::Figures;
use crate::fields::message::Message;
use crate::fields::numbers::Messages;
use crate::fields::parts::Sorted;
use crate::fields::reading::{Reading, reading, ties};
use crate::fields::rows::{Row, events_in};
use crate::fields::span::Reader;
use crate::fields::span_fields::{Intervention, Role, Shape, SpanFields};
use crate::fields::spoken::sort_spoken;
use crate::fields::table::{SHIPPED, Table};
use crate::fields::{payloads, results};
use crate::wire::value::Value::Text;

// Spans that are read before their fields are given to Python.
const SPANS_READ_TOGETHER: usize = 512;
// Messages that are kept as Python has them, before those are let go that no history has.
const MESSAGES_KEPT_MIN: usize = 1_024;

pub(crate) type Texts<'py> = Vec<Option<Bound<'py, PyString>>>;
type Value<'py> = Bound<'py, PyAny>;

/// Reads spans by a table of dialects, compiled once.
#[pyclass(frozen, module = "looptrace._core")]
pub(crate) struct FieldReader {
    pub(crate) reader: Mutex<Reader>,
    known: Mutex<Known>,
    classes: Classes,
}

/// Messages of histories as Python has them, by their addresses.
#[derive(Default)]
struct Known {
    messages: HashMap<usize, (Arc<Message>, Py<PyAny>)>,
    kept: usize,
}

/// The classes of Python that fields are given in.
struct Classes {
    span: Py<PyAny>,
    shape: Py<PyAny>,
    figures: Py<PyAny>,
    intervention: Py<PyAny>,
    message: Py<PyAny>,
    call: Py<PyAny>,
    result: Py<PyAny>,
    no_figures: Py<PyAny>,
}

#[pymethods]
impl FieldReader {
    #[new]
    #[pyo3(signature = (own=None, *, table=None))]
    fn new(py: Python<'_>, own: Option<&str>, table: Option<&str>) -> PyResult<Self> {
        let table = Table::new(table.unwrap_or(SHIPPED), own).map_err(PyValueError::new_err)?;
        let get = |module: &str, name: &str| {
            let module = py.import(format!("looptrace.analyzer.schema.{module}"))?;
            module.getattr(name).map(Bound::unbind)
        };
        let classes = Classes {
            span: get("span_fields", "SpanFields")?,
            shape: get("span_fields", "Shape")?,
            figures: get("span_fields", "ProgressFigures")?,
            no_figures: get("span_fields", "NO_FIGURES")?,
            intervention: get("span_fields", "Intervention")?,
            message: get("message", "Message")?,
            call: get("message", "ToolCall")?,
            result: get("message", "ToolResult")?,
        };
        Ok(Self {
            reader: Mutex::new(Reader::new(Arc::new(table))),
            known: Mutex::default(),
            classes,
        })
    }

    fn fields<'py>(
        &self,
        py: Python<'py>,
        rows: Vec<Bound<'py, PyTuple>>,
    ) -> PyResult<Bound<'py, PyList>> {
        let made = PyList::empty(py);
        for rows in rows.chunks(SPANS_READ_TOGETHER) {
            let texts = rows.iter().map(texts_of).collect::<PyResult<Vec<_>>>()?;
            let spans = texts.iter().zip(rows);
            let spans = spans.map(|(texts, row)| row_of(texts, row));
            let spans = spans.collect::<PyResult<Vec<_>>>()?;
            let read = guarded(|| {
                let mut reader = unlocked(&self.reader);
                spans
                    .iter()
                    .map(|span| span.read(&mut reader))
                    .collect::<Vec<_>>()
            })?;
            for (fields, row) in read.into_iter().zip(rows) {
                made.append(self.made(fields, row)?)?;
            }
        }
        self.forget();
        Ok(made)
    }

    fn ties(&self, py: Python<'_>, spans: &Bound<'_, PyAny>) -> PyResult<Arrow> {
        let spans = Arrow::read(spans)?;
        py.detach(|| {
            // Another thread may hold the reader for a while.
            let table = Arc::clone(&unlocked(&self.reader).table);
            let mut named = [Vec::new(), Vec::new(), Vec::new()];
            for block in &spans.blocks {
                let parents = Column::of(block, "parent_span_id")?;
                let attributes = Column::of(block, "attributes")?;
                let events = Column::of(block, "events")?;
                guarded(|| {
                    for at in 0..block.num_rows() {
                        let row = Row {
                            parent_span_id: parents.at(at),
                            attributes: attributes.at(at).unwrap_or_default(),
                            events: events.at(at).unwrap_or_default(),
                            ..Row::default()
                        };
                        let ties = ties(&row, &table);
                        for (column, name) in named.iter_mut().zip(ties) {
                            column.push(name);
                        }
                    }
                })?;
            }
            let columns = ["session", "task", "task_parent"].into_iter().zip(&named);
            let columns = columns.map(|(name, column)| {
                let column = column.iter().map(Option::as_deref);
                (name, texts(column))
            });
            Arrow::of(columns.collect())
        })
    }

    fn reading(&self, row: &Bound<'_, PyTuple>) -> PyResult<Reading> {
        let texts = texts_of(row)?;
        let span = row_of(&texts, row)?;
        guarded(|| span.given(|given| reading(given, &unlocked(&self.reader).table)))
    }
}

/// The arguments of a call that an event tells, its result, and whether that says it failed.
#[pyfunction]
pub(crate) fn call_in_event(event: &str) -> PyResult<Told> {
    guarded(|| call_in(&events_in(event)))
}

/// The arguments of a call, in JSON, in canonical form.
#[pyfunction]
pub(crate) fn arguments_of(text: &str) -> PyResult<Option<String>> {
    guarded(|| payloads::arguments_of(&Text(text.into())))
}

/// The result of a call, in JSON, and whether it says that the call failed.
#[pyfunction]
pub(crate) fn result_of(text: &str) -> PyResult<results::Returned> {
    guarded(|| results::result_of(&Text(text.into())))
}

/// The calls, the results and the other texts of a message whose texts may have calls or results.
#[pyfunction]
pub(crate) fn spoken(role: &str, texts: Vec<String>) -> PyResult<Spoken> {
    guarded(|| {
        let mut sorted = Sorted {
            texts,
            ..Sorted::default()
        };
        sort_spoken(role, &mut sorted);
        let calls = sorted.calls.into_iter();
        let results = sorted.results.into_iter();
        (
            calls.map(|call| (call.name, call.arguments)).collect(),
            results.map(|result| result.text).collect(),
            sorted.texts,
        )
    })
}

type Spoken = (
    Vec<(String, Option<String>)>,
    Vec<Option<String>>,
    Vec<String>,
);

pub(crate) fn unlocked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What a panic leaves behind are histories, which are compared before they are used.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

// The places of the texts in a row.
const TEXTS: [usize; 10] = [0, 1, 2, 3, 7, 8, 9, 10, 11, 12];

pub(crate) fn texts_of<'py>(row: &Bound<'py, PyTuple>) -> PyResult<Texts<'py>> {
    let text = |place: usize| Ok(row.get_item(place)?.extract()?);
    TEXTS.into_iter().map(text).collect()
}

/// What is read of a row, given its texts.
pub(crate) fn row_of<'a>(texts: &'a Texts<'_>, row: &Bound<'_, PyTuple>) -> PyResult<Row<'a>> {
    let told = |place: usize| texts[place].as_ref().map(|text| text.to_str()).transpose();
    let text = |place| told(place).map(Option::unwrap_or_default);
    let number = |place: usize| row.get_item(place)?.extract::<i64>();
    Ok(Row {
        trace_id: text(0)?,
        span_id: text(1)?,
        parent_span_id: told(2)?,
        name: text(3)?,
        start_ns: number(4)?,
        end_ns: number(5)?,
        status: number(6)?,
        status_message: told(4)?,
        service: told(5)?,
        scope: told(6)?,
        attributes: text(7)?,
        events: text(8)?,
        links: text(9)?,
    })
}

fn tuple_of<'py>(
    py: Python<'py>,
    values: impl Iterator<Item = PyResult<Value<'py>>>,
) -> PyResult<Value<'py>> {
    let values = values.collect::<PyResult<Vec<_>>>()?;
    Ok(PyTuple::new(py, values)?.into_any())
}

impl FieldReader {
    fn made<'py>(&self, fields: SpanFields, row: &Bound<'py, PyTuple>) -> PyResult<Value<'py>> {
        let py = row.py();
        let given = |place: usize| row.get_item(place);
        let kind = fields.kind.map(|kind| match kind {
            Role::Tool => "tool",
            Role::Model => "model",
            Role::Agent => "agent",
        });
        let (rare, failure) = (fields.rare(), fields.failure());
        let interventions = rare
            .interventions
            .iter()
            .map(|done| self.intervention(py, done));
        let tokens = fields.tokens();
        let values = [
            given(0)?,
            given(1)?,
            given(2)?,
            given(4)?,
            given(5)?,
            fields.service.as_deref().into_pyobject(py)?.into_any(),
            PyTuple::new(py, &rare.links)?.into_any(),
            kind.map(|kind| PyString::intern(py, kind))
                .into_pyobject(py)?
                .into_any(),
            self.shape(py, fields.shape.as_deref())?,
            fields.session.as_deref().into_pyobject(py)?.into_any(),
            rare.payer.as_deref().into_pyobject(py)?.into_any(),
            rare.connection.as_deref().into_pyobject(py)?.into_any(),
            fields.user.as_deref().into_pyobject(py)?.into_any(),
            rare.task.as_deref().into_pyobject(py)?.into_any(),
            rare.task_parent.as_deref().into_pyobject(py)?.into_any(),
            rare.task_kind.as_deref().into_pyobject(py)?.into_any(),
            fields.agent.as_deref().into_pyobject(py)?.into_any(),
            rare.phase.as_deref().into_pyobject(py)?.into_any(),
            rare.phase_start_ns.into_pyobject(py)?.into_any(),
            rare.iteration.as_deref().into_pyobject(py)?.into_any(),
            rare.status.as_deref().into_pyobject(py)?.into_any(),
            rare.blockers.as_deref().into_pyobject(py)?.into_any(),
            rare.completed_work.as_deref().into_pyobject(py)?.into_any(),
            self.figures(py, &rare.figures)?,
            tuple_of(py, interventions)?,
            (&fields.name).into_pyobject(py)?.into_any(),
            (&fields.call_id).into_pyobject(py)?.into_any(),
            (&fields.arguments).into_pyobject(py)?.into_any(),
            (&fields.result).into_pyobject(py)?.into_any(),
            fields.failed.into_pyobject(py)?.into_any(),
            failure.kind.as_deref().into_pyobject(py)?.into_any(),
            failure.message.as_deref().into_pyobject(py)?.into_any(),
            failure.trace.as_deref().into_pyobject(py)?.into_any(),
            self.messages(py, &fields.given)?,
            self.messages(py, &fields.answer)?,
            (&fields.finish_reason).into_pyobject(py)?.into_any(),
            rare.service_tier.as_deref().into_pyobject(py)?.into_any(),
            fields.compacted.into_pyobject(py)?.into_any(),
            tokens.input.into_pyobject(py)?.into_any(),
            tokens.output.into_pyobject(py)?.into_any(),
            tokens.cached.into_pyobject(py)?.into_any(),
            tokens.cache_write.into_pyobject(py)?.into_any(),
            tokens.reasoning.into_pyobject(py)?.into_any(),
            tokens.differing.into_pyobject(py)?.into_any(),
            fields.is_part.into_pyobject(py)?.to_owned().into_any(),
            fields.is_open.into_pyobject(py)?.to_owned().into_any(),
            fields.is_record.into_pyobject(py)?.to_owned().into_any(),
        ];
        self.classes.span.bind(py).call1(PyTuple::new(py, values)?)
    }

    fn shape<'py>(&self, py: Python<'py>, shape: Option<&Shape>) -> PyResult<Value<'py>> {
        let Some(shape) = shape else {
            return Ok(py.None().into_bound(py));
        };
        let keys = PyTuple::new(py, &shape.keys)?;
        self.classes
            .shape
            .bind(py)
            .call1((&shape.scope, &shape.name, keys, shape.known))
    }

    fn figures<'py>(&self, py: Python<'py>, figures: &Figures) -> PyResult<Value<'py>> {
        if !figures.known() {
            return Ok(self.classes.no_figures.bind(py).clone());
        }
        let Figures {
            tests_failed,
            tests_total,
            coverage,
            markers,
            metrics,
        } = figures;
        let values = (tests_failed, tests_total, coverage, markers, metrics);
        self.classes.figures.bind(py).call1(values)
    }

    fn intervention<'py>(&self, py: Python<'py>, done: &Intervention) -> PyResult<Value<'py>> {
        self.classes
            .intervention
            .bind(py)
            .call1((done.at_ns, &done.decision, &done.note))
    }

    fn messages<'py>(&self, py: Python<'py>, messages: &Messages) -> PyResult<Value<'py>> {
        match messages {
            Some(messages) => tuple_of(py, messages.iter().map(|each| self.message(py, each))),
            None => Ok(py.None().into_bound(py)),
        }
    }

    /// A message; one of a history is made once.
    fn message<'py>(&self, py: Python<'py>, message: &Arc<Message>) -> PyResult<Value<'py>> {
        let is_shared = Arc::strong_count(message) > 1;
        let address = Arc::as_ptr(message) as usize;
        if is_shared && let Some((_, made)) = unlocked(&self.known).messages.get(&address) {
            return Ok(made.bind(py).clone());
        }
        let calls = message.calls.iter().map(|call| {
            let values = (&call.call_id, &call.name, &call.arguments);
            self.classes.call.bind(py).call1(values)
        });
        let results = message.results.iter().map(|result| {
            let values = (&result.call_id, &result.text, result.failed);
            self.classes.result.bind(py).call1(values)
        });
        let (calls, results) = (tuple_of(py, calls)?, tuple_of(py, results)?);
        let role = PyString::intern(py, &message.role);
        let values = (role, &message.text, calls, results, message.silent);
        let made = self.classes.message.bind(py).call1(values)?;
        if is_shared {
            let kept = (Arc::clone(message), made.clone().unbind());
            unlocked(&self.known).messages.insert(address, kept);
        }
        Ok(made)
    }

    /// Let go of messages that no history has, now and then.
    fn forget(&self) {
        let mut known = unlocked(&self.known);
        if known.messages.len() > known.kept.max(MESSAGES_KEPT_MIN) {
            known
                .messages
                .retain(|_, (message, _)| Arc::strong_count(message) > 1);
            known.kept = 2 * known.messages.len();
        }
    }
}
