//! Parts that break their word, on purpose: what shows that the account at the end would notice.

use iceberg::TableUpdate;
use iceberg::spec::{Snapshot, TableMetadata};
use icefall_catalog::Commit;
use uuid::Uuid;

/// Declares the lies with the words they are reported by.
macro_rules! lies {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// What a part says and does not do.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Lie {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Lie {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// In words.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }
        }
    };
}

lies! {
    /// One accepted message of ten is nowhere.
    LostMessages => "the queue loses accepted messages",
    /// What is delivered is let go at once, as by a consumer that acknowledges before it commits.
    DeletedOnReceipt => "messages are let go before anything is committed",
    /// The last commit wins.
    NoCompareAndSwap => "the catalog commits without a compare-and-swap",
    /// A data file that was stored is not there.
    LostDataFiles => "the table store loses data files",
    /// Dead letters that were stored are not there.
    LostDeadLetters => "the ops bucket loses dead letters",
    /// A batch that failed is never delivered again.
    DiscardedBatches => "the event source mapping discards batches that fail",
}

/// `commit` as it would have to be for a catalog that checks nothing.
pub(crate) fn unchecked(commit: &Commit, metadata: &TableMetadata) -> Commit {
    let renumbered = |update: &TableUpdate| match update {
        TableUpdate::AddSnapshot { snapshot }
            if snapshot.sequence_number() <= metadata.last_sequence_number() =>
        {
            let renumbered = Snapshot::builder()
                .with_snapshot_id(snapshot.snapshot_id())
                .with_parent_snapshot_id(snapshot.parent_snapshot_id())
                .with_sequence_number(metadata.next_sequence_number())
                .with_timestamp_ms(snapshot.timestamp_ms().max(metadata.last_updated_ms()))
                .with_manifest_list(snapshot.manifest_list().to_owned())
                .with_summary(snapshot.summary().clone());
            let renumbered = match snapshot.schema_id() {
                Some(schema) => renumbered.with_schema_id(schema).build(),
                None => renumbered.build(),
            };
            TableUpdate::AddSnapshot { snapshot: renumbered }
        }
        other => other.clone(),
    };
    Commit::new(Vec::new(), commit.updates().iter().map(renumbered).collect(), Uuid::nil())
}
