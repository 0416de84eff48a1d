//! An export request in OTLP/protobuf: from its bytes down to its spans.
//!
//! Bytes that are not protobuf often fail in many places, so the first of these is told.

use std::fmt;
use std::sync::Arc;

use crate::wire::bounds::{Bounds, Budget, OverBounds, Problem, grouped};
use crate::wire::proto_messages::{resource, scope_name, span};
use crate::wire::proto_walk::{Part, Piece, RESOURCE, RESOURCE_SPANS, SCOPE, SCOPE_SPANS, SPANS};
use crate::wire::protobuf::{Corrupt, Fields};
use crate::wire::read::Read;
use crate::wire::span::Service;
use crate::wire::value::Map;

const MEND: &str = "export it again";
const UNDECODABLE: &str = "it is not the expected protobuf, not UTF-8, or nested too deep";

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
        while walk.goes_on() {
            budget.count_piece(0)?;
            if !matches!(walk.field(), Ok(Some(_))) {
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
        let mut service = Service::default();
        for source in part.parts(self.request.data, RESOURCE) {
            let at = Place {
                end: End::Source,
                ..place
            };
            if let Some(bytes) = self.source(source, at)? {
                match service_of(bytes) {
                    Ok(named) => service = named.or(service),
                    Err(Corrupt) => self.leave_out(at, UNDECODABLE),
                }
            }
        }
        self.out.block.set_service(service);
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
            if walk.goes_on() {
                self.out.count_piece()?;
            }
            match walk.field() {
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

fn service_of(message: &[u8]) -> Result<Service, Corrupt> {
    let mut attributes = Map::default();
    resource(Fields::new(message), &mut attributes)?;
    Ok(Service::of(&attributes))
}
