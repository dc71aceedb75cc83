//! `icefall audit`: that each record of a topic is there exactly once, proved offset by offset.
//!
//! The topic is read from its first offset to where it ends when the audit begins, and each record is held against the
//! ledgers of the tables: is its offset there, with its fingerprint, once? What is a dead letter is looked up in the
//! dead-letter table, what no ledger holds in quarantine. The ledgers' rows are counted against the tables' own
//! files, and looked up in them where the table keeps partition and offset in columns; and the store is asked whether each of
//! these files is there. Nothing is changed.
//!
//! The order matters while a pipeline runs: the topic's ends first, the tables after that, then quarantine and dead letters. What
//! was in the topic by then and is missing is looked for once more at the end.
//!
//! | module | what it owns |
//! |---|---|
//! | [`compare`], [`kind`] | pure: the comparison, and what can come of it |
//! | [`window`] | pure: how it is cut into pieces that fit into memory |
//! | [`topic`], [`kafka`], [`batches`], [`msk`] | reading a topic, with librdkafka; signing in to MSK |
//! | [`ledgers`], [`quarantined`], [`letters`], [`files`], [`objects`] | the other sides |
//! | [`counts`] | pure: the ledgers' rows against the files', by counts |
//! | [`verdict`] | pure: what all of it amounts to |
//! | [`report`], [`progress`] | what is said |

mod batches;
mod compare;
mod counts;
mod files;
mod kafka;
mod kind;
mod ledgers;
mod letters;
#[cfg(test)]
mod model_tests;
mod msk;
mod objects;
mod progress;
mod quarantined;
mod report;
mod topic;
mod verdict;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use futures::future::try_join_all;
use icefall_catalog::{CatalogError, Snapshots};
use icefall_ledger::{Held, Ledger, OutboxSpan, Wanted, read_property_name};
use icefall_manifest::{ClusterName, Offset, Partition, Source, TableName, Topic};
use icefall_settings::{KafkaSignIn, Tombstones};
use icefall_tables::{Table, TableError, ident};
use tokio::runtime::Handle;

pub use compare::Seen;
pub use kafka::{Isolation, KafkaTopics};
pub use msk::MskKeys;
pub use topic::{Extent, Reader, TopicError, Topics};

use crate::{AuditArguments, CliError, Desk};
use compare::{Comparison, Known, Print, Side};
use counts::{Sides, SnapshotsKnown, known};
use files::{Files, NamedRows, OffsetColumns, removals};
use kind::{Kind, Tally};
use ledgers::{LedgerWalk, RowsBySnapshot, count_rows};
use letters::{Letters, letters_of};
use objects::Objects;
use progress::Progress;
use quarantined::{Quarantined, quarantined};
use report::{ByValue, Report};
use window::{OFFSETS_AT_ONCE, Stretch, windows};

/// Runs of each kind that are kept in memory, and looked at again at the end.
const RUNS_KEPT: usize = 10_000;

/// A table that holds records of the source, or is to.
struct Holding<'a> {
    name: TableName,
    table: Table,
    /// All ledgers in it that are not of this source and branch.
    others: Vec<Ledger>,
    walk: Option<LedgerWalk<'a>>,
    files: Files,
    /// The snapshots that its metadata shows.
    known: SnapshotsKnown,
    columns: Option<OffsetColumns>,
    rows: RowsBySnapshot,
}

/// What stays the same in all windows.
struct Fixed {
    letters: Vec<BTreeMap<Partition, Vec<Print>>>,
    outboxes: Vec<Vec<OutboxSpan>>,
    quarantined: BTreeMap<Partition, Vec<Print>>,
    released: BTreeMap<Partition, Vec<Print>>,
    highest: BTreeMap<Partition, Offset>,
    ends: BTreeMap<Partition, i64>,
    skips_tombstones: bool,
    gone: progress::Gone,
}

/// What the tables have of a window.
struct Loaded {
    positions: BTreeMap<Partition, Range<i64>>,
    held: Vec<Option<Held>>,
    rows: Vec<Option<NamedRows>>,
}

/// What came of all windows.
struct Compared {
    tally: Tally,
    by_value: Option<ByValue>,
    /// Partitions that have records, of which nothing at all is settled.
    unbegun: Vec<Partition>,
}

