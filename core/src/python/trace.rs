//! The boundary of turns: spans in, turns out, all at once or as the spans arrive.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::arrow::{Ints, Table, Texts};
use super::fields::{FieldReader, row_of, texts_of, unlocked};
use super::guarded;
use super::policy::Policy;
use super::turns::{Columns, Layout, made_of};
use crate::fields::rows::Row;
use crate::fields::span::Reader;
use crate::fields::span_fields::Shape;
use crate::same::rounds;
use crate::threads::{each, shared_out};
use crate::trace::buffer::{Buffer as Traces, News};
use crate::trace::every::Every;
use crate::trace::known::Move;
use crate::trace::span::Span;
use crate::trace::turn::Key;
use crate::trace::understanding::{Understood, understood_of};

// Spans that are handed to a thread together.
const PIECE_SPANS: usize = 256;

type Shapes = Vec<((Option<String>, String, Vec<String>, bool), usize)>;
/// Counts in the order of `_core.pyi`, and the shapes of what was not understood and of the rest.
type Seen = ([i64; 7], Shapes, Shapes);

fn shapes(shapes: &std::collections::BTreeMap<Shape, usize>) -> Shapes {
    let every = Understood::most_frequent(shapes).into_iter();
    let told = every.map(|(shape, count)| {
        let Shape {
            scope,
            name,
            keys,
            known,
        } = shape.clone();
        ((scope, name, keys, known), count)
    });
    told.collect()
}

fn seen(understood: &Understood) -> Seen {
    let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
    let counts = [
        count(understood.turns),
        count(understood.parts),
        count(understood.agents),
        count(understood.structure),
        count(understood.unread),
        count(understood.incomplete),
        understood.differing_tokens,
    ];
    let (unread, known) = (&understood.shapes, &understood.known_shapes);
    (counts, shapes(unread), shapes(known))
}

/// The spans of some rows (`SPAN_SCHEMA`).
fn spans_in(block: &RecordBatch, reader: &mut Reader) -> PyResult<Vec<Span>> {
    let text = |name: &str| Texts::of(block, name);
    let number = |name: &str| Ints::of(block, name);
    let (trace_id, span_id, parent) =
        (text("trace_id")?, text("span_id")?, text("parent_span_id")?);
    let (name, status_message) = (text("name")?, text("status_message")?);
    let (service, scope) = (text("service")?, text("scope")?);
    let (attributes, events, links) = (text("attributes")?, text("events")?, text("links")?);
    let (start_ns, end_ns, status) = (number("start_ns")?, number("end_ns")?, number("status")?);
    let row = |at: usize| Row {
        trace_id: trace_id.at(at).unwrap_or_default(),
        span_id: span_id.at(at).unwrap_or_default(),
        parent_span_id: parent.at(at),
        name: name.at(at).unwrap_or_default(),
        start_ns: start_ns.at(at).unwrap_or_default(),
        end_ns: end_ns.at(at).unwrap_or_default(),
        status: status.at(at).unwrap_or_default(),
        status_message: status_message.at(at),
        service: service.at(at),
        scope: scope.at(at),
        attributes: attributes.at(at).unwrap_or_default(),
        events: events.at(at).unwrap_or_default(),
        links: links.at(at).unwrap_or_default(),
    };
    let rows = (0..block.num_rows()).map(row);
    Ok(rows.map(|row| Span::new(row.read(reader), 0)).collect())
}

/// The spans of a table (`SPAN_SCHEMA`), read in so many threads.
fn every_span(spans: Table, reader: &FieldReader, threads: usize) -> PyResult<Vec<Vec<Span>>> {
    let table = Arc::clone(&unlocked(&reader.reader).table);
    let pieces = spans.blocks.iter().flat_map(|block| {
        let starts = (0..block.num_rows()).step_by(PIECE_SPANS);
        starts.map(|start| block.slice(start, PIECE_SPANS.min(block.num_rows() - start)))
    });
    let shares = shared_out(pieces, threads, RecordBatch::num_rows);
    let read = each(shares, |pieces| {
        // Most conversations are in one of the shares, so that each has histories of its own.
        let mut reader = Reader::new(Arc::clone(&table));
        let read = pieces.iter().map(|piece| spans_in(piece, &mut reader));
        read.collect::<PyResult<Vec<_>>>()
    });
    let read = read.into_iter().collect::<PyResult<Vec<_>>>()?;
    Ok(read.into_iter().flatten().collect())
}

