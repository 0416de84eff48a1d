//! What a span was read as, and by which keys: for people whose spans are not understood.

use super::names::{FIELDS, Field, TIES};
use super::plain::canonical;
use super::rows::{Row, events_in, some_attributes_in};
use super::seen::Seen;
use super::span_fields::Given;
use super::table::Table;
use crate::wire::value::Value;

/// What a span was read as: the number of the row of the table that says so; each field that has a
/// value, with its name, the key that it was read from, and the value as text; and the attributes
/// that no field is read from.
pub type Reading = (Option<usize>, Vec<(String, String, String)>, Vec<String>);

/// What a span is read as by a table of dialects.
#[must_use]
pub fn reading(span: Given<'_>, table: &Table) -> Reading {
    let seen = Seen::new(span.attributes, span.events, table);
    let row = seen.row_of_kind(span.name, span.scope.unwrap_or_default());
    let dialect = row.map(|row| table.rows[row].dialect);
    let fields = FIELDS.iter().filter_map(|(name, field)| {
        let (key, found) = seen.read(*field, dialect)?;
        let value = match &*seen.held(found) {
            Value::Text(text) => text.clone().into_owned(),
            other => canonical(other),
        };
        Some(((*name).to_owned(), table.written(key), value))
    });
    let mut unread: Vec<String> = seen
        .others()
        .filter(|(key, _)| !table.is_marker(key))
        .map(|(key, _)| key.to_owned())
        .collect();
    unread.sort_unstable();
    (row, fields.collect(), unread)
}

/// Session, task and task above it of a span. A connection may be the session of a trace that begins
/// with it.
#[must_use]
pub fn ties(row: &Row<'_>, table: &Table) -> [Option<String>; 3] {
    let fields = [TIES[0], TIES[1], TIES[2], Field::Connection];
    let attributes = some_attributes_in(row.attributes, |key| table.is_read(key, &fields));
    let events = events_in(row.events);
    let seen = Seen::new(&attributes, &events, table);
    let name = |field| seen.name(field, None);
    let connection = || name(Field::Connection).filter(|_| row.parent_span_id.is_none());
    let session = name(Field::Session).or_else(connection);
    [session, name(Field::Task), name(Field::TaskParent)]
}
