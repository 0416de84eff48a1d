//! One task as its turns arrive: those that may still move, and the settled ones that rules look
//! back on.

pub mod block;
mod lookback;
pub mod needs;
pub mod noted;
pub mod numbers;
mod rest;
#[cfg(test)]
mod tests;
pub mod turns;
pub mod values;
pub mod waiting;
