//! What memtables feed: the filters of their generation.

use std::sync::{Arc, Weak};

use super::column::Column;
use super::inventory;
use super::options::SieveOptions;
use crate::filter::{Scalable, ScalableOptions};
use crate::hash::{KeyHash, KeyHasher};
use crate::math::Bits;
use crate::planted::planted;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Mutex, unpoisoned};

/// The filters that one generation of memtables feeds: summaries, and one of its own.
///
/// A memtable takes the column's target when its first key arrives and feeds it until it is flushed. So once
/// a new target is named and the column flushed, no memtable feeds only the old one.
#[derive(Debug)]
pub(crate) struct WriteTarget {
    hasher: KeyHasher,
    summaries: Vec<Arc<Scalable>>,
    recent: Arc<Scalable>,
    publishes_first: bool,
    open: AtomicUsize,
    column: Weak<Column>,
}

impl WriteTarget {
    fn new(
        hasher: KeyHasher,
        summaries: Vec<Arc<Scalable>>,
        memtables: MemtableOptions,
        column: &Weak<Column>,
    ) -> Self {
        Self {
            hasher,
            summaries,
            recent: Arc::new(Scalable::new(hasher.imprint(), memtables.recent)),
            publishes_first: memtables.publishes_first,
            open: AtomicUsize::new(0),
            column: Weak::clone(column),
        }
    }

    /// The filter of this generation alone.
    pub(crate) fn recent(&self) -> &Arc<Scalable> {
        &self.recent
    }

    /// The summaries that it feeds.
    pub(crate) fn summaries(&self) -> &[Arc<Scalable>] {
        &self.summaries
    }

    fn feeds(&self, filter: &Arc<Scalable>) -> bool {
        self.summaries.iter().any(|fed| Arc::ptr_eq(fed, filter))
    }

    /// The hash of a key that the memtable is about to take. The filters' lines are on their way; where
    /// the write may be seen before the memtable has taken it, the key is in the filters.
    pub(crate) fn prepare(&self, key: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(key);
        if self.comes_first() {
            self.add(hash);
        } else {
            self.recent.prefetch_append(hash);
            let remixed = hash.remixed();
            self.summaries
                .iter()
                .for_each(|summary| summary.prefetch_append(remixed));
        }
        hash
    }

    /// Makes sure that a prepared key is in all filters, before the engine makes it visible.
    pub(crate) fn insert(&self, hash: KeyHash) {
        if !self.comes_first() {
            self.add(hash);
        }
    }

    fn comes_first(&self) -> bool {
        self.publishes_first && !planted!(FiltersAfterMemtable)
    }

    fn add(&self, hash: KeyHash) {
        self.recent.append(hash);
        let remixed = hash.remixed();
        if planted!(MemtableKeyMissed) && hash.get().is_multiple_of(97) {
            return;
        }
        assert!(!planted!(PanicSwallowed) || !hash.get().is_multiple_of(97));
        self.summaries
            .iter()
            .for_each(|summary| summary.append(remixed));
    }

    /// The keys of one memtable are in a table, or gone with it.
    pub(crate) fn seal(&self) {
        self.open.fetch_sub(1, Ordering::AcqRel);
    }

    /// A memtable gives its reference back, perhaps under the engine's mutex, where nobody may wait for
    /// gigabytes to be freed.
    pub(crate) fn release(self: Arc<Self>) {
        if let Some(column) = self.column.upgrade() {
            column.memtables().spend(self);
        }
    }

    /// A key may have been missed: the column answers *maybe* from now on.
    pub(crate) fn give_up(&self) {
        if let Some(column) = self.column.upgrade()
            && !planted!(PanicSwallowed)
        {
            column.give_up();
        }
    }
}

/// How memtables feed their filters.
#[derive(Clone, Copy, Debug)]
struct MemtableOptions {
    /// The filter of one generation.
    recent: ScalableOptions,
    /// Whether a write may be seen before its memtable has taken it, so that the filters come first.
    publishes_first: bool,
}

impl MemtableOptions {
    fn without_recent(mut self) -> Self {
        self.recent.budget = Some(Bits::new(0));
        self
    }
}

/// The memtables of one column family, by what they feed.
#[derive(Debug)]
pub(crate) struct Memtables {
    hasher: KeyHasher,
    options: MemtableOptions,
    column: Weak<Column>,
    targets: Mutex<Targets>,
    /// Of memtables that are flushed, until upkeep frees them.
    spent: Mutex<Vec<Arc<WriteTarget>>>,
}

/// The targets of the memtables of now and of those before.
#[derive(Debug)]
struct Targets {
    current: Arc<WriteTarget>,
    older: Vec<Weak<WriteTarget>>,
}

impl Targets {
    /// All that may still take keys, or have some in no table.
    fn alive(&self) -> impl Iterator<Item = Arc<WriteTarget>> {
        let older = self.older.iter().filter_map(Weak::upgrade);
        older.chain([Arc::clone(&self.current)])
    }
}

impl Memtables {
    /// The memtables to come, which feed this summary.
    pub(crate) fn new(
        hasher: KeyHasher,
        options: &SieveOptions,
        summary: Arc<Scalable>,
        column: &Weak<Column>,
    ) -> Self {
        let options = MemtableOptions {
            recent: inventory::recent_options(options.recent_budget()),
            publishes_first: options.get_publishes_first(),
        };
        let current = WriteTarget::new(hasher, vec![summary], options, column);
        Self {
            hasher,
            options,
            column: Weak::clone(column),
            targets: Mutex::new(Targets {
                current: Arc::new(current),
                older: Vec::new(),
            }),
            spent: Mutex::default(),
        }
    }

