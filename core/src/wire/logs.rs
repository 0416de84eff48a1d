//! Log records, of which a request is read as a whole.

use std::borrow::Cow;

use crate::wire::block::Texts;
use crate::wire::json::{Fault, Json};
use crate::wire::json_messages::{
    self, Numbers, any_value as json_value, attributes, integer, list, object, whole,
};
use crate::wire::json_text::{camel_case, with_whole_escapes};
use crate::wire::proto_messages::{any_value, attribute, resource, scope_name};
use crate::wire::protobuf::{Corrupt, Field, Fields, text};
use crate::wire::span::{SPAN_ID_DIGITS, TRACE_ID_DIGITS, hex, hex_id};
use crate::wire::value::{Map, Value, write_map, write_value};

/// What log records share: the place of their resource, and the name of the scope.
pub type Source = (usize, Option<String>);

/// Log records as columns.
#[derive(Debug, Default)]
pub struct Logs {
    /// time_ns and observed_ns as digits, event_name, body and attributes as JSON, trace_id and
    /// span_id in hex, and what is wrong with a record, if anything
    pub texts: [Texts; 8],
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
    time_ns: String,
    observed_ns: String,
    event_name: Cow<'a, str>,
    body: Value<'a>,
    attributes: Map<'a>,
    trace_id: Cow<'a, str>,
    span_id: Cow<'a, str>,
    fault: Option<String>,
}

/// Read a request of logs in protobuf.
pub fn proto(data: &[u8]) -> Result<Logs, Corrupt> {
    let mut out = Logs::default();
    let mut fields = Fields::new(data);
    while let Some(field) = fields.field()? {
        if let (1, Field::Bytes(inner)) = field {
            resource_logs(fields.within(inner)?, &mut out)?;
        }
    }
    Ok(out)
}

