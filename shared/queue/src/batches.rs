//! How bodies are packed into SQS requests, and which bodies SQS takes at all.
//!
//! A request takes ten messages and 1 MiB of bodies together
//! (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/quotas-messages.html>).
//! A body that no request can carry is found before anything is sent.

use std::ops::Range;

use thiserror::Error;

/// Messages per request.
pub(crate) const MAX_ENTRIES: usize = 10;
/// Bytes per request, and so per message: 1 MiB.
const MAX_BYTES: usize = 1024 * 1024;

/// Why SQS would not take a body.
#[derive(Clone, Copy, Debug, Eq, Error, PartialEq)]
pub(crate) enum BodyError {
    /// A message has at least one character.
    #[error("message {0} of the call is empty")]
    Empty(usize),
    /// A message has at most 1 MiB.
    #[error("message {index} of the call has {bytes} bytes, above SQS's limit of 1 MiB")]
    TooLarge { index: usize, bytes: usize },
    /// Bodies are XML's characters
    /// (<https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html>).
    #[error("message {index} of the call holds the character {character:?}, which SQS refuses")]
    Character { index: usize, character: char },
}

/// Splits `bodies`, all of them legal, into the ranges that one request each carries.
pub(crate) fn batches(bodies: &[String]) -> Result<Vec<Range<usize>>, BodyError> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, body) in bodies.iter().enumerate() {
        check(index, body)?;
        if index - start == MAX_ENTRIES || bytes + body.len() > MAX_BYTES {
            batches.push(start..index);
            (start, bytes) = (index, 0);
        }
        bytes += body.len();
    }
    if start < bodies.len() {
        batches.push(start..bodies.len());
    }
    Ok(batches)
}

fn check(index: usize, body: &str) -> Result<(), BodyError> {
    if body.is_empty() {
        return Err(BodyError::Empty(index));
    }
    if body.len() > MAX_BYTES {
        return Err(BodyError::TooLarge { index, bytes: body.len() });
    }
    match body.chars().find(|character| !is_legal(*character)) {
        Some(character) => Err(BodyError::Character { index, character }),
        None => Ok(()),
    }
}

const fn is_legal(character: char) -> bool {
    matches!(character, '\t' | '\n' | '\r' | '\u{20}'..='\u{D7FF}' | '\u{E000}'..='\u{FFFD}' | '\u{10000}'..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bodies(sizes: &[usize]) -> Vec<String> {
        sizes.iter().map(|size| "x".repeat(*size)).collect()
    }

    #[test]
    fn ten_messages_fill_a_request() {
        assert_eq!(batches(&bodies(&[1; 25])), Ok(vec![0..10, 10..20, 20..25]));
        assert_eq!(batches(&bodies(&[1; 10])).map(|batches| batches.len()), Ok(1));
        assert_eq!(batches(&[]), Ok(vec![]));
    }

    #[test]
    fn a_mebibyte_fills_a_request() {
        assert_eq!(batches(&bodies(&[MAX_BYTES, 1])), Ok(vec![0..1, 1..2]));
        assert_eq!(batches(&bodies(&[MAX_BYTES - 1, 1, 1])), Ok(vec![0..2, 2..3]));
        assert_eq!(batches(&bodies(&[600_000, 600_000, 400_000])), Ok(vec![0..1, 1..3]));
    }

    #[test]
    fn what_sqs_refuses_is_found_first() {
        assert_eq!(batches(&bodies(&[1, 0])), Err(BodyError::Empty(1)));
        let bytes = MAX_BYTES + 1;
        assert_eq!(batches(&bodies(&[bytes])), Err(BodyError::TooLarge { index: 0, bytes }));
        for character in ['\0', '\u{1f}', '\u{fffe}', '\u{ffff}'] {
            let body = format!("a{character}");
            assert_eq!(batches(&[body]), Err(BodyError::Character { index: 0, character }));
        }
        assert!(batches(&["\t\r\n ü\u{fffd}😀".to_owned()]).is_ok());
    }
}
