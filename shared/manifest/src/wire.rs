//! Bytes of binary objects: variable-length integers and what is made of them.
//!
//! Reading never panics and never allocates by a length that the input merely claims. Every value
//! has exactly one encoding, so an object that decodes is the one that encoding gives again.

/// What is wrong with the bytes, in words.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Fault(pub &'static str);

/// What is left of an object.
#[derive(Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of all of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: u64) -> Result<&'a [u8], Fault> {
        let split = usize::try_from(count).ok().and_then(|count| self.rest.split_at_checked(count));
        let (taken, rest) = split.ok_or(Fault("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }

    /// The next `N` bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Fault> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or(Fault("it ends too early"))?;
        self.rest = rest;
        Ok(*taken)
    }

    /// The next byte.
    pub fn byte(&mut self) -> Result<u8, Fault> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// An unsigned integer, 7 bits a byte, lowest first.
    pub fn unsigned(&mut self) -> Result<u64, Fault> {
        let mut value = 0_u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(Fault("an integer is out of range"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                let overlong = byte == 0 && shift > 0;
                return if overlong { Err(Fault("an integer is longer than it need be")) } else { Ok(value) };
            }
        }
        Err(Fault("an integer is out of range"))
    }

    /// A signed integer: 0, -1, 1, -2 … as 0, 1, 2, 3 …
    pub fn signed(&mut self) -> Result<i64, Fault> {
        let value = self.unsigned()?;
        Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
    }

    /// A length, and as many bytes of text.
    pub fn text(&mut self) -> Result<&'a str, Fault> {
        let length = self.unsigned()?;
        std::str::from_utf8(self.bytes(length)?).map_err(|_| Fault("a name is not UTF-8"))
    }

    /// Whether nothing is left.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Nothing may be left.
    pub const fn end(&self) -> Result<(), Fault> {
        if self.is_empty() { Ok(()) } else { Err(Fault("it goes on after its end")) }
    }
}

/// Writes what [`Reader::unsigned`] reads.
pub fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = value.to_le_bytes();
        value >>= 7;
        if value == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

/// Writes what [`Reader::signed`] reads.
pub fn put_signed(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Writes what [`Reader::text`] reads.
pub fn put_text(out: &mut Vec<u8>, text: &str) {
    put_unsigned(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn integers_read_back_equal(unsigned: u64, signed: i64) {
            let mut out = Vec::new();
            put_unsigned(&mut out, unsigned);
            put_signed(&mut out, signed);
            let mut reader = Reader::new(&out);
            prop_assert_eq!(reader.unsigned(), Ok(unsigned));
            prop_assert_eq!(reader.signed(), Ok(signed));
            prop_assert_eq!(reader.end(), Ok(()));
        }

        #[test]
        fn an_integer_that_reads_has_no_other_encoding(bytes in prop::collection::vec(any::<u8>(), 0..12)) {
            let mut reader = Reader::new(&bytes);
            if let Ok(value) = reader.unsigned() {
                let mut out = Vec::new();
                put_unsigned(&mut out, value);
                prop_assert!(bytes.starts_with(&out));
                prop_assert_eq!(reader.rest.len(), bytes.len() - out.len());
            }
        }
    }

    #[test]
    fn the_ends_of_the_range_take_ten_bytes() {
        for value in [i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            put_signed(&mut out, value);
            assert_eq!(out.len(), 10);
            assert_eq!(Reader::new(&out).signed(), Ok(value));
        }
    }
}
