//! The filters of a memtable.

use std::sync::{Arc, OnceLock};

use crate::front::cf_filter::CfFilter;
use crate::front::memtables::FilterSet;
use crate::lsm::engine::Link;
use crate::mutant::Mutant;

/// The filters that the keys of one memtable also go to.
///
/// It must be dropped after the segment with its keys is listed by
/// [`Lsm::segments`](super::Lsm::segments), or after the keys themselves are gone. Dropped earlier,
/// a rebuild of the summary filter would miss the keys.
pub struct Memtable {
    cf: Arc<CfFilter>,
    /// Bound with the first key.
    filters: OnceLock<Arc<FilterSet>>,
    link: Arc<Link>,
}

impl Memtable {
    pub(super) fn new(cf: Arc<CfFilter>, link: Arc<Link>) -> Self {
        Self {
            cf,
            filters: OnceLock::new(),
            link,
        }
    }

    /// Adds a key, before the memtable makes it visible. Tombstones need not be added. Any number
    /// of threads may call it.
    pub fn insert(&self, key: &[u8]) {
        let filters = self.filters.get_or_init(|| self.bind());
        self.link.mutated.insert(key, |key| {
            let hash = filters.prepare(key);
            filters.insert(hash, key);
        });
    }

    fn bind(&self) -> Arc<FilterSet> {
        let filters = self.cf.memtables().bind();
        if self.link.mutated.is(Mutant::MemtableDroppedEarly) {
            filters.seal();
        }
        filters
    }
}

impl Drop for Memtable {
    fn drop(&mut self) {
        if let Some(filters) = self.filters.take() {
            if !self.link.mutated.is(Mutant::MemtableDroppedEarly) {
                filters.seal();
            }
            filters.release();
        }
    }
}

impl std::fmt::Debug for Memtable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memtable").finish_non_exhaustive()
    }
}
