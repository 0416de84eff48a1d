//! Functions of one text, or of a call.

use pyo3::prelude::*;

use super::guarded;
use crate::same::tools::purpose;
use crate::same::{errors, kinds, made, runners};

/// The figures of a test run in a text: failed, total, percent covered.
#[pyfunction]
pub(super) fn figures(text: &str) -> PyResult<(Option<i64>, Option<i64>, Option<f64>)> {
    let read = guarded(|| runners::figures(text))?;
    Ok((read.failed, read.total, read.coverage))
}

/// Why a pattern of a mask is refused; `None` for a good one.
#[pyfunction]
pub(super) fn pattern_fault(pattern: &str) -> Option<String> {
    regex::Regex::new(pattern)
        .err()
        .map(|error| error.to_string())
}

/// Whether a good pattern matches an empty text.
#[pyfunction]
pub(super) fn matches_nothing(pattern: &str) -> bool {
    regex::Regex::new(pattern).is_ok_and(|compiled| compiled.is_match(""))
}

/// Functions of one text, or of a call, that Python sees as they are.
macro_rules! exported {
    ($($name:ident($($argument:ident: $kind:ty),+) -> $result:ty = $path:path;)+) => {
        $(
            #[pyfunction]
            #[pyo3(signature = ($($argument),+))]
            pub(super) fn $name($($argument: $kind),+) -> PyResult<$result> {
                guarded(|| $path($($argument),+))
            }
        )+
    };
}

/// What the name of a tool says of its purpose.
macro_rules! purposes {
    ($($name:ident)+) => {
        $(
            #[pyfunction]
            pub(super) fn $name(tool: &str) -> PyResult<bool> {
                guarded(|| purpose(Some(tool)).$name)
            }
        )+
    };
}

purposes! { changes searches reads pauses watches }

exported! {
    makes(tool: Option<&str>, arguments: Option<&str>) -> bool = made::makes;
    is_redacted(text: &str) -> bool = errors::is_redacted;
    says_nothing(error: &str) -> bool = errors::says_nothing;
    says_failed(result: &str, tool: Option<&str>, arguments: Option<&str>) -> bool =
        kinds::says_failed;
    kind_of_failure(text: &str) -> Option<&'static str> = kinds::kind_in;
    failed_tests(text: &str) -> (Option<String>, Option<String>)
        = crate::same::failed_tests::failed_tests;
}

/// The first type of error that a text names.
#[pyfunction]
pub(super) fn type_of_failure(text: &str) -> PyResult<Option<&str>> {
    guarded(|| kinds::type_in(text))
}
