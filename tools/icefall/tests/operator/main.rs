//! What an operator does about quarantine, stops and ledgers, over fakes: nothing is lost by it, and nothing doubled.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod audit;
mod bench;
mod deliveries;
mod ledger;
mod replay;
mod stops;

use std::time::Duration;

use icefall_cli::CliError;
use icefall_store::{Location, ObjectStore};
use icefall_testkit::{Call, Failure, Moment};

use crate::bench::Bench;

/// Records that were quarantined because their table was made again.
async fn of_another_table() -> Bench {
    let bench = Bench::new().await;
    bench.write(0..10).await;
    bench.remake_table().await;
    assert!(bench.rows().await.is_empty());
    bench
}

async fn release(bench: &Bench, id: &str, reason: &str) -> Result<String, CliError> {
    bench.icefall(&["release", id, "--reason-overruled", reason]).await
}

#[tokio::test]
async fn what_waits_is_listed_and_shown_with_what_can_be_done() {
    let bench = of_another_table().await;
    bench.queue.inject("no batch manifest");
    bench.drain().await.expect("it drains");
    let all = bench.listed(&[]).await;
    assert_eq!(all.len(), 2, "{all:?}");
    let one = bench.listed(&["--reason", "another-table"]).await;
    assert_eq!((&one[0]["table"], &one[0]["records"]), (&"shop.clicks".into(), &10.into()), "{one:?}");
    let text = bench.icefall(&["list"]).await.expect("a list");
    assert!(text.contains("another-table") && text.contains("2 entries"), "{text}");
    let id = one[0]["id"].as_str().expect("an id");
    let shown = bench.icefall(&["show", id]).await.expect("it is there");
    for said in ["another-table", "shop.clicks", "what-to-do", "offsets", "s3://ops/quarantine/", ".raw"] {
        assert!(shown.contains(said), "{said:?} is not in: {shown}");
    }
    let error = bench.icefall(&["show", "nobody"]).await.expect_err("there is none");
    assert!(error.to_string().contains("list --all"), "{error}");
}

#[tokio::test]
async fn an_empty_quarantine_says_so() {
    let bench = Bench::new().await;
    assert_eq!(bench.icefall(&["list"]).await.expect("a list"), "nothing waits for a decision\n");
    assert!(bench.listed(&[]).await.is_empty());
}

#[tokio::test]
async fn what_is_discarded_stays_out_and_in_quarantine_with_the_reason() {
    let bench = of_another_table().await;
    let (id, before) = (bench.only_id().await, bench.ops.keys("ops", "quarantine/"));
    assert!(matches!(bench.icefall(&["discard", &id, "--because", " "]).await, Err(CliError::NoWords)));
    bench.icefall(&["discard", &id, "--because", "loaded by hand"]).await.expect("it is discarded");
    assert!(bench.listed(&[]).await.is_empty());
    let all = bench.listed(&["--all"]).await;
    assert_eq!(all[0]["decision"]["decided"], "discarded");
    assert_eq!(all[0]["decision"]["because"], "loaded by hand");
    assert_eq!(bench.ops.keys("ops", "quarantine/"), before, "nothing is moved or deleted");
    for again in [
        bench.icefall(&["discard", &id, "--because", "once more"]).await,
        release(&bench, &id, "another-table").await,
    ] {
        let error = again.expect_err("it is decided").to_string();
        assert!(error.contains("discarded already") && error.contains("loaded by hand"), "{error}");
    }
}

#[tokio::test]
async fn records_of_a_table_that_was_made_again_land_in_the_present_one() {
    let bench = of_another_table().await;
    let id = bench.only_id().await;
    let old = bench.store.keys("lake", "").into_iter().filter(|key| key.contains("/data/"));
    for key in old {
        assert!(bench.store.remove(&Location::s3("lake", key)), "the old table's files go with it");
    }
    let said = release(&bench, &id, "another-table").await.expect("it is released");
    assert!(said.contains("10 records of shop.clicks are queued"), "{said}");
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, (0..10).collect::<Vec<_>>());
    assert!(bench.queue.is_empty() && bench.listed(&[]).await.is_empty());
    assert_eq!(bench.listed(&["--all"]).await[0]["decision"]["because"], "another-table");
}

/// Field ids are dealt out anew when a table is made again.
#[tokio::test]
async fn released_into_a_table_whose_columns_stand_in_another_order_each_value_keeps_its_name() {
    let bench = Bench::new().await;
    bench.write_place(7, 1_007).await;
    let bench = bench.with_columns_turned_round();
    bench.remake_table().await;
    let id = bench.only_id().await;
    release(&bench, &id, "another-table").await.expect("it is released");
    bench.drain().await.expect("it drains");
    assert_eq!((bench.rows().await, bench.longs("o").await), (vec![7], vec![1_007]));
}

