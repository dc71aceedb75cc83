//! Deliberate faults in the code that is shipped, each of which the fault simulation has to find.
//!
//! A simulation that finds nothing proves little unless it would find something. So each promise can be broken on
//! purpose: at the place that keeps it, the code asks [`is`] whether it is to break it. Without the feature `possible`
//! that is a constant `false`, and nothing of it is left in a program: no table, no name, no branch. Only the program
//! `simulate-mutations` is built with the feature; it is set on one thread at a time, by `with`.

/// Declares the mutations with the words that they are reported by, and the promise that each breaks.
macro_rules! mutations {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal, $breaks:literal;)+) => {
        /// A promise that is broken on purpose.
        #[derive(Clone, Copy, Debug, Eq, PartialEq)]
        pub enum Mutation {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Mutation {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// What it breaks: a row of the ledger's decision, or a promise.
            #[must_use]
            pub const fn breaks(self) -> &'static str {
                match self {
                    $(Self::$name => $breaks,)+
                }
            }
        }
    };
}

mutations! {
    /// The commit does not name the snapshot that it was decided on.
    NoSnapshotRequirement => "no-snapshot-requirement", "one commit, on the metadata whose ledger was consulted";
    /// The commit does not name the table's uuid.
    NoUuidRequirement => "no-uuid-requirement", "one commit, on the metadata whose ledger was consulted";
    /// Rows are committed, and the ledger is not.
    LedgerNotInCommit => "ledger-not-in-commit", "ledger and snapshot change in one commit";
    /// A ledger that changes without rows is committed without a snapshot.
    PropertyOnlyChange => "property-only-change", "every change of a ledger adds a snapshot";
    /// A conflict is taken for success.
    ConflictIsSuccess => "conflict-is-success", "on a conflict: load, decide and build again";
    /// An unknown outcome is taken for success.
    UnknownIsSuccess => "unknown-is-success", "an unknown outcome is settled by the ledger, never guessed";
    /// Messages are let go before the commit is sent.
    AcknowledgedBeforeCommit => "acknowledged-before-commit", "nothing is acknowledged before it is durable";
    /// Messages of a table that could not be settled are let go.
    FailureAcknowledged => "failure-acknowledged", "what merely fails stays queued";
    /// Messages of a source that stands still are let go.
    StoppedAcknowledged => "stopped-acknowledged", "a stopped source's messages stay queued";
    /// A message is let go though its place in quarantine could not be written.
    QuarantineUnwritten => "quarantine-unwritten", "a message goes only when it stands in quarantine";
    /// The writer succeeds though the queue did not accept its batch manifests.
    AnsweredBeforeQueued => "answered-before-queued", "the writer succeeds when the queue has every batch manifest";
    /// The writer goes on though a data file was not stored.
    QueuedBeforeStored => "queued-before-stored", "files are durable before a batch manifest names them";
    /// The writer goes on though dead letters were not stored.
    LettersUnstored => "letters-unstored", "a bad record never vanishes";
    /// All offsets up to a partition's highest are taken for settled.
    HighestForRecords => "highest-for-records", "the ledger holds records, not a highest offset";
    /// All offsets up to the highest of any partition are taken for settled.
    HighestOfLedger => "highest-of-ledger", "each partition has its own offsets";
    /// All offsets between two settled ones are taken for settled.
    RangeForRecords => "range-for-records", "the ledger holds records, not ranges";
    /// A record is taken for the one that is settled at its offset, whatever it is.
    FingerprintIgnored => "fingerprint-ignored", "row: held with another fingerprint";
    /// A record whose offset is settled with another one is free.
    OtherRecordFree => "other-record-free", "row: held with another fingerprint";
    /// The stop is not written into the ledger.
    StopUnwritten => "stop-unwritten", "row: the source stops in this table";
    /// A source that stands still goes on.
    StopPassedOver => "stop-passed-over", "row: the source stops in this table, until an operator decides";
    /// A record that is held under another encoding is free.
    EncodingIgnored => "encoding-ignored", "row: held under another encoding tag";
    /// Whichever table a batch manifest was made for, it is committed.
    UuidIgnored => "uuid-ignored", "row: another table uuid";
    /// The settings' cluster is new, and the topic held under the old one is not looked for.
    ClusterIgnored => "cluster-ignored", "row: held under another source of the pipeline";
    /// What is no batch manifest is let go.
    ForeignDropped => "foreign-dropped", "row: malformed";
    /// A batch manifest all of whose records are held is committed.
    DuplicateCommitted => "duplicate-committed", "row: all held";
    /// A duplicate is never let go.
    DuplicateKept => "duplicate-kept", "row: all held";
    /// A batch manifest some of whose records are held is committed as it is.
    TrimSkipped => "trim-skipped", "row: some held";
    /// One that is trimmed loses its dead letters.
    TrimDropsLetters => "trim-drops-letters", "row: some held; dead letters likewise";
    /// A trimmed file keeps the rows that are held, in place of those that are free.
    TrimInverted => "trim-inverted", "row: some held";
    /// A batch manifest none of whose records is held is let go.
    FreeDropped => "free-dropped", "row: none held";
    /// Files are committed however old they are.
    AgeIgnored => "age-ignored", "row: older than half the unreferenced-file limit";
    /// A schema or spec that the table has dropped is not looked for.
    DroppedSpecIgnored => "dropped-spec-ignored", "row: schema or spec no longer in the metadata";
    /// Nothing is parked before the queue drops it.
    SweepSkipped => "sweep-skipped", "row: older than three quarters of the retention";
    /// What a stopped source's messages wait for is not looked at.
    StoppedSweepSkipped => "stopped-sweep-skipped", "row: stood still for three quarters of the retention";
    /// A segment is named though its put failed.
    SegmentUnsure => "segment-unsure", "a put whose outcome is unknown is repeated before anything names the object";
    /// The index of a commit that was never made is continued.
    TailOfLostCommit => "tail-of-lost-commit", "the ledger consulted is the one in the metadata";
    /// Each segment forgets the ones before it.
    IndexForgets => "index-forgets", "the ledger holds every settled record";
    /// A ledger that the register holds is begun anew when its property is gone.
    RegisterPassedOver => "register-passed-over", "stop rule: in the register, but no property";
    /// A ledger whose snapshots can be seen is begun anew when its property is gone.
    SnapshotPassedOver => "snapshot-passed-over", "stop rule: a visible snapshot of ours, but no property";
    /// A topic whose ledger is gone is begun anew under another name of its cluster.
    TwinPassedOver => "twin-passed-over", "stop rule: in the register under another cluster's name, but no property";
    /// A property of a newer format is read as one of the present.
    NewerFormatTaken => "newer-format-taken", "stop rule: a format newer than the code";
    /// The ledger of another table is taken for this one's.
    CopiedLedgerTaken => "copied-ledger-taken", "stop rule: the property names another uuid";
    /// The register is not written.
    RegisterSkipped => "register-skipped", "the register is ensured before every acknowledgement";
    /// After a rollback the ledger begins anew with the older snapshot.
    LedgerRolledBack => "ledger-rolled-back", "one ledger per table, and not one per snapshot";
    /// Dead letters go to the outbox and not into the ledger.
    LettersOutsideLedger => "letters-outside-ledger", "a dead letter is settled by its table's ledger";
    /// The outbox is cleared before the dead-letter table has taken it in.
    OutboxClearedEarly => "outbox-cleared-early", "only applied entries leave the outbox";
    /// The dead-letter table does not record how far it has taken in the outboxes.
    AppliedUnrecorded => "applied-unrecorded", "the dead letters' commit holds the highest number applied";
    /// An entry that can't be read is passed over.
    UnreadableLettersPassed => "unreadable-letters-passed", "an unreadable entry holds back the later ones";
    /// An unknown outcome of the dead letters' commit is taken for success.
    DeliveryAssumed => "delivery-assumed", "only what a load showed to be applied leaves the outbox";
    /// Entries are numbered anew once the outbox is empty.
    NumbersReused => "numbers-reused", "an outbox's number is never given twice";
    /// Every attempt writes its data files under the same names.
    NamesReused => "names-reused", "every attempt writes new names";
    /// A record that is no row is left out.
    BadRecordDropped => "bad-record-dropped", "a bad record never vanishes";
    /// A table that can't be settled holds up the others.
    BadTableBlocks => "bad-table-blocks", "a bad table never blocks others";
    /// Messages of rounds that nobody ended are taken with all others.
    SuspectsForgotten => "suspects-forgotten", "a message that kills the committer never blocks the rest";
    /// The writer takes data in though nobody commits.
    StallIgnored => "stall-ignored", "nothing is taken in when the heartbeat is old";
    /// When the catalog can't be asked, records that don't fit become dead letters.
    LetterForOutage => "letter-for-outage", "never a dead letter because something was unavailable";
    /// A table's metadata is never loaded again.
    TableNeverReloaded => "table-never-reloaded", "a record becomes what the table's present schema says";
    /// Other records that an operator accepts get no incarnation of their own.
    AcceptForgotten => "accept-forgotten", "row: held with another fingerprint, accepted by an operator";
    /// Copies that an operator discarded land beside what they are copies of.
    CopiesLand => "copies-land", "row: held with another fingerprint, discarded by an operator";
    /// Copies that an operator discarded are let go, and stand in no quarantine.
    CopiesDropped => "copies-dropped", "row: held with another fingerprint, discarded by an operator";
    /// A batch manifest whose file had to be rewritten and is gone is let go.
    GoneFileDropped => "gone-file-dropped", "row: a file that had to be rewritten is gone";
    /// An old value of a ledger is continued, though newer snapshots can be seen.
    OldPropertyTaken => "old-property-taken", "stop rule: an old value was put back";
    /// A ledger is continued on a table that was replaced.
    ReplacedTaken => "replaced-taken", "stop rule: the history ends without the ledger's last snapshot";
    /// A ledger is continued on a branch beside its own history.
    OtherHistoryTaken => "other-history-taken", "stop rule: the branch stands in another lineage";
    /// A ledger is continued on a branch from before its last rewind.
    BeforeRewindTaken => "before-rewind-taken", "stop rule: the branch is older than the last rewind";
    /// A ledger is continued after a snapshot that was picked from before its last rewind.
    PickedTaken => "picked-taken", "stop rule: a snapshot was picked from before the last rewind";
    /// A replayed dead letter is a row, and the ledger does not say so.
    ReplayOutsideLedger => "replay-outside-ledger", "a replayed dead letter becomes a row exactly once";
    /// A dead letter that is replayed is taken for a duplicate.
    ReplayIsDuplicate => "replay-is-duplicate", "a replayed dead letter becomes a row exactly once";
    /// A rewind frees what stands in the branch, too.
    RewindFreesAll => "rewind-frees-all", "a rewind frees what was rolled back, and nothing else";
    /// A rewind frees dead letters.
    RewindFreesLetters => "rewind-frees-letters", "dead letters of rolled-back snapshots stay settled";
    /// A rewind does not leave its number in the ledger.
    RewindUnmarked => "rewind-unmarked", "the ledger keeps the number of its last rewind";
    /// A rewind sets the highest offsets back.
    RewindLowersHighest => "rewind-lowers-highest", "a partition's highest offset never goes down";
    /// A ledger that is there is overwritten with what the metadata log has.
    RestoreOverwrites => "restore-overwrites", "a ledger is restored only when it is absent";
    /// A release is noted before the queue has accepted it.
    ReleasedUnsent => "released-unsent", "a release is noted once its message is queued";
    /// A release overrules every reason for quarantine.
    ReleaseOverrulesAll => "release-overrules-all", "a release overrules the one reason that it names";
    /// Merged manifests stay beside the one that takes their place.
    MergedKept => "merged-kept", "each record stands at most once in every snapshot";
}

