//! Strict JSON (RFC 8259), read from left to right.
//!
//! The cursor knows the grammar and nothing of columns. It stands on text that is known to be UTF-8,
//! so it looks at bytes only where JSON's own characters, all ASCII, can stand.

use std::borrow::Cow;

use crate::error::{BadRecordClass, Fault, Read, shown};
use crate::unknown::UnknownLog;

/// Objects and lists within each other that a value may have.
pub(crate) const MAX_DEPTH: usize = 64;

pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// The fields without a column that were met.
    pub(crate) unknown: UnknownLog<'a>,
}

/// A number's text, known to follow the grammar.
#[derive(Clone, Copy)]
pub(crate) struct Number<'a> {
    pub(crate) text: &'a str,
    /// Neither fraction nor exponent.
    pub(crate) plain: bool,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0, depth: 0, unknown: UnknownLog::default() }
    }

    pub(crate) const fn position(&self) -> usize {
        self.at
    }

    #[inline]
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    #[inline]
    pub(crate) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    #[inline]
    pub(crate) fn space(&mut self) {
        while let Some(b' ' | b'\n' | b'\r' | b'\t') = self.peek() {
            self.at += 1;
        }
    }

    /// Takes `byte` if it is next.
    #[inline]
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let taken = self.peek() == Some(byte);
        self.at += usize::from(taken);
        taken
    }

    /// Takes `token` if it is next.
    #[inline]
    pub(crate) fn take_token(&mut self, token: &[u8]) -> bool {
        let is_next = self.rest().starts_with(token);
        if is_next {
            self.at += token.len();
        }
        is_next
    }

    #[inline]
    pub(crate) fn expect(&mut self, byte: u8, rule: &'static str) -> Read<()> {
        self.space();
        if self.take(byte) { Ok(()) } else { Err(self.malformed(rule)) }
    }

    /// Takes what opens an object or list.
    #[inline]
    pub(crate) fn open(&mut self) -> Read<()> {
        self.at += 1;
        self.depth += 1;
        if self.depth > MAX_DEPTH { Err(self.too_deep()) } else { Ok(()) }
    }

    pub(crate) fn close(&mut self) {
        self.depth -= 1;
    }

    /// After a member or element: whether another follows, or `close` was taken.
    #[inline]
    pub(crate) fn another(&mut self, close: u8) -> Read<bool> {
        self.space();
        if self.take(b',') {
            self.space();
            return Ok(true);
        }
        if self.take(close) {
            Ok(false)
        } else {
            Err(self.malformed("a comma or the closing bracket must follow"))
        }
    }

    pub(crate) fn null(&mut self) -> Read<()> {
        self.word("null")
    }

    fn word(&mut self, word: &'static str) -> Read<()> {
        if self.take_token(word.as_bytes()) {
            Ok(())
        } else {
            Err(self.malformed("a JSON value must follow"))
        }
    }

    /// The boolean that is next; `None`: something else is.
    pub(crate) fn boolean(&mut self) -> Option<bool> {
        let value = self.take_token(b"true");
        (value || self.take_token(b"false")).then_some(value)
    }

    /// A string; borrowed where it holds no escape. The next byte is its quote.
    #[inline]
    pub(crate) fn string(&mut self) -> Read<Cow<'a, str>> {
        if !self.take(b'"') {
            return Err(self.malformed("a string must follow"));
        }
        let start = self.at;
        self.at += plain_length(self.rest());
        let plain = self.text.get(start..self.at).unwrap_or_default();
        if self.take(b'"') {
            return Ok(Cow::Borrowed(plain));
        }
        self.escaped(plain.to_owned()).map(Cow::Owned)
    }

    #[cold]
    fn escaped(&mut self, mut text: String) -> Read<String> {
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(text);
                }
                Some(b'\\') => text.push(self.escape()?),
                Some(_) => return Err(self.malformed("a control character in a string must be escaped")),
                None => return Err(self.malformed("the string must end")),
            }
            let start = self.at;
            self.at += plain_length(self.rest());
            text.push_str(self.text.get(start..self.at).unwrap_or_default());
        }
    }

    fn escape(&mut self) -> Read<char> {
        self.at += 1;
        let escaped = self.peek();
        self.at += usize::from(escaped.is_some());
        Ok(match escaped {
            Some(b'"') => '"',
            Some(b'\\') => '\\',
            Some(b'/') => '/',
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => return self.unicode_escape(),
            _ => {
                self.at -= usize::from(escaped.is_some());
                return Err(self.malformed("an escape is one of \\\" \\\\ \\/ \\b \\f \\n \\r \\t \\u"));
            }
        })
    }

    fn unicode_escape(&mut self) -> Read<char> {
        const RULE: &str = "a surrogate escape must be one of a pair";
        let first = self.hex4()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        if first >= 0xDC00 || !self.take_token(b"\\u") {
            return Err(self.malformed(RULE));
        }
        let second = self.hex4()?;
        let low = second.checked_sub(0xDC00).filter(|low| *low < 0x400);
        let code = low.map(|low| 0x1_0000 + ((first - 0xD800) << 10) + low);
        code.and_then(char::from_u32).ok_or_else(|| self.malformed(RULE))
    }

    fn hex4(&mut self) -> Read<u32> {
        let digits = self.rest().first_chunk::<4>();
        let code = digits.and_then(|digits| {
            digits.iter().try_fold(0, |code, digit| Some(code * 16 + char::from(*digit).to_digit(16)?))
        });
        let code = code.ok_or_else(|| self.malformed("\\u takes four hexadecimal digits"))?;
        self.at += 4;
        Ok(code)
    }

    /// A number. The next byte may be anything.
    #[inline]
    pub(crate) fn number(&mut self) -> Read<Number<'a>> {
        let start = self.at;
        let length = number_length(self.rest());
        let (length, plain) = length.map_err(|(length, rule)| {
            self.at += length;
            self.malformed(rule)
        })?;
        self.at += length;
        Ok(Number { text: self.text.get(start..self.at).unwrap_or_default(), plain })
    }

    /// Goes past any value, whose grammar is checked all the same.
    pub(crate) fn skip(&mut self) -> Read<()> {
        match self.peek() {
            Some(b'"') => self.string().map(|_| ()),
            Some(b'{') => self.skip_object(),
            Some(b'[') => self.skip_list(),
            Some(b't') => self.word("true"),
            Some(b'f') => self.word("false"),
            Some(b'n') => self.word("null"),
            Some(b'-' | b'0'..=b'9') => self.number().map(|_| ()),
            _ => Err(self.malformed("a JSON value must follow")),
        }
    }

    fn skip_object(&mut self) -> Read<()> {
        self.open()?;
        self.space();
        if !self.take(b'}') {
            loop {
                self.string()?;
                self.expect(b':', "a colon must follow a name")?;
                self.space();
                self.skip()?;
                if !self.another(b'}')? {
                    break;
                }
            }
        }
        self.close();
        Ok(())
    }

    fn skip_list(&mut self) -> Read<()> {
        self.open()?;
        self.space();
        if !self.take(b']') {
            loop {
                self.skip()?;
                if !self.another(b']')? {
                    break;
                }
            }
        }
        self.close();
        Ok(())
    }

    /// Nothing but white space may be left.
    pub(crate) fn end(&mut self) -> Read<()> {
        self.space();
        if self.at == self.text.len() { Ok(()) } else { Err(self.malformed("nothing may follow the value")) }
    }

    #[cold]
    pub(crate) fn malformed(&self, rule: &'static str) -> Fault {
        let next = self.text.get(self.at..).and_then(|rest| rest.chars().next());
        let found = match next {
            Some(next) => format!("{} at byte {}", shown(&format!("{next:?}"), 12), self.at),
            None => format!("its end at byte {}", self.at),
        };
        Fault::new(BadRecordClass::MalformedJson, "JSON", found, rule)
    }

    #[cold]
    fn too_deep(&self) -> Fault {
        let found = format!("more at byte {}", self.at);
        let rule = "nesting deeper than 64 objects and lists is not followed";
        Fault::new(BadRecordClass::NestingTooDeep, "at most 64 levels", found, rule)
    }

    /// A fault about the value that begins at `start`.
    #[cold]
    pub(crate) fn refused(
        &self,
        class: BadRecordClass,
        start: usize,
        expected: &str,
        rule: Cow<'static, str>,
    ) -> Fault {
        let found = found(self.text.get(start..).unwrap_or_default());
        Fault::new(class, expected.to_owned(), found, rule)
    }

    /// A fault about a value whose JSON type the column does not take; malformed if it is no value.
    #[cold]
    pub(crate) fn wrong_type(&mut self, expected: &str, rule: &'static str) -> Fault {
        let start = self.at;
        match self.skip() {
            Ok(()) => self.refused(BadRecordClass::WrongType, start, expected, rule.into()),
            Err(malformed) => malformed,
        }
    }
}

