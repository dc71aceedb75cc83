//! What really struck, and where processes died: counted, so that a run which spares the code shows itself.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// Declares the faults with the words they are reported by.
macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $name:ident => $text:literal,)+) => {
        /// Something that goes wrong, or that others do.
        #[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
        pub enum Fault {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Fault {
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

faults! {
    /// A request that never arrives.
    RequestLost => "request lost on its way",
    /// A request that was done, and whose caller does not learn it.
    AnswerLost => "answer lost after success",
    /// 5xx, and nothing was done.
    ServerErrorBefore => "server error (5xx), nothing done",
    /// 5xx, and it was done.
    ServerErrorAfter => "server error (5xx) after it was done",
    /// A request that arrives after its caller has given it up.
    RequestLate => "request done after its caller gave it up",
    /// 429.
    Throttled => "throttled (429)",
    /// 403.
    Denied => "denied (403)",
    /// No connection.
    NoConnection => "no connection",
    /// A conflict that nothing in the table explains.
    Conflict => "conflict (409) out of the blue",
    /// A commit that was done and is then refused.
    ConflictAfterDone => "conflict (409) after it was done",
    /// Some messages of a send are in the queue, and the call fails.
    SentInPart => "messages sent in part",
    /// Some messages of a delete are gone, and the call fails.
    DeletedInPart => "messages deleted in part",
    /// A call that takes minutes.
    Slow => "call slow beyond time-outs",
    /// Credentials of a part that are expired for a while.
    OutageExpired => "call with expired credentials (403)",
    /// A part that takes nothing for a while, since it was given too much.
    OutageThrottled => "call while its part takes none (429)",
    /// A part that is broken for a while.
    OutageBroken => "call while its part is broken (5xx)",
    /// A part that can't be reached for a while.
    OutageUnreachable => "call while its part can't be reached",
    /// A process that dies, and its last call with it.
    CrashBefore => "crash before a call took effect",
    /// A process that dies, and whose last call was done.
    CrashAfter => "crash after a call took effect",
    /// A process that is killed by the platform at its time limit.
    TimeLimit => "killed at the time limit",
    /// A warm environment that is given up between two invocations.
    Recycled => "warm environment given up",
    /// As many committers as there can be, in invocations that overlap.
    ThreeCommitters => "committers at once: three",
    /// A clock that is seconds off.
    ClockSkew => "clock of a process off by seconds",
    /// A message that a queue delivers twice.
    Duplicated => "message duplicated by the queue",
    /// Messages that are seen again while they are held.
    Redelivered => "held messages delivered again",
    /// An invocation by the queue's own trigger, which holds the messages that it brings.
    Brought => "committer invoked by the queue with messages",
    /// A message that points to what it would bring.
    Spilled => "batch manifest too large for a message",
    /// Messages that come in another order.
    Shuffled => "messages in another order",
    /// A message that is days late.
    DelayedMessage => "message delayed by days",
    /// A message that was settled long ago and comes again.
    OldMessage => "settled message came again",
    /// What is no batch manifest.
    ForeignMessage => "message that is no batch manifest",
    /// A batch that fails and is delivered again.
    BatchRetried => "Kafka batch failed and came again",
    /// A batch that succeeded and is delivered again.
    OffsetsNotCommitted => "Kafka batch succeeded and came again",
    /// Two consumers of one partition.
    Rebalanced => "partition in two batches at once",
    /// A trigger that begins at the earliest offset again.
    TriggerRecreated => "trigger re-created at the earliest offset",
    /// What was settled is no longer kept by its topic.
    TopicRetention => "settled records expired from their topic",
    /// A topic that was deleted and made again.
    TopicRecreated => "topic deleted and made again",
    /// A compaction.
    Compacted => "compaction rewrote files",
    /// Snapshots that are expired.
    Expired => "snapshots expired",
    /// Unreferenced files that are removed.
    CleanedUp => "unreferenced files removed",
    /// A commit of somebody's properties.
    ForeignCommit => "property-only commit of another writer",
    /// A rollback.
    RolledBack => "table rolled back to an ancestor",
    /// A new column.
    ColumnAdded => "column added",
    /// A promoted column.
    ColumnWidened => "column widened",
    /// Another partition spec.
    SpecChanged => "partition spec changed",
    /// A table that was dropped and made again.
    Dropped => "table dropped and made again",
    /// A ledger's property that somebody unset.
    LedgerUnset => "ledger's property unset by somebody",
    /// The same, before the register knows of the ledger.
    UnregisteredUnset => "ledger unset before it was registered",
    /// The same, and the topic comes under another name of its cluster from its beginning.
    UnsetAndRenamed => "ledger unset, then cluster renamed",
    /// A ledger that a newer version has written.
    NewerFormat => "ledger of a newer format",
    /// A table made again with the properties of the one before.
    LedgerCopied => "table made again with another's properties",
    /// An old value of a ledger's property, put back.
    OldValue => "old value of a ledger put back",
    /// REPLACE TABLE.
    Replaced => "table replaced",
    /// A branch that is set to a snapshot beside its history.
    OtherHistory => "branch set to another history",
    /// A branch that is set to before a rewind.
    BeforeRewind => "branch set back beyond a rewind",
    /// A snapshot that was picked from one before a rewind.
    CherryPicked => "snapshot picked from before a rewind",
    /// Schemas and specs that nothing uses.
    UnusedRemoved => "unused schemas and specs removed",
    /// Another commit between a load and the commit that rests on it.
    Interfered => "others committed while a commit was on its way",
    /// A message that whoever opens it dies of.
    Poisoned => "committer died of a message",
    /// Messages that wait for as long as a queue keeps them.
    Fortnight => "messages waited for the queue's retention",
    /// Records delivered in another encoding.
    RegistrySwitched => "schema registry switched on or off",
    /// Another name of the cluster.
    ClusterRenamed => "cluster renamed in the settings",
    /// A batch whose records were attempted under other settings before.
    SettingsChanged => "batch attempted again under other settings",
    /// A batch that the mapping stops trying.
    BatchGivenUp => "Kafka batch given up to a destination",
    /// Such a batch that somebody invokes the writer with.
    GivenUpReplayed => "Kafka batch that was given up replayed",
    /// `stops accept`.
    StopAccepted => "operator: stop ended, other records accepted",
    /// `stops discard`.
    CopiesDiscarded => "operator: stop ended, copies discarded",
    /// `quarantine release`.
    Released => "operator: batch released from quarantine",
    /// `quarantine discard`.
    EntryDiscarded => "operator: quarantined batch discarded",
    /// `replay`.
    LettersReplayed => "operator: dead letters replayed",
    /// `ledger rewind`.
    Rewound => "operator: ledger rewound after a rollback",
    /// `ledger restore`.
    LedgerRestored => "operator: lost ledger restored",
    /// A command that ends without its answer.
    CommandFailed => "operator's command failed or died",
    /// A ledger's index grows by a level, after a long past.
    NodeSealed => "index node sealed after a long past",
    /// What was settled long ago is looked for.
    NodeRead => "look-up through a sealed index node",
    /// A commit that the catalog refused because of another one.
    RealConflict => "commit lost a race",
}

/// A kind of call that processes make.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct CallKind {
    /// Who makes it: a function, or an operator's command.
    pub role: &'static str,
    /// Of which part.
    pub part: &'static str,
    /// What it does.
    pub call: &'static str,
    /// To what kind of thing.
    pub object: &'static str,
}

impl fmt::Display for CallKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { role, part, call, object } = self;
        write!(f, "{role}: {call} of {object} ({part})")
    }
}