/// What a program that can be mutated is known by: its bytes hold this.
#[must_use]
pub fn mark() -> String {
    ["icefall", "mutations", "are", "possible"].join("-")
}

/// Whether this promise is to be broken.
#[cfg(not(feature = "possible"))]
#[inline]
#[must_use]
pub const fn is(_: Mutation) -> bool {
    false
}

#[cfg(feature = "possible")]
pub use possible::{is, with};

#[cfg(feature = "possible")]
mod possible {
    use std::cell::Cell;
    use std::hint::black_box;

    use super::Mutation;

    /// See [`super::mark`].
    static MARK: &str = "icefall-mutations-are-possible";

    thread_local! {
        static PRESENT: Cell<Option<Mutation>> = const { Cell::new(None) };
    }

    /// Whether this promise is to be broken, on this thread and at present.
    #[must_use]
    pub fn is(mutation: Mutation) -> bool {
        black_box(MARK);
        PRESENT.get() == Some(mutation)
    }

    /// Does `work` with a promise broken.
    pub fn with<T>(mutation: Mutation, work: impl FnOnce() -> T) -> T {
        PRESENT.set(Some(mutation));
        let result = work();
        PRESENT.set(None);
        result
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use Mutation as M;

    use super::*;

    /// What the ledger decides about a batch manifest, when it stops, and what holds always, each with the mutations that
    /// break it: one that nothing here breaks is a promise that nobody watches.
    const PROMISES: &[(&str, &[Mutation])] = &[
        // The rows of the decision.
        ("malformed", &[M::ForeignDropped]),
        ("another table uuid", &[M::UuidIgnored]),
        ("held under another source of the pipeline", &[M::ClusterIgnored]),
        (
            "held with another fingerprint: the source stops",
            &[
                M::FingerprintIgnored,
                M::OtherRecordFree,
                M::StopUnwritten,
                M::StopPassedOver,
                M::StoppedAcknowledged,
            ],
        ),
        ("other records, accepted", &[M::AcceptForgotten]),
        ("copies, discarded", &[M::CopiesLand, M::CopiesDropped]),
        ("held under another encoding", &[M::EncodingIgnored]),
        ("all held", &[M::DuplicateCommitted, M::DuplicateKept]),
        ("some held", &[M::TrimSkipped, M::TrimInverted, M::TrimDropsLetters]),
        ("none held", &[M::FreeDropped]),
        ("files older than half the limit", &[M::AgeIgnored]),
        ("schema or spec no longer in the metadata", &[M::DroppedSpecIgnored]),
        ("a file that had to be rewritten is gone", &[M::GoneFileDropped]),
        ("waited for three quarters of the retention", &[M::SweepSkipped]),
        ("stood still for three quarters of the retention", &[M::StoppedSweepSkipped]),
        // When a table stops rather than guess.
        ("the property names another uuid", &[M::CopiedLedgerTaken]),
        ("registered, but no property", &[M::RegisterPassedOver, M::RegisterSkipped]),
        ("seen, but no property", &[M::SnapshotPassedOver]),
        ("registered under another cluster's name, but no property", &[M::TwinPassedOver]),
        ("a newer format", &[M::NewerFormatTaken]),
        ("an old value was put back", &[M::OldPropertyTaken]),
        ("the history ends without the ledger's last snapshot", &[M::ReplacedTaken]),
        ("another lineage", &[M::OtherHistoryTaken]),
        ("older than the last rewind", &[M::BeforeRewindTaken, M::RewindUnmarked]),
        ("picked from before the last rewind", &[M::PickedTaken]),
        // What holds always, by its number.
        (
            "1: each record at most once in every snapshot, once it is settled exactly once",
            &[M::HighestForRecords, M::HighestOfLedger, M::RangeForRecords, M::IndexForgets, M::MergedKept],
        ),
        (
            "2: nothing is acknowledged before it is durable",
            &[
                M::AcknowledgedBeforeCommit,
                M::AnsweredBeforeQueued,
                M::QueuedBeforeStored,
                M::LettersUnstored,
                M::SegmentUnsure,
                M::QuarantineUnwritten,
            ],
        ),
        (
            "3: ledger and snapshot change in one commit, on the metadata that was consulted",
            &[
                M::NoSnapshotRequirement,
                M::NoUuidRequirement,
                M::LedgerNotInCommit,
                M::PropertyOnlyChange,
                M::LedgerRolledBack,
                M::TailOfLostCommit,
            ],
        ),
        ("4: an outcome is never guessed", &[M::UnknownIsSuccess, M::ConflictIsSuccess]),
        ("5: order, duplication and delay do not matter", &[M::DuplicateCommitted, M::TrimSkipped]),
        ("6: every attempt writes new names", &[M::NamesReused]),
        (
            "7: what is bad blocks nothing and never vanishes",
            &[M::BadRecordDropped, M::BadTableBlocks, M::SuspectsForgotten],
        ),
        ("8: what merely fails stays queued", &[M::FailureAcknowledged, M::StallIgnored]),
        (
            "9: never a dead letter because something was unavailable",
            &[M::LetterForOutage, M::TableNeverReloaded],
        ),
        // Dead letters, and what operators do.
        (
            "the outbox",
            &[
                M::LettersOutsideLedger,
                M::OutboxClearedEarly,
                M::AppliedUnrecorded,
                M::UnreadableLettersPassed,
                M::DeliveryAssumed,
                M::NumbersReused,
            ],
        ),
        ("replay", &[M::ReplayOutsideLedger, M::ReplayIsDuplicate]),
        ("rewind", &[M::RewindFreesAll, M::RewindFreesLetters, M::RewindLowersHighest]),
        ("restore", &[M::RestoreOverwrites]),
        ("release", &[M::ReleasedUnsent, M::ReleaseOverrulesAll]),
    ];

    #[test]
    fn every_promise_is_broken_by_a_mutation_and_every_mutation_breaks_one() {
        for (promise, mutations) in PROMISES {
            assert!(!mutations.is_empty(), "nothing breaks {promise:?}");
        }
        let listed: BTreeSet<_> =
            PROMISES.iter().flat_map(|(_, mutations)| *mutations).map(|mutation| mutation.name()).collect();
        let unlisted =
            Mutation::ALL.iter().map(|mutation| mutation.name()).filter(|name| !listed.contains(name));
        assert_eq!(unlisted.collect::<Vec<_>>(), [""; 0]);
        assert!(listed.len() >= 30, "{} mutations", listed.len());
    }

    #[test]
    fn no_two_mutations_share_a_name() {
        let names: BTreeSet<_> = Mutation::ALL.iter().map(|mutation| mutation.name()).collect();
        assert_eq!(names.len(), Mutation::ALL.len());
    }
}
