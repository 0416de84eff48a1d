//! The boundary: what Python sees of the core. `src/looptrace/_core.pyi` has the types.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

mod arrow;
mod came;
mod count;
mod fields;
mod needs;
mod policy;
mod task;
mod texts;
mod trace;
mod turns;
mod wire;

/// Run a part of the core; a fault of it costs the caller an error and not the process.
pub fn guarded<T>(work: impl FnOnce() -> T) -> PyResult<T> {
    catch_unwind(AssertUnwindSafe(work)).map_err(|fault| {
        let said = fault
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| fault.downcast_ref::<&str>().copied())
            .unwrap_or("without a word");
        PyRuntimeError::new_err(format!("the core failed: {said}"))
    })
}

#[pymodule]
mod _core {
    #[pymodule_export]
    use super::arrow::Table;
    #[pymodule_export]
    use super::policy::Policy;
    #[pymodule_export]
    use super::texts::{
        changes, failed_tests, figures, is_redacted, kind_of_failure, makes, matches_nothing,
        pattern_fault, pauses, reads, says_failed, says_nothing, searches, type_of_failure,
        watches,
    };

    #[pymodule_export]
    use super::count::{PyCounting, chant_of, code_of};
    #[pymodule_export]
    use super::needs::PyNeeds;
    #[pymodule_export]
    use super::task::{LiveTurns, LiveWatch};

    #[pymodule_export]
    use super::wire::{
        LogRecords, OverBoundsError, Spans, UndecodableError, begins_json, begins_protobuf,
        decode_json, decode_json_document, decode_json_logs, decode_protobuf, decode_protobuf_logs,
        protobuf_pieces, with_whole_escapes,
    };

    #[pymodule_export]
    use super::fields::{FieldReader, arguments_of, call_in_event, result_of, spoken};
    #[pymodule_export]
    use super::trace::{Buffer, round_words, turns_of};

    use pyo3::prelude::*;
    use pyo3::types::{PyDict, PyTuple};

    use crate::same::{kinds, masks, signature};
    use crate::trace::span::ANCESTORS_MAX;
    use crate::wire::json_request;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let patterns = PyDict::new(module.py());
        patterns.set_item("searched", signature::SEARCHED)?;
        module.add("ANCESTORS_MAX", ANCESTORS_MAX)?;
        module.add("CUT_OFF", json_request::CUT_OFF)?;
        module.add("PATTERNS", patterns)?;
        module.add("EXTERNAL", PyTuple::new(module.py(), kinds::EXTERNAL)?)?;
        let keys: Vec<&str> = masks::volatile_keys().collect();
        module.add("VOLATILE_RESULT_KEYS", PyTuple::new(module.py(), keys)?)?;
        super::count::add_names(module)?;
        module.add("SOURCE", crate::SOURCE)
    }
}
