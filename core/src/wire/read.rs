//! The result of reading a request: its spans, and what is wrong with it.

use std::sync::Arc;

use crate::wire::block::{Block, Refused};
use crate::wire::bounds::{Bounds, Budget, OverBounds, Problem};
use crate::wire::span::Span;

/// What was read of a request so far.
#[derive(Debug)]
pub struct Read {
    /// The spans.
    pub block: Block,
    /// The parts that could not be read, in their order.
    pub problems: Vec<Problem>,
    /// How many attributes each span has lost that lost any.
    pub cut: Vec<i64>,
    deep: Vec<Problem>,
    budget: Budget,
}

impl Read {
    /// Nothing yet.
    pub fn new(bounds: Bounds) -> Self {
        Self {
            block: Block::default(),
            problems: Vec::new(),
            cut: Vec::new(),
            deep: Vec::new(),
            budget: Budget::new(bounds),
        }
    }

    /// The bounds of the request.
    pub fn bounds(&self) -> &Bounds {
        self.budget.bounds()
    }

    /// Count one more part of the request before it is read.
    pub fn count_piece(&mut self) -> Result<(), OverBounds> {
        let spans = self.block.height() + self.deep.len() + self.problems.len();
        self.budget.count_piece(spans)
    }

    /// Add a span. Errors say why it is none.
    pub fn add(&mut self, span: &Span<'_>, place: &Arc<str>) -> Result<(), &'static str> {
        let row = span.row()?;
        let depth_max = self.bounds().depth_max;
        match self.block.push(span, &row, depth_max) {
            Ok(()) => {}
            Err(Refused::TooLong) => return Err("it is too long for a text"),
            Err(Refused::TooDeep) => {
                let why = format!(
                    "span {} was left out: nested more than {depth_max} deep",
                    row.span_id
                );
                self.deep.push(Problem::of_span(place, why));
            }
        }
        if span.attributes_lost != 0 {
            self.cut.push(span.attributes_lost);
        }
        Ok(())
    }

    /// Note a part that was left out.
    pub fn leave_out(&mut self, place: &Arc<str>, part: &str, why: &str, is_span: bool) {
        let why = format!("{part} was left out: {why}; correct what wrote it");
        self.problems.push(Problem {
            is_span,
            ..Problem::new(place, why)
        });
    }

    /// The result: spans that are too deep are told last.
    pub fn finished(mut self) -> Self {
        self.problems.append(&mut self.deep);
        self
    }
}
