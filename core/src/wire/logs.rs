//! Log records in OTLP/protobuf, of which a request is read as a whole.

use crate::wire::block::Texts;
use crate::wire::proto_messages::{any_value, attribute, resource, scope_name};
use crate::wire::protobuf::{Corrupt, Field, Fields, text};
use crate::wire::span::hex;
use crate::wire::value::{Map, Value, write_map, write_value};

/// What log records share: the place of their resource, and the name of the scope.
pub type Source = (usize, Option<String>);

/// Log records as columns.
#[derive(Debug, Default)]
pub struct Logs {
    /// time_ns and observed_ns as digits, event_name, body and attributes as JSON, trace_id and
    /// span_id in hex
    pub texts: [Texts; 7],
    /// The place of what each shares with others.
    pub source: Vec<i64>,
    /// What records share.
    pub sources: Vec<Source>,
    /// The attributes of the resources, as JSON.
    pub resources: Vec<String>,
}

/// A log record as it was sent.
#[derive(Debug, Default)]
struct Record<'a> {
    time_ns: u64,
    observed_ns: u64,
    event_name: &'a str,
    body: Value<'a>,
    attributes: Map<'a>,
    trace_id: &'a [u8],
    span_id: &'a [u8],
}

/// Read a request of logs.
pub fn read(data: &[u8]) -> Result<Logs, Corrupt> {
    let mut out = Logs::default();
    let mut fields = Fields::new(data);
    while let Some(field) = fields.next()? {
        if let (1, Field::Bytes(inner)) = field {
            resource_logs(fields.within(inner)?, &mut out)?;
        }
    }
    Ok(out)
}

fn resource_logs(fields: Fields<'_>, out: &mut Logs) -> Result<(), Corrupt> {
    let mut attributes = Map::default();
    let mut walk = fields;
    while let Some(field) = walk.next()? {
        match field {
            (1, Field::Bytes(inner)) => resource(walk.within(inner)?, &mut attributes)?,
            (3, Field::Bytes(url)) => drop(text(url)?),
            _ => {}
        }
    }
    let mut json = Vec::new();
    write_map(&attributes, &mut json);
    out.resources
        .push(String::from_utf8(json).map_err(|_| Corrupt)?);
    let mut walk = fields;
    while let Some(field) = walk.next()? {
        if let (2, Field::Bytes(inner)) = field {
            scope_logs(walk.within(inner)?, out)?;
        }
    }
    Ok(())
}

fn scope_logs(fields: Fields<'_>, out: &mut Logs) -> Result<(), Corrupt> {
    let mut scope = None;
    let mut walk = fields;
    while let Some(field) = walk.next()? {
        match field {
            (1, Field::Bytes(inner)) => scope_name(walk.within(inner)?, &mut scope)?,
            (3, Field::Bytes(url)) => drop(text(url)?),
            _ => {}
        }
    }
    let mut is_first = true;
    let mut walk = fields;
    while let Some(field) = walk.next()? {
        if let (2, Field::Bytes(inner)) = field {
            if is_first {
                let source = (out.resources.len() - 1, scope.map(str::to_owned));
                out.sources.push(source);
                is_first = false;
            }
            out.add(&record(walk.within(inner)?)?);
        }
    }
    Ok(())
}

fn record(mut fields: Fields<'_>) -> Result<Record<'_>, Corrupt> {
    let mut record = Record::default();
    while let Some(field) = fields.next()? {
        match field {
            (1, Field::Fixed64(time)) => record.time_ns = time,
            (3, Field::Bytes(severity)) => drop(text(severity)?),
            (5, Field::Bytes(inner)) => any_value(fields.within(inner)?, &mut record.body)?,
            (6, Field::Bytes(pair)) => attribute(fields.within(pair)?, &mut record.attributes)?,
            (9, Field::Bytes(id)) => record.trace_id = id,
            (10, Field::Bytes(id)) => record.span_id = id,
            (11, Field::Fixed64(time)) => record.observed_ns = time,
            (12, Field::Bytes(name)) => record.event_name = text(name)?,
            _ => {}
        }
    }
    Ok(record)
}

impl Logs {
    fn add(&mut self, record: &Record<'_>) {
        let [time, observed, name, body, attributes, trace, span] = &mut self.texts;
        time.push(Some(&record.time_ns.to_string()));
        observed.push(Some(&record.observed_ns.to_string()));
        name.push(Some(record.event_name));
        body.write(|out| write_value(&record.body, out));
        attributes.write(|out| write_map(&record.attributes, out));
        trace.push(Some(&hex(record.trace_id)));
        span.push(Some(&hex(record.span_id)));
        self.source.push(self.sources.len() as i64 - 1);
    }
}
