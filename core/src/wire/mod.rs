//! Bytes to spans: OTLP in protobuf and in JSON, read by parsers of our own.
//!
//! The bytes may come from anybody. Everything down to the span is read piece by piece, so that a
//! bad span costs only itself, and a message that is cut off is read up to the cut.

pub mod block;
pub mod bounds;
pub mod json;
pub mod json_messages;
pub mod json_request;
pub mod json_text;
pub mod logs;
pub mod proto_messages;
pub mod proto_request;
pub mod proto_walk;
pub mod protobuf;
pub mod read;
pub mod scan;
pub mod span;
pub mod value;
