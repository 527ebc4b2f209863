//! Fault points: places where a test can inject a fault. Each has a test that finds it, because a
//! test that cannot fail proves nothing.
//!
//! ```text
//! fault!(NoFileSync, return Ok(()));
//! file.sync()
//! ```
//!
//! In an ordinary build, such a line does nothing. In a build with `LSM_SIEVE_FAULTS=1` in its
//! environment, the process injects the fault that the variable `LSM_SIEVE_FAULT` names, and no
//! other. `make faults` runs through the list: each line names a fault, and the tests of which at
//! least one must fail.

/// Evaluates the expression if the named fault is injected in this process. A line of its own, so
/// that the lines around it read as if there were no fault.
#[macro_export]
macro_rules! fault {
    ($fault:ident, $body:expr) => {
        if $crate::fault::is_injected($crate::fault::Fault::$fault) {
            $body;
        }
    };
}
pub use fault;

macro_rules! faults {
    ($($(#[$doc:meta])* $fault:ident => $tests:literal,)*) => {
        /// A fault that loses a read or breaks a safeguard against it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Fault {
            $($(#[$doc])* $fault,)*
        }

        #[cfg(faults)]
        const ALL: &[(&str, Fault)] = &[$((stringify!($fault), Fault::$fault),)*];
    };
}

faults! {
    // ---- hashes
    /// Keys of more than 128 bytes are hashed differently than before.
    LongKeysHashedDifferently => "hash::",
    /// The known answer of a hash covers short keys only.
    LongKeysNotInKnownAnswer => "hash::",
    // ---- files
    /// A new file is renamed into place before its bytes are durable.
    NoFileSync => "disk::",
    /// A rename is not made durable, so a power cut may undo it.
    NoFolderSync => "disk::",
    /// A failed sync counts as done, as a second sync would report it.
    SyncRetried => "disk::",
    /// Written bytes are not read back.
    NotReadBack => "disk::",
    /// Bytes that a short or interrupted read did not fill are read as zeros.
    ShortReadAccepted => "disk::",
    /// Symlinks, and files that other users may write, are read.
    AnyFileRead => "disk::",
    /// A file that replaced the checked one is read.
    ReplacedFileRead => "disk::real",
    /// Opening a pipe waits for a writer.
    OpenWaitsForPipe => "disk::real",
    /// A file on the real disk is not synced.
    FileNotSynced => "disk::real",
    /// A folder on the real disk is not synced.
    FolderNotSynced => "disk::real",
    /// A file that is longer than what was written passes the read-back.
    LongerReadBack => "disk::publish",
    // ---- the format
    /// The checksum of the header is not verified.
    HeaderUnchecked => "format::",
    /// The checksums of the blocks are not verified.
    BlocksUnchecked => "format::",
    /// The checksum of all checksums is not verified.
    TrailerUnchecked => "format::",
    /// A file of a newer version is read as if the version were known.
    NewerVersionRead => "format::",
    /// The last of several stages is dropped when a file is read.
    StageLost => "format::",
    // ---- sidecars
    /// A sidecar is trusted to belong to the segment in its name.
    SidecarBoundByName => "sidecar",
    /// A sidecar of another database, hash or seed is trusted.
    OwnerUnchecked => "sidecar",
    /// A sidecar is trusted although its hash has another known answer.
    DriftUnchecked => "sidecar",
    /// A file of a newer version is replaced and removed.
    NewerReplaced => "sidecar",
    /// A disk error counts as a missing file.
    ErrorIsMissing => "sidecar",
    /// A damaged filter is replaced by an empty one, which denies every key.
    DamagedIsEmpty => "damage",
    /// A sidecar of any length is read.
    AnyLengthRead => "segment::sidecar",
    /// An identity file of any length is read.
    AnyIdentityRead => "segment::identity",
    /// The filter of an SST may take more memory than its entries warrant.
    AnySizeLoaded => "security::oversized_sidecar_is_not_loaded",
    /// A filter that is finished after the filters were distrusted is probed.
    FilterAfterDistrust => "segment::registry",
    // ---- filters
    /// Stages of different layouts are ORed word by word.
    UnequalKindsMerged => "filter::merge",
    /// Stages with different numbers of probes are ORed.
    UnequalProbesMerged => "filter::merge",
    /// Stages whose probes are spread over different numbers of words are ORed.
    UnequalGroupsMerged => "filter::merge",
    /// Stages of different sizes are ORed.
    UnequalSizesMerged => "filter::merge",
    /// Filters with different numbers of stages are ORed as far as both have stages.
    UnequalCountsMerged => "filter::chain",
    /// Filters of different hash functions are ORed or chained.
    UnequalHashesMerged => "filter::chain",
    /// Filters of different seeds are ORed or chained.
    UnequalSeedsMerged => "filter::chain",
    /// Filters of a hash function that has changed are ORed or chained.
    DriftedHashesMerged => "filter::chain",
    /// Static stages, in which no key has bits of its own, are ORed.
    StaticMerged => "filter::merge",
    /// A static stage is built without some of its keys.
    StaticKeyLost => "filter::ribbon",
    /// A key that is inserted into a finished static stage is ignored.
    StaticInsertionIgnored => "filter::",
    /// The keys of a pending first stage are absent.
    PendingStageIsEmpty => "filter::scalable",
    /// A new stage is open to writers before readers probe it.
    StageFilledUnprobed => "interleavings::scalable",
    /// A filter beyond its budget drops keys instead of answering *maybe*.
    KeysDroppedOverBudget => "filter::",
    /// A key before the end of a range may have its number, and that is not asked for.
    RangeEndLeftOut => "range::",
    /// Of a range over two blocks, the second is not asked for.
    SecondBlockNotAsked => "range::",
    /// Codes that begin again at zero are not asked for.
    WrappedCodesNotAsked => "range::",
    /// Of codes over several buckets, those of the last are not asked for.
    LastBucketNotAsked => "range::",
    /// A counter at its maximum is decremented, though it may stand for more.
    SaturatedCounterDecremented => "lab/classics filter::",
    /// A fold keeps one line of each pair.
    HalfFolded => "lab/classics filter::resize",
    /// A sliding window drops its newest generation instead of its oldest.
    NewestGenerationDropped => "lab/classics filter::",
    // ---- the readers' lock
    /// A writer drops the old value while readers may still use it.
    WriterDoesNotWait => "rcu::",
    /// A thread takes a slot without marking it as taken.
    SlotTakenTwice => "threads::",
    /// A writer switches the readers without a slot to the other side only once.
    SidesSwitchedOnce => "interleavings::published",
    /// A writer drops the old value although the system cannot tell whether readers still use it.
    DroppedWithoutBarrier => "rcu::",
    // ---- opening
    /// A database is opened without the self-check of the hooks.
    SelfCheckSkipped => "hooks::self_check",
    /// The self-check passes filters that no memtable was bound to.
    UnboundFilterPassed => "hooks::self_check",
    /// The self-check passes a summary filter that misses a key.
    IncompleteSummaryPassed => "hooks::self_check",
    /// The self-check passes a read with a wrong answer.
    WrongAnswerPassed => "hooks::self_check",
    /// The self-check passes a segment filter that misses a key.
    IncompleteSegmentFilterPassed => "hooks::self_check",
    /// The self-check passes a segment filter that RocksDB does not probe.
    UnprobedFilterPassed => "hooks::self_check",
    /// An option is accepted with which RocksDB itself loses keys.
    MempurgeAccepted => "engine_options::mempurge_is_refused",
    /// Table options that RocksDB refuses are corrected before it sees them.
    TableOptionsCorrected => "engine_options::options_that_rocksdb_refuses_are_refused",
    /// A file is opened as if it were a database.
    FileOpenedAsFolder => "opening::file_in_place_of_a_database_is_refused",
    /// Settings that cannot be used are refused once the database was created, or never.
    SettingsRefusedLate => "lifecycle::opening::settings_that_cannot_be_used",
    /// A folder of filters that cannot be used is refused once the database was created.
    FolderRefusedLate => "lifecycle::opening::folder_of_filters_that_cannot_be_used",
    /// A setter of the C API takes what an open refuses.
    SetterRefusesNothing => "promises::refusals_hold_in_c",
    /// The handles that an open in C++ needs are not freed.
    HandlesNotFreed => "promises::nothing_leaks_in_cpp",
    /// Filters that are never to be scrubbed are scrubbed all the time.
    NeverIsAlways => "settings::",
    /// A path that no file can have is taken for an error of the disk.
    PathBlamedOnDisk => "identity::",
    /// Of more functions for prefixes than a filter takes, the last are left out.
    PrefixesCutOff => "prefix::tests",
    /// Hooks that a caller's own open left out are taken for another build of RocksDB.
    OpenerNotBlamed => "promises::refusals_hold_in_c",
    /// A caller's own open may give a column family the hooks of another.
    OptionsOfAnotherCfTaken => "promises::refusals_hold_in_c",
    /// A caller's own open may open a secondary for writing, or leave out the listener.
    AnyAccessTaken => "promises::refusals_hold_in_c",
    /// A caller's own open may leave out handles, or exchange them.
    AnyHandleReturned => "promises::refusals_hold_in_c",
    /// A column family is opened with other options than RocksDB has stored.
    CfOptionsNotLoaded => "opening::cfs_open_with_their_stored_options",
    /// Each column family has a listener, which the options of every column family then hold.
    ListenerPerCf => "cf_memory::",
    /// The first filters of each of many column families are as large as those of a single one.
    FirstStagesLarge => "cf_memory::",
    /// The memory report omits what the filters of a column family take besides their bits.
    FilterOverheadUnreported => "cf_memory::",
    /// A column family that is named twice gets two sets of filters, and its memtables feed one.
    CfOpenedTwice => "column_families::create_and_drop::cf_named_twice_is_opened_once",
    /// The folder of filters is changed before the engine's lock is taken.
    FolderChangedUnlocked => "lifecycle::opening::second_open_of_one_database_is_refused",
    // ---- building a segment's filter
    /// A filter that saw fewer keys than its SST has is sealed.
    MiscountSealed => "segment::build",
    /// One entry in 97 is counted but not added.
    SegmentKeyMissed => "writes::memtables::random_writes",
    // ---- memtables
    /// One key in 97 does not reach the summary filter.
    MemtableKeyMissed => "writes::memtables::random_writes",
    /// A key that the engine inserts with a prefix hint is not captured.
    PrefixHintNotCaptured => "writes::memtables::keys_inserted_by_a_hint",
    /// A key that the engine inserts with a batch hint is not captured.
    BatchHintNotCaptured => "writes::memtables::keys_inserted_by_a_hint",
    /// Options that make a write visible before its memtable has it are not recognised.
    UnorderedWritesUndetected => "tests::memtable_keys::",
    /// With such options, the filters still get the key after the memtable.
    FiltersAfterMemtable => "intake::",
    /// A hook that panics, at one key in 97, leaves the column family's filters answering.
    PanicSwallowed => "writes::memtables::random_writes",
    /// Keys that were not read because their reader panicked are taken for none.
    ReaderPanicIsTheEnd => "hooks::tables",
    // ---- segment filters that the engine probes
    /// A filter block that was built from prefixes as well as keys names a segment.
    PrefixBlockHasSegmentId => "engine_options::prefix_iterators",
    /// A filter that panics denies the key.
    PanicIsAbsent => "hooks::callbacks",
    /// Answers given before a filter panicked in the middle of a batch are kept.
    PartialAnswersKept => "hooks::callbacks",
    /// The engine's private layout is assumed to be the one that the shim was written for.
    LayoutUnchecked => "hooks::options",
    // ---- coverage
    /// Filters answer before the SSTs of their column family are known.
    CompleteFromTheStart => "compat::adoption::",
    /// All SSTs count as covered as soon as they are listed.
    CoveredWhenListed => "compat::adoption::",
    /// A consolidation beside an ingestion begins with the first SST again.
    ConsolidationStartsOver => "ingestion::consolidation_beside_ingestions_completes",
    /// An SST that came between two parts of a static summary filter counts as read.
    /// An uncovered SST is noted as covered without being read.
    CoveredUnread => "compat::adoption::",
    /// An SST that gave fewer keys than it has counts as read.
    ShortScanAccepted => "compat::adoption::sst_that_was_read_in_part_is_not_covered",
    /// The full check takes the keys that it was given for all that there are.
    ShortCheckAccepted => "compat::adoption::sst_that_was_read_in_part_is_not_covered",
    /// The reader of raw keys takes an error for the end of the SST.
    ReadErrorIsEnd => "faults::unreadable_ssts::unreadable_sst_is_never_covered",
    /// The epoch is taken after the SSTs were listed.
    EpochAfterListing => "ingestion::sst_ingested_after_the_listing_is_covered",
    /// What maintenance has learnt is published in filters that were disabled meanwhile.
    PublishedAfterDisable => "tests::cf_filter::",
    /// What is ingested into the bare engine is not announced.
    EngineIngestionUnannounced => "hooks::listener",
    /// External writes are not announced.
    ExternalWritesUnannounced => "ingestion::",
    /// The external writes of a catch-up are not announced.
    CatchUpUnannounced => "secondary::",
    /// The external writes of a catch-up are announced after they have arrived.
    CatchUpAnnouncedLate => "announcements::",
    /// The announcement of a catch-up ends before its keys have arrived.
    CatchUpAnnouncedBriefly => "announcements::",
    /// The announcement for a use of the bare engine ends before the use does.
    EngineUseAnnouncedBriefly => "announcements::",
    /// The announcement of an ingestion ends before its keys have arrived.
    IngestionAnnouncedBriefly => "announcements::",
    /// The announcement to a column family created during external writes ends before they do.
    NewCfAnnouncedBriefly => "announcements::",
    /// Filters are built from SSTs that readers do not have yet.
    SstsAheadOfReaders => "half_catch_up::",
    /// What was learnt before external writes is published after them.
    OldEpochPublished => "ingestion::",
    /// External writes are not announced to a column family that is created during them.
    NewCfUnannounced => "announcements::",
    /// A call that ingests files into a named column family does not announce them.
    CfIngestionUnannounced => "announcements::",
    /// A hook of the handle that panics answers that the key is absent.
    HandlePanicIsAbsent => "hooks::callbacks",
    /// After a hook panicked, keys come past the memtables without an announcement.
    UnannouncedAfterPanic => "hooks::callbacks",
    /// The filters are not put behind the handle.
    HandleNotFiltered => "hooks::handle",
    /// A handle whose reads bypass the filters is accepted.
    SilentHandlePassed => "hooks::handle",
    /// A pointer is taken for the handle although another may be it.
    AnyHandleTaken => "hooks::handle",
    /// Options are taken from the last of several places where they may be.
    AnyOptionsTaken => "hooks::pointers::",
    /// A read with a timestamp, which RocksDB refuses, is answered by the filters.
    TimestampsIgnored => "reads::handle",
    /// A read of a time whose versions are collapsed, which RocksDB refuses, is answered by the filters.
    CollapsedHistoryRead => "timestamps::",
    /// The key of a write is added to the filters with its timestamp.
    TimestampAddedToMemtableKey => "timestamps::",
    /// A key is read from a memtable with its timestamp.
    TimestampReadWithMemtableKey => "timestamps::",
    /// The key of an SST that has no filter builder is added with its timestamp.
    TimestampAddedToSegmentKey => "timestamps::",
    /// Key ranges with timestamps are compared with keys.
    TimestampInKeyRange => "timestamps::",
    /// A deletion with a timestamp is not added to the filters.
    DeletionTimeNotAdded => "promises::timestamps_hold_in_cpp",
    /// Every comparator is taken for one that calls no two keys equal.
    AnyComparatorTaken => "comparators::",
    /// Key ranges and bounds are compared by bytes, whatever the comparator.
    AnyOrderIsBytewise => "comparators::",
    /// The prefixes that partitions of a filter get besides are added to the segment filter as keys.
    PartitionPrefixesAdded => "partitions::",
    /// The value of a key that may not exist, by the filters, is that of an earlier call.
    OldValueKept => "promises::outputs_hold_in_cpp",
    /// Writes through the handle do not wait for locks.
    LocksPassedBy => "transactions::locks",
    /// Of two external writes, the announcement to a new column family ends with the first.
    AnnouncementEndsWithFirst => "announcements::",
    /// Filters stay bound to the first column family of their name.
    CfFilterBoundByName => "column_families::create_and_drop::",
    /// Uncovered SSTs are ignored, whatever their key ranges.
    UncoveredIgnored => "compat::adoption::",
    /// A negative of the summary filter counts for every SST.
    SummaryAlwaysSuffices => "compat::adoption::",
    /// SSTs written by a RocksDB before 6.24 stay uncovered.
    SstsWithoutIdUncovered => "ssts_without_id::",
    /// The identity of such an SST is given to another file with its number.
    InstanceIdFromFileNumber => "ssts_without_id::",
    /// The filter of such an SST is stored, although no other open finds it.
    InstanceFilterStored => "ssts_without_id::",
    /// Waiting for coverage includes SSTs that will never be covered.
    WaitsForSstsWithoutId => "ssts_without_id::",
    /// An unknown key range counts as empty.
    UnknownRangeIsEmpty => "view",
    /// Under the reverse comparator a range is empty.
    RangeNotReversed => "compat::adoption::sst_without_unique_id_is_maybe_in_its_range_until_covered",
    /// The last key of an SST's range counts as outside of it.
    RunEndLeftOut => "sorted_runs::",
    // ---- deleted SSTs
    /// The ids of deleted SSTs stay in the summary filter's coverage.
    DeadIdsKept => "soak::",
    /// The segments of deleted SSTs stay in memory.
    DeadSegmentsKept => "soak::",
    /// The sidecars of deleted SSTs stay.
    DeadSidecarsKept => "soak::",
    /// Their ids are remembered for ever by what looks for them.
    DeadSegmentsRemembered => "maintenance::sweep",
    // ---- consolidation
    /// The memtables are not read into a new summary filter.
    MemtablesUnread => "tests::consolidation::",
    /// The memtables are read after the SSTs were listed.
    MemtablesReadLast => "tests::consolidation::",
    /// Of the memtables, only the one that takes keys is read.
    ImmutableMemtablesUnread => "tests::memtable_keys::",
    /// A key that a thread inserts into a vector beside others is not shown before the batch ends.
    ConcurrentInsertionsHidden => "tests::memtable_keys::",
    /// The keys of memtables do not go into a log that is begun for a rebuild from SSTs.
    MemtablesNotLogged => "tests::growth::",
    /// A consolidation does not wait for writes whose keys no memtable shows.
    HeldKeysOverlooked => "tests::consolidation::",
    /// A consolidation does not wait for insertions whose keys are visible before their memtable has
    /// them.
    UnorderedInsertionsNotAwaited => "intake::",
    /// The old summary filter is no longer fed while readers still probe it.
    OldSummaryNotFed => "tests::model_traces::",
    /// An SST that could not be read counts as read.
    ScanErrorIgnored => "faults::unreadable_ssts::",
    /// A rebuilt segment filter counts the tombstones of its SST and lacks their keys.
    TombstonesUnread => "recovery::rebuilt_filter_has_the_tombstones_of_its_sst",
    /// Writers count as quiet at the second check, however soon it comes.
    QuietAtOnce => "tests::maintenance::writers_that_pause",
    /// The handle of the default column family is used after the engine has deleted it.
    DefaultHandleKept => "doors::closed",
    /// Memtables take a wide-column entity for a deletion.
    EntityIsDeletion => "doors::entities",
    /// The raw entries of an SST take a wide-column entity for a deletion.
    RawEntityIsDeletion => "doors::entities",
    /// An ingestion in two steps is not announced.
    CommitUnannounced => "doors::external_writes",
    /// An ingestion into several column families is not announced.
    ManyIngestedUnannounced => "doors::external_writes",
    /// Each of several column families that are created together takes the whole room.
    FamiliesTakeOneRoom => "hooks::handle::tests::families_made_at_once_share",
    /// A read that the filters answer leaves the result of an earlier one.
    ResultsNotCleared => "doors::reads",
    /// A wait for compactions closes the engine without ending maintenance first.
    WaitClosesEngine => "promises::they_hold_in_c",
    /// The first catch-up of a secondary reads column families that RocksDB has freed.
    FreedCfsKept => "hooks::bare_engine",
    /// A transaction checks the filters for a key that it wrote itself.
    OwnWritesIgnored => "transactions::",
    /// A commit looks for conflicts beside the writers, and one may come before its own write.
    CommitValidatedInParallel => "transactions::commit_does_not_overwrite_an_unseen_plain_write",
    /// A key that is read for update is not watched; only its commit would tell.
    AbsentKeyNotWatched => "transactions::",
    /// Each read for update takes an exclusive lock.
    ExclusiveIgnored => "transactions::locks::",
    /// A transaction reads an entity for update before it locks or watches its key.
    EntityReadBeforeLock => "doors::histories",
    /// A commit in two phases may bypass the memtable, and so the filters.
    CommitPassesMemtables => "instead::",
    /// Transactions that write what is not committed are begun over filters.
    UncommittedWritesFiltered => "instead::",
    /// A database with prepared transactions has filters.
    PreparedFiltered => "instead::",
    /// Each call of the C library panics.
    CallPanics => "promises::they_hold_in_c",
    /// Of column families that are created together, the first has locks.
    OneCfLocked => "hooks::handle",
    /// A read for update watches the key in the default column family, whichever it reads.
    DefaultCfWatched => "calls::transactions",
    /// A panic in a maintenance run ends maintenance.
    PanicEndsMaintenance => "tests::maintenance::panic_",
    /// A panic in scrubbing ends maintenance.
    ScrubPanicEndsMaintenance => "tests::maintenance::panic_in_a_scrub",
    /// A summary filter is rebuilt for which the budget has no room.
    RebuiltWithoutRoom => "memory_budget::maintenance_settles_under_any_budget",
    /// An unfinished summary filter is fed instead of the one that readers probe.
    UnfinishedSummaryFed => "tests::consolidation::consolidation_that_cannot",
    /// Memtables no longer feed a dropped summary filter while readers still probe it.
    DroppedSummaryNotFed => "tests::cf_filter::",
    // ---- the log of keys
    /// The keys of a flush do not go into the log.
    FlushedKeysNotLogged => "tests::growth::",
    /// A log goes on although keys came that it has not.
    KeyLogOutlivesMisses => "tests::growth::",
    /// A log begins although there are keys in SSTs.
    KeyLogBegunLate => "tests::growth::",
    /// A log counts as whole before the keys of all SSTs are in it.
    KeyLogWholeTooSoon => "tests::growth::",
    /// The keys of an SST of unknown origin are in no log, and the log goes on.
    UnknownSstKeepsKeyLog => "tests::growth::",
    /// The SSTs are listed after the log was read, so one that came meanwhile counts as read.
    ListedAfterReplay => "tests::growth::",
    StaticStageWithoutMemtables => "tests::static_stage::",
    /// The keys of a compaction go into the log once more.
    CompactionIsFlush => "tests::table_origin::",
    /// A compaction ends the log.
    CompactionEndsKeyLog => "tests::growth::",
    /// A log of many hashes goes on when the column family has ceased to grow.
    KeyLogKeptWhenQuiet => "tests::growth::",
    /// A rebuilt summary filter has no room for more keys.
    NoRoomToGrow => "tests::growth::",
    /// The checksums of a log are not checked.
    KeyLogUnchecked => "key_log::",
    // ---- what wakes maintenance
    /// A request wakes one of those who wait, which need not be maintenance.
    OneWaiterWoken => "wakeup::",
    /// Who waits for maintenance is not told that it has ended.
    EndUntold => "wakeup::",
    /// The open does not wake maintenance.
    NoWakeAtOpen => "maintenance::coverage::ssts_without_filters_are_covered_after_open",
    /// The creation of a column family does not wake maintenance.
    NoWakeAfterCreateCf => "maintenance::coverage::cf_is_complete_after_create_cf",
    /// External writes into a late column family without filters are announced to all others.
    LateExclusionForgotten => "excluded_cfs::",
    /// The drop of a column family does not wake maintenance.
    NoWakeAfterDropCf => "maintenance::filters::filters_are_removed_after_drop_cf",
    /// A change of the rates does not wake maintenance.
    NoWakeAfterSetRate => "maintenance::filters::filters_have_the_new_rate_after_set_rate",
    /// A change of the rates is forgotten if the run that was called for it fails.
    NewSizeForgotten => "tests::by_itself::",
    /// A change of the memory budget does not wake maintenance.
    NoWakeAfterSetBudget => "resources::memory_budget::budget_can_be_changed",
    /// The end of external writes does not wake maintenance.
    NoWakeAfterExternalWrite => "maintenance::coverage::",
    /// A flush does not wake maintenance.
    NoWakeAfterFlush => "maintenance::filters::filters_are_stored_after_each_flush",
    /// A compaction does not wake maintenance.
    NoWakeAfterCompaction => "maintenance::filters::filters_are_stored_and_removed",
    /// Dropping a damaged segment filter does not wake maintenance.
    NoWakeForDamagedFilter => "tests::scrub::damaged_filters_are_rebuilt_without",
    /// Dropping a damaged summary filter does not wake maintenance.
    NoWakeForDamagedSummary => "tests::by_itself::damaged_summary_comes_back",
    /// Dropping segment filters for the budget does not wake maintenance, and views hold them.
    NoWakeAfterFilterDrop => "tests::by_itself::",
    /// Dropping a summary filter for the budget does not wake maintenance.
    NoWakeAfterSummaryDrop => "tests::by_itself::",
    /// Maintenance is not woken for the successor of an SST that went while it was read.
    NoWakeForSuccessor => "tests::by_itself::",
    /// Sidecars of deleted SSTs wait for the next wakeup.
    NoSecondSweep => "maintenance::filters::",
    /// Nothing is stored at the close.
    NoSaveAtClose => "maintenance::filters::new_filters_are_stored_at_close_and_loaded_at_open",
    /// The summary filter that is stored at the close is bound to the SSTs of the last run.
    ClosedWithoutListing => "tests::by_itself::",
    /// A failed task is not tried again without a request.
    NoRetryByItself => "maintenance::coverage::unreadable_sst_is_retried",
    /// Filters are not scrubbed without a request.
    NoScrubByItself => "maintenance::filters::filters_are_scrubbed",
    /// A pause of the writers starts no consolidation.
    NoConsolidationAtPause => "tests::consolidation::",
    /// Many stages beside busy writers start no consolidation.
    NoConsolidationBesideWriters => "maintenance::plan",
    /// Many keys of uncovered SSTs start no consolidation.
    NoConsolidationForUncovered => "maintenance::plan",
    /// New room in the budget starts no consolidation.
    NoConsolidationWhenRoomAgain => "maintenance::plan",
    /// A health report wakes maintenance.
    HealthWakes => "tests::health::reports_wake_nothing",
    /// Two counters are exchanged.
    CountersSwapped => "stats::",
    /// Two results of lookups are exchanged in the metrics.
    ResultsSwapped => "metrics::",
    // ---- what maintenance does not do again, and does not keep
    /// A view is published in each run although nothing has changed.
    ViewPublishedAgain => "tests::by_itself::",
    /// A segment filter is stored in each run.
    FilterStoredAgain => "tests::by_itself::",
    /// An engine that was closed past its handle is taken for one without SSTs.
    NoFamilyIsNoSst => "maintenance::live",
    /// The filter of an SST that is being written is dropped.
    SweptWhileBuilt => "tests::by_itself::",
    // ---- audits and scrubbing
    /// A summary filter that changed in memory is stored with a valid checksum.
    DamagedSummaryStored => "tests::scrub::",
    /// An audit reports a false negative of a view published after the engine was read.
    LaterViewRefuted => "tests::audit::",
    // ---- many keys at once
    /// Keys of several column families, each absent at its own moment, are not probed again.
    NegativesOfManyMoments => "tests::multi_get::",
    /// Keys that are absent in a later view count as absent all along.
    ViewChangeUnchecked => "tests::cf_filter::",
    /// A view with another summary filter keeps the edition of the one before.
    SummaryUnnoticed => "tests::view_changes::",
    /// A view with the same summary filter but other coverage keeps the edition.
    CoverageUnnoticed => "tests::view_changes::",
    /// The edition of the view is taken after the keys were probed.
    ViewNotedLate => "tests::view_changes::",
    /// The answers of one call are shifted by one place.
    AnswersShifted => "writes::memtables::random_writes",
    /// If several keys are absent, one is neither counted nor sampled for an audit.
    AbsentCountedShort => "reads::counters::",
    /// If several keys are read from the engine, one is not counted.
    EngineReadCountedShort => "reads::counters::",
    /// Batched lookups ignore uncovered SSTs.
    ManyIgnoreUncovered => "compat::adoption::",
    // ---- prefixes
    /// A key's prefixes go to no filter.
    PrefixNotAdded => "reads::prefixes::",
    /// A memtable's keys go to the filters without their prefixes.
    MemtablePrefixMissed => "reads::prefixes::",
    /// The keys of an SST go to its filter and to the log without their prefixes.
    TablePrefixMissed => "tests::growth::",
    /// A filter answers for the prefixes of any function.
    PrefixIdsNotCompared => "reads::prefixes::",
    /// A stored summary filter is taken for one with all prefixes.
    LoadedSummaryHasAllPrefixes => "reads::prefixes::",
    /// The summary filter is probed for prefixes that it lacks.
    SummaryAskedForAnyPrefix => "reads::prefixes::",
    /// Of each sorted run, one SST is asked for a prefix.
    OneSstPerPrefix => "sorted_runs::",
    /// A short start is asked for as if it were the whole prefix of all keys.
    ShortCappedPrefixAsked => "prefix::",
    /// Filters without the prefixes that are asked for stay as they are.
    PrefixesNeverCompleted => "maintenance::plan",
    /// A write adds no block to the summary filter.
    BlockNotAdded => "tests::ranges",
    /// The keys of an SST that is read after the range filter was finished are in neither filter.
    BlockOfSstNotAdded => "tests::ranges",
    /// A range is answered by the range filter alone.
    BlocksNotAsked => "tests::ranges",
    /// The range filter of an earlier summary filter is kept beside a new one.
    RangesOfAnotherSummary => "tests::ranges",
    /// A range over several prefixes is answered for the first.
    RangeOfTwoPrefixesAnswered => "tests::ranges",
    /// Ranges are answered beside SSTs that the summary filter does not cover.
    RangesBesideUncovered => "tests::ranges",
    /// The last key of a closed span is left out of its range.
    LastOfRangeLeftOut => "tests::ranges",
    /// An iterator whose upper bound lies outside one prefix is answered for that prefix.
    AnyUpperBoundTaken => "reads::prefixes::",
    /// An iterator is answered by filters of a later moment.
    IteratorOfAnotherView => "reads::prefixes::",
    /// An iterator is answered for the prefixes of an extractor that was replaced.
    ExtractorChangeUnnoticed => "reads::prefixes::",
    /// The filter block of an SST with prefixes does not say of which extractor.
    PrefixBlockNamesNoExtractor => "reads::prefixes::",
    /// RocksDB's scans are answered by segment filters where its options have no filter policy.
    ScanAnsweredWithoutPolicy => "reads::scans::",
    /// An SST for which the policy builds no filter does not say so.
    SstsWithoutOwnFilterUnmarked => "reads::scans::",
    /// A point read is answered by no segment filter where RocksDB would have none.
    PointReadUnanswered => "reads::scans::point_reads::",
    /// An iterator that was refreshed no longer checks the filters.
    RefreshedIteratorAsksNothing => "reads::scans::a_refreshed",
    /// A refreshed iterator takes the view after the moment that it shows.
    RefreshedBeforeItsView => "doors::reads",
    /// An iterator takes the view after the moment that it shows.
    CreatedBeforeItsView => "doors::reads",
    /// A refresh that RocksDB refuses moves an iterator to another view.
    RefusedRefreshCounts => "reads::prefixes::a_refused_refresh",
    /// A seek that the filters answer has the error of an earlier one.
    OldErrorKept => "doors::reads",
    /// A scan that was prepared is answered by the filters, and RocksDB misses its turn.
    PreparedScanAnswered => "doors::reads",
    /// Whatever part of a key its extractor gives is taken for how the key begins.
    AnyPartIsPrefix => "hooks::extractor",
    /// The prefixes of a column family without filters are absent.
    UnfilteredPrefixesAbsent => "excluded_cfs::prefixes",
    /// In a column family without filters, RocksDB is asked as if any start were a whole prefix.
    UnfilteredStartIsPrefix => "excluded_cfs::prefixes",
    /// The span of a backward seek ends before the key that is sought.
    LastOfSpanLeftOut => "reads::scans::a_backward",
    // ---- the differential store
    /// A deletion is not recorded in the differential file, so the main file's value reappears.
    DeleteNotRecorded => "lab/differential differential::truncated_log",
    /// What was moved is noted before it is durable.
    NotedBeforeDurable => "lab/differential faults::power_loss::no_power_cut_during_moves_across_logs_loses_a_record",
    /// A generation is dropped before it is durable that it was moved.
    DroppedBeforeDurable => "lab/differential faults::power_loss::no_power_cut_during_moves_across_logs_loses_a_record",
    /// A generation takes records before it is durable that there is one.
    FrozenBeforeDurable => "lab/differential faults::power_loss::no_power_cut_during_moves_across_logs_loses_a_record",
    /// Records are loaded before it is durable that a generation is moved again.
    LoadedBeforeDurable => "lab/differential faults::power_loss::no_power_cut_during_moves_across_logs_loses_a_record",
    /// A fixed filter is not refilled when its store is opened.
    FixedFilterNotRefilled => "lab/differential differential::random_operations::store_with_a_fixed_filter_matches_its_model",
    /// A fixed filter is refilled up to a record that cannot be read.
    RefillStopsShort => "lab/differential differential::damage::fixed_filter_is_not_built_from_an_unreadable_sst",
    /// A record is there before its key is in a fixed filter.
    FilterAfterRecord => "lab/differential differential::concurrency::visible_record_stays_visible_with_a_fixed",
    /// A write does not wait for the disk, though it was told to.
    WritesNotSynced => "lab/differential differential::counters::with_sync",
    /// Writers go on writing into a generation that is being moved.
    WritesIntoFrozen => "lab/differential differential::truncated_log",
    /// A generation is frozen while a record is being written to it.
    FrozenBeneathAWrite => "lab/differential store::",
    /// Records are loaded while others are moved.
    LoadsBesideMoves => "lab/differential store::",
    /// Generations are created and dropped while a checkpoint is made.
    CopiedBesideChanges => "lab/differential store::",
    /// A generation ends for its move where it cannot be read.
    MoveStopsShort => "lab/differential differential::damage::unreadable_generation_is_not_dropped",
    /// After an interruption the move goes on behind the last key but one batch.
    MoveSkipsAKey => "lab/differential differential::interrupted_reorganization",
    /// A batch of a move may be full without a record, which looks like the end.
    BatchFullWhenEmpty => "lab/differential differential::interrupted_reorganization::batches_of_any_size",
    /// A snapshot uses a list of generations from before its own time.
    ListOfAnotherMoment => "lab/differential snapshot::",
    /// A file ends for a scan where it cannot be read.
    ScanStopsShort => "lab/differential differential::damage::scan_reports_where_it_cannot_read_on",
    // ---- filters before other stores
    /// A state is named by the number of its commit alone, which comes back after a crash.
    StateNamedByNumber => "stores kv::",
    /// A commit that is missing in the journal is passed over.
    JournalGapAccepted => "stores kv::",
    /// A stored filter of any state is completed by the journal.
    AnyFilterCompleted => "stores kv::",
    /// A journal goes on after keys that a filter in another folder has.
    OldBaseKept => "stores kv::",
    /// A commit whose outcome is unknown counts as one that did not take place.
    CommitsNeverInDoubt => "stores kv::",
    /// Records that external writes brought back are trusted.
    InvalidatedOnlyBefore => "stores kv::",
    /// The records of an earlier run stay when commits without records begin.
    EarlierRecordsKept => "stores kv::",
    /// A stored filter stays trusted as external writes begin: only the store says that it is not.
    StoredFilterKept => "stores kv::",
    /// The store's record of external writes may be lost in a power cut.
    InvalidationNotSynced => "stores kv::",
    /// A filter that was being stored as external writes began is published while they run.
    SavedAcrossExternalWrites => "stores kv::",
    /// External writes whose end could not be recorded count as ended.
    EndedWithoutRecord => "stores kv::",
    /// A writer that panics after it brought keys without records leaves the stored filter trusted.
    PanickedWriteTrusted => "stores kv::",
    /// A filter is bound to the name that an untrusted open found, which other keys had too.
    FoundNameKept => "stores kv::",
    /// Records that cannot be read while a commit is in doubt count as missing.
    UnreadableRecordsAreNone => "stores kv::",
    /// The keys of a long journal are counted again in each run, so the filter is stored in each.
    JournalCountKept => "stores kv::",
    /// The journal of an earlier run stays in the store for ever.
    EarlierJournalKept => "stores kv::",
    /// A segment is taken for an earlier one of its name.
    SegmentKnownByName => "stores lsm::",
    /// The filter of a single output of a merge is not stored, as if others shared it.
    SingleOutputShares => "stores lsm::",
    /// The outputs of a merge that are not installed yet are taken for abandoned.
    OutputsNotAwaited => "stores lsm::",
    /// A key is denied at a position that the feed was not followed to.
    FeedPositionIgnored => "stores feed::",
    /// The position of a feed is read after its filter was probed.
    FeedPositionReadLast => "stores feed::interleavings::",
    /// A read at a position checks the filter of a feed as if at any.
    FeedReadAtAnyPosition => "stores feed::",
    /// Changes that are missing in a feed are passed over.
    FeedHoleAccepted => "stores feed::",
    /// A position counts as applied before its keys are in the filter.
    FeedAdvancedFirst => "stores feed::",
    /// A feed that lost changes does not make the filter distrusted.
    FeedTrustedForEver => "stores feed::",
    /// A stored filter is taken for that of another feed.
    FilterOfAnyFeed => "stores feed::",
    /// The stored filter of a feed that lost changes is trusted after a restart.
    StoredFeedStaysTrusted => "stores feed::",
    /// The stored filter of a feed is further than the snapshot that replaced it.
    StoredFeedAheadOfSnapshot => "stores feed::",
    /// The filter of a follower that is gone goes on to deny.
    FilterOutlivesFollower => "stores feed::",
    /// A store that lost its state is taken for a new one.
    MissingStateRecreated => "lab/differential differential::refusals::store_without_its_state_is_refused",
    // ---- SlateDB
    /// A batch checks the filters of its checkpoint, and reads the newest one.
    BatchReadsNewest => "stores/slatedb moves::",
    /// What a refresh learns counts as fresh from its end on.
    FreshFromTheEnd => "stores/slatedb moves::",
    /// A summary that is stored and not yet published is cleaned away.
    NewSummaryCleaned => "stores/slatedb publish::",
    /// The keys of SSTs that are gone are kept, and are in each summary.
    GoneSstsRemembered => "stores/slatedb publish",
    /// A database that was restored from a backup is taken for one that went on.
    RestoredBucketUnnoticed => "stores/slatedb restores::",
    /// A scan over keys of several prefixes is answered for the first of them.
    ScanOfTwoPrefixesAnswered => "stores/slatedb scan_policy::",
    /// A scan of a prefix is answered for the key that ends with it.
    ScannedPrefixIsKey => "stores/slatedb scan_policy::",
}

/// Whether the environment names this fault.
#[cfg(faults)]
pub fn is_injected(fault: Fault) -> bool {
    use std::sync::OnceLock;
    static NAMED: OnceLock<Option<Fault>> = OnceLock::new();
    let named = || {
        let name = std::env::var("LSM_SIEVE_FAULT").ok()?;
        let known = ALL.iter().find(|(known, _)| *known == name);
        Some(
            known
                .unwrap_or_else(|| panic!("no fault is called {name:?}"))
                .1,
        )
    };
    *NAMED.get_or_init(named) == Some(fault)
}

/// Always false: an ordinary build has no fault points.
#[cfg(not(faults))]
#[inline]
pub const fn is_injected(_: Fault) -> bool {
    false
}
