//! The boundary of live tasks: turns come in as they arrive, and the numbers of those held go out.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyAny, PyBool, PyBytes, PyInt, PyString, PyTuple};

use crate::count::marks::mark;
use crate::count::row::{KINDS, RESETS, ROW_BYTES};
use crate::count::turn::Turn;
use crate::python::guarded;
use crate::python_count::{Fields, PyCounting, READ};
use crate::task::needs::{Asking, Condition, Lane};
use crate::task::numbers::{Column, show};
use crate::task::turns::{New, Turns, Watch};
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

type LaneOf = (
    Vec<String>,
    Option<String>,
    String,
    Vec<String>,
    String,
    usize,
);
type ConditionOf = (String, Vec<String>, i64);
type BoundOf = (usize, usize, Vec<Vec<ConditionOf>>);
/// A place and a reason.
type Reset = (usize, &'static str);
type KeyOf<'py> = (
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Bound<'py, PyString>,
    Option<Bound<'py, PyString>>,
);

/// How the turns of live tasks are counted, held and asked about, compiled once.
#[pyclass(frozen, module = "looptrace._core")]
pub struct LiveWatch {
    watch: Watch,
    counting: Py<PyCounting>,
    /// The places of `READ` in a turn, of its span, and of what loops keep, which may be names.
    read: Vec<usize>,
    span_id: usize,
    kept: Vec<(usize, bool)>,
    /// Kinds of turn with outputs that rules read, as bits.
    texts: u8,
}

fn column(name: &str) -> PyResult<Column> {
    Column::named(name).ok_or_else(|| PyValueError::new_err(format!("no column: {name}")))
}

fn columns(names: &[String]) -> PyResult<Vec<Column>> {
    names.iter().map(|name| column(name)).collect()
}

fn bits(kinds: &[String]) -> u8 {
    let places = KINDS.iter().enumerate();
    let chosen = places.filter(|(_, kind)| kinds.iter().any(|each| each == *kind));
    chosen.fold(0, |bits, (at, _)| bits | 1 << at)
}

fn condition(
    (test, names, least): &ConditionOf,
    again: &mut Vec<Vec<Column>>,
) -> PyResult<Condition> {
    let every = columns(names)?;
    match (test.as_str(), every.as_slice()) {
        ("again", _) => {
            let known = again.iter().position(|each| *each == every);
            Ok(Condition::Again(known.unwrap_or_else(|| {
                again.push(every);
                again.len() - 1
            })))
        }
        ("has", [one]) => Ok(Condition::Has(*one)),
        ("reaches", [one]) => Ok(Condition::AtLeast(*one, *least)),
        _ => Err(PyValueError::new_err(format!("no condition: {test}"))),
    }
}

#[pymethods]
impl LiveWatch {
    #[new]
    fn new(
        counting: Py<PyCounting>,
        names: (Vec<String>, Vec<String>, Vec<String>),
        lanes: Vec<LaneOf>,
        bounds: Vec<BoundOf>,
        limits: (i64, i64, usize, usize, usize),
    ) -> PyResult<Self> {
        let (turn, kept, texts) = names;
        let at = |name: &str| {
            let found = turn.iter().position(|each| each == name);
            found.ok_or_else(|| PyValueError::new_err(format!("no column: {name}")))
        };
        let lane = |(kinds, by, once, required, epoch, lookback): LaneOf| {
            PyResult::Ok(Lane {
                kinds: bits(&kinds),
                by: by.as_deref().map(column).transpose()?,
                epoch: column(&epoch)?,
                once: column(&once)?,
                required: columns(&required)?,
                lookback,
            })
        };
        let mut again = Vec::new();
        let bound = |(rule, lane, ways): BoundOf| {
            let mut way = |way: &Vec<ConditionOf>| {
                way.iter().map(|each| condition(each, &mut again)).collect()
            };
            let ways = ways.iter().map(&mut way).collect::<PyResult<_>>()?;
            PyResult::Ok(Asking { rule, lane, ways })
        };
        let (horizon_ns, spread_ns, waiting_max, steps_max, failures_max) = limits;
        let lanes = lanes.into_iter().map(lane).collect::<PyResult<Vec<_>>>()?;
        let bounds = bounds
            .into_iter()
            .map(bound)
            .collect::<PyResult<Vec<_>>>()?;
        if bounds.iter().any(|bound| bound.lane >= lanes.len()) {
            return Err(PyValueError::new_err("no such lane"));
        }
        Ok(Self {
            watch: Watch {
                counting: counting.get().counting.clone(),
                lanes,
                bounds,
                again,
                kind: column("kind")?,
                failed: column("failed")?,
                epoch: column("epoch")?,
                resets_seen: column("resets_seen")?,
                horizon_ns,
                spread_ns,
                waiting_max,
                steps_max,
                failures_max,
            },
            counting,
            read: READ.iter().map(|name| at(name)).collect::<PyResult<_>>()?,
            span_id: at("span_id")?,
            kept: kept
                .iter()
                .map(|name| Ok((at(name)?, NAMED.contains(&name.as_str()))))
                .collect::<PyResult<_>>()?,
            texts: bits(&texts),
        })
    }
}

