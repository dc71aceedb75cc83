//! What a call to the store can come to, by what its caller does next.

use std::error::Error;
use std::fmt;

use icefall_aws::Kind;
use thiserror::Error;

use crate::Location;

/// What was tried.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Operation {
    /// Storing an object.
    Put,
    /// Reading one, or a range of it.
    Get,
    /// Asking for its size.
    Head,
    /// Listing those that begin like it.
    List,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Put => "write",
            Self::Get => "read",
            Self::Head => "look up",
            Self::List => "list",
        })
    }
}

/// The call that failed.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Attempt {
    /// What was tried.
    pub operation: Operation,
    /// On which object.
    pub location: Location,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "can't {} {}", self.operation, self.location)
    }
}

/// What the service said, or how the call ended.
pub(crate) type Source = Box<dyn Error + Send + Sync>;

/// Why a call to the store failed.
#[derive(Debug, Error)]
pub enum StoreError {
    /// There is no such object.
    #[error("{attempt}: there is no such object")]
    NotFound {
        /// The call.
        attempt: Attempt,
        /// The answer.
        source: Source,
    },
    /// There is no such bucket: the settings name another store or bucket than is there.
    #[error("{attempt}: there is no such bucket; check the bucket's name, the endpoint and the region")]
    NoBucket {
        /// The call.
        attempt: Attempt,
        /// The answer.
        source: Source,
    },
    /// The credentials don't allow it. Nothing was done.
    #[error(
        "{attempt}: access denied; check the store's credentials, their policy and the region \
         (a missing object looks like this too without s3:ListBucket, and so does a key outside \
         the layout that a table bucket allows)"
    )]
    Denied {
        /// The call.
        attempt: Attempt,
        /// The answer.
        source: Source,
    },
    /// The store asks to slow down.
    #[error("{attempt}: the store is throttling; it is tried again later")]
    Throttled {
        /// The call.
        attempt: Attempt,
        /// The answer.
        source: Source,
    },
    /// No answer that tells: what was written may be there or not.
    #[error("{attempt}: no usable answer; check the endpoint and the network; it is tried again later")]
    Unreachable {
        /// The call.
        attempt: Attempt,
        /// How it ended.
        source: Source,
    },
    /// The store refuses the request as such: trying again changes nothing.
    #[error("{attempt}: the store refuses the request; its answer says why")]
    Rejected {
        /// The call.
        attempt: Attempt,
        /// The answer.
        source: Source,
    },
    /// The object is there, but it is not what Icefall writes at this place.
    #[error("{attempt}: the object is damaged, or not of this place; restore it as it was written")]
    Malformed {
        /// The call.
        attempt: Attempt,
        /// What is wrong with it.
        source: Source,
    },
}

impl StoreError {
    /// The error of `kind`.
    pub(crate) fn new(
        kind: Kind,
        operation: Operation,
        location: &Location,
        source: impl Into<Source>,
    ) -> Self {
        let (attempt, source) = (Attempt { operation, location: location.clone() }, source.into());
        match kind {
            Kind::NotFound => Self::NotFound { attempt, source },
            Kind::NoBucket => Self::NoBucket { attempt, source },
            Kind::Denied => Self::Denied { attempt, source },
            Kind::Throttled => Self::Throttled { attempt, source },
            Kind::Unreachable => Self::Unreachable { attempt, source },
            Kind::Rejected => Self::Rejected { attempt, source },
        }
    }

    /// The store's error behind one of `iceberg`'s, when reading or writing through
    /// [`file_io`](crate::file_io) failed.
    #[must_use]
    pub fn behind(error: &iceberg::Error) -> Option<&Self> {
        let mut cause: Option<&(dyn Error + 'static)> = error.source();
        while let Some(error) = cause {
            if let Some(found) = error.downcast_ref() {
                return Some(found);
            }
            cause = error.source();
        }
        None
    }

    /// The call that failed.
    #[must_use]
    pub const fn attempt(&self) -> &Attempt {
        match self {
            Self::NotFound { attempt, .. }
            | Self::NoBucket { attempt, .. }
            | Self::Denied { attempt, .. }
            | Self::Throttled { attempt, .. }
            | Self::Unreachable { attempt, .. }
            | Self::Rejected { attempt, .. }
            | Self::Malformed { attempt, .. } => attempt,
        }
    }

    /// An object that is there but not as it should be.
    pub(crate) fn malformed(location: &Location, source: impl Into<Source>) -> Self {
        let attempt = Attempt { operation: Operation::Get, location: location.clone() };
        Self::Malformed { attempt, source: source.into() }
    }
}
