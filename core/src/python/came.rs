//! Turns that come to live tasks: one after the other as Python has them, or many in columns.

use std::collections::HashMap;

use arrow_array::RecordBatch;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyAny, PyBool, PyInt, PyString, PyTuple};

use super::arrow::{Flags, Ints, Table, Texts};
use super::count::{Fields, PyCounting, READ, Read};
use super::guarded;
use crate::count::marks::mark;
use crate::count::turn::Turn;
use crate::task::noted::Noted;
use crate::task::turns::{New, Watch};
use crate::task::values::{self, Names, Value};
use crate::task::waiting::{Waiting, id_of, key_of};

// What loops keep of a turn and many turns of a task share.
const NAMED: [&str; 10] = [
    "task",
    "agent",
    "kind",
    "name",
    "phase",
    "trace_id",
    "session",
    "service",
    "error_type",
    "error_kind",
];

// Most turns keep less.
const EVIDENCE_BYTES: usize = 512;

/// Which columns of a turn are read, by their places.
pub(crate) struct Reading {
    counting: Py<PyCounting>,
    /// Those of `READ`, of the task, and of the span.
    read: Vec<usize>,
    task: usize,
    span_id: usize,
    /// What loops keep, and whether it is likely to come again.
    kept: Vec<(usize, String, bool)>,
    /// Kinds of turn with outputs that rules read, as bits.
    texts: u8,
}

impl Reading {
    pub(crate) fn new(
        counting: Py<PyCounting>,
        turn: &[String],
        kept: Vec<String>,
        texts: u8,
    ) -> PyResult<Self> {
        let at = |name: &str| {
            let found = turn.iter().position(|each| each == name);
            found.ok_or_else(|| PyValueError::new_err(format!("no column: {name}")))
        };
        let keeps = |name: String| {
            let is_name = NAMED.contains(&name.as_str());
            Ok((at(&name)?, name, is_name))
        };
        Ok(Self {
            counting,
            read: READ.iter().map(|name| at(name)).collect::<PyResult<_>>()?,
            task: at("task")?,
            span_id: at("span_id")?,
            kept: kept.into_iter().map(keeps).collect::<PyResult<_>>()?,
            texts,
        })
    }
}