impl LiveWatch {
    fn new_turn(&self, turn: &Bound<'_, PyTuple>, names: &mut Names) -> PyResult<New> {
        let fields = Fields::read(turn, &self.read)?;
        let mut one = fields.turn();
        one.price = self.counting.get().price_of(&one)?;
        let span_id: PyBackedStr = turn.get_borrowed_item(self.span_id)?.extract()?;
        let trace_id = one.trace_id.unwrap_or_default();
        let marked = guarded(|| mark(&one, &self.watch.counting))?;
        let reads = self.texts >> marked.row.kind & 1 == 1;
        let text = output_of(&one).filter(|_| reads);
        let mut evidence = Vec::new();
        let text = text.map_or(Value::None, |text| Value::Text(text.into()));
        values::write(&text, &mut evidence);
        for (at, is_name) in &self.kept {
            let value = turn.get_borrowed_item(*at)?;
            match value.cast::<PyString>() {
                Ok(name) if *is_name => names.put(Some(name.to_str()?), &mut evidence),
                _ => write(&mut evidence, &value)?,
            }
        }
        Ok(New {
            at: Waiting {
                id: id_of(trace_id, &span_id, one.kind, one.call_id),
                step: marked.step,
                start_ns: one.start_ns,
                end_ns: one.end_ns,
                kind: marked.row.kind,
                ..Waiting::default()
            },
            key: key_of(&one, &span_id),
            marked,
            evidence,
        })
    }
}

/// The output of a turn that rules may read.
fn output_of<'a>(turn: &Turn<'a>) -> Option<&'a str> {
    match turn.kind {
        "model" | "handoff" => turn.text,
        _ => turn.error.or(turn.result),
    }
}

/// The turns that are held of one task.
#[pyclass(module = "looptrace._core")]
#[derive(Default)]
pub struct LiveTurns {
    turns: Box<Turns>,
    /// While it rests: its turns, compressed, and how many there are.
    resting: Option<(Py<PyBytes>, usize)>,
}

impl LiveTurns {
    fn wake(&mut self, py: Python<'_>, watch: &LiveWatch) -> PyResult<&mut Turns> {
        if let Some((bytes, _)) = self.resting.take() {
            let bytes = py.import("zlib")?.call_method1("decompress", (bytes,))?;
            let bytes = bytes.cast::<PyBytes>()?.as_bytes();
            let turns = guarded(|| Turns::read(bytes, &watch.watch))?;
            *self.turns = turns.map_err(|error| PyValueError::new_err(error.to_string()))?;
        }
        Ok(&mut self.turns)
    }
}

#[pymethods]
impl LiveTurns {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    fn __len__(&self) -> usize {
        let resting = self.resting.as_ref();
        resting.map_or_else(|| self.turns.len(), |(_, count)| *count)
    }

    fn rest(&mut self, py: Python<'_>) -> PyResult<()> {
        let bytes = self.turns.written();
        let bytes = bytes.map_err(|error| PyValueError::new_err(error.to_string()))?;
        let bytes = py
            .import("zlib")?
            .call_method1("compress", (PyBytes::new(py, &bytes),))?;
        self.resting = Some((bytes.cast_into()?.unbind(), self.turns.len()));
        self.turns.forget();
        Ok(())
    }

    #[getter]
    fn settled(&self) -> usize {
        self.turns.settled
    }

    fn settled_ns(&self, watch: &LiveWatch) -> i64 {
        self.turns.settled_ns(&watch.watch)
    }

    fn may_move(
        &mut self,
        py: Python<'_>,
        keys: Vec<KeyOf<'_>>,
        watch: &LiveWatch,
    ) -> PyResult<bool> {
        self.wake(py, watch)?;
        let ids = keys.iter().map(id).collect::<PyResult<Vec<_>>>()?;
        Ok(ids.into_iter().all(|id| self.turns.may_move(id)))
    }

