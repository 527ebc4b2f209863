//! States that a search for lost reads should reach: a search that never met one has said nothing
//! about it.
//!
//! ```text
//! reached!(TwoSummariesFed, summaries.len() > 1);
//! ```
//!
//! In an ordinary build, such a line does nothing. In a build with `LSM_SIEVE_FAULTS=1` in its
//! environment, the process appends to the file that the variable `LSM_SIEVE_REACHED` names how often
//! it came there. `reliability/run` prints for each search what it reached.

/// Counts that a state was reached, if the condition holds.
#[macro_export]
macro_rules! reached {
    ($state:ident) => {
        $crate::reach::reached!($state, true)
    };
    ($state:ident, $condition:expr) => {
        if $crate::reach::IS_COUNTED && $condition {
            $crate::reach::count($crate::reach::State::$state);
        }
    };
}
pub use reached;

/// Whether this build counts the states that it reaches.
pub const IS_COUNTED: bool = cfg!(faults);

macro_rules! states {
    ($($(#[$doc:meta])* $state:ident,)*) => {
        /// A state in which a read could be lost if the code that handles it were wrong.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum State {
            $($(#[$doc])* $state,)*
        }

        #[cfg(faults)]
        const NAMES: &[&str] = &[$(stringify!($state),)*];
    };
}

states! {
    // ---- lookups
    /// A lookup finds that coverage is unknown.
    CoverageUnknown,
    /// A key is denied although some segments are not covered: their own filters deny it.
    UncoveredDenied,
    /// A key is in reach of an uncovered segment that has no filter.
    UncoveredWithoutFilter,
    /// A prefix is denied although some segments are not covered.
    PrefixDeniedBesideUncovered,
    /// The range filter denies a range of which a later key has the block.
    RangeOfLaterKey,
    /// A range is asked for while some segments are not covered.
    RangeBesideUncovered,
    /// The view changes between the two checks of a batch.
    ViewChangedInBatch,
    /// Of one view, a key that was denied to a batch comes before the batch ends.
    KeyCameInBatch,
    /// An iterator asks the filters after another view was published.
    IteratorOfEarlierView,
    /// A thread reads the engine without the filters, since its keys are found.
    FiltersSkipped,
    /// The engine lacks a key that the filters let pass.
    FalsePositive,
    /// An audit is left out, since they take too long.
    AuditThrottled,
    /// An audit finds a key that came after it was denied.
    AuditedKeyCameLater,
    /// An audit finds a key that comes with another view.
    ViewChangedInAudit,
    /// A read begins within another read of its thread, or in a thread without a slot.
    ReadWithoutSlot,
    /// A writer waits for a reader of the value that it replaced.
    ReaderAwaited,
    // ---- writes
    /// A key is added to the old summary filter and to the new one.
    TwoSummariesFed,
    /// A key is added while the static stage of a summary filter is still to come.
    PendingStageFed,
    /// A key is added before its memtable has it.
    UnorderedInsertion,
    /// A summary filter opens a further stage.
    StageOpened,
    /// A summary filter has no room for a further stage.
    SummarySaturated,
    /// A flush appends its keys to a log.
    FlushLogged,
    /// A segment of unknown origin ends a log.
    LogEndedByUnknownSegment,
    /// The filter of a segment is built by a compaction.
    FilterOfCompaction,
    /// A segment gets an id and no filter.
    SegmentWithoutFilter,
    // ---- consolidation
    /// A consolidation waits for writes whose keys no memtable shows.
    HeldKeysAwaited,
    /// The database closes while a consolidation reads.
    ConsolidationStopped,
    /// The memory budget has no room for a new summary filter.
    NoRoomForSummary,
    /// A summary filter has fewer or more segments to read than when its run began.
    SegmentsChangedMeanwhile,
    /// External writes end a consolidation's listing, and it reads on.
    ConsolidationReadOn,
    /// A consolidation gives up, since external writes do not end.
    ConsolidationOvertaken,
    /// The filters are disabled while a consolidation reads.
    DisabledInConsolidation,
    /// A segment cannot be read.
    SegmentUnreadable,
    /// A segment is gone before it was read.
    SegmentGoneBeforeRead,
    /// A summary filter is published without the keys of a segment that could not be read.
    PublishedWithoutSegment,
    /// A summary filter is built from a log of keys.
    BuiltFromLog,
    /// A log of keys ends before it was read.
    LogEndedBeforeRead,
    /// A log of keys begins too late.
    LogBegunLate,
    /// A static stage is built in memory.
    StaticStageBuilt,
    /// A static stage is built from a file.
    StaticStageOfFile,
    /// Segments are added to the summary filter that lookups use.
    SegmentCovered,
    // ---- coverage
    /// External writes begin while a summary filter is being built.
    ExternalWritesInConsolidation,
    /// External writes begin beside others.
    ExternalWritesOverlap,
    /// A listing is past when it is to be published.
    ListingPast,
    /// A column family is dropped, or distrusted, while a summary filter is being built.
    RetiredInConsolidation,
    /// A column family is created while external writes run.
    NewCfInExternalWrites,
    // ---- memory
    /// The memory budget drops a summary filter.
    SummaryDropped,
    /// The memory budget drops a range filter.
    RangesDropped,
    /// The memory budget drops segment filters.
    SegmentFiltersDropped,
    // ---- maintenance
    /// What failed is tried again.
    FailureRetried,
    /// A column family is gone when its turn comes.
    CfGone,
    /// The catch-up of a secondary overtakes maintenance.
    SecondaryOvertaken,
    /// The filter of a segment is built again from its keys.
    SegmentFilterRebuilt,
    /// The filter of a segment that is gone is removed from the folder.
    SidecarRemoved,
    /// A filter without a segment is dropped after many runs.
    AbandonedFilterDropped,
    /// A filter has changed in memory.
    DamageScrubbed,
    // ---- opening
    /// A stored summary filter covers all segments.
    SummaryLoaded,
    /// A stored summary filter is of an earlier state of the database.
    SummaryOfEarlierState,
    /// A stored summary filter cannot be used.
    SummaryUnusable,
    /// A stored segment filter is loaded.
    SidecarLoaded,
    /// A stored segment filter cannot be used.
    SidecarUnusable,
    /// What is stored is distrusted.
    StoredDistrusted,
    // ---- RocksDB
    /// An ingestion is announced.
    IngestionAnnounced,
    /// A catch-up of a secondary is announced.
    CatchUpAnnounced,
    /// A transaction reads a key that it has written.
    OwnWriteRead,
    /// A transaction reads a key that it has not written.
    OthersKeyRead,
    // ---- other stores
    /// A stored filter is completed by a journal.
    JournalReplayed,
    /// A journal does not complete the stored filter.
    JournalIncomplete,
    /// A stored filter has the state that the store is in.
    StoredStateFound,
    /// A store has a state that no stored filter has.
    StateOfNoFilter,
    /// The outcome of a commit is unknown.
    CommitInDoubt,
    /// A commit that was in doubt took place.
    DoubtfulCommitTookPlace,
    /// External writes of a store end, and cannot be recorded.
    ExternalEndUnrecorded,
    /// The outputs of a merge are awaited.
    OutputsAwaited,
    /// Outputs of a merge share one filter.
    OutputsShareFilter,
    /// Changes are missing in a feed.
    FeedHole,
    /// A snapshot is behind the filter of its feed.
    SnapshotGoesBack,
    /// A feed was not followed as far as a reader asks.
    FeedNotThatFar,
    /// The stored filter of a feed is loaded.
    StoredFeedLoaded,
}

/// An ordinary build counts nothing.
#[cfg(not(faults))]
#[inline]
pub const fn count(_: State) {}

/// Counts that this process has reached a state.
#[cfg(faults)]
pub fn count(state: State) {
    use std::sync::atomic::{AtomicU64, Ordering};

    static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];
    let count = 1 + COUNTS[state as usize].fetch_add(1, Ordering::Relaxed);
    // Written with each doubling, so that a process that is killed has written at least half.
    if count.is_power_of_two() {
        append(NAMES[state as usize], count - count / 2);
    }
}

/// Appends a line to the file. No memory is allocated: tests make allocations fail.
#[cfg(faults)]
fn append(name: &str, more: u64) {
    use std::fs::{File, OpenOptions};
    use std::io::{Cursor, Write as _};
    use std::sync::OnceLock;

    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        let path = std::env::var_os("LSM_SIEVE_REACHED")?;
        OpenOptions::new().append(true).create(true).open(path).ok()
    };
    let mut line = Cursor::new([0; 64]);
    if let Some(mut file) = FILE.get_or_init(open).as_ref()
        && writeln!(line, "{name} {more}").is_ok()
    {
        // A search that makes writes fail may miss some.
        _ = file.write_all(&line.get_ref()[..line.position() as usize]);
    }
}

#[cfg(all(test, faults))]
mod tests;
