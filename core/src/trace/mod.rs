//! Fields to turns: what the spans of a trace say together, and what the traces of a task do.
//!
//! A trace is made anew from its spans whenever it gets one, or the part of it that this changes, by
//! the same functions. Files are "make all traces once".

pub mod agents;
pub mod bounded;
pub mod buffer;
pub mod call_ids;
pub mod call_spans;
pub mod calls;
pub mod draft;
pub mod every;
pub mod failure;
pub mod frames;
pub mod history;
pub mod known;
#[cfg(test)]
mod live_scenes;
pub mod live_trace;
pub mod records;
pub mod rounds;
mod running;
#[cfg(test)]
mod scenes;
pub mod sessions;
pub mod shared_names;
pub mod span;
pub mod steps;
pub mod tail;
pub mod tasks;
pub mod ties;
pub mod tree;
pub mod turn;
pub mod turns;
pub mod twins;
pub mod understanding;
pub mod view;
mod words;
