//! What a search found, in one order: many programs search at several places at once. How near a
//! find is to the words that were asked for moves with these words.

use std::borrow::Cow;

use serde_json::Value;

use super::json::{canonical, parsed};
use crate::patterns::{replaced, rows};
use crate::tables::MASKS;

rows! {
    NEARNESS: Pattern = MASKS["nearness_keys"];
    OF_RUN: Pattern = MASKS["search_run_keys"];
    NEAR: Pattern = MASKS["nearness"];
}

/// The lines of a result, or the items of its lists in JSON, in an order of their own.
#[must_use]
pub fn unordered(result: Cow<'_, str>) -> Cow<'_, str> {
    let is_json = result.trim_start().starts_with(['[', '{']);
    if let Some(value) = is_json.then(|| parsed(&result)).flatten() {
        return canonical(&sorted(value)).map_or(result, Cow::Owned);
    }
    // How near one find alone is may be all that was asked for.
    let first = NEAR.find_at(&result, 0);
    let result = match first.and_then(|one| NEAR.find_at(&result, one.end)) {
        Some(_) => replaced(result, &NEAR, ""),
        None => result,
    };
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
            let items = items.into_iter().map(without_nearness);
            let mut items: Vec<Value> = items.map(sorted).collect();
            items.sort_by_cached_key(canonical);
            Value::Array(items)
        }
        Value::Object(mut items) => {
            if items.keys().any(|key| !OF_RUN.is_match(key)) {
                items.retain(|key, _| !OF_RUN.is_match(key));
            }
            let sorted = items.into_iter().map(|(key, item)| (key, sorted(item)));
            Value::Object(sorted.collect())
        }
        other => other,
    }
}

/// A find without how near it is, which is a part of a whole number.
fn without_nearness(find: Value) -> Value {
    let Value::Object(mut items) = find else {
        return find;
    };
    let is_near = |key: &str, item: &Value| item.is_f64() && NEARNESS.is_match(key);
    if items.iter().any(|(key, item)| !is_near(key, item)) {
        items.retain(|key, item| !is_near(key, item));
    }
    Value::Object(items)
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
    fn how_near_a_find_is_is_no_part_of_it() {
        let found = |score| format!(r#"[{{"score":{score},"text":"a"}},{{"text":"b"}}]"#);
        assert_eq!(of(&found("0.41")), of(&found("0.44")));
        // A game was won by other points.
        assert_ne!(of(&found("3")), of(&found("4")));
        assert_ne!(of(r#"[{"score":0.4}]"#), of(r#"[{"score":0.5}]"#));
        assert_ne!(of(r#"{"a":1,"score":0.4}"#), of(r#"{"a":1,"score":0.5}"#));
        let told = |score| format!("a (score: {score})\nb (score: 0.2)");
        assert_eq!(of(&told("0.41")), of(&told("0.44")));
        assert_ne!(of("best score: 0.41"), of("best score: 0.44"));
    }

    #[test]
    fn what_an_engine_tells_of_its_run_is_no_part_of_a_find() {
        let found = |ok, score| {
            format!(
                r#"{{"_shards":{{"successful":{ok}}},"hits":{{"hits":[],"max_score":{score}}}}}"#
            )
        };
        assert_eq!(of(&found(5, "1.2")), of(&found(4, "1.3")));
        assert_ne!(of(r#"{"max_score":1.2}"#), of(r#"{"max_score":1.3}"#));
    }

    #[test]
    fn other_texts_stay() {
        assert_eq!(of("one line"), "one line");
        assert_eq!(of("[not json"), "[not json");
    }
}
