//! Whether there are keys with a prefix, or in a range: the filters first, then one seek of the engine.

use std::ops::Range;

use rocksdb::{AsColumnFamilyRef, Error, ThreadMode};

use super::SieveDb;
use crate::fault::fault;
use crate::hooks;
use lsm_sieve_front::cf_filter::{CfFilter, Resolve as _, prefix_lookup};
use lsm_sieve_front::ranges::Span;

/// # Prefixes
///
/// A column family's filters answer for the prefixes that [`SieveOptions::prefixes`] names, and for
/// those of a `prefix_extractor` in RocksDB's options. Iterators check the filters too: if a `seek`
/// can only find keys with one prefix, which no key has, the iterator is not valid at once. That
/// holds for iterators with `set_prefix_same_as_start`, such as those of `prefix_iterator`, and
/// for iterators whose bounds lie within one prefix, such as those of a `PrefixRange`. If
/// [`SieveOptions::ranges`] is set, it also holds for bounds without a key between them.
///
/// [`SieveOptions::ranges`]: crate::SieveOptions::ranges
/// [`SieveOptions::prefixes`]: crate::SieveOptions::prefixes
impl<T: ThreadMode> SieveDb<T> {
    /// Whether there is a key in the default column family that starts with these bytes. If the
    /// filters do not rule it out, one seek of the engine decides.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn prefix_exists(&self, start: impl AsRef<[u8]>) -> Result<bool, Error> {
        let start = start.as_ref();
        prefix_lookup::exists(&*self.default, start, || self.default_has_prefix(start))
    }

    /// [`SieveDb::prefix_exists`] in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn prefix_exists_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        start: impl AsRef<[u8]>,
    ) -> Result<bool, Error> {
        let start = start.as_ref();
        prefix_lookup::exists(self.sieve.filters_of(cf), start, || {
            self.has_prefix(cf, start)
        })
    }

    /// [`SieveDb::prefix_exists`] for several, in their order. Each answer is that of a moment of
    /// its own during the call.
    ///
    /// # Errors
    /// Returns RocksDB's error, for each that could not be read.
    pub fn prefixes_exist(&self, starts: &[impl AsRef<[u8]>]) -> Vec<Result<bool, Error>> {
        let maybe = self.sieve.prefixes_may_exist(starts);
        let each = starts.iter().zip(maybe);
        each.map(|(start, maybe)| {
            prefix_lookup::decide(&*self.default, maybe, || {
                self.default_has_prefix(start.as_ref())
            })
        })
        .collect()
    }

    /// [`SieveDb::prefix_exists_cf`] for several, in their order. Each answer is that of a moment of
    /// its own during the call.
    ///
    /// # Errors
    /// Returns RocksDB's error, for each that could not be read.
    pub fn prefixes_exist_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        starts: &[impl AsRef<[u8]>],
    ) -> Vec<Result<bool, Error>> {
        let read = |start: &[u8]| self.has_prefix(cf, start);
        let Some(filters) = self.cf_filters().get(hooks::cf_id(cf)) else {
            return starts.iter().map(|start| read(start.as_ref())).collect();
        };
        let maybe = prefix_lookup::may_exist_many(&filters, starts);
        let each = starts.iter().zip(maybe);
        each.map(|(start, maybe)| prefix_lookup::decide(&*filters, maybe, || read(start.as_ref())))
            .collect()
    }

    /// Whether there is a key in the default column family from the first on that is before the end, in
    /// RocksDB's order. If the filters do not rule it out ([`SieveOptions::ranges`]), one seek of the
    /// engine decides.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    ///
    /// [`SieveOptions::ranges`]: crate::SieveOptions::ranges
    pub fn range_exists(&self, range: Range<impl AsRef<[u8]>>) -> Result<bool, Error> {
        let (from, end) = (range.start.as_ref(), range.end.as_ref());
        let maybe = prefix_lookup::span_may_exist(&*self.default, Span::HalfOpen(from, end));
        prefix_lookup::decide(&*self.default, maybe, || {
            let read = |cf: &hooks::BareCf| hooks::contains_range(cf, from, end, 0);
            let read = self.sieve.engine.with_cf(hooks::DEFAULT_ID, read);
            let closed = || Err("the database is closed".to_owned());
            read.unwrap_or_else(closed).map_err(hooks::error_of)
        })
    }

    /// [`SieveDb::range_exists`] in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn range_exists_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        range: Range<impl AsRef<[u8]>>,
    ) -> Result<bool, Error> {
        let (from, end) = (range.start.as_ref(), range.end.as_ref());
        let filters = self.sieve.filters_of(cf);
        let maybe = prefix_lookup::span_may_exist(filters, Span::HalfOpen(from, end));
        prefix_lookup::decide(filters, maybe, || {
            hooks::contains_range(cf, from, end, 0).map_err(hooks::error_of)
        })
    }

    fn default_has_prefix(&self, start: &[u8]) -> Result<bool, Error> {
        let same_prefix = self.sieve.is_within_engine_prefix(&self.default, start);
        let read = |cf: &hooks::BareCf| hooks::contains_prefix(cf, start, same_prefix, 0);
        let read = self.sieve.engine.with_cf(hooks::DEFAULT_ID, read);
        let closed = || Err("the database is closed".to_owned());
        read.unwrap_or_else(closed).map_err(hooks::error_of)
    }

    fn has_prefix(&self, cf: &impl AsColumnFamilyRef, start: &[u8]) -> Result<bool, Error> {
        let within = |filters: &CfFilter| self.sieve.is_within_engine_prefix(filters, start);
        let same_prefix = self.sieve.filters_of(cf).with(|filters, _| within(filters));
        let mut same_prefix = same_prefix.unwrap_or_default();
        fault!(UnfilteredStartIsPrefix, same_prefix = true);
        hooks::contains_prefix(cf, start, same_prefix, 0).map_err(hooks::error_of)
    }
}
