//! JSON in texts as values that borrow from the text.

use std::borrow::Cow;

use crate::wire::scan::plain_end;
use crate::wire::value::{Map, Value};

/// What is nested deeper is not read. The collector bounds attributes earlier.
pub const DEPTH_MAX: usize = 256;
// Python reads no longer integers.
const DIGITS_MAX: usize = 4_300;
const REPLACEMENT: char = '\u{fffd}';

/// The value of a text that is JSON; `None` if it is other text.
///
/// Half of a surrogate pair becomes U+FFFD: JavaScript writes it where it cuts an emoji.
#[must_use]
pub fn parse(text: &str) -> Option<Value<'_>> {
    let mut reader = Reader::of(text);
    let value = reader.value(0)?;
    reader.ends().then_some(value)
}

/// The value of a text of JSON that was cut off: what stands whole before its end, and texts up to
/// it; `None` if it is other text.
#[must_use]
pub fn parse_cut(text: &str) -> Option<Value<'_>> {
    let mut reader = Reader::of(text);
    reader.is_cut = true;
    let value = reader.value(0)?;
    reader.is_over().then_some(value)
}

/// The fields of a text that is an object of JSON, without those that are not wanted.
#[must_use]
pub fn parse_some<'a>(text: &'a str, wanted: impl Fn(&str) -> bool) -> Option<Map<'a>> {
    let mut reader = Reader::of(text);
    let mut map = Map::default();
    reader.space();
    if !reader.takes(b'{') {
        return None;
    }
    reader.fields(0, |reader, key| {
        reader.passes = !wanted(&key);
        let value = reader.value(1)?;
        if !reader.passes {
            map.put(key, value);
        }
        reader.passes = false;
        Some(())
    })?;
    reader.ends().then_some(map)
}

/// The items of a list whose opening bracket was before this text.
#[must_use]
pub fn parse_rest(text: &str) -> Option<Vec<Value<'_>>> {
    let mut reader = Reader::of(text);
    let items = reader.items(0)?;
    reader.ends().then_some(items)
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    // Whether values are only passed over; then what is read of them is empty.
    passes: bool,
    // Whether the text may end within a value.
    is_cut: bool,
}

// A string with escapes has room for as much at first.
const STRING_BYTES: usize = 500;

