//! The way through a request in protobuf down to its spans, as far as the bytes lead.

/// ResourceSpans in a request.
pub const RESOURCE_SPANS: u128 = 1;
/// The resource in ResourceSpans.
pub const RESOURCE: u128 = 1;
/// ScopeSpans in ResourceSpans.
pub const SCOPE_SPANS: u128 = 2;
const RESOURCE_SCHEMA_URL: u128 = 3;
/// The scope in ScopeSpans.
pub const SCOPE: u128 = 1;
/// The spans in ScopeSpans.
pub const SPANS: u128 = 2;

const LENGTH: u8 = 2;
const CUT_OFF: &str = "the protobuf message is cut off";
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
        match walk.field() {
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

/// A message within another: the place of its bytes, and whether all of them are there.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The first byte.
    pub start: usize,
    /// The byte after the last that is there.
    pub stop: usize,
    /// Whether all bytes are there.
    pub is_whole: bool,
}

impl Part {
    /// All of the bytes.
    pub fn whole(data: &[u8]) -> Self {
        Self {
            start: 0,
            stop: data.len(),
            is_whole: true,
        }
    }

    /// The number of bytes.
    pub fn size(self) -> usize {
        self.stop - self.start
    }

    /// The way through its fields.
    pub fn walk(self, data: &[u8]) -> Walk<'_> {
        Walk {
            data,
            at: self.start,
            stop: self.stop,
        }
    }

    /// The messages under a number, up to where the bytes are not protobuf.
    pub fn parts(self, data: &[u8], number: u128) -> impl Iterator<Item = Part> {
        let mut walk = self.walk(data);
        std::iter::from_fn(move || {
            loop {
                match walk.field() {
                    Ok(Some((found, Some(part)))) if found == number => return Some(part),
                    Ok(Some(_)) => {}
                    _ => return None,
                }
            }
        })
    }
}

/// The way through the fields of a message that may be cut off.
pub struct Walk<'a> {
    data: &'a [u8],
    at: usize,
    stop: usize,
}

impl Walk<'_> {
    /// Whether there is more.
    pub fn goes_on(&self) -> bool {
        self.at < self.stop
    }

    /// The number of the next field, and its place if it has a length; `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u128, Option<Part>)>, String> {
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
