//! How much of a request is read, and what is said of the rest.

use std::sync::Arc;

/// Parts of a request for each span that it may have, where each span has a resource of its own.
const PIECES_A_SPAN: usize = 10;

/// A part of the input that could not be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The source, and the line or message in it.
    pub place: Arc<str>,
    /// The reason, with the place in the request.
    pub why: String,
    /// Whether the part is one span, which costs nothing but itself.
    pub is_span: bool,
    /// Whether the part is no OTLP at all.
    pub is_foreign: bool,
}

impl Problem {
    /// A part that is neither a span nor of another form.
    pub fn new(place: &Arc<str>, why: String) -> Self {
        Self {
            place: place.clone(),
            why,
            is_span: false,
            is_foreign: false,
        }
    }

    /// A part that is no OTLP at all.
    pub fn foreign(place: &Arc<str>, why: String) -> Self {
        Self {
            is_foreign: true,
            ..Self::new(place, why)
        }
    }

    /// A part that is one span.
    pub fn of_span(place: &Arc<str>, why: String) -> Self {
        Self {
            is_span: true,
            ..Self::new(place, why)
        }
    }
}

/// The request exceeds a bound; the text says which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OverBounds(pub String);

/// How much of one request is read; files are read whole.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Spans, good and bad ones.
    pub spans_max: usize,
    /// Bytes of a span, or of what it shares with others.
    pub span_bytes_max: usize,
    /// The levels of JSON that a span's attributes or events may have.
    pub depth_max: usize,
}

impl Bounds {
    /// No bounds, as for files.
    pub const NONE: Self = Self {
        spans_max: usize::MAX,
        span_bytes_max: usize::MAX,
        depth_max: usize::MAX,
    };

    /// Why a part of so many bytes is not read, if it is not.
    pub fn check_size(&self, size: usize) -> Result<(), String> {
        if size <= self.span_bytes_max {
            return Ok(());
        }
        Err(format!(
            "it has {} bytes, and a span may have {}",
            grouped(size),
            grouped(self.span_bytes_max)
        ))
    }
}

/// What is left of the bounds of a request while it is read.
#[derive(Debug)]
pub struct Budget {
    bounds: Bounds,
    pieces_left: usize,
}

impl Budget {
    /// All of the bounds.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            bounds,
            pieces_left: bounds.spans_max.saturating_mul(PIECES_A_SPAN),
        }
    }

    /// The bounds.
    pub fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// Count one more part of the input before it is read; `spans` were read so far, good or bad.
    ///
    /// Empty parts cost two bytes each, so that a small request could be a million of them.
    pub fn count_piece(&mut self, spans: usize) -> Result<(), OverBounds> {
        if spans >= self.bounds.spans_max || self.pieces_left == 0 {
            return Err(OverBounds(format!(
                "a request may have {} spans; send smaller batches",
                grouped(self.bounds.spans_max)
            )));
        }
        self.pieces_left -= 1;
        Ok(())
    }
}

/// A number with a comma before each three digits.
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() * 4 / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_grouped() {
        let texts = [0, 999, 1_000, 12_345_678].map(grouped);
        assert_eq!(texts, ["0", "999", "1,000", "12,345,678"]);
    }

    #[test]
    fn pieces_end() {
        let mut budget = Budget::new(Bounds {
            spans_max: 2,
            ..Bounds::NONE
        });
        assert!((0..20).all(|_| budget.count_piece(1).is_ok()));
        assert!(budget.count_piece(1).is_err());
        assert!(Budget::new(Bounds::NONE).count_piece(1 << 40).is_ok());
    }
}
