//! The engine of looptrace. It knows no clock, opens no file, and keeps no thread.

mod patterns;
#[cfg(feature = "extension-module")]
mod python;
pub mod same;
mod tables;

/// A hash of the code and the tables, for the reuse of what is stored.
pub const SOURCE: &str = env!("CORE_SOURCE");
