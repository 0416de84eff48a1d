//! The boundary of `wire`: bytes in, tables of Arrow out. `src/looptrace/_core.pyi` has the types.

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::{ArrayRef, Int8Array, Int64Array, RecordBatch};
use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::arrow::{Table, failed};
use super::guarded;
use crate::wire::block::{Block, Texts};
use crate::wire::bounds::{Bounds, OverBounds, Problem};
use crate::wire::json::Fault;
use crate::wire::json_request::{self, Document, Stop};
use crate::wire::json_text;
use crate::wire::logs::{self, Logs};
use crate::wire::proto_request::{self, Request};
use crate::wire::proto_walk::{self, Piece};
use crate::wire::read::Read;
use crate::wire::span::LOGGED;

create_exception!(_core, OverBoundsError, PyValueError);
create_exception!(_core, UndecodableError, PyValueError);

impl From<Stop> for PyErr {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Fault(fault) => fault.into(),
            Stop::Over(over) => over.into(),
        }
    }
}

impl From<Fault> for PyErr {
    fn from(fault: Fault) -> Self {
        UndecodableError::new_err(fault.to_string())
    }
}

impl From<OverBounds> for PyErr {
    fn from(OverBounds(why): OverBounds) -> Self {
        OverBoundsError::new_err(why)
    }
}

/// Spans that were read, as tables after each other, and what was wrong.
#[pyclass(frozen, extends = Table, module = "looptrace._core")]
pub struct Spans {
    logged: usize,
    problems: Vec<Problem>,
    cut: Vec<i64>,
}

#[pymethods]
impl Spans {
    /// The spans of several requests, without what was wrong with them.
    #[staticmethod]
    fn joined(py: Python<'_>, every: Vec<PyRef<'_, Self>>) -> PyResult<Py<Self>> {
        let blocks = every.iter().flat_map(|each| each.as_super().blocks.clone());
        let blocks = blocks.collect();
        let spans = Self {
            logged: every.iter().map(|each| each.logged).sum(),
            problems: Vec::new(),
            cut: Vec::new(),
        };
        Py::new(py, (spans, Table { blocks }))
    }

    /// How many are no spans but events of log records.
    #[getter]
    fn logged(&self) -> usize {
        self.logged
    }

    /// The bytes that they take in memory.
    #[getter]
    fn size(this: PyRef<'_, Self>) -> usize {
        let blocks = this.as_super().blocks.iter();
        blocks.map(RecordBatch::get_array_memory_size).sum()
    }

    #[getter]
    fn problems(&self) -> Vec<(&str, &str, bool, bool)> {
        let problems = self.problems.iter();
        problems
            .map(|each| (&*each.place, &*each.why, each.is_foreign, each.is_span))
            .collect()
    }

    #[getter]
    fn cut(&self) -> Vec<i64> {
        self.cut.clone()
    }
}

/// Log records that were read, as a table, and what they share.
#[pyclass(frozen, extends = Table, module = "looptrace._core")]
pub struct LogRecords {
    #[pyo3(get)]
    sources: Vec<logs::Source>,
    #[pyo3(get)]
    resources: Vec<String>,
}

/// A column of texts without a copy of their bytes.
fn texts(column: Texts) -> PyResult<ArrayRef> {
    let (buffers, places) = column.into_parts();
    let mut views = StringViewBuilder::with_capacity(places.len());
    for buffer in buffers {
        views.append_block(buffer.into());
    }
    for place in places {
        match place {
            Some((buffer, from, size)) => {
                views.try_append_view(buffer, from, size).map_err(failed)?
            }
            None => views.append_null(),
        }
    }
    Ok(Arc::new(views.finish()))
}

fn spans(read: Read) -> PyResult<(Spans, Table)> {
    let Block {
        named: [trace_id, span_id, parent_span_id, name, status_message],
        sources: [service, scope],
        content: [attributes, events, links],
        start_ns,
        end_ns,
        status,
        ..
    } = read.block;
    let logged = status.iter().filter(|code| **code == LOGGED).count();
    let table = Table::of(vec![
        ("trace_id", texts(trace_id)?),
        ("span_id", texts(span_id)?),
        ("parent_span_id", texts(parent_span_id)?),
        ("name", texts(name)?),
        ("start_ns", Arc::new(Int64Array::from(start_ns))),
        ("end_ns", Arc::new(Int64Array::from(end_ns))),
        ("status", Arc::new(Int8Array::from(status))),
        ("status_message", texts(status_message)?),
        ("service", texts(service)?),
        ("scope", texts(scope)?),
        ("attributes", texts(attributes)?),
        ("events", texts(events)?),
        ("links", texts(links)?),
    ])?;
    let spans = Spans {
        logged,
        problems: read.problems,
        cut: read.cut,
    };
    Ok((spans, table))
}

