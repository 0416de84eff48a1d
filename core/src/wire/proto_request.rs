//! An export request in OTLP/protobuf: from its bytes down to its spans.
//!
//! Bytes that are not protobuf often fail in many places, so the first of these is told.

use std::fmt;
use std::sync::Arc;

use crate::wire::bounds::{Bounds, Budget, OverBounds, Problem, grouped};
use crate::wire::proto_messages::{resource, scope_name, span};
use crate::wire::protobuf::{Corrupt, Fields};
use crate::wire::read::Read;
use crate::wire::span::service_name;
use crate::wire::value::Map;

// The numbers of the fields on the way to a span: in the request, in ResourceSpans, in ScopeSpans.
const RESOURCE_SPANS: u128 = 1;
const RESOURCE: u128 = 1;
const SCOPE_SPANS: u128 = 2;
const RESOURCE_SCHEMA_URL: u128 = 3;
const SCOPE: u128 = 1;
const SPANS: u128 = 2;

const LENGTH: u8 = 2;
const CUT_OFF: &str = "the protobuf message is cut off";
const MEND: &str = "export it again";
const UNDECODABLE: &str = "it is not the expected protobuf, not UTF-8, or nested too deep";

/// Some of the bytes of a request, and the number of the first ResourceSpans among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The first byte.
    pub start: usize,
    /// The byte after the last.
    pub stop: usize,
    /// How many ResourceSpans stand before it.
    pub first: usize,
}

/// A request that is read: a source, its bytes, and whether all of them are there.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// The name of the source, with the number of the message.
    pub place: Arc<str>,
    /// The bytes.
    pub data: &'a [u8],
    /// Which of them are read.
    pub piece: Piece,
    /// Whether it ends as it should; of one that does not, somebody else tells so.
    pub is_whole: bool,
}

/// Whether bytes begin like an export request: with ResourceSpans that are not empty.
pub fn begins(head: &[u8]) -> bool {
    let mut walk = Walk {
        data: head,
        at: 0,
        stop: head.len(),
    };
    let (Ok(tag), Ok(size)) = (walk.varint(), walk.varint()) else {
        return false;
    };
    if size == 0 {
        return tag == RESOURCE_SPANS << 3 | u128::from(LENGTH);
    }
    let fields = [RESOURCE, SCOPE_SPANS, RESOURCE_SCHEMA_URL];
    let inner = fields.map(|number| number << 3 | u128::from(LENGTH));
    let is_inner = walk.varint().is_ok_and(|tag| inner.contains(&tag));
    tag == RESOURCE_SPANS << 3 | u128::from(LENGTH) && is_inner
}

/// Cut a request between its ResourceSpans into pieces of `bytes_min` bytes or some more, each a
/// request of its own. It is one piece where its bytes are no request.
pub fn pieces(data: &[u8], bytes_min: usize) -> Vec<Piece> {
    let (mut pieces, mut start, mut count, mut first) = (Vec::new(), 0, 0, 0);
    let whole = Part::whole(data);
    let mut walk = whole.walk(data);
    loop {
        match walk.next() {
            Ok(Some((number, Some(part)))) => {
                count += usize::from(number == RESOURCE_SPANS);
                if part.stop - start >= bytes_min {
                    let stop = part.stop;
                    pieces.push(Piece { start, stop, first });
                    (start, first) = (stop, count);
                }
            }
            Ok(Some((_, None))) => {}
            Ok(None) => break,
            Err(_) => {
                return vec![Piece {
                    start: 0,
                    stop: data.len(),
                    first: 0,
                }];
            }
        }
    }
    if start < data.len() || pieces.is_empty() {
        let stop = data.len();
        pieces.push(Piece { start, stop, first });
    }
    pieces
}

/// Read the spans of a request, and its problems.
pub fn spans(request: &Request<'_>, bounds: Bounds) -> Result<Read, OverBounds> {
    let mut reading = Reading {
        request,
        out: Read::new(bounds),
        error: None,
    };
    reading.request()?;
    let mut out = reading.out;
    if let (Some(error), true) = (reading.error, request.is_whole) {
        let why = format!("{error}; {MEND}");
        out.problems.push(Problem::new(&request.place, why));
    }
    Ok(out.finished())
}

