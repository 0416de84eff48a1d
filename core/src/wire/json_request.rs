//! Export requests in OTLP/JSON: a request, or a document with one or with an array of them.
//!
//! A document that is not JSON as a whole is read as far as it can be.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::wire::bounds::{Bounds, OverBounds, Problem};
use crate::wire::json::{Fault, Json};
use crate::wire::json_messages::{Numbers, attributes, object, raws, span, text};
use crate::wire::json_text::{
    begins_document, camel_case, foreign_names, readable_prefix, request_starts, with_whole_escapes,
};
use crate::wire::read::Read;
use crate::wire::span::Service;

/// The problem of a document whose end is missing.
pub const CUT_OFF: &str = "the JSON is cut off; export it again to get the rest";

// A hundred attributes have two hundred, so that a small request cannot be a million of them.
const OBJECTS_A_SPAN: usize = 200;
const GIVE_OTLP: &str = "give OTLP, or an export that looptrace reads (docs/inputs.md)";
const JUNK_BEFORE: &str = "the text before the export request is not JSON; remove it";
const MEND: &str = "correct it or export it again";
const BLANK: &[u8] = b" \t\r\n";

/// Why reading stops.
#[derive(Debug)]
pub enum Stop {
    /// The text is not as it should be.
    Fault(Fault),
    /// There is more of it than is read.
    Over(OverBounds),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

impl From<OverBounds> for Stop {
    fn from(over: OverBounds) -> Self {
        Self::Over(over)
    }
}

/// A document: its source, the number of its first line, and why it is incomplete, if it is.
#[derive(Clone, Debug)]
pub struct Document<'a> {
    /// The name of the source.
    pub name: &'a str,
    /// The number of its first line.
    pub line: usize,
    /// Its text.
    pub data: &'a [u8],
    /// Why its end is missing.
    pub problem: Option<&'a str>,
}

/// Check that a request of any signal has not too many objects.
pub fn check(data: &[u8], bounds: Bounds) -> Result<(), OverBounds> {
    let objects_max = bounds.spans_max.saturating_mul(OBJECTS_A_SPAN);
    if memchr::memchr_iter(b'{', data).count() > objects_max {
        return Err(OverBounds(
            "the request has more JSON objects than allowed".to_owned(),
        ));
    }
    Ok(())
}

/// Read the spans of a complete request, and its problems.
pub fn request(data: &[u8], place: &str, bounds: Bounds) -> Result<Read, Stop> {
    check(data, bounds)?;
    let mut out = Read::new(bounds);
    let place = place.into();
    match read(data, &place, &mut out) {
        // No span was read yet, and few requests get here.
        Err(Stop::Fault(_)) => read(&with_whole_escapes(data), &place, &mut out)?,
        done => done?,
    }
    Ok(out.finished())
}

/// Read the spans of a document, and its problems.
pub fn document(document: &Document<'_>) -> Result<Read, OverBounds> {
    let mut out = Read::new(Bounds::NONE);
    let place: Arc<str> = format!("{}:{}", document.name, document.line).into();
    match requests(document.data, &place, &mut out) {
        Err(Stop::Fault(fault)) => recover(document, &place, &fault, &mut out)?,
        Err(Stop::Over(over)) => return Err(over),
        Ok(()) => {
            if let Some(problem) = document.problem {
                out.problems.push(Problem::new(&place, problem.to_owned()));
            }
        }
    }
    Ok(out.finished())
}

fn requests(data: &[u8], place: &Arc<str>, out: &mut Read) -> Result<(), Stop> {
    if !data.starts_with(b"[") {
        return read(data, place, out);
    }
    let mut json = Json::new(data);
    let items = raws(&mut json, Json::raw)?;
    json.end()?;
    for (index, item) in items.into_iter().enumerate() {
        let place: Arc<str> = format!("{place}[{index}]").into();
        match read(item, &place, out) {
            Err(Stop::Fault(fault)) => {
                let why = format!("not an OTLP export request: {fault}; {GIVE_OTLP}");
                out.problems.push(Problem::foreign(&place, why));
            }
            done => done?,
        }
    }
    Ok(())
}

/// The ResourceSpans of a request; `None` where it has no such field. Some write all of its fields
/// with underscores, and are not read then.
struct Top<'a> {
    resource_spans: Option<Vec<&'a [u8]>>,
    is_underscored: bool,
}

