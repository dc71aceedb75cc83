//! A failed call, by what its caller can do about it.
//!
//! Services name the same trouble differently: AWS's error codes, bare statuses of compatible
//! servers, connections that end without an answer. [`failure`] decides by the code where it is one
//! of the few that contradict their status, else by the status, else by how the call ended.

use std::error::Error;
use std::fmt;

use aws_credential_types::provider::error::CredentialsError;
use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

/// What a caller can do about a failed call.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Kind {
    /// The object, or the queue, does not exist (404).
    NotFound,
    /// The bucket does not exist.
    NoBucket,
    /// The credentials are missing, wrong, expired, or don't allow it (401, 403).
    Denied,
    /// Too many calls (429, 503 with a code that says so): the same call may pass later.
    Throttled,
    /// No answer, or one that says nothing about what was done (5xx, time-out, connection lost).
    Unreachable,
    /// The service understood the call and refuses it: trying again changes nothing.
    Rejected,
}

/// Codes of AWS's common errors and of S3 and SQS
/// (<https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html>,
/// <https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/CommonErrors.html>)
/// whose kind does not follow from their status.
const CODES: &[(&str, Kind)] = &[
    ("NoSuchBucket", Kind::NoBucket),
    ("AccessDenied", Kind::Denied),
    ("AccessDeniedException", Kind::Denied),
    ("ExpiredToken", Kind::Denied),
    ("ExpiredTokenException", Kind::Denied),
    ("IncompleteSignature", Kind::Denied),
    ("InvalidClientTokenId", Kind::Denied),
    ("InvalidToken", Kind::Denied),
    ("MissingAuthenticationToken", Kind::Denied),
    ("RequestExpired", Kind::Denied),
    ("SignatureDoesNotMatch", Kind::Denied),
    ("UnrecognizedClientException", Kind::Denied),
    ("QueueDoesNotExist", Kind::NotFound),
    ("AWS.SimpleQueueService.NonExistentQueue", Kind::NotFound),
    ("KmsThrottled", Kind::Throttled),
    ("OverLimit", Kind::Throttled),
    ("RequestLimitExceeded", Kind::Throttled),
    ("RequestThrottled", Kind::Throttled),
    ("SlowDown", Kind::Throttled),
    ("Throttling", Kind::Throttled),
    ("ThrottlingException", Kind::Throttled),
    ("TooManyRequestsException", Kind::Throttled),
    ("InternalError", Kind::Unreachable),
    ("RequestTimeout", Kind::Unreachable),
    ("ServiceUnavailable", Kind::Unreachable),
];

/// What a service answered, in one line.
#[derive(Debug)]
struct Answer {
    status: u16,
    code: Option<String>,
    message: Option<String>,
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HTTP {}", self.status)?;
        let parts = [&self.code, &self.message].into_iter().flatten();
        parts.map(String::as_str).filter(|part| !part.is_empty()).try_for_each(|part| write!(f, ": {part}"))
    }
}

impl Error for Answer {}

/// A failed call: its kind, and what there is to tell about it.
pub fn failure<E>(error: SdkError<E, HttpResponse>) -> (Kind, Box<dyn Error + Send + Sync>)
where
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let kind = classify(&error);
    match &error {
        SdkError::ServiceError(answer) => {
            let status = answer.raw().status().as_u16();
            let (code, message) = (answer.err().code(), answer.err().message());
            let answer = Answer { status, code: code.map(Into::into), message: message.map(Into::into) };
            (kind, Box::new(answer))
        }
        _ => (kind, Box::new(error)),
    }
}

/// The kind of a failed entry of a batch that was answered as a whole: `sender_fault` says that the
/// same entry would fail again.
#[must_use]
pub fn entry_failure(code: &str, sender_fault: bool) -> Kind {
    let otherwise = if sender_fault { Kind::Rejected } else { Kind::Unreachable };
    by_code(Some(code)).unwrap_or(otherwise)
}

fn classify<E>(error: &SdkError<E, HttpResponse>) -> Kind
where
    E: ProvideErrorMetadata + Error + 'static,
{
    match error {
        SdkError::ServiceError(answer) => {
            by_code(answer.err().code()).unwrap_or_else(|| by_status(answer.raw().status().as_u16()))
        }
        SdkError::ResponseError(answer) => by_status(answer.raw().status().as_u16()),
        SdkError::TimeoutError(_) => Kind::Unreachable,
        SdkError::ConstructionFailure(_) => without_answer(error, Kind::Rejected),
        _ => without_answer(error, Kind::Unreachable),
    }
}

/// An error code that decides by itself.
fn by_code(code: Option<&str>) -> Option<Kind> {
    let code = code?;
    CODES.iter().find(|(known, _)| *known == code).map(|(_, kind)| *kind)
}

/// A success among failures is an answer that can't be read, say a proxy's page: it proves nothing.
fn by_status(status: u16) -> Kind {
    match status {
        401 | 403 => Kind::Denied,
        404 => Kind::NotFound,
        429 => Kind::Throttled,
        200..300 | 408 | 500.. => Kind::Unreachable,
        _ => Kind::Rejected,
    }
}

/// A call that brought no answer: without credentials it was never sent.
fn without_answer(error: &(dyn Error + 'static), otherwise: Kind) -> Kind {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<CredentialsError>() {
            return Kind::Denied;
        }
        cause = error.source();
    }
    otherwise
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_go_before_statuses() {
        assert_eq!(by_code(Some("SlowDown")), Some(Kind::Throttled));
        assert_eq!(by_code(Some("NoSuchBucket")), Some(Kind::NoBucket));
        assert_eq!(by_code(Some("NoSuchKey")), None);
        assert_eq!(by_code(None), None);
    }

    #[test]
    fn an_answer_is_told_in_one_line() {
        let (code, message) = (Some("AccessDenied".to_owned()), Some("no".to_owned()));
        assert_eq!(Answer { status: 403, code, message }.to_string(), "HTTP 403: AccessDenied: no");
        assert_eq!(Answer { status: 500, code: None, message: None }.to_string(), "HTTP 500");
    }

    #[test]
    fn entries_of_a_batch_tell_whose_fault_it_is() {
        assert_eq!(entry_failure("RequestThrottled", false), Kind::Throttled);
        assert_eq!(entry_failure("InvalidMessageContents", true), Kind::Rejected);
        assert_eq!(entry_failure("Whatever", false), Kind::Unreachable);
    }

    #[test]
    fn statuses_tell_what_to_do() {
        let kinds = [200, 301, 400, 401, 403, 404, 408, 409, 429, 500, 503].map(by_status);
        let expected = [
            Kind::Unreachable,
            Kind::Rejected,
            Kind::Rejected,
            Kind::Denied,
            Kind::Denied,
            Kind::NotFound,
            Kind::Unreachable,
            Kind::Rejected,
            Kind::Throttled,
            Kind::Unreachable,
            Kind::Unreachable,
        ];
        assert_eq!(kinds, expected);
    }
}
