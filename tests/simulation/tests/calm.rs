//! The suites that the real parts pass, on the parts as the simulation's processes reach them.

use iceberg::NamespaceIdent;
use icefall_simulation::Calm;
use icefall_store::Location;
use icefall_testkit::{Habits, catalog_conformance, queue_conformance, store_conformance};

#[test]
fn the_simulated_catalog_is_a_catalog() {
    let calm = Calm::of_seed(1);
    let (catalog, namespace) = (calm.catalog(), NamespaceIdent::new("suite".to_owned()));
    calm.run(catalog_conformance(catalog.as_ref(), &namespace, &Habits::STRICT));
}

#[test]
fn the_simulated_stores_are_stores() {
    let calm = Calm::of_seed(2);
    for (store, bucket) in [(calm.lake(), "lake"), (calm.ops(), "ops")] {
        calm.run(store_conformance(store.as_ref(), &Location::s3(bucket, "suite/data")));
    }
}

#[test]
fn the_simulated_queue_is_a_commit_queue() {
    let calm = Calm::of_seed(3);
    calm.run(queue_conformance(calm.queue().as_ref()));
}
