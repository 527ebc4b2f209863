//! The filters that memtables feed.

use std::sync::{Arc, Weak};

use crate::fault::fault;
use crate::filter::{Scalable, ScalableOptions};
use crate::front::audit::Distrust;
use crate::front::options::FrontOptions;
use crate::front::segment_filters;
use crate::hash::{KeyHash, KeyHasher};
use crate::math::Bits;
use crate::prefix::Prefixes;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, unpoisoned};

/// The filters that a group of memtables feeds: summary filters, and one memtable filter.
///
/// A memtable binds the current filter set when its first key arrives, and feeds it until it is
/// flushed. So once the set was switched and the column family flushed, no memtable feeds only the
/// old set.
#[derive(Debug)]
pub(crate) struct FilterSet {
    hasher: KeyHasher,
    prefixes: Arc<Prefixes>,
    summaries: Vec<Arc<Scalable>>,
    memtable_filters: Arc<Scalable>,
    publishes_first: bool,
    open: AtomicUsize,
    owner: Owner,
}

/// What filter sets need of the column family that they belong to.
#[derive(Clone, Debug)]
struct Owner {
    /// Disabled if a key may have been missed.
    filters: Weak<dyn Distrust>,
    to_free: Weak<ToFree>,
}

/// The filters of flushed memtables, until maintenance frees them.
type ToFree = Mutex<Vec<Arc<FilterSet>>>;

impl FilterSet {
    fn new(
        hasher: KeyHasher,
        prefixes: &Arc<Prefixes>,
        summaries: Vec<Arc<Scalable>>,
        memtables: MemtableOptions,
        owner: &Owner,
    ) -> Self {
        Self {
            hasher,
            prefixes: Arc::clone(prefixes),
            summaries,
            memtable_filters: Arc::new(Scalable::new(hasher.imprint(), memtables.memtable_filters)),
            publishes_first: memtables.publishes_first,
            open: AtomicUsize::new(0),
            owner: owner.clone(),
        }
    }

    /// The memtable filter of this set.
    pub(crate) fn memtable_filters(&self) -> &Arc<Scalable> {
        &self.memtable_filters
    }

    /// The summary filters of this set.
    pub(crate) fn summaries(&self) -> &[Arc<Scalable>] {
        &self.summaries
    }

    fn feeds(&self, filter: &Arc<Scalable>) -> bool {
        self.summaries.iter().any(|fed| Arc::ptr_eq(fed, filter))
    }

    /// The hash of a key that the memtable is about to insert. Prefetches the filters' lines. If a
    /// write may become visible before the memtable has it, the key is inserted into the filters
    /// here.
    pub(crate) fn prepare(&self, key: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(key);
        if self.comes_first() {
            self.add(hash);
            self.add_prefixes(key);
        } else {
            self.prefetch(hash);
            self.prefixes
                .each(key, |_, prefix| self.prefetch(self.hasher.hash(prefix)));
        }
        hash
    }

    fn prefetch(&self, hash: KeyHash) {
        self.memtable_filters.prefetch_append(hash);
        let for_summary = hash.for_summary();
        self.summaries
            .iter()
            .for_each(|summary| summary.prefetch_append(for_summary));
    }

    /// Makes sure that a prepared key is in all filters, before the engine makes it visible. `hash`
    /// is that of the key.
    pub(crate) fn insert(&self, hash: KeyHash, key: &[u8]) {
        if !self.comes_first() {
            self.add(hash);
            self.add_prefixes(key);
        }
    }

    /// Most prefixes are in the filters already: these set no bit, and are not counted again.
    fn add_prefixes(&self, key: &[u8]) {
        self.prefixes.each(key, |_, prefix| {
            fault!(MemtablePrefixMissed, return);
            let hash = self.hasher.hash(prefix);
            _ = self.memtable_filters.insert(hash);
            let for_summary = hash.for_summary();
            for summary in &self.summaries {
                summary.insert(for_summary);
            }
        });
    }

    fn comes_first(&self) -> bool {
        fault!(FiltersAfterMemtable, return false);
        self.publishes_first
    }

    fn add(&self, hash: KeyHash) {
        self.memtable_filters.append(hash);
        let for_summary = hash.for_summary();
        fault!(
            MemtableKeyMissed,
            if hash.get().is_multiple_of(97) {
                return;
            }
        );
        fault!(PanicSwallowed, assert!(!hash.get().is_multiple_of(97)));
        self.summaries
            .iter()
            .for_each(|summary| summary.append(for_summary));
    }

