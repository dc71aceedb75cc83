//! Many messages go to quarantine, more than one invocation has the time or the luck for.

use std::time::Duration;

use icefall_clock::Clock;
use icefall_manifest::{BatchManifest, TableUuid};
use icefall_testkit::{Call, Failure};
use uuid::Uuid;

use crate::bench::{self, Bench, DAY, Letters, Taking, records};

const MESSAGES: i64 = 40;

/// Why all of them go to quarantine.
#[derive(Clone, Copy, Debug)]
enum Why {
    /// The table was made again under its name.
    AnotherTable,
    /// The table can't be settled until the queue would drop them.
    RefusedForLong,
    /// The same, and each refusal takes longer than an invocation lasts.
    HangsForLong,
    /// The catalog is gone for that long.
    NoCatalog,
    /// The same, and does not even say so.
    SilentCatalog,
}

impl Why {
    const ALL: [Self; 5] =
        [Self::AnotherTable, Self::RefusedForLong, Self::HangsForLong, Self::NoCatalog, Self::SilentCatalog];

    /// How long parts take, where a file is read in `read`.
    fn taking(self, read: Duration) -> Taking {
        let for_ever = Duration::from_hours(1);
        match self {
            Self::AnotherTable | Self::RefusedForLong | Self::NoCatalog => {
                Taking { read, ..Taking::default() }
            }
            Self::HangsForLong => Taking { read, commit: for_ever, ..Taking::default() },
            Self::SilentCatalog => Taking { read, load: for_ever, ..Taking::default() },
        }
    }

    /// Sends them, and lets happen what takes them to quarantine.
    async fn send(self, bench: &Bench) -> Vec<BatchManifest> {
        let mut sent = Vec::new();
        for start in 0..MESSAGES {
            let batch = bench.batch(records(0, start..start + 1), Letters::none()).await;
            sent.push(match self {
                Self::AnotherTable => BatchManifest { table_uuid: TableUuid(Uuid::from_u128(9)), ..batch },
                _ => batch,
            });
        }
        for batch in &sent {
            bench.send(batch).await;
        }
        match self {
            Self::AnotherTable => return sent,
            Self::HangsForLong | Self::SilentCatalog => {}
            Self::RefusedForLong => bench.catalog_faults.outage(Call::Commit, Failure::Denied),
            Self::NoCatalog => bench.catalog_faults.outage(Call::LoadTable, Failure::NoConnection),
        }
        bench.clock.advance(11 * DAY);
        sent
    }
}

fn parked(bench: &Bench) -> usize {
    bench.quarantine().iter().filter(|key| key.ends_with(".raw")).count()
}

#[tokio::test]
async fn an_invocation_parks_what_it_has_time_for_and_the_next_one_goes_on() {
    for why in Why::ALL {
        let bench = Bench::new().await.taking(why.taking(Duration::from_secs(20)));
        why.send(&bench).await;
        let mut invocations = 0;
        while !bench.queue.is_empty() {
            let (queued, stood, began) = (bench.queue.len(), parked(&bench), bench.clock.now());
            let _said = bench.drain().await;
            assert!(bench.clock.now().since(began) < Duration::from_mins(5), "{why:?}: it ends by itself");
            let (went, put) = (queued - bench.queue.len(), parked(&bench) - stood);
            assert!(went > 0, "{why:?}: each invocation leaves fewer");
            assert_eq!(went, put, "{why:?}: a message goes with its entry");
            invocations += 1;
            // Longer than between two looks through a queue whose catalog is gone.
            bench.clock.advance(Duration::from_hours(4));
        }
        assert!(invocations > 2, "{why:?}: they were too many for one invocation");
        assert_eq!(parked(&bench), usize::try_from(MESSAGES).expect("a count"), "{why:?}");
        assert!(!bench.counted().contains("RoundsUnended"), "{why:?}");
    }
}

#[tokio::test]
async fn what_stands_in_quarantine_when_the_committer_dies_is_not_put_there_again() {
    for why in Why::ALL {
        let bench = Bench::with_shared_faults().await.taking(why.taking(Duration::ZERO));
        let sent = why.send(&bench).await;
        let (_, file) = sent[10].files[0].data_file.path.rsplit_once('/').expect("a path");
        bench.ops_faults.deadly(Call::Put, file);
        let _died = bench.drain().await;
        assert!(bench.ops_faults.is_dead(), "{why:?}");
        let stood = parked(&bench);
        assert!(stood > 0, "{why:?}: some went before");
        assert_eq!(bench.queue.len() + stood, sent.len(), "{why:?}: and are gone from the queue");
    }
}

/// With a process that remembers nothing each time: what a warm one remembers helps, but must not be what it rests on.
#[tokio::test]
async fn a_backlog_of_old_batches_that_is_too_much_for_one_invocation_lands_by_and_by() {
    let mut bench = Bench::new().await.taking(Taking { read: Duration::from_secs(20), ..Taking::default() });
    for start in 0..MESSAGES {
        bench.send(&bench.batch(records(0, start..start + 1), Letters::none()).await).await;
    }
    bench.clock.advance(DAY);
    let mut invocations = 0;
    while !bench.queue.is_empty() {
        let queued = bench.queue.len();
        bench.drain().await.expect("waiting is no failure");
        assert!(bench.queue.len() < queued, "each invocation leaves fewer");
        invocations += 1;
        bench.clock.advance(Duration::from_hours(1));
        bench = bench.restarted();
    }
    assert!(invocations > 2, "they were too many for one invocation");
    assert_eq!(bench.rows().await, bench::keys(0, 0..MESSAGES));
}

#[tokio::test]
async fn while_there_is_no_catalog_the_queue_is_looked_through_every_few_hours() {
    let bench = Bench::new().await;
    bench.send(&bench.batch(records(0, 0..1), Letters::none()).await).await;
    bench.catalog_faults.outage(Call::LoadTable, Failure::NoConnection);
    let mut looks = Vec::new();
    for minute in 0..600 {
        let before = bench.queue_faults.count(Call::Receive);
        bench.drain().await.expect_err("the catalog is gone");
        if bench.queue_faults.count(Call::Receive) > before {
            looks.push(minute);
        }
        bench.clock.advance(Duration::from_mins(1));
    }
    assert!(looks.len() == 3 || looks.len() == 4, "a hundredth of 14 days is 202 minutes: {looks:?}");
}
