//! The messages of OTLP/JSON, from the span down.
//!
//! Unknown fields are ignored, as the protocol requires, and a null field is a missing one. Of a
//! field that comes twice the last counts.

use std::borrow::Cow;

use crate::wire::json::{Fault, Json, Token};
use crate::wire::json_text::SHOWN_CHARACTERS_MAX;
use crate::wire::span::{Event, Link, Span};
use crate::wire::value::{Map, Value};

type Read<T> = Result<T, Fault>;

const TEXT: &str = "a string";
const WHOLE: &str = "a whole number or a string";
const NUMBER: &str = "a number or a string";
const LIST: &str = "an array";
const OBJECT: &str = "an object";

const STATUS_NAMES: [&[u8]; 3] = [
    b"STATUS_CODE_UNSET",
    b"STATUS_CODE_OK",
    b"STATUS_CODE_ERROR",
];
// More digits are not read, as Python does not.
const DIGITS_MAX: usize = 4300;
const TOO_LARGE: &str = "Integer value out of range";
const OVERFLOW: &str = "Number out of range";

/// What is wrong with the numbers of a message whose form is right; the first counts.
#[derive(Debug, Default)]
pub struct Numbers {
    /// The first fault, in words.
    pub fault: Option<String>,
    /// A fault that counts where nothing else is wrong.
    pub late_fault: Option<String>,
}

impl Numbers {
    fn or<T>(&mut self, read: Result<T, String>, other: T) -> T {
        read.unwrap_or_else(|fault| {
            self.fault.get_or_insert(fault);
            other
        })
    }
}

/// A whole number, or a text that may be one.
#[derive(Debug)]
pub enum Whole<'a> {
    /// Digits, with a sign at most.
    Digits(&'a str),
    /// Any text.
    Text(String),
}

/// Read an object that may be null: `each` is called with each of its names. Returns whether it
/// was an object.
pub fn object<'a>(
    json: &mut Json<'a>,
    is_needed: bool,
    each: impl FnMut(&mut Json<'a>, &[u8]) -> Read<()>,
) -> Read<bool> {
    match json.token()? {
        Token::Object => json.object(each).map(|()| true),
        Token::Null if !is_needed => Ok(false),
        other => Err(Fault::Wrong(OBJECT, other.name(), String::new())),
    }
}

/// Read a list that may be null: `each` is called at each of its items.
pub fn list<'a>(json: &mut Json<'a>, mut each: impl FnMut(&mut Json<'a>) -> Read<()>) -> Read<()> {
    match json.token()? {
        Token::List => json.list(|json, index| each(json).map_err(|fault| fault.at(index))),
        Token::Null => Ok(()),
        other => Err(Fault::Wrong(LIST, other.name(), String::new())),
    }
}

/// Pass over the items of a list that may be null; returns their texts.
pub fn raws<'a>(
    json: &mut Json<'a>,
    raw: impl Fn(&mut Json<'a>) -> Read<&'a [u8]>,
) -> Read<Vec<&'a [u8]>> {
    let mut items = Vec::new();
    list(json, |json| {
        items.push(raw(json)?);
        Ok(())
    })?;
    Ok(items)
}

/// Read a text that may be null.
pub fn text<'a>(json: &mut Json<'a>) -> Read<Option<Cow<'a, str>>> {
    match json.token()? {
        Token::Text(text) => utf8(text).map(Some),
        Token::Null => Ok(None),
        other => Err(Fault::Wrong(TEXT, other.name(), String::new())),
    }
}

fn utf8(text: Cow<'_, [u8]>) -> Read<Cow<'_, str>> {
    match text {
        Cow::Borrowed(text) => str::from_utf8(text)
            .map(Cow::Borrowed)
            .map_err(|_| Fault::NotUtf8),
        Cow::Owned(text) => String::from_utf8(text)
            .map(Cow::Owned)
            .map_err(|_| Fault::NotUtf8),
    }
}

/// Read a whole number that may be null.
pub fn whole<'a>(json: &mut Json<'a>) -> Read<Option<Whole<'a>>> {
    match json.token()? {
        Token::Number(digits, true) if digits.len() > DIGITS_MAX => {
            Err(Fault::OutOfRange(TOO_LARGE, String::new()))
        }
        // What is no whole number is checked first: its own size may be wrong.
        Token::Number(digits, true) => Ok(Some(Whole::Digits(digits))),
        Token::Number(written, false) => {
            float(written, false)?;
            Err(Fault::Wrong(WHOLE, TEXT_OF_NUMBER, String::new()))
        }
        Token::Text(text) => Ok(Some(Whole::Text(utf8(text)?.into_owned()))),
        Token::Null => Ok(None),
        other => Err(Fault::Wrong(WHOLE, other.name(), String::new())),
    }
}