/// Refuse a request of logs that is over the bounds, before it is decoded.
///
/// All signals have resources, scopes and items under spans' numbers.
pub fn check(data: &[u8], bounds: Bounds) -> Result<(), OverBounds> {
    let mut budget = Budget::new(bounds);
    let mut count = |part: Part| {
        let mut walk = part.walk(data);
        while walk.at < walk.stop {
            budget.count_piece(0)?;
            if !matches!(walk.next(), Ok(Some(_))) {
                break;
            }
        }
        Ok(part)
    };
    let mut items = 0;
    let whole = count(Part::whole(data))?;
    for of_resource in whole.parts(data, RESOURCE_SPANS) {
        let of_resource = count(of_resource)?;
        let resources = of_resource.parts(data, RESOURCE).map(Part::size);
        let mut largest = resources.max().unwrap_or_default();
        for of_scope in of_resource.parts(data, SCOPE_SPANS) {
            for record in count(of_scope)?.parts(data, SPANS) {
                largest = largest.max(record.size());
                items += 1;
            }
        }
        if items > bounds.spans_max || largest > bounds.span_bytes_max {
            return Err(OverBounds(format!(
                "a request may have {} records of {} bytes; send smaller batches",
                grouped(bounds.spans_max),
                grouped(bounds.span_bytes_max)
            )));
        }
    }
    Ok(())
}

/// A message within another: the place of its bytes, and whether all of them are there.
#[derive(Clone, Copy, Debug)]
struct Part {
    start: usize,
    stop: usize,
    is_whole: bool,
}

impl Part {
    fn whole(data: &[u8]) -> Self {
        Self {
            start: 0,
            stop: data.len(),
            is_whole: true,
        }
    }

    fn size(self) -> usize {
        self.stop - self.start
    }

    fn walk(self, data: &[u8]) -> Walk<'_> {
        Walk {
            data,
            at: self.start,
            stop: self.stop,
        }
    }

    /// The messages under a number, up to where the bytes are not protobuf.
    fn parts(self, data: &[u8], number: u128) -> impl Iterator<Item = Part> {
        let mut walk = self.walk(data);
        std::iter::from_fn(move || {
            loop {
                match walk.next() {
                    Ok(Some((found, Some(part)))) if found == number => return Some(part),
                    Ok(Some(_)) => {}
                    _ => return None,
                }
            }
        })
    }
}

/// The way through the fields of a message that may be cut off.
struct Walk<'a> {
    data: &'a [u8],
    at: usize,
    stop: usize,
}

impl Walk<'_> {
    /// The number of the next field, and its place if it has a length; `None` at the end.
    fn next(&mut self) -> Result<Option<(u128, Option<Part>)>, String> {
        if self.at >= self.stop {
            let is_over = self.at > self.stop;
            return if is_over {
                Err(CUT_OFF.to_owned())
            } else {
                Ok(None)
            };
        }
        let tag = self.varint()?;
        let (number, kind) = (tag >> 3, (tag & 7) as u8);
        let part = match kind {
            0 => {
                self.varint()?;
                None
            }
            1 | 5 => {
                self.at += if kind == 1 { 8 } else { 4 };
                None
            }
            LENGTH => {
                let size = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
                let start = self.at;
                self.at = start.saturating_add(size);
                Some(Part {
                    start,
                    stop: self.at.min(self.stop),
                    is_whole: self.at <= self.stop,
                })
            }
            _ => return Err(format!("not protobuf at byte {}", self.at)),
        };
        Ok(Some((number, part)))
    }

    /// A number that ends with the first byte below 128.
    fn varint(&mut self) -> Result<u128, String> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            if self.at >= self.stop {
                return Err(CUT_OFF.to_owned());
            }
            let byte = self.data[self.at];
            self.at += 1;
            value |= u128::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(format!("not protobuf at byte {}", self.at))
    }
}

/// The place of a part of a request, in words.
#[derive(Clone, Copy)]
struct Place {
    resource: usize,
    scope: Option<usize>,
    end: End,
}

#[derive(Clone, Copy)]
enum End {
    Itself,
    Source,
    Span(usize),
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "resourceSpans[{}]", self.resource)?;
        if let Some(scope) = self.scope {
            write!(out, ".scopeSpans[{scope}]")?;
        }
        match self.end {
            End::Itself => Ok(()),
            End::Source if self.scope.is_some() => out.write_str(".scope"),
            End::Source => out.write_str(".resource"),
            End::Span(number) => write!(out, ".spans[{number}]"),
        }
    }
}

