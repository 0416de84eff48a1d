//! One span of any encoding, and what makes it a row of the table.

use std::borrow::Cow;

use crate::wire::value::{Map, Value, bytes_of, write_map, write_text};

/// The attribute of a resource that names the service.
pub const SERVICE_NAME: &str = "service.name";

/// The attribute of a resource that names the version of the service. Its spans have it, too.
const SERVICE_VERSION: &str = "service.version";
/// Marks a span that had not ended when it was written.
pub const OPEN: &str = "looptrace.open";
/// Marks a span that was made of a record of an agent's log.
pub const RECORD: &str = "looptrace.record";
/// A longer text is no version, and is cut.
const VERSION_CHARS_MAX: usize = 100;

/// Of the id of a trace.
pub const TRACE_ID_DIGITS: usize = 32;
/// Of the id of a span.
pub const SPAN_ID_DIGITS: usize = 16;

/// The status of a row that is the event of a log record, as one server forwards it to another.
pub const LOGGED: i8 = -1;
const STATUSES: [i64; 3] = [1, 2, LOGGED as i64];

/// A span as it was sent: ids in hex, times in nanoseconds since 1970, 0 where it has none.
#[derive(Debug, Default)]
pub struct Span<'a> {
    /// The trace.
    pub trace_id: Cow<'a, str>,
    /// The span within its trace.
    pub span_id: Cow<'a, str>,
    /// The span that started it; empty for a root.
    pub parent_span_id: Cow<'a, str>,
    /// The name of the operation.
    pub name: Cow<'a, str>,
    /// The start. What is no time of the table is told as such.
    pub start_ns: i128,
    /// The end.
    pub end_ns: i128,
    /// The code of the status.
    pub status: i64,
    /// The message of the status.
    pub status_message: Cow<'a, str>,
    /// Its attributes.
    pub attributes: Map<'a>,
    /// How many attributes it has lost to a limit.
    pub attributes_lost: i64,
    /// Its events.
    pub events: Vec<Event<'a>>,
    /// Its links.
    pub links: Vec<Link<'a>>,
}

/// Something that happened at one moment of a span.
#[derive(Debug, Default)]
pub struct Event<'a> {
    /// The name.
    pub name: Cow<'a, str>,
    /// Nanoseconds since 1970, as digits, because they may be of any length.
    pub time_ns: Cow<'a, str>,
    /// Its attributes.
    pub attributes: Map<'a>,
}

/// Another span that a span belongs with: ids in hex.
#[derive(Debug, Default)]
pub struct Link<'a> {
    /// Its trace.
    pub trace_id: Cow<'a, str>,
    /// The span within its trace.
    pub span_id: Cow<'a, str>,
}

/// An id of so many hex digits in lower case, also from base64, in which protobuf's own JSON has it.
#[must_use]
pub fn hex_id(written: &str, digits: usize) -> String {
    // A hex id would be base64, too, without its end.
    match written.ends_with('=').then(|| bytes_of(written)).flatten() {
        Some(bytes) if bytes.len() * 2 == digits => hex(&bytes),
        _ => written.to_lowercase(),
    }
}

/// The ids and times of a span, checked.
#[derive(Debug)]
pub struct Row {
    /// 32 lower-case hex digits
    pub trace_id: String,
    /// 16 lower-case hex digits
    pub span_id: String,
    /// None for a root
    pub parent_span_id: Option<String>,
    /// The start, or the end where there is no start.
    pub start_ns: i64,
    /// Never before the start.
    pub end_ns: i64,
    /// 0 for what no status has.
    pub status: i8,
}

