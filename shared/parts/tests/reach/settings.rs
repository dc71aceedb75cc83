//! Settings with one part that matters, and how that part is asked something.

use std::time::Duration;

use iceberg::TableIdent;
use icefall_catalog::Snapshots;
use icefall_parts::Parts;
use icefall_settings::{Environment, Settings};
use icefall_store::Location;
use icefall_testkit::Request;

/// A part that has credentials of its own.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Part {
    Catalog,
    Store,
    Ops,
    Queue,
}

impl Part {
    pub(crate) const ALL: [Self; 4] = [Self::Catalog, Self::Store, Self::Ops, Self::Queue];
}

/// Settings in which `part` is at `url` with these credentials, and nobody is anywhere else. `others` are
/// sections of their own.
pub(crate) fn settings(part: Part, url: &str, credentials: &str, others: &str) -> String {
    let nobody = "http://127.0.0.1:1";
    let pair = r#"{ access_key_id = "AKIDOTHER", secret_access_key = "other" }"#;
    let at = |this: Part| if this == part { (url, credentials) } else { (nobody, pair) };
    let section = |this: Part, endpoint: &str| {
        let (url, credentials) = at(this);
        let credentials =
            if credentials.is_empty() { String::new() } else { format!("credentials = {credentials}") };
        format!("{endpoint} = \"{url}\"\n{credentials}\n")
    };
    format!(
        "pipeline = \"demo\"\nroute = [{{ topic = \"orders\", table = \"shop.orders\" }}]\n\
         [catalog]\nwarehouse = \"lake\"\nsign = {{ name = \"s3tables\" }}\n{}\
         [store]\npath_style = true\n{}\
         [ops]\nbucket = \"icefall-ops\"\npath_style = true\n{}\
         [queue]\nurl = \"{}/0/commits\"\n{}{others}",
        section(Part::Catalog, "uri"),
        section(Part::Store, "endpoint"),
        section(Part::Ops, "endpoint"),
        at(Part::Queue).0,
        section(Part::Queue, "endpoint"),
    )
}

/// The parts of `text`, in the region eu-west-1.
pub(crate) async fn parts(text: &str, variables: &[(&str, &str)]) -> Parts {
    let environment: Environment = variables.iter().copied().chain([("AWS_REGION", "eu-west-1")]).collect();
    let settings = Settings::parse(text, &environment).expect("good settings");
    Parts::of_settings(settings, "tests").await.expect("parts")
}

/// Asks `part` something that it does not have; gives how that failed.
pub(crate) async fn ask(part: Part, parts: &Parts) -> String {
    let location = Location::s3("icefall-ops", "nothing");
    match part {
        Part::Catalog => {
            let table = TableIdent::from_strs(["shop", "orders"]).expect("a name");
            parts.catalog.load_table(&table, Snapshots::All).await.expect_err("nothing").to_string()
        }
        Part::Store => parts.tables.get(&location).await.expect_err("nothing").to_string(),
        Part::Ops => parts.ops.read("nothing").await.expect_err("nothing").to_string(),
        Part::Queue => parts.queue.receive(1, Duration::ZERO).await.expect_err("nothing").to_string(),
    }
}

/// Key and session token that a request is signed with.
pub(crate) fn signed_by(request: &Request) -> (String, Option<String>) {
    let authorization = request.header("authorization").expect("it is signed");
    let scope = authorization.split("Credential=").nth(1).expect("a credential");
    let key = scope.split('/').next().expect("a key").to_owned();
    (key, request.header("x-amz-security-token").map(str::to_owned))
}
