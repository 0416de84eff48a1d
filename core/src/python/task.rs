//! The boundary of live tasks: turns come in as they arrive, and the numbers of those held go out.

use std::collections::HashMap;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedStr;
use pyo3::types::{PyAny, PyBool, PyBytes, PyString, PyTuple};

use super::arrow::Table;
use super::came::{At, Came, Reading};
use super::count::PyCounting;
use super::guarded;
use super::needs::{PyNeeds, bits, column};
use crate::count::row::{RESETS, ROW_BYTES};
use crate::task::noted::Noted;
use crate::task::numbers::show;
use crate::task::turns::{Turns, Watch};
use crate::task::values::Value;
use crate::task::waiting::id_of;

/// Of a task with news: its place, how many turns came too late, whether one that is gone is not
/// held or settled, the first that is not as it was, how many could move before, and how many of
/// those that could no longer can.
type NewsOf = (usize, usize, bool, Option<usize>, usize, usize);
/// The same without the place.
type Told = (usize, bool, Option<usize>, usize, usize);
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
    reading: Reading,
}

#[pymethods]
impl LiveWatch {
    #[new]
    fn new(
        counting: Py<PyCounting>,
        names: (Vec<String>, Vec<String>, Vec<String>),
        needs: &Bound<'_, PyNeeds>,
        limits: (i64, i64, i64, usize, usize, usize, usize, usize),
    ) -> PyResult<Self> {
        let (turn, kept, texts) = names;
        let (horizon_ns, spread_ns, long_ns, waiting_max, steps_max, failures_max, ..) = limits;
        let (.., traces_max, settled_at_once) = limits;
        Ok(Self {
            watch: Watch {
                counting: counting.get().counting.clone(),
                needs: needs.get().needs.clone(),
                failed: column("failed")?,
                epoch: column("epoch")?,
                resets_seen: column("resets_seen")?,
                horizon_ns,
                spread_ns,
                long_ns,
                waiting_max,
                steps_max,
                failures_max,
                traces_max,
                settled_at_once,
            },
            reading: Reading::new(counting, &turn, kept, bits(&texts))?,
        })
    }

    fn take<'py>(
        &self,
        py: Python<'py>,
        turns: &Bound<'py, PyAny>,
        names: Vec<PyBackedStr>,
        held: Vec<Bound<'py, LiveTurns>>,
        gone: Vec<(usize, KeyOf<'py>)>,
        watched: Vec<usize>,
    ) -> PyResult<Vec<NewsOf>> {
        let places = names.iter().enumerate().map(|(at, name)| (&**name, at));
        let places: HashMap<&str, usize> = places.collect();
        let table;
        let came = match turns.extract() {
            Ok(tuples) => Came::Tuples(tuples),
            Err(_) => {
                table = Table::read(turns)?;
                Came::blocks(&table, &self.reading)?
            }
        };
        let mut every: Vec<(Vec<At>, Vec<i64>)> = vec![(Vec::new(), Vec::new()); held.len()];
        for at in came.places() {
            every[came.task_in(at, &self.reading, &places)?].0.push(at);
        }
        for (place, key) in &gone {
            every[*place].1.push(id(key)?);
        }
        let mut news = Vec::new();
        for (place, (held, (new, gone))) in held.iter().zip(every).enumerate() {
            let mut held = held.try_borrow_mut()?;
            let told = held.take(py, &came, &new, gone, self, watched.contains(&place))?;
            news.extend(told.map(|(late, missed, begin, before, settling)| {
                (place, late, missed, begin, before, settling)
            }));
        }
        Ok(news)
    }
}

/// The turns that are held of one task.
#[pyclass(module = "looptrace._core")]
#[derive(Default)]
pub struct LiveTurns {
    turns: Box<Turns>,
    /// While it rests: its turns, compressed, and how many there are.
    resting: Option<(Py<PyBytes>, usize)>,
    noted: Noted,
    /// Whether nothing is known to have happened at its turns that may move.
    #[pyo3(get, set)]
    is_calm: bool,
    /// `epoch` and `resets_seen` of the last settled turn: loops go on while they stay.
    settled_at: (i64, i64),
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