type PyTurns = (Table, Vec<(String, String)>, Seen);

/// What is told of some traces.
#[derive(Default)]
struct Told {
    turns: Columns,
    circles: Vec<(String, String)>,
    understood: Understood,
}

/// The turns of whole traces, the spans whose parents form a circle, and what was understood.
#[pyfunction]
pub(crate) fn turns_of(
    py: Python<'_>,
    spans: &Bound<'_, PyAny>,
    reader: &Bound<'_, FieldReader>,
    policy: &Bound<'_, Policy>,
    join_services: bool,
    threads: usize,
) -> PyResult<PyTurns> {
    let spans = Table::read(spans)?;
    let (reader, sameness) = (reader.get(), &policy.get().sameness);
    let made = py.detach(|| {
        guarded(|| {
            let mut every = Every::new(join_services);
            for span in every_span(spans, reader, threads)?.into_iter().flatten() {
                every.take(span);
            }
            Ok::<_, PyErr>(every.make(threads, |told: &mut Told, draft, made| {
                for turn in &made.turns {
                    told.turns.add(turn, &made_of(turn, sameness));
                }
                if let Some(place) = draft.tree.circle() {
                    let fields = draft.tree.fields(place);
                    let circle = (fields.trace_id.to_string(), fields.span_id.clone());
                    told.circles.push(circle);
                }
                told.understood.add(&understood_of(draft, &made));
            }))
        })?
    })?;
    let (mut turns, mut circles) = (Vec::new(), Vec::new());
    let mut understood = Understood::default();
    for told in made {
        turns.push(told.turns);
        circles.extend(told.circles);
        understood.add(&told.understood);
    }
    circles.sort();
    Ok((Columns::table(turns)?, circles, seen(&understood)))
}

/// A message without ids and numbers of rounds; `None` if it has few words.
#[pyfunction]
pub(crate) fn round_words(text: &str) -> PyResult<Option<String>> {
    guarded(|| rounds::round_words(text))
}

/// The traces at work: spans in as they arrive, turns out that are new, changed or gone.
#[pyclass(module = "looptrace._core")]
pub(crate) struct Buffer {
    traces: Traces,
    reader: Py<FieldReader>,
    policy: Py<Policy>,
    layout: Layout,
}