    /// Whether the latest memtables have a recent filter that says anything.
    pub(crate) fn may_have_recent(&self) -> bool {
        let current = self.current();
        !current.recent().is_saturated() || current.recent().size() > Bits::new(0)
    }

    /// The filters for a memtable that takes its first key now.
    pub(crate) fn bind(&self) -> Arc<WriteTarget> {
        let targets = unpoisoned(self.targets.lock());
        targets.current.open.fetch_add(1, Ordering::AcqRel);
        Arc::clone(&targets.current)
    }

    /// The filters that a memtable would feed which took its first key now.
    pub(crate) fn current(&self) -> Arc<WriteTarget> {
        Arc::clone(&unpoisoned(self.targets.lock()).current)
    }

    /// Filters for a generation to come: these summaries, and one of its own.
    pub(crate) fn next(&self, summaries: Vec<Arc<Scalable>>) -> Arc<WriteTarget> {
        let target = WriteTarget::new(self.hasher, summaries, self.options, &self.column);
        Arc::new(target)
    }

    /// Filters for a generation of which no answer is asked: this summary alone.
    pub(crate) fn last(&self, summary: Arc<Scalable>) -> Arc<WriteTarget> {
        let options = self.options.without_recent();
        let target = WriteTarget::new(self.hasher, vec![summary], options, &self.column);
        Arc::new(target)
    }

    /// Lets memtables feed `next` whose first key arrives from now on.
    pub(crate) fn turn_to(&self, next: Arc<WriteTarget>) {
        let mut targets = unpoisoned(self.targets.lock());
        let old = std::mem::replace(&mut targets.current, next);
        targets.older.retain(|target| target.strong_count() > 0);
        targets.older.push(Arc::downgrade(&old));
    }

    /// The recent filters of all memtables that have keys in no table or will be bound before the next
    /// [`Memtables::turn_to`].
    pub(crate) fn recent(&self) -> Vec<Arc<Scalable>> {
        let targets = unpoisoned(self.targets.lock());
        let is_open = |target: &WriteTarget| {
            target.open.load(Ordering::Acquire) > 0 && !planted!(OlderGenerationsLeftOut)
        };
        let asked = targets
            .alive()
            .filter(|target| is_open(target) || Arc::ptr_eq(target, &targets.current));
        asked.map(|target| Arc::clone(&target.recent)).collect()
    }

    fn spend(&self, target: Arc<WriteTarget>) {
        unpoisoned(self.spent.lock()).push(target);
    }

    /// Frees what only memtables held that are flushed.
    pub(crate) fn drop_spent(&self) {
        let spent = std::mem::take(&mut *unpoisoned(self.spent.lock()));
        // The lock is let go: who holds the engine's mutex waits for it.
        drop(spent);
    }

    /// Whether some memtable that does not feed `filter` may take keys or has some in no table.
    pub(crate) fn some_do_not_feed(&self, filter: &Arc<Scalable>) -> bool {
        let targets = unpoisoned(self.targets.lock());
        let mut past = targets.alive().filter(|target| !target.feeds(filter));
        past.any(|target| target.open.load(Ordering::Acquire) > 0)
    }

    /// Memtables whose keys are not all in tables yet.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        let targets = unpoisoned(self.targets.lock());
        let open = targets
            .alive()
            .map(|target| target.open.load(Ordering::Acquire));
        open.sum()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use rocksdb::Options;

    use crate::math::Bits;
    use crate::rocks::{SieveDb, SieveOptions};

    /// A line of each write and up to four megabytes, for nothing.
    #[test]
    fn memtables_have_no_recent_filter_where_there_is_no_second_look() {
        let sieves = [
            (SieveOptions::default(), true),
            (SieveOptions::default().segment_rate(None), false),
        ];
        for (sieve, has_second_look) in sieves {
            let home = tempfile::tempdir().unwrap();
            let mut options = Options::default();
            options.create_if_missing(true);
            let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
            db.put("first", "value").unwrap();
            db.consolidate().unwrap();
            assert!(db.wait_until_known(Duration::from_secs(20)));
            db.put("second", "value").unwrap();
            let column = db.columns().all().remove(0);
            let recent = column.memtables().current().recent().size();
            assert_eq!(recent > Bits::new(0), has_second_look, "{sieve:?}");
            assert_eq!(column.view().inventory.is_some(), has_second_look);
            for key in ["first", "second"] {
                assert!(!db.answer(key).is_absent());
            }
        }
    }

    /// RocksDB then keeps memtables that were flushed. A summary of gigabytes would stay with them, and a
    /// filter of each would be asked.
    #[test]
    fn memtables_that_are_kept_for_transactions_hold_no_filters() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let sieve = SieveOptions::default().transactions(true);
        let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
        let column = db.columns().all().remove(0);
        db.put("first", "value").unwrap();
        let summary = Arc::downgrade(&column.view().summary);
        db.consolidate().unwrap();
        assert!(db.wait_until_known(Duration::from_secs(20)));
        assert_eq!(column.memtables().open(), 0);
        assert_eq!(summary.strong_count(), 0, "the summary of before");
        assert_eq!(column.memtables().recent().len(), 1);
    }

    /// A reader may see the key before its memtable has taken it, and must be let by.
    #[test]
    fn of_an_unordered_write_the_filters_hear_first() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_unordered_write(true);
        let db = SieveDb::open(&options, &SieveOptions::default(), home.path()).unwrap();
        let column = db.columns().all().remove(0);
        let target = column.memtables().bind();
        let hash = target.prepare(b"key");
        assert!(target.recent().may_contain(hash));
        for summary in target.summaries() {
            assert!(summary.may_contain(hash.remixed()));
        }
        target.seal();
    }
}
