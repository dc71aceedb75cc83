//! What stands in the way of one message stands in no other's.

use icefall_manifest::{BatchManifest, TableUuid};
use icefall_testkit::{Call, Failure};
use uuid::Uuid;

use crate::bench::{self, Bench, DAY, Letters, VISIBILITY, records};

/// From now on the batch manifest's file may not be read, which is also what a store says of one that is gone.
fn forbid(bench: &Bench, batch: &BatchManifest) {
    let path = batch.files[0].data_file.path.strip_prefix("s3://lake/").expect("a path of the lake");
    bench.store_faults.outage_of(Call::Get, path, Failure::Denied);
}

async fn of_another_table(bench: &Bench) -> BatchManifest {
    let batch = bench.batch(records(0, 0..5), Letters::none()).await;
    BatchManifest { table_uuid: TableUuid(Uuid::from_u128(9)), ..batch }
}

#[tokio::test]
async fn a_message_that_can_not_be_put_in_quarantine_holds_up_no_other() {
    let bench = Bench::new().await;
    let stray = of_another_table(&bench).await;
    forbid(&bench, &stray);
    bench.send(&stray).await;
    bench.send(&bench.batch(records(0, 10..20), Letters::none()).await).await;
    bench.drain().await.expect_err("it says so");
    assert_eq!((bench.queue.len(), bench.rows().await), (1, bench::keys(0, 10..20)));
    assert!(bench.quarantine().iter().all(|key| !key.ends_with(".raw")));
    bench.store_faults.clear();
    bench.clock.advance(VISIBILITY);
    bench.drain().await.expect("it drains");
    assert!(bench.queue.is_empty());
    assert!(bench.quarantine().iter().any(|key| key.contains("/another-table/") && key.ends_with(".raw")));
}

#[tokio::test]
async fn close_to_the_end_it_goes_to_quarantine_without_a_copy() {
    let bench = Bench::new().await;
    let stray = of_another_table(&bench).await;
    forbid(&bench, &stray);
    bench.send(&stray).await;
    bench.clock.advance(12 * DAY);
    bench.drain().await.expect_err("there is time yet");
    assert_eq!(bench.queue.len(), 1);
    bench.clock.advance(DAY);
    bench.drain().await.expect("it is parked");
    assert!(bench.queue.is_empty());
    let parked = bench.quarantine();
    assert!(parked.len() == 2 && parked.iter().all(|key| key.contains("/another-table/")), "{parked:?}");
}

#[tokio::test]
async fn a_file_that_may_not_be_read_holds_up_its_own_batch_alone() {
    for wait in [VISIBILITY, 2 * DAY] {
        let bench = Bench::new().await;
        bench.send(&bench.batch(records(0, 0..5), Letters::none()).await).await;
        bench.drain().await.expect("it drains");
        let late = bench.batch(records(0, 3..9), Letters::none()).await;
        forbid(&bench, &late);
        bench.send(&late).await;
        bench.clock.advance(wait);
        bench.send(&bench.batch(records(0, 20..30), Letters::none()).await).await;
        bench.drain().await.expect_err("it says so");
        let landed = [bench::keys(0, 0..5), bench::keys(0, 20..30)].concat();
        assert_eq!((bench.queue.len(), bench.rows().await), (1, landed), "{wait:?}");
        assert!(bench.quarantine().is_empty(), "it may be readable later");
        bench.store_faults.clear();
        bench.clock.advance(VISIBILITY);
        bench.drain().await.expect("it drains");
        let landed = [bench::keys(0, 0..9), bench::keys(0, 20..30)].concat();
        assert_eq!((bench.queue.len(), bench.rows().await), (0, landed), "{wait:?}");
    }
}
