//! What an answer says when it is no success, however it is written.
//!
//! Catalogs refuse in the specification's JSON, in AWS services' JSON, in XML, in a proxy's HTML, or with an empty
//! body. This module reads them all into a type and a short message, cuts stacks, and takes out whatever of the
//! request's own credentials a server echoes: S3-like services repeat the canonical request, session token included.

use std::fmt::Write as _;
use std::time::Duration;

use bytes::Bytes;
use icefall_clock::Timestamp;
use icefall_secret::Secret;
use serde_json::Value;

/// Longest message that is kept, in characters.
const MESSAGE_LENGTH: usize = 500;

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// The `x-amzn-errortype` header, in which AWS services name the error.
    pub(crate) error_type: Option<String>,
    /// How long the server asks to wait.
    pub(crate) retry_after: Option<Duration>,
    /// The server's own time.
    pub(crate) date: Option<Timestamp>,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

/// What an answer says about its refusal.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Refusal {
    pub(crate) kind: Option<String>,
    pub(crate) message: String,
}

impl Refusal {
    /// Reads the body of an answer, without `secrets` in case it echoes them.
    pub(crate) fn read(answer: &Answer, secrets: &[Secret]) -> Self {
        let text = String::from_utf8_lossy(&answer.body);
        let (kind, message) = match serde_json::from_str::<Value>(&text) {
            Ok(json) => (kind_of(&json), message_of(&json).unwrap_or_else(|| text.to_string())),
            Err(_) => (None, without_tags(&text)),
        };
        let kind = kind.or_else(|| answer.error_type.clone()).map(|kind| bare_kind(&kind));
        Self {
            kind: kind.filter(|kind| !kind.is_empty()),
            message: shorten(&without_secrets(&message, secrets)),
        }
    }
}

/// `error.type` of the Iceberg REST specification, `__type` and `code` of AWS services, `error` of OAuth 2.0.
fn kind_of(json: &Value) -> Option<String> {
    let places = ["/error/type", "/__type", "/code", "/Code", "/type", "/error"];
    first_string(json, &places)
}

fn message_of(json: &Value) -> Option<String> {
    let places = ["/error/message", "/message", "/Message", "/error_description", "/error"];
    first_string(json, &places)
}

fn first_string(json: &Value, places: &[&str]) -> Option<String> {
    places.iter().find_map(|place| json.pointer(place)?.as_str()).map(str::to_owned)
}

/// `com.amazon.coral#AccessDeniedException:http://…` is an `AccessDeniedException`.
fn bare_kind(kind: &str) -> String {
    let named = kind.rsplit('#').next().unwrap_or(kind);
    let bare = named.split(':').next().unwrap_or(named).trim();
    bare.chars().filter(char::is_ascii_graphic).take(80).collect()
}

fn without_tags(text: &str) -> String {
    let mut inside = false;
    text.chars()
        .map(|c| match c {
            '<' => {
                inside = true;
                ' '
            }
            '>' if inside => {
                inside = false;
                ' '
            }
            _ if inside => ' ',
            c => c,
        })
        .collect()
}

fn without_secrets(message: &str, secrets: &[Secret]) -> String {
    let message = message.split("The Canonical String").next().unwrap_or_default();
    let secrets = secrets.iter().map(Secret::expose).filter(|secret| !secret.is_empty());
    secrets.fold(message.to_owned(), |message, secret| message.replace(secret, "***"))
}

/// One line without stack, of bounded length.
pub(crate) fn shorten(message: &str) -> String {
    let above_stack = message.lines().take_while(|line| !line.trim_start().starts_with("at "));
    let mut short = String::new();
    let words = above_stack.flat_map(str::split_whitespace);
    for word in words {
        let space = if short.is_empty() { "" } else { " " };
        let _ = write!(short, "{space}{word}");
        if short.chars().count() > MESSAGE_LENGTH {
            short = short.chars().take(MESSAGE_LENGTH).collect();
            short.push('…');
            return short;
        }
    }
    if short.is_empty() { "the answer says nothing more".to_owned() } else { short }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Refusal {
        let body = Bytes::copy_from_slice(body.as_bytes());
        Refusal::read(&Answer { status: 400, error_type: None, retry_after: None, date: None, body }, &[])
    }

    #[test]
    fn the_specifications_errors_are_read_without_their_stack() {
        let refusal = read(
            r#"{"error":{"message":"Table has changed\n\tat org.apache.Foo(Foo.java:1)","type":"CommitFailedException","code":409,"stack":["a","b"]}}"#,
        );
        assert_eq!(refusal.kind.as_deref(), Some("CommitFailedException"));
        assert_eq!(refusal.message, "Table has changed");
    }

    #[test]
    fn aws_errors_are_read() {
        let refusal = read(r#"{"__type":"com.amazon.coral#AccessDeniedException","Message":"no"}"#);
        assert_eq!(refusal.kind.as_deref(), Some("AccessDeniedException"));
        assert_eq!(refusal.message, "no");
        let header = Answer {
            status: 403,
            error_type: Some("ForbiddenException:http://internal/".to_owned()),
            retry_after: None,
            date: None,
            body: Bytes::from_static(b"{}"),
        };
        assert_eq!(Refusal::read(&header, &[]).kind.as_deref(), Some("ForbiddenException"));
    }

    #[test]
    fn oauth_errors_are_read() {
        let refusal = read(r#"{"error":"invalid_client","error_description":"no such client"}"#);
        assert_eq!(refusal.kind.as_deref(), Some("invalid_client"));
        assert_eq!(refusal.message, "no such client");
    }

    #[test]
    fn empty_and_foreign_bodies_are_survived() {
        assert_eq!(read("").message, "the answer says nothing more");
        let html = "<html><head><title>502 Bad Gateway</title></head>\n<body><h1>nginx</h1></body></html>";
        assert_eq!(read(html).message, "502 Bad Gateway nginx");
        assert_eq!(read("{\"error\":").message, "{\"error\":");
        assert_eq!(read("[1]").message, "[1]");
        assert_eq!(read("\u{fffd}").message, "\u{fffd}");
    }

    #[test]
    fn long_messages_are_cut() {
        let message = read(&"word ".repeat(10_000)).message;
        assert_eq!(message.chars().count(), MESSAGE_LENGTH + 1);
        assert_eq!(read(&"x".repeat(10_000)).message.chars().count(), MESSAGE_LENGTH + 1);
    }

    #[test]
    fn echoed_secrets_are_taken_out() {
        let secrets = ["the-secret", "the-token"].map(|text| Secret::new(text.to_owned()));
        let body = Bytes::from_static(
            br#"{"message":"bad the-secret the-token. The Canonical String for this request should have been x"}"#,
        );
        let answer = Answer { status: 403, error_type: None, retry_after: None, date: None, body };
        assert_eq!(Refusal::read(&answer, &secrets).message, "bad *** ***.");
    }
}
