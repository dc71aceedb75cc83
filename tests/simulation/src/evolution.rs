//! What an operator changes about a table's columns and partitions while records are on their way.

use std::collections::BTreeSet;
use std::sync::Arc;

use iceberg::TableUpdate;
use iceberg::spec::{
    NestedField, PrimitiveType, Schema, TableMetadata, Transform, Type, UnboundPartitionSpec,
};
use icefall_catalog::Commit;
use icefall_clock::Entropy;

use crate::world::World;

impl World {
    /// Adds the column `extra`.
    pub(crate) fn add_column(&mut self, index: usize) -> bool {
        let Some((name, metadata)) = self.evolving(index) else { return false };
        if metadata.current_schema().field_by_name("extra").is_some() {
            return false;
        }
        let id = metadata.last_column_id() + 1;
        let added = NestedField::optional(id, "extra", Type::Primitive(PrimitiveType::String));
        let mut fields: Vec<_> = metadata.current_schema().as_struct().fields().to_vec();
        fields.push(Arc::new(added));
        let done = self.set_schema(name, fields);
        let now = self.sim.now_ms();
        self.tables
            .iter_mut()
            .filter(|table| done && table.name == name)
            .for_each(|table| table.grown_ms = Some(now));
        done
    }

    /// Makes `q` a long.
    pub(crate) fn widen_column(&mut self, index: usize) -> bool {
        let Some((name, metadata)) = self.evolving(index) else { return false };
        let int = Type::Primitive(PrimitiveType::Int);
        let fields = metadata.current_schema().as_struct().fields().iter();
        let mut widened = false;
        let fields = fields.map(|field| {
            if field.name != "q" || *field.field_type != int {
                return Arc::clone(field);
            }
            widened = true;
            Arc::new(NestedField::optional(field.id, "q", Type::Primitive(PrimitiveType::Long)))
        });
        let fields = fields.collect();
        let done = widened && self.set_schema(name, fields);
        let now = self.sim.now_ms();
        for table in self.tables.iter_mut().filter(|table| done && table.name == name) {
            (table.widened_ms, table.ever_widened) = (Some(now), true);
            self.sim.state().wide_since.insert(name.to_owned(), now);
        }
        done
    }

    /// Partitions by `p`, or no longer.
    pub(crate) fn change_spec(&mut self, index: usize) -> bool {
        let Some((name, metadata)) = self.evolving(index) else { return false };
        let builder = UnboundPartitionSpec::builder();
        let builder = if metadata.default_partition_spec().is_unpartitioned() {
            let id = metadata.current_schema().field_by_name("p").map_or(0, |field| field.id);
            let Ok(builder) = builder.add_partition_field(id, "p", Transform::Identity) else { return false };
            builder
        } else {
            builder
        };
        let updates =
            vec![TableUpdate::AddSpec { spec: builder.build() }, TableUpdate::SetDefaultSpec { spec_id: -1 }];
        self.commit(name, &Commit::new(vec![], updates, self.parts.entropy.uuid()))
    }

    /// Removes schemas and partition specs that nothing of the table uses any more.
    pub(crate) fn remove_unused(&mut self, index: usize) -> bool {
        let Some((name, metadata)) = self.evolving(index) else { return false };
        let Ok((schemas, specs)) = self.used(&metadata) else { return false };
        let schemas =
            metadata.schemas_iter().map(|schema| schema.schema_id()).filter(|id| !schemas.contains(id));
        let specs =
            metadata.partition_specs_iter().map(|spec| spec.spec_id()).filter(|id| !specs.contains(id));
        let (mut schema_ids, mut spec_ids): (Vec<_>, Vec<_>) = (schemas.collect(), specs.collect());
        schema_ids.sort_unstable();
        spec_ids.sort_unstable();
        if schema_ids.is_empty() && spec_ids.is_empty() {
            return false;
        }
        let updates =
            vec![TableUpdate::RemovePartitionSpecs { spec_ids }, TableUpdate::RemoveSchemas { schema_ids }];
        self.commit(name, &Commit::new(vec![], updates, self.parts.entropy.uuid()))
    }

    /// Ids of the schemas and of the specs that the table or any of its snapshots uses.
    fn used(&mut self, metadata: &TableMetadata) -> Result<(BTreeSet<i32>, BTreeSet<i32>), String> {
        let mut schemas = BTreeSet::from([metadata.current_schema_id()]);
        let mut specs = BTreeSet::from([metadata.default_partition_spec_id()]);
        for snapshot in metadata.snapshots() {
            schemas.extend(snapshot.schema_id());
            for listed in self.readers.manifests_of(snapshot)?.iter() {
                specs.extend(i32::try_from(listed.spec_id).ok());
                schemas.insert(self.readers.manifest(&listed.path)?.schema_id);
            }
        }
        Ok((schemas, specs))
    }

    fn evolving(&self, index: usize) -> Option<(&'static str, Arc<TableMetadata>)> {
        let name = self.tables.get(index)?.name;
        Some((name, self.metadata(name)?))
    }

    fn set_schema(&self, table: &str, fields: Vec<Arc<NestedField>>) -> bool {
        let Ok(schema) = Schema::builder().with_fields(fields).build() else { return false };
        let updates =
            vec![TableUpdate::AddSchema { schema }, TableUpdate::SetCurrentSchema { schema_id: -1 }];
        self.commit(table, &Commit::new(vec![], updates, self.parts.entropy.uuid()))
    }
}
