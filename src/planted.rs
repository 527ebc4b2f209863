//! Faults planted on purpose, each with a test that finds it: a test that cannot fail proves nothing.
//!
//! An ordinary build knows none of them: `planted!(NoFileSync)` is the constant `false` there. In a
//! build with `LSM_SIEVE_PLANTED=1` in its environment, the process breaks where the variable
//! `LSM_SIEVE_PLANT` names a fault, and nowhere else. `make planted` goes through the list: each line
//! names a fault, and the tests of which at least one must fail.

/// Whether the named fault is planted in this process; `false` in an ordinary build.
macro_rules! planted {
    ($fault:ident) => {
        cfg!(planted) && $crate::planted::is_planted($crate::planted::Fault::$fault)
    };
}
pub(crate) use planted;

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident => $tests:literal,)*) => {
        /// A way to lose a read, or what keeps one from being lost.
        #[cfg_attr(
            not(feature = "rocksdb"),
            expect(dead_code, reason = "many of these are faults of the plugin")
        )]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Fault {
            $($(#[$doc])* $fault,)*
        }

        #[cfg(planted)]
        const ALL: &[(&str, Fault)] = &[$((stringify!($fault), Fault::$fault),)*];
    };
}

faults! {
    // ---- files
    /// A new file is given its name before its bytes are durable.
    NoFileSync => "disk::",
    /// The new name may not survive a power cut.
    NoFolderSync => "disk::",
    /// A failed sync is taken for done, as a second one would report it.
    SyncRetried => "disk::",
    /// What was written is not read back.
    NotReadBack => "disk::",
    /// What a short or an interrupted read did not fill is taken for zeros.
    ShortReadAccepted => "disk::",
    /// Symlinks, and files that others may write, are read.
    AnyFileRead => "disk::",
    // ---- the format
    /// The checksum of the header is not compared.
    HeaderUnchecked => "format::",
    /// The checksums of the blocks are not compared.
    BlocksUnchecked => "format::",
    /// The checksum of all checksums is not compared.
    TrailerUnchecked => "format::",
    /// A newer version is read as if it were known.
    NewerVersionRead => "format::",
    /// The last of several stages is left out when a file is read.
    StageLost => "format::",
    // ---- sidecars
    /// A sidecar is believed to be of the segment that its name says.
    BoundByName => "sidecar",
    /// A sidecar of another database, hash or seed is believed.
    OwnerUnchecked => "sidecar",
    /// A file of a newer version is replaced and removed.
    NewerReplaced => "sidecar",
    /// An error of the disk is taken for a missing file.
    ErrorIsMissing => "sidecar",
    /// A damaged filter is taken for an empty one, which rules everything out.
    DamagedIsEmpty => "damage",
    // ---- filters
    /// Stages of different shapes are ORed word by word.
    UnequalStagesMerged => "filter::",
    /// Filters of different hashes or seeds are ORed.
    UnequalSeedsMerged => "filter::",
    /// Past its budget a filter forgets keys instead of answering *maybe*.
    PastBudgetForgotten => "filter::",
    /// A counter at its maximum is lowered, though it may stand for more.
    StuckCounterLowered => "filter::",
    /// A fold keeps one line of each pair.
    HalfFolded => "filter::",
    /// A window forgets its newest generation instead of its oldest.
    NewestForgotten => "filter::",
    // ---- the readers' lock
    /// A writer drops the old value while readers may still be in it.
    WriterDoesNotWait => "rcu::",
    // ---- building a segment's filter
    /// A filter that saw fewer keys than its table has is sealed.
    MiscountSealed => "segment::build",
    /// One entry in 97 is counted and not added.
    TableKeyMissed => "writes::random_writes",
    // ---- memtables
    /// One key in 97 does not reach the summary.
    MemtableKeyMissed => "writes::random_writes",
    /// A hook that panics, at one key in 97, leaves its column answering.
    PanicSwallowed => "writes::random_writes",
    // ---- coverage
    /// A column answers before its tables are known.
    KnownFromTheStart => "foreign::",
    /// All tables are taken for covered as soon as they are listed.
    CoveredWhenListed => "foreign::",
    /// An uncovered table is noted as covered without being read.
    CoveredUnread => "foreign::",
    /// Keys that come past the memtables are not announced.
    ForeignUnannounced => "ingestion::",
    /// What was learnt before keys came from outside is published after it.
    OldEpochPublished => "ingestion::",
    /// A family that is made while keys come from outside is not told of them.
    NewFamilyNotTold => "ingestion::",
    /// A front speaks for any family of its name.
    FrontBoundByName => "families::",
    /// A table without a filter is ruled out, whatever its range.
    UncoveredIgnored => "foreign::",
    /// Under the reverse comparator a range is empty.
    RangeNotReversed => "foreign::a_table_without_identity",
    // ---- consolidation
    /// The new summary takes over while memtables still feed the old one alone.
    SwappedWithoutFlush => "writes::random_writes",
    /// The old summary is no longer fed while readers still ask it.
    OldSummaryStarved => "second_look::",
    /// A table that could not be read counts as read.
    ScanErrorIgnored => "recovery::",
    /// The filter that is made anew for a table counts its deletions and does not know their keys.
    DeletionsUnread => "recovery::a_filter_made_anew",
    /// The engine is ended while upkeep may be flushing.
    EndsBesideUpkeep => "closing::closing_beside",
    /// Upkeep flushes beside a call that flushes all families.
    FlushesBesideUpkeep => "closing::closing_beside",
    /// A summary is made anew that the budget has no room for.
    SaturatedForSaturated => "budget::for_a_summary_without_room",
    /// What a failed consolidation began is left where readers ask it.
    GenerationsLeftBehind => "consolidations_that_fail",
    // ---- the second look
    /// Generations of memtables that are not flushed yet are left out.
    OlderGenerationsLeftOut => "second_look::",
    /// A new generation is not added before its memtables take keys.
    NewGenerationLeftOut => "second_look::",
    /// The second look outlives the arrival of keys from outside.
    InventoryOutlivesForeign => "ingestion::",
    // ---- many keys at once
    /// Keys of several families that were all denied, each at its own moment, are not denied again.
    DenialsOfManyMoments => "writes::a_record_that_moves_between",
    /// The answers of one call are moved by one place.
    AnswersShifted => "writes::random_writes",
    /// Tables that the summary does not speak for are left out for many keys at once.
    ManyIgnoreUncovered => "foreign::",
    // ---- the differential store
    /// A deleted key is not in the differential file, so that the main file's value comes back.
    DeleteNotRecorded => "differential::power",
    /// A generation is dropped before what was moved from it is durable.
    DroppedBeforeDurable => "differential::power",
    /// A fixed filter is not refilled when its store is opened.
    FixedFilterNotRefilled => "differential::twin::a_store_with_a_fixed",
    /// Writers go on in a generation that is being moved.
    WritesIntoFrozen => "differential::power",
    /// After an interruption the move goes on behind the last key but one batch.
    MoveSkipsAKey => "differential::interrupted",
    /// A batch of a move may be full without a record, which looks like the end.
    BatchFullWhenEmpty => "differential::interrupted::batches_of_any_size",
    /// A snapshot takes the generations of a moment well before its own.
    ListOfAnotherMoment => "differential::concurrency::snapshots_see_whole_loads",
}

/// Whether the environment names this fault.
#[cfg(planted)]
pub(crate) fn is_planted(fault: Fault) -> bool {
    use std::sync::OnceLock;
    static NAMED: OnceLock<Option<Fault>> = OnceLock::new();
    let named = || {
        let name = std::env::var("LSM_SIEVE_PLANT").ok()?;
        let known = ALL.iter().find(|(known, _)| *known == name);
        Some(
            known
                .unwrap_or_else(|| panic!("no fault is called {name:?}"))
                .1,
        )
    };
    *NAMED.get_or_init(named) == Some(fault)
}

/// Never: no fault is planted in an ordinary build.
#[cfg(not(planted))]
pub(crate) const fn is_planted(_: Fault) -> bool {
    false
}