const TEXT_OF_NUMBER: &str = "a number";

fn float(written: &str, is_whole: bool) -> Read<f64> {
    let number: f64 = written.parse().unwrap_or(f64::INFINITY);
    if number.is_infinite() {
        return Err(Fault::OutOfRange(OVERFLOW, String::new()));
    }
    // A whole number has one zero only.
    Ok(if is_whole && number == 0.0 {
        0.0
    } else {
        number
    })
}

/// The digits of a whole number, 0 where there is none; errors say what was found instead.
pub fn integer(value: Option<Whole<'_>>) -> Result<String, String> {
    match value {
        None => Ok("0".to_owned()),
        Some(Whole::Digits(digits)) => Ok(canonical(digits.starts_with('-'), digits)),
        Some(Whole::Text(text)) if text.is_empty() => Ok("0".to_owned()),
        Some(Whole::Text(text)) => {
            let bare = text.trim();
            let unsigned = bare.strip_prefix(['+', '-']).unwrap_or(bare);
            let is_digit =
                |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
            if unsigned.len() > DIGITS_MAX || !unsigned.split('_').all(is_digit) {
                return Err(format!("expected a whole number, found {}", shown(&text)));
            }
            Ok(canonical(bare.starts_with('-'), &unsigned.replace('_', "")))
        }
    }
}

fn canonical(is_negative: bool, digits: &str) -> String {
    let digits = digits.trim_start_matches(['-', '0']);
    match digits {
        "" => "0".to_owned(),
        _ if is_negative => format!("-{digits}"),
        _ => digits.to_owned(),
    }
}

/// A time, where one that no clock has stands for all that are too large or too small.
fn time(digits: &str) -> i128 {
    let end = if digits.starts_with('-') {
        i128::MIN
    } else {
        i128::MAX
    };
    digits.parse().unwrap_or(end)
}

fn double(text: &str) -> Result<f64, String> {
    let bare = text.trim();
    let is_between = |(at, _): (usize, &str)| {
        let digit = |at: Option<usize>| {
            at.and_then(|at| bare.as_bytes().get(at))
                .is_some_and(u8::is_ascii_digit)
        };
        digit(at.checked_sub(1)) && digit(Some(at + 1))
    };
    let number = if bare.match_indices('_').all(is_between) {
        bare.replace('_', "").parse().ok()
    } else {
        None
    };
    number.ok_or_else(|| format!("expected a number, found {}", shown(text)))
}

/// A text as Python shows it, up to some characters.
fn shown(text: &str) -> String {
    let quote = if text.contains('\'') && !text.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut out = String::from(quote);
    for character in text.chars().take(SHOWN_CHARACTERS_MAX) {
        match character {
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            _ if character == quote => out.extend(['\\', quote]),
            _ if !character.is_control() => out.push(character),
            _ => out.push_str(&format!("\\x{:02x}", u32::from(character))),
        }
    }
    out.push(quote);
    out.chars().take(SHOWN_CHARACTERS_MAX).collect()
}

/// Read attributes.
pub fn attributes<'a>(json: &mut Json<'a>, numbers: &mut Numbers) -> Read<Map<'a>> {
    let mut map = Map::default();
    list(json, |json| {
        let (mut key, mut value) = (Cow::default(), Value::None);
        object(json, true, |json, name| match name {
            b"key" => needed_text(json)
                .map(|text| key = text)
                .map_err(|f| f.within("key")),
            b"value" => {
                let read = any_value(json, numbers).map_err(|fault| fault.within("value"));
                read.map(|read| value = read)
            }
            _ => json.skip(),
        })?;
        map.put(key, value);
        Ok(())
    })?;
    Ok(map)
}

fn needed_text<'a>(json: &mut Json<'a>) -> Read<Cow<'a, str>> {
    let null = || Fault::Wrong(TEXT, "null", String::new());
    text(json)?.ok_or_else(null)
}