/// A reader and its share of the partitions.
struct Share {
    reader: Box<dyn Reader>,
    partitions: Vec<Partition>,
}

/// Where topics are read: what the desk has for that, or the cluster that the settings or the arguments name.
pub(crate) async fn topics(desk: &Desk, asked: &AuditArguments) -> Result<Arc<dyn Topics>, CliError> {
    if let Some(topics) = &desk.topics {
        return Ok(Arc::clone(topics));
    }
    let keys = icefall_parts::kafka_keys(&desk.settings).await?;
    let keys = keys.zip(match &desk.settings.audit.sign_in {
        KafkaSignIn::MskIam(region, _) => Some(region.to_string()),
        _ => None,
    });
    let keys = keys.map(|(keys, region)| MskKeys {
        keys,
        region,
        clock: Arc::clone(&desk.clock),
        runtime: Handle::current(),
    });
    let (settings, network) = (&desk.settings.audit, &desk.settings.network);
    let kafka = KafkaTopics::new(settings, network, asked.kafka.as_deref(), asked.isolation, keys)?;
    Ok(Arc::new(kafka))
}

pub(crate) async fn run(
    desk: &Desk,
    topics: Arc<dyn Topics>,
    asked: &AuditArguments,
    json: bool,
    out: &mut (dyn Write + Send),
) -> Result<(), CliError> {
    let report = audit(desk, topics, asked).await?;
    report.write(asked.list, json, out)?;
    match (report.faults().is_empty(), report.doubts().is_empty()) {
        (true, true) => Ok(()),
        (true, false) => Err(CliError::Unproved),
        (false, _) => Err(CliError::NotProved),
    }
}

async fn audit(desk: &Desk, topics: Arc<dyn Topics>, asked: &AuditArguments) -> Result<Report, CliError> {
    let started = Instant::now();
    let topic = Topic::try_from(asked.topic.as_str()).map_err(|fault| CliError::Asked(fault.to_string()))?;
    let extents = blocking({
        let (topics, topic) = (Arc::clone(&topics), topic.clone());
        move || topics.extents(&topic)
    })
    .await?;
    let loaded = load_tables(desk).await?;
    let source = source_of(desk, &topic, asked.cluster.as_deref(), &loaded)?;
    let mut holdings = holdings(desk, &source, loaded, asked).await?;
    let objects = if asked.files_by_metadata { None } else { Some(ask_store(desk, &mut holdings).await?) };
    let quarantined = quarantined(desk, &source).await?;
    let letters = letters_of(desk, &source).await?;
    let letters_deleted = letters.delete_files;
    let (fixed, whole) = fixed(desk, &holdings, &extents, &source, &quarantined, letters);
    let mut notes = notes(&holdings, &quarantined);
    let total = whole.iter().map(|stretch| stretch.positions.end - stretch.positions.start).sum::<i64>();
    let fixed = Arc::new(fixed);
    let progress = Progress::start(fixed.gone.clone(), u64::try_from(total).unwrap_or_default(), "offsets");
    let shares = shares(&topics, &topic, &whole, &extents, asked.threads).await?;
    let Compared { mut tally, by_value, unbegun } =
        compare_all(&mut holdings, desk, &topic, &fixed, &whole, shares).await?;
    drop(progress);
    look_again(desk, &source, &holdings, &fixed.quarantined, &mut tally).await?;
    let counted = count_files(desk, &mut holdings).await?;
    if asked.isolation == Isolation::ReadUncommitted {
        notes.push("records of aborted transactions count as records, as was asked for".to_owned());
    }
    let tables = holdings.iter().map(|holding| holding.name.clone()).collect();
    Ok(Report {
        source,
        tables,
        extents,
        tally,
        counted,
        objects,
        by_value,
        unbegun,
        letters_deleted,
        others_append: asked.others_append,
        deletes_are_known: asked.deletes_are_known,
        drained: asked.drained,
        notes,
        elapsed: started.elapsed(),
    })
}

