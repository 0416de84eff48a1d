//! Values as Python sees them: what is true, `str`, `repr`, and one text for equal values.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

use regex::Regex;

use crate::patterns::pattern;
use crate::same::text::strip;
use crate::same::text::{digest, head, is_longer};
use crate::wire::value::{Map, Value, write_text};

// What `str.isprintable` refuses.
static UNPRINTABLE: LazyLock<Regex> = LazyLock::new(|| pattern(r"[\p{C}\p{Z}&&[^ ]]"));
// Python writes floats with an exponent from these powers of ten on.
const EXPONENT_MIN: i32 = -4;
const EXPONENT_MAX: i32 = 16;
/// Names are shown, listed and compared everywhere; a longer one is cut, and ends with a hash.
pub const NAME_CHARS_MAX: usize = 256;
const DIGEST_CHARS: usize = 16;

/// A name of at most `NAME_CHARS_MAX` characters; other long names have other ones.
#[must_use]
pub fn bounded_name(name: &str) -> String {
    if is_longer(name, NAME_CHARS_MAX) {
        let kept = head(name, NAME_CHARS_MAX - DIGEST_CHARS - 1);
        format!("{kept}~{}", digest(name))
    } else {
        name.to_owned()
    }
}

/// Whether a value is neither nothing, zero nor empty.
#[must_use]
pub fn is_true(value: &Value<'_>) -> bool {
    match value {
        Value::None => false,
        Value::Text(text) => !text.is_empty(),
        Value::Bool(is_true) => *is_true,
        Value::Int(number) => *number != 0,
        Value::Digits(_) => true,
        Value::Float(number) => *number != 0.0,
        Value::List(items) => !items.is_empty(),
        Value::Map(map) => !map.fields().is_empty(),
    }
}

/// The value of a key if it is true.
#[must_use]
pub fn true_in<'m, 'a>(map: &'m Map<'a>, key: &str) -> Option<&'m Value<'a>> {
    map.get(key).filter(|value| is_true(value))
}

/// The value of a key if it is not nothing.
#[must_use]
pub fn some_in<'m, 'a>(map: &'m Map<'a>, key: &str) -> Option<&'m Value<'a>> {
    map.get(key).filter(|value| **value != Value::None)
}

/// Whether an object has any of these keys.
#[must_use]
pub fn has_any(map: &Map<'_>, keys: &[&str]) -> bool {
    map.fields().iter().any(|(key, _)| keys.contains(&&**key))
}

/// Whether an object has no keys but these.
#[must_use]
pub fn has_only(map: &Map<'_>, keys: &[&str]) -> bool {
    map.fields().iter().all(|(key, _)| keys.contains(&&**key))
}

/// A whole number, with true as one.
#[must_use]
pub fn whole(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Bool(is_true) => Some(i64::from(*is_true)),
        Value::Int(number) => Some(*number),
        _ => None,
    }
}

/// A number, with true as one.
#[must_use]
pub fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Float(number) => Some(*number),
        Value::Digits(digits) => digits.parse().ok(),
        #[allow(clippy::cast_precision_loss)]
        other => whole(other).map(|number| number as f64),
    }
}

/// A value as `str` writes it.
#[must_use]
pub fn as_text<'v>(value: &'v Value<'_>) -> Cow<'v, str> {
    match value {
        Value::Text(text) => Cow::Borrowed(text),
        other => {
            let mut text = String::new();
            write_repr(other, &mut text);
            Cow::Owned(text)
        }
    }
}

/// Add a value as `repr` writes it. Values are as deep as what has made them allows.
pub fn write_repr(value: &Value<'_>, text: &mut String) {
    match value {
        Value::None => text.push_str("None"),
        Value::Text(said) => quote(said, text),
        Value::Bool(is_true) => text.push_str(if *is_true { "True" } else { "False" }),
        Value::Int(number) => text.push_str(&number.to_string()),
        Value::Digits(digits) => text.push_str(digits),
        Value::Float(number) => text.push_str(&float(*number)),
        Value::List(items) => {
            text.push('[');
            write_all(items, text);
            text.push(']');
        }
        Value::Map(map) => {
            text.push('{');
            for (place, (key, value)) in map.fields().iter().enumerate() {
                text.push_str(if place == 0 { "" } else { ", " });
                quote(key, text);
                text.push_str(": ");
                write_repr(value, text);
            }
            text.push('}');
        }
    }
}

