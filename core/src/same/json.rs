//! JSON in texts, read as `text/payloads.py` reads it, and written in one form for equal values.

use std::borrow::Cow;
use std::fmt::Write;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::{Map, Number, Value};

use crate::patterns::pattern;

// JavaScript writes half a surrogate pair where it cuts a string in the middle of an emoji. Escaped
// backslashes are taken with the rest, so that none of them begins an escape.
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| {
    pattern(
        r"\\\\|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[dD][89a-fA-F][0-9a-fA-F]{2}",
    )
});
const ESCAPE_CHARS: usize = 6;
// Python writes smaller floats than ten to minus this power with an exponent. Floats that it writes
// so because they are great are all whole.
const POWER_MAX: u16 = 4;

/// The value of a text that is JSON; `None` if it is other text.
#[must_use]
pub fn parsed(text: &str) -> Option<Value> {
    serde_json::from_str(text)
        .or_else(|_| serde_json::from_str(&with_whole_escapes(text)))
        .ok()
}

fn with_whole_escapes(text: &str) -> Cow<'_, str> {
    ESCAPES.replace_all(text, |found: &Captures<'_>| {
        let escape = found.get(0).map_or("", |whole| whole.as_str());
        if escape.len() == ESCAPE_CHARS {
            r"\ufffd".to_owned()
        } else {
            escape.to_owned()
        }
    })
}

/// The same text for equal values: sorted keys, no spacing, 1.0 written as 1. `None` for a number
/// that no float can hold.
#[must_use]
pub fn canonical(value: &Value) -> Option<String> {
    let mut text = String::new();
    write_value(value, &mut text)?;
    Some(text)
}

fn write_value(value: &Value, text: &mut String) -> Option<()> {
    match value {
        Value::Number(number) => text.push_str(&written(number)?),
        Value::Array(items) => {
            text.push('[');
            for (place, item) in items.iter().enumerate() {
                text.push_str(if place == 0 { "" } else { "," });
                write_value(item, text)?;
            }
            text.push(']');
        }
        Value::Object(items) => write_object(items, text)?,
        Value::Null | Value::Bool(_) | Value::String(_) => write!(text, "{value}").ok()?,
    }
    Some(())
}

fn write_object(items: &Map<String, Value>, text: &mut String) -> Option<()> {
    let mut keys: Vec<&String> = items.keys().collect();
    keys.sort_unstable();
    text.push('{');
    for (place, key) in keys.into_iter().enumerate() {
        text.push_str(if place == 0 { "" } else { "," });
        write!(text, "{}:", Value::String(key.clone())).ok()?;
        write_value(&items[key], text)?;
    }
    text.push('}');
    Some(())
}

fn written(number: &Number) -> Option<String> {
    let text = number.as_str();
    if !text.contains(['.', 'e', 'E']) {
        return Some(if text == "-0" {
            "0".to_owned()
        } else {
            text.to_owned()
        });
    }
    let float: f64 = text.parse().ok()?;
    if !float.is_finite() {
        return None;
    }
    Some(if float.fract() == 0.0 {
        whole(float)
    } else {
        as_python_writes(float)
    })
}

fn whole(float: f64) -> String {
    let text = format!("{float:.0}");
    if text == "-0" { "0".to_owned() } else { text }
}

/// A float that is not whole as `repr` writes it: the fewest digits that give the same float.
fn as_python_writes(float: f64) -> String {
    let scientific = format!("{float:e}");
    let (digits, power) = scientific.split_once("e-").unwrap_or((&scientific, "0"));
    match power.parse::<u16>() {
        Ok(power) if power > POWER_MAX => format!("{digits}e-{power:02}"),
        _ => float.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn again(text: &str) -> Option<String> {
        canonical(&parsed(text)?)
    }

    #[test]
    fn equal_values_have_one_text() {
        let wanted = r#"{"a":[1,0.1,1e-07,-2.5e-300,10000000000000000000000],"b":"é\n\u0001/"}"#;
        let given = "{ \"b\": \"\\u00e9\\n\\u0001\\/\", \"a\": [1.0, 0.1, 1e-7, -25e-301, 1e22] }";
        assert_eq!(again(given).as_deref(), Some(wanted));
        assert_eq!(
            again("[-0, -0.0, 0.00012]").as_deref(),
            Some("[0,0,0.00012]")
        );
        // A whole float has its digits, however many they are.
        let [short, long] = [again("15e299"), again("1500e297")].map(Option::unwrap_or_default);
        assert_eq!(short, long);
        assert!(short.len() == 301 && short.starts_with("1500000000000000"));
        assert_eq!(again("[1e999]"), None);
        assert_eq!(again("{\"a\":1,\"a\":2}").as_deref(), Some("{\"a\":2}"));
    }

    #[test]
    fn half_of_a_surrogate_pair_is_replaced() {
        let wanted = "\"\u{fffd}x\u{1f600}\\\\ud83d\"";
        assert_eq!(
            again(r#""\ud83dx\ud83d\ude00\\ud83d""#).as_deref(),
            Some(wanted)
        );
    }
}
