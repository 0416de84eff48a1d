//! Runs of plain text within strings of JSON, eight bytes at a time.

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGH_BITS: u64 = 0x8080_8080_8080_8080;

/// The place of the first byte from `from` on that is a quote, a backslash or below a blank; the
/// length of the text where there is none.
pub fn plain_end(text: &[u8], from: usize) -> usize {
    let mut at = from;
    while let Some(bytes) = text.get(at..).and_then(|rest| rest.first_chunk()) {
        let word = u64::from_le_bytes(*bytes);
        let found = below_blank(word) | zero(word ^ (ONES * 0x22)) | zero(word ^ (ONES * 0x5c));
        if found != 0 {
            return at + (found.trailing_zeros() / 8) as usize;
        }
        at += 8;
    }
    let is_special = |byte: &u8| *byte < b' ' || *byte == b'"' || *byte == b'\\';
    let rest = text.get(at..).unwrap_or_default();
    at + rest.iter().position(is_special).unwrap_or(rest.len())
}

// The high bit of the first byte that is sought, and of some after it.
fn zero(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGH_BITS
}

fn below_blank(word: u64) -> u64 {
    word.wrapping_sub(ONES * 0x20) & !word & HIGH_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_special_byte_is_found() {
        for length in 0..20 {
            for special in 0..=255 {
                for place in 0..length {
                    let mut text = vec![b'x'; length];
                    text[place] = special;
                    let is_plain = special >= b' ' && special != b'"' && special != b'\\';
                    let expected = if is_plain { length } else { place };
                    assert_eq!(plain_end(&text, 0), expected);
                    assert_eq!(plain_end(&text, place + 1), length);
                }
            }
        }
    }
}
