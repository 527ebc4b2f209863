//! The rules of the protocol. The checker breaks each in turn and must find a lost key.

/// A rule that one history can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A key is in the summaries before it is visible.
    FedBeforeVisible,
    /// The set is loaded when the memtable has the key, unless one read spans both.
    SetIsLoadedAfterInsertion,
    /// Of an unordered write, the read of the set ends when the memtable has the key.
    ReadOfTheSetSpansInsertion,
    /// During a consolidation, insertions feed the summary that lookups use.
    OldSummaryIsFed,
    /// During a consolidation, insertions feed the new summary.
    NewSummaryIsFed,
    /// Memtables are read when no insertion is left that loaded the old set.
    GracePeriodIsWaitedFor,
    /// Memtables first, SSTs after: a memtable flushed in between was read, or its SST is listed.
    MemtablesAreReadBeforeSstsAreListed,
    /// The memtable that takes keys is read.
    ActiveMemtableIsRead,
    /// Memtables that wait for their flush are read.
    SealedMemtablesAreRead,
    /// A memtable is read to its end.
    MemtablesAreReadToTheEnd,
    /// A memtable leaves the registry when its SST is live.
    MemtableIsForgottenAfterInstall,
    /// A memtable is not freed while it is read.
    MemtableWaitsForItsReader,
    /// A flush appends its keys to the log before its memtable leaves the registry.
    LogHasTheKeysOfEachFlush,
    /// An SST that is gone when it is read makes the listing void.
    VanishedSstsAreListedAgain,
    /// A failed consolidation leaves the summary that lookups use.
    FailedConsolidationKeepsTheOldSummary,
    /// External writes are announced before they begin.
    ExternalWritesAreAnnouncedFirst,
    /// No key is denied while external writes run.
    ExternalWritesWithdrawCoverage,
    /// The log lacks the keys of external writes.
    ExternalWritesEndTheLog,
    /// What was learnt before external writes is not published.
    EpochIsChecked,
    /// What was learnt during external writes is not published.
    EpochIsQuiet,
    /// External writes between the listing and the epoch would not be noticed.
    EpochIsNotedBeforeTheListing,
    /// Maintenance of a dropped family does nothing to its successor.
    FiltersBelongToOneFamily,
    /// No SST has the id of an earlier one, which a stored filter may cover.
    SstIdsAreNeverReused,
    /// A filter that is stored has the keys of all SSTs that it is said to cover.
    CoverageIsNotedBeforeTheCopy,
    /// A stored filter lacks what came after it was stored.
    UncoveredSstsAreReadAtOpen,
    /// The replay of the write-ahead log feeds the summary.
    ReplayIsFed,
    /// Not needed: a filter that a drop leaves on disk covers none of the successor's SSTs.
    DropRemovesTheStoredFilter,
}

impl Rule {
    /// Those that lose a key, or read freed memory, when they are broken.
    pub(crate) const ALL: [Self; 26] = [
        Self::FedBeforeVisible,
        Self::SetIsLoadedAfterInsertion,
        Self::ReadOfTheSetSpansInsertion,
        Self::OldSummaryIsFed,
        Self::NewSummaryIsFed,
        Self::GracePeriodIsWaitedFor,
        Self::MemtablesAreReadBeforeSstsAreListed,
        Self::ActiveMemtableIsRead,
        Self::SealedMemtablesAreRead,
        Self::MemtablesAreReadToTheEnd,
        Self::MemtableIsForgottenAfterInstall,
        Self::MemtableWaitsForItsReader,
        Self::LogHasTheKeysOfEachFlush,
        Self::VanishedSstsAreListedAgain,
        Self::FailedConsolidationKeepsTheOldSummary,
        Self::ExternalWritesAreAnnouncedFirst,
        Self::ExternalWritesWithdrawCoverage,
        Self::ExternalWritesEndTheLog,
        Self::EpochIsChecked,
        Self::EpochIsQuiet,
        Self::EpochIsNotedBeforeTheListing,
        Self::FiltersBelongToOneFamily,
        Self::SstIdsAreNeverReused,
        Self::CoverageIsNotedBeforeTheCopy,
        Self::UncoveredSstsAreReadAtOpen,
        Self::ReplayIsFed,
    ];
}
