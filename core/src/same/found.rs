//! What a search found, in one order: many programs search at several places at once.

use std::borrow::Cow;

use serde_json::Value;

use super::json::{canonical, parsed};

/// The lines of a result, or the items of its lists in JSON, in an order of their own.
#[must_use]
pub fn unordered(result: Cow<'_, str>) -> Cow<'_, str> {
    let is_json = result.trim_start().starts_with(['[', '{']);
    if let Some(value) = is_json.then(|| parsed(&result)).flatten() {
        return canonical(&sorted(value)).map_or(result, Cow::Owned);
    }
    let mut lines: Vec<&str> = result.lines().collect();
    if lines.is_sorted() {
        return result;
    }
    lines.sort_unstable();
    Cow::Owned(lines.join("\n"))
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.into_iter().map(sorted).collect();
            items.sort_by_cached_key(canonical);
            Value::Array(items)
        }
        Value::Object(items) => {
            let sorted = items.into_iter().map(|(key, item)| (key, sorted(item)));
            Value::Object(sorted.collect())
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(result: &str) -> String {
        unordered(result.into()).into_owned()
    }

    #[test]
    fn the_same_finds_in_another_order_are_equal() {
        assert_eq!(of("b.py:3\na.py:1"), of("a.py:1\nb.py:3"));
        assert_eq!(
            of(r#"{"n":2,"hits":[{"id":2,"at":"b"},{"at":"a","id":1}]}"#),
            of(r#"{"hits":[{"id":1,"at":"a"},{"id":2,"at":"b"}],"n":2}"#)
        );
        assert_ne!(of("a.py:1\nb.py:3"), of("a.py:1\nb.py:3\nb.py:3"));
        assert_ne!(of(r#"{"a":1,"b":2}"#), of(r#"{"a":2,"b":1}"#));
    }

    #[test]
    fn other_texts_stay() {
        assert_eq!(of("one line"), "one line");
        assert_eq!(of("[not json"), "[not json");
    }
}
