//! From the raw settings to the validated ones, finding all faults on the way.
//!
//! Each function takes a section and gives its validated form, or `None` and at least one fault. The
//! sections are independent until the end, where routes, tables and the dead-letter table are held
//! against each other.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt::Display;
use std::hash::Hash;
use std::num::NonZeroU32;
use std::time::Duration;

use icefall_manifest::{ClusterName, PipelineId, TableName, Topic};

use crate::environment::Environment;
use crate::fault::{Faults, Key};
use crate::raw::{RawCatalog, RawCommitter, RawOps, RawQueue, RawRoute, RawSettings, RawStore, RawTable};
use crate::settings::{
    CatalogSettings, CommitterSettings, OpsSettings, QueueSettings, Route, Settings, StoreSettings,
    TableSettings, Tombstones,
};
use crate::sign_in::network;
use crate::table::table;
use crate::values::{ByteSize, HttpUrl, Region, duration, is_bucket, plain_name};

const DEAD_LETTERS: &str = "icefall.dead_letters";
const QUARTER_HOUR: Duration = Duration::from_mins(15);

/// The settings that `raw` means.
pub(crate) fn settings(raw: RawSettings, environment: &Environment, faults: &mut Faults) -> Option<Settings> {
    let network = network(raw.network.unwrap_or_default(), environment, faults);
    let mut check =
        Check { environment, faults, declared: Vec::new(), topics: Vec::new(), targets: Vec::new() };
    let pipeline = check.required(raw.pipeline, &Key::named("pipeline"), "give the pipeline an id");
    let pipeline = check.parsed(pipeline, &Key::named("pipeline"), PipelineId::try_from);
    let kafka = raw.kafka.unwrap_or_default();
    let cluster = check.parsed(kafka.cluster, &Key::named("kafka").child("cluster"), ClusterName::try_from);
    let known_clusters = check.known_clusters(kafka.known_clusters.unwrap_or_default());
    let catalog = check.catalog(raw.catalog.unwrap_or_default(), &Key::named("catalog"));
    let store = check.store(raw.store.unwrap_or_default(), &Key::named("store"));
    let ops = check.ops(raw.ops.unwrap_or_default(), &Key::named("ops"));
    let queue = check.queue(raw.queue.unwrap_or_default(), &Key::named("queue"));
    let committer = check.committer(&raw.committer.unwrap_or_default(), &Key::named("committer"));
    let dead_letters = raw.dead_letters.unwrap_or_default().table.unwrap_or_else(|| DEAD_LETTERS.to_owned());
    let dead_letters = table_name(Some(dead_letters), &dead_letter_key(), "", check.faults);
    let audit = check.audit(raw.audit.unwrap_or_default(), &Key::named("audit"));
    let tables = check.tables(raw.tables.unwrap_or_default());
    let routes = check.routes(raw.routes.unwrap_or_default());
    check.cross(dead_letters.as_ref());
    Some(Settings {
        pipeline: pipeline?,
        cluster,
        known_clusters,
        network: network?,
        catalog: catalog?,
        store: store?,
        ops: ops?,
        queue: queue?,
        committer: committer?,
        dead_letters: dead_letters?,
        audit: audit?,
        tables,
        routes,
    })
}

fn dead_letter_key() -> Key {
    Key::named("dead_letters").child("table")
}

/// The table's name at `key`; a refused one comes with a suggestion that isn't.
pub(crate) fn table_name(
    raw: Option<String>,
    key: &Key,
    remedy: &str,
    faults: &mut Faults,
) -> Option<TableName> {
    let Some(text) = raw else {
        faults.missing(key, remedy);
        return None;
    };
    match TableName::try_from(text.as_str()) {
        Ok(name) => Some(name),
        Err(error) => {
            faults.add(key, format_args!("{error}; {}", suggestion(&text)));
            None
        }
    }
}

