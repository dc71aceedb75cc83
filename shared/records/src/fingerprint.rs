//! A record's fingerprint: the low 32 bits of XXH3-64 (seed 0) over a frame of time, key and value.
//!
//! The frame, which audits rebuild byte for byte (all integers little-endian):
//!
//! | part  | first byte | then |
//! |-------|------------|------|
//! | time  | 0: none (absent, null or -1) | nothing |
//! |       | 1: milliseconds | i64 |
//! |       | 2: unreadable | u64 length, the JSON text as delivered |
//! | key   | 0: none (absent or null) | nothing |
//! |       | 1: [`Form::Bytes`] | u64 length, the decoded bytes |
//! |       | 2: [`Form::Json`] | u64 length, the JSON text as delivered |
//! |       | 3: [`Form::Unreadable`] | u64 length, the text between the quotes as delivered |
//! | value | as for the key | |
//!
//! Headers are no part of it. [`Encoding`] says how the parts were delivered; fingerprints of
//! different encodings prove nothing about each other.

use icefall_manifest::{Encoding, Fingerprint};
use xxhash_rust::xxh3::xxh3_64;

use crate::record::{Form, Payload};

/// A frame's bytes besides those of time text, key and value: three first bytes, an i64, two lengths.
pub(crate) const FRAME_OVERHEAD: usize = 3 + 3 * 8;

/// A record's time as the frame holds it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Time<'a> {
    /// Kafka has none.
    None,
    /// Milliseconds since the epoch.
    Millis(i64),
    /// What can't be read, as delivered.
    Unreadable(&'a str),
}

/// The fingerprint of a frame.
#[must_use]
pub(crate) fn of_frame(frame: &[u8]) -> Fingerprint {
    // The hash's upper half is left out on purpose.
    #[expect(clippy::cast_possible_truncation, reason = "a fingerprint is the low 32 bits")]
    Fingerprint(xxh3_64(frame) as u32)
}

/// The fingerprint of a record from its parts.
#[must_use]
pub fn compute(time: Time<'_>, key: Option<Payload<'_>>, value: Option<Payload<'_>>) -> Fingerprint {
    Fingerprinter::default().compute(time, key, value)
}

/// Computes fingerprints of many records, one after the other, as an audit does: the memory for the frame is kept.
#[derive(Clone, Debug, Default)]
pub struct Fingerprinter {
    frame: Vec<u8>,
}

impl Fingerprinter {
    /// The fingerprint of a record from its parts.
    pub fn compute(
        &mut self,
        time: Time<'_>,
        key: Option<Payload<'_>>,
        value: Option<Payload<'_>>,
    ) -> Fingerprint {
        self.frame.clear();
        append_time(&mut self.frame, time);
        append_payload(&mut self.frame, key);
        append_payload(&mut self.frame, value);
        of_frame(&self.frame)
    }
}

fn append_time(frame: &mut Vec<u8>, time: Time<'_>) {
    match time {
        Time::None => frame.push(0),
        Time::Millis(millis) => {
            frame.push(1);
            frame.extend_from_slice(&millis.to_le_bytes());
        }
        Time::Unreadable(text) => {
            frame.push(2);
            append_text(frame, text.as_bytes());
        }
    }
}

fn append_payload(frame: &mut Vec<u8>, payload: Option<Payload<'_>>) {
    let Some(payload) = payload else {
        frame.push(0);
        return;
    };
    frame.push(form_byte(payload.form));
    append_text(frame, payload.bytes);
}

fn append_text(frame: &mut Vec<u8>, bytes: &[u8]) {
    frame.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    frame.extend_from_slice(bytes);
}

/// A form's first byte in the frame.
pub(crate) const fn form_byte(form: Form) -> u8 {
    match form {
        Form::Bytes => 1,
        Form::Json => 2,
        Form::Unreadable => 3,
    }
}

/// How a record was delivered.
///
/// With registry metadata the event does not say whether the mapping decodes to JSON or hands over
/// the source format. A payload that begins as JSON does counts as decoded. A source payload that
/// happens to begin so gets the same tag each time it is delivered, which is all that the ledger
/// relies on.
pub(crate) fn encoding(
    registry: bool,
    unreadable_time: bool,
    key: Option<Payload<'_>>,
    value: Option<Payload<'_>>,
) -> Encoding {
    let has = |form: Form| [key, value].iter().flatten().any(|payload| payload.form == form);
    if unreadable_time || has(Form::Unreadable) {
        return Encoding::Unreadable;
    }
    if has(Form::Json) {
        return Encoding::RegistryJson;
    }
    match (registry, value.or(key)) {
        (false, _) => Encoding::Raw,
        (true, Some(payload)) if begins_as_json(payload.bytes) => Encoding::RegistryJson,
        (true, _) => Encoding::RegistrySource,
    }
}