fn log_records(read: Logs) -> PyResult<(LogRecords, Table)> {
    let names = [
        "time_ns",
        "observed_ns",
        "event_name",
        "body",
        "attributes",
        "trace_id",
        "span_id",
        "fault",
    ];
    let mut columns = Vec::new();
    for (name, column) in names.into_iter().zip(read.texts) {
        columns.push((name, texts(column)?));
    }
    columns.push(("source", Arc::new(Int64Array::from(read.source))));
    let records = LogRecords {
        sources: read.sources,
        resources: read.resources,
    };
    Ok((records, Table::of(columns)?))
}

type Limits = (Option<usize>, Option<usize>, Option<usize>);

/// Bounds as Python gives them: spans, bytes of a span, levels.
fn bounds(limits: Option<Limits>) -> Bounds {
    let (spans, bytes, depth) = limits.unwrap_or_default();
    Bounds {
        spans_max: spans.unwrap_or(usize::MAX),
        span_bytes_max: bytes.unwrap_or(usize::MAX),
        depth_max: depth.unwrap_or(usize::MAX),
    }
}

/// Read the spans of a request in protobuf.
#[pyfunction]
#[pyo3(signature = (data, place, *, piece=None, is_whole=true, limits=None))]
pub fn decode_protobuf(
    py: Python<'_>,
    data: &[u8],
    place: &str,
    piece: Option<(usize, usize, usize)>,
    is_whole: bool,
    limits: Option<Limits>,
) -> PyResult<Py<Spans>> {
    let (start, stop, first) = piece.unwrap_or((0, data.len(), 0));
    if start > stop || stop > data.len() {
        return Err(PyValueError::new_err("the piece is not within the data"));
    }
    let request = Request {
        place: place.into(),
        data,
        piece: Piece { start, stop, first },
        is_whole,
    };
    let read = py.detach(|| spans(guarded(|| proto_request::spans(&request, bounds(limits)))??))?;
    Py::new(py, read)
}

/// Read the log records of a request in protobuf; `None` where the bytes are none.
#[pyfunction]
#[pyo3(signature = (data, *, limits=None))]
pub fn decode_protobuf_logs(
    py: Python<'_>,
    data: &[u8],
    limits: Option<Limits>,
) -> PyResult<Option<Py<LogRecords>>> {
    let read = py.detach(|| {
        guarded(|| proto_request::check(data, bounds(limits)))??;
        let read = guarded(|| logs::proto(data))?;
        read.ok().map(log_records).transpose()
    })?;
    read.map(|records| Py::new(py, records)).transpose()
}

/// Read the spans of a complete request in JSON.
#[pyfunction]
#[pyo3(signature = (data, place, *, limits=None))]
pub fn decode_json(
    py: Python<'_>,
    data: &[u8],
    place: &str,
    limits: Option<Limits>,
) -> PyResult<Py<Spans>> {
    let read = py.detach(|| {
        let read = guarded(|| json_request::request(data, place, bounds(limits)))?;
        spans(read?)
    })?;
    Py::new(py, read)
}

/// Read the spans of a document in JSON, as far as it can be read.
#[pyfunction]
#[pyo3(signature = (data, name, line, *, problem=None))]
pub fn decode_json_document(
    py: Python<'_>,
    data: &[u8],
    name: &str,
    line: usize,
    problem: Option<&str>,
) -> PyResult<Py<Spans>> {
    let document = Document {
        name,
        line,
        data,
        problem,
    };
    let read = py.detach(|| spans(guarded(|| json_request::document(&document))??))?;
    Py::new(py, read)
}

/// Read the log records of a request in JSON.
#[pyfunction]
#[pyo3(signature = (data, *, limits=None))]
pub fn decode_json_logs(
    py: Python<'_>,
    data: &[u8],
    limits: Option<Limits>,
) -> PyResult<Py<LogRecords>> {
    let read = py.detach(|| {
        json_request::check(data, bounds(limits))?;
        log_records(guarded(|| logs::json(data))??)
    })?;
    Py::new(py, read)
}

/// Whether a text begins as a JSON object or list does.
#[pyfunction]
pub fn begins_json(head: &[u8]) -> bool {
    json_text::begins_document(head)
}

/// A text with U+FFFD for each escaped half of a surrogate pair.
#[pyfunction]
pub fn with_whole_escapes<'py>(data: Bound<'py, PyBytes>) -> Bound<'py, PyBytes> {
    match json_text::with_whole_escapes(data.as_bytes()) {
        Cow::Borrowed(_) => data.clone(),
        Cow::Owned(text) => PyBytes::new(data.py(), &text),
    }
}

/// Cut a request in protobuf into pieces: the first byte, the byte after, the number of the first.
#[pyfunction]
pub fn protobuf_pieces(data: &[u8], bytes_min: usize) -> Vec<(usize, usize, usize)> {
    let pieces = proto_walk::pieces(data, bytes_min);
    pieces
        .iter()
        .map(|piece| (piece.start, piece.stop, piece.first))
        .collect()
}

/// Whether bytes begin like an export request in protobuf.
#[pyfunction]
pub fn begins_protobuf(head: &[u8]) -> bool {
    proto_walk::begins(head)
}