/// Where a process died: at which kind of call, the how-manieth of its kind, before or after it was done.
pub type CrashPoint = (CallKind, u32, &'static str);

/// Counts of one schedule, or of many.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// How often each fault struck.
    pub faults: BTreeMap<Fault, u64>,
    /// Where processes died.
    pub crashes: BTreeSet<CrashPoint>,
    /// Which calls processes make, and how many of each while anything could go wrong.
    pub kinds: BTreeMap<CallKind, u64>,
    /// How many records were produced.
    pub records: u64,
    /// How many calls were made through the ports.
    pub calls: u64,
    /// How many invocations there were.
    pub invocations: u64,
}

impl Tally {
    /// Counts a fault.
    pub fn strike(&mut self, fault: Fault) {
        *self.faults.entry(fault).or_default() += 1;
    }

    /// How often it struck.
    #[must_use]
    pub fn count(&self, fault: Fault) -> u64 {
        self.faults.get(&fault).copied().unwrap_or_default()
    }

    /// All faults together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.faults.values().sum()
    }

    /// The calls before which, or after which, no process ever died, and how many of each there were.
    #[must_use]
    pub fn survived(&self) -> Vec<(CallKind, u64)> {
        let died: BTreeSet<_> = self.crashes.iter().map(|(kind, _, moment)| (*kind, *moment)).collect();
        let is_spared = |kind: &CallKind| ["before", "after"].iter().any(|at| !died.contains(&(*kind, *at)));
        let calls = self.kinds.iter().map(|(kind, calls)| (*kind, *calls));
        calls.filter(|(kind, _)| is_spared(kind)).collect()
    }

    /// Adds those of another schedule.
    pub fn add(&mut self, other: &Self) {
        for (fault, count) in &other.faults {
            *self.faults.entry(*fault).or_default() += count;
        }
        self.crashes.extend(&other.crashes);
        for (kind, calls) in &other.kinds {
            *self.kinds.entry(*kind).or_default() += calls;
        }
        self.records += other.records;
        self.calls += other.calls;
        self.invocations += other.invocations;
    }
}