#[tokio::test]
async fn what_the_table_holds_by_now_is_left_out() {
    let bench = of_another_table().await;
    let id = bench.only_id().await;
    bench.write(5..8).await;
    bench.drain().await.expect("it drains");
    release(&bench, &id, "another-table").await.expect("it is released");
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn released_twice_it_is_a_duplicate() {
    let bench = of_another_table().await;
    let id = bench.only_id().await;
    bench.ops_faults.lose(Call::Put, 1, Moment::Before);
    let error = release(&bench, &id, "another-table").await.expect_err("the decision can't be written");
    assert!(matches!(error, CliError::Ops(_)), "{error}");
    release(&bench, &id, "another-table").await.expect("it is released once more");
    assert_eq!(bench.queue.len(), 2);
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, (0..10).collect::<Vec<_>>());
    assert!(bench.queue.is_empty());
}

/// A message that was put aside and could not be deleted comes again, which may be on another day.
#[tokio::test]
async fn what_was_put_aside_on_two_days_is_named_by_its_day() {
    let bench = of_another_table().await;
    let id = bench.only_id().await;
    for key in bench.ops.keys("ops", "quarantine/") {
        let body = bench.ops.peek(&Location::s3("ops", key.as_str())).expect("it is there");
        let later =
            key.split('/').enumerate().map(|(part, text)| if part == 1 { "2031-01-01" } else { text });
        let later = later.collect::<Vec<_>>().join("/");
        bench.ops.put(&Location::s3("ops", later), body).await.expect("it puts");
    }
    let said = release(&bench, &id, "another-table").await.expect_err("there are two").to_string();
    let [earlier, later] = ["2024-01-01", "2031-01-01"].map(|day| format!("{day}/another-table/{id}"));
    assert!(said.contains(&format!("{earlier}, {later}")), "{said}");
    let ambiguous = release(&bench, &format!("another-table/{id}"), "another-table").await;
    assert!(matches!(ambiguous, Err(CliError::Several { .. })));
    release(&bench, &later, "another-table").await.expect("it is the only one of that day");
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, (0..10).collect::<Vec<_>>());
    assert_eq!(bench.only_id().await, id, "the other one is left");
    release(&bench, &earlier, "another-table").await.expect("so is this one of its day");
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, (0..10).collect::<Vec<_>>(), "which is a duplicate");
}

#[tokio::test]
async fn the_reason_has_to_be_named_and_only_that_one_is_overruled() {
    let bench = Bench::new().await;
    bench.write(0..10).await;
    bench.catalog_faults.outage(Call::Commit, Failure::Denied);
    bench.clock.advance(Duration::from_hours(11 * 24));
    assert!(bench.drain().await.is_none(), "the commit is denied");
    let id = bench.only_id().await;
    let error = release(&bench, &id, "another-table").await.expect_err("that is not why it is there");
    assert!(error.to_string().contains("\"waited-too-long\""), "{error}");
    bench.catalog_faults.clear();
    let kept = bench.metadata();
    bench.remake_table().await;
    let error = release(&bench, &id, "waited-too-long").await.expect_err("the table is another");
    assert!(error.to_string().contains("only one can be overruled"), "{error}");
    assert!(bench.queue.is_empty());
    bench.catalog.replace(&bench::table(), kept.as_ref().clone());
    release(&bench, &id, "waited-too-long").await.expect("it is the table that it was");
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, (0..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn what_is_no_batch_manifest_can_not_be_released() {
    let bench = Bench::new().await;
    bench.queue.inject("{\"format\":99}");
    bench.drain().await.expect("it drains");
    let id = bench.only_id().await;
    let error = release(&bench, &id, "no-batch-manifest").await.expect_err("nothing to decide about");
    assert!(error.chain().contains("newer than this version reads"), "{}", error.chain());
    assert!(bench.queue.is_empty());
}

#[tokio::test]
async fn a_copy_that_is_gone_releases_nothing() {
    let bench = of_another_table().await;
    let id = bench.only_id().await;
    let copies = bench.ops.keys("ops", "quarantine/").into_iter().filter(|key| key.ends_with(".parquet"));
    for key in copies {
        assert!(bench.ops.remove(&Location::s3("ops", key)));
    }
    let error = release(&bench, &id, "another-table").await.expect_err("there is nothing to write");
    assert!(error.chain().contains("the file is gone"), "{}", error.chain());
    assert!(bench.queue.is_empty() && bench.listed(&[]).await.len() == 1);
}

/// The one doubt about the cluster's name is overruled; the ledger of that name begins.
#[tokio::test]
async fn a_cluster_that_the_settings_do_not_name_is_accepted_for_this_batch() {
    let bench = Bench::new().await;
    bench.write(0..10).await;
    bench.drain().await.expect("it drains");
    let bench = bench.of_cluster("renamed");
    bench.write(10..20).await;
    bench.drain().await.expect("it drains");
    let id = bench.only_id().await;
    assert_eq!(bench.listed(&[]).await[0]["reason"], "another-cluster");
    release(&bench, &id, "another-cluster").await.expect("it is released");
    bench.drain().await.expect("it drains");
    assert_eq!(bench.rows().await, (0..20).collect::<Vec<_>>());
    assert!(bench.queue.is_empty());
}
