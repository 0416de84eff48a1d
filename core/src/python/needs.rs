//! The boundary of needs: what rules need of a turn, compiled once for files and for live tasks.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::count::row::KINDS;
use crate::task::needs::{Asking, Condition, Lane, Needs};
use crate::task::numbers::Column;

type LaneOf = (
    Vec<String>,
    Option<String>,
    String,
    Vec<String>,
    String,
    usize,
);
type ConditionOf = (String, Vec<String>, i64);
type BoundOf = (usize, usize, Vec<Vec<ConditionOf>>, i64);

/// What rules need of a turn to fire at it, and the lanes that they look back on.
#[pyclass(frozen, module = "looptrace._core", name = "Needs")]
pub struct PyNeeds {
    pub(crate) needs: Needs,
}

/// A column by its name.
pub(crate) fn column(name: &str) -> PyResult<Column> {
    Column::named(name).ok_or_else(|| PyValueError::new_err(format!("no column: {name}")))
}

fn columns(names: &[String]) -> PyResult<Vec<Column>> {
    names.iter().map(|name| column(name)).collect()
}

/// Kinds of turn as bits of their places.
pub(crate) fn bits(kinds: &[String]) -> u8 {
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
impl PyNeeds {
    #[new]
    fn new(lanes: Vec<LaneOf>, bounds: Vec<BoundOf>) -> PyResult<Self> {
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
        let bound = |(rule, lane, ways, least_ns): BoundOf| {
            let mut way = |way: &Vec<ConditionOf>| {
                way.iter().map(|each| condition(each, &mut again)).collect()
            };
            let ways = ways.iter().map(&mut way).collect::<PyResult<_>>()?;
            PyResult::Ok(Asking {
                rule,
                lane,
                ways,
                least_ns,
            })
        };
        let lanes = lanes.into_iter().map(lane).collect::<PyResult<Vec<_>>>()?;
        let bounds = bounds
            .into_iter()
            .map(bound)
            .collect::<PyResult<Vec<_>>>()?;
        if bounds.iter().any(|bound| bound.lane >= lanes.len()) {
            return Err(PyValueError::new_err("no such lane"));
        }
        Ok(Self {
            needs: Needs {
                lanes,
                bounds,
                again,
                kind: column("kind")?,
            },
        })
    }
}
