//! A reader of JSON that says what is wrong, and where.
//!
//! It goes from token to token, and its depth is bounded. What is passed over is checked as well.

use std::borrow::Cow;
use std::fmt;

use crate::wire::scan::plain_end;

/// Levels of brackets that are read.
pub const READ_DEPTH_MAX: usize = 950;
/// Deeper values of a document that is nested deeper than can be read are left out.
pub const DEPTH_MAX: usize = 200;

/// Why JSON is not what was expected, in plain words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// What is wrong, and the number of the byte after it.
    Malformed(&'static str, usize),
    /// The text ends before the value does.
    CutOff,
    /// A text is not UTF-8.
    NotUtf8,
    /// More brackets than are read.
    TooDeep,
    /// What was due, what was found instead, and where.
    Wrong(&'static str, &'static str, String),
    /// A number that does not fit, and where.
    OutOfRange(&'static str, String),
}

impl Fault {
    /// The same fault, named from the object around it.
    pub fn within(self, name: &str) -> Self {
        let joined = |at: String| {
            let dot = if at.is_empty() || at.starts_with('[') {
                ""
            } else {
                "."
            };
            format!("{name}{dot}{at}")
        };
        match self {
            Self::Wrong(due, found, at) => Self::Wrong(due, found, joined(at)),
            Self::OutOfRange(what, at) => Self::OutOfRange(what, joined(at)),
            other => other,
        }
    }

    /// The same fault, named from the list around it.
    pub fn at(self, index: usize) -> Self {
        match self {
            Self::Wrong(..) | Self::OutOfRange(..) => self.within(&format!("[{index}]")),
            other => other,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(why, byte) => write!(out, "not valid JSON at byte {byte}: {why}"),
            Self::CutOff => out.write_str("the JSON is cut off"),
            Self::NotUtf8 => out.write_str("its text is not valid UTF-8"),
            Self::TooDeep => {
                write!(
                    out,
                    "nested too deep, nothing below level {DEPTH_MAX} is read"
                )
            }
            Self::Wrong(due, found, at) => {
                write!(out, "expected {due}, found {found}")?;
                if at.is_empty() {
                    Ok(())
                } else {
                    write!(out, " at {at}")
                }
            }
            Self::OutOfRange(what, at) if at.is_empty() => out.write_str(what),
            Self::OutOfRange(what, at) => {
                let dot = if at.starts_with('[') { "" } else { "." };
                write!(out, "{what} - at `${dot}{at}`")
            }
        }
    }
}

/// The next token. Lists and objects are not entered yet; texts may not be UTF-8.
#[derive(Debug)]
pub enum Token<'a> {
    /// `null`
    Null,
    /// `true` or `false`
    Bool(bool),
    /// A string without its escapes.
    Text(Cow<'a, [u8]>),
    /// A number as it is written, and whether it is a whole one.
    Number(&'a str, bool),
    /// `[`
    List,
    /// `{`
    Object,
}

impl Token<'_> {
    /// What it is, for a reader.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Text(_) => "a string",
            Self::Number(..) => "a number",
            Self::List => "an array",
            Self::Object => "an object",
        }
    }
}

/// A place in a JSON text.
#[derive(Debug)]
pub struct Json<'a> {
    data: &'a [u8],
    at: usize,
    depth: usize,
}

type Done = Result<(), Fault>;

impl<'a> Json<'a> {
    /// The beginning of a text.
    pub fn new(data: &'a [u8]) -> Self {
        Self {
            data,
            at: 0,
            depth: 0,
        }
    }

    /// Check that nothing but blanks follows.
    pub fn end(&mut self) -> Done {
        while let Some(byte) = self.byte() {
            self.at += 1;
            if !is_blank(byte) {
                return self.malformed("trailing characters");
            }
        }
        Ok(())
    }