impl<'a> Reader<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            passes: false,
            is_cut: false,
        }
    }

    /// Whether a text that was cut off ends here.
    fn is_over(&self) -> bool {
        self.is_cut && self.at >= self.text.len()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn ends(&mut self) -> bool {
        self.space();
        self.at == self.text.len()
    }

    fn takes(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn word(&mut self, word: &str, value: Value<'a>) -> Option<Value<'a>> {
        let rest = &self.text.as_bytes()[self.at..];
        let is_there = rest.starts_with(word.as_bytes());
        self.at += word.len();
        is_there.then_some(value)
    }

    fn value(&mut self, depth: usize) -> Option<Value<'a>> {
        self.space();
        match self.peek()? {
            b'"' => {
                self.at += 1;
                Some(Value::Text(self.string()?))
            }
            b'{' => {
                self.at += 1;
                self.object(depth).map(Value::Map)
            }
            b'[' => {
                self.at += 1;
                self.items(depth).map(Value::List)
            }
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::None),
            _ => self.number(),
        }
    }

    fn items(&mut self, depth: usize) -> Option<Vec<Value<'a>>> {
        if depth >= DEPTH_MAX {
            return None;
        }
        let mut items = Vec::new();
        self.space();
        if self.takes(b']') {
            return Some(items);
        }
        loop {
            let Some(item) = self.value(depth + 1) else {
                return self.is_over().then_some(items);
            };
            if !self.passes {
                items.push(item);
            }
            self.space();
            if self.takes(b']') || self.is_over() {
                return Some(items);
            }
            if !self.takes(b',') {
                return None;
            }
        }
    }

    fn object(&mut self, depth: usize) -> Option<Map<'a>> {
        let mut map = Map::default();
        self.fields(depth, |reader, key| {
            let value = reader.value(depth + 1)?;
            if !reader.passes {
                map.put(key, value);
            }
            Some(())
        })?;
        Some(map)
    }

    /// The fields of an object after its opening brace; their values are read by `take`.
    fn fields(
        &mut self,
        depth: usize,
        mut take: impl FnMut(&mut Self, Cow<'a, str>) -> Option<()>,
    ) -> Option<()> {
        if depth >= DEPTH_MAX {
            return None;
        }
        self.space();
        if self.takes(b'}') {
            return Some(());
        }
        loop {
            self.space();
            if !self.takes(b'"') {
                return self.is_over().then_some(());
            }
            let key = self.string()?;
            self.space();
            if !self.takes(b':') {
                return self.is_over().then_some(());
            }
            if take(self, key).is_none() {
                return self.is_over().then_some(());
            }
            self.space();
            if self.takes(b'}') || self.is_over() {
                return Some(());
            }
            if !self.takes(b',') {
                return None;
            }
        }
    }

    /// A string after its opening quote.
    fn string(&mut self) -> Option<Cow<'a, str>> {
        let from = self.at;
        if self.plain().is_none() {
            return self.is_over().then(|| Cow::Borrowed(&self.text[from..]));
        }
        if self.takes(b'"') {
            return Some(Cow::Borrowed(&self.text[from..self.at - 1]));
        }
        let mut made = String::new();
        if !self.passes {
            made.reserve(STRING_BYTES.min(self.text.len() - from).max(self.at - from));
            made.push_str(&self.text[from..self.at]);
        }
        loop {
            if self.takes(b'"') {
                return Some(Cow::Owned(made));
            }
            self.at += 1; // a backslash
            let mut from = self.at;
            if matches!(self.peek(), Some(b'"' | b'\\' | b'/')) {
                self.at += 1; // It stands for itself.
            } else if self.escape(&mut made).is_some() {
                from = self.at;
            } else {
                return self.is_over().then_some(Cow::Owned(made));
            }
            let is_ended = self.plain().is_none();
            if is_ended && !self.is_over() {
                return None;
            }
            if self.passes {
                made.clear();
            } else {
                made.push_str(&self.text[from..self.at]);
            }
            if is_ended {
                return Some(Cow::Owned(made));
            }
        }
    }

    /// Pass over what is neither a quote, an escape nor a control character.
    fn plain(&mut self) -> Option<()> {
        self.at = plain_end(self.text.as_bytes(), self.at);
        (self.peek()? >= b' ').then_some(())
    }

    fn escape(&mut self, made: &mut String) -> Option<()> {
        let escaped = match self.peek()? {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                self.at += 1;
                made.push(self.unicode()?);
                return Some(());
            }
            _ => return None,
        };
        self.at += 1;
        made.push(escaped);
        Some(())
    }

    fn unicode(&mut self) -> Option<char> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) {
            return Some(char::from_u32(first).unwrap_or(REPLACEMENT));
        }
        let before = self.at;
        if self.takes(b'\\') && self.takes(b'u') {
            let second = self.hex()?;
            if (0xdc00..0xe000).contains(&second) {
                return char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00));
            }
        }
        self.at = before;
        Some(REPLACEMENT)
    }

    fn hex(&mut self) -> Option<u32> {
        let Some(digits) = self.text.as_bytes().get(self.at..self.at + 4) else {
            self.at = self.text.len();
            return None;
        };
        self.at += 4;
        digits.iter().try_fold(0, |number, digit| {
            Some(number * 16 + char::from(*digit).to_digit(16)?)
        })
    }

    fn digits(&mut self) -> usize {
        let from = self.at;
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        self.at - from
    }

    fn number(&mut self) -> Option<Value<'a>> {
        let from = self.at;
        self.takes(b'-');
        let has_zero = self.peek() == Some(b'0');
        let digits = self.digits();
        if digits == 0 || (has_zero && digits > 1) {
            return None;
        }
        let mut is_whole = true;
        if self.takes(b'.') {
            is_whole = false;
            if self.digits() == 0 {
                return None;
            }
        }
        if self.takes(b'e') || self.takes(b'E') {
            is_whole = false;
            let _ = self.takes(b'+') || self.takes(b'-');
            if self.digits() == 0 {
                return None;
            }
        }
        let text = &self.text[from..self.at];
        if self.is_over() {
            return None; // It may have had more digits.
        }
        if !is_whole {
            let number: f64 = text.parse().ok()?;
            return number.is_finite().then_some(Value::Float(number));
        }
        match text.parse() {
            Ok(number) => Some(Value::Int(number)),
            Err(_) if digits <= DIGITS_MAX => Some(Value::Digits(Cow::Borrowed(text))),
            Err(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::plain::canonical;

    #[test]
    fn values_are_read() {
        let text =
            r#" {"a": [1, -0, 2.5e1, true, null], "b": "x\n\u00e9\ud83d\ude00\ud83d", "a b": {}} "#;
        let Some(Value::Map(map)) = parse(text) else {
            panic!("no object")
        };
        let items = [
            Value::Int(1),
            Value::Int(0),
            Value::Float(25.0),
            Value::Bool(true),
            Value::None,
        ];
        assert_eq!(map.get("a"), Some(&Value::List(items.into())));
        assert_eq!(
            map.get("b"),
            Some(&Value::Text("x\né\u{1f600}\u{fffd}".into()))
        );
        assert_eq!(map.get("a b"), Some(&Value::Map(Map::default())));
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "[1,]",
            "01",
            "-",
            "1.",
            ".5",
            "NaN",
            "1e999",
            "\"a\tb\"",
            "\"a",
            "{\"a\"}",
            "[1 2]",
            "tru",
            "\u{feff}1",
            "1 2",
            "{a: 1}",
            "\"\\x\"",
            "\"\\u12g4\"",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_may_be_long() {
        let long = "123456789012345678901234567890";
        assert_eq!(parse(long), Some(Value::Digits(long.into())));
        assert_eq!(parse(&"9".repeat(DIGITS_MAX + 1)), None);
    }

    #[test]
    fn depth_is_bounded() {
        let nested = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(parse(&nested(DEPTH_MAX)).is_some());
        assert!(parse(&nested(DEPTH_MAX + 1)).is_none());
    }

    #[test]
    fn texts_that_were_cut_off_are_read_to_their_ends() {
        let text = r#"{"status": "error", "n": [1, 22], "a": {"b": "x\u00e9 of"}}"#;
        let status = Value::Text("error".into());
        for end in 18..text.len() {
            let Some(Value::Map(map)) = parse_cut(&text[..end]) else {
                panic!("no object: {}", &text[..end])
            };
            assert_eq!(map.get("status"), Some(&status));
            if end > 20 {
                assert!(parse(&text[..end]).is_none());
            }
        }
        let short = |text| parse_cut(text).map(|value| canonical(&value));
        assert_eq!(short(r#"{"n": [1, 2"#).as_deref(), Some(r#"{"n":[1]}"#));
        assert_eq!(
            short(r#"{"a": {"b": "x y"#).as_deref(),
            Some(r#"{"a":{"b":"x y"}}"#)
        );
        assert_eq!(short("{a: 1"), None);
        assert_eq!(short("{} and more"), None);
    }

    #[test]
    fn the_rest_of_a_list_is_read() {
        assert_eq!(
            parse_rest("1, 2]"),
            Some(vec![Value::Int(1), Value::Int(2)])
        );
        assert_eq!(parse_rest("1, 2"), None);
    }
}
