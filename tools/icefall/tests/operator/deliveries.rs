//! The shipped writer and committer, one after the other: writers that die, routes that are edited, and triggers that are
//! made again from the topic's earliest offset.

use icefall_testkit::Moment;

use crate::bench::{Bench, TABLE};

const LATER: &str = "shop.later";
const COUNT: i64 = 6_000;

async fn settled(bench: &Bench) {
    let report = bench.drain().await.expect("it drains");
    assert_eq!((report.waiting, bench.queue.len()), (0, 0));
}

/// Nobody has to decide about anything.
async fn assert_undisputed(bench: &Bench) {
    let stops = bench.command(&["stops", "list"]).await.expect("a list");
    assert_eq!((stops.as_str(), bench.listed(&[]).await.len()), ("no source stands still\n", 0));
}

fn all() -> Vec<i64> {
    (0..COUNT).collect()
}

/// "Adding a route or a table later just works, with small and large batches; so does making the trigger again from the
/// earliest offset": what a table holds is skipped, and what it lacks lands.
#[tokio::test]
async fn a_table_that_is_added_later_is_filled_from_the_earliest_offset() {
    for (size, later_size) in [(10, 5_000), (5_000, 10), (10, 10), (5_000, 5_000)] {
        let bench = Bench::new().await;
        bench.deliver("clicks", 0..COUNT, size).await;
        settled(&bench).await;
        let first = bench.metadata();
        assert_eq!(bench.rows().await, all(), "{size}");

        let bench = bench.routed(&[("clicks", LATER)]);
        settled(&bench).await;
        bench.deliver("clicks", 0..COUNT, later_size).await;
        settled(&bench).await;
        assert_eq!(bench.rows_of(LATER).await, all(), "{size}, then {later_size}: the new table is complete");
        assert_eq!(bench.metadata(), first, "{size}, then {later_size}: nothing comes to the first table");
        assert_undisputed(&bench).await;
    }
}

/// The same with the table as it was, and a topic more that is routed to it; and then the first topic back where it was.
#[tokio::test]
async fn a_route_that_is_added_later_brings_its_topic_and_nothing_else_twice() {
    for (size, later_size) in [(10, 5_000), (5_000, 10)] {
        let bench = Bench::new().await;
        bench.deliver("clicks", 0..COUNT, size).await;
        settled(&bench).await;
        let first = bench.metadata().snapshots().len();
        bench.deliver("clicks", 0..COUNT, later_size).await;
        settled(&bench).await;
        assert_eq!((bench.rows().await, bench.metadata().snapshots().len()), (all(), first));

        let bench = bench.routed(&[("clicks", TABLE), ("views", TABLE)]);
        for topic in ["clicks", "views"] {
            bench.deliver(topic, 0..COUNT + 7, later_size).await;
        }
        settled(&bench).await;
        let both: Vec<_> = (0..COUNT + 7).flat_map(|n| [n, n]).collect();
        assert_eq!(bench.rows().await, both, "{size}, then {later_size}: each topic's records once");

        let bench = bench.routed(&[("clicks", LATER), ("views", LATER)]);
        settled(&bench).await;
        bench.deliver("views", 0..COUNT + 7, size).await;
        settled(&bench).await;
        let bench = bench.routed(&[("clicks", TABLE), ("views", TABLE)]);
        bench.deliver("views", 0..COUNT + 9, size).await;
        bench.deliver("clicks", 0..COUNT + 9, later_size).await;
        settled(&bench).await;
        let both: Vec<_> = (0..COUNT + 9).flat_map(|n| [n, n]).collect();
        assert_eq!(bench.rows().await, both, "{size}, then {later_size}: and again after a detour");
        assert_eq!(bench.rows_of(LATER).await, (0..COUNT + 7).collect::<Vec<_>>());
        assert_undisputed(&bench).await;
    }
}

/// T14: "kill the writer (a) after upload, before the queue message; (b) after the message, before return: (a)
/// redelivered, orphan file never visible; (b) the second file holds the same records, the ledger holds them already; rows
/// appear once".
#[tokio::test]
async fn t14_a_writer_that_is_killed_before_or_after_its_message_loses_and_doubles_nothing() {
    for (moment, settled_between) in
        [(Moment::Before, true), (Moment::Before, false), (Moment::After, true), (Moment::After, false)]
    {
        let bench = Bench::new().await;
        bench.write_and_die(0..100, moment).await;
        let orphans = bench.store.keys("lake", "");
        let uploaded: Vec<_> = orphans.iter().filter(|key| key.ends_with(".parquet")).collect();
        let [uploaded] = uploaded.as_slice() else { panic!("one file was uploaded: {orphans:?}") };
        let is_sent = moment == Moment::After;
        assert_eq!(bench.queue.len(), usize::from(is_sent), "{moment:?}");
        let is_visible = async || bench.files_of(TABLE).await.iter().any(|path| path.ends_with(*uploaded));
        if settled_between {
            settled(&bench).await;
            assert_eq!((is_visible().await, bench.rows().await.is_empty()), (is_sent, !is_sent));
        }
        bench.write(0..100).await;
        settled(&bench).await;
        assert_eq!(bench.rows().await, (0..100).collect::<Vec<_>>(), "{moment:?}");
        assert_eq!((is_visible().await, bench.files_of(TABLE).await.len()), (is_sent, 1), "{moment:?}");
        bench.write(0..100).await;
        settled(&bench).await;
        assert_eq!(
            bench.rows().await,
            (0..100).collect::<Vec<_>>(),
            "{moment:?}: the mapping sends it once more"
        );
        assert_undisputed(&bench).await;
    }
}

/// T54: "route to table by rewritten topic name: ledger keyed by the source topic". Two topics whose offsets are the
/// same go to a table of another name, and then to one of yet another.
#[tokio::test]
async fn t54_topics_whose_routes_give_them_another_name_keep_ledgers_of_their_own() {
    let topics = ["shop.eu.clicks", "shop.us.clicks"];
    let mut bench = Bench::new().await;
    for table in [TABLE, LATER] {
        bench = bench.routed(&topics.map(|topic| (topic, table)));
        settled(&bench).await;
        for size in [50, 30] {
            for topic in topics {
                bench.deliver(topic, 0..100, size).await;
            }
            settled(&bench).await;
        }
        let each: Vec<_> = (0..100).flat_map(|n| [n, n]).collect();
        assert_eq!(bench.rows_of(table).await, each, "{table}: each topic's once");
        let metadata = bench.metadata_of(table);
        let mut ledgers: Vec<_> = metadata.properties().keys().cloned().collect();
        ledgers.retain(|key| key.starts_with("icefall.ledger."));
        ledgers.sort_unstable();
        assert_eq!(ledgers, topics.map(|topic| format!("icefall.ledger.main.demo/local/{topic}")), "{table}");
    }
    assert_undisputed(&bench).await;
}
