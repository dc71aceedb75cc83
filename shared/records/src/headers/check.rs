//! Whether headers are of the shape that the mapping usually writes, at one look and without memory.
//!
//! This is no second definition of what headers are: whatever is unusual (white space, half a pair of
//! surrogates, a number of an odd form) is left to the complete reader.

use memchr::memchr2;

/// Whether `text` is a list of objects of names and byte lists, without anything between.
pub(super) fn is_usual(text: &str) -> bool {
    list(text.as_bytes(), b'[', b']', object) == Some(&[])
}

/// What follows a list between `open` and `close` of at least one `element`, separated by commas.
fn list<'a>(
    text: &'a [u8],
    open: u8,
    close: u8,
    element: impl Fn(&'a [u8]) -> Option<&'a [u8]>,
) -> Option<&'a [u8]> {
    let mut rest = after(text, open)?;
    loop {
        rest = element(rest)?;
        match rest.split_first()? {
            (b',', more) => rest = more,
            (byte, end) => return (*byte == close).then_some(end),
        }
    }
}

fn object(text: &[u8]) -> Option<&[u8]> {
    list(text, b'{', b'}', member)
}

fn member(text: &[u8]) -> Option<&[u8]> {
    value(after(string(text)?, b':')?)
}

fn string(text: &[u8]) -> Option<&[u8]> {
    let mut rest = after(text, b'"')?;
    loop {
        let length = memchr2(b'"', b'\\', rest)?;
        let (plain, end) = rest.split_at(length);
        if plain.iter().any(|byte| *byte < 0x20) {
            return None;
        }
        match end {
            [b'"', rest @ ..] => return Some(rest),
            [b'\\', b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', more @ ..] => rest = more,
            [b'\\', b'u', a, b, c, d, more @ ..] if is_character([*a, *b, *c, *d]) => rest = more,
            _ => return None,
        }
    }
}

/// Whether hexadecimal digits are a character by themselves, and not half a pair of surrogates.
fn is_character(digits: [u8; 4]) -> bool {
    let hex = digits.iter().all(u8::is_ascii_hexdigit);
    let [first, second, ..] = digits;
    hex && (!matches!(first, b'd' | b'D') || matches!(second, b'0'..=b'7'))
}

fn value(text: &[u8]) -> Option<&[u8]> {
    if let Some(rest) = text.strip_prefix(b"null").or_else(|| text.strip_prefix(b"[]")) {
        return Some(rest);
    }
    list(text, b'[', b']', byte)
}

/// A number from -128 to 255 without leading zeros.
fn byte(text: &[u8]) -> Option<&[u8]> {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let length = digits.iter().take(4).take_while(|byte| byte.is_ascii_digit()).count();
    let (digits, rest) = digits.split_at(length);
    let number = digits.iter().fold(0_i32, |number, digit| number * 10 + i32::from(digit - b'0'));
    let plain = (1..=3).contains(&length) && (length == 1 || digits.first() != Some(&b'0'));
    let in_range = (-128..=255).contains(&(sign * number)) && (sign > 0 || number > 0);
    (plain && in_range).then_some(rest)
}

fn after(text: &[u8], byte: u8) -> Option<&[u8]> {
    text.split_first().and_then(|(first, rest)| (*first == byte).then_some(rest))
}
