//! A catalog whose calls fail as planned, in all the ways in which a commit can.
//!
//! A commit that was done and whose answer is lost is what exactly-once has to survive; so is one that was done
//! and is then refused, as when a proxy or the catalog itself sends it a second time.

use std::sync::Arc;

use async_trait::async_trait;
use iceberg::{NamespaceIdent, TableIdent};
use icefall_catalog::{
    Catalog, CatalogError, Commit, CommitOutcome, LoadedTable, Namespace, NewTable, Operation, Snapshots,
};

use crate::errors::{catalog_error, commit_outcome};
use crate::{Call, Faults};

/// A catalog whose calls fail as planned.
#[derive(Clone, Debug)]
pub struct FaultyCatalog {
    inner: Arc<dyn Catalog>,
    faults: Arc<Faults>,
}

impl FaultyCatalog {
    /// `inner`, failing as `faults` says.
    #[must_use]
    pub fn new(inner: Arc<dyn Catalog>, faults: Arc<Faults>) -> Self {
        Self { inner, faults }
    }
}

#[async_trait]
impl Catalog for FaultyCatalog {
    async fn load_table(
        &self,
        table: &TableIdent,
        snapshots: Snapshots,
    ) -> Result<LoadedTable, CatalogError> {
        let error = catalog_error(Operation::LoadTable, table.to_string());
        self.faults
            .run(Call::LoadTable, &table.to_string(), self.inner.load_table(table, snapshots), error)
            .await
    }

    async fn create_table(&self, table: &TableIdent, new: &NewTable) -> Result<LoadedTable, CatalogError> {
        let error = catalog_error(Operation::CreateTable, table.to_string());
        self.faults
            .run(Call::CreateTable, &table.to_string(), self.inner.create_table(table, new), error)
            .await
    }

    /// A failure takes the place of any outcome, a refusal too.
    async fn commit(&self, table: &TableIdent, commit: &Commit) -> CommitOutcome {
        let work = async { Ok(self.inner.commit(table, commit).await) };
        let error = |failure| commit_outcome(failure, table.to_string());
        self.faults.run(Call::Commit, &table.to_string(), work, error).await.unwrap_or_else(|outcome| outcome)
    }

    async fn create_namespace(&self, namespace: &NamespaceIdent) -> Result<(), CatalogError> {
        let error = catalog_error(Operation::CreateNamespace, namespace.join("."));
        self.faults
            .run(Call::CreateNamespace, &namespace.join("."), self.inner.create_namespace(namespace), error)
            .await
    }

    async fn load_namespace(&self, namespace: &NamespaceIdent) -> Result<Namespace, CatalogError> {
        let error = catalog_error(Operation::LoadNamespace, namespace.join("."));
        self.faults
            .run(Call::LoadNamespace, &namespace.join("."), self.inner.load_namespace(namespace), error)
            .await
    }

    async fn list_tables(&self, namespace: &NamespaceIdent) -> Result<Vec<TableIdent>, CatalogError> {
        let error = catalog_error(Operation::ListTables, namespace.join("."));
        self.faults
            .run(Call::ListTables, &namespace.join("."), self.inner.list_tables(namespace), error)
            .await
    }
}

#[cfg(test)]
mod tests {
    use iceberg::TableUpdate;
    use iceberg::spec::{NestedField, PrimitiveType, Schema, Type};
    use uuid::Uuid;

    use super::*;
    use crate::{Failure, FakeCatalog, FakeClock, Moment};

    fn table() -> TableIdent {
        TableIdent::from_strs(["ns", "t"]).expect("a name")
    }

    async fn catalog() -> (Arc<Faults>, Arc<FakeCatalog>, FaultyCatalog) {
        let fake = Arc::new(FakeCatalog::with_namespace(Arc::new(FakeClock::default()), "ns"));
        let field = NestedField::optional(1, "id", Type::Primitive(PrimitiveType::Long));
        let schema = Schema::builder().with_fields([Arc::new(field)]).build().expect("a schema");
        fake.create_table(&table(), &NewTable::new(schema)).await.expect("create");
        let (faults, inner) = (Faults::new(), Arc::<FakeCatalog>::clone(&fake));
        (Arc::clone(&faults), fake, FaultyCatalog::new(inner, faults))
    }

    async fn set(catalog: &FaultyCatalog, value: &str) -> &'static str {
        let updates = [("key".to_owned(), value.to_owned())].into();
        let commit = Commit::new(Vec::new(), vec![TableUpdate::SetProperties { updates }], Uuid::nil());
        catalog.commit(&table(), &commit).await.name()
    }

    fn held(fake: &FakeCatalog) -> Option<String> {
        fake.peek(&table())?.properties().get("key").cloned()
    }

    #[tokio::test]
    async fn a_commit_is_unknown_whether_it_was_done_or_not() {
        let (faults, fake, catalog) = catalog().await;
        faults.lose(Call::Commit, 1, Moment::Before);
        faults.lose(Call::Commit, 2, Moment::After);
        assert_eq!((set(&catalog, "a").await, held(&fake)), ("unknown", None));
        assert_eq!((set(&catalog, "b").await, held(&fake)), ("unknown", Some("b".to_owned())));
        assert_eq!((set(&catalog, "c").await, held(&fake)), ("committed", Some("c".to_owned())));
        assert_eq!((faults.count(Call::Commit), faults.count(Call::LoadTable)), (3, 0));
    }

    #[tokio::test]
    async fn every_refusal_can_be_had() {
        let (faults, fake, catalog) = catalog().await;
        let expected = [
            (Failure::NotFound, "not found"),
            (Failure::Denied, "denied"),
            (Failure::Throttled, "throttled"),
            (Failure::NoConnection, "unreachable"),
            (Failure::Conflict, "conflict"),
            (Failure::Rejected, "rejected"),
        ];
        for (failure, name) in expected {
            faults.outage(Call::Commit, failure);
            assert_eq!(set(&catalog, "a").await, name);
            faults.clear();
        }
        assert_eq!(held(&fake), None);
        faults.fail(Call::Commit, 7..8, Moment::After, Failure::Conflict);
        assert_eq!((set(&catalog, "a").await, held(&fake)), ("conflict", Some("a".to_owned())));
    }

    #[tokio::test]
    async fn loads_fail_too() {
        let (faults, _, catalog) = catalog().await;
        faults.lose(Call::LoadTable, 2, Moment::Before);
        for n in 1..=3 {
            let loaded = catalog.load_table(&table(), Snapshots::All).await;
            assert_eq!(loaded.is_ok(), n != 2);
            assert!(!loaded.is_err_and(|error| !matches!(error, CatalogError::Unavailable(_))));
        }
    }
}