    /// The keys of one memtable are in an SST, or were dropped with the memtable.
    pub(crate) fn seal(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// A memtable drops its reference. Freeing is deferred: this may be called under the engine's
    /// mutex, where no thread may wait for gigabytes to be freed.
    pub(crate) fn release(self: Arc<Self>) {
        if let Some(to_free) = self.owner.to_free.upgrade() {
            unpoisoned(to_free.lock()).push(self);
        }
    }

    /// A key may have been missed: the column family answers *maybe* from now on.
    pub(crate) fn disable(&self) {
        fault!(PanicSwallowed, return);
        if let Some(filters) = self.owner.filters.upgrade() {
            filters.disable();
        }
    }
}

/// How memtables feed their filters.
#[derive(Clone, Copy, Debug)]
struct MemtableOptions {
    /// The memtable filter.
    memtable_filters: ScalableOptions,
    /// Whether a write may become visible before its memtable has it, so that filters are fed
    /// first.
    publishes_first: bool,
}

impl MemtableOptions {
    fn without_memtable_filter(mut self) -> Self {
        self.memtable_filters.budget = Some(Bits::new(0));
        self
    }
}

/// The memtables of one column family, by the filters that they feed.
#[derive(Debug)]
pub(crate) struct Memtables {
    hasher: KeyHasher,
    prefixes: Arc<Prefixes>,
    options: MemtableOptions,
    owner: Owner,
    targets: Mutex<FilterSets>,
    to_free: Arc<ToFree>,
}

/// The filter sets of the current memtables and of older ones.
#[derive(Debug)]
struct FilterSets {
    current: Arc<FilterSet>,
    older: Vec<Weak<FilterSet>>,
}

impl FilterSets {
    /// All sets whose memtables may still take keys, or have keys in no SST.
    fn alive(&self) -> impl Iterator<Item = Arc<FilterSet>> {
        let older = self.older.iter().filter_map(Weak::upgrade);
        older.chain([Arc::clone(&self.current)])
    }
}

impl Memtables {
    /// The memtables to come, which feed this summary filter.
    pub(crate) fn new(
        hasher: KeyHasher,
        settings: &FrontOptions,
        summary: Arc<Scalable>,
        filters: Weak<dyn Distrust>,
    ) -> Self {
        let options = MemtableOptions {
            memtable_filters: segment_filters::memtable_filter_options(
                settings.memtable_filter_budget(),
            ),
            publishes_first: settings.publishes_first,
        };
        let to_free = Arc::<ToFree>::default();
        let owner = Owner {
            filters,
            to_free: Arc::downgrade(&to_free),
        };
        let prefixes = Arc::clone(&settings.prefixes);
        let current = FilterSet::new(hasher, &prefixes, vec![summary], options, &owner);
        Self {
            hasher,
            prefixes,
            options,
            owner,
            targets: Mutex::new(FilterSets {
                current: Arc::new(current),
                older: Vec::new(),
            }),
            to_free,
        }
    }

    /// Whether memtables get a memtable filter: one that takes memory, even if it is full.
    pub(crate) fn may_have_memtable_filter(&self) -> bool {
        let current = self.current();
        !current.memtable_filters().is_saturated()
            || current.memtable_filters().size() > Bits::new(0)
    }

    /// The filters for a memtable that takes its first key now.
    pub(crate) fn bind(&self) -> Arc<FilterSet> {
        let targets = unpoisoned(self.targets.lock());
        targets.current.open.fetch_add(1, Ordering::AcqRel);
        Arc::clone(&targets.current)
    }

    /// The filters that a memtable would feed if it took its first key now.
    pub(crate) fn current(&self) -> Arc<FilterSet> {
        Arc::clone(&unpoisoned(self.targets.lock()).current)
    }

    /// A filter set for later: these summary filters, and a new memtable filter.
    pub(crate) fn next(&self, summaries: Vec<Arc<Scalable>>) -> Arc<FilterSet> {
        let target = FilterSet::new(
            self.hasher,
            &self.prefixes,
            summaries,
            self.options,
            &self.owner,
        );
        Arc::new(target)
    }

    /// A filter set that no lookup uses: this summary filter alone.
    pub(crate) fn last(&self, summary: Arc<Scalable>) -> Arc<FilterSet> {
        let options = self.options.without_memtable_filter();
        let target = FilterSet::new(
            self.hasher,
            &self.prefixes,
            vec![summary],
            options,
            &self.owner,
        );
        Arc::new(target)
    }

    /// Memtables whose first key arrives from now on feed `next`.
    pub(crate) fn switch_to(&self, next: Arc<FilterSet>) {
        let mut targets = unpoisoned(self.targets.lock());
        let old = std::mem::replace(&mut targets.current, next);
        targets.older.retain(|target| target.strong_count() > 0);
        targets.older.push(Arc::downgrade(&old));
    }

