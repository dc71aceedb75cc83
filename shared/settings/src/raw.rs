//! The settings as the file has them: each key, what it means, its default and its catch.
//!
//! Nothing is derived and nothing checked here but the shape; [`crate::validate`] makes the
//! [`Settings`](crate::Settings) of it. The keys' descriptions are also the reference that
//! [`reference`] renders, so that there is one place to keep true.

use std::collections::BTreeMap;
use std::fmt::Write;

use icefall_secret::Secret;

use crate::fault::{Faults, Key};
use crate::node::Node;
use crate::read::{Read, refuse_unknown, table};

/// A section's keys with their descriptions.
struct Section {
    title: &'static str,
    keys: &'static [(&'static str, &'static str)],
}

/// Declares a table of the file: a struct of optional keys, its reader, its part of the reference.
macro_rules! section {
    (
        $(#[doc = $about:literal])+
        $name:ident, $title:literal,
        $($(#[doc = $doc:literal])+ $key:literal => $field:ident: $type:ty,)+
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Default)]
        pub(crate) struct $name {
            $($(#[doc = $doc])+ pub(crate) $field: Option<$type>,)+
        }

        impl $name {
            const SECTION: Section = Section { title: $title, keys: &[$(($key, concat!($($doc),+)),)+] };
        }

        impl Read for $name {
            fn read(node: Node, key: &Key, faults: &mut Faults) -> Option<Self> {
                let mut entries = table(node, key, faults)?;
                let section = Self {
                    $($field: entries.remove($key).and_then(|node| Read::read(node, &key.child($key), faults)),)+
                };
                refuse_unknown(entries, &[$($key),+], key, faults);
                Some(section)
            }
        }
    };
}

section! {
    /// The whole file.
    RawSettings, "top level",
    /// The pipeline's id, 1 to 40 of `a-z 0-9 -`. Required. It is part of every ledger's key: under
    /// another id all records are new, and land once more.
    "pipeline" => pipeline: String,
    /// Section, see below.
    "network" => network: RawNetwork,
    /// Section, see below.
    "kafka" => kafka: RawKafka,
    /// Section, see below. Required.
    "catalog" => catalog: RawCatalog,
    /// Section, see below.
    "store" => store: RawStore,
    /// Section, see below. Required.
    "ops" => ops: RawOps,
    /// Section, see below. Required.
    "queue" => queue: RawQueue,
    /// Section, see below.
    "committer" => committer: RawCommitter,
    /// Section, see below.
    "dead_letters" => dead_letters: RawDeadLetters,
    /// Section, see below. For `icefall audit` alone.
    "audit" => audit: RawAudit,
    /// List of sections, see below.
    "table" => tables: Vec<Option<RawTable>>,
    /// List of sections, see below. At least one.
    "route" => routes: Vec<Option<RawRoute>>,
}

section! {
    /// What stands between Icefall and everything that it talks to.
    RawNetwork, "[network]",
    /// A file of certificate authorities (PEM) that are trusted besides the public ones, counted from the
    /// folder of the binary. `AWS_CA_BUNDLE` when absent.
    "ca_bundle" => ca_bundle: String,
    /// A proxy that HTTPS connections go through: `http://[user:password@]host:port`. `HTTPS_PROXY` when
    /// absent; empty: none.
    "proxy" => proxy: String,
    /// Hosts that are reached without the proxy: names, domains, addresses and networks, separated by
    /// commas. `NO_PROXY` when absent.
    "no_proxy" => no_proxy: String,
}

section! {
    /// The cluster that records come from.
    RawKafka, "[kafka]",
    /// The name that the cluster goes by in the ledgers, 1 to 80 of `A-Z a-z 0-9 . _ -`. Required for
    /// self-managed Kafka; MSK: the ARN's cluster id when absent. Give another name only to a cluster
    /// whose records are others.
    "cluster" => cluster: String,
    /// The names of other clusters whose records are in the tables, too: of one that was left for this one, or that
    /// another of the pipeline's writers reads. A topic that a table holds under the name of a cluster which stands
    /// neither here nor in `cluster` is not taken in under another: a cluster that merely got another name would
    /// bring all of its records a second time. None when absent.
    "known_clusters" => known_clusters: Vec<Option<String>>,
}

section! {
    /// The Iceberg REST catalog.
    RawCatalog, "[catalog]",
    /// The base URL, http or https; `/v1/config` is below it. Required.
    "uri" => uri: String,
    /// The warehouse that the catalog is asked for: S3 Tables the table bucket's ARN, Glue the account
    /// id, others what they say. Required.
    "warehouse" => warehouse: String,
    /// Section, see below: requests are signed (AWS Signature Version 4). At most one of `sign`, `token` and
    /// `oauth2`; without any, requests prove nothing.
    "sign" => sign: RawSigning,
    /// The keys to sign with. The AWS default chain (the function's role) when absent.
    "credentials" => credentials: RawCredentials,
    /// A bearer token that each request carries. It never changes: a function that outlives it is denied.
    "token" => token: Secret,
    /// Section, see below: each request carries a token that is fetched (OAuth 2.0 client credentials).
    "oauth2" => oauth2: RawOAuth2,
}

section! {
    /// How the catalog's requests are signed.
    RawSigning, "[catalog.sign]",
    /// The signing name: `s3tables`, `glue`, `execute-api`. Required.
    "name" => name: String,
    /// The region. The function's own (`AWS_REGION`) when absent.
    "region" => region: String,
}

section! {
    /// How the catalog's tokens are fetched: ahead of their end, and once more when the catalog refuses one.
    RawOAuth2, "[catalog.oauth2]",
    /// The URL that issues tokens. `v1/oauth/tokens` below the catalog's own when absent.
    "token_endpoint" => token_endpoint: String,
    /// The client's id. Required.
    "client_id" => client_id: String,
    /// The client's secret. Required.
    "client_secret" => client_secret: Secret,
    /// What the token is to be good for. `catalog` when absent; Polaris: `PRINCIPAL_ROLE:ALL`.
    "scope" => scope: String,
    /// Whom the token is for, where the issuer wants to be told.
    "audience" => audience: String,
}

section! {
    /// Keys: a pair, or a role that is assumed, with the function's own role or with a pair.
    RawCredentials, "credentials of [catalog], [store], [ops] and [queue]",
    /// The access key's id. Without it and `assume_role_arn`: the AWS default chain, the function's role.
    "access_key_id" => access_key_id: String,
    /// The secret of that key. Better a reference than in the file, see below, or in a variable:
    /// `ICEFALL__STORE__CREDENTIALS__SECRET_ACCESS_KEY`.
    "secret_access_key" => secret_access_key: Secret,
    /// The session's token. Only for temporary keys, which end with it: a function that outlives them
    /// is denied. Empty counts as absent.
    "session_token" => session_token: Secret,
    /// A role to assume (STS). Its keys are renewed ahead of their end.
    "assume_role_arn" => assume_role_arn: String,
    /// What the owner of the role wants to be told.
    "external_id" => external_id: String,
    /// What the session goes by in the logs of the role's account. `icefall` when absent.
    "session_name" => session_name: String,
    /// The file that holds a web identity's token; the role is assumed with it and no other keys.
    "web_identity_token_file" => web_identity_token_file: String,
    /// The URL of the STS API. AWS's own for the part's region when absent.
    "sts_endpoint" => sts_endpoint: String,
}

section! {
    /// The object store that the tables lie in.
    RawStore, "[store]",
    /// The URL of the S3 API. AWS's own for the region when absent.
    "endpoint" => endpoint: String,
    /// The region. The function's own (`AWS_REGION`) when absent.
    "region" => region: String,
    /// Whether the bucket stands in the path and not in the host name. `false` when absent; most other
    /// stores than AWS need `true`.
    "path_style" => path_style: bool,
    /// The keys. The AWS default chain (the function's role) when absent.
    "credentials" => credentials: RawCredentials,
    /// Whether the catalog is asked for keys with every table, which are then used for that table's files and
    /// renewed ahead of their end. `false` when absent. `credentials` are used where it hands out none.
    "vended_credentials" => vended_credentials: bool,
}

section! {
    /// Icefall's own bucket: ledger segments, dead letters on their way, quarantine, heartbeat. Nothing
    /// in it may expire by a lifecycle rule.
    RawOps, "[ops]",
    /// The bucket, an ordinary one: table buckets take no other objects. Required.
    "bucket" => bucket: String,
    /// What all keys begin with, without a slash at either end. Empty when absent.
    "prefix" => prefix: String,
    /// As in `[store]`, and never taken from there.
    "endpoint" => endpoint: String,
    /// As in `[store]`.
    "region" => region: String,
    /// As in `[store]`.
    "path_style" => path_style: bool,
    /// As in `[store]`.
    "credentials" => credentials: RawCredentials,
}

section! {
    /// The commit queue (SQS).
    RawQueue, "[queue]",
    /// The queue's URL. Required.
    "url" => url: String,
    /// The URL of the SQS API. AWS's own for the region when absent.
    "endpoint" => endpoint: String,
    /// The region. The function's own (`AWS_REGION`) when absent.
    "region" => region: String,
    /// The keys. The AWS default chain (the function's role) when absent.
    "credentials" => credentials: RawCredentials,
}

section! {
    /// The committer's rounds.
    RawCommitter, "[committer]",
    /// The least time between two snapshots of a table within an invocation, 0s to 15m. `10s` when
    /// absent. Shorter is fresher, and makes more snapshots for readers and catalog to carry.
    "commit_interval" => commit_interval: String,
    /// An invocation ends when the queue has been empty for this long, 0s to 15m. `5s` when absent.
    "linger" => linger: String,
    /// How long received messages stay hidden from others, 2s to 15m, in whole seconds. `30s` when
    /// absent. A committer renews it while it lives, so this is what the messages of one that died
    /// wait before the next one sees them; the queue's own visibility time-out plays no part.
    "hold" => hold: String,
    /// The most messages in one round, 1 to 100000. `10000` when absent: a commit of 20 s then keeps up with
    /// hundreds of messages a second.
    "max_messages" => max_messages: i64,
    /// The most bytes of messages in one round, 1 MiB to 1 GiB. `64 MiB` when absent. They are held in
    /// memory.
    "max_bytes" => max_bytes: String,
}

section! {
    /// Where records go that no row can be made of.
    RawDeadLetters, "[dead_letters]",
    /// The table, made when absent. `icefall.dead_letters` by default. No route may lead to it.
    "table" => table: String,
}

section! {
    /// How the operator's tool reads topics.
    RawAudit, "[audit]",
    /// The brokers that `icefall audit` reads from: `host:port`, separated by commas. Required for it, and used by
    /// nothing else: best given by the environment of whoever runs it (`ICEFALL__AUDIT__BOOTSTRAP`, and so on for the
    /// other keys), since functions fetch every secret that their settings refer to.
    "bootstrap" => bootstrap: String,
    /// Whether brokers are reached by TLS. `true` when absent and `sign_in` is given, else `false`. Brokers' certificates are
    /// checked against `network.ca_bundle`, or the machine's own authorities.
    "tls" => tls: bool,
    /// How to sign in: `plain`, `scram-sha-256`, `scram-sha-512` or `msk-iam`. Not at all when absent.
    "sign_in" => sign_in: String,
    /// The user, for `plain` and `scram-…`.
    "username" => username: String,
    /// The password. Better a reference or a variable (`ICEFALL__AUDIT__PASSWORD`) than in the file.
    "password" => password: Secret,
    /// The cluster's region, for `msk-iam`. `AWS_REGION` when absent.
    "region" => region: String,
    /// The keys, for `msk-iam`. The AWS default chain when absent.
    "credentials" => credentials: RawCredentials,
}

section! {
    /// A table that Icefall makes, or of which it should know more than its name.
    RawTable, "[[table]]",
    /// `namespace.table`, each of lower-case letters, digits and underscores. Required.
    "name" => name: String,
    /// The branch that snapshots are added to. `main` when absent.
    "branch" => branch: String,
    /// The partition fields, in order: `column` or `identity(column)`, `year(column)`, `month(column)`,
    /// `day(column)`, `hour(column)`, `bucket(16, column)`, `truncate(8, column)`, `void(column)`. Dots lead into
    /// structs: `day(meta.at)`. None when absent. Used only when Icefall makes the table.
    "partition_by" => partition_by: Vec<Option<String>>,
    /// Table properties, all strings. Used only when Icefall makes the table. Quote keys that have dots.
    "properties" => properties: BTreeMap<String, String>,
    /// The columns. Given, the table is made when absent (one that is there is left as it is); absent,
    /// it must be there.
    "columns" => columns: Vec<Option<RawColumn>>,
}

section! {
    /// A column.
    RawColumn, "columns of [[table]]",
    /// Its name, without a dot. Required.
    "name" => name: String,
    /// Its type: a primitive type of Iceberg, `list<T>`, `map<K, V>` or `struct<a: T, b?: T>`. Inside of
    /// a type, `?` marks what may be null or missing: `list<long?>`, `map<string, double?>`. Required.
    "type" => data_type: String,
    /// Whether every record must have it. `false` when absent; `true` makes dead letters of those that
    /// have not.
    "required" => required: bool,
}

section! {
    /// Which table a topic's records go to.
    RawRoute, "[[route]]",
    /// The topic. Required; in one route at most.
    "topic" => topic: String,
    /// The table, declared above or there already. Required. Several topics may share it.
    "table" => table: String,
    /// What becomes of a record without a value: `dead-letter` (the default), or `skip`: counted, not
    /// kept.
    "tombstones" => tombstones: String,
}

/// What may stand in place of any secret, read by [`crate::reference`].
const KEPT_SECRET: Section = Section {
    title: "a secret that is kept elsewhere",
    keys: &[
        (
            "secretsmanager",
            "In place of a secret's text (`secret_access_key`, `session_token`, `token`, `client_secret`, `password`): \
             the name or ARN of a secret of AWS Secrets Manager, fetched when a function starts, with its role: \
             `secret_access_key = { secretsmanager = \"icefall/store\", key = \"secret\" }`.",
        ),
        ("key", "The key of the JSON object that the secret is. Its whole text when absent."),
        ("ssm", "The name or ARN of a parameter of AWS Systems Manager, in place of `secretsmanager`."),
    ],
};

const SECTIONS: [Section; 17] = [
    RawSettings::SECTION,
    RawNetwork::SECTION,
    RawKafka::SECTION,
    RawCatalog::SECTION,
    RawSigning::SECTION,
    RawOAuth2::SECTION,
    RawCredentials::SECTION,
    KEPT_SECRET,
    RawStore::SECTION,
    RawOps::SECTION,
    RawQueue::SECTION,
    RawCommitter::SECTION,
    RawDeadLetters::SECTION,
    RawAudit::SECTION,
    RawTable::SECTION,
    RawColumn::SECTION,
    RawRoute::SECTION,
];

/// Every key with its description, as Markdown: one table a section.
#[must_use]
pub fn reference() -> String {
    SECTIONS.iter().fold(String::new(), |mut text, section| {
        let _ = write!(text, "### {}\n\n| key | meaning |\n|---|---|\n", section.title);
        for (key, meaning) in section.keys {
            let _ = writeln!(text, "| `{key}` | {} |", meaning.trim().replace('|', "\\|"));
        }
        text.push('\n');
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_has_every_section_and_key() {
        let reference = reference();
        assert_eq!(reference.matches("\n|---|---|\n").count(), SECTIONS.len());
        assert!(reference.contains("### [[route]]\n"));
        let linger = "| `linger` | An invocation ends when the queue has been empty for this long";
        assert!(reference.contains(linger), "{reference}");
    }

    #[test]
    fn all_shape_faults_are_found_at_once_and_unknown_keys_name_the_known_ones() {
        let text =
            "pipeline = 1\ncatalogue = {}\n[store]\npath_style = 'true'\nendpont = 'x'\n[[route]]\ntopic = 2";
        let mut faults = Faults::default();
        let node = Node::parse(text).expect("TOML");
        let raw = RawSettings::read(node, &Key::default(), &mut faults);
        let error = faults.into_result(raw).expect_err("five faults");
        let keys: Vec<_> = error.faults().iter().map(|fault| fault.key.as_str()).collect();
        assert_eq!(keys, ["catalogue", "pipeline", "route[0].topic", "store.endpont", "store.path_style"]);
        assert!(
            error
                .to_string()
                .contains("here are endpoint, region, path_style, credentials, vended_credentials"),
            "{error}"
        );
    }
}
