//! Values of a turn that are held as they came; names that come again are written once.

use std::borrow::Cow;
use std::sync::Arc;

use super::numbers::{put, take};

// A task has few agents, tools and phases. The names of others are written each time.
const NAMES_MAX: usize = 100;
const NAME_BYTES_MAX: usize = 80;

/// A value of a turn.
#[derive(Clone, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    None,
    Flag(bool),
    Number(i64),
    Text(Cow<'a, str>),
    Name(&'a str),
}

const NONE: u8 = 0;
const FALSE: u8 = 1;
const TRUE: u8 = 2;
const NUMBER: u8 = 3;
const HEX: u8 = 4;
const TEXT: u8 = 5;
const NAME: u8 = 6; // the first of them

/// The names of a task.
#[derive(Clone, Debug, Default)]
pub struct Names(pub Vec<Arc<str>>);

impl Names {
    /// Write a value that is likely to come again.
    pub fn put(&mut self, text: Option<&str>, bytes: &mut Vec<u8>) {
        let Some(text) = text else {
            return bytes.push(NONE);
        };
        let mut found = self.0.iter().position(|name| **name == *text);
        if found.is_none() && self.0.len() < NAMES_MAX && text.len() <= NAME_BYTES_MAX {
            found = Some(self.0.len());
            self.0.reserve_exact(1);
            self.0.push(text.into());
        }
        match found {
            Some(at) => bytes.push(NAME + at as u8),
            None => write(&Value::Text(text.into()), bytes),
        }
    }

    /// Read a name; names that are known are shared.
    #[must_use]
    pub fn shared<'a>(&'a self, rest: &mut &'a [u8]) -> Option<Arc<str>> {
        let known = rest.first().and_then(|tag| tag.checked_sub(NAME));
        match (
            known.and_then(|at| self.0.get(usize::from(at))),
            self.take(rest),
        ) {
            (Some(name), _) => Some(Arc::clone(name)),
            (None, Value::Text(text)) => Some(text.into()),
            _ => None,
        }
    }

    /// Read a value.
    #[must_use]
    pub fn take<'a>(&'a self, rest: &mut &'a [u8]) -> Value<'a> {
        let Some((tag, more)) = rest.split_first() else {
            return Value::None;
        };
        *rest = more;
        match *tag {
            NONE => Value::None,
            FALSE | TRUE => Value::Flag(*tag == TRUE),
            NUMBER => Value::Number(take(rest) as i64),
            HEX | TEXT => {
                let length = usize::try_from(take(rest)).unwrap_or(usize::MAX);
                let (mine, more) = rest.split_at(length.min(rest.len()));
                *rest = more;
                Value::Text(if *tag == HEX {
                    mine.iter().map(|byte| format!("{byte:02x}")).collect()
                } else {
                    String::from_utf8_lossy(mine)
                })
            }
            name => {
                let known = self.0.get(usize::from(name - NAME));
                known.map_or(Value::None, |name| Value::Name(name))
            }
        }
    }
}

/// Write a value.
pub fn write(value: &Value, bytes: &mut Vec<u8>) {
    match value {
        Value::None => bytes.push(NONE),
        Value::Flag(flag) => bytes.push(if *flag { TRUE } else { FALSE }),
        Value::Number(number) => {
            bytes.push(NUMBER);
            put(bytes, *number as u64);
        }
        Value::Name(name) => write(&Value::Text((*name).into()), bytes),
        Value::Text(text) => {
            let halves = halves(text);
            bytes.push(if halves.is_some() { HEX } else { TEXT });
            let text = halves.as_deref().unwrap_or(text.as_bytes());
            put(bytes, text.len() as u64);
            bytes.extend_from_slice(text);
        }
    }
}

/// The bytes of an id or a hash, which is written in hex.
fn halves(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |[a, b]: &[u8; 2]| Some(digit(a)? << 4 | digit(b)?);
    let is_even = !pairs.is_empty() && rest.is_empty();
    is_even.then(|| pairs.iter().map(byte).collect()).flatten()
}
