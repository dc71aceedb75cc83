//! What a call to the queue can come to, by what its caller does next.

use std::error::Error;
use std::fmt;

use icefall_aws::Kind;
use thiserror::Error;

/// What was tried.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    /// Sending messages.
    Send,
    /// Receiving messages.
    Receive,
    /// Deleting messages.
    Delete,
    /// Hiding messages.
    Hide,
    /// Reading its attributes.
    Describe,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Send => "send to",
            Self::Receive => "receive from",
            Self::Delete => "delete from",
            Self::Hide => "hide messages of",
            Self::Describe => "read the attributes of",
        })
    }
}

/// What the service said, or how the call ended.
pub(crate) type Source = Box<dyn Error + Send + Sync>;

/// Why a call to the queue failed. Of a call that takes several messages, some may have been done.
#[derive(Debug, Error)]
pub enum QueueError {
    /// There is no such queue.
    #[error("can't {operation} the queue {queue}: there is no such queue; check its URL and region")]
    NotFound {
        /// What was tried.
        operation: Operation,
        /// The queue's URL.
        queue: String,
        /// The answer.
        source: Source,
    },
    /// The credentials don't allow it.
    #[error("can't {operation} the queue {queue}: access denied; check the queue's credentials and policy")]
    Denied {
        /// What was tried.
        operation: Operation,
        /// The queue's URL.
        queue: String,
        /// The answer.
        source: Source,
    },
    /// The queue asks to slow down.
    #[error("can't {operation} the queue {queue}: it is throttling; it is tried again later")]
    Throttled {
        /// What was tried.
        operation: Operation,
        /// The queue's URL.
        queue: String,
        /// The answer.
        source: Source,
    },
    /// No answer that tells: it may have been done or not.
    #[error(
        "can't {operation} the queue {queue}: no usable answer; check the endpoint and the network; \
         it is tried again later"
    )]
    Unreachable {
        /// What was tried.
        operation: Operation,
        /// The queue's URL.
        queue: String,
        /// How it ended.
        source: Source,
    },
    /// The queue refuses the call as such: trying again changes nothing.
    #[error("can't {operation} the queue {queue}: it refuses the request; its answer says why")]
    Rejected {
        /// What was tried.
        operation: Operation,
        /// The queue's URL.
        queue: String,
        /// The answer.
        source: Source,
    },
}

impl QueueError {
    /// The error of `kind`. A queue knows no buckets.
    pub(crate) fn new(kind: Kind, operation: Operation, queue: &str, source: impl Into<Source>) -> Self {
        let (queue, source) = (queue.to_owned(), source.into());
        match kind {
            Kind::NotFound | Kind::NoBucket => Self::NotFound { operation, queue, source },
            Kind::Denied => Self::Denied { operation, queue, source },
            Kind::Throttled => Self::Throttled { operation, queue, source },
            Kind::Unreachable => Self::Unreachable { operation, queue, source },
            Kind::Rejected => Self::Rejected { operation, queue, source },
        }
    }
}
