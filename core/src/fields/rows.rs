//! Rows of the table of spans, whose attributes, events and links are JSON.

use std::borrow::Cow;

use super::json::parse;
use super::plain::as_text;
use crate::wire::span::Event;
use crate::wire::value::{Map, Value};

/// The attributes in a row; none where the text is no object.
#[must_use]
pub fn attributes_in(text: &str) -> Map<'_> {
    match parse(text) {
        Some(Value::Map(map)) => map,
        _ => Map::default(),
    }
}

/// The events in a row.
#[must_use]
pub fn events_in(text: &str) -> Vec<Event<'_>> {
    objects_in(text).map(event_of).collect()
}

fn event_of(event: Map<'_>) -> Event<'_> {
    Event {
        name: match event.get("name") {
            Some(Value::Text(name)) => name.clone(),
            _ => Cow::Borrowed(""),
        },
        time_ns: Cow::Owned(
            event
                .get("time_ns")
                .map(|time| as_text(time).into_owned())
                .unwrap_or_default(),
        ),
        attributes: match event.get("attributes") {
            Some(Value::Map(attributes)) => attributes.clone(),
            _ => Map::default(),
        },
    }
}

/// The ids of the traces that the links in a row lead to.
#[must_use]
pub fn links_in(text: &str) -> Vec<String> {
    let ids = objects_in(text).filter_map(|link| Some(as_text(link.get("trace_id")?).into_owned()));
    ids.collect()
}

fn objects_in(text: &str) -> impl Iterator<Item = Map<'_>> {
    // Most spans have no events and no links.
    let items = if text == "[]" { None } else { parse(text) };
    let items = match items {
        Some(Value::List(items)) => items,
        _ => Vec::new(),
    };
    items.into_iter().filter_map(|item| match item {
        Value::Map(map) => Some(map),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read() {
        let events = events_in(
            r#"[{"name": "x", "time_ns": 12345678901234567890, "attributes": {"a": 1}}, 5]"#,
        );
        assert_eq!(events.len(), 1);
        assert_eq!(
            (&*events[0].name, &*events[0].time_ns),
            ("x", "12345678901234567890")
        );
        assert_eq!(events[0].attributes.get("a"), Some(&Value::Int(1)));
        assert_eq!(links_in(r#"[{"trace_id": "a", "span_id": "b"}]"#), ["a"]);
        assert!(attributes_in("[]").fields().is_empty());
    }
}
