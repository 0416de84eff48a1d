//! A text as another text may write it: with other white space, and with escapes.

use super::text::{is_space, is_word};
use crate::patterns::next_place;

/// A text of which white space and escapes do not count.
pub struct Written {
    parts: Vec<Part>,
    // The first characters before a part that may be written in several ways.
    lead: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Char(char),
    // Backslashes in a row: one or more, because each reader of an escaped text takes some away.
    Escapes,
    // A quote with any number of backslashes before it.
    Quote,
    // White space, or escapes that stand for it.
    Gap,
}

// As many characters as few other texts begin with.
const LEAD_CHARS: usize = 16;
// A hostile text may be read in very many ways; the first of them are enough.
const ENDS_MAX: usize = 64;
// As many parts are compared until nothing more is looked for; only hostile texts need more.
const STEPS_MAX: usize = 50_000;

impl Written {
    /// Read a text, of which outer white space does not count.
    #[must_use]
    pub fn of(text: &str) -> Self {
        let mut parts = Vec::new();
        for word in text.split(is_space).filter(|word| !word.is_empty()) {
            if !parts.is_empty() {
                parts.push(Part::Gap);
            }
            for c in word.chars() {
                match c {
                    '\\' if parts.last() == Some(&Part::Escapes) => {}
                    '\\' => parts.push(Part::Escapes),
                    '"' => parts.push(Part::Quote),
                    c => parts.push(Part::Char(c)),
                }
            }
        }
        let lead = parts.iter().map_while(|part| match part {
            Part::Char(c) => Some(*c),
            _ => None,
        });
        Self {
            lead: lead.take(LEAD_CHARS).collect(),
            parts,
        }
    }

    /// Put a name in the place of this text wherever another text has it at the start of a word.
    ///
    /// `end` chooses where a place ends, of all possible ends, the furthest first.
    pub fn replaced(
        &self,
        text: String,
        name: &str,
        end: impl Fn(&str, &[usize]) -> Option<usize>,
    ) -> String {
        let (mut made, mut copied, mut at) = (String::new(), 0, 0);
        let mut steps = STEPS_MAX;
        while let Some(start) = text
            .get(at..)
            .and_then(|rest| Some(at + rest.find(&self.lead)?))
        {
            let is_inside = text[..start].ends_with(is_word);
            let found = if is_inside {
                Vec::new()
            } else {
                self.ends(&text, start, &mut steps)
            };
            match end(&text, &found) {
                Some(end) => {
                    made += &text[copied..start];
                    made += name;
                    (copied, at) = (end, end);
                }
                None => at = next_place(&text, start),
            }
        }
        if copied == 0 {
            text
        } else {
            made + &text[copied..]
        }
    }

    /// Where this text may end in another if it begins at a place, the furthest first.
    fn ends(&self, text: &str, start: usize, steps: &mut usize) -> Vec<usize> {
        let (mut ends, mut next) = (vec![start], Vec::new());
        for part in &self.parts {
            *steps = steps.saturating_sub(ends.len());
            for end in ends.drain(..).filter(|_| *steps > 0) {
                part.add_ends(text, end, &mut next);
            }
            if next.len() > 1 {
                next.sort_unstable_by(|a, b| b.cmp(a));
                next.dedup();
                next.truncate(ENDS_MAX);
            }
            std::mem::swap(&mut ends, &mut next);
            if ends.is_empty() {
                break;
            }
        }
        ends
    }
}

impl Part {
    /// Add where this part may end if it begins at a place.
    fn add_ends(self, text: &str, at: usize, ends: &mut Vec<usize>) {
        let rest = &text[at..];
        match self {
            Self::Char(c) if rest.starts_with(c) => ends.push(at + c.len_utf8()),
            Self::Char(_) => {}
            Self::Escapes => ends.extend((1..=escapes(rest)).rev().take(ENDS_MAX).map(|n| at + n)),
            Self::Quote => {
                let count = escapes(rest);
                if rest[count..].starts_with('"') {
                    ends.push(at + count + 1);
                }
            }
            Self::Gap => {
                let mut end = at;
                while let Some(length) = blank(&text[end..]) {
                    end += length;
                    ends.push(end);
                }
            }
        }
    }
}

/// How many backslashes a text begins with.
fn escapes(text: &str) -> usize {
    text.bytes().take_while(|byte| *byte == b'\\').count()
}

/// How long the white space is at the head of a text, or the escape that stands for it.
fn blank(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if is_space(first) {
        return Some(first.len_utf8());
    }
    let second = text.as_bytes().get(1)?;
    (first == '\\' && matches!(second, b'n' | b'r' | b't')).then_some(2)
}