impl Span<'_> {
    /// The checked ids and times, or why the span is none.
    pub fn row(&self) -> Result<Row, &'static str> {
        let trace_id = hex_id(&self.trace_id, TRACE_ID_DIGITS);
        let span_id = hex_id(&self.span_id, SPAN_ID_DIGITS);
        if !is_id(&trace_id, TRACE_ID_DIGITS) {
            return Err("traceId must be 32 hex digits, not all of them 0");
        }
        if !is_id(&span_id, SPAN_ID_DIGITS) {
            return Err("spanId must be 16 hex digits, not all of them 0");
        }
        let start_ns = if self.start_ns == 0 {
            self.end_ns
        } else {
            self.start_ns
        };
        let end_ns = start_ns.max(self.end_ns);
        let (Ok(start_ns @ 0..), Ok(end_ns)) = (i64::try_from(start_ns), i64::try_from(end_ns))
        else {
            return Err("its times must be nanoseconds since 1970, before 2262");
        };
        let parent_span_id = hex_id(&self.parent_span_id, SPAN_ID_DIGITS);
        let is_root = parent_span_id.bytes().all(|digit| digit == b'0');
        Ok(Row {
            trace_id,
            span_id,
            parent_span_id: (!is_root).then_some(parent_span_id),
            start_ns,
            end_ns,
            status: if STATUSES.contains(&self.status) {
                self.status as i8
            } else {
                0
            },
        })
    }

    /// Mark a span without an end as open.
    #[must_use]
    pub fn marked(mut self) -> Self {
        if self.end_ns == 0 && self.start_ns != 0 {
            self.attributes.put(OPEN.into(), Value::Bool(true));
        }
        self
    }

    /// Write the attributes as JSON, first the version of the service unless the span has one;
    /// returns its levels.
    pub fn write_attributes(&self, version: Option<&str>, out: &mut Vec<u8>) -> usize {
        let from = out.len();
        let levels = write_map(&self.attributes, out);
        let Some(version) = version.filter(|_| self.attributes.get(SERVICE_VERSION).is_none())
        else {
            return levels;
        };
        let is_alone = &out[from..] == b"{}";
        let mut begin = vec![b'{'];
        write_text(SERVICE_VERSION, &mut begin);
        begin.push(b':');
        let version: String = version.chars().take(VERSION_CHARS_MAX).collect();
        write_text(&version, &mut begin);
        begin.extend((!is_alone).then_some(b','));
        out.splice(from..=from, begin);
        levels.max(1)
    }

    /// Write the events as JSON; returns its levels.
    pub fn write_events(&self, out: &mut Vec<u8>) -> usize {
        let mut deepest = 0;
        for (number, event) in self.events.iter().enumerate() {
            out.push(if number == 0 { b'[' } else { b',' });
            out.extend_from_slice(b"{\"name\":");
            write_text(&event.name, out);
            out.extend_from_slice(b",\"time_ns\":");
            out.extend_from_slice(event.time_ns.as_bytes());
            out.extend_from_slice(b",\"attributes\":");
            deepest = deepest.max(write_map(&event.attributes, out) + 1);
            out.push(b'}');
        }
        out.extend_from_slice(if self.events.is_empty() { b"[]" } else { b"]" });
        deepest + 1
    }

    /// Write the links as JSON.
    pub fn write_links(&self, out: &mut Vec<u8>) {
        for (number, link) in self.links.iter().enumerate() {
            out.push(if number == 0 { b'[' } else { b',' });
            out.extend_from_slice(b"{\"trace_id\":");
            write_text(&hex_id(&link.trace_id, TRACE_ID_DIGITS), out);
            out.extend_from_slice(b",\"span_id\":");
            write_text(&hex_id(&link.span_id, SPAN_ID_DIGITS), out);
            out.push(b'}');
        }
        out.extend_from_slice(if self.links.is_empty() { b"[]" } else { b"]" });
    }
}

/// The service of a resource.
#[derive(Debug, Default)]
pub struct Service {
    /// Its name.
    pub name: Option<String>,
    /// Its version.
    pub version: Option<String>,
}

impl Service {
    /// The service that the attributes of a resource name.
    pub fn of(resource: &Map<'_>) -> Self {
        let text = |key| match resource.get(key) {
            Some(Value::Text(text)) => Some(text.clone().into_owned()),
            _ => None,
        };
        Self {
            name: text(SERVICE_NAME),
            version: text(SERVICE_VERSION),
        }
    }

    /// This service, with what only another part of its resource names.
    pub fn or(self, other: Self) -> Self {
        Self {
            name: self.name.or(other.name),
            version: self.version.or(other.version),
        }
    }
}

/// Bytes as hex digits.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

fn is_id(id: &str, digits: usize) -> bool {
    let is_hex = |digit: u8| matches!(digit, b'0'..=b'9' | b'a'..=b'f');
    id.len() == digits && id.bytes().all(is_hex) && id.bytes().any(|digit| digit != b'0')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span() -> Span<'static> {
        Span {
            trace_id: "0AF7651916CD43DD8448EB211C80319C".into(),
            span_id: "b7ad6b7169203331".into(),
            start_ns: 7,
            ..Span::default()
        }
    }

    #[test]
    fn ids_may_be_base64() {
        assert_eq!(
            hex_id("CvdlGRbNQ92ESOshHIAxnA==", TRACE_ID_DIGITS),
            "0af7651916cd43dd8448eb211c80319c"
        );
        assert_eq!(hex_id("t61rcWkgMzE=", SPAN_ID_DIGITS), "b7ad6b7169203331");
        assert_eq!(hex_id("AAAAAAAAAAA=", SPAN_ID_DIGITS), "0000000000000000");
        assert_eq!(
            hex_id("B7AD6B7169203331", SPAN_ID_DIGITS),
            "b7ad6b7169203331"
        );
        assert_eq!(hex_id("t61r-WkgMzE=", SPAN_ID_DIGITS), "t61r-wkgmze=");
    }

    #[test]
    fn times_are_filled_in() {
        let row = span().row();
        assert!(matches!(
            row,
            Ok(Row {
                start_ns: 7,
                end_ns: 7,
                parent_span_id: None,
                ..
            })
        ));
        let late = Span {
            end_ns: i128::from(i64::MAX) + 1,
            ..span()
        };
        assert!(late.row().is_err());
        let early = Span {
            start_ns: -1,
            ..span()
        };
        assert!(early.row().is_err());
    }

    #[test]
    fn ids_are_lower_case_hex() {
        let row = span().row().map(|row| row.trace_id);
        assert_eq!(row, Ok("0af7651916cd43dd8448eb211c80319c".to_owned()));
        for bad in [
            "",
            "0000000000000000",
            "b7ad6b716920333g",
            "b7ad6b71692033310",
        ] {
            assert!(
                Span {
                    span_id: bad.into(),
                    ..span()
                }
                .row()
                .is_err()
            );
        }
    }

    #[test]
    fn statuses_of_no_meaning_are_none() {
        let codes = [-2, -1, 0, 1, 2, 3, i64::MIN];
        let kept = codes.map(|status| Span { status, ..span() }.row().map(|row| row.status));
        assert_eq!(kept, [0, -1, 0, 1, 2, 0, 0].map(Ok));
    }
}
