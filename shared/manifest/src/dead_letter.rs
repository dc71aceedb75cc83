//! A record that could not become a row, kept whole with the reason why.
//!
//! The writer puts a batch's dead letters into one object of the ops bucket, a line of JSON each; the
//! committer turns them into rows of the dead-letter table. Nothing of the record is lost on the way:
//! key, value and headers are kept byte for byte.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::{Offset, Partition, Source, TableName};

/// Bytes that travel as base64.
#[derive(Clone, Debug, Default, Deserialize, Eq, Hash, PartialEq, Serialize)]
#[serde(try_from = "String", into = "String")]
pub struct Blob(pub Vec<u8>);

impl From<Blob> for String {
    fn from(blob: Blob) -> Self {
        STANDARD.encode(blob.0)
    }
}

impl TryFrom<String> for Blob {
    type Error = base64::DecodeError;

    fn try_from(text: String) -> Result<Self, base64::DecodeError> {
        STANDARD.decode(text).map(Self)
    }
}

/// A header as it was delivered; the same name may come again.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Header {
    /// The header's name.
    pub key: String,
    /// Its value, if it has one.
    pub value: Option<Blob>,
}

/// A dead letter.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub struct DeadLetter {
    /// Where the record comes from.
    pub source: Source,
    /// Its partition.
    pub partition: Partition,
    /// Its offset.
    pub offset: Offset,
    /// Its Kafka timestamp in milliseconds since the epoch, if it has one.
    pub timestamp_ms: Option<i64>,
    /// Its key.
    pub key: Option<Blob>,
    /// Its value; the delivered text where that was no base64.
    pub value: Option<Blob>,
    /// Its headers, in order.
    pub headers: Vec<Header>,
    /// The table that it was meant for.
    pub target_table: TableName,
    /// What kind of fault it is, as a short stable word.
    pub error_class: String,
    /// What exactly is wrong, naming the column and the rule.
    pub error_text: String,
    /// When it became a dead letter, in milliseconds since the epoch.
    pub time_ms: u64,
}

/// A line of a dead-letter file that is none.
#[derive(Debug, Error)]
#[error("line {line} of the dead-letter file can't be read")]
pub struct DeadLetterError {
    line: usize,
    source: serde_json::Error,
}

impl DeadLetter {
    /// The file's text for `letters`: a line each, in order.
    pub fn encode_lines(letters: &[Self]) -> Result<Vec<u8>, serde_json::Error> {
        let mut text = Vec::new();
        for letter in letters {
            serde_json::to_writer(&mut text, letter)?;
            text.push(b'\n');
        }
        Ok(text)
    }

    /// The dead letters of a file's text, in order.
    pub fn decode_lines(text: &[u8]) -> Result<Vec<Self>, DeadLetterError> {
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        lines
            .enumerate()
            .map(|(index, line)| {
                serde_json::from_slice(line).map_err(|source| DeadLetterError { line: index + 1, source })
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(value: Option<&[u8]>) -> DeadLetter {
        DeadLetter {
            source: Source {
                pipeline: "demo".try_into().expect("a pipeline id"),
                cluster: "local".try_into().expect("a cluster name"),
                topic: "clicks".try_into().expect("a topic"),
            },
            partition: Partition::new(1).expect("a partition"),
            offset: Offset::new(2).expect("an offset"),
            timestamp_ms: None,
            key: Some(Blob(vec![0, 255])),
            value: value.map(|bytes| Blob(bytes.to_vec())),
            headers: vec![Header { key: "h".to_owned(), value: None }],
            target_table: "a.b".try_into().expect("a table name"),
            error_class: "not-json".to_owned(),
            error_text: "line\nbreak".to_owned(),
            time_ms: 3,
        }
    }

    #[test]
    fn any_bytes_read_back_equal_in_order() {
        let letters = [letter(Some(b"\xff\n\x00")), letter(None), letter(Some(b""))];
        let text = DeadLetter::encode_lines(&letters).expect("letters serialize");
        assert_eq!(DeadLetter::decode_lines(&text).expect("it was written by us"), letters);
    }

    #[test]
    fn a_broken_line_is_named() {
        let mut text = DeadLetter::encode_lines(&[letter(None)]).expect("letters serialize");
        text.extend_from_slice(b"{}\n");
        let error = DeadLetter::decode_lines(&text).expect_err("the second line is no dead letter");
        assert_eq!(error.to_string(), "line 2 of the dead-letter file can't be read");
    }
}
