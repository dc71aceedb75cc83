//! Record headers: a list of objects, each a name and its bytes.
//!
//! The mapping writes bytes as Java does, signed, and sometimes as others do, unsigned; both are
//! the same byte. Names may repeat and keep their order.
//!
//! Every record's headers are checked, since a record whose headers can't be read is a dead letter;
//! they are taken apart only for the dead letters that keep them.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};

mod check;

/// A header.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Header<'a> {
    /// Its name.
    pub name: Cow<'a, str>,
    /// Its bytes; `None` when null.
    pub value: Option<Vec<u8>>,
}

/// A record's headers, known to be readable.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Headers<'a>(Option<&'a str>);

impl<'a> Headers<'a> {
    /// The headers that a JSON text is. `None`: it is no list of headers.
    pub(crate) fn of(text: &'a str) -> Option<Self> {
        let good = text == "[]" || check::is_usual(text) || parse(text).is_some();
        good.then_some(Self(Some(text)))
    }

    /// The headers in their order.
    #[must_use]
    pub fn to_vec(self) -> Vec<Header<'a>> {
        self.0.and_then(parse).unwrap_or_default()
    }
}

/// Reads the JSON text of a header list. `None`: it is not one.
fn parse(text: &str) -> Option<Vec<Header<'_>>> {
    serde_json::from_str::<HeaderList<'_>>(text).ok().map(|list| list.0)
}

/// Names are borrowed where they hold no escapes, which serde does only for a type that says so.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct HeaderList<'a>(Vec<Header<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for HeaderList<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor).map(Self)
    }
}

struct ListVisitor;

impl<'de> Visitor<'de> for ListVisitor {
    type Value = Vec<Header<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of headers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let mut headers = Vec::with_capacity(list.size_hint().unwrap_or(4));
        while let Some(Object(more)) = list.next_element()? {
            headers.extend(more);
        }
        Ok(headers)
    }
}

/// One element of the list: an object of, usually, one header.
struct Object<'a>(Vec<Header<'a>>);

impl<'de: 'a, 'a> Deserialize<'de> for Object<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor).map(Self)
    }
}

struct ObjectVisitor;

impl<'de> Visitor<'de> for ObjectVisitor {
    type Value = Vec<Header<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of header names and bytes")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut headers = Vec::with_capacity(1);
        while let Some((Name(name), value)) = object.next_entry::<Name<'de>, Option<Vec<i16>>>()? {
            let value = value.map(|bytes| bytes.into_iter().map(byte::<A::Error>).collect()).transpose()?;
            headers.push(Header { name, value });
        }
        Ok(headers)
    }
}

fn byte<E: serde::de::Error>(number: i16) -> Result<u8, E> {
    match (u8::try_from(number), i8::try_from(number)) {
        (Ok(byte), _) => Ok(byte),
        (_, Ok(signed)) => Ok(signed.cast_unsigned()),
        _ => Err(E::custom("a header byte is a number from -128 to 255")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(name: &str, value: Option<&[u8]>) -> Header<'static> {
        Header { name: Cow::Owned(name.to_owned()), value: value.map(<[u8]>::to_vec) }
    }

    #[test]
    fn signed_and_unsigned_bytes_are_the_same_byte() {
        let headers = parse(r#"[{"a":[-128,-1,0,127]},{"a":[128,255]}]"#).expect("headers");
        assert_eq!(headers, [header("a", Some(&[128, 255, 0, 127])), header("a", Some(&[128, 255]))]);
    }

    #[test]
    fn null_empty_and_escaped_headers_are_kept() {
        let headers = parse(r#"[{"n":null},{"e":[]},{"caf\u00e9":[1],"second":[2]}]"#).expect("headers");
        let expected = [
            header("n", None),
            header("e", Some(&[])),
            header("café", Some(&[1])),
            header("second", Some(&[2])),
        ];
        assert_eq!(headers, expected);
    }

    #[test]
    fn what_is_no_header_list_is_refused() {
        for text in [r#"{"a":[1]}"#, "5", r#"[["a",[1]]]"#, r#"[{"a":[256]}]"#, r#"[{"a":[-129]}]"#] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(r#"[{"a":[1.5]}]"#), None);
        assert_eq!(parse(r#"[{"a":"AAE="}]"#), None);
        assert_eq!(Headers::of(r#"[{"a":[256]}]"#), None);
    }

    #[test]
    fn the_usual_shape_is_known_at_a_glance() {
        for text in [
            r#"[{"a":[-128,-1,0,255]},{"a":[]}]"#,
            r#"[{"källa":[104,105]}]"#,
            r#"[{"k\u00e4lla\n":[1]}]"#,
            r#"[{"n":null}]"#,
            r#"[{"":[7]}]"#,
        ] {
            assert!(check::is_usual(text), "{text}");
            assert_eq!(Headers::of(text).map(Headers::to_vec), parse(text));
        }
    }

    fn text() -> impl Strategy<Value = String> {
        let token = prop::sample::select(vec![
            "[",
            "]",
            "{",
            "}",
            ",",
            ":",
            "\"a\"",
            "\"\"",
            "\"\\n\"",
            "\"\\u00e4\\\"\"",
            "\"\\ud834\"",
            "\"\\uD834\\uDD1E\"",
            "\"\\x\"",
            "\"",
            "null",
            " ",
            "-",
            "0",
            "1",
            "25",
            "255",
            "256",
            "-128",
            "-129",
            "01",
            "1.0",
            "[{\"a\":[1,2]}",
            "\u{1}",
        ]);
        prop::collection::vec(token, 0..12).prop_map(|tokens| tokens.concat())
    }

    proptest! {
        #[test]
        fn what_passes_at_a_glance_can_be_read(text in text(), list in prop::collection::vec(text(), 0..3)) {
            for text in [text, format!("[{}]", list.join(",")), format!("[{{\"h\":[{}]}}]", list.join(","))] {
                prop_assert!(!check::is_usual(&text) || parse(&text).is_some(), "{text}");
            }
        }

        #[test]
        fn all_usual_headers_pass_at_a_glance(
            headers in prop::collection::vec(("[a-zé]{0,6}", prop::collection::vec(-128_i16..=255, 0..6)), 1..5)
        ) {
            let objects: Vec<_> = headers.iter().map(|(name, bytes)| {
                let bytes: Vec<_> = bytes.iter().map(ToString::to_string).collect();
                format!("{{\"{name}\":[{}]}}", bytes.join(","))
            }).collect();
            let text = format!("[{}]", objects.join(","));
            prop_assert!(check::is_usual(&text), "{text}");
        }
    }
}