    fn take(
        &mut self,
        py: Python<'_>,
        new: Vec<Bound<'_, PyTuple>>,
        gone: Vec<KeyOf<'_>>,
        watch: &LiveWatch,
    ) -> PyResult<(usize, bool, Option<usize>, usize, usize)> {
        let settled_ns = self.wake(py, watch)?.settled_ns(&watch.watch);
        let gone = gone.iter().map(id).collect::<PyResult<Vec<_>>>()?;
        let (gone, missed): (Vec<i64>, Vec<i64>) =
            gone.into_iter().partition(|id| self.turns.may_move(*id));
        let names = &mut self.turns.names;
        let mut every = new
            .iter()
            .map(|turn| watch.new_turn(turn, names))
            .collect::<PyResult<Vec<_>>>()?;
        every.iter().for_each(|one| self.turns.note(one.at.end_ns));
        every.retain(|one| one.at.end_ns >= settled_ns);
        let late = new.len() - every.len();
        let begin = if every.is_empty() && gone.is_empty() {
            None
        } else {
            Some(guarded(|| self.turns.take(every, &gone, &watch.watch))?)
        };
        let waiting = self.turns.waiting().len();
        let settling = self.turns.settling(&watch.watch);
        Ok((late, !missed.is_empty(), begin, waiting, settling))
    }

    fn look(&self, begin: usize, watch: &LiveWatch) -> PyResult<(Vec<usize>, Vec<Reset>)> {
        let asked = guarded(|| self.turns.asked(begin, &watch.watch))?;
        let begin = self.turns.settled + begin;
        let reason = |at: usize| {
            let reset = usize::try_from(self.turns.row(at).reset - 1).ok()?;
            Some((at, *RESETS.get(reset)?))
        };
        let resets = (begin..self.turns.len()).filter_map(reason);
        Ok((asked.into_iter().collect(), resets.collect()))
    }

    fn numbers<'py>(&self, py: Python<'py>, begin: usize) -> Bound<'py, PyBytes> {
        let count = self.turns.len().saturating_sub(begin);
        let mut bytes = Vec::with_capacity(count * ROW_BYTES);
        for at in begin..self.turns.len() {
            show(&self.turns.words(at), &mut bytes);
        }
        PyBytes::new(py, &bytes)
    }

    fn texts<'py>(&self, py: Python<'py>, begin: usize) -> PyResult<Vec<Bound<'py, PyAny>>> {
        let text = |at| self.turns.names.take(&mut self.turns.evidence(at));
        (begin..self.turns.len())
            .map(|at| read(py, &text(at)))
            .collect()
    }

    fn evidence<'py>(&self, py: Python<'py>, at: usize) -> PyResult<Bound<'py, PyTuple>> {
        if at >= self.turns.len() {
            return Err(PyValueError::new_err("no such turn"));
        }
        let (mut values, mut rest) = (Vec::new(), self.turns.evidence(at));
        while !rest.is_empty() {
            values.push(read(py, &self.turns.names.take(&mut rest))?);
        }
        let row = self.turns.row(at);
        let counted = [
            row.epoch,
            row.resets_seen,
            row.turn,
            row.input_tokens_sum,
            row.output_tokens_sum,
            row.input_tokens_total,
            row.output_tokens_total,
        ];
        for number in counted {
            values.push(number.into_pyobject(py)?.into_any());
        }
        values.push(row.phase_before_text.as_deref().into_pyobject(py)?);
        PyTuple::new(py, &values[1..])
    }

    fn settled_whole(&self, count: usize) -> usize {
        self.turns.settled_whole(count)
    }

    fn settle(&mut self, count: usize, watch: &LiveWatch) -> PyResult<(i64, i64)> {
        let last = guarded(|| self.turns.settle(count, &watch.watch))?;
        let watch = &watch.watch;
        Ok(last.map_or((0, 0), |last| {
            (watch.epoch.of(&last), watch.resets_seen.of(&last))
        }))
    }
}

fn id((trace, span, kind, call): &KeyOf<'_>) -> PyResult<i64> {
    let call = call.as_ref().map(|call| call.to_str()).transpose()?;
    Ok(id_of(trace.to_str()?, span.to_str()?, kind.to_str()?, call))
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

fn read<'py>(py: Python<'py>, value: &Value) -> PyResult<Bound<'py, PyAny>> {
    Ok(match value {
        Value::None => py.None().into_bound(py),
        Value::Flag(flag) => PyBool::new(py, *flag).to_owned().into_any(),
        Value::Number(number) => number.into_pyobject(py)?.into_any(),
        Value::Text(text) => PyString::new(py, text).into_any(),
        // Many rows of loops have it.
        Value::Name(name) => PyString::intern(py, name).into_any(),
    })
}
