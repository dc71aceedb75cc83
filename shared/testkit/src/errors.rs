//! What a failing call looks like to its caller, part by part.

use icefall_catalog::{CatalogError, CommitOutcome, Operation, Reason};
use icefall_queue::QueueError;
use icefall_store::{Attempt, Location, StoreError};

use crate::Failure;

/// What a call of the catalog other than a commit fails with.
pub fn catalog_error(operation: Operation, subject: String) -> impl FnOnce(Failure) -> CatalogError + Send {
    move |failure| {
        let reason = Reason::new(operation, subject, "it fails on purpose");
        match failure {
            Failure::NotFound => CatalogError::NotFound(reason),
            Failure::Denied => CatalogError::Denied(reason),
            Failure::Throttled => CatalogError::Throttled(reason),
            Failure::Unreachable => CatalogError::Unavailable(reason),
            Failure::NoConnection => CatalogError::Unreachable(reason),
            Failure::Conflict => CatalogError::AlreadyExists(reason),
            Failure::Rejected => CatalogError::Rejected(reason),
        }
    }
}

/// What a commit that fails comes to.
#[must_use]
pub fn commit_outcome(failure: Failure, subject: String) -> CommitOutcome {
    let reason = Reason::new(Operation::Commit, subject, "it fails on purpose");
    match failure {
        Failure::NotFound => CommitOutcome::NotFound(reason),
        Failure::Denied => CommitOutcome::Denied(reason),
        Failure::Throttled => CommitOutcome::Throttled(reason),
        Failure::Unreachable => CommitOutcome::Unknown(reason),
        Failure::NoConnection => CommitOutcome::Unreachable(reason),
        Failure::Conflict => CommitOutcome::Conflict(reason),
        Failure::Rejected => CommitOutcome::Rejected(reason),
    }
}

/// What a call of a store fails with.
pub fn store_error(
    operation: icefall_store::Operation,
    location: &Location,
) -> impl FnOnce(Failure) -> StoreError + Send + use<> {
    let attempt = Attempt { operation, location: location.clone() };
    let source = "it fails on purpose".into();
    move |failure| match failure {
        Failure::NotFound => StoreError::NotFound { attempt, source },
        Failure::Denied => StoreError::Denied { attempt, source },
        Failure::Throttled => StoreError::Throttled { attempt, source },
        Failure::Unreachable | Failure::NoConnection => StoreError::Unreachable { attempt, source },
        Failure::Rejected | Failure::Conflict => StoreError::Rejected { attempt, source },
    }
}

/// What a call of the queue fails with.
pub fn queue_error(operation: icefall_queue::Operation) -> impl FnOnce(Failure) -> QueueError + Send {
    let (queue, source) = ("faulty".to_owned(), "it fails on purpose".into());
    move |failure| match failure {
        Failure::NotFound => QueueError::NotFound { operation, queue, source },
        Failure::Denied => QueueError::Denied { operation, queue, source },
        Failure::Throttled => QueueError::Throttled { operation, queue, source },
        Failure::Unreachable | Failure::NoConnection => QueueError::Unreachable { operation, queue, source },
        Failure::Rejected | Failure::Conflict => QueueError::Rejected { operation, queue, source },
    }
}
