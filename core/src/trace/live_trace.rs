//! The spans of one trace as they come, in order.

use std::collections::BTreeSet;

use foldhash::{HashMap, HashSet, HashSetExt};

use super::span::{Span, hash_of};

/// Spans of a trace that are held. A longer trace loses its oldest spans; their turns are told by
/// then.
pub const SPANS_PER_TRACE_MAX: usize = 2_000;
// So many go at once, because the rest must be gone through again.
const SPANS_CUT: usize = SPANS_PER_TRACE_MAX / 4;

#[derive(Debug)]
struct Held {
    span: Box<Span>, // the list is moved often
    number: u64,     // of the order in which they came
}

/// The spans of one trace so far.
#[derive(Debug, Default)]
pub struct LiveTrace {
    spans: Vec<Held>,                 // in order
    places: HashMap<u64, (i64, i64)>, // end and start of each, by a hash of its id
    above: Vec<Span>,
    next: u64,
    /// Characters that its spans are held for.
    pub chars: usize,
    /// Whether it has lost spans.
    pub is_cut: bool,
    /// The sessions in which it waits for results.
    pub waits_in: BTreeSet<String>,
    /// When it was touched.
    pub touched: u64,
    /// Spans that came since its turns were made.
    pub came: usize,
}

impl LiveTrace {
    /// How many spans are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether no span is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// The spans that ended, in order.
    #[must_use]
    pub fn ended(&self) -> Vec<&Span> {
        self.spans.iter().map(|held| &*held.span).collect()
    }

    /// The spans that are still open.
    #[must_use]
    pub fn above(&self) -> Vec<&Span> {
        self.above.iter().collect()
    }

    /// Take a span; if it comes again, the copy stays that files would keep: the one that ended
    /// last, else the one that says most. Returns the ids of spans that were lost for it, or else
    /// its place if it is new.
    pub fn hold(&mut self, span: Span) -> (HashSet<String>, Option<usize>) {
        let id = &span.fields.span_id;
        let open = self.above.len();
        self.above.retain(|open| open.fields.span_id != *id);
        let mut is_new = self.above.len() == open;
        let mut number = self.next;
        if let Some((end_ns, start_ns)) = self.places.get(&hash_of(id)).copied()
            && let Ok(place) = self.search(end_ns, start_ns, id)
        {
            let known = &self.spans[place].span;
            if (span.fields.end_ns, span.chars) < (end_ns, known.chars) || span.hash == known.hash {
                return (HashSet::new(), None);
            }
            is_new = false;
            number = self.spans[place].number;
            self.chars -= known.chars;
            self.spans.remove(place);
        }
        self.next += 1;
        let (end_ns, start_ns) = (span.fields.end_ns, span.fields.start_ns);
        self.places.insert(hash_of(id), (end_ns, start_ns));
        self.chars += span.chars;
        let place = self
            .search(end_ns, start_ns, id)
            .unwrap_or_else(|place| place);
        self.spans.insert(
            place,
            Held {
                span: Box::new(span),
                number,
            },
        );
        if self.spans.len() > SPANS_PER_TRACE_MAX {
            return (self.cut(), None);
        }
        (HashSet::new(), is_new.then_some(place))
    }

    /// A span that ended.
    #[must_use]
    pub fn at(&self, place: usize) -> &Span {
        &self.spans[place].span
    }

    /// A span by its id, and whether it ended.
    #[must_use]
    pub fn named(&self, id: &str) -> Option<(&Span, bool)> {
        let ended = self.places.get(&hash_of(id));
        let ended = ended.and_then(|(end_ns, start_ns)| self.search(*end_ns, *start_ns, id).ok());
        if let Some(place) = ended {
            return Some((self.at(place), true));
        }
        let open = self.above.iter().find(|open| open.fields.span_id == id)?;
        Some((open, false))
    }

    /// Whether another span has the times of this one.
    #[must_use]
    pub fn has_same_times(&self, place: usize) -> bool {
        let times = |held: &Held| (held.span.fields.end_ns, held.span.fields.start_ns);
        let others = [place.wrapping_sub(1), place + 1];
        let mut others = others.iter().filter_map(|other| self.spans.get(*other));
        others.any(|other| times(other) == times(&self.spans[place]))
    }

    fn search(&self, end_ns: i64, start_ns: i64, id: &str) -> Result<usize, usize> {
        self.spans
            .binary_search_by(|held| held.span.place().cmp(&(end_ns, start_ns, id)))
    }

    fn cut(&mut self) -> HashSet<String> {
        let mut numbers: Vec<u64> = self.spans.iter().map(|held| held.number).collect();
        numbers.sort_unstable();
        let first = numbers[SPANS_CUT];
        let lost = self.spans.extract_if(.., |held| held.number < first);
        let lost: Vec<Held> = lost.collect();
        self.chars -= lost.iter().map(|held| held.span.chars).sum::<usize>();
        let ids: HashSet<String> = lost
            .iter()
            .map(|held| held.span.fields.span_id.clone())
            .collect();
        for id in &ids {
            self.places.remove(&hash_of(id));
        }
        self.is_cut = true;
        ids
    }

    /// Take a span that is still open; it comes again and again. Returns whether it is another now.
    pub fn open(&mut self, span: Span) -> bool {
        let id = &span.fields.span_id;
        if self.places.contains_key(&hash_of(id)) {
            return false;
        }
        match self
            .above
            .iter_mut()
            .find(|open| open.fields.span_id == *id)
        {
            Some(open) if open.hash == span.hash => return false,
            Some(open) => *open = span,
            None => self.above.push(span),
        }
        true
    }
}
