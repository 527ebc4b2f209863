//! No rule is broken: `mutants.rs` without the feature `laws`.

use crate::lsm::segment_info::SegmentInfo;
use lsm_sieve_front::filter_options::FilterOptions;

#[derive(Debug, Default)]
pub(super) struct Mutated;

impl Mutated {
    pub(super) fn by(_: &FilterOptions) -> Self {
        Self
    }

    pub(super) fn change_listing(&self, _: &mut Vec<SegmentInfo>) {}

    pub(super) fn ends_after(&self, _: u64) -> bool {
        false
    }

    pub(super) fn insert(&self, key: &[u8], feed: impl Fn(&[u8])) {
        feed(key);
    }

    pub(super) fn drops_memtables_early(&self) -> bool {
        false
    }

    pub(super) fn announces_nothing(&self) -> bool {
        false
    }
}