    /// The memtable filters of all memtables that have keys in no SST, or will be bound before the
    /// next [`Memtables::switch_to`].
    pub(crate) fn memtable_filters(&self) -> Vec<Arc<Scalable>> {
        let targets = unpoisoned(self.targets.lock());
        let is_open = |target: &FilterSet| {
            fault!(OlderMemtableFiltersLeftOut, return false);
            target.open.load(Ordering::Acquire) > 0
        };
        let asked = targets
            .alive()
            .filter(|target| is_open(target) || Arc::ptr_eq(target, &targets.current));
        asked
            .map(|target| Arc::clone(&target.memtable_filters))
            .collect()
    }

    /// Frees the filters that only flushed memtables held.
    pub(crate) fn free_deferred(&self) {
        let to_free = std::mem::take(&mut *unpoisoned(self.to_free.lock()));
        // The lock was released: a thread that holds the engine's mutex may wait for it.
        drop(to_free);
    }

    /// Whether some memtable that does not feed `filter` may still take keys, or has keys in no
    /// SST.
    pub(crate) fn some_do_not_feed(&self, filter: &Arc<Scalable>) -> bool {
        let targets = unpoisoned(self.targets.lock());
        let mut past = targets.alive().filter(|target| !target.feeds(filter));
        past.any(|target| target.open.load(Ordering::Acquire) > 0)
    }

    /// The number of memtables whose keys are not all in SSTs yet.
    pub(crate) fn open(&self) -> usize {
        let targets = unpoisoned(self.targets.lock());
        let open = targets
            .alive()
            .map(|target| target.open.load(Ordering::Acquire));
        open.sum()
    }
}

#[cfg(test)]
#[cfg(feature = "rocksdb")]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rocksdb::Options;

    use crate::math::Bits;
    use crate::rocks::{Isolation, SieveDb, SieveOptions};

    /// It would cost a cache line per write and up to four MiB, for nothing.
    #[test]
    fn memtables_have_no_recent_filter_where_there_is_no_second_look() {
        let sieves = [
            (SieveOptions::default(), true),
            (SieveOptions::default().segment_filters(None), false),
        ];
        for (sieve, has_segment_filters) in sieves {
            let home = tempfile::tempdir().unwrap();
            let mut options = Options::default();
            options.create_if_missing(true);
            let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
            db.put("first", "value").unwrap();
            db.consolidate().unwrap();
            assert!(db.wait_for_maintenance(Duration::from_secs(20)));
            db.put("second", "value").unwrap();
            let cf_filter = db.cf_filters().all().remove(0);
            let memtable_filters = cf_filter.memtables().current().memtable_filters().size();
            assert_eq!(
                memtable_filters > Bits::new(0),
                has_segment_filters,
                "{sieve:?}"
            );
            assert_eq!(
                cf_filter.view().segment_filters.is_some(),
                has_segment_filters
            );
            for key in ["first", "second"] {
                assert!(!db.filter_answer(key).is_absent());
            }
        }
    }

    /// RocksDB then keeps flushed memtables. They would keep a summary filter of gigabytes alive,
    /// and each of their memtable filters would be probed.
    #[test]
    fn memtables_that_are_kept_for_transactions_hold_no_filters() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let sieve = SieveOptions::default().transactions(Isolation::Optimistic);
        let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
        let cf_filter = db.cf_filters().all().remove(0);
        db.put("first", "value").unwrap();
        let summary = Arc::downgrade(&cf_filter.view().summary);
        db.consolidate().unwrap();
        assert!(db.wait_for_maintenance(Duration::from_secs(20)));
        assert_eq!(cf_filter.memtables().open(), 0);
        assert_eq!(summary.strong_count(), 0, "the summary of before");
        assert_eq!(cf_filter.memtables().memtable_filters().len(), 1);
    }

    /// A reader may see the key before its memtable has it; the filters must say *maybe* by then.
    #[test]
    fn of_an_unordered_write_the_filters_hear_first() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_unordered_write(true);
        let db = SieveDb::open(&options, &SieveOptions::default(), home.path()).unwrap();
        let cf_filter = db.cf_filters().all().remove(0);
        let target = cf_filter.memtables().bind();
        let hash = target.prepare(b"key");
        assert!(target.memtable_filters().may_contain(hash));
        for summary in target.summaries() {
            assert!(summary.may_contain(hash.for_summary()));
        }
        target.seal();
    }
}
