//! The rules that a store behind filters may break. `lsm_sieve::laws` breaks each, to see that its
//! suite finds it.

/// A rule that is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mutant {
    /// About one key in 13 does not reach the filters.
    MissedKey,
    /// Keys reach the filters one write late, when readers see them already.
    FedLate,
    /// The listing leaves out a segment.
    SegmentLeftOut,
    /// A new segment carries the id of an older one.
    ReusedId,
    /// The filters of a memtable are dropped, and a flush returns, before its keys are in a segment.
    MemtableDroppedEarly,
    /// A read of all keys ends early, and says that it succeeded.
    ShortScan,
    /// External writes are not announced.
    UnannouncedWrites,
    /// Commits leave out their records, so that the store stays in a state that a stored filter has
    /// all keys of.
    RecordsLeftOut,
    /// A commit is two: the records follow their keys.
    RecordsApart,
    /// A sync makes nothing durable. Found in stores that say what a power cut leaves.
    NothingSynced,
    /// A read of all keys ends where it fails, and says that it succeeded. Found in stores whose
    /// reads can be made to fail.
    ScanEndsEarly,
}

impl Mutant {
    /// The rules of an `Lsm`.
    pub const OF_LSM: [Self; 7] = [
        Self::MissedKey,
        Self::FedLate,
        Self::SegmentLeftOut,
        Self::ReusedId,
        Self::MemtableDroppedEarly,
        Self::ShortScan,
        Self::UnannouncedWrites,
    ];

    /// The rules of a `Store`.
    pub const OF_STORE: [Self; 3] = [Self::MissedKey, Self::ShortScan, Self::UnannouncedWrites];

    /// The rules of a `Store` whose records say whether a stored filter has all keys.
    pub const OF_RECORDS: [Self; 2] = [Self::RecordsLeftOut, Self::RecordsApart];

    /// One key in this many is missed.
    const MISSED: u32 = 13;

    /// Whether [`Mutant::MissedKey`] misses this key.
    pub fn misses(key: &[u8]) -> bool {
        crc32fast::hash(key).is_multiple_of(Self::MISSED)
    }
}
