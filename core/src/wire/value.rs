//! The values of attributes, and their JSON, which the table of spans has.

use std::borrow::Cow;
use std::collections::HashMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD as STANDARD;

use crate::wire::scan::plain_end;

/// The value of an attribute. Bytes are text already: base64.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value<'a> {
    /// No value, or an empty one.
    #[default]
    None,
    /// A text.
    Text(Cow<'a, str>),
    /// True or false.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A whole number as its digits, of any length.
    Digits(Cow<'a, str>),
    /// A number; JSON has no way to write one that is not finite.
    Float(f64),
    /// A list.
    List(Vec<Value<'a>>),
    /// A map.
    Map(Map<'a>),
}

/// Attributes in their order. If two have one key, the place of the first and the last value count.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Map<'a> {
    fields: Vec<(Cow<'a, str>, Value<'a>)>,
    // Which short hashes of keys there are: most keys need not be compared.
    seen: u64,
    // The places of the keys beyond the first, where there are many.
    #[allow(
        clippy::box_collection,
        reason = "few maps have any, and all are half as large"
    )]
    places: Option<Box<HashMap<Cow<'a, str>, usize>>>,
}

// More fields are looked up by a hash, so that a million of them do not take a day.
const COMPARED_MAX: usize = 64;

// A span has some eight attributes.
const FIELDS_AT_FIRST: usize = 8;

impl<'a> Map<'a> {
    /// Add a field, or change the one with its key.
    pub fn put(&mut self, key: Cow<'a, str>, value: Value<'a>) {
        match self.place(&key) {
            Some(place) => self.fields[place].1 = value,
            None => {
                self.seen |= mark(&key);
                if self.fields.len() >= COMPARED_MAX {
                    let places = self.places.get_or_insert_default();
                    places.insert(key.clone(), self.fields.len());
                }
                if self.fields.is_empty() {
                    self.fields.reserve(FIELDS_AT_FIRST);
                }
                self.fields.push((key, value));
            }
        }
    }

    fn place(&self, key: &str) -> Option<usize> {
        if self.seen & mark(key) == 0 {
            return None;
        }
        let first = &self.fields[..self.fields.len().min(COMPARED_MAX)];
        let place = first.iter().position(|(known, _)| known == key);
        place.or_else(|| self.places.as_ref()?.get(key).copied())
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value<'a>> {
        self.place(key).map(|place| &self.fields[place].1)
    }

    /// The fields, each key once.
    pub fn fields(&self) -> &[(Cow<'a, str>, Value<'a>)] {
        &self.fields
    }
}

/// One bit of 64, by the length and the ends of a key.
fn mark(key: &str) -> u64 {
    let bytes = key.as_bytes();
    let middle = bytes.get(bytes.len() / 2).copied().unwrap_or_default();
    let last = bytes.last().copied().unwrap_or_default();
    let mixed = (bytes.len() as u64)
        .wrapping_mul(31)
        .wrapping_add(u64::from(middle))
        .wrapping_mul(31)
        .wrapping_add(u64::from(last));
    1 << (mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 58)
}

/// Write a map as JSON. Returns how many levels it has: 1 and more.
pub fn write_map(map: &Map<'_>, out: &mut Vec<u8>) -> usize {
    let mut deepest = 0;
    for (number, (key, value)) in map.fields.iter().enumerate() {
        out.push(if number == 0 { b'{' } else { b',' });
        write_text(key, out);
        out.push(b':');
        deepest = deepest.max(write_value(value, out));
    }
    out.extend_from_slice(if map.fields.is_empty() { b"{}" } else { b"}" });
    deepest + 1
}

/// Write a value as JSON. Returns how many levels of brackets it has.
///
/// Values are as deep as what has made them allows: some hundred levels.
pub fn write_value(value: &Value<'_>, out: &mut Vec<u8>) -> usize {
    match value {
        Value::None => out.extend_from_slice(b"null"),
        Value::Text(text) => write_text(text, out),
        Value::Bool(is_true) => out.extend_from_slice(if *is_true { b"true" } else { b"false" }),
        Value::Int(number) => write_int(*number, out),
        Value::Digits(digits) => out.extend_from_slice(digits.as_bytes()),
        Value::Float(number) if number.is_finite() => {
            let mut digits = zmij::Buffer::new();
            let digits = digits.format_finite(*number).bytes();
            out.extend(digits.filter(|digit| *digit != b'+'));
        }
        Value::Float(_) => out.extend_from_slice(b"null"),
        Value::List(items) => {
            let mut deepest = 0;
            for (number, item) in items.iter().enumerate() {
                out.push(if number == 0 { b'[' } else { b',' });
                deepest = deepest.max(write_value(item, out));
            }
            out.extend_from_slice(if items.is_empty() { b"[]" } else { b"]" });
            return deepest + 1;
        }
        Value::Map(map) => return write_map(map, out),
    }
    0
}