struct Reading<'a> {
    request: &'a Request<'a>,
    out: Read,
    error: Option<String>,
}

impl<'a> Reading<'a> {
    fn request(&mut self) -> Result<(), OverBounds> {
        let piece = self.request.piece;
        let whole = Part {
            start: piece.start,
            stop: piece.stop,
            is_whole: self.request.is_whole,
        };
        self.count_fields(whole, || "the request".to_owned())?;
        let parts = whole.parts(self.request.data, RESOURCE_SPANS);
        for (number, part) in parts.enumerate() {
            self.resource_spans(part, piece.first + number)?;
        }
        Ok(())
    }

    fn resource_spans(&mut self, part: Part, resource: usize) -> Result<(), OverBounds> {
        let place = Place {
            resource,
            scope: None,
            end: End::Itself,
        };
        self.count_fields(part, || place.to_string())?;
        let mut service = None;
        for source in part.parts(self.request.data, RESOURCE) {
            let at = Place {
                end: End::Source,
                ..place
            };
            if let Some(bytes) = self.source(source, at)? {
                match service_of(bytes) {
                    Ok(name) => service = name.or(service),
                    Err(Corrupt) => self.leave_out(at, UNDECODABLE),
                }
            }
        }
        self.out.block.set_service(service.as_deref());
        for (number, of_scope) in part.parts(self.request.data, SCOPE_SPANS).enumerate() {
            let scope = Some(number);
            self.scope_spans(of_scope, Place { scope, ..place })?;
        }
        Ok(())
    }

    fn scope_spans(&mut self, part: Part, place: Place) -> Result<(), OverBounds> {
        self.count_fields(part, || place.to_string())?;
        let mut scope = None;
        for source in part.parts(self.request.data, SCOPE) {
            let at = Place {
                end: End::Source,
                ..place
            };
            if let Some(bytes) = self.source(source, at)? {
                let mut name = None;
                match scope_name(Fields::new(bytes), &mut name) {
                    Ok(()) => scope = name.or(scope),
                    Err(Corrupt) => self.leave_out(at, UNDECODABLE),
                }
            }
        }
        self.out.block.set_scope(scope);
        for (number, part) in part.parts(self.request.data, SPANS).enumerate() {
            let at = Place {
                end: End::Span(number),
                ..place
            };
            if let Some(bytes) = self.source(part, at)? {
                let added = match span(bytes) {
                    Ok(span) => self.out.add(&span, &self.request.place),
                    Err(Corrupt) => Err(UNDECODABLE),
                };
                added.unwrap_or_else(|why| self.leave_out(at, why));
            }
        }
        Ok(())
    }

    /// The bytes of a part, counted; `None` where it is cut off, which is told of what is around
    /// it, or too large.
    fn source(&mut self, part: Part, at: Place) -> Result<Option<&'a [u8]>, OverBounds> {
        if !part.is_whole {
            return Ok(None);
        }
        self.out.count_piece()?;
        if let Err(why) = self.out.bounds().check_size(part.size()) {
            self.leave_out(at, &why);
            return Ok(None);
        }
        Ok(Some(&self.request.data[part.start..part.stop]))
    }

    fn leave_out(&mut self, at: Place, why: &str) {
        let is_span = matches!(at.end, End::Span(_));
        self.out
            .leave_out(&self.request.place, &at.to_string(), why, is_span);
    }

    /// Count the fields of a message; its first fault is kept, unless it is known to be cut off.
    fn count_fields(&mut self, part: Part, name: impl Fn() -> String) -> Result<(), OverBounds> {
        let mut walk = part.walk(self.request.data);
        loop {
            if walk.at < walk.stop {
                self.out.count_piece()?;
            }
            match walk.next() {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(error) => {
                    if part.is_whole && self.error.is_none() {
                        self.error = Some(format!("{}: {error}", name()));
                    }
                    return Ok(());
                }
            }
        }
    }
}

fn service_of(message: &[u8]) -> Result<Option<String>, Corrupt> {
    let mut attributes = Map::default();
    resource(Fields::new(message), &mut attributes)?;
    Ok(service_name(&attributes).map(std::borrow::Cow::into_owned))
}
