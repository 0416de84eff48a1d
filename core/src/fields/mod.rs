//! A span in its fields, in any dialect, and the one reader of messages.

pub mod envelopes;
pub mod events;
pub mod failures;
pub mod figures;
pub mod flat;
pub mod glob;
pub mod histories;
pub mod json;
pub mod literal;
mod literal_texts;
pub mod message;
pub mod messages;
pub mod names;
pub mod numbers;
pub mod parts;
pub mod payloads;
pub mod plain;
pub mod reading;
pub mod results;
pub mod rows;
pub mod said;
pub mod seen;
pub mod span;
pub mod span_fields;
mod span_messages;
pub mod table;
pub mod table_rows;
