//! Rows of the table of spans, whose attributes, events and links are JSON.

use std::borrow::Cow;

use super::json::{parse, parse_some};
use super::plain::{as_text, bounded_name};
use super::span::Reader;
use super::span_fields::{Given, SpanFields};
use crate::wire::span::Event;
use crate::wire::value::{Map, Value};

// What a span takes in memory beside its texts, in characters.
const CHARS_PER_SPAN: usize = 1_000;

/// A row of the table of spans (`SPAN_SCHEMA`).
#[derive(Clone, Copy, Debug, Default)]
#[allow(missing_docs)]
pub struct Row<'a> {
    pub trace_id: &'a str,
    pub span_id: &'a str,
    pub parent_span_id: Option<&'a str>,
    pub name: &'a str,
    pub start_ns: i64,
    pub end_ns: i64,
    pub status: i64,
    pub status_message: Option<&'a str>,
    pub service: Option<&'a str>,
    pub scope: Option<&'a str>,
    pub attributes: &'a str,
    pub events: &'a str,
    pub links: &'a str,
}

impl Row<'_> {
    /// Do something with what a reader is given of a span.
    pub fn given<T>(&self, work: impl FnOnce(Given<'_>) -> T) -> T {
        let (attributes, events) = (attributes_in(self.attributes), events_in(self.events));
        work(Given {
            trace_id: self.trace_id,
            name: self.name,
            scope: self.scope,
            status: self.status,
            status_message: self.status_message,
            attributes: &attributes,
            events: &events,
        })
    }

    /// The span in its fields.
    pub fn read(&self, reader: &mut Reader) -> SpanFields {
        let mut fields = self.given(|given| reader.fields(given));
        let links = links_in(self.links);
        if !links.is_empty() {
            fields.rare.get_or_insert_default().links = links;
        }
        let service = self.service.map(bounded_name);
        SpanFields {
            trace_id: reader.shared.name(self.trace_id),
            span_id: self.span_id.to_owned(),
            parent_span_id: self.parent_span_id.map(str::to_owned),
            start_ns: self.start_ns,
            end_ns: self.end_ns,
            service: service.map(|name| reader.shared.name(&name)),
            ..fields
        }
    }

    /// About how many characters the span takes in memory.
    #[must_use]
    pub fn chars(&self) -> usize {
        let told = [
            self.parent_span_id,
            self.status_message,
            self.service,
            self.scope,
        ];
        let texts = [
            self.trace_id,
            self.span_id,
            self.name,
            self.attributes,
            self.events,
            self.links,
        ];
        let texts = texts.into_iter().chain(told.into_iter().flatten());
        CHARS_PER_SPAN + texts.map(|text| text.chars().count()).sum::<usize>()
    }
}

/// The attributes in a row; none where the text is no object.
#[must_use]
pub fn attributes_in(text: &str) -> Map<'_> {
    match parse(text) {
        Some(Value::Map(map)) => map,
        _ => Map::default(),
    }
}

/// Those attributes in a row that are wanted by their names.
#[must_use]
pub fn some_attributes_in(text: &str, wanted: impl Fn(&str) -> bool) -> Map<'_> {
    parse_some(text, wanted).unwrap_or_default()
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
