//! Bytes to spans: OTLP in protobuf, read by a parser of our own.
//!
//! The bytes may come from anybody. Everything down to the span is read piece by piece, so that a
//! bad span costs only itself, and a message that is cut off is read up to the cut.

pub mod block;
pub mod bounds;
pub mod logs;
pub mod proto_messages;
pub mod proto_request;
pub mod protobuf;
pub mod read;
pub mod span;
pub mod value;
