//! A partition's records, taken from librdkafka many at a time.
//!
//! The binding hands out single records, and for each asks the clock, takes locks and counts references: a third of what an
//! audit's own threads did. The library's call for many
//! ([`rd_kafka_consume_batch_queue`](https://docs.confluent.io/platform/current/clients/librdkafka/html/rdkafka_8h.html))
//! is not bound, so that it is called here. This is the only module with `unsafe`; who uses it needs none.

use std::ffi::{CString, c_void};
use std::fmt;
use std::ptr::{self, NonNull};
use std::slice;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::bindings::{self, rd_kafka_timestamp_type_t};
use rdkafka::consumer::{BaseConsumer, Consumer, ConsumerContext};
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::types::RDKafkaMessage;

/// How many are taken at once: enough that what a call costs is not noticed, and few enough that they stay in the
/// processor's caches from the library's look at them to ours.
const AT_ONCE: usize = 256;

/// A record as it lies in the library's memory.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Record<'a> {
    /// Its offset, as the broker says.
    pub(crate) position: i64,
    /// Milliseconds since the epoch, if it has a time.
    pub(crate) time: Option<i64>,
    pub(crate) key: Option<&'a [u8]>,
    pub(crate) value: Option<&'a [u8]>,
}

/// What comes next of a partition.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Next<'a> {
    Record(Record<'a>),
    /// All that can be read now was.
    End,
    /// It can't be read on, with the library's own words for that.
    Failed(RDKafkaErrorCode, String),
    /// Nothing came.
    Silence,
}

/// A partition's records in the order of their offsets, apart from those of all other partitions.
pub(crate) struct Batches<C: ConsumerContext> {
    held: Held,
    /// So many of those that were taken were handed out.
    next: usize,
    /// Keeps the library's instance, which the queue belongs to, until that is given back.
    _consumer: Arc<BaseConsumer<C>>,
}

/// What is held of the library's.
struct Held {
    queue: NonNull<bindings::rd_kafka_queue_t>,
    /// What was taken and not destroyed yet.
    taken: Vec<NonNull<RDKafkaMessage>>,
}

// SAFETY: librdkafka's queues and messages may be used on any thread, by one at a time: "librdkafka is completely
// thread-safe" (its INTRODUCTION.md).
#[expect(unsafe_code, reason = "see above")]
unsafe impl Send for Held {}

impl<C: ConsumerContext> fmt::Debug for Batches<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("waiting", &(self.held.taken.len() - self.next))
            .finish_non_exhaustive()
    }
}

impl<C: ConsumerContext> Batches<C> {
    /// The records of a partition that is going to be assigned to `consumer`, which does not hand them out any more; `None`
    /// where there can be no such partition.
    pub(crate) fn of(consumer: &Arc<BaseConsumer<C>>, topic: &str, partition: i32) -> Option<Self> {
        let topic = CString::new(topic).ok()?;
        // SAFETY: the instance lives as long as `consumer`, which is kept; the name is copied. The queue's reference is
        // ours, and given back when this is dropped. Forwarding to null is how a queue is told to keep what it gets.
        #[expect(unsafe_code, reason = "see above")]
        let queue = unsafe {
            let instance = consumer.client().native_ptr();
            let queue =
                NonNull::new(bindings::rd_kafka_queue_get_partition(instance, topic.as_ptr(), partition))?;
            bindings::rd_kafka_queue_forward(queue.as_ptr(), ptr::null_mut());
            queue
        };
        let held = Held { queue, taken: Vec::with_capacity(AT_ONCE) };
        Some(Self { held, next: 0, _consumer: Arc::clone(consumer) })
    }

    /// What comes next; where nothing is there, it is waited for as long as `wait`.
    pub(crate) fn next(&mut self, wait: Duration) -> Next<'_> {
        if self.next == self.held.taken.len() {
            self.next = 0;
            self.held.take(Duration::ZERO, AT_ONCE);
            if self.held.taken.is_empty() {
                // The first is not kept waiting for others.
                self.held.take(wait, 1);
            }
        }
        let Some(message) = self.held.taken.get(self.next) else { return Next::Silence };
        self.next += 1;
        // SAFETY: it came from `rd_kafka_consume_batch_queue`. The library's messages stay as they are until they are
        // destroyed, which `take` and `drop` do: neither can be called while what is returned here is borrowed from `self`.
        #[expect(unsafe_code, reason = "see above")]
        unsafe {
            read(*message)
        }
    }
}