/// Turns that come.
pub(crate) enum Came<'a, 'py> {
    /// Each as Python has it.
    Tuples(Vec<Bound<'py, PyTuple>>),
    /// In blocks of columns.
    Blocks(Vec<Block<'a>>),
}

/// The columns of some turns.
pub(crate) struct Block<'a> {
    read: Read<'a>,
    rows: usize,
    task: Texts<'a>,
    span_id: Texts<'a>,
    kept: Vec<Kept<'a>>,
}

/// A column that loops keep.
enum Kept<'a> {
    Text(Texts<'a>, bool),
    Number(Ints<'a>),
    Flag(Flags<'a>),
}

/// Where a turn is: in which block, and in which row.
pub(crate) type At = (usize, usize);

impl<'a, 'py> Came<'a, 'py> {
    /// Turns in the columns of a table.
    pub(crate) fn blocks(table: &'a Table, reading: &Reading) -> PyResult<Self> {
        let of = |block| Block::of(block, reading);
        let blocks = table.blocks.iter().map(of).collect::<PyResult<_>>()?;
        Ok(Self::Blocks(blocks))
    }

    /// The place of each.
    pub(crate) fn places(&self) -> Vec<At> {
        match self {
            Self::Tuples(turns) => (0..turns.len()).map(|row| (0, row)).collect(),
            Self::Blocks(blocks) => {
                let rows = |(at, block): (usize, &Block)| (0..block.rows).map(move |row| (at, row));
                blocks.iter().enumerate().flat_map(rows).collect()
            }
        }
    }

    /// The place of the task of a turn, among places by name.
    pub(crate) fn task_in(
        &self,
        (block, row): At,
        reading: &Reading,
        places: &HashMap<&str, usize>,
    ) -> PyResult<usize> {
        let found = match self {
            Self::Tuples(turns) => {
                let name = turns[row].get_borrowed_item(reading.task)?;
                places.get(name.cast::<PyString>()?.to_str()?)
            }
            Self::Blocks(blocks) => places.get(blocks[block].task.at(row).unwrap_or_default()),
        };
        let missing = || PyValueError::new_err("a turn of no task that is held");
        found.copied().ok_or_else(missing)
    }

    /// A turn as it is held, which is noted.
    pub(crate) fn new_turn(
        &self,
        (block, row): At,
        reading: &Reading,
        watch: &Watch,
        names: &mut Names,
        noted: &mut Noted,
    ) -> PyResult<New> {
        match self {
            Self::Tuples(turns) => {
                let turn = &turns[row];
                let fields = Fields::read(turn, &reading.read)?;
                let span_id: PyBackedStr = turn.get_borrowed_item(reading.span_id)?.extract()?;
                let (mut new, mut evidence) =
                    reading.marked(fields.turn(), &span_id, watch, noted)?;
                for (at, _, is_name) in &reading.kept {
                    let value = turn.get_borrowed_item(*at)?;
                    match value.cast::<PyString>() {
                        Ok(name) if *is_name => names.put(Some(name.to_str()?), &mut evidence),
                        _ => write(&mut evidence, &value)?,
                    }
                }
                new.evidence = evidence;
                Ok(new)
            }
            Self::Blocks(blocks) => {
                let block = &blocks[block];
                let span_id = block.span_id.at(row).unwrap_or_default();
                let (mut new, mut evidence) =
                    reading.marked(block.read.turn(row), span_id, watch, noted)?;
                for column in &block.kept {
                    column.write(row, names, &mut evidence);
                }
                new.evidence = evidence;
                Ok(new)
            }
        }
    }
}

impl Reading {
    /// A turn as it is counted, and what loops keep of it so far: the output that rules read.
    fn marked(
        &self,
        mut one: Turn<'_>,
        span_id: &str,
        watch: &Watch,
        noted: &mut Noted,
    ) -> PyResult<(New, Vec<u8>)> {
        one.price = self.counting.get().price_of(&one)?;
        let trace_id = one.trace_id.unwrap_or_default();
        noted.note((one.start_ns, one.end_ns), trace_id, one.name, watch);
        let marked = guarded(|| mark(&one, &watch.counting))?;
        let reads = self.texts >> marked.row.kind & 1 == 1;
        let text = output_of(&one).filter(|_| reads);
        let mut evidence = Vec::with_capacity(EVIDENCE_BYTES);
        let text = text.map_or(Value::None, |text| Value::Text(text.into()));
        values::write(&text, &mut evidence);
        let new = New {
            at: Waiting {
                id: id_of(trace_id, span_id, one.kind, one.call_id),
                step: marked.step,
                start_ns: one.start_ns,
                end_ns: one.end_ns,
                kind: marked.row.kind,
                ..Waiting::default()
            },
            key: key_of(&one, span_id),
            marked,
            evidence: Vec::new(),
        };
        Ok((new, evidence))
    }
}

impl<'a> Block<'a> {
    fn of(block: &'a RecordBatch, reading: &Reading) -> PyResult<Self> {
        let kept = |(_, name, is_name): &(usize, String, bool)| {
            Texts::of(block, name)
                .map(|column| Kept::Text(column, *is_name))
                .or_else(|_| Flags::of(block, name).map(Kept::Flag))
                .or_else(|_| Ints::of(block, name).map(Kept::Number))
        };
        Ok(Self {
            read: Read::of(block)?,
            rows: block.num_rows(),
            task: Texts::of(block, "task")?,
            span_id: Texts::of(block, "span_id")?,
            kept: reading.kept.iter().map(kept).collect::<PyResult<_>>()?,
        })
    }
}

impl Kept<'_> {
    fn write(&self, row: usize, names: &mut Names, evidence: &mut Vec<u8>) {
        let value = match self {
            Self::Text(texts, true) => return names.put(texts.at(row), evidence),
            Self::Text(texts, false) => texts.at(row).map(|text| Value::Text(text.into())),
            Self::Number(numbers) => numbers.at(row).map(Value::Number),
            Self::Flag(flags) => flags.at(row).map(Value::Flag),
        };
        values::write(&value.unwrap_or(Value::None), evidence);
    }
}

/// The output of a turn that rules may read.
fn output_of<'a>(turn: &Turn<'a>) -> Option<&'a str> {
    match turn.kind {
        "model" | "handoff" => turn.text,
        _ => turn.error.or(turn.result),
    }
}

fn write(bytes: &mut Vec<u8>, value: &Bound<'_, PyAny>) -> PyResult<()> {
    let value = if value.is_none() {
        Value::None
    } else if let Ok(flag) = value.cast::<PyBool>() {
        Value::Flag(flag.is_true())
    } else if value.is_instance_of::<PyInt>() {
        Value::Number(value.extract()?)
    } else {
        Value::Text(value.cast::<PyString>()?.to_str()?.into())
    };
    values::write(&value, bytes);
    Ok(())
}
