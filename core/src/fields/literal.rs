//! Literals of Python in texts: `{'a': 1}`, as its `ast.literal_eval` reads them.
//!
//! Complex numbers and `\N{...}` stay text.

use std::borrow::Cow;

use super::plain::{as_text, canonical, float, write_all};
use crate::same::text::is_longer;
use crate::wire::value::{Map, Value};

/// A longer literal stays text, because parsing it costs more than it gains.
pub const LITERAL_CHARS_MAX: usize = 20_000;
// Python refuses more brackets within each other.
const DEPTH_MAX: usize = 200;

/// The value of a text that is a literal of Python; `None` if it is none.
#[must_use]
pub fn literal(text: &str) -> Option<Value<'static>> {
    literal_within(text, LITERAL_CHARS_MAX)
}

/// The same of a text of at most so many characters.
#[must_use]
pub fn literal_within(text: &str, chars_max: usize) -> Option<Value<'static>> {
    if is_longer(text, chars_max) || text.contains('\0') {
        return None;
    }
    let mut reader = Reader { text, at: 0 };
    reader.space(true);
    let (mut value, _) = reader.item(0)?;
    reader.space(false);
    if reader.takes(',') {
        let mut items = vec![value];
        reader.space(false);
        while reader.peek().is_some_and(|c| !matches!(c, '\n' | '#')) {
            items.push(reader.item(0)?.0);
            reader.space(false);
            if !reader.takes(',') {
                break;
            }
            reader.space(false);
        }
        value = Value::List(items);
    }
    reader.space(true);
    reader.peek().is_none().then_some(value)
}

/// What a value is in Python, as far as JSON does not know.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Plain,
    Tuple,
    // A list, a dictionary or a set, which is no key.
    Changeable,
}

type Item = (Value<'static>, Kind);

/// Reads a literal.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    pub(super) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    pub(super) fn takes(&mut self, c: char) -> bool {
        let is_there = self.rest().starts_with(c);
        self.at += if is_there { c.len_utf8() } else { 0 };
        is_there
    }

    pub(super) fn space(&mut self, with_lines: bool) {
        loop {
            match self.peek() {
                Some(' ' | '\t' | '\x0c') => self.at += 1,
                Some('\n' | '\r') if with_lines => self.at += 1,
                Some('#') if with_lines => {
                    self.at += self.rest().find('\n').unwrap_or(self.rest().len());
                }
                Some('\\') if self.rest().starts_with("\\\n") => self.at += 2,
                _ => return,
            }
        }
    }

    fn item(&mut self, depth: usize) -> Option<Item> {
        let plain = |value| Some((value, Kind::Plain));
        match self.peek()? {
            '{' | '[' | '(' if depth >= DEPTH_MAX => None,
            '{' => self.braces(depth + 1),
            '[' => {
                self.at += 1;
                let (items, _) = self.items(']', depth + 1)?;
                Some((Value::List(items), Kind::Changeable))
            }
            '(' => self.parentheses(depth + 1),
            '.' if self.rest().starts_with("...") => {
                self.at += 3;
                plain(Value::Text("Ellipsis".into()))
            }
            '0'..='9' | '.' => plain(self.number(false)?),
            '-' | '+' => {
                let is_negative = self.takes('-') || !self.takes('+');
                self.space(depth > 0);
                plain(self.number(is_negative)?)
            }
            _ => self.word_or_text(depth),
        }
    }

    /// Items up to a closing bracket, and whether a comma stood after the last.
    fn items(&mut self, end: char, depth: usize) -> Option<(Vec<Value<'static>>, bool)> {
        let mut items = Vec::new();
        self.space(true);
        if self.takes(end) {
            return Some((items, false));
        }
        loop {
            items.push(self.item(depth)?.0);
            self.space(true);
            let has_comma = self.takes(',');
            self.space(true);
            if self.takes(end) {
                return Some((items, has_comma));
            }
            if !has_comma {
                return None;
            }
        }
    }

    fn parentheses(&mut self, depth: usize) -> Option<Item> {
        self.at += 1;
        self.space(true);
        let before = self.at;
        if let Some(inner) = self
            .peek()
            .filter(|c| *c != ')')
            .and_then(|_| self.item(depth))
        {
            self.space(true);
            if self.takes(')') {
                return Some(inner);
            }
            // A tuple is read again from its start, which costs little: most are short and flat.
            if !self.rest().starts_with(',') {
                return None;
            }
            self.at = before;
            return self.tuple(inner, before, depth);
        }
        self.takes(')')
            .then(|| (Value::List(Vec::new()), Kind::Tuple))
    }

    fn tuple(&mut self, first: Item, before: usize, depth: usize) -> Option<Item> {
        self.at = before;
        let mut items = vec![first.0];
        let mut is_key = first.1 != Kind::Changeable;
        // The first item is known; pass over it.
        let mut skipped = Reader {
            text: self.text,
            at: before,
        };
        skipped.item(depth)?;
        self.at = skipped.at;
        self.space(true);
        while self.takes(',') {
            self.space(true);
            if self.takes(')') {
                let kind = if is_key {
                    Kind::Tuple
                } else {
                    Kind::Changeable
                };
                return Some((Value::List(items), kind));
            }
            let (item, kind) = self.item(depth)?;
            is_key &= kind != Kind::Changeable;
            items.push(item);
            self.space(true);
        }
        let kind = if is_key {
            Kind::Tuple
        } else {
            Kind::Changeable
        };
        self.takes(')').then_some((Value::List(items), kind))
    }

    /// A dictionary or a set.
    fn braces(&mut self, depth: usize) -> Option<Item> {
        self.at += 1;
        self.space(true);
        let mut map = Map::default();
        if self.takes('}') {
            return Some((Value::Map(map), Kind::Changeable));
        }
        let mut members: Vec<String> = Vec::new();
        let mut is_set = None;
        loop {
            let (key, kind) = self.item(depth)?;
            if kind == Kind::Changeable {
                return None;
            }
            self.space(true);
            let has_value = self.takes(':');
            if *is_set.get_or_insert(!has_value) == has_value {
                return None;
            }
            if has_value {
                self.space(true);
                let value = self.item(depth)?.0;
                map.put(Cow::Owned(key_text(&key, kind)), value);
            } else {
                members.push(canonical(&key));
            }
            self.space(true);
            let has_comma = self.takes(',');
            self.space(true);
            if self.takes('}') {
                break;
            }
            if !has_comma {
                return None;
            }
        }
        if members.is_empty() {
            return Some((Value::Map(map), Kind::Changeable));
        }
        // A set has no order.
        members.sort_unstable();
        members.dedup();
        let members = members.into_iter().map(|text| Value::Text(text.into()));
        Some((Value::List(members.collect()), Kind::Changeable))
    }

    fn word_or_text(&mut self, depth: usize) -> Option<Item> {
        let rest = self.rest();
        let end = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        let word = &rest[..end];
        let next = rest[end..].chars().next();
        if matches!(next, Some('\'' | '"')) && end <= 2 {
            return Some((self.texts(depth)?, Kind::Plain));
        }
        self.at += end;
        let value = match word {
            "None" => Value::None,
            "True" => Value::Bool(true),
            "False" => Value::Bool(false),
            "set" if self.rest().starts_with("()") => {
                self.at += 2;
                return Some((Value::List(Vec::new()), Kind::Changeable));
            }
            _ => return None,
        };
        Some((value, Kind::Plain))
    }
}

