//! Words for texts that all modules of sameness use: white space, slugs, cut marks, digests.

use std::borrow::Cow;
use std::sync::LazyLock;

use blake2::digest::consts::U8;
use blake2::{Blake2b, Digest};
use regex::Regex;
use sha2::Sha256;

use crate::patterns::{Pattern, pattern, replaced};

/// How a text is compared, which decides the hash that stands for a cut text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As a result.
    Result,
    /// Without the places of an error.
    Error,
    /// By the words of a message.
    Prompt,
}

// A slug is written from at most this many characters of a text.
const READ_CHARS: usize = 200;
// Scripts without spaces between words begin here.
const WITHOUT_SPACES: char = '\u{2e80}';
// Every mark of a cut text begins so, and few other texts have it.
pub(crate) const MARK_BEGINNING: &str = "[cut hash:";
/// The mark that the content policy leaves in a cut text; `analyzer/text/cut_texts.py` writes it.
pub const MARK: &str = concat!(
    r"\[cut (hash:[a-p]{16}) placeless:(hash:[a-p]{16}) words:(hash:[a-p]{16})",
    r" exact:[0-9a-f]{12}(?: chant:([0-9]+)x([0-9]+))?",
    r"(?: figures:([0-9]{1,9}|-):([0-9]{1,9}|-):([0-9]+\.[0-9]+|-))?",
    r"(?: names:(hash:[a-p]{16}))?\]"
);

/// The mark as a compiled pattern; groups 6 to 9 are failed, total, percent and names.
pub static CUT_MARK: LazyLock<Regex> = LazyLock::new(|| pattern(MARK));
static SPACES: LazyLock<Pattern> = LazyLock::new(|| Pattern::new(r"[ \t\n\r]{2,}|[\t\n\r]".into()));
static ESCAPES: LazyLock<Regex> = LazyLock::new(|| pattern(r"\\[nrt]"));
static NO_WORDS: LazyLock<Regex> = LazyLock::new(|| pattern(r"[^\w.]+"));

/// Leave of each mark of a cut text only the hash by which it is compared.
#[must_use]
pub fn compared(text: &str, form: Form) -> Cow<'_, str> {
    if !text.contains(MARK_BEGINNING) {
        return Cow::Borrowed(text);
    }
    let name = match form {
        Form::Result => "[cut ${1}]",
        Form::Error => "[cut ${2}]",
        Form::Prompt => "[cut ${3}]",
    };
    CUT_MARK.replace_all(text, name)
}

/// Put one space in the place of any white space.
#[must_use]
pub fn one_spaced(text: Cow<'_, str>) -> Cow<'_, str> {
    // Most texts have nothing else, and looking at bytes takes a quarter of the time.
    let mut before = 0;
    let is_other = |byte: u8| {
        let found = matches!(byte, b'\t' | b'\n' | b'\r') || (byte == b' ' && before == b' ');
        before = byte;
        found
    };
    if text.bytes().any(is_other) {
        replaced(text, &SPACES, " ")
    } else {
        text
    }
}

/// The words at the head of a text, joined with hyphens.
#[must_use]
pub fn slug(text: &str) -> String {
    let head = ESCAPES.replace_all(head(text, READ_CHARS), " ");
    NO_WORDS
        .replace_all(&head, "-")
        .trim_matches('-')
        .to_owned()
}

/// The first characters of a text.
#[must_use]
pub fn head(text: &str, chars: usize) -> &str {
    if text.len() <= chars {
        return text;
    }
    match text.char_indices().nth(chars) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

/// How many characters a text has, counted no further than one more than `max`.
#[must_use]
pub fn is_longer(text: &str, max: usize) -> bool {
    text.len() > max && text.chars().nth(max).is_some()
}

/// Sixteen hex digits of BLAKE2b, as `analyzer/text/digests.py` makes them.
#[must_use]
pub fn digest(text: &str) -> String {
    hex(&Blake2b::<U8>::digest(text.as_bytes()))
}

/// SHA-256 of a response; a hashed one stays as it is, so that turns can be compared again.
#[must_use]
pub fn sha256(response: &str) -> String {
    if is_hex(response, 64) {
        response.to_owned()
    } else {
        hex(&Sha256::digest(response.as_bytes()))
    }
}

/// Whether a text is a hash of so many hex digits.
pub(super) fn is_hex(text: &str, digits: usize) -> bool {
    text.len() == digits
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes
        .iter()
        .flat_map(|b| [b >> 4, b & 15])
        .map(|n| char::from(DIGITS[usize::from(n)]))
        .collect()
}

/// Whether a character is white space, with the four separators that Python counts, too.
#[must_use]
pub fn is_space(c: char) -> bool {
    c.is_whitespace() || ('\x1c'..='\x1f').contains(&c)
}

/// A text without its outer white space.
#[must_use]
pub fn strip(text: &str) -> &str {
    text.trim_matches(is_space)
}

/// Whether a character is of a script without spaces between words.
#[must_use]
pub fn is_dense(c: char) -> bool {
    c >= WITHOUT_SPACES && c.is_alphanumeric()
}

/// Whether a character is a letter, a number or an underscore.
#[must_use]
pub fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// A text without a last newline: names and arguments end before it.
pub(super) fn line(text: &str) -> &str {
    text.strip_suffix('\n').unwrap_or(text)
}

/// Join the parts that are known.
pub(super) fn joined<'a>(
    separator: &str,
    parts: impl IntoIterator<Item = Option<&'a str>>,
) -> String {
    parts
        .into_iter()
        .flatten()
        .collect::<Vec<_>>()
        .join(separator)
}

/// The words of a name; the last of several capitals begins the next word ("HTTPCode").
pub(crate) fn words_in<'a>(name: &'a str, words: &Regex) -> impl Iterator<Item = &'a str> {
    let mut at = 0;
    std::iter::from_fn(move || {
        let word = words.find_at(name, at)?;
        let is_capital = word.as_str().bytes().all(|byte| byte.is_ascii_uppercase());
        let next = name[word.end()..].bytes().next();
        let begins_next = is_capital && next.is_some_and(|byte| byte.is_ascii_lowercase());
        at = word.end() - usize::from(begins_next);
        Some(&name[word.start()..at])
    })
}
