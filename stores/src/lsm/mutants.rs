//! Rules that `laws` breaks on the way between a store and its filters, with the feature of that
//! name. Without it nothing is asked.

use crate::lsm::segment_info::SegmentInfo;
use crate::sync::{Mutex, unpoisoned};
use lsm_sieve_front::filter_options::FilterOptions;
use lsm_sieve_front::mutant::Mutant;
use lsm_sieve_front::segment::SegmentId;

/// Entries that a short read of a segment passes.
const SHORT: u64 = 20;

/// What a broken rule changes of listings and reads. Changes nothing if none is broken.
#[derive(Debug, Default)]
pub(super) struct Mutated {
    mutant: Option<Mutant>,
    /// An id that was listed before.
    reused: Mutex<Option<SegmentId>>,
    /// A key that was held back.
    late: Mutex<Vec<u8>>,
}

impl Mutated {
    pub(super) fn by(options: &FilterOptions) -> Self {
        Self {
            mutant: options.get_mutant(),
            ..Self::default()
        }
    }

    pub(super) fn change_listing(&self, listed: &mut Vec<SegmentInfo>) {
        match self.mutant {
            Some(Mutant::SegmentLeftOut) => _ = listed.pop(),
            Some(Mutant::ReusedId) => {
                let mut reused = unpoisoned(self.reused.lock());
                for segment in listed {
                    let first =
                        *reused.get_or_insert(segment.id.unwrap_or(SegmentId::from_bytes([7; 16])));
                    segment.id = Some(first);
                }
            }
            _ => {}
        }
    }

    /// Whether a read of a segment ends after this many entries.
    pub(super) fn ends_after(&self, entries: u64) -> bool {
        self.mutant == Some(Mutant::ShortScan) && entries >= SHORT
    }

    /// Feeds a key to the filters with `feed`.
    pub(super) fn insert(&self, key: &[u8], feed: impl Fn(&[u8])) {
        match self.mutant {
            Some(Mutant::MissedKey) if Mutant::misses(key) => {}
            Some(Mutant::FedLate) => {
                let late = std::mem::replace(&mut *unpoisoned(self.late.lock()), key.to_vec());
                feed(&late);
            }
            _ => feed(key),
        }
    }

    pub(super) fn drops_memtables_early(&self) -> bool {
        self.mutant == Some(Mutant::MemtableDroppedEarly)
    }

    pub(super) fn announces_nothing(&self) -> bool {
        self.mutant == Some(Mutant::UnannouncedWrites)
    }
}
