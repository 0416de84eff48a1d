//! `MessagePack` in attributes of bytes, which are base64 here: `msgpack/msgpack: spec.md`.

use std::borrow::Cow;

use crate::wire::value::{Map, Value, base64, bytes_of};

// Objects within each other; a producer's own have some ten.
const DEPTH_MAX: usize = 64;

/// The object in a text of base64; `None` if it is anything else.
#[must_use]
pub fn packed(text: &str) -> Option<Value<'static>> {
    let bytes = bytes_of(text)?;
    let mut reader = Reader { rest: &bytes };
    let value = reader.value(0)?;
    let is_whole = reader.rest.is_empty() && matches!(value, Value::Map(_));
    is_whole.then_some(value)
}

/// Reads packed values, of which each says its length before.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn value(&mut self, depth: usize) -> Option<Value<'static>> {
        if depth > DEPTH_MAX {
            return None;
        }
        let [kind] = *self.take(1)? else { return None };
        let small = usize::from(kind);
        Some(match kind {
            0x00..=0x7f => Value::Int(i64::from(kind)),
            0x80..=0x8f => self.map(small & 15, depth)?,
            0x90..=0x9f => self.list(small & 15, depth)?,
            0xa0..=0xbf => self.text(small & 31)?,
            0xc0 => Value::None,
            0xc2 | 0xc3 => Value::Bool(kind == 0xc3),
            0xc4..=0xc6 => {
                let count = self.count(1 << (kind - 0xc4))?;
                Value::Text(Cow::Owned(base64(self.take(count)?)))
            }
            0xca => {
                let bits = u32::try_from(self.number(4)?).ok()?;
                Value::Float(f64::from(f32::from_bits(bits)))
            }
            0xcb => Value::Float(f64::from_bits(self.number(8)?)),
            0xcc..=0xcf => match self.number(1 << (kind - 0xcc))? {
                number if i64::try_from(number).is_err() => {
                    Value::Digits(Cow::Owned(number.to_string()))
                }
                number => Value::Int(number.cast_signed()),
            },
            0xd0..=0xd3 => Value::Int(self.signed(1 << (kind - 0xd0))?),
            0xd9..=0xdb => {
                let count = self.count(1 << (kind - 0xd9))?;
                self.text(count)?
            }
            0xdc | 0xdd => {
                let count = self.count(2 << (kind - 0xdc))?;
                self.list(count, depth)?
            }
            0xde | 0xdf => {
                let count = self.count(2 << (kind - 0xde))?;
                self.map(count, depth)?
            }
            0xe0..=0xff => Value::Int(i64::from(kind.cast_signed())),
            // Types of an application's own.
            _ => return None,
        })
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn number(&mut self, bytes: usize) -> Option<u64> {
        let taken = self.take(bytes)?.iter();
        Some(taken.fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn signed(&mut self, bytes: usize) -> Option<i64> {
        let unused = 64 - 8 * u32::try_from(bytes).ok()?;
        Some((self.number(bytes)? << unused).cast_signed() >> unused)
    }

    fn count(&mut self, bytes: usize) -> Option<usize> {
        usize::try_from(self.number(bytes)?).ok()
    }

    fn text(&mut self, count: usize) -> Option<Value<'static>> {
        let text = str::from_utf8(self.take(count)?).ok()?;
        Some(Value::Text(Cow::Owned(text.to_owned())))
    }

    fn list(&mut self, count: usize, depth: usize) -> Option<Value<'static>> {
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(self.value(depth + 1)?);
        }
        Some(Value::List(items))
    }

    fn map(&mut self, count: usize, depth: usize) -> Option<Value<'static>> {
        let mut map = Map::default();
        for _ in 0..count {
            let Value::Text(key) = self.value(depth + 1)? else {
                return None;
            };
            map.put(key, self.value(depth + 1)?);
        }
        Some(Value::Map(map))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::plain::canonical;

    fn read(bytes: &[u8]) -> Option<String> {
        packed(&base64(bytes)).map(|value| canonical(&value))
    }

    #[test]
    fn objects_are_read() {
        let ints = b"\x81\xa1a\x98\x05\xff\xcc\xc8\xd0\x80\xcd\x01\x00\xd1\xff\x00\xce\0\x01\0\0\xcf\xff\xff\xff\xff\xff\xff\xff\xff";
        let wanted = r#"{"a":[5,-1,200,-128,256,-256,65536,18446744073709551615]}"#;
        assert_eq!(read(ints).as_deref(), Some(wanted));
        let others = b"\xde\x00\x03\xd9\x01b\x93\xc0\xc2\xc3\xa1c\xcb\x3f\xf8\0\0\0\0\0\0\xa1d\xdc\x00\x01\xc4\x01\xff";
        let wanted = r#"{"b":[null,false,true],"c":1.5,"d":["/w=="]}"#;
        assert_eq!(read(others).as_deref(), Some(wanted));
    }

    #[test]
    fn what_is_no_object_is_none() {
        // Not whole, with more behind it, a list, a key that is no text, a type of its own.
        for bytes in [
            &b"\x81\xa1a"[..],
            b"\x81\xa1a\x01\x01",
            b"\x91\x01",
            b"\x81\x01\x01",
            b"\x81\xa1a\xd4\x01\x01",
            b"\xdf\xff\xff\xff\xff\xa1a\x01",
            b"",
        ] {
            assert_eq!(read(bytes), None);
        }
        let deep = [[&b"\x81\xa1a"[..]; 100].concat(), vec![1]].concat();
        assert_eq!(read(&deep), None);
        assert_eq!(packed("run the tests"), None);
        assert_eq!(packed("gaFh"), None);
    }
}