type PyNews<'py> = (Bound<'py, PyList>, Vec<Gone>, Vec<PyMove>);
type PyKey = (String, String, &'static str, Option<String>);
type Gone = (String, PyKey);
type PyMove = (String, String, String, Vec<PyKey>, i64, bool);

fn key_of(key: &Key) -> PyKey {
    let (trace_id, span_id, kind, call_id) = key.clone();
    (trace_id, span_id, kind.name(), call_id)
}

fn move_of(moved: &Move) -> PyMove {
    let keys = moved.keys.iter().map(key_of).collect();
    let (trace_id, before) = (moved.trace_id.clone(), moved.before.clone());
    let after = moved.after.clone();
    (
        trace_id,
        before,
        after,
        keys,
        moved.first_ns,
        moved.is_whole,
    )
}

#[pymethods]
impl Buffer {
    #[new]
    fn new(
        reader: Py<FieldReader>,
        policy: Py<Policy>,
        join_services: bool,
        columns: Vec<String>,
        chars_max: usize,
    ) -> Self {
        Self {
            traces: Traces::new(join_services, chars_max),
            reader,
            policy,
            layout: Layout::new(&columns),
        }
    }

    fn take<'py>(
        &mut self,
        py: Python<'py>,
        spans: Vec<Bound<'py, PyTuple>>,
        above: Vec<Bound<'py, PyTuple>>,
        may_move: &Bound<'py, PyAny>,
    ) -> PyResult<PyNews<'py>> {
        let (spans, above) = (self.read(py, &spans)?, self.read(py, &above)?);
        self.news(py, may_move, |traces, ask| traces.take(spans, above, ask))
    }

    fn rest<'py>(
        &mut self,
        py: Python<'py>,
        may_move: &Bound<'py, PyAny>,
    ) -> PyResult<PyNews<'py>> {
        self.news(py, may_move, |traces, ask| traces.rest(ask))
    }

    fn again<'py>(
        &mut self,
        py: Python<'py>,
        names: Vec<String>,
        may_move: &Bound<'py, PyAny>,
    ) -> PyResult<PyNews<'py>> {
        self.news(py, may_move, |traces, ask| traces.again(&names, ask))
    }

    fn holds(&self, names: Vec<String>) -> bool {
        self.traces.holds(&names)
    }

    fn understood(&mut self) -> PyResult<Seen> {
        guarded(|| seen(&self.traces.understood()))
    }

    fn join(&mut self, names: HashMap<String, String>) {
        self.traces.join(names);
    }

    fn joined(&self) -> Vec<(String, String)> {
        let joined = self.traces.ties.shared().joined();
        joined
            .map(|(name, other)| (name.to_owned(), other.to_owned()))
            .collect()
    }

    fn take_joined_anew(&mut self) -> HashMap<String, String> {
        self.traces.ties.take_joined_anew().into_iter().collect()
    }

    #[getter]
    fn dropped(&self) -> usize {
        self.traces.dropped
    }

    fn __len__(&self) -> usize {
        self.traces.len()
    }
}

impl Buffer {
    fn read(&self, py: Python<'_>, rows: &[Bound<'_, PyTuple>]) -> PyResult<Vec<Span>> {
        let reader = self.reader.bind(py).get();
        let texts = rows.iter().map(texts_of).collect::<PyResult<Vec<_>>>()?;
        let rows = texts
            .iter()
            .zip(rows)
            .map(|(texts, row)| row_of(texts, row));
        let rows = rows.collect::<PyResult<Vec<_>>>()?;
        py.detach(|| {
            guarded(|| {
                let mut reader = unlocked(&reader.reader);
                let read = rows
                    .iter()
                    .map(|row| Span::new(row.read(&mut reader), row.chars()));
                read.collect()
            })
        })
    }

    fn news<'py>(
        &mut self,
        py: Python<'py>,
        may_move: &Bound<'py, PyAny>,
        work: impl FnOnce(&mut Traces, &mut dyn FnMut(&[Move]) -> Vec<bool>) -> News + Send,
    ) -> PyResult<PyNews<'py>> {
        let mut fault = None;
        let may_move = may_move.clone().unbind();
        let mut ask = |moves: &[Move]| {
            let asked: Vec<PyMove> = moves.iter().map(move_of).collect();
            let told = Python::attach(|py| may_move.call1(py, (asked,))?.extract(py));
            told.unwrap_or_else(|error| {
                fault = Some(error);
                vec![false; moves.len()]
            })
        };
        let sameness = &self.policy.bind(py).get().sameness;
        let traces = &mut self.traces;
        let (news, made) = py.detach(|| {
            guarded(|| {
                let news = work(traces, &mut ask);
                let made = news.turns.iter().map(|turn| made_of(turn, sameness));
                let made = made.collect::<Vec<_>>();
                (news, made)
            })
        })?;
        if let Some(error) = fault {
            return Err(error);
        }
        let turns = PyList::empty(py);
        for (turn, made) in news.turns.iter().zip(&made) {
            turns.append(self.layout.row(py, turn, made)?)?;
        }
        let gone = news
            .gone
            .iter()
            .map(|(task, key)| (task.clone(), key_of(key)));
        Ok((
            turns,
            gone.collect(),
            news.moves.iter().map(move_of).collect(),
        ))
    }
}