/// How to write `text` as a table's name.
fn suggestion(text: &str) -> String {
    let parts: Option<Vec<String>> = text.split('.').map(plain_name).collect();
    match (parts, plain_name(text)) {
        (Some(parts), Some(one)) if parts.len() > 1 => {
            format!("write {}, or <namespace>.{one}", parts.join("."))
        }
        (_, Some(one)) => format!("write <namespace>.{one}"),
        (_, None) => "write <namespace>.<table>".to_owned(),
    }
}

pub(crate) struct Check<'a> {
    environment: &'a Environment,
    pub(crate) faults: &'a mut Faults,
    /// The names met so far, each with its key, whatever else is wrong where they stand.
    declared: Vec<(Key, TableName)>,
    topics: Vec<(Key, Topic)>,
    targets: Vec<(Key, TableName)>,
}

impl Check<'_> {
    pub(crate) fn required<T>(&mut self, value: Option<T>, key: &Key, remedy: &str) -> Option<T> {
        if value.is_none() {
            self.faults.missing(key, remedy);
        }
        value
    }

    pub(crate) fn parsed<R, T, E: Display>(
        &mut self,
        raw: Option<R>,
        key: &Key,
        parse: impl FnOnce(R) -> Result<T, E>,
    ) -> Option<T> {
        parse(raw?).map_err(|problem| self.faults.add(key, problem)).ok()
    }

    fn known_clusters(&mut self, raw: Vec<Option<String>>) -> Vec<ClusterName> {
        let key = Key::named("kafka").child("known_clusters");
        let named = raw.into_iter().enumerate();
        named.filter_map(|(index, name)| self.parsed(name, &key.at(index), ClusterName::try_from)).collect()
    }

    /// A text that must not be empty.
    pub(crate) fn filled(&mut self, raw: Option<String>, key: &Key, remedy: &str) -> Option<String> {
        let text = self.required(raw, key, remedy);
        self.parsed(text, key, |text| {
            if text.trim().is_empty() { Err(format!("is empty; {remedy}")) } else { Ok(text) }
        })
    }

    pub(crate) fn url(&mut self, raw: Option<String>, key: &Key) -> Option<HttpUrl> {
        self.parsed(raw, key, |text| HttpUrl::parse(&text))
    }

    pub(crate) fn region(&mut self, raw: Option<String>, key: &Key) -> Option<Region> {
        let region = raw.or_else(|| self.environment.region());
        let region =
            self.required(region, key, "write it as eu-central-1 (AWS_REGION, its default, isn't set)");
        self.parsed(region, key, Region::parse)
    }

    fn catalog(&mut self, mut raw: RawCatalog, key: &Key) -> Option<CatalogSettings> {
        let sign_in = self.sign_in(&mut raw, key);
        let uri =
            self.required(raw.uri, &key.child("uri"), "give the catalog's base URL; /v1/config is below it");
        let uri = self.url(uri, &key.child("uri"));
        let remedy = "say which warehouse; S3 Tables: the table bucket's ARN";
        let warehouse = self.filled(raw.warehouse, &key.child("warehouse"), remedy);
        Some(CatalogSettings { uri: uri?, warehouse: warehouse?, sign_in: sign_in? })
    }

    fn store(&mut self, raw: RawStore, key: &Key) -> Option<StoreSettings> {
        let endpoint = self.url(raw.endpoint, &key.child("endpoint"));
        let region = self.region(raw.region, &key.child("region"));
        let credentials = self.credentials(raw.credentials, &key.child("credentials"));
        let path_style = raw.path_style.unwrap_or(false);
        let vended_credentials = raw.vended_credentials.unwrap_or(false);
        let (region, credentials) = (region?, credentials?);
        Some(StoreSettings { endpoint, region, path_style, credentials, vended_credentials })
    }

    fn ops(&mut self, raw: RawOps, key: &Key) -> Option<OpsSettings> {
        let bucket = self.required(raw.bucket, &key.child("bucket"), "name Icefall's own bucket");
        let bucket = self.parsed(bucket, &key.child("bucket"), |bucket| {
            let problem = format!("{bucket:?} is no bucket; name one by 3 to 63 of a-z, 0-9, hyphen and dot");
            if is_bucket(&bucket) { Ok(bucket) } else { Err(problem) }
        });
        let prefix = self.parsed(Some(raw.prefix.unwrap_or_default()), &key.child("prefix"), prefix);
        let RawOps { endpoint, region, path_style, credentials, .. } = raw;
        let store =
            self.store(RawStore { endpoint, region, path_style, credentials, vended_credentials: None }, key);
        Some(OpsSettings { bucket: bucket?, prefix: prefix?, store: store? })
    }

    fn queue(&mut self, raw: RawQueue, key: &Key) -> Option<QueueSettings> {
        let url = self.required(raw.url, &key.child("url"), "give the commit queue's URL");
        let url = self.url(url, &key.child("url"));
        let endpoint = self.url(raw.endpoint, &key.child("endpoint"));
        let region = self.region(raw.region, &key.child("region"));
        let credentials = self.credentials(raw.credentials, &key.child("credentials"));
        Some(QueueSettings { url: url?, endpoint, region: region?, credentials: credentials? })
    }

    fn committer(&mut self, raw: &RawCommitter, key: &Key) -> Option<CommitterSettings> {
        let commit_interval = raw.commit_interval.as_deref().unwrap_or("10s");
        let commit_interval = self.parsed(Some(commit_interval), &key.child("commit_interval"), span);
        let linger = raw.linger.as_deref().unwrap_or("5s");
        let linger = self.parsed(Some(linger), &key.child("linger"), span);
        let hold = raw.hold.as_deref().unwrap_or("30s");
        let hold = self.parsed(Some(hold), &key.child("hold"), hold_span);
        let max_messages = Some(raw.max_messages.unwrap_or(10_000));
        let max_messages = self.parsed(max_messages, &key.child("max_messages"), message_count);
        let max_bytes = raw.max_bytes.as_deref().unwrap_or("64 MiB");
        let max_bytes = self.parsed(Some(max_bytes), &key.child("max_bytes"), round_size);
        Some(CommitterSettings {
            commit_interval: commit_interval?,
            linger: linger?,
            hold: hold?,
            max_messages: max_messages?,
            max_bytes: max_bytes?,
        })
    }

    /// The tables that can be used.
    fn tables(&mut self, raw: Vec<Option<RawTable>>) -> Vec<TableSettings> {
        let tables = raw.into_iter().enumerate();
        tables.filter_map(|(index, raw)| self.table(raw?, &Key::named("table").at(index))).collect()
    }

    fn table(&mut self, mut raw: RawTable, key: &Key) -> Option<TableSettings> {
        let name_key = key.child("name");
        let name = table_name(raw.name.take(), &name_key, "name it as namespace.table", self.faults);
        self.declared.extend(name.clone().map(|name| (name_key, name)));
        table(name, raw, key, self.faults)
    }

    /// The routes that can be used.
    fn routes(&mut self, raw: Vec<Option<RawRoute>>) -> Vec<Route> {
        if raw.is_empty() {
            self.faults.missing(&Key::named("route"), "add a [[route]] with a topic and its table");
        }
        let routes = raw.into_iter().enumerate();
        routes.filter_map(|(index, raw)| self.route(raw?, &Key::named("route").at(index))).collect()
    }

    fn route(&mut self, raw: RawRoute, key: &Key) -> Option<Route> {
        let named = raw.topic.as_deref().and_then(plain_name).unwrap_or_else(|| "<table>".to_owned());
        let topic = self.required(raw.topic, &key.child("topic"), "name the topic");
        let topic = self.parsed(topic, &key.child("topic"), Topic::try_from);
        self.topics.extend(topic.clone().map(|topic| (key.child("topic"), topic)));
        let remedy = format!("name the topic's table, such as <namespace>.{named}");
        let table = table_name(raw.table, &key.child("table"), &remedy, self.faults);
        self.targets.extend(table.clone().map(|table| (key.child("table"), table)));
        let tombstones = raw.tombstones.as_deref().unwrap_or("dead-letter");
        let tombstones = self.parsed(Some(tombstones), &key.child("tombstones"), tombstones_named);
        Some(Route { topic: topic?, table: table?, tombstones: tombstones? })
    }

    /// Holds tables, routes and the dead-letter table against each other.
    fn cross(&mut self, dead_letters: Option<&TableName>) {
        let (declared, topics) = (std::mem::take(&mut self.declared), std::mem::take(&mut self.topics));
        for (key, first, name) in repeated(&declared) {
            self.faults.add(key, format_args!("{name} is declared by {first} already; declare it once"));
        }
        for (key, first, topic) in repeated(&topics) {
            self.faults
                .add(key, format_args!("{topic} is routed by {first} already; a topic goes to one table"));
        }
        for (key, name) in declared {
            self.refuse_dead_letters(dead_letters, &name, &key, "declare no such table");
        }
        for (key, name) in std::mem::take(&mut self.targets) {
            self.refuse_dead_letters(dead_letters, &name, &key, "route to another");
        }
    }

    fn refuse_dead_letters(
        &mut self,
        dead_letters: Option<&TableName>,
        name: &TableName,
        key: &Key,
        remedy: &str,
    ) {
        if dead_letters == Some(name) {
            self.faults.add(
                key,
                format_args!("{name} is the table of dead letters, which Icefall makes itself; {remedy}"),
            );
        }
    }
}

