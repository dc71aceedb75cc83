//! The entries of SQS's batch requests. An entry's id is its index in the request.

use aws_sdk_sqs::error::BuildError;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, SendMessageBatchRequestEntry,
};

use crate::Receipt;

pub(super) fn sends(bodies: &[String]) -> Result<Vec<SendMessageBatchRequestEntry>, BuildError> {
    let entry = |(index, body): (usize, &String)| {
        SendMessageBatchRequestEntry::builder().id(index.to_string()).message_body(body).build()
    };
    bodies.iter().enumerate().map(entry).collect()
}

pub(super) fn deletes(receipts: &[Receipt]) -> Result<Vec<DeleteMessageBatchRequestEntry>, BuildError> {
    let entry = |(index, receipt): (usize, &Receipt)| {
        DeleteMessageBatchRequestEntry::builder().id(index.to_string()).receipt_handle(&receipt.0).build()
    };
    receipts.iter().enumerate().map(entry).collect()
}

pub(super) fn hides(
    receipts: &[Receipt],
    seconds: i32,
) -> Result<Vec<ChangeMessageVisibilityBatchRequestEntry>, BuildError> {
    let entry = |(index, receipt): (usize, &Receipt)| {
        ChangeMessageVisibilityBatchRequestEntry::builder()
            .id(index.to_string())
            .receipt_handle(&receipt.0)
            .visibility_timeout(seconds)
            .build()
    };
    receipts.iter().enumerate().map(entry).collect()
}
