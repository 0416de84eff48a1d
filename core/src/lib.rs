//! The engine of looptrace. It knows no clock, opens no file, and keeps no thread: those
//! that it starts end with the call.

pub mod count;
pub mod fields;
mod patterns;
#[cfg(feature = "extension-module")]
mod python;
pub mod same;
mod tables;
pub mod task;
pub mod threads;
pub mod trace;
pub mod wire;
mod words;

/// A hash of the code and the tables, for the reuse of what is stored.
pub const SOURCE: &str = env!("CORE_SOURCE");