/// Runs what waits for the brokers where waiting does no harm.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, TopicError> + Send + 'static,
) -> Result<T, CliError> {
    let done = tokio::task::spawn_blocking(work).await;
    Ok(done.map_err(|fault| CliError::Asked(format!("reading the topic ended by itself: {fault}")))??)
}

/// A table, and every ledger that stands in it.
type LoadedTable = (Table, Vec<Ledger>);

/// All tables that the settings name and the catalog has.
async fn load_tables(desk: &Desk) -> Result<Vec<LoadedTable>, CliError> {
    let mut found = Vec::new();
    for name in desk.tables_named() {
        let loaded = match desk.catalog.load_table(&ident(&name)?, Snapshots::All).await {
            Ok(loaded) => loaded,
            Err(CatalogError::NotFound(_)) => continue,
            Err(fault) => return Err(fault.into()),
        };
        let branch = desk.settings.branch(&name);
        let table = Table::open(name, branch, loaded).map_err(TableError::from)?;
        let mut ledgers = Vec::new();
        for (property, value) in table.metadata.properties() {
            if read_property_name(property).map_err(TableError::from)?.is_some() {
                ledgers.push(Ledger::read(property, value, table.uuid()).map_err(TableError::from)?);
            }
        }
        found.push((table, ledgers));
    }
    Ok(found)
}

/// The source that the topic is: by the cluster that was named, that the settings name, or whose ledger is the only one.
fn source_of(
    desk: &Desk,
    topic: &Topic,
    cluster: Option<&str>,
    tables: &[LoadedTable],
) -> Result<Source, CliError> {
    let pipeline = &desk.settings.pipeline;
    let named = cluster.map(ClusterName::try_from).transpose();
    let named = named.map_err(|fault| CliError::Asked(fault.to_string()))?;
    if let Some(cluster) = named.or_else(|| desk.settings.cluster.clone()) {
        return Ok(Source { pipeline: pipeline.clone(), cluster, topic: topic.clone() });
    }
    let sources = tables.iter().flat_map(|(_, ledgers)| ledgers).map(|ledger| &ledger.id().source);
    let fitting: BTreeSet<_> =
        sources.filter(|source| source.pipeline == *pipeline && source.topic == *topic).collect();
    match fitting.iter().collect::<Vec<_>>().as_slice() {
        [one] => Ok((**one).clone()),
        [] => Err(CliError::Asked(format!(
            "no table holds a ledger of topic {topic} yet, and the settings name no cluster: say which, by --cluster"
        ))),
        several => {
            let clusters: Vec<String> = several.iter().map(|source| source.cluster.to_string()).collect();
            let clusters = clusters.join(", ");
            Err(CliError::Asked(format!(
                "topic {topic} is held under several clusters' names ({clusters}): say which, by --cluster"
            )))
        }
    }
}

/// The tables that hold records of `source`, and the one that its topic is routed to.
async fn holdings<'a>(
    desk: &'a Desk,
    source: &Source,
    loaded: Vec<LoadedTable>,
    asked: &AuditArguments,
) -> Result<Vec<Holding<'a>>, CliError> {
    let routed = desk.settings.route(&source.topic).map(|route| &route.table);
    let mut holdings = Vec::new();
    for (table, ledgers) in loaded {
        let is_routed = routed == Some(&table.name);
        let is_ours = |ledger: &Ledger| ledger.id().source == *source && ledger.id().branch == table.branch;
        let (ours, others): (Vec<_>, Vec<_>) = ledgers.into_iter().partition(is_ours);
        if ours.is_empty() && !is_routed {
            continue;
        }
        // One that has gone missing is an error here, as it is for the committer.
        let ledger = table.ledger(source, &desk.ledgers).await?;
        let walk = match ledger.newest_segment() {
            Some(_) => Some(LedgerWalk::begin(desk, ledger).await?),
            None => None,
        };
        let columns = asked.offset_columns.as_deref().filter(|_| is_routed);
        let schema = table.metadata.current_schema();
        let columns = columns.map(|named| OffsetColumns::of(schema, named)).transpose()?;
        let files = Files::of(desk, &table, columns.as_ref()).await?;
        let (name, known, rows) = (table.name.clone(), known(&table.metadata), RowsBySnapshot::new());
        holdings.push(Holding { name, table, others, walk, files, known, columns, rows });
    }
    if holdings.is_empty() {
        let topic = &source.topic;
        return Err(CliError::Asked(format!(
            "no table that the settings name holds records of topic {topic}, and its route leads to none that is there"
        )));
    }
    Ok(holdings)
}