fn top(data: &[u8]) -> Result<Top<'_>, Fault> {
    let (mut resource_spans, mut is_underscored) = (None, false);
    let mut json = Json::new(data);
    object(&mut json, true, |json, name| match name {
        b"resourceSpans" => {
            let read = raws(json, Json::raw).map_err(|fault| fault.within("resourceSpans"));
            read.map(|read| resource_spans = Some(read))
        }
        b"resource_spans" => json.skip().map(|()| is_underscored = true),
        _ => json.skip(),
    })?;
    json.end()?;
    Ok(Top {
        resource_spans,
        is_underscored,
    })
}

fn read(data: &[u8], place: &Arc<str>, out: &mut Read) -> Result<(), Stop> {
    let mut camel = Vec::new();
    let mut read = top(data)?;
    if read.is_underscored {
        camel = camel_case(data);
        read = top(&camel)?;
    }
    let Some(parts) = read.resource_spans else {
        if let Some(names) = foreign_names(data)? {
            let why =
                format!("JSON, but not OTLP: it has no resourceSpans but {names}; {GIVE_OTLP}");
            out.problems.push(Problem::foreign(place, why));
        }
        return Ok(());
    };
    let mut reading = Reading { place, out };
    for (index, part) in parts.into_iter().enumerate() {
        reading.resource_spans(part, &format!("resourceSpans[{index}]"))?;
    }
    drop(camel);
    Ok(())
}

struct Reading<'a> {
    place: &'a Arc<str>,
    out: &'a mut Read,
}

impl Reading<'_> {
    fn resource_spans(&mut self, part: &[u8], at: &str) -> Result<(), OverBounds> {
        let Some((resource, scopes)) = self.piece(at, two(part, b"resource", b"scopeSpans"))?
        else {
            return Ok(());
        };
        let service = self
            .piece(&format!("{at}.resource"), service(resource))?
            .unwrap_or_default();
        self.out.block.set_service(service);
        for (index, part) in scopes.into_iter().enumerate() {
            self.scope_spans(part, &format!("{at}.scopeSpans[{index}]"))?;
        }
        Ok(())
    }

    fn scope_spans(&mut self, part: &[u8], at: &str) -> Result<(), OverBounds> {
        let Some((scope, spans)) = self.piece(at, two(part, b"scope", b"spans"))? else {
            return Ok(());
        };
        let scope = self
            .piece(&format!("{at}.scope"), scope_name(scope))?
            .flatten();
        self.out.block.set_scope(scope.as_deref());
        for (index, part) in spans.into_iter().enumerate() {
            self.out.count_piece()?;
            if let Err(why) = self.span(part) {
                let at = format!("{at}.spans[{index}]");
                self.out.leave_out(self.place, &at, &why, true);
            }
        }
        Ok(())
    }

    fn span(&mut self, part: &[u8]) -> Result<(), String> {
        self.out.bounds().check_size(part.len())?;
        let mut numbers = Numbers::default();
        let span = span(part, &mut numbers).map_err(|fault| fault.to_string())?;
        numbers.fault.map_or(Ok(()), Err)?;
        if let Some(late) = numbers.late_fault {
            return Err(span.row().map_or_else(str::to_owned, |_| late));
        }
        self.out.add(&span, self.place).map_err(str::to_owned)
    }

    /// A part of a request that was read; a bad one is told alone.
    fn piece<T>(&mut self, at: &str, read: Result<T, String>) -> Result<Option<T>, OverBounds> {
        self.out.count_piece()?;
        Ok(read
            .map_err(|why| self.out.leave_out(self.place, at, &why, false))
            .ok())
    }
}

type Two<'a> = (&'a [u8], Vec<&'a [u8]>);

/// The name of a field before version 0.15 of OTLP.
fn older(name: &[u8]) -> &[u8] {
    match name {
        b"scope" => b"instrumentationLibrary",
        b"scopeSpans" => b"instrumentationLibrarySpans",
        _ => name,
    }
}

/// The two fields of a message on the way to a span, not read yet: one, and many.
fn two<'a>(part: &'a [u8], one: &[u8], many: &[u8]) -> Result<Two<'a>, String> {
    let mut found: Two<'a> = (b"null", Vec::new());
    let mut json = Json::new(part);
    let read = object(&mut json, true, |json, name| {
        if name == one || name == older(one) {
            found.0 = json.raw_again()?;
        } else if name == many || name == older(many) {
            let name = String::from_utf8_lossy(many);
            found.1 = raws(json, Json::raw_again).map_err(|fault| fault.within(&name))?;
        } else {
            json.raw_again()?;
        }
        Ok(())
    });
    read.map(|_| found).map_err(|fault| fault.to_string())
}