/// A few words for the value that `text` begins with.
fn found(text: &str) -> String {
    const LIMIT: usize = 60;
    match text.bytes().next() {
        Some(b'{') => "an object".to_owned(),
        Some(b'[') => "a list".to_owned(),
        Some(b'"') => {
            let mut cursor = Cursor::new(text);
            let end = cursor.string().map_or(text.len(), |_| cursor.at);
            format!("string {}", shown(text.get(..end).unwrap_or(text), LIMIT))
        }
        Some(b'-' | b'0'..=b'9') => {
            let end = number_length(text.as_bytes()).map_or_else(|(end, _)| end, |(end, _)| end);
            format!("number {}", shown(text.get(..end).unwrap_or(text), LIMIT))
        }
        Some(_) => text.chars().take_while(char::is_ascii_lowercase).take(5).collect(),
        None => "nothing".to_owned(),
    }
}

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const HIGHS: u64 = ONES << 7;

/// A word whose lowest set bit marks its first byte (little-endian) that ends a plain run of a string:
/// a quote, a backslash or a control character.
#[inline]
const fn marks(word: u64) -> u64 {
    let quote = word ^ (ONES * b'"' as u64);
    let backslash = word ^ (ONES * b'\\' as u64);
    let zero = (quote.wrapping_sub(ONES) & !quote) | (backslash.wrapping_sub(ONES) & !backslash);
    (zero | (word.wrapping_sub(ONES * 0x20) & !word)) & HIGHS
}

