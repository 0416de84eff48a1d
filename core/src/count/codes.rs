//! Codes: numbers that are equal where texts are equal, in every process of one build.

/// Stands for what the trace does not say; it equals nothing.
pub const UNKNOWN: i64 = 0;

const MIX: i64 = 0x9E37_79B9_7F4A_7C15_u64 as i64; // odd, so that multiplying loses nothing
const SEED: u64 = 0x2545_F491_4F6C_DD1D;
const KEY: u64 = 0x9E37_79B9_7F4A_7C15;

/// The code of a text.
#[must_use]
pub fn code(text: &str) -> i64 {
    let (words, rest) = text.as_bytes().as_chunks::<8>();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let begin = folded(SEED ^ text.len() as u64);
    let hash = words
        .iter()
        .chain([&last])
        .fold(begin, |hash, word| folded(hash ^ u64::from_le_bytes(*word)));
    known(folded(hash) as i64)
}

/// The code of a text, if there is one.
#[must_use]
pub fn code_of(text: Option<&str>) -> i64 {
    text.map_or(UNKNOWN, code)
}

/// One code for two: unknown if either is, as `rules/vocabulary.py` pairs columns.
#[must_use]
pub fn pair(first: i64, second: i64) -> i64 {
    if first == UNKNOWN || second == UNKNOWN {
        return UNKNOWN;
    }
    known(first.wrapping_mul(MIX) ^ second.wrapping_add(first >> 7))
}

fn known(code: i64) -> i64 {
    if code == UNKNOWN { 1 } else { code }
}

// Both halves of a product: each bit of it depends on all bits of the number.
fn folded(number: u64) -> u64 {
    let product = u128::from(number ^ SEED) * u128::from(KEY);
    (product as u64) ^ ((product >> 64) as u64).rotate_left(32)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn different_texts_have_different_codes() {
        let texts = (0..20_000).map(|n| format!("{n:x}"));
        let more = (0..500).map(|n| "\0".repeat(n));
        let ends = (0..500).map(|n| format!("a path of some length/{n}"));
        let codes: BTreeSet<i64> = texts.chain(more).chain(ends).map(|t| code(&t)).collect();
        assert_eq!(codes.len(), 21_000);
        assert!(!codes.contains(&UNKNOWN));
    }

    #[test]
    fn a_code_is_the_same_in_every_process() {
        assert_eq!(code("read_file"), 5_867_410_014_792_684_312);
        assert_eq!(code_of(None), UNKNOWN);
    }

    #[test]
    fn a_pair_is_unknown_where_a_part_is() {
        assert_eq!(pair(UNKNOWN, 3), UNKNOWN);
        assert_eq!(pair(3, UNKNOWN), UNKNOWN);
        assert_ne!(pair(3, 4), pair(4, 3));
        assert_ne!(pair(3, 4), UNKNOWN);
    }
}