    /// Read the next token.
    pub fn token(&mut self) -> Result<Token<'a>, Fault> {
        match self.peek()? {
            b'n' => self.word(b"null", false).map(|()| Token::Null),
            b't' => self.word(b"true", false).map(|()| Token::Bool(true)),
            b'f' => self.word(b"false", false).map(|()| Token::Bool(false)),
            b'"' => self.string().map(Token::Text),
            b'[' => Ok(Token::List),
            b'{' => Ok(Token::Object),
            _ => {
                let from = self.at;
                let is_whole = self.number(false)?;
                let text = str::from_utf8(&self.data[from..self.at]);
                text.map(|text| Token::Number(text, is_whole))
                    .map_err(|_| Fault::NotUtf8)
            }
        }
    }

    /// Read a list: `each` is called at each item, with its number, and reads it.
    pub fn list(&mut self, mut each: impl FnMut(&mut Self, usize) -> Done) -> Done {
        self.enter()?;
        let mut index = 0;
        while self.goes_on(
            index > 0,
            b']',
            "expected ',' or ']'",
            "trailing comma in array",
        )? {
            each(self, index)?;
            index += 1;
        }
        self.depth -= 1;
        Ok(())
    }

    /// Read an object: `each` is called with each name, at its value, and reads it.
    pub fn object(&mut self, each: impl FnMut(&mut Self, &[u8]) -> Done) -> Done {
        self.fields(false, each)
    }

    /// Pass over a value.
    pub fn skip(&mut self) -> Done {
        match self.peek()? {
            b'n' => self.word(b"null", true),
            b't' => self.word(b"true", true),
            b'f' => self.word(b"false", true),
            b'"' => self.skip_string(),
            b'[' => self.list(|json, _| json.skip()),
            b'{' => self.fields(true, |json, _| json.skip()),
            _ => self.number(true).map(drop),
        }
    }

    /// Pass over a value that was passed over before, without checking it again; returns its text.
    pub fn raw_again(&mut self) -> Result<&'a [u8], Fault> {
        let first = self.peek()?;
        let from = self.at;
        match first {
            b'"' => self.pass_string()?,
            b'{' | b'[' => self.pass_brackets()?,
            _ => self.skip()?,
        }
        Ok(&self.data[from..self.at])
    }

    fn pass_string(&mut self) -> Done {
        self.at += 1;
        loop {
            self.at = plain_end(self.data, self.at) + 1;
            match self.data.get(self.at - 1) {
                Some(b'"') => return Ok(()),
                Some(_) => self.at += 1,
                None => return Err(Fault::CutOff),
            }
        }
    }

    fn pass_brackets(&mut self) -> Done {
        let mut open = 0_usize;
        while let Some(byte) = self.byte() {
            match byte {
                b'"' => {
                    self.pass_string()?;
                    continue;
                }
                b'{' | b'[' => open += 1,
                b'}' | b']' => open -= 1,
                _ => {}
            }
            self.at += 1;
            if open == 0 {
                return Ok(());
            }
        }
        Err(Fault::CutOff)
    }

    /// Pass over a value; returns its text.
    pub fn raw(&mut self) -> Result<&'a [u8], Fault> {
        self.peek()?;
        let from = self.at;
        self.skip()?;
        Ok(&self.data[from..self.at])
    }

    fn fields(&mut self, is_passed: bool, mut each: impl FnMut(&mut Self, &[u8]) -> Done) -> Done {
        self.enter()?;
        let mut is_first = true;
        while self.goes_on(
            !is_first,
            b'}',
            "expected ',' or '}'",
            "trailing comma in object",
        )? {
            is_first = false;
            if self.byte() != Some(b'"') {
                let wanted = if is_passed {
                    "expected '\"'"
                } else {
                    "object keys must be strings"
                };
                return self.malformed(wanted);
            }
            let name = if is_passed {
                self.skip_string().map(|()| Cow::default())?
            } else {
                self.string()?
            };
            if self.peek()? != b':' {
                return self.malformed("expected ':'");
            }
            self.at += 1;
            each(self, &name)?;
        }
        self.depth -= 1;
        Ok(())
    }

    fn enter(&mut self) -> Done {
        self.at += 1;
        self.depth += 1;
        if self.depth > READ_DEPTH_MAX {
            return Err(Fault::TooDeep);
        }
        Ok(())
    }

    /// Whether another item stands before the closing bracket, which is taken.
    fn goes_on(
        &mut self,
        needs_comma: bool,
        closing: u8,
        unexpected: &'static str,
        trailing: &'static str,
    ) -> Result<bool, Fault> {
        let next = self.peek()?;
        if next == closing {
            self.at += 1;
            return Ok(false);
        }
        if !needs_comma {
            return Ok(true);
        }
        if next != b',' {
            return self.malformed(unexpected);
        }
        self.at += 1;
        if self.peek()? == closing {
            return self.malformed(trailing);
        }
        Ok(true)
    }

    fn byte(&self) -> Option<u8> {
        self.data.get(self.at).copied()
    }

    fn peek(&mut self) -> Result<u8, Fault> {
        loop {
            match self.byte() {
                Some(byte) if is_blank(byte) => self.at += 1,
                Some(byte) => return Ok(byte),
                None => return Err(Fault::CutOff),
            }
        }
    }

    fn malformed<T>(&self, why: &'static str) -> Result<T, Fault> {
        Err(Fault::Malformed(why, self.at))
    }

    fn word(&mut self, word: &[u8], is_passed: bool) -> Done {
        if self.data.len() - self.at < word.len() {
            return Err(Fault::CutOff);
        }
        let is_there = self.data[self.at..].starts_with(word);
        self.at += if is_there || !is_passed {
            word.len()
        } else {
            1
        };
        if is_there {
            Ok(())
        } else {
            self.malformed("invalid character")
        }
    }

    fn digits(&mut self) -> usize {
        let rest = &self.data[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        count
    }

    /// Pass over a number; returns whether it is a whole one.
    fn number(&mut self, is_passed: bool) -> Result<bool, Fault> {
        if self.byte() == Some(b'-') {
            self.at += 1;
            if self.byte().is_none() && !is_passed {
                return self.malformed("invalid number");
            }
        }
        if self.byte() == Some(b'0') {
            self.at += 1;
            if self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
                return self.malformed("invalid number");
            }
        } else if self.digits() == 0 {
            return self.malformed("invalid character");
        }
        let mut is_whole = true;
        if self.byte() == Some(b'.') {
            is_whole = false;
            self.at += 1;
            if self.digits() == 0 {
                return self.malformed("invalid number");
            }
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            is_whole = false;
            self.at += 1;
            if matches!(self.byte(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            if self.digits() == 0 {
                return self.malformed("invalid number");
            }
        }
        Ok(is_whole)
    }

    /// Go to the next quote or backslash, which is not taken; nothing below a blank may come first.
    fn plain_run(&mut self) -> Result<u8, Fault> {
        self.at = plain_end(self.data, self.at);
        match self.byte() {
            Some(end @ (b'"' | b'\\')) => Ok(end),
            Some(_) => self.malformed("invalid character"),
            None => Err(Fault::CutOff),
        }
    }

    fn string(&mut self) -> Result<Cow<'a, [u8]>, Fault> {
        self.at += 1;
        let data = self.data;
        let mut from = self.at;
        if self.plain_run()? == b'"' {
            self.at += 1;
            return Ok(Cow::Borrowed(&data[from..self.at - 1]));
        }
        let mut text = Vec::with_capacity(self.at - from + 16);
        loop {
            text.extend_from_slice(&data[from..self.at]);
            self.at += 1;
            if data[self.at - 1] == b'"' {
                return Ok(Cow::Owned(text));
            }
            let escape = self.byte().ok_or(Fault::CutOff)?;
            self.at += 1;
            match escape {
                b'"' | b'\\' | b'/' => text.push(escape),
                b'n' => text.push(b'\n'),
                b't' => text.push(b'\t'),
                b'r' => text.push(b'\r'),
                b'b' => text.push(0x08),
                b'f' => text.push(0x0c),
                b'u' => {
                    let unpaired = "unexpected end of escaped utf-16 surrogate pair";
                    let character = self.character(unpaired)?;
                    text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                }
                _ => return self.malformed("invalid escape character in string"),
            }
            from = self.at;
            self.plain_run()?;
        }
    }

    fn skip_string(&mut self) -> Done {
        self.at += 1;
        while self.plain_run()? == b'\\' {
            self.at += 1;
            match self.byte().ok_or(Fault::CutOff)? {
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => self.at += 1,
                b'u' => {
                    self.at += 1;
                    self.character("unexpected end of hex escape")?;
                }
                _ => return self.malformed("invalid escaped character"),
            }
        }
        self.at += 1;
        Ok(())
    }

    /// The character of an escape, which may be two.
    fn character(&mut self, unpaired: &'static str) -> Result<char, Fault> {
        let mut code = self.four_digits()?;
        if (0xd800..0xdc00).contains(&code) {
            let rest = &self.data[self.at..];
            if rest.len() < 6 {
                return Err(Fault::CutOff);
            }
            if !rest.starts_with(b"\\u") {
                return self.malformed(unpaired);
            }
            self.at += 2;
            let low = self.four_digits()?;
            if !(0xdc00..0xe000).contains(&low) {
                return self.malformed("invalid utf-16 surrogate pair");
            }
            code = 0x1_0000 + ((code - 0xd800) << 10 | (low - 0xdc00));
        }
        char::from_u32(code).map_or_else(|| self.malformed("invalid utf-16 surrogate pair"), Ok)
    }

    fn four_digits(&mut self) -> Result<u32, Fault> {
        if self.data.len() - self.at < 4 {
            return Err(Fault::CutOff);
        }
        let mut code = 0;
        for _ in 0..4 {
            let digit = char::from(self.data[self.at]).to_digit(16);
            self.at += 1;
            match digit {
                Some(digit) => code = code << 4 | digit,
                None => return self.malformed("invalid character in unicode escape"),
            }
        }
        Ok(code)
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\r' | b'\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skipped(text: &str) -> Result<(), String> {
        let mut json = Json::new(text.as_bytes());
        let done = json.skip().and_then(|()| json.end());
        done.map_err(|fault| fault.to_string())
    }

    #[test]
    fn faults_have_words() {
        assert_eq!(
            skipped(" {\"a\": [1, -0.5e+7, \"\\u00e9\\ud83d\\ude00\", null, true]} "),
            Ok(())
        );
        for (text, why) in [
            ("", "the JSON is cut off"),
            (
                "{\"a\": 1,}",
                "not valid JSON at byte 8: trailing comma in object",
            ),
            ("[1 2]", "not valid JSON at byte 3: expected ',' or ']'"),
            ("[1] 2", "not valid JSON at byte 5: trailing characters"),
            ("{1: 2}", "not valid JSON at byte 1: expected '\"'"),
            ("[\"a\nb\"]", "not valid JSON at byte 3: invalid character"),
            ("01", "not valid JSON at byte 1: invalid number"),
            ("nul!", "not valid JSON at byte 1: invalid character"),
            (
                "\"\\ud83d!\\u0041\"",
                "not valid JSON at byte 7: unexpected end of hex escape",
            ),
        ] {
            assert_eq!(skipped(text), Err(why.to_owned()), "{text}");
        }
        let deep = "nested too deep, nothing below level 200 is read";
        assert_eq!(skipped(&"[".repeat(1 << 20)), Err(deep.to_owned()));
    }

    #[test]
    fn strings_lose_their_escapes() {
        let mut json = Json::new(b"\"a\\n\\u00e9\\ud83d\\ude00/\\/\"");
        let Ok(Token::Text(text)) = json.token() else {
            panic!("no text");
        };
        assert_eq!(&*text, "a\né😀//".as_bytes());
    }
}
