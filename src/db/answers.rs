//! What the filters alone say of a key or a prefix.

use rocksdb::AsColumnFamilyRef;

use crate::fault::fault;
use crate::hooks;
use crate::hooks::sieve::Sieve;
use lsm_sieve_front::cf_filter::{lookup, prefix_lookup};
use lsm_sieve_front::cf_filters::CfFilters;
use lsm_sieve_front::stats::Stats;
use lsm_sieve_front::view::Answer;

/// # Answers
///
/// The engine is read only for audits ([`SieveOptions::audit`](crate::SieveOptions::audit)), and
/// [`Stats`] count only what is absent.
impl Sieve {
    /// What the filters say of a key of the default column family.
    pub fn answer(&self, key: impl AsRef<[u8]>) -> Answer {
        lookup::answer(&*self.default, key.as_ref())
    }

    /// [`Sieve::answer`] for a key of another column family.
    pub fn answer_cf(&self, cf: &impl AsColumnFamilyRef, key: impl AsRef<[u8]>) -> Answer {
        lookup::answer(self.filters_of(cf), key.as_ref())
    }

    /// Whether there may be a key in the default column family that starts with these bytes. False
    /// only if there is none.
    ///
    /// A function gives an answer if it gives all keys that start so the same prefix: they may go on
    /// behind it, as in `users/ada` for [`Prefix::until(b'/')`](crate::Prefix::until). If none does,
    /// the answer is true.
    #[inline]
    pub fn prefix_may_exist(&self, start: impl AsRef<[u8]>) -> bool {
        prefix_lookup::may_exist(&*self.default, start.as_ref())
    }

    /// [`Sieve::prefix_may_exist`] in a column family.
    pub fn prefix_may_exist_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        start: impl AsRef<[u8]>,
    ) -> bool {
        prefix_lookup::may_exist(self.filters_of(cf), start.as_ref())
    }

    /// [`Sieve::prefix_may_exist`] for several, in their order.
    pub fn prefixes_may_exist(&self, starts: &[impl AsRef<[u8]>]) -> Vec<bool> {
        prefix_lookup::may_exist_many(&self.default, starts)
    }

    /// [`Sieve::prefix_may_exist_cf`] for several, in their order.
    pub fn prefixes_may_exist_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        starts: &[impl AsRef<[u8]>],
    ) -> Vec<bool> {
        match self.cf_filters.get(hooks::cf_id(cf)) {
            Some(filters) => prefix_lookup::may_exist_many(&filters, starts),
            None => {
                fault!(UnfilteredPrefixesAbsent, return vec![false; starts.len()]);
                vec![true; starts.len()]
            }
        }
    }

    /// The counters of one column family's filters; `None` if it has none.
    pub fn stats_cf(&self, cf: &impl AsColumnFamilyRef) -> Option<Stats> {
        let cf_filter = self.cf_filters.get(hooks::cf_id(cf))?;
        Some(cf_filter.stats())
    }

    /// The filters of a column family, where a lookup finds them.
    pub(super) fn filters_of(&self, cf: &impl AsColumnFamilyRef) -> (&CfFilters, u32) {
        (&self.cf_filters, hooks::cf_id(cf))
    }
}