    /// Take turns; returns the news but for the place of the task, if there are some.
    fn take(
        &mut self,
        py: Python<'_>,
        came: &Came<'_, '_>,
        new: &[At],
        gone: Vec<i64>,
        watch: &LiveWatch,
        is_watched: bool,
    ) -> PyResult<Option<Told>> {
        let settled_ns = self.wake(py, watch)?.settled_ns(&watch.watch);
        let LiveWatch { watch, reading } = watch;
        let (gone, missed): (Vec<i64>, Vec<i64>) =
            gone.into_iter().partition(|id| self.turns.may_move(*id));
        let (names, noted) = (&mut self.turns.names, &mut self.noted);
        let mut every = new
            .iter()
            .map(|at| came.new_turn(*at, reading, watch, names, noted))
            .collect::<PyResult<Vec<_>>>()?;
        every.iter().for_each(|one| self.turns.note(one.at.end_ns));
        every.retain(|one| one.at.end_ns >= settled_ns);
        let (late, before) = (new.len() - every.len(), self.turns.waiting().len());
        let mut begin = None;
        if !(every.is_empty() && gone.is_empty()) {
            begin = Some(guarded(|| self.turns.take(every, &gone, watch))?);
        }
        let mut settling = self.turns.settling(watch);
        let is_odd = is_watched || late > 0 || !missed.is_empty();
        if !is_odd && begin == Some(before) && self.happens(before, watch)?.is_empty() {
            begin = None;
            if self.is_calm {
                settling = self.turns.settled_whole(settling);
            }
            if settling < watch.settled_at_once {
                return Ok(None);
            }
            let last = self.turns.words(self.turns.settled + settling - 1);
            let is_same = (watch.epoch.of(&last), watch.resets_seen.of(&last)) == self.settled_at;
            if self.is_calm && is_same {
                guarded(|| self.turns.settle(settling, watch))?;
                return Ok(None);
            }
        }
        Ok(Some((late, !missed.is_empty(), begin, before, settling)))
    }

    /// What happens from a turn on that may move: the places of rules that may fire, and resets.
    fn happens(&mut self, begin: usize, watch: &Watch) -> PyResult<Happens> {
        let since_ns = self
            .turns
            .settled_ns(watch)
            .saturating_sub(watch.horizon_ns);
        let longest_ns = self.noted.longest_ns(since_ns);
        let rules = guarded(|| self.turns.asked(begin, longest_ns, watch))?;
        let reason = |at: usize| {
            let reset = usize::try_from(self.turns.row(at).reset - 1).ok()?;
            Some((at, *RESETS.get(reset)?))
        };
        let resets = (self.turns.settled + begin..self.turns.len()).filter_map(reason);
        Ok(Happens {
            resets: resets.collect(),
            rules: rules.into_iter().collect(),
        })
    }
}

struct Happens {
    rules: Vec<usize>,
    resets: Vec<Reset>,
}

impl Happens {
    fn is_empty(&self) -> bool {
        self.rules.is_empty() && self.resets.is_empty()
    }
}

#[pymethods]
impl LiveTurns {
    #[new]
    fn new() -> Self {
        Self {
            is_calm: true,
            ..Self::default()
        }
    }

    /// The first traces with turns here.
    #[getter]
    fn traces(&self) -> Vec<&str> {
        self.noted.traces.iter().map(|trace| &**trace).collect()
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

    fn look(&mut self, begin: usize, watch: &LiveWatch) -> PyResult<(Vec<usize>, Vec<Reset>)> {
        let happens = self.happens(begin, &watch.watch)?;
        Ok((happens.rules, happens.resets))
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
        self.settled_at = last.map_or((0, 0), |last| {
            (watch.epoch.of(&last), watch.resets_seen.of(&last))
        });
        Ok(self.settled_at)
    }
}

fn id((trace, span, kind, call): &KeyOf<'_>) -> PyResult<i64> {
    let call = call.as_ref().map(|call| call.to_str()).transpose()?;
    Ok(id_of(trace.to_str()?, span.to_str()?, kind.to_str()?, call))
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