impl Held {
    /// Gives back what was taken, and takes what is there by now, up to so many.
    fn take(&mut self, wait: Duration, most: usize) {
        self.give_back();
        let mut taken = [ptr::null_mut(); AT_ONCE];
        let most = most.min(AT_ONCE);
        let wait = i32::try_from(wait.as_millis()).unwrap_or(i32::MAX);
        // SAFETY: the queue is ours, and `taken` has room for as many as are said. Those that it says were put there are
        // ours to destroy. (It is -1 for an error, which it has none of for queues.)
        #[expect(unsafe_code, reason = "see above")]
        let count = unsafe {
            bindings::rd_kafka_consume_batch_queue(self.queue.as_ptr(), wait, taken.as_mut_ptr(), most)
        };
        let count = usize::try_from(count).unwrap_or_default();
        self.taken.extend(taken.into_iter().take(count).filter_map(NonNull::new));
    }

    fn give_back(&mut self) {
        for message in self.taken.drain(..) {
            // SAFETY: it came from `rd_kafka_consume_batch_queue`, and is destroyed once, here.
            #[expect(unsafe_code, reason = "see above")]
            unsafe {
                bindings::rd_kafka_message_destroy(message.as_ptr());
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.give_back();
        // SAFETY: the reference is the one that `Batches::of` got, and the consumer, which is dropped later, keeps the instance.
        #[expect(unsafe_code, reason = "see above")]
        unsafe {
            bindings::rd_kafka_queue_destroy(self.queue.as_ptr());
        }
    }
}

/// What a message says.
///
/// # Safety
///
/// It has to be one that `rd_kafka_consume_batch_queue` returned, and has to be there as long as what is returned here.
#[expect(unsafe_code, reason = "each of its lines says why")]
unsafe fn read<'a>(pointer: NonNull<RDKafkaMessage>) -> Next<'a> {
    // SAFETY: as the caller promises.
    let message = unsafe { pointer.as_ref() };
    // SAFETY: key and payload are null, or as long as their lengths say and there as long as the message.
    let bytes = |at: *mut c_void, length| {
        let at = at.cast::<u8>().cast_const();
        (!at.is_null()).then(|| unsafe { slice::from_raw_parts(at, length) })
    };
    let value = bytes(message.payload, message.len);
    match RDKafkaErrorCode::from(message.err) {
        RDKafkaErrorCode::NoError => {}
        RDKafkaErrorCode::PartitionEOF => return Next::End,
        // Its payload is the reason then.
        code => return Next::Failed(code, String::from_utf8_lossy(value.unwrap_or_default()).into_owned()),
    }
    let mut kind = rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    // SAFETY: it only reads from the message, and writes which kind of time it is.
    let millis = unsafe { bindings::rd_kafka_message_timestamp(pointer.as_ptr(), &raw mut kind) };
    let key = bytes(message.key, message.key_len);
    Next::Record(Record { position: message.offset, time: time(kind, millis), key, value })
}

/// A record's time. Those of the oldest format have none, and the number is 0 then; in newer ones it is -1 that means none.
fn time(kind: rd_kafka_timestamp_type_t, millis: i64) -> Option<i64> {
    let is_there = kind != rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE;
    (is_there && millis != -1).then_some(millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_one_only_where_its_kind_says_so() {
        let [none, created, appended] = [
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_NOT_AVAILABLE,
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_CREATE_TIME,
            rd_kafka_timestamp_type_t::RD_KAFKA_TIMESTAMP_LOG_APPEND_TIME,
        ];
        assert_eq!((time(none, 0), time(none, -1), time(none, 7)), (None, None, None));
        for kind in [created, appended] {
            assert_eq!((time(kind, -1), time(kind, 0), time(kind, -2)), (None, Some(0), Some(-2)));
        }
    }
}
