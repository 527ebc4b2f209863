//! Faults planted on purpose, each with a test that finds it: a test that cannot fail proves nothing.
//!
//! An ordinary build knows none of them: `planted!(NoFileSync)` is the constant `false` there. In a
//! build with `LSM_SIEVE_PLANTED=1` in its environment, the process breaks where the variable
//! `LSM_SIEVE_PLANT` names a fault, and nowhere else. `make planted` goes through the list: each line
//! names a fault, and the tests of which at least one must fail.

/// Whether the named fault is planted in this process; `false` in an ordinary build.
#[macro_export]
macro_rules! planted {
    ($fault:ident) => {
        $crate::planted::is_planted($crate::planted::Fault::$fault)
    };
}
pub use planted;

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident => $tests:literal,)*) => {
        /// A way to lose a read, or what keeps one from being lost.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        #[cfg(planted)]
        const ALL: &[(&str, Fault)] = &[$((stringify!($fault), Fault::$fault),)*];
    };
}

faults! {
    // ---- hashes
    /// Keys of more than 128 bytes are hashed otherwise than before.
    LongKeysHashedOtherwise => "hash::",
    /// What a filter says of its hash is made of short keys alone.
    LongKeysUnanswered => "hash::",
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
    /// A file that took the place of the one that was looked at is read.
    OtherFileTaken => "disk::real",
    /// To open a pipe is to wait for somebody who writes into it.
    PipeWaitedFor => "disk::real",
    /// On the real disk, a file is not synced.
    FileNotSynced => "disk::real",
    /// Nor is a folder.
    FolderNotSynced => "disk::real",
    /// A file that goes on behind what was written reads back as written.
    LongerReadBack => "disk::publish",
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
    /// A sidecar is believed whose hash gave other values to the fixed keys.
    DriftUnchecked => "sidecar",
    /// A file of a newer version is replaced and removed.
    NewerReplaced => "sidecar",
    /// An error of the disk is taken for a missing file.
    ErrorIsMissing => "sidecar",
    /// A damaged filter is taken for an empty one, which rules everything out.
    DamagedIsEmpty => "damage",
    /// A sidecar of any length is read.
    AnyLengthRead => "segment::sidecar",
    /// An identity of any length is read.
    AnyIdentityRead => "segment::identity",
    /// A table's filter may take more memory than its entries warrant.
    AnySizeLoaded => "security::a_sidecar_larger",
    /// A filter that is finished after the trust was lost is asked.
    FilterAfterDistrust => "segment::registry",
    // ---- filters
    /// Stages of different layouts are ORed word by word.
    UnequalKindsMerged => "filter::laws::merging::what_does_not_match",
    /// Stages of different numbers of probes are.
    UnequalProbesMerged => "filter::merge",
    /// Stages whose probes are spread over different numbers of words are.
    UnequalGroupsMerged => "filter::merge",
    /// Stages of different sizes are.
    UnequalSizesMerged => "filter::merge",
    /// Filters of different numbers of stages are ORed as far as both have some.
    UnequalCountsMerged => "filter::chain",
    /// Filters of different hash functions are ORed or chained.
    UnequalHashesMerged => "filter::chain",
    /// Filters of different seeds are.
    UnequalSeedsMerged => "filter::chain",
    /// Filters whose hash function gives different values are.
    DriftedHashesMerged => "filter::chain",
    /// Static stages, in which no key has bits of its own, are.
    StaticMerged => "filter::laws::merging",
    /// A static stage is made without some of its keys.
    StaticKeyLost => "filter::ribbon",
    /// A key that is put into a static stage afterwards leaves no trace.
    StaticInsertionIgnored => "filter::",
    /// The keys of a first stage that is still to come are absent.
    AwaitedTakenForEmpty => "filter::scalable",
    /// A new stage is open to writers before readers ask it.
    StageFilledUnasked => "interleavings::scalable",
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
    /// A thread takes a slot and does not say so.
    SlotTakenTwice => "threads::",
    /// A writer turns the readers without a slot to the other side once.
    TurnedOnce => "interleavings::published",
    /// A writer drops the old value where the system does not tell whether readers are still in it.
    DroppedUnawaited => "rcu::",
    // ---- opening
    /// A database is opened whatever the self-check of the hooks comes to.
    HooksUnproved => "rocks::probe",
    /// The self-check passes a front that was told of no memtable.
    UnboundFrontPassed => "rocks::probe",
    /// It passes a summary that misses a key.
    UnfedSummaryPassed => "rocks::probe",
    /// It passes a read that finds nothing.
    WrongAnswerPassed => "rocks::probe",
    /// It passes a table's filter that misses a key.
    MissedKeysPassed => "rocks::probe",
    /// It passes a table's filter that RocksDB does not ask.
    UnaskedFilterPassed => "rocks::probe",
    /// The options of the database itself are not looked at.
    DatabaseOptionsUnchecked => "settings::options_of_the_database",
    /// An option is taken with which RocksDB itself loses keys.
    MempurgeTaken => "settings::memtables_that_are_purged",
    /// Options of tables that RocksDB refuses are mended on their way.
    TablesMadeAnew => "settings::what_rocksdb_alone_refuses",
    /// A file is opened as if it were a database.
    FileTakenForFolder => "opening::a_file",
    /// A family is opened with other options than RocksDB has written down.
    FamilyOptionsUnread => "opening::families_of_any_order",
    /// Each family has a listener, which the options of every family then hold.
    ListenerPerFamily => "family_memory::",
    /// A family's first filters are as large as those of the only one.
    FirstStagesLarge => "family_memory::",
    /// The fronts are left out of what is told.
    FrontsUntold => "family_memory::",
    /// A family that is named twice gets two fronts, of which its memtables feed one.
    FamilyFrontedTwice => "families::a_family_that_is_named_twice",
    /// The folder of filters is changed before the engine's lock is taken.
    FolderChangedUnlocked => "recovery::two_fronts",
    // ---- building a segment's filter
    /// A filter that saw fewer keys than its table has is sealed.
    MiscountSealed => "segment::build",
    /// One entry in 97 is counted and not added.
    TableKeyMissed => "writes::random_writes",
    // ---- memtables
    /// One key in 97 does not reach the summary.
    MemtableKeyMissed => "writes::random_writes",
    /// A key that the engine inserts by the hint of its prefix passes unseen.
    PrefixHintUnseen => "writes::keys_inserted_by_a_hint",
    /// A key that the engine inserts by the hint of its batch passes unseen.
    BatchHintUnseen => "writes::keys_inserted_by_a_hint",
    /// Writes that are seen before their memtable has taken them are not told from others.
    UnorderedUnnoticed => "rocks::memtables",
    /// Even of such a write the filters hear after the memtable.
    FiltersAfterMemtable => "rocks::memtables",
    /// Of two writers who bind a memtable at once, one leaves what it bound open for ever.
    LostBindUnsealed => "ffi::hooks",
    /// A hook that panics, at one key in 97, leaves its column answering.
    PanicSwallowed => "writes::random_writes",
    // ---- what the engine asks of a table's filter
    /// A table that was built from prefixes beside keys has a filter of its keys.
    PrefixBlockNamed => "settings::prefix_iterators",
    /// A filter that panics rules the key out.
    PanicIsAbsent => "ffi::hooks",
    /// What a filter said of some keys stays when it panics at another.
    HalfAnswersKept => "ffi::hooks",
    /// The engine's private layout is taken for the one that the shim was written for.
    LayoutUnchecked => "rocks::ffi::tests",
    // ---- coverage
    /// A column answers before its tables are known.
    KnownFromTheStart => "foreign::",
    /// All tables are taken for covered as soon as they are listed.
    CoveredWhenListed => "foreign::",
    /// A consolidation beside an ingestion begins with the first table again.
    ArrivalsBeginAnew => "ingestion::a_consolidation_beside",
    /// A table that came between two parts of a static summary is taken for read.
    PartsOfTablesBelieved => "upkeep::static_stage",
    /// An uncovered table is noted as covered without being read.
    CoveredUnread => "foreign::",
    /// A table that gave fewer keys than it has counts as read.
    ShortScanAccepted => "foreign::a_table_that_holds",
    /// The full check takes the keys that it was given for all that there are.
    ShortCheckAccepted => "foreign::a_table_that_holds",
    /// The reader of raw keys takes an error for the end of the table.
    ReadErrorIsEnd => "recovery::a_table_that_cannot_be_read_is_never",
    /// The epoch is that of after the tables were listed.
    EpochAfterListing => "ingestion::a_table_that_comes",
    /// What upkeep has learnt is published in a front that gave up meanwhile.
    PublishedAfterGivingUp => "rocks::column::",
    /// What is ingested into the bare engine is not announced.
    IngestionUnheard => "rocks::listener",
    /// Keys that come past the memtables are not announced.
    ForeignUnannounced => "ingestion::",
    /// Nor are those that a catch-up brings.
    CatchUpUnannounced => "secondary::",
    /// They are announced once they have come.
    CatchUpAnnouncedLate => "announcements::",
    /// Keys that a catch-up brings are announced for a moment, and not until they have come.
    CatchUpAnnouncedBriefly => "announcements::",
    /// So are those that whoever uses the bare engine may bring.
    EngineUseAnnouncedBriefly => "announcements::",
    /// So are those of ingested files.
    IngestionAnnouncedBriefly => "announcements::",
    /// So are those of files that are ingested into a named family.
    FamilyIngestionAnnouncedBriefly => "announcements::",
    /// A family that is made while keys come from outside is told for a moment.
    NewFamilyToldBriefly => "announcements::",
    /// Filters are taken from tables that readers do not have yet.
    TablesAheadOfReaders => "secondary::",
    /// What was learnt before keys came from outside is published after it.
    OldEpochPublished => "ingestion::",
    /// A family that is made while keys come from outside is not told of them.
    NewFamilyNotTold => "ingestion::",
    /// A call that brings files into a family does not announce them.
    FamilyNotToldOfFiles => "ingestion::a_family_made",
    /// Of two arrivals of keys, a family made on the way is told until the first has ended.
    AnnouncedUntilTheFirstEnds => "ingestion::a_family_made",
    /// A front speaks for any family of its name.
    FrontBoundByName => "families::",
    /// A table without a filter is ruled out, whatever its range.
    UncoveredIgnored => "foreign::",
    /// The summary's word is taken for every table.
    SummaryAlwaysSuffices => "foreign::",
    /// What the summary lets by and denies is believed beside tables that it does not cover.
    BelievedUncovered => "rocks::coverage::",
    /// Tables of a RocksDB before 6.24 stay uncovered.
    OldTablesUnbound => "old_tables::",
    /// What is known of such a file is believed of another one with its number.
    NumberBindsForEver => "old_tables::",
    /// A filter is stored for such a table, which no other open finds.
    InstanceFilterStored => "old_tables::",
    /// Whoever waits for coverage waits for tables that will not be covered.
    WaitsForUnidentified => "old_tables::",
    /// A range that is not known is empty.
    UnknownRangeIsEmpty => "rocks::coverage",
    /// Under the reverse comparator a range is empty.
    RangeNotReversed => "foreign::a_table_without_identity",
    /// The last key of a table belongs to none in the second look.
    RunEndLeftOut => "rocks::runs::",
    // ---- what is gone
    /// The ids of tables that are gone stay among those that the summary covers.
    DeadIdsKept => "soak::",
    /// The segments of tables that are gone stay in memory.
    DeadSegmentsKept => "soak::",
    /// Their sidecars stay.
    DeadSidecarsKept => "soak::",
    /// Their ids are remembered for ever by what looks for them.
    DeadSegmentsRemembered => "upkeep::sweep",
    // ---- consolidation
    /// The new summary takes over while memtables still feed the old one alone.
    SwappedWithoutFlush => "writes::random_writes",
    /// It takes over though a flush has left such memtables behind.
    OldMemtablesOverlooked => "upkeep::consolidation",
    /// The old summary is no longer fed while readers still ask it.
    OldSummaryStarved => "second_look::",
    /// A table that could not be read counts as read.
    ScanErrorIgnored => "recovery::",
    /// The filter that is made anew for a table counts its deletions and does not know their keys.
    DeletionsUnread => "recovery::a_filter_made_anew",
    /// The engine is ended while upkeep may be flushing.
    EndsBesideUpkeep => "rocks::db::tests",
    /// Upkeep flushes beside a call that flushes all families.
    FlushesBesideUpkeep => "rocks::db::engine",
    /// Upkeep waits for compactions that have stopped.
    WaitsForEver => "closing::a_consolidation_waits_for_no_compaction_that_has_stopped",
    /// Writers who are looked at twice in a moment are taken for quiet.
    QuietAtOnce => "upkeep::tests::writers_who_pause",
    /// A summary goes where memtables that wait to be flushed take too much.
    SummariesGoFirst => "budget::tests::memtables_that_wait",
    /// So it does beside a flush of several families.
    FamiliesFlushedBesideUpkeep => "rocks::db::engine",
    /// And beside a checkpoint.
    CheckpointBesideUpkeep => "rocks::db::engine",
    /// Upkeep waits for a checkpoint however long it takes.
    CheckpointAwaited => "upkeep::consolidation",
    /// A flush of upkeep's waits for compactions, inside the engine.
    FlushWaitsForCompactions => "rocks::ffi::tests",
    /// The first catch-up of a secondary reads families that RocksDB has freed.
    FreedFamiliesKept => "rocks::ffi::tests",
    /// A transaction asks the filters for a key that it wrote itself.
    OwnWritesUnasked => "transactions::",
    /// A commit looks for conflicts beside the writers, and one may come before its own write.
    CommitLooksBeside => "transactions::no_plain_write",
    /// A key that is read for update is not watched; only its commit would tell.
    DenialUnwatched => "transactions::",
    /// A read for update watches the key of the default column family, whichever family it reads.
    DefaultFamilyWatched => "calls::transactions",
    /// A panic in a pass ends upkeep.
    PanicEndsUpkeep => "rocks::upkeep::tests",
    /// A panic in scrubbing does.
    ScrubPanicEndsUpkeep => "rocks::upkeep::tests",
    /// A summary is made anew that the budget has no room for.
    SaturatedForSaturated => "budget::for_a_summary_without_room",
    /// What a failed consolidation began is left where readers ask it.
    GenerationsLeftBehind => "consolidations_that_fail",
    /// A summary that was not finished is fed instead of the one that readers ask.
    UnfinishedSummaryFed => "consolidations_that_fail",
    /// Memtables no longer feed a summary that is dropped while readers still ask it.
    DroppedSummaryStarved => "rocks::column::",
    // ---- what wakes maintenance
    /// It is not woken when the database is open.
    NoWakeAtOpen => "maintenance::tables::tables_without_filters",
    /// Nor when a family is made.
    NoWakeAfterCreateCf => "maintenance::tables::a_family",
    /// Nor when one is dropped.
    NoWakeAfterDropCf => "maintenance::filters::filters_go_after_drop_cf",
    /// Nor when the rate is changed.
    NoWakeAfterSetRate => "maintenance::filters::filters_have_another_rate",
    /// Nor when keys have come past the memtables.
    NoWakeAfterExternalWrite => "maintenance::tables::",
    /// Nor by a flush.
    NoWakeAfterFlush => "maintenance::filters::filters_are_stored_after_each_flush",
    /// Nor by a compaction.
    NoWakeAfterCompaction => "maintenance::filters::filters_are_stored_and_removed",
    /// Nor when it has dropped filters that the second look still asks.
    NoWakeAfterDrop => "maintenance::filters::filters_that_do_not_fit",
    /// Nor when a table's filter was damaged, and dropped.
    NoWakeForDamagedFilter => "rocks::scrub::tests::damaged_filters_are_made_anew_without_a_call",
    /// Nor when a summary was.
    NoWakeForDamagedSummary => "rocks::scrub::tests::damaged_filters_are_made_anew_without_a_call",
    /// Sidecars of tables that are gone wait for the next wake-up.
    NoSecondSweep => "maintenance::filters::",
    /// Nothing is saved at the close.
    NoSaveAtClose => "maintenance::filters::what_is_new",
    /// What failed is not tried again unless somebody asks.
    NoRetryByItself => "maintenance::tables::a_table_that_cannot",
    /// Nor are filters scrubbed.
    NoScrubByItself => "maintenance::filters::filters_are_scrubbed",
    /// A pause of the writers brings no consolidation.
    NoConsolidationAtPause => "maintenance::consolidation::",
    /// Nor do many stages beside busy writers.
    NoConsolidationBesideWriters => "maintenance::consolidation::a_summary_of_many_stages",
    /// Nor do many keys of uncovered tables.
    NoConsolidationAtAdoption => "maintenance::consolidation::a_summary_for_many_uncovered",
    /// Nor does room in the budget.
    NoConsolidationWhenRoomAgain => "maintenance::consolidation::a_summary_without_room",
    /// The state of the filters is not told without a wake-up.
    HealthWakes => "rocks::health::tests::reports_wake_nothing",
    // ---- the second look
    /// Generations of memtables that are not flushed yet are left out.
    OlderGenerationsLeftOut => "second_look::",
    /// A new generation is not added before its memtables take keys.
    NewGenerationLeftOut => "second_look::",
    /// The second look outlives the arrival of keys from outside.
    InventoryOutlivesForeign => "ingestion::",
    /// Generations of memtables are collected after the tables were listed.
    RecentAfterListing => "second_look::keys_flushed",
    /// The second look goes on asking a filter that was found damaged.
    DamagedFilterAsked => "rocks::scrub",
    // ---- audits and scrubbing
    /// A summary that changed in memory is stored with a good checksum.
    DamagedSummaryStored => "rocks::scrub",
    /// A view is refuted by what was read before it was published.
    LaterViewRefuted => "rocks::audit",
    // ---- many keys at once
    /// Keys of several families that were all denied, each at its own moment, are not denied again.
    DenialsOfManyMoments => "writes::a_record_that_moves_between",
    /// Keys that another view denies count as denied all along.
    EditionUnchecked => "rocks::column::",
    /// A view with another summary has the edition of the one before.
    SummaryUnnoticed => "rocks::db::moments",
    /// So has one of the same summary that covers other tables.
    CoverageUnnoticed => "rocks::db::moments",
    /// So has one of which only the filters of tables and memtables are others.
    InventoryUnnoticed => "rocks::db::moments",
    /// The edition is that of after the keys were denied.
    EditionTakenLate => "rocks::db::moments",
    /// The answers of one call are moved by one place.
    AnswersShifted => "writes::random_writes",
    /// Of several keys that are absent, one is not counted, nor drawn for an audit.
    AbsentCountedShort => "counts::",
    /// Of several keys that the engine was asked for, one is not counted.
    EngineReadCountedShort => "counts::",
    /// Tables that the summary does not speak for are left out for many keys at once.
    ManyIgnoreUncovered => "foreign::",
    // ---- the differential store
    /// A deleted key is not in the differential file, so that the main file's value comes back.
    DeleteNotRecorded => "differential::power",
    /// What was moved is noted before it is durable.
    NotedBeforeDurable => "faults::power::no_power_cut_while_records_are_moved",
    /// A generation is dropped before it is durable that it was moved.
    DroppedBeforeDurable => "faults::power::no_power_cut_while_records_are_moved",
    /// A generation takes records before it is durable that there is one.
    FrozenBeforeDurable => "faults::power::no_power_cut_while_records_are_moved",
    /// Records are loaded before it is durable that a generation is moved again.
    LoadedBeforeDurable => "faults::power::no_power_cut_while_records_are_moved",
    /// A fixed filter is not refilled when its store is opened.
    FixedFilterNotRefilled => "differential::twin::a_store_with_a_fixed",
    /// A fixed filter is refilled up to a record that cannot be read.
    RefillStopsShort => "differential::damage::a_fixed_filter",
    /// A record is there before its key is in a fixed filter.
    FilterAfterRecord => "differential::concurrency::a_record_that_was_seen",
    /// A write does not wait for the disk, though it was told to.
    WritesNotSynced => "differential::counters::with_sync",
    /// Writers go on in a generation that is being moved.
    WritesIntoFrozen => "differential::power",
    /// A generation is frozen while a record is on its way to it.
    FrozenBeneathAWrite => "differential::store::",
    /// Records are loaded while others move.
    LoadsBesideMoves => "differential::store::",
    /// Generations come and go while a checkpoint is made.
    CopiedBesideChanges => "differential::store::",
    /// A generation ends for its move where it cannot be read.
    MoveStopsShort => "differential::damage::a_generation",
    /// After an interruption the move goes on behind the last key but one batch.
    MoveSkipsAKey => "differential::interrupted",
    /// A batch of a move may be full without a record, which looks like the end.
    BatchFullWhenEmpty => "differential::interrupted::batches_of_any_size",
    /// A snapshot takes the generations of a moment well before its own.
    ListOfAnotherMoment => "differential::snapshot",
    /// A file ends for a scan where it cannot be read.
    ScanStopsShort => "differential::damage::a_scan",
    /// A store that lost its state is taken for a new one.
    StateMadeAnew => "differential::refusals::a_store_that_lost",
}

/// Whether the environment names this fault.
#[cfg(planted)]
pub fn is_planted(fault: Fault) -> bool {
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
#[inline]
pub const fn is_planted(_: Fault) -> bool {
    false
}