/// Asks the store for each data file of the tables.
async fn ask_store(desk: &Desk, holdings: &mut [Holding<'_>]) -> Result<Objects, CliError> {
    let mut objects = Objects::default();
    for Holding { table, files, known, .. } in holdings {
        objects.absorb(objects::ask(desk, table, files, known).await?);
    }
    Ok(objects)
}

fn fixed(
    desk: &Desk,
    holdings: &[Holding<'_>],
    extents: &[Extent],
    source: &Source,
    quarantined: &Quarantined,
    mut letters: Letters,
) -> (Fixed, Vec<Stretch>) {
    let ledgers = || holdings.iter().filter_map(|holding| holding.walk.as_ref());
    let mut highest: BTreeMap<Partition, Offset> = BTreeMap::new();
    let mut whole: BTreeMap<Partition, Range<i64>> = BTreeMap::new();
    let mut widen = |partition: Partition, positions: Range<i64>| {
        let known = whole.entry(partition).or_insert_with(|| positions.clone());
        *known = known.start.min(positions.start)..known.end.max(positions.end);
    };
    for walk in ledgers() {
        let lowest = walk.lowest();
        for (partition, last) in walk.ledger.highest() {
            let known = highest.entry(*partition).or_insert(*last);
            *known = (*known).max(*last);
            let first = lowest.get(partition).unwrap_or(last);
            widen(*partition, first.position()..last.position() + 1);
        }
    }
    for Extent { partition, start, end, .. } in extents.iter().filter(|extent| extent.start < extent.end) {
        widen(*partition, *start..*end);
    }
    let outbox = |holding: &Holding<'_>| {
        holding.walk.as_ref().map(|walk| letters.under_way(&walk.ledger)).unwrap_or_default()
    };
    let outboxes = holdings.iter().map(outbox).collect();
    let of_table =
        |holding: &Holding<'_>| letters.by_table.remove(&holding.name.to_string()).unwrap_or_default();
    let route = desk.settings.route(&source.topic);
    let fixed = Fixed {
        outboxes,
        letters: holdings.iter().map(of_table).collect(),
        quarantined: quarantined.records.clone(),
        released: quarantined.released.clone(),
        highest,
        ends: extents.iter().map(|extent| (extent.partition, extent.end)).collect(),
        skips_tombstones: route.is_some_and(|route| route.tombstones == Tombstones::Skip),
        gone: progress::Gone::default(),
    };
    let whole = whole.into_iter().map(|(partition, positions)| Stretch { partition, positions }).collect();
    (fixed, whole)
}

fn notes(holdings: &[Holding<'_>], quarantined: &Quarantined) -> Vec<String> {
    let mut notes = Vec::new();
    for holding in holdings {
        let Some(walk) = &holding.walk else {
            notes.push(format!("{} holds nothing of this topic yet", holding.name));
            continue;
        };
        if let Some(stop) = walk.ledger.stop() {
            let id = stop.id(walk.ledger.id());
            notes.push(format!("the source stands still in {}: icefall stops show {id}", holding.name));
        }
    }
    if !quarantined.unreadable.is_empty() {
        notes.push(format!(
            "nobody can say whose records these entries of quarantine hold: {}",
            quarantined.unreadable.join(", ")
        ));
    }
    notes
}

/// Readers, at most one for each core, with the partitions dealt out to them.
async fn shares(
    topics: &Arc<dyn Topics>,
    topic: &Topic,
    whole: &[Stretch],
    extents: &[Extent],
    threads: Option<usize>,
) -> Result<Vec<Share>, CliError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let count = threads.unwrap_or(cores).clamp(1, cores).min(whole.len().max(1));
    let mut shares = Vec::new();
    for index in 0..count {
        let partitions: Vec<Partition> =
            whole.iter().skip(index).step_by(count).map(|stretch| stretch.partition).collect();
        let of_share: Vec<Extent> =
            extents.iter().filter(|extent| partitions.contains(&extent.partition)).copied().collect();
        let (topics, topic) = (Arc::clone(topics), topic.clone());
        let reader = blocking(move || topics.reader(&topic, &of_share)).await?;
        shares.push(Share { reader, partitions });
    }
    Ok(shares)
}

/// Compares window by window; while one is compared, the next is loaded.
async fn compare_all(
    holdings: &mut [Holding<'_>],
    desk: &Desk,
    topic: &Topic,
    fixed: &Arc<Fixed>,
    whole: &[Stretch],
    mut shares: Vec<Share>,
) -> Result<Compared, CliError> {
    let mut by_value =
        holdings.iter().any(|holding| holding.columns.is_some()).then_some(ByValue { named: 0, unnamed: 0 });
    let mut tallies: BTreeMap<Partition, Tally> = BTreeMap::new();
    let mut left = windows(whole, OFFSETS_AT_ONCE);
    let mut next = load_next(holdings, desk, topic, left.next()).await?;
    while let Some(window) = next {
        let named = window.rows.iter().flatten();
        if let Some(by_value) = &mut by_value {
            by_value.named +=
                named.clone().flat_map(|rows| rows.offsets.values()).map(Vec::len).sum::<usize>() as u64;
            // Each window that meets such a file counts its rows again.
            by_value.unnamed = by_value.unnamed.max(named.map(|rows| rows.unnamed).sum());
        }
        let window = Arc::new(window);
        let compared = try_join_all(
            shares.into_iter().map(|share| compare(share, Arc::clone(&window), Arc::clone(fixed))),
        );
        let (compared, loaded) = tokio::join!(compared, load_next(holdings, desk, topic, left.next()));
        shares = Vec::new();
        for (share, found) in compared? {
            shares.push(share);
            for (partition, tally) in found {
                tallies.entry(partition).or_insert_with(|| Tally::new(RUNS_KEPT)).absorb(tally);
            }
        }
        next = loaded?;
    }
    let mut tally = Tally::new(RUNS_KEPT);
    let mut unbegun = Vec::new();
    for (partition, found) in tallies {
        if found.of(Kind::Unsettled) > 0 && !fixed.highest.contains_key(&partition) {
            unbegun.push(partition);
        }
        tally.absorb(found);
    }
    Ok(Compared { tally, by_value, unbegun })
}

async fn load_next(
    holdings: &mut [Holding<'_>],
    desk: &Desk,
    topic: &Topic,
    window: Option<Vec<Stretch>>,
) -> Result<Option<Loaded>, CliError> {
    let Some(window) = window else { return Ok(None) };
    let wanted = Wanted::within(window.iter().filter_map(Stretch::offsets));
    let (mut held, mut rows) = (Vec::new(), Vec::new());
    for holding in holdings {
        let of_ledger = match &mut holding.walk {
            Some(walk) => Some(walk.held(&wanted).await?),
            None => None,
        };
        for stretch in &window {
            if let Some(held) = &of_ledger {
                count_rows(held, stretch.partition, &mut holding.rows);
            }
        }
        held.push(of_ledger);
        rows.push(match &holding.columns {
            Some(columns) => Some(holding.files.named_rows(desk, columns, topic, &window).await?),
            None => None,
        });
    }
    let positions = window.into_iter().map(|stretch| (stretch.partition, stretch.positions)).collect();
    Ok(Some(Loaded { positions, held, rows }))
}

/// One reader's part of a window, on a thread of its own.
async fn compare(
    mut share: Share,
    window: Arc<Loaded>,
    fixed: Arc<Fixed>,
) -> Result<(Share, Vec<(Partition, Tally)>), CliError> {
    blocking(move || {
        let mut found = Vec::new();
        for partition in share.partitions.clone() {
            let Some(positions) = window.positions.get(&partition) else { continue };
            let mut comparison = Comparison::new(window.known(&fixed, partition), RUNS_KEPT);
            share.reader.read(partition, positions.end, &mut |seen| comparison.see(seen))?;
            found.push((partition, comparison.finish()));
            fixed.gone.add(u64::try_from(positions.end - positions.start).unwrap_or_default());
        }
        Ok((share, found))
    })
    .await
}

impl Loaded {
    /// What is known of a partition in this window.
    fn known<'a>(&'a self, fixed: &'a Fixed, partition: Partition) -> Known<'a> {
        let side = |table: usize| {
            let held = self.held.get(table).and_then(Option::as_ref);
            let rows = self.rows.get(table).and_then(Option::as_ref);
            let letters = fixed.letters.get(table).and_then(|letters| letters.get(&partition));
            let rows = rows.map(|rows| rows.offsets.get(&partition).map(Vec::as_slice).unwrap_or_default());
            Side {
                standings: held.map(|held| held.partition(partition)).unwrap_or_default(),
                rows,
                letters: letters.map(Vec::as_slice).unwrap_or_default(),
                outbox: fixed.outboxes.get(table).map(Vec::as_slice).unwrap_or_default(),
            }
        };
        Known {
            partition,
            sides: (0..self.held.len()).map(side).collect(),
            quarantined: fixed.quarantined.get(&partition).map(Vec::as_slice).unwrap_or_default(),
            released: fixed.released.get(&partition).map(Vec::as_slice).unwrap_or_default(),
            highest: fixed.highest.get(&partition).copied(),
            skips_tombstones: fixed.skips_tombstones,
            end: fixed.ends.get(&partition).copied().unwrap_or_default(),
        }
    }
}

/// Looks once more for what is missing: a pipeline that runs settles late batches after newer ones.
async fn look_again(
    desk: &Desk,
    source: &Source,
    holdings: &[Holding<'_>],
    aside_before: &BTreeMap<Partition, Vec<Print>>,
    tally: &mut Tally,
) -> Result<(), CliError> {
    let (runs, _) = tally.runs(Kind::Missing);
    if runs.is_empty() {
        return Ok(());
    }
    let wanted = Wanted::within(runs.iter().map(|run| (run.partition, run.first..=run.last)));
    let mut held = Vec::new();
    for (table, _) in load_tables(desk).await? {
        if holdings.iter().any(|holding| holding.name == table.name) {
            let ledger = table.ledger(source, &desk.ledgers).await?;
            held.push(LedgerWalk::begin(desk, ledger).await?.held(&wanted).await?);
        }
    }
    let aside = quarantined(desk, source).await?.records;
    tally.revise(Kind::Missing, |partition, offset| {
        if held.iter().any(|held| held.at(partition, offset).next().is_some()) {
            return Kind::Late;
        }
        let there = |aside: &BTreeMap<Partition, Vec<Print>>| {
            let prints = aside.get(&partition).map(Vec::as_slice).unwrap_or_default();
            let first = prints.partition_point(|(other, _)| *other < offset);
            prints.iter().skip(first).take_while(|(other, _)| *other == offset).count()
        };
        // What stood there before, and is another record, does not count.
        if there(&aside) > there(aside_before) { Kind::Late } else { Kind::Missing }
    });
    Ok(())
}

/// Counts the rows of all ledgers against the tables' own files.
async fn count_files(desk: &Desk, holdings: &mut [Holding<'_>]) -> Result<Vec<counts::Counted>, CliError> {
    let mut all = Vec::new();
    for holding in holdings {
        let mut inherited = RowsBySnapshot::new();
        for other in std::mem::take(&mut holding.others) {
            let here = other.id().branch == holding.table.branch;
            let into = if here { &mut holding.rows } else { &mut inherited };
            for (number, rows) in LedgerWalk::begin(desk, other).await?.rows().await? {
                *into.entry(number).or_default() += rows;
            }
        }
        let (in_files, known) = (holding.files.rows(), &holding.known);
        let sides = Sides {
            settled: &holding.rows,
            inherited: &inherited,
            in_files: &in_files,
            known,
            removals: &[],
        };
        let removals =
            if sides.lacks_rows() { removals(desk, &holding.table, known).await? } else { Vec::new() };
        let counted = Sides { removals: &removals, ..sides }.counted(holding.name.to_string());
        let (delete_files, by_value) = (holding.files.delete_files, holding.columns.is_some());
        all.push(counts::Counted { delete_files, by_value, ..counted });
    }
    Ok(all)
}