/// How many bytes of a string come before a quote, a backslash or a control character.
#[inline]
fn plain_length(bytes: &[u8]) -> usize {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let marks = marks(u64::from_le_bytes(*word));
        if marks != 0 {
            return index * 8 + (marks.trailing_zeros() / 8) as usize;
        }
    }
    let is_mark = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    words.len() * 8 + tail.iter().position(is_mark).unwrap_or(tail.len())
}

/// The length of the number that `bytes` begin with and whether it is plain; or how far it goes and
/// the rule that is broken there.
#[inline]
pub(crate) fn number_length(bytes: &[u8]) -> Result<(usize, bool), (usize, &'static str)> {
    let digits = |from: usize| {
        let rest = bytes.get(from..).unwrap_or_default();
        from + rest.iter().take_while(|byte| byte.is_ascii_digit()).count()
    };
    let start = usize::from(bytes.first() == Some(&b'-'));
    let whole = digits(start);
    if whole == start {
        return Err((start, "a JSON value must follow"));
    }
    if bytes.get(start) == Some(&b'0') && whole > start + 1 {
        return Err((start, "a number has no leading zeros"));
    }
    match bytes.get(whole) {
        Some(b'.' | b'e' | b'E') => number_tail(bytes, whole, digits).map(|end| (end, false)),
        _ => Ok((whole, true)),
    }
}

fn number_tail(
    bytes: &[u8],
    whole: usize,
    digits: impl Fn(usize) -> usize,
) -> Result<usize, (usize, &'static str)> {
    let mut end = whole;
    if bytes.get(end) == Some(&b'.') {
        end = digits(whole + 1);
        if end == whole + 1 {
            return Err((end, "a digit must follow the decimal point"));
        }
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let start = end + 1 + sign;
        end = digits(start);
        if end == start {
            return Err((end, "a digit must follow the exponent's sign"));
        }
    }
    Ok(end)
}