/// Read a value. If several of its kinds are there, the first counts in the order of OTLP.
pub fn any_value<'a>(json: &mut Json<'a>, numbers: &mut Numbers) -> Read<Value<'a>> {
    let mut kinds: [Option<Result<Value<'a>, String>>; 7] = Default::default();
    object(json, false, |json, name| {
        let (kind, name) = match name {
            b"stringValue" => (0, "stringValue"),
            b"intValue" => (1, "intValue"),
            b"doubleValue" => (2, "doubleValue"),
            b"boolValue" => (3, "boolValue"),
            b"arrayValue" => (4, "arrayValue"),
            b"kvlistValue" => (5, "kvlistValue"),
            b"bytesValue" => (6, "bytesValue"),
            _ => return json.skip(),
        };
        let read = match kind {
            0 | 6 => text(json).map(|text| text.map(|text| Ok(Value::Text(text)))),
            1 => whole(json).map(|given| given.map(|given| integer(Some(given)).map(digits))),
            2 => number(json),
            3 => boolean(json),
            4 => array(json, numbers),
            _ => key_values(json, numbers),
        };
        kinds[kind] = read.map_err(|fault| fault.within(name))?;
        Ok(())
    })?;
    let first = kinds.into_iter().flatten().next();
    Ok(numbers.or(first.unwrap_or(Ok(Value::None)), Value::None))
}

fn digits<'a>(digits: String) -> Value<'a> {
    match digits.parse() {
        Ok(number) => Value::Int(number),
        Err(_) => Value::Digits(digits.into()),
    }
}

type Kind<'a> = Read<Option<Result<Value<'a>, String>>>;

fn number<'a>(json: &mut Json<'a>) -> Kind<'a> {
    Ok(match json.token()? {
        Token::Number(written, is_whole) => {
            Some(float(written, is_whole).map(Value::Float).map(Ok)?)
        }
        Token::Text(text) => Some(double(&utf8(text)?).map(Value::Float)),
        Token::Null => None,
        other => return Err(Fault::Wrong(NUMBER, other.name(), String::new())),
    })
}

fn boolean<'a>(json: &mut Json<'a>) -> Kind<'a> {
    match json.token()? {
        Token::Bool(is_true) => Ok(Some(Ok(Value::Bool(is_true)))),
        Token::Null => Ok(None),
        other => Err(Fault::Wrong("true or false", other.name(), String::new())),
    }
}

fn array<'a>(json: &mut Json<'a>, numbers: &mut Numbers) -> Kind<'a> {
    let mut items = Vec::new();
    let is_there = object(json, false, |json, name| {
        if name != b"values" {
            return json.skip();
        }
        items.clear();
        let read = list(json, |json| {
            items.push(any_value(json, numbers)?);
            Ok(())
        });
        read.map_err(|fault| fault.within("values"))
    })?;
    Ok(is_there.then_some(Ok(Value::List(items))))
}

fn key_values<'a>(json: &mut Json<'a>, numbers: &mut Numbers) -> Kind<'a> {
    let mut map = Map::default();
    let is_there = object(json, false, |json, name| {
        if name != b"values" {
            return json.skip();
        }
        map = attributes(json, numbers).map_err(|fault| fault.within("values"))?;
        Ok(())
    })?;
    Ok(is_there.then_some(Ok(Value::Map(map))))
}

/// Read a span.
pub fn span<'a>(message: &'a [u8], numbers: &mut Numbers) -> Read<Span<'a>> {
    let mut span = Span::default();
    let (mut start, mut end, mut lost) = (None, None, None);
    let mut json = Json::new(message);
    object(&mut json, true, |json, name| {
        let (name, read) = match name {
            b"traceId" => (
                "traceId",
                text(json).map(|id| span.trace_id = id.unwrap_or_default()),
            ),
            b"spanId" => (
                "spanId",
                text(json).map(|id| span.span_id = id.unwrap_or_default()),
            ),
            b"parentSpanId" => {
                let read = text(json).map(|id| span.parent_span_id = id.unwrap_or_default());
                ("parentSpanId", read)
            }
            b"name" => (
                "name",
                text(json).map(|name| span.name = name.unwrap_or_default()),
            ),
            b"startTimeUnixNano" => ("startTimeUnixNano", whole(json).map(|time| start = time)),
            b"endTimeUnixNano" => ("endTimeUnixNano", whole(json).map(|time| end = time)),
            b"attributes" => {
                let read = attributes(json, numbers).map(|read| span.attributes = read);
                ("attributes", read)
            }
            b"droppedAttributesCount" => (
                "droppedAttributesCount",
                whole(json).map(|count| lost = count),
            ),
            b"events" => (
                "events",
                events(json, numbers).map(|read| span.events = read),
            ),
            b"links" => ("links", links(json).map(|read| span.links = read)),
            b"status" => ("status", status(json, &mut span)),
            _ => return json.skip(),
        };
        read.map_err(|fault| fault.within(name))
    })?;
    json.end()?;
    span.start_ns = time(&numbers.or(integer(start), String::new()));
    span.end_ns = time(&numbers.or(integer(end), String::new()));
    match integer(lost) {
        Ok(lost) => span.attributes_lost = i64::try_from(time(&lost)).unwrap_or(i64::MAX),
        Err(fault) => numbers.late_fault = Some(fault),
    }
    Ok(span.marked())
}