/// Write a whole number.
pub fn write_int(number: i64, out: &mut Vec<u8>) {
    let mut digits = [0; 20];
    let mut at = digits.len();
    let mut rest = number.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Write a text as a string of JSON.
pub fn write_text(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    out.reserve(text.len() + 2);
    out.push(b'"');
    let bytes = text.as_bytes();
    let mut from = 0;
    loop {
        let at = plain_end(bytes, from);
        out.extend_from_slice(&bytes[from..at]);
        let Some(byte) = bytes.get(at) else { break };
        from = at + 1;
        let short = match byte {
            b'"' => b'"',
            b'\\' => b'\\',
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0c => b'f',
            b'\r' => b'r',
            _ => b'u',
        };
        out.extend_from_slice(&[b'\\', short]);
        if short == b'u' {
            let low = usize::from(byte & 15);
            out.extend_from_slice(&[b'0', b'0', b'0' + (byte >> 4), HEX[low]]);
        }
    }
    out.push(b'"');
}

/// Bytes as base64.
pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

/// The bytes of a text of base64; `None` if it is none.
pub fn bytes_of(text: &str) -> Option<Vec<u8>> {
    STANDARD.decode(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(value: &Value<'_>) -> String {
        let mut out = Vec::new();
        write_value(value, &mut out);
        String::from_utf8(out).unwrap_or_default()
    }

    #[test]
    fn values_are_json() {
        let text = Value::Text("a\"\\\n\u{1f}\u{7f}é".into());
        assert_eq!(json(&text), "\"a\\\"\\\\\\n\\u001f\u{7f}é\"");
        let numbers = [0, -1, i64::MAX, i64::MIN].map(|number| json(&Value::Int(number)));
        assert_eq!(numbers[..2], ["0", "-1"]);
        assert_eq!(numbers[2..], [i64::MAX.to_string(), i64::MIN.to_string()]);
        let floats = [1.0, 1e16, 1e-5, 1e-6, -0.0, f64::NAN, 1.5e300];
        let written = floats.map(|number| json(&Value::Float(number)));
        assert_eq!(
            written,
            ["1.0", "1e16", "0.00001", "1e-6", "-0.0", "null", "1.5e300"]
        );
    }

    #[test]
    fn levels_are_counted() {
        let inner = Value::List(vec![Value::List(vec![]), Value::None]);
        let mut map = Map::default();
        map.put("a".into(), inner);
        let mut out = Vec::new();
        assert_eq!(write_map(&map, &mut out), 3);
        assert_eq!(out, b"{\"a\":[[],null]}");
    }

    #[test]
    fn the_last_value_counts() {
        let mut map = Map::default();
        for number in 0..1_000_i64 {
            map.put(format!("key {}", number % 500).into(), Value::Int(number));
        }
        let fields = map.fields().len();
        assert_eq!(fields, 500);
        for key in [0, 63, 64, 65, 499] {
            let value = map.get(&format!("key {key}"));
            assert_eq!(value, Some(&Value::Int(key + 500)));
        }
    }

    #[test]
    fn bytes_are_base64() {
        let texts = [&b""[..], b"\0", b"\0\xff", b"abc", b"abcd"].map(base64);
        assert_eq!(texts, ["", "AA==", "AP8=", "YWJj", "YWJjZA=="]);
        for bytes in [&b""[..], b"\0", b"\0\xff", b"abc", b"abcd"] {
            assert_eq!(bytes_of(&base64(bytes)).as_deref(), Some(bytes));
        }
        for text in ["A", "AA", "A===", "AA=A", "run tests..."] {
            assert_eq!(bytes_of(text), None, "{text}");
        }
    }
}
