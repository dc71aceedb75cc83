//! A fast reader for the event's usual shape.
//!
//! Reading an event costs more than all that is done with its records unless it is kept to finding
//! where fields begin and end. This reader does only that. It is no second definition of what an
//! event is: at anything unusual (an escape in a name, a field twice, text that is not JSON) it gives
//! up, and the complete reader decides. Where it does not give up, both find the same fields, which a
//! property test holds it to.
//!
//! The content of strings is left to those who use them: a control character in a base64 string is
//! found by the decoder, as that record's fault.

use memchr::{memchr, memchr2};

use crate::envelope::{RawEvent, RawRecord};
use crate::scan::order::{Order, Slot};

mod order;

/// Nesting that is followed in fields that nobody reads; deeper is left to the complete reader.
const MAX_DEPTH: usize = 16;

/// The event's fields, or `None` when it is not of the usual shape.
///
/// Each record is handed to `take` as soon as it is found, also when the event turns out to be of
/// another shape further on. `None` from `take` ends the reading.
pub(crate) fn event<'a>(
    text: &'a str,
    mut take: impl FnMut(&RawRecord<'a>) -> Option<()>,
) -> Option<RawEvent<'a>> {
    let mut cursor = Cursor { text, at: 0 };
    let mut event = RawEvent::default();
    let mut order = Order::default();
    let mut has_records = false;
    cursor.object(|cursor, name| match name {
        "records" if has_records => None,
        "records" => {
            has_records = true;
            cursor.object(|cursor, _| cursor.list(|cursor| take(&cursor.record(&mut order)?)))
        }
        "eventSource" => cursor.field(&mut event.source),
        "eventSourceArn" => cursor.field(&mut event.source_arn),
        "bootstrapServers" => cursor.field(&mut event.bootstrap_servers),
        _ => cursor.value(0).map(|_| ()),
    })?;
    [&mut event.source, &mut event.source_arn, &mut event.bootstrap_servers].into_iter().for_each(drop_null);
    cursor.space();
    (has_records && cursor.at == text.len()).then_some(event)
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\r' | b'\t')) {
            self.at += 1;
        }
    }

    /// Takes `byte` after any white space.
    fn take(&mut self, byte: u8) -> Option<()> {
        self.space();
        self.take_here(byte)
    }

    fn take_here(&mut self, byte: u8) -> Option<()> {
        (self.peek()? == byte).then(|| self.at += 1)
    }

    fn object(&mut self, mut member: impl FnMut(&mut Self, &'a str) -> Option<()>) -> Option<()> {
        self.sequence(b'{', b'}', |cursor| {
            let name = cursor.name()?;
            cursor.take(b':')?;
            cursor.space();
            member(cursor, name)
        })
    }

    fn list(&mut self, element: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.sequence(b'[', b']', element)
    }

    fn sequence(
        &mut self,
        open: u8,
        close: u8,
        mut element: impl FnMut(&mut Self) -> Option<()>,
    ) -> Option<()> {
        self.take(open)?;
        if self.take(close).is_some() {
            return Some(());
        }
        loop {
            self.space();
            element(self)?;
            if self.take(b',').is_none() {
                return self.take(close);
            }
        }
    }

    /// A member's name, which holds no escape.
    fn name(&mut self) -> Option<&'a str> {
        let text = self.string()?;
        let name = text.get(1..text.len() - 1)?;
        let plain = name.bytes().all(|byte| byte >= 0x20 && byte != b'\\');
        plain.then_some(name)
    }

    /// A string with its quotes. One that holds an escaped quote is not looked into.
    fn string(&mut self) -> Option<&'a str> {
        let rest = self.rest();
        if rest.first() != Some(&b'"') {
            return None;
        }
        let length = memchr(b'"', rest.get(1..)?)?;
        if rest.get(length) == Some(&b'\\') {
            return None;
        }
        let start = self.at;
        self.at += length + 2;
        self.text.get(start..self.at)
    }

    fn number(&mut self) -> Option<()> {
        let _ = self.take_here(b'-');
        if self.take_here(b'0').is_none() {
            self.digits()?;
        }
        if self.take_here(b'.').is_some() {
            self.digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let count = self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }

    fn word(&mut self, word: &str) -> Option<()> {
        self.rest().starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    /// Any value.
    fn value(&mut self, depth: usize) -> Option<&'a str> {
        let start = self.at;
        match self.peek()? {
            b'"' => return self.string(),
            b'n' => self.word("null")?,
            b't' => self.word("true")?,
            b'f' => self.word("false")?,
            b'{' | b'[' if depth >= MAX_DEPTH => return None,
            b'{' => self.sequence(b'{', b'}', |cursor| cursor.inner_member(depth))?,
            b'[' => self.list(|cursor| cursor.inner(depth))?,
            _ => self.number()?,
        }
        self.text.get(start..self.at)
    }

    fn inner_member(&mut self, depth: usize) -> Option<()> {
        self.inner_string()?;
        self.take(b':')?;
        self.space();
        self.inner(depth)
    }

    /// A value within another.
    fn inner(&mut self, depth: usize) -> Option<()> {
        if self.peek()? == b'"' { self.inner_string() } else { self.value(depth + 1).map(|_| ()) }
    }

    /// A string within a value, up to its end. Its escapes are judged by those who read the value, as that
    /// record's fault.
    fn inner_string(&mut self) -> Option<()> {
        self.take_here(b'"')?;
        loop {
            let length = memchr2(b'"', b'\\', self.rest())?;
            let is_end = self.rest().get(length) == Some(&b'"');
            self.at += length + if is_end { 1 } else { 2 };
            if is_end {
                return Some(());
            }
        }
    }

    fn field(&mut self, slot: &mut Option<&'a str>) -> Option<()> {
        if slot.is_some() {
            return None;
        }
        *slot = Some(self.value(0)?);
        Some(())
    }

    fn record(&mut self, order: &mut Order<'a>) -> Option<RawRecord<'a>> {
        let start = self.at;
        let mut record = RawRecord::default();
        self.take(b'{')?;
        if self.take(b'}').is_none() {
            self.record_fields(&mut record, order)?;
        }
        record.text = self.text.get(start..self.at)?;
        drop_nulls(&mut record);
        Some(record)
    }

    fn record_fields(&mut self, record: &mut RawRecord<'a>, order: &mut Order<'a>) -> Option<()> {
        for position in 0.. {
            self.space();
            let slot = self.record_field(order, position)?;
            self.take(b':')?;
            self.space();
            match slot.of(record) {
                Some(field) => self.field(field)?,
                None => drop(self.value(0)?),
            }
            if self.take(b',').is_none() {
                return self.take(b'}');
            }
        }
        None
    }

    /// Which field the next name is.
    fn record_field(&mut self, order: &mut Order<'a>, position: usize) -> Option<Slot> {
        if let Some((token, slot)) = order.expected(position)
            && self.rest().starts_with(token.as_bytes())
        {
            self.at += token.len();
            return Some(slot);
        }
        let start = self.at;
        let slot = Slot::named(self.name()?);
        order.learn(position, self.text.get(start..self.at)?, slot);
        Some(slot)
    }
}

/// A null is kept until its object ends, so that a second field of the same name is seen.
fn drop_null(slot: &mut Option<&str>) {
    slot.take_if(|text| *text == "null");
}

fn drop_nulls(record: &mut RawRecord<'_>) {
    [&mut record.topic, &mut record.partition, &mut record.offset, &mut record.timestamp]
        .into_iter()
        .for_each(drop_null);
    [&mut record.timestamp_type, &mut record.key, &mut record.value].into_iter().for_each(drop_null);
    [&mut record.headers, &mut record.key_schema, &mut record.value_schema].into_iter().for_each(drop_null);
}