fn begins_as_json(bytes: &[u8]) -> bool {
    matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[' | b'"'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(bytes: &[u8]) -> Payload<'_> {
        Payload { form: Form::Bytes, bytes }
    }

    #[test]
    fn the_frame_is_the_documented_one() {
        let mut frame = vec![1];
        frame.extend_from_slice(&1_545_084_650_987_i64.to_le_bytes());
        frame.push(0);
        frame.push(1);
        frame.extend_from_slice(&5_u64.to_le_bytes());
        frame.extend_from_slice(b"hello");
        let expected = of_frame(&frame);
        assert_eq!(compute(Time::Millis(1_545_084_650_987), None, Some(bytes(b"hello"))), expected);
        assert_eq!(expected, Fingerprint(2_561_029_705));
    }

    /// A stored format: these very numbers stand in ledgers. They come from another implementation,
    /// Python's `xxhash` (3.6), over frames written down by hand:
    ///
    /// ```python
    /// import struct, xxhash
    /// text = lambda b: struct.pack("<Q", len(b)) + b
    /// frame = b"\x01" + struct.pack("<q", 1545084650987) + b"\x00" + b"\x01" + text(b"hello")
    /// # frame = b"\x02" + text(b"1.5") + b"\x01" + text(b"key") + b"\x02" + text(b'{"a":1}')
    /// # frame = b"\x00" + b"\x03" + text(b"@@") + b"\x01" + text(bytes(range(256)) * 2)
    /// print(xxhash.xxh3_64_intdigest(frame) & 0xFFFFFFFF)
    /// ```
    #[test]
    fn fingerprints_are_those_of_another_implementation() {
        let payload = |form, bytes| Some(Payload { form, bytes });
        assert_eq!(
            compute(Time::Millis(1_545_084_650_987), None, payload(Form::Bytes, b"hello")),
            Fingerprint(2_561_029_705)
        );
        assert_eq!(
            compute(
                Time::Unreadable("1.5"),
                payload(Form::Bytes, b"key"),
                payload(Form::Json, br#"{"a":1}"#)
            ),
            Fingerprint(2_361_573_336)
        );
        let mut again = Fingerprinter::default();
        again.compute(Time::Unreadable("a longer one"), payload(Form::Json, b"something"), None);
        let hello = again.compute(Time::Millis(1_545_084_650_987), None, payload(Form::Bytes, b"hello"));
        assert_eq!(hello, Fingerprint(2_561_029_705), "what was computed before leaves no trace");
        let long: Vec<u8> = (0..=255).chain(0..=255).collect();
        assert_eq!(
            compute(Time::None, payload(Form::Unreadable, b"@@"), payload(Form::Bytes, &long)),
            Fingerprint(2_494_243_834)
        );
    }

    #[test]
    fn absent_empty_and_moved_bytes_differ() {
        let of = |key, value| compute(Time::None, key, value);
        let all = [
            of(None, None),
            of(None, Some(bytes(b""))),
            of(Some(bytes(b"")), None),
            of(Some(bytes(b"a")), Some(bytes(b"b"))),
        ];
        let more = [
            of(Some(bytes(b"ab")), Some(bytes(b""))),
            of(Some(bytes(b"")), Some(bytes(b"ab"))),
            compute(Time::Millis(0), None, None),
        ];
        let distinct: std::collections::HashSet<_> = all.iter().chain(&more).collect();
        assert_eq!(distinct.len(), 7);
    }

    #[test]
    fn the_encoding_follows_what_was_delivered() {
        let json = Some(Payload { form: Form::Json, bytes: b"{}" });
        let bad = Some(Payload { form: Form::Unreadable, bytes: b"@" });
        assert_eq!(encoding(false, false, None, Some(bytes(b"{}"))), Encoding::Raw);
        assert_eq!(encoding(false, false, None, json), Encoding::RegistryJson);
        assert_eq!(encoding(true, false, None, Some(bytes(b" {}"))), Encoding::RegistryJson);
        assert_eq!(encoding(true, false, None, Some(bytes(b"\x02\x04"))), Encoding::RegistrySource);
        assert_eq!(encoding(true, false, bad, json), Encoding::Unreadable);
        assert_eq!(encoding(false, true, None, None), Encoding::Unreadable);
    }
}
