//! The messages of OTLP/protobuf, from the span down, read as strictly as protobuf is read.
//!
//! A field with another type than OTLP gives it is an unknown one, and unknown ones are passed
//! over. Of a field that comes twice the last counts, and two halves of a message are one.

use std::borrow::Cow;

use crate::wire::protobuf::{Corrupt, Field, Fields, text};
use crate::wire::span::{Event, Link, Span, hex};
use crate::wire::value::{Map, Value, base64};

type Read<T> = Result<T, Corrupt>;

/// Read a span.
pub fn span(message: &[u8]) -> Read<Span<'_>> {
    let mut fields = Fields::new(message);
    let mut span = Span::default();
    while let Some(field) = fields.field()? {
        match field {
            (1, Field::Bytes(id)) => span.trace_id = hex(id).into(),
            (2, Field::Bytes(id)) => span.span_id = hex(id).into(),
            (3, Field::Bytes(state)) => drop(text(state)?),
            (4, Field::Bytes(id)) => span.parent_span_id = hex(id).into(),
            (5, Field::Bytes(name)) => span.name = text(name)?.into(),
            (7, Field::Fixed64(time)) => span.start_ns = time.into(),
            (8, Field::Fixed64(time)) => span.end_ns = time.into(),
            (9, Field::Bytes(pair)) => attribute(fields.within(pair)?, &mut span.attributes)?,
            (10, Field::Varint(count)) => span.attributes_lost = i64::from(count as u32),
            (11, Field::Bytes(inner)) => span.events.push(event(fields.within(inner)?)?),
            (13, Field::Bytes(inner)) => span.links.push(link(fields.within(inner)?)?),
            (15, Field::Bytes(inner)) => status(fields.within(inner)?, &mut span)?,
            _ => {}
        }
    }
    Ok(span.marked())
}

/// Add the attributes of a resource, or of what else has them under the same numbers.
pub fn resource<'a>(mut fields: Fields<'a>, attributes: &mut Map<'a>) -> Read<()> {
    while let Some(field) = fields.field()? {
        match field {
            (1, Field::Bytes(pair)) => attribute(fields.within(pair)?, attributes)?,
            (3, Field::Bytes(inner)) => entity(fields.within(inner)?)?,
            _ => {}
        }
    }
    Ok(())
}

/// Read the name of a scope, if it has one.
pub fn scope_name<'a>(mut fields: Fields<'a>, name: &mut Option<&'a str>) -> Read<()> {
    let mut attributes = Map::default();
    while let Some(field) = fields.field()? {
        match field {
            (1, Field::Bytes(given)) => *name = Some(text(given)?).filter(|name| !name.is_empty()),
            (2, Field::Bytes(version)) => drop(text(version)?),
            (3, Field::Bytes(pair)) => attribute(fields.within(pair)?, &mut attributes)?,
            _ => {}
        }
    }
    Ok(())
}

/// Add an attribute to others.
pub fn attribute<'a>(mut fields: Fields<'a>, attributes: &mut Map<'a>) -> Read<()> {
    let (mut key, mut value) = ("", Value::None);
    while let Some(field) = fields.field()? {
        match field {
            (1, Field::Bytes(given)) => key = text(given)?,
            (2, Field::Bytes(inner)) => any_value(fields.within(inner)?, &mut value)?,
            _ => {}
        }
    }
    attributes.put(key.into(), value);
    Ok(())
}

/// Read a value, which may go on with what was read of it before.
pub fn any_value<'a>(mut fields: Fields<'a>, value: &mut Value<'a>) -> Read<()> {
    while let Some(field) = fields.field()? {
        match field {
            (1, Field::Bytes(given)) => *value = Value::Text(text(given)?.into()),
            (2, Field::Varint(number)) => *value = Value::Bool(number != 0),
            (3, Field::Varint(number)) => *value = Value::Int(number as i64),
            (4, Field::Fixed64(bits)) => *value = Value::Float(f64::from_bits(bits)),
            (5, Field::Bytes(inner)) => list(fields.within(inner)?, value)?,
            (6, Field::Bytes(inner)) => map(fields.within(inner)?, value)?,
            (7, Field::Bytes(bytes)) => *value = Value::Text(base64(bytes).into()),
            (8, Field::Varint(index)) => *value = Value::Int((index as i32).into()),
            _ => {}
        }
    }
    Ok(())
}

fn list<'a>(mut fields: Fields<'a>, value: &mut Value<'a>) -> Read<()> {
    if !matches!(value, Value::List(_)) {
        *value = Value::List(Vec::new());
    }
    while let Some(field) = fields.field()? {
        if let (1, Field::Bytes(inner)) = field {
            let mut item = Value::None;
            any_value(fields.within(inner)?, &mut item)?;
            if let Value::List(items) = value {
                items.push(item);
            }
        }
    }
    Ok(())
}

fn map<'a>(mut fields: Fields<'a>, value: &mut Value<'a>) -> Read<()> {
    if !matches!(value, Value::Map(_)) {
        *value = Value::Map(Map::default());
    }
    while let Some(field) = fields.field()? {
        if let ((1, Field::Bytes(inner)), Value::Map(map)) = (field, &mut *value) {
            attribute(fields.within(inner)?, map)?;
        }
    }
    Ok(())
}

fn event(mut fields: Fields<'_>) -> Read<Event<'_>> {
    let mut event = Event {
        time_ns: Cow::Borrowed("0"),
        ..Event::default()
    };
    while let Some(field) = fields.field()? {
        match field {
            (1, Field::Fixed64(time)) => event.time_ns = time.to_string().into(),
            (2, Field::Bytes(name)) => event.name = text(name)?.into(),
            (3, Field::Bytes(pair)) => attribute(fields.within(pair)?, &mut event.attributes)?,
            _ => {}
        }
    }
    Ok(event)
}

fn link(mut fields: Fields<'_>) -> Read<Link<'_>> {
    let (mut link, mut attributes) = (Link::default(), Map::default());
    while let Some(field) = fields.field()? {
        match field {
            (1, Field::Bytes(id)) => link.trace_id = hex(id).into(),
            (2, Field::Bytes(id)) => link.span_id = hex(id).into(),
            (3, Field::Bytes(state)) => drop(text(state)?),
            (4, Field::Bytes(pair)) => attribute(fields.within(pair)?, &mut attributes)?,
            _ => {}
        }
    }
    Ok(link)
}

fn status<'a>(mut fields: Fields<'a>, span: &mut Span<'a>) -> Read<()> {
    while let Some(field) = fields.field()? {
        match field {
            (2, Field::Bytes(message)) => span.status_message = text(message)?.into(),
            (3, Field::Varint(code)) => span.status = (code as i32).into(),
            _ => {}
        }
    }
    Ok(())
}

/// Check the texts of a reference to an entity, of which nothing is kept.
fn entity(mut fields: Fields<'_>) -> Read<()> {
    while let Some(field) = fields.field()? {
        if let (1..=4, Field::Bytes(given)) = field {
            text(given)?;
        }
    }
    Ok(())
}
