//! Strings and numbers in literals of Python.

use super::literal::Reader;
use crate::wire::value::Value;

// Python reads no longer integers.
const DIGITS_MAX: usize = 4_300;

impl<'a> Reader<'a> {
    /// Strings beside each other, which are one.
    pub(super) fn texts(&mut self, depth: usize) -> Option<Value<'static>> {
        let mut made: Option<(String, bool)> = None;
        while let Some(prefix) = self.prefix() {
            let is_bytes = prefix.contains(['b', 'B']);
            let is_raw = prefix.contains(['r', 'R']);
            if prefix.contains(['f', 'F']) {
                return None;
            }
            self.at += prefix.len();
            let (text, before_is_bytes) = made.get_or_insert_with(|| (String::new(), is_bytes));
            if *before_is_bytes != is_bytes {
                return None;
            }
            self.text_into(text, is_raw, is_bytes)?;
            self.space(depth > 0);
        }
        let (text, is_bytes) = made?;
        Some(Value::Text(
            if is_bytes { bytes_text(&text) } else { text }.into(),
        ))
    }

    /// The letters before the quote of a string, if there is one.
    fn prefix(&self) -> Option<&'a str> {
        let rest = self.rest();
        let quote = rest.find(['\'', '"']).filter(|end| *end <= 2)?;
        let prefix = &rest[..quote];
        let known = ["", "r", "u", "b", "f", "br", "rb", "fr", "rf"];
        known
            .contains(&prefix.to_ascii_lowercase().as_str())
            .then_some(prefix)
    }

    fn text_into(&mut self, text: &mut String, is_raw: bool, is_bytes: bool) -> Option<()> {
        let mark = self.peek()?;
        let triple = mark.to_string().repeat(3);
        let is_long = self.rest().starts_with(&triple);
        self.at += if is_long { 3 } else { 1 };
        loop {
            if is_long && self.rest().starts_with(&triple) {
                self.at += 3;
                return Some(());
            }
            let c = self.peek()?;
            self.at += c.len_utf8();
            match c {
                c if c == mark && !is_long => return Some(()),
                '\n' | '\r' if !is_long => return None,
                '\\' if is_raw => {
                    text.push('\\');
                    let next = self.peek()?;
                    text.push(next);
                    self.at += next.len_utf8();
                }
                '\\' => self.escape(text, is_bytes)?,
                c if is_bytes && !c.is_ascii() => return None,
                c => text.push(c),
            }
        }
    }

    fn escape(&mut self, text: &mut String, is_bytes: bool) -> Option<()> {
        let c = self.peek()?;
        self.at += c.len_utf8();
        let made = match c {
            '\n' => return Some(()),
            '\\' | '\'' | '"' => c,
            'a' => '\x07',
            'b' => '\x08',
            'f' => '\x0c',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'v' => '\x0b',
            'x' => self.code(2)?,
            'u' if !is_bytes => self.code(4)?,
            'U' if !is_bytes => self.code(8)?,
            'N' if !is_bytes => return None,
            '0'..='7' => {
                let digits = self.text.as_bytes()[self.at - 1..].iter().take(3);
                let count = digits
                    .take_while(|digit| matches!(digit, b'0'..=b'7'))
                    .count();
                let digits = &self.text[self.at - 1..self.at - 1 + count];
                self.at += count - 1;
                char::from_u32(u32::from_str_radix(digits, 8).ok()?)?
            }
            c => {
                text.push('\\');
                c
            }
        };
        text.push(made);
        Some(())
    }

    /// A character by its hex digits; half of a surrogate pair becomes U+FFFD.
    fn code(&mut self, digits: usize) -> Option<char> {
        let text = self.text.get(self.at..self.at + digits)?;
        if !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        self.at += digits;
        let code = u32::from_str_radix(text, 16).ok()?;
        let is_half = (0xd800..0xe000).contains(&code);
        if is_half {
            Some('\u{fffd}')
        } else {
            char::from_u32(code)
        }
    }

    pub(super) fn number(&mut self, is_negative: bool) -> Option<Value<'static>> {
        let rest = self.rest();
        let mut end = 0;
        let bytes = rest.as_bytes();
        let radix = match bytes.get(..2).map(<[u8]>::to_ascii_lowercase).as_deref() {
            Some(b"0x") => 16,
            Some(b"0o") => 8,
            Some(b"0b") => 2,
            _ => 10,
        };
        while end < bytes.len() {
            let is_part = bytes[end].is_ascii_alphanumeric() || matches!(bytes[end], b'.' | b'_');
            let is_sign = radix == 10
                && matches!(bytes[end], b'+' | b'-')
                && end > 0
                && matches!(bytes[end - 1], b'e' | b'E');
            if !is_part && !is_sign {
                break;
            }
            end += 1;
        }
        let written = &rest[..end];
        let is_spaced = written.split('_').all(|part| {
            part.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
                && part.ends_with(|c: char| c.is_ascii_alphanumeric() || c == '.')
        });
        if !is_spaced || written.contains("_.") || written.contains("._") {
            return None;
        }
        self.at += end;
        let plain = written.replace('_', "");
        let sign = if is_negative { "-" } else { "" };
        if radix != 10 {
            let number = i64::from_str_radix(&plain[2..], radix).ok()?;
            return Some(Value::Int(if is_negative { -number } else { number }));
        }
        if plain.bytes().all(|digit| digit.is_ascii_digit()) {
            return whole(&plain, sign);
        }
        let is_float = plain
            .bytes()
            .all(|b| b.is_ascii_digit() || b"+-.eE".contains(&b));
        let number: f64 = format!("{sign}{plain}").parse().ok().filter(|_| is_float)?;
        Some(Value::Float(number))
    }
}

fn whole(digits: &str, sign: &str) -> Option<Value<'static>> {
    let is_zero = digits.bytes().all(|digit| digit == b'0');
    if digits.is_empty() || digits.len() > DIGITS_MAX || (digits.starts_with('0') && !is_zero) {
        return None;
    }
    if is_zero {
        return Some(Value::Int(0));
    }
    let text = format!("{sign}{digits}");
    Some(match text.parse() {
        Ok(number) => Value::Int(number),
        Err(_) => Value::Digits(text.into()),
    })
}

/// Bytes as `repr` writes them; each character is one byte.
fn bytes_text(bytes: &str) -> String {
    let mark = if bytes.contains('\'') && !bytes.contains('"') {
        '"'
    } else {
        '\''
    };
    let mut text = format!("b{mark}");
    for c in bytes.chars() {
        match c {
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            c if c == mark => text.extend(['\\', c]),
            ' '..='~' => text.push(c),
            c => text.push_str(&format!("\\x{:02x}", u32::from(c))),
        }
    }
    text.push(mark);
    text
}
