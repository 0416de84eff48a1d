//! Spans as columns, in the order of the table of spans.

use crate::wire::span::{Row, Service, Span};

/// The most bytes of one text, as Arrow counts them.
const TEXT_BYTES_MAX: usize = i32::MAX as usize;

/// The bytes of a column that stand in one buffer, and a text more.
const BUFFER_BYTES: usize = 1 << 30;

/// Where a text is: the buffer, the first byte, the number of bytes.
pub type Place = (u32, u32, u32);

/// A column of texts: their bytes, and the place of each, so that many can be one.
#[derive(Debug, Default)]
pub struct Texts {
    full: Vec<Vec<u8>>,
    bytes: Vec<u8>,
    places: Vec<Option<Place>>,
}

impl Texts {
    /// The buffers with the bytes of all texts, in UTF-8, and the places.
    ///
    /// Many blocks wait for the turns to be made, and a buffer that grew has room for as much again.
    pub fn into_parts(mut self) -> (Vec<Vec<u8>>, Vec<Option<Place>>) {
        self.bytes.shrink_to_fit();
        self.full.push(self.bytes);
        (self.full, self.places)
    }

    /// Add a text.
    pub fn push(&mut self, text: Option<&str>) {
        let place = self.shared(text);
        self.places.push(place);
    }

    /// Write a text that has no place of its own yet.
    fn shared(&mut self, text: Option<&str>) -> Option<Place> {
        text.map(|text| self.written(|out| out.extend_from_slice(text.as_bytes())).0)
    }

    /// Add the text that `write` appends to the bytes.
    pub fn write<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        let (place, said) = self.written(write);
        self.places.push(Some(place));
        said
    }

    fn written<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> (Place, T) {
        if self.bytes.len() > BUFFER_BYTES {
            self.full.push(std::mem::take(&mut self.bytes));
        }
        let from = self.bytes.len();
        let said = write(&mut self.bytes);
        let place = (self.full.len(), from, self.bytes.len() - from);
        ((place.0 as u32, place.1 as u32, place.2 as u32), said)
    }

    /// The bytes of the last text.
    fn last_size(&self) -> usize {
        self.places
            .last()
            .copied()
            .flatten()
            .map_or(0, |place| place.2 as usize)
    }

    fn undo(&mut self) {
        if let Some((_, from, _)) = self.places.pop().flatten() {
            self.bytes.truncate(from as usize);
        }
    }
}

/// Spans as columns.
#[derive(Debug, Default)]
pub struct Block {
    /// trace_id, span_id, parent_span_id, name, status_message
    pub named: [Texts; 5],
    /// Nanoseconds since 1970.
    pub start_ns: Vec<i64>,
    /// Nanoseconds since 1970.
    pub end_ns: Vec<i64>,
    /// 0 unset, 1 ok, 2 error, -1 an event of a log record
    pub status: Vec<i8>,
    /// service, scope
    pub sources: [Texts; 2],
    /// attributes, events, links, as JSON
    pub content: [Texts; 3],
    source: [Option<Place>; 2],
    version: Option<String>, // of the service
}

impl Block {
    /// The number of spans.
    pub fn height(&self) -> usize {
        self.status.len()
    }

    /// The service of the spans that come next, whose name is kept once for all of them.
    pub fn set_service(&mut self, service: Service) {
        self.source[0] = self.sources[0].shared(service.name.as_deref());
        self.version = service.version;
    }

    /// The scope of the spans that come next, which is kept once for all of them.
    pub fn set_scope(&mut self, scope: Option<&str>) {
        self.source[1] = self.sources[1].shared(scope);
    }

    /// Add a span, unless its attributes or events are deeper than `depth_max` levels.
    ///
    /// Errors say why it was not added.
    pub fn push(&mut self, span: &Span<'_>, row: &Row, depth_max: usize) -> Result<(), Refused> {
        let [attributes, events, links] = &mut self.content;
        let version = self.version.as_deref();
        let deepest = attributes.write(|out| span.write_attributes(version, out));
        let deepest = deepest.max(events.write(|out| span.write_events(out)));
        links.write(|out| span.write_links(out));
        let is_too_long = self
            .content
            .iter()
            .any(|column| column.last_size() > TEXT_BYTES_MAX);
        if deepest > depth_max || is_too_long {
            self.content.iter_mut().for_each(Texts::undo);
            return Err(if is_too_long {
                Refused::TooLong
            } else {
                Refused::TooDeep
            });
        }
        let message = Some(&*span.status_message).filter(|message| !message.is_empty());
        let named = [
            Some(row.trace_id.as_str()),
            Some(&row.span_id),
            row.parent_span_id.as_deref(),
            Some(&span.name),
            message,
        ];
        for (column, text) in self.named.iter_mut().zip(named) {
            column.push(text);
        }
        for (column, place) in self.sources.iter_mut().zip(self.source) {
            column.places.push(place);
        }
        self.start_ns.push(row.start_ns);
        self.end_ns.push(row.end_ns);
        self.status.push(row.status);
        Ok(())
    }
}

/// Why a span is not in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// Its attributes or events are nested too deep.
    TooDeep,
    /// Its attributes or events are longer than a text can be.
    TooLong,
}
