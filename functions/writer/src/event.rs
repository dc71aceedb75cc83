//! The event's bytes as Lambda delivered them.
//!
//! The runtime reads every event into a type before the handler sees it, and refuses those that it
//! can't read: one such event would block its partition for ever, since the handler never gets to put
//! it aside. This layer keeps the bytes for the handler and lets the runtime read `null`, which also
//! saves reading six megabytes twice.

use std::mem;
use std::task::{Context, Poll};

use bytes::Bytes;
use lambda_runtime::LambdaInvocation;
use tokio::task::futures::TaskLocalFuture;
use tower::{Layer, Service};

tokio::task_local! {
    static EVENT: Bytes;
}

/// The event of the invocation that this is called in; empty outside of one.
pub(crate) fn current() -> Bytes {
    EVENT.try_with(Bytes::clone).unwrap_or_default()
}

/// Passes the event by the runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RawEventLayer;

impl<S> Layer<S> for RawEventLayer {
    type Service = RawEventService<S>;

    fn layer(&self, inner: S) -> RawEventService<S> {
        RawEventService { inner }
    }
}

/// The runtime's own service, given `null`.
#[derive(Clone, Debug)]
pub(crate) struct RawEventService<S> {
    inner: S,
}

impl<S: Service<LambdaInvocation>> Service<LambdaInvocation> for RawEventService<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = TaskLocalFuture<Bytes, S::Future>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut invocation: LambdaInvocation) -> Self::Future {
        let event = mem::replace(&mut invocation.body, Bytes::from_static(b"null"));
        EVENT.scope(event, self.inner.call(invocation))
    }
}