/// The keys of names that stand in `all` before, with the first key and the name.
fn repeated<T: Eq + Hash>(all: &[(Key, T)]) -> Vec<(&Key, &Key, &T)> {
    let mut seen = HashMap::new();
    let earlier = |(key, name)| match seen.entry(name) {
        Entry::Occupied(first) => Some((key, *first.get(), name)),
        Entry::Vacant(free) => {
            free.insert(key);
            None
        }
    };
    all.iter().map(|(key, name)| (key, name)).filter_map(earlier).collect()
}

fn tombstones_named(text: &str) -> Result<Tombstones, String> {
    match text {
        "dead-letter" => Ok(Tombstones::DeadLetter),
        "skip" => Ok(Tombstones::Skip),
        _ => Err(format!("{text:?} must be \"dead-letter\" or \"skip\"")),
    }
}

fn prefix(text: String) -> Result<String, String> {
    if text.starts_with('/') || text.ends_with('/') {
        return Err(format!("{text:?} must have no slash at either end; write {:?}", text.trim_matches('/')));
    }
    Ok(text)
}

fn span(text: &str) -> Result<Duration, String> {
    duration(text).filter(|span| *span <= QUARTER_HOUR).ok_or_else(|| {
        format!("{text:?} must be 0s to 15m, a function's longest run; write it as 500ms, 10s or 5m")
    })
}

/// SQS counts whole seconds, and a third of it has to be long enough for a renewal.
fn hold_span(text: &str) -> Result<Duration, String> {
    duration(text)
        .filter(|span| (Duration::from_secs(2)..=QUARTER_HOUR).contains(span) && span.subsec_nanos() == 0)
        .ok_or_else(|| format!("{text:?} must be 2s to 15m in whole seconds; write it as 30s"))
}

fn message_count(count: i64) -> Result<NonZeroU32, String> {
    let count_in_range = u32::try_from(count).ok().filter(|count| *count <= 100_000);
    count_in_range.and_then(NonZeroU32::new).ok_or_else(|| format!("{count} must be 1 to 100000"))
}

fn round_size(text: &str) -> Result<ByteSize, String> {
    ByteSize::parse(text)
        .filter(|size| (ByteSize::mib(1)..=ByteSize::mib(1024)).contains(size))
        .ok_or_else(|| format!("{text:?} must be 1 MiB, the largest message, to 1 GiB; write it as 64 MiB"))
}