fn events<'a>(json: &mut Json<'a>, numbers: &mut Numbers) -> Read<Vec<Event<'a>>> {
    let mut events = Vec::new();
    list(json, |json| {
        let (mut event, mut time) = (Event::default(), None);
        object(json, true, |json, name| {
            let (name, read) = match name {
                b"name" => (
                    "name",
                    text(json).map(|name| event.name = name.unwrap_or_default()),
                ),
                b"timeUnixNano" => ("timeUnixNano", whole(json).map(|read| time = read)),
                b"attributes" => {
                    let read = attributes(json, numbers).map(|read| event.attributes = read);
                    ("attributes", read)
                }
                _ => return json.skip(),
            };
            read.map_err(|fault| fault.within(name))
        })?;
        event.time_ns = numbers.or(integer(time), String::new()).into();
        events.push(event);
        Ok(())
    })?;
    Ok(events)
}

fn links<'a>(json: &mut Json<'a>) -> Read<Vec<Link<'a>>> {
    let mut links = Vec::new();
    list(json, |json| {
        let mut link = Link::default();
        object(json, true, |json, name| {
            let (name, read) = match name {
                b"traceId" => (
                    "traceId",
                    text(json).map(|id| link.trace_id = id.unwrap_or_default()),
                ),
                b"spanId" => (
                    "spanId",
                    text(json).map(|id| link.span_id = id.unwrap_or_default()),
                ),
                _ => return json.skip(),
            };
            read.map_err(|fault| fault.within(name))
        })?;
        links.push(link);
        Ok(())
    })?;
    Ok(links)
}

fn status<'a>(json: &mut Json<'a>, span: &mut Span<'a>) -> Read<()> {
    (span.status, span.status_message) = (0, Cow::default());
    object(json, false, |json, name| {
        let (name, read) = match name {
            b"code" => (
                "code",
                whole(json).map(|code| span.status = status_code(code)),
            ),
            b"message" => {
                let read = text(json).map(|text| span.status_message = text.unwrap_or_default());
                ("message", read)
            }
            _ => return json.skip(),
        };
        read.map_err(|fault| fault.within(name))
    })
    .map(drop)
}

/// The number of a status, which some write as the name of the enum; 0 for an unknown one.
fn status_code(code: Option<Whole<'_>>) -> i64 {
    match code {
        Some(Whole::Digits(digits)) => digits.parse().unwrap_or(0),
        Some(Whole::Text(name)) => {
            let place = STATUS_NAMES
                .iter()
                .position(|known| *known == name.as_bytes());
            place.map_or(0, |place| place as i64)
        }
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_as_python_reads_them() {
        let read = |text: &str| integer(Some(Whole::Text(text.to_owned())));
        for (text, digits) in [
            ("", "0"),
            (" +1_000\n", "1000"),
            ("-0", "0"),
            ("-007", "-7"),
        ] {
            assert_eq!(read(text), Ok(digits.to_owned()), "{text}");
        }
        for text in ["soon", "1.5", "1__0", "_1", "+-1", " "] {
            assert!(read(text).is_err(), "{text}");
        }
        assert_eq!(double(" -1_0.5e1 "), Ok(-105.0));
        assert!(double("NaN").is_ok_and(f64::is_nan));
        assert!(double("1_").is_err() && double("x").is_err());
    }

    #[test]
    fn texts_are_shown_as_python_shows_them() {
        assert_eq!(shown("soon"), "'soon'");
        assert_eq!(shown("it's\n"), "\"it's\\n\"");
        assert_eq!(shown(&"x".repeat(500)), format!("'{}", "x".repeat(59)));
    }

    #[test]
    fn places_are_named() {
        let message = br#"{"attributes": [{"key": "a"}, {"key": "b", "value": {"arrayValue": {
            "values": [{}, {"intValue": 1.5}]}}}]}"#;
        let fault = span(message, &mut Numbers::default()).map(drop);
        assert_eq!(
            fault.map_err(|fault| fault.to_string()),
            Err("expected a whole number or a string, found a number at \
                 attributes[1].value.arrayValue.values[1].intValue"
                .to_owned())
        );
    }
}
