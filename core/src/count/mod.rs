//! What is counted: the codes and marks of each turn, and the counts of its task up to it.
//!
//! One state per task takes its turns in order. Files give it all turns at once, and live spans one
//! after the other, so a count is the same wherever a turn came from.

pub mod agent;
pub mod codes;
pub mod drafts;
pub mod epoch;
pub mod how;
pub mod marks;
mod pairs;
pub mod reads;
pub mod row;
pub mod spending;
pub mod steps;
pub mod task;
#[cfg(test)]
pub(crate) mod tests;
pub mod turn;
pub mod undone;
pub mod wishes;
