//! The numbers of a counted turn in few bytes: most are zero or small.

use crate::count::row::{COLUMNS, COMPARED, ROW_BYTES, SEEN, Words};

const HEAD: usize = COLUMNS.len().div_ceil(8); // which words are not blank
const CODES: usize = COMPARED.len() + 1; // these are hashes, with the agent's, and take all bytes

/// A row of which nothing is known: figures are no numbers then.
const BLANK: Words = {
    let (mut words, mut at) = ([0; COLUMNS.len()], 0);
    while at < SEEN {
        if is(at, b'd') {
            words[at] = f64::NAN.to_bits();
        }
        at += 1;
    }
    words
};

const fn is(at: usize, format: u8) -> bool {
    COLUMNS[at].1.as_bytes()[0] == format
}

/// Write a number in as few bytes as it needs.
pub fn put(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// Read a number that was written.
pub fn take(rest: &mut &[u8]) -> u64 {
    let (mut number, mut shift) = (0, 0);
    while let Some((byte, more)) = rest.split_first() {
        *rest = more;
        number |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if *byte < 0x80 || shift > 63 {
            break;
        }
    }
    number
}

/// Write the words of a row.
pub fn pack(words: &Words, bytes: &mut Vec<u8>) {
    let head = bytes.len();
    bytes.resize(head + HEAD, 0);
    for (at, word) in words.iter().enumerate() {
        let word = word ^ BLANK[at];
        if word == 0 {
            continue;
        }
        bytes[head + at / 8] |= 1 << (at % 8);
        if at < CODES {
            bytes.extend_from_slice(&word.to_le_bytes());
        } else if !is(at, b'?') {
            put(bytes, word);
        }
    }
}

/// Read the words of a row; what was written after them is left.
#[must_use]
pub fn unpack(rest: &mut &[u8]) -> Words {
    let (head, mut more) = rest.split_at(HEAD);
    let mut words = BLANK;
    for (place, known) in head.iter().enumerate() {
        let mut known = *known;
        while known != 0 {
            let at = place * 8 + known.trailing_zeros() as usize;
            words[at] ^= if at < CODES {
                wide(&mut more)
            } else if is(at, b'?') {
                1
            } else {
                take(&mut more)
            };
            known &= known - 1;
        }
    }
    *rest = more;
    words
}

fn wide(rest: &mut &[u8]) -> u64 {
    let Some((word, more)) = rest.split_first_chunk() else {
        return 0;
    };
    *rest = more;
    u64::from_le_bytes(*word)
}

/// One column of a written row.
#[must_use]
pub fn word(bytes: &[u8], column: Column) -> u64 {
    let mut rest = bytes;
    if column.0 >= CODES {
        return unpack(&mut rest)[column.0];
    }
    let known = u64::from(bytes[0]) | u64::from(bytes[1]) << 8;
    if known >> column.0 & 1 == 0 {
        return 0;
    }
    let before = known & ((1 << column.0) - 1);
    wide(&mut &bytes[HEAD + 8 * before.count_ones() as usize..])
}

/// Write the columns that rules see, in `ROW_BYTES`.
pub fn show(words: &Words, bytes: &mut Vec<u8>) {
    let end = bytes.len() + ROW_BYTES;
    for (at, word) in words[..SEEN].iter().enumerate() {
        if is(at, b'?') {
            bytes.push(*word as u8);
        } else {
            bytes.extend_from_slice(&word.to_ne_bytes());
        }
    }
    bytes.resize(end, 0);
}

/// A column that rules see, but for figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column(usize);

impl Column {
    /// The column of a name; none where rules see no such code, count or flag.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let found = COLUMNS[..SEEN].iter().position(|each| each.0 == name);
        found.filter(|at| !is(*at, b'd')).map(Self)
    }

    /// Its value in a row.
    #[must_use]
    pub fn of(self, words: &Words) -> i64 {
        words[self.0] as i64
    }
}
