//! The filters of a memtable.

use std::sync::{Arc, OnceLock};

use crate::lsm::engine::Link;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::intake::Hold;

/// Adds the keys of one memtable to the filters.
///
/// It must be dropped after the segment with its keys is listed by
/// [`Lsm::segments`](super::Lsm::segments), or after the keys themselves are gone. Dropped earlier,
/// a rebuild of the summary filter would miss the keys.
pub struct Memtable {
    cf: Arc<CfFilter>,
    /// From the first key on; `None` if a mutant drops it early.
    hold: OnceLock<Option<Hold>>,
    link: Arc<Link>,
}

impl Memtable {
    pub(super) fn new(cf: Arc<CfFilter>, link: Arc<Link>) -> Self {
        Self {
            cf,
            hold: OnceLock::new(),
            link,
        }
    }

    /// Adds a key, before the memtable makes it visible. Tombstones need not be added. Any number
    /// of threads may call it.
    pub fn insert(&self, key: &[u8]) {
        let intake = self.cf.intake();
        let is_dropped_early = self.link.mutated.drops_memtables_early();
        self.hold
            .get_or_init(|| (!is_dropped_early).then(|| intake.hold()));
        self.link.mutated.insert(key, |key| _ = intake.add(key));
    }
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable").finish_non_exhaustive()
    }
}
