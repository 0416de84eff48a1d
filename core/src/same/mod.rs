//! What is the same: when two calls, outcomes, outputs or responses count as equal.

mod answers;
mod block_pages;
pub mod errors;
pub mod failed_tests;
pub mod fingerprint;
mod found;
pub mod frames;
pub mod gist;
pub mod json;
pub mod kinds;
pub mod made;
pub mod masks;
pub mod notations;
pub mod pages;
pub mod places;
pub mod policy;
pub mod quotes;
pub mod request;
pub mod rounds;
pub mod runners;
pub mod signature;
pub mod text;
pub mod tools;
pub mod traces;
pub mod turn;
pub mod waits;
mod written;
