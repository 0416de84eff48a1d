//! Strings of bytes that lie one after the other: a task holds many, and moves few.

use super::numbers::{put, take};

/// Strings of bytes in one piece of memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Block {
    bytes: Vec<u8>,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Block {
    /// How many strings there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The string at a place.
    #[must_use]
    pub fn at(&self, place: usize) -> &[u8] {
        &self.bytes[self.begin(place)..self.begin(place + 1)]
    }

    fn begin(&self, place: usize) -> usize {
        let before = place.checked_sub(1).and_then(|last| self.ends.get(last));
        before.map_or(0, |end| *end as usize)
    }

    /// Add a string.
    pub fn push(&mut self, string: &[u8]) {
        self.write(|bytes| bytes.extend_from_slice(string));
    }

    /// Add the string that is written.
    pub fn write(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        // Room for a few: twice as much is not needed by most tasks.
        if self.ends.len() == self.ends.capacity() {
            let more = self.ends.len() / 8 + 4;
            self.ends.reserve_exact(more);
            let each = self.bytes.len() / self.ends.len().max(1);
            self.bytes.reserve_exact(each * more);
        }
        write(&mut self.bytes);
        self.ends.push(self.bytes.len() as u32);
    }

    /// The last string.
    #[must_use]
    pub fn last(&self) -> Option<&[u8]> {
        Some(self.at(self.len().checked_sub(1)?))
    }

    /// Drop all strings from a place on.
    pub fn truncate(&mut self, place: usize) {
        self.bytes.truncate(self.begin(place));
        self.ends.truncate(place);
    }

    /// Take all strings from a place on.
    pub fn split_off(&mut self, place: usize) -> Self {
        let begin = self.begin(place);
        let ends = self.ends.split_off(place);
        Self {
            bytes: self.bytes.split_off(begin),
            ends: ends.iter().map(|end| end - begin as u32).collect(),
        }
    }

    /// Write all strings.
    pub fn put(&self, bytes: &mut Vec<u8>) {
        put(bytes, self.len() as u64);
        for at in 0..self.len() {
            put(bytes, self.at(at).len() as u64);
        }
        bytes.extend_from_slice(&self.bytes);
    }

    /// Read strings that were written.
    #[must_use]
    pub fn take(rest: &mut &[u8]) -> Self {
        let (count, mut end) = (take(rest), 0);
        let ends = (0..count).map(|_| {
            end += take(rest) as u32;
            end
        });
        let ends: Vec<u32> = ends.collect();
        let (mine, more) = rest.split_at(end as usize);
        *rest = more;
        Self {
            bytes: mine.to_vec(),
            ends,
        }
    }

    /// Keep the strings at places that are wanted.
    pub fn retain(&mut self, wanted: impl Fn(usize) -> bool) {
        // In place: a task settles turns often, and most of what is held stays.
        let (mut begin, mut kept, mut end) = (0, 0, 0);
        for place in 0..self.len() {
            let next = self.ends[place] as usize;
            if wanted(place) {
                self.bytes.copy_within(begin..next, end);
                end += next - begin;
                self.ends[kept] = end as u32;
                kept += 1;
            }
            begin = next;
        }
        self.bytes.truncate(end);
        self.ends.truncate(kept);
        // A reset lets most of it go.
        if self.bytes.capacity() > 2 * end {
            self.bytes.shrink_to_fit();
            self.ends.shrink_to_fit();
        }
    }
}
