//! The wire format of protobuf: fields with their numbers.

/// Bytes that are not in the wire format, or a text that is not UTF-8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Levels of messages within a message; deeper ones are refused.
pub const DEPTH_MAX: usize = 100;

const TAG_BYTES_MAX: usize = 5;
const VARINT_BYTES_MAX: usize = 10;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field<'a> {
    /// A number of as many bytes as it needs.
    Varint(u64),
    /// A number of eight bytes.
    Fixed64(u64),
    /// A message, a text, or bytes.
    Bytes(&'a [u8]),
    /// A number of four bytes, which nothing here has.
    Fixed32,
}

/// The fields of a message, in their order.
#[derive(Clone, Copy, Debug)]
pub struct Fields<'a> {
    rest: &'a [u8],
    depth: usize,
}

impl<'a> Fields<'a> {
    /// The fields of a message that stands alone.
    pub fn new(message: &'a [u8]) -> Self {
        Self {
            rest: message,
            depth: DEPTH_MAX,
        }
    }

    /// The fields of a message within this one.
    pub fn within(&self, message: &'a [u8]) -> Result<Self, Corrupt> {
        let depth = self.depth.checked_sub(1).ok_or(Corrupt)?;
        Ok(Self {
            rest: message,
            depth,
        })
    }

    /// The number and the value of the next field; `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u32, Field<'a>)>, Corrupt> {
        while !self.rest.is_empty() {
            let (number, kind) = self.tag()?;
            let field = match kind {
                0 => Field::Varint(self.varint(VARINT_BYTES_MAX)?),
                1 => Field::Fixed64(u64::from_le_bytes(*self.fixed()?)),
                2 => {
                    let size = self.varint(TAG_BYTES_MAX)?;
                    let size = i32::try_from(size).map_err(|_| Corrupt)?;
                    Field::Bytes(self.take(usize::try_from(size).map_err(|_| Corrupt)?)?)
                }
                3 => {
                    self.skip_group(number)?;
                    continue;
                }
                5 => {
                    self.fixed::<4>()?;
                    Field::Fixed32
                }
                _ => return Err(Corrupt),
            };
            return Ok(Some((number, field)));
        }
        Ok(None)
    }

    /// Skip a group, an old form of a message that ends with a tag of its own.
    fn skip_group(&mut self, group: u32) -> Result<(), Corrupt> {
        let mut open = vec![group];
        while let Some(innermost) = open.last() {
            let (number, kind) = self.tag()?;
            match kind {
                0 => drop(self.varint(VARINT_BYTES_MAX)?),
                1 => drop(self.fixed::<8>()?),
                2 => {
                    let size = self.varint(TAG_BYTES_MAX)?;
                    self.take(usize::try_from(size).map_err(|_| Corrupt)?)?;
                }
                3 if open.len() < self.depth => open.push(number),
                4 if number == *innermost => drop(open.pop()),
                5 => drop(self.fixed::<4>()?),
                _ => return Err(Corrupt),
            }
        }
        Ok(())
    }

    fn tag(&mut self) -> Result<(u32, u8), Corrupt> {
        let tag = u32::try_from(self.varint(TAG_BYTES_MAX)?).map_err(|_| Corrupt)?;
        if tag >> 3 == 0 {
            return Err(Corrupt);
        }
        Ok((tag >> 3, (tag & 7) as u8))
    }

    fn varint(&mut self, bytes_max: usize) -> Result<u64, Corrupt> {
        let mut value = 0_u64;
        for (at, byte) in self.rest.iter().take(bytes_max).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at);
            if *byte < 0x80 {
                self.rest = &self.rest[at + 1..];
                return Ok(value);
            }
        }
        Err(Corrupt)
    }

    fn take(&mut self, size: usize) -> Result<&'a [u8], Corrupt> {
        let (taken, rest) = self.rest.split_at_checked(size).ok_or(Corrupt)?;
        self.rest = rest;
        Ok(taken)
    }

    fn fixed<const SIZE: usize>(&mut self) -> Result<&'a [u8; SIZE], Corrupt> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Corrupt)?;
        self.rest = rest;
        Ok(taken)
    }
}

/// Bytes as text.
pub fn text(bytes: &[u8]) -> Result<&str, Corrupt> {
    str::from_utf8(bytes).map_err(|_| Corrupt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(message: &[u8]) -> Result<Vec<(u32, Field<'_>)>, Corrupt> {
        let mut fields = Fields::new(message);
        let mut found = Vec::new();
        while let Some(field) = fields.field()? {
            found.push(field);
        }
        Ok(found)
    }

    #[test]
    fn fields_are_told_apart() {
        let message = [
            0x08, 0x96, 0x01, 0x12, 1, b'a', 0x1d, 0, 0, 0, 0, 0x21, 7, 0, 0, 0, 0, 0, 0, 0,
        ];
        let found = [
            (1, Field::Varint(150)),
            (2, Field::Bytes(b"a")),
            (3, Field::Fixed32),
            (4, Field::Fixed64(7)),
        ];
        assert_eq!(all(&message), Ok(found.to_vec()));
    }

    #[test]
    fn what_ends_early_is_corrupt() {
        for message in [
            &[0x08][..],
            &[0x08, 0x80],
            &[0x12, 2, 0],
            &[0x1d, 0],
            &[0x00],
            &[0x0e],
        ] {
            assert_eq!(all(message), Err(Corrupt), "{message:?}");
        }
        assert_eq!(
            all(&[0x08, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]),
            Err(Corrupt)
        );
    }

    #[test]
    fn groups_are_passed_over() {
        let after = Ok(vec![(2, Field::Varint(1))]);
        assert_eq!(all(&[0x0b, 0x13, 0x08, 1, 0x14, 0x0c, 0x10, 1]), after);
        for message in [
            &[0x0b][..],
            &[0x0c],
            &[0x0b, 0x14],
            &[0x0b, 0x13, 0x0c, 0x14],
        ] {
            assert_eq!(all(message), Err(Corrupt), "{message:?}");
        }
        assert_eq!(all(&[0x0b; 1 << 20]), Err(Corrupt));
    }
}