/// A key as JSON writes it.
fn key_text(key: &Value<'_>, kind: Kind) -> String {
    match key {
        Value::List(items) if kind == Kind::Tuple => {
            let mut text = String::from("(");
            write_all(items, &mut text);
            text.push_str(if items.len() == 1 { ",)" } else { ")" });
            text
        }
        Value::Float(number) => float(*number),
        other => as_text(other).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> Option<String> {
        literal(text).map(|value| canonical(&value))
    }

    #[test]
    fn literals_are_read() {
        for (text, wanted) in [
            ("{'b': 1, 'a': None}", r#"{"a":null,"b":1}"#),
            (
                "{'a': (1, 2), 'b': [True, -1.50, 0x10, 1_000]}",
                r#"{"a":[1,2],"b":[true,-1.5,16,1000]}"#,
            ),
            (
                "{1: 'x', (1, 'a'): (), None: ('y')}",
                r#"{"(1, 'a')":[],"1":"x","None":"y"}"#,
            ),
            ("{'a': {3, 'b', 1, 1}}", r#"{"a":["1","3","b"]}"#),
            (
                "{'a': 'it' \"'s\" r'\\d' '\\x41\\u00e9\\n'}",
                r#"{"a":"it's\\dAé\n"}"#,
            ),
            (
                "{'a': b'\\x00\\'', 'b': ...}",
                r#"{"a":"b\"\\x00'\"","b":"Ellipsis"}"#,
            ),
            (
                "  {'a': '''x\ny''',\n # a word\n 'b': set()}\n",
                r#"{"a":"x\ny","b":[]}"#,
            ),
            ("1, 2", "[1,2]"),
            ("(1,)", "[1]"),
            ("((1))", "1"),
            ("1e400", "Infinity"),
            ("'\\ud83d'", "\u{fffd}"),
        ] {
            assert_eq!(json(text).as_deref(), Some(wanted), "{text}");
        }
    }

    #[test]
    fn other_texts_are_none() {
        for text in [
            "",
            "x",
            "{'a': x}",
            "f'a'",
            "{'a': 1",
            "--1",
            "1 + 2",
            "01",
            "{[]: 1}",
            "{[1]}",
            "'a\nb'",
            "1__0",
            "_1",
            "{'a': 1} 2",
            "{'a' 1}",
            "[1 2]",
            "{'a': 1, 2}",
            "b'a' 'b'",
            "'a",
            "1j",
            "\0",
        ] {
            assert_eq!(json(text), None, "{text}");
        }
    }

    #[test]
    fn depth_is_bounded() {
        for opening in ["[", "(", "{'a': "] {
            assert_eq!(json(&opening.repeat(3_000)), None);
        }
        assert!(json(&("[".repeat(DEPTH_MAX) + &"]".repeat(DEPTH_MAX))).is_some());
    }
}