fn service(resource: &[u8]) -> Result<Service, String> {
    let mut service = Service::default();
    let mut numbers = Numbers::default();
    let mut json = Json::new(resource);
    let read = object(&mut json, false, |json, name| {
        if name != b"attributes" {
            return json.skip();
        }
        let read = attributes(json, &mut numbers).map_err(|fault| fault.within("attributes"));
        service = Service::of(&read?);
        Ok(())
    });
    read.map_err(|fault| fault.to_string())?;
    numbers.fault.map_or(Ok(service), Err)
}

fn scope_name(scope: &[u8]) -> Result<Option<Cow<'_, str>>, String> {
    let mut scope_name = None;
    let mut json = Json::new(scope);
    let read = object(&mut json, false, |json, name| {
        if name != b"name" {
            return json.skip();
        }
        scope_name = text(json).map_err(|fault| fault.within("name"))?;
        Ok(())
    });
    read.map_err(|fault| fault.to_string())?;
    Ok(scope_name.filter(|name| !name.is_empty()))
}

/// Read the readable parts of a document that is not JSON as a whole, and tell of the rest.
fn recover(
    document: &Document<'_>,
    place: &Arc<str>,
    fault: &Fault,
    out: &mut Read,
) -> Result<(), OverBounds> {
    let data = document.data;
    let mut starts = request_starts(data);
    let Some(first) = starts.first().copied() else {
        out.problems.push(unreadable(document, place, fault));
        return Ok(());
    };
    let around = if data.starts_with(b"[") {
        &b" \t\r\n[,]"[..]
    } else {
        b" \t\r\n,"
    };
    if !stripped(&data[..first], around).is_empty() {
        out.problems
            .push(Problem::new(place, JUNK_BEFORE.to_owned()));
    }
    let mut line = document.line + lines(data, 0..first);
    starts.push(data.len());
    for ends in starts.windows(2) {
        let [start, stop] = *ends else { continue };
        let problem = document.problem.filter(|_| stop == data.len());
        let place = format!("{}:{line}", document.name).into();
        let request = right_stripped(&data[start..stop], around);
        recover_request(request, problem, &place, out)?;
        line += lines(data, start..stop);
    }
    Ok(())
}

fn lines(data: &[u8], part: Range<usize>) -> usize {
    memchr::memchr_iter(b'\n', &data[part]).count()
}

fn right_stripped<'a>(text: &'a [u8], bytes: &[u8]) -> &'a [u8] {
    let last = text.iter().rposition(|byte| !bytes.contains(byte));
    &text[..last.map_or(0, |last| last + 1)]
}

fn stripped<'a>(text: &'a [u8], bytes: &[u8]) -> &'a [u8] {
    let text = right_stripped(text, bytes);
    let first = text.iter().position(|byte| !bytes.contains(byte));
    &text[first.unwrap_or(text.len())..]
}

/// The problem of a document in which no export request begins.
fn unreadable(document: &Document<'_>, place: &Arc<str>, fault: &Fault) -> Problem {
    let is_control = |byte: &u8| *byte < b' ' && !BLANK.contains(byte);
    let is_json = begins_document(document.data) && !document.data.iter().any(is_control);
    let is_damaged = document.problem.is_some_and(|problem| problem != CUT_OFF);
    if is_damaged || is_json {
        let why = document.problem.map(str::to_owned);
        return Problem::new(place, why.unwrap_or_else(|| format!("{fault}; {MEND}")));
    }
    let why = format!("neither OTLP/JSON nor OTLP/protobuf; {GIVE_OTLP}");
    Problem::foreign(place, why)
}

/// Read a request up to where it is broken; `problem` is the reason, where it is known.
fn recover_request(
    request: &[u8],
    problem: Option<&str>,
    place: &Arc<str>,
    out: &mut Read,
) -> Result<(), OverBounds> {
    let request = with_whole_escapes(request);
    let mut problem = problem.map(str::to_owned);
    match read(&request, place, out) {
        Ok(()) => {}
        Err(Stop::Over(over)) => return Err(over),
        Err(Stop::Fault(fault)) => {
            let mut why = problem.unwrap_or_else(|| format!("{fault}; {MEND}"));
            let before = out.block.height();
            let stop = match fault {
                Fault::Malformed(_, byte) => byte.min(request.len()),
                _ => request.len(),
            };
            match read(&readable_prefix(&request, stop), place, out) {
                Err(Stop::Over(over)) => return Err(over),
                Ok(()) | Err(Stop::Fault(_)) => {} // What is wrong with the request is told here.
            }
            if out.block.height() > before {
                let spans = out.block.height() - before;
                why.push_str(&format!("; complete spans read from it: {spans}"));
            }
            problem = Some(why);
        }
    }
    if let Some(problem) = problem {
        out.problems.push(Problem::new(place, problem));
    }
    Ok(())
}