/// Add values as `repr` writes the items of a list.
pub fn write_all(items: &[Value<'_>], text: &mut String) {
    for (place, item) in items.iter().enumerate() {
        text.push_str(if place == 0 { "" } else { ", " });
        write_repr(item, text);
    }
}

fn quote(said: &str, text: &mut String) {
    let mark = if said.contains('\'') && !said.contains('"') {
        '"'
    } else {
        '\''
    };
    let is_plain = said.is_ascii() || !UNPRINTABLE.is_match(said);
    let mut buffer = [0; 4];
    text.push(mark);
    for c in said.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c == mark => text.extend(['\\', c]),
            ' '..='~' => text.push(c),
            c if !c.is_ascii()
                && (is_plain || !UNPRINTABLE.is_match(c.encode_utf8(&mut buffer))) =>
            {
                text.push(c);
            }
            c => {
                let code = u32::from(c);
                let _ = match code {
                    0..=0xff => write!(text, "\\x{code:02x}"),
                    0x100..=0xffff => write!(text, "\\u{code:04x}"),
                    _ => write!(text, "\\U{code:08x}"),
                };
            }
        }
    }
    text.push(mark);
}

/// A float as `repr` writes it: the fewest digits that give the same float.
#[must_use]
pub fn float(float: f64) -> String {
    if !float.is_finite() {
        let name = if float.is_nan() { "nan" } else { "inf" };
        let sign = if float < 0.0 { "-" } else { "" };
        return format!("{sign}{name}");
    }
    let scientific = format!("{float:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let power: i32 = exponent.parse().unwrap_or(0);
    if float == 0.0 || (EXPONENT_MIN..EXPONENT_MAX).contains(&power) {
        let point = if float.fract() == 0.0 { ".0" } else { "" };
        return format!("{float}{point}");
    }
    let sign = if power < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", power.abs())
}

/// The same text for equal values: sorted keys, no spacing, 1.0 written as 1.
///
/// A string only loses its outer white space.
#[must_use]
pub fn canonical(value: &Value<'_>) -> String {
    match value {
        Value::Text(text) => strip(text).to_owned(),
        other => canonical_json(other),
    }
}

/// The same as `canonical`, with a string as JSON.
#[must_use]
pub fn canonical_json(value: &Value<'_>) -> String {
    let mut out = Vec::new();
    write_canonical(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// An object of these items, in canonical form.
#[must_use]
pub fn canonical_object(map: &Map<'_>) -> String {
    let mut out = Vec::new();
    write_object(map, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

fn write_canonical(value: &Value<'_>, out: &mut Vec<u8>) {
    match value {
        Value::None => out.extend_from_slice(b"null"),
        Value::Text(text) => write_text(text, out),
        Value::Bool(is_true) => out.extend_from_slice(if *is_true { b"true" } else { b"false" }),
        Value::Int(number) => out.extend_from_slice(number.to_string().as_bytes()),
        Value::Digits(digits) => out.extend_from_slice(digits.as_bytes()),
        Value::Float(number) => out.extend_from_slice(written(*number).as_bytes()),
        Value::List(items) => {
            out.push(b'[');
            for (place, item) in items.iter().enumerate() {
                if place > 0 {
                    out.push(b',');
                }
                write_canonical(item, out);
            }
            out.push(b']');
        }
        Value::Map(map) => write_object(map, out),
    }
}

fn write_object(map: &Map<'_>, out: &mut Vec<u8>) {
    let mut fields: Vec<_> = map.fields().iter().collect();
    fields.sort_unstable_by(|(a, _), (b, _)| a.cmp(b));
    out.push(b'{');
    for (place, (key, value)) in fields.into_iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        write_text(key, out);
        out.push(b':');
        write_canonical(value, out);
    }
    out.push(b'}');
}

fn written(number: f64) -> String {
    if number.is_nan() {
        "NaN".to_owned()
    } else if number.is_infinite() {
        let sign = if number < 0.0 { "-" } else { "" };
        format!("{sign}Infinity")
    } else if number == 0.0 {
        "0".to_owned()
    } else if number.fract() == 0.0 {
        format!("{number:.0}")
    } else {
        float(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::json::parse;

    #[test]
    fn equal_values_have_one_text() {
        let given = r#"{ "b": "\u00e9\n\u0001\/", "a": [1.0, 0.1, 1e-7, 15e-9, 1e22, -0.0] }"#;
        let wanted = r#"{"a":[1,0.1,1e-07,1.5e-08,10000000000000000000000,0],"b":"é\n\u0001/"}"#;
        assert_eq!(
            parse(given).map(|value| canonical(&value)).as_deref(),
            Some(wanted)
        );
        assert_eq!(canonical(&Value::Text("\u{a0} x\n".into())), "x");
    }

    #[test]
    fn texts_are_as_python_writes_them() {
        let given =
            r#"[null, true, 1.0, 1e16, 0.00001, "it's", "\"'", "é\u00ad\n\u0000", {"a": []}]"#;
        let wanted = r#"[None, True, 1.0, 1e+16, 1e-05, "it's", '"\'', 'é\xad\n\x00', {'a': []}]"#;
        let text = parse(given).map(|value| as_text(&value).into_owned());
        assert_eq!(text.as_deref(), Some(wanted));
    }

    #[test]
    fn long_names_are_cut() {
        let name = "é".repeat(300);
        assert_eq!(bounded_name(&name).chars().count(), NAME_CHARS_MAX);
        assert_eq!(bounded_name("é"), "é");
    }
}
