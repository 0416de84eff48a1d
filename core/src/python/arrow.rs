//! Tables of Arrow: columns that come from Python are read in place, and those that are made leave
//! without an object a value.

use std::sync::Arc;

use arrow_array::builder::StringViewBuilder;
use arrow_array::cast::AsArray;
use arrow_array::ffi_stream::{FFI_ArrowArrayStream, RecordBatchStreamReader};
use arrow_array::types::{Float64Type, Int8Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int8Array, Int32Array, Int64Array,
    LargeStringArray, RecordBatch, RecordBatchIterator, StringArray, StringViewArray, UInt32Array,
};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

const STREAM: &std::ffi::CStr = c"arrow_array_stream";

/// Columns of one length, in blocks after each other.
#[pyclass(frozen, subclass, module = "looptrace._core")]
#[derive(Clone)]
pub struct Table {
    pub blocks: Vec<RecordBatch>,
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.blocks.iter().map(RecordBatch::num_rows).sum()
    }

    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let schema = self.blocks.first().map(RecordBatch::schema);
        let schema = schema.ok_or_else(|| PyValueError::new_err("there are no columns"))?;
        let blocks = self.blocks.clone().into_iter().map(Ok);
        let blocks = RecordBatchIterator::new(blocks, schema);
        let stream = FFI_ArrowArrayStream::new(Box::new(blocks));
        PyCapsule::new_with_value(py, stream, STREAM)
    }
}

impl Table {
    /// A table of columns that were made.
    pub fn of(columns: Vec<(&str, ArrayRef)>) -> PyResult<Self> {
        let columns = columns
            .into_iter()
            .map(|(name, column)| (name, column, true));
        let block = RecordBatch::try_from_iter_with_nullable(columns).map_err(failed)?;
        Ok(Self {
            blocks: vec![block],
        })
    }

    /// A table of anything that gives a stream of Arrow, such as a frame of Polars; no copy.
    pub fn read(table: &Bound<'_, PyAny>) -> PyResult<Self> {
        let capsule = table.call_method0("__arrow_c_stream__")?;
        let stream = taken(capsule.cast()?)?;
        let reader = RecordBatchStreamReader::try_new(stream).map_err(failed)?;
        let blocks = reader.collect::<Result<_, _>>().map_err(failed)?;
        Ok(Self { blocks })
    }
}

/// Take the stream out of its capsule, which is left empty.
#[expect(
    unsafe_code,
    reason = "a capsule holds a pointer, as Arrow's interface has it"
)]
fn taken(capsule: &Bound<'_, PyCapsule>) -> PyResult<FFI_ArrowArrayStream> {
    let stream = capsule.pointer_checked(Some(STREAM))?;
    // SAFETY: a capsule of this name holds a stream that nobody has taken, or one marked as taken,
    // which then is refused; the lock of the interpreter is held, so that nobody takes it beside.
    Ok(unsafe { FFI_ArrowArrayStream::from_raw(stream.cast().as_ptr()) })
}

pub fn failed(error: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(error.to_string())
}

/// A column by its name.
fn column<'a>(block: &'a RecordBatch, name: &str) -> PyResult<&'a dyn Array> {
    let column = block.column_by_name(name);
    let missing = || PyValueError::new_err(format!("there is no column {name}"));
    column.map(AsRef::as_ref).ok_or_else(missing)
}

fn wrong(column: &dyn Array, name: &str, wanted: &str) -> PyErr {
    let kind = column.data_type();
    PyTypeError::new_err(format!("the column {name} holds {kind}, not {wanted}"))
}

fn value<A: arrow_array::ArrayAccessor>(column: A, row: usize) -> Option<A::Item> {
    column.is_valid(row).then(|| column.value(row))
}

/// A column of texts.
pub enum Texts<'a> {
    /// Without any value.
    Unknown,
    Views(&'a StringViewArray),
    Short(&'a StringArray),
    Long(&'a LargeStringArray),
    /// Places of names, as those of an enumeration.
    Places(Vec<Option<usize>>, Box<Texts<'a>>),
}

impl<'a> Texts<'a> {
    pub fn of(block: &'a RecordBatch, name: &str) -> PyResult<Self> {
        let column = column(block, name)?;
        Self::from(column).ok_or_else(|| wrong(column, name, "texts"))
    }

    fn from(column: &'a dyn Array) -> Option<Self> {
        if column.null_count() == column.len() {
            return Some(Self::Unknown);
        }
        if let Some(places) = column.as_any_dictionary_opt() {
            let names = Self::from(places.values().as_ref())?;
            let rows = places.normalized_keys().into_iter().enumerate();
            let known = rows.map(|(row, place)| column.is_valid(row).then_some(place));
            return Some(Self::Places(known.collect(), Box::new(names)));
        }
        let views = column.as_string_view_opt().map(Self::Views);
        let short = || column.as_string_opt::<i32>().map(Self::Short);
        let long = || column.as_string_opt::<i64>().map(Self::Long);
        views.or_else(short).or_else(long)
    }

    pub fn at(&self, row: usize) -> Option<&'a str> {
        match self {
            Self::Unknown => None,
            Self::Views(column) => value(*column, row),
            Self::Short(column) => value(*column, row),
            Self::Long(column) => value(*column, row),
            Self::Places(places, names) => names.at(places[row]?),
        }
    }
}

/// Columns of one kind of value each.
macro_rules! values {
    ($($(#[$said:meta])* $name:ident -> $value:ty, $wanted:literal {
        $($kind:ident($array:ty) = $read:expr;)+
    })+) => {
        $(
            $(#[$said])*
            pub enum $name<'a> {
                /// Without any value.
                Unknown,
                $($kind(&'a $array),)+
            }

            impl<'a> $name<'a> {
                pub fn of(block: &'a RecordBatch, name: &str) -> PyResult<Self> {
                    let column = column(block, name)?;
                    if column.null_count() == column.len() {
                        return Ok(Self::Unknown);
                    }
                    $(if let Some(values) = $read(column) {
                        return Ok(Self::$kind(values));
                    })+
                    Err(wrong(column, name, $wanted))
                }

                pub fn at(&self, row: usize) -> Option<$value> {
                    match self {
                        Self::Unknown => None,
                        $(Self::$kind(column) => value(*column, row).map(<$value>::from),)+
                    }
                }
            }
        )+
    };
}

values! {
    /// A column of whole numbers.
    Ints -> i64, "whole numbers" {
        Whole(Int64Array) = |column: &'a dyn Array| column.as_primitive_opt::<Int64Type>();
        Counts(UInt32Array) = |column: &'a dyn Array| column.as_primitive_opt::<UInt32Type>();
        Halves(Int32Array) = |column: &'a dyn Array| column.as_primitive_opt::<Int32Type>();
        Bytes(Int8Array) = |column: &'a dyn Array| column.as_primitive_opt::<Int8Type>();
    }
    /// A column of numbers.
    Floats -> f64, "numbers" {
        Real(Float64Array) = |column: &'a dyn Array| column.as_primitive_opt::<Float64Type>();
    }
    /// A column of flags.
    Flags -> bool, "flags" {
        Bits(BooleanArray) = |column: &'a dyn Array| column.as_boolean_opt();
    }
}

/// A column of texts that are made, each with a copy of its bytes.
pub fn texts<'a>(made: impl Iterator<Item = Option<&'a str>>) -> ArrayRef {
    let mut column = StringViewBuilder::with_capacity(made.size_hint().0);
    made.for_each(|text| column.append_option(text));
    Arc::new(column.finish())
}