fn resource_logs(fields: Fields<'_>, out: &mut Logs) -> Result<(), Corrupt> {
    let mut attributes = Map::default();
    let mut walk = fields;
    while let Some(field) = walk.field()? {
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
    while let Some(field) = walk.field()? {
        if let (2, Field::Bytes(inner)) = field {
            scope_logs(walk.within(inner)?, out)?;
        }
    }
    Ok(())
}

fn scope_logs(fields: Fields<'_>, out: &mut Logs) -> Result<(), Corrupt> {
    let mut scope = None;
    let mut walk = fields;
    while let Some(field) = walk.field()? {
        match field {
            (1, Field::Bytes(inner)) => scope_name(walk.within(inner)?, &mut scope)?,
            (3, Field::Bytes(url)) => drop(text(url)?),
            _ => {}
        }
    }
    let mut is_first = true;
    let mut walk = fields;
    while let Some(field) = walk.field()? {
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
    let mut record = Record {
        time_ns: "0".to_owned(),
        observed_ns: "0".to_owned(),
        ..Record::default()
    };
    while let Some(field) = fields.field()? {
        match field {
            (1, Field::Fixed64(time)) => record.time_ns = time.to_string(),
            (3, Field::Bytes(severity)) => drop(text(severity)?),
            (5, Field::Bytes(inner)) => any_value(fields.within(inner)?, &mut record.body)?,
            (6, Field::Bytes(pair)) => attribute(fields.within(pair)?, &mut record.attributes)?,
            (9, Field::Bytes(id)) => record.trace_id = hex(id).into(),
            (10, Field::Bytes(id)) => record.span_id = hex(id).into(),
            (11, Field::Fixed64(time)) => record.observed_ns = time.to_string(),
            (12, Field::Bytes(name)) => record.event_name = text(name)?.into(),
            _ => {}
        }
    }
    Ok(record)
}

/// Read a request of logs in JSON.
pub fn json(data: &[u8]) -> Result<Logs, Fault> {
    let data = if memchr::memmem::find(data, b"\"resource_logs\"").is_some() {
        Cow::Owned(camel_case(data))
    } else {
        Cow::Borrowed(data)
    };
    // Few requests are read twice.
    json_request(&data).or_else(|_| json_request(&with_whole_escapes(&data)))
}

fn json_request(data: &[u8]) -> Result<Logs, Fault> {
    let mut out = Logs::default();
    let mut json = Json::new(data);
    object(&mut json, true, |json, name| {
        if name != b"resourceLogs" {
            return json.skip();
        }
        out = Logs::default();
        let read = list(json, |json| json_resource_logs(json, &mut out));
        read.map_err(|fault| fault.within("resourceLogs"))
    })?;
    json.end()?;
    Ok(out)
}

fn json_resource_logs(json: &mut Json<'_>, out: &mut Logs) -> Result<(), Fault> {
    let mut resource = Map::default();
    let place = out.resources.len();
    out.resources.push(String::new());
    object(json, true, |json, name| match name {
        b"resource" => {
            let read = object(json, false, |json, name| {
                if name != b"attributes" {
                    return json.skip();
                }
                let read = attributes(json, &mut Numbers::default());
                read.map(|read| resource = read)
                    .map_err(|fault| fault.within("attributes"))
            });
            read.map(drop).map_err(|fault| fault.within("resource"))
        }
        b"scopeLogs" => {
            let read = list(json, |json| json_scope_logs(json, place, out));
            read.map_err(|fault| fault.within("scopeLogs"))
        }
        _ => json.skip(),
    })?;
    let mut json = Vec::new();
    write_map(&resource, &mut json);
    out.resources[place] = String::from_utf8(json).map_err(|_| Fault::NotUtf8)?;
    Ok(())
}

fn json_scope_logs(json: &mut Json<'_>, resource: usize, out: &mut Logs) -> Result<(), Fault> {
    let place = out.sources.len();
    out.sources.push((resource, None));
    object(json, true, |json, name| match name {
        b"scope" => {
            let read = object(json, false, |json, name| {
                if name != b"name" {
                    return json.skip();
                }
                let name = json_messages::text(json).map_err(|fault| fault.within("name"))?;
                out.sources[place].1 = name.map(Cow::into_owned);
                Ok(())
            });
            read.map(drop).map_err(|fault| fault.within("scope"))
        }
        b"logRecords" => {
            let read = list(json, |json| {
                let record = json_record(json)?;
                out.add(&record);
                Ok(())
            });
            read.map_err(|fault| fault.within("logRecords"))
        }
        _ => json.skip(),
    })
    .map(drop)
}

fn json_record<'a>(json: &mut Json<'a>) -> Result<Record<'a>, Fault> {
    let mut record = Record::default();
    let mut numbers = Numbers::default();
    let (mut time, mut observed) = (None, None);
    object(json, true, |json, name| {
        let text = json_messages::text;
        let (name, read) = match name {
            b"timeUnixNano" => ("timeUnixNano", whole(json).map(|read| time = read)),
            b"observedTimeUnixNano" => (
                "observedTimeUnixNano",
                whole(json).map(|read| observed = read),
            ),
            b"traceId" => (
                "traceId",
                text(json).map(|id| record.trace_id = id.unwrap_or_default()),
            ),
            b"spanId" => (
                "spanId",
                text(json).map(|id| record.span_id = id.unwrap_or_default()),
            ),
            b"eventName" => {
                let read = text(json).map(|name| record.event_name = name.unwrap_or_default());
                ("eventName", read)
            }
            b"body" => (
                "body",
                json_value(json, &mut numbers).map(|read| record.body = read),
            ),
            b"attributes" => {
                let read = attributes(json, &mut numbers).map(|read| record.attributes = read);
                ("attributes", read)
            }
            _ => return json.skip(),
        };
        read.map_err(|fault| fault.within(name))
    })?;
    let times = [time, observed].map(integer);
    record.fault = times.iter().find_map(|time| time.as_ref().err().cloned());
    record.fault = record.fault.or(numbers.fault);
    [record.time_ns, record.observed_ns] = times.map(Result::unwrap_or_default);
    Ok(record)
}

impl Logs {
    fn add(&mut self, record: &Record<'_>) {
        let [time, observed, name, body, attributes, trace, span, fault] = &mut self.texts;
        time.push(Some(&record.time_ns));
        observed.push(Some(&record.observed_ns));
        name.push(Some(&record.event_name));
        body.write(|out| write_value(&record.body, out));
        attributes.write(|out| write_map(&record.attributes, out));
        trace.push(Some(&hex_id(&record.trace_id, TRACE_ID_DIGITS)));
        span.push(Some(&hex_id(&record.span_id, SPAN_ID_DIGITS)));
        fault.push(record.fault.as_deref());
        self.source.push(self.sources.len() as i64 - 1);
    }
}
