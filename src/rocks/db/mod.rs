//! A RocksDB behind its filters, in the vocabulary of the `rocksdb` crate.

mod access;
#[cfg(test)]
mod announcements;
mod engine;
mod iterators;
mod latest;
#[cfg(test)]
mod moments;
pub(super) mod open;
mod reads;
mod transaction;
mod writes;

pub use engine::ColumnFamilyMetaData;
pub use iterators::Snapshot;
use transaction::Transactions;
pub use transaction::{Transaction, TransactionSettings};

use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::audit::Refutation;
use super::bell::{Bell, LONG};
use super::column::Column;
use super::columns::Columns;
use super::options::{SieveOptions, segment_part};
use super::scrub::{ScrubLog, Scrubbed};
use super::shelf::Shelf;
use super::trust::Trust;
use super::upkeep::room;
use super::{Engine, UpkeepFailed};
use crate::hash::KeyHasher;
use crate::math::{Bits, Items, Rate};
use crate::planted::planted;
use crate::segment::Registry;
use crate::stats::Stats;

/// How long a wait goes on before it asks whether it should.
const PATIENCE: Duration = Duration::from_millis(100);

/// A RocksDB whose misses are answered by filters before the engine is entered.
///
/// Every write, by whatever way it reaches a memtable, is in the filters before it is visible.
/// A filter that is missing, damaged or still being made answers *maybe*, and the engine is asked.
///
/// Dropping the database ends its upkeep and saves the summaries; a process that is killed loses
/// nothing but the time to read the tables that came since the last save.
///
/// # In the place of `rocksdb::DB`
///
/// It is shared by reference or in an [`Arc`], as a `DB` in `rocksdb`'s `MultiThreaded` mode is, and its
/// methods have the names and arguments of `DB`'s. What differs:
///
/// - Opening takes [`SieveOptions`] too, and its error is an [`OpenError`](super::OpenError), whose
///   variant `Engine` holds RocksDB's. Families come as pairs of name and options
///   ([`SieveDb::open_cf_with_opts`]), since a `ColumnFamilyDescriptor` hides its options; those that the
///   database was opened with last come so from [`SieveDb::latest_options`]. Where only names are given ([`SieveDb::open_cf`]), families have the options of the database, not the defaults.
/// - Iterators are over [`Engine`]; a [`Snapshot`] is over the database, and its own reads ask the filters.
/// - Checkpoints, backups and sums of memory are made by methods here ([`SieveDb::checkpoint`],
///   [`SieveDb::create_new_backup_flush`], [`SieveDb::add_to_memory_usage`]).
/// - Transactions are those of an `OptimisticTransactionDB` or of a `TransactionDB`, and need no other type of
///   database ([`SieveDb::transaction`]). They go with no timestamps and no time to live.
/// - What else has no method is done by [`SieveDb::with_engine`].
pub struct SieveDb {
    /// Before `engine`, which it keeps open.
    transactions: Option<Transactions>,
    engine: Arc<Engine>,
    default: Arc<Column>,
    columns: Arc<Columns>,
    registry: Arc<Registry>,
    shelf: Arc<Shelf>,
    trust: Arc<Trust>,
    scrubs: Arc<ScrubLog>,
    bell: Arc<Bell>,
    hasher: KeyHasher,
    options: SieveOptions,
    upkeep: Option<JoinHandle<()>>,
    /// Held while a family is made or dropped: a front goes with the family of its name.
    families: Mutex<()>,
}

impl SieveDb {
    /// What the filters of all column families did so far.
    pub fn stats(&self) -> Stats {
        let stats = self.columns.all().into_iter().map(|column| column.stats());
        stats.fold(Stats::default(), |sum, stats| sum + stats)
    }

    /// What the filters of one column family did so far; `None` when no such family has a front.
    pub fn stats_cf(&self, name: &str) -> Option<Stats> {
        let columns = self.columns.all();
        let column = columns.iter().find(|column| column.name() == name);
        column.map(|column| column.stats())
    }

    /// Reads every filter in memory and drops those that have changed since they were made; what
    /// is dropped is made anew. Returns what this call read and found, once upkeep is done with what it was
    /// at.
    ///
    /// # Errors
    /// When upkeep could not finish what it does besides.
    pub fn scrub(&self) -> Result<Scrubbed, UpkeepFailed> {
        let before = self.scrubbed();
        let ticket = self.bell.call(|calls| calls.scrub = true);
        let failure = self.bell.wait_for(ticket, LONG);
        failure.map_or_else(
            || Ok(self.scrubbed() - before),
            |reason| Err(UpkeepFailed(reason)),
        )
    }

    /// What scrubbing has read and found since the database was opened.
    pub fn scrubbed(&self) -> Scrubbed {
        self.scrubs.so_far()
    }

    /// What ended the trust in the filters: an audit that found a key which a filter had ruled out.
    /// Every look-up goes to the engine then. To open the database again makes all filters anew,
    /// with another seed; frozen filters are believed again, until their folder is removed.
    pub fn refutation(&self) -> Option<Refutation> {
        self.trust.lost().cloned()
    }

    /// Waits until upkeep has seen to all tables once, at most `limit`; returns whether it has: the
    /// sidecars that are there are loaded, and what was missing is read, if it could be.
    pub fn wait_until_known(&self, limit: Duration) -> bool {
        let ticket = self.bell.call(|calls| calls.retry = true);
        self.bell.is_answered(ticket, limit)
    }

    /// [`SieveDb::wait_until_known`], given up when `go_on`, which is asked several times a second,
    /// says so.
    pub fn wait_until_known_while(&self, limit: Duration, mut go_on: impl FnMut() -> bool) -> bool {
        let deadline = Instant::now() + limit.min(LONG);
        let ticket = self.bell.call(|calls| calls.retry = true);
        while !self.bell.is_answered(ticket, PATIENCE) {
            if Instant::now() >= deadline || !go_on() {
                return false;
            }
        }
        true
    }

    /// Waits until the summaries speak for every table, at most `limit`; returns whether they do. Where they
    /// will not, as [`FamilyHealth::without_id`](crate::FamilyHealth::without_id) says or because frozen filters
    /// take no keys, it does not wait for that.
    pub fn wait_until_covered(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit.min(LONG);
        let mut asked = false;
        loop {
            let passes = self.bell.passes();
            let columns = self.columns.all();
            if columns.iter().all(|column| column.is_settled()) {
                return true;
            }
            if self.columns.one_has_given_up() {
                return false;
            }
            if columns.iter().any(|column| column.has_given_up()) {
                // Its family was dropped since they were listed.
                continue;
            }
            let none_is_read = self.options.is_frozen() && !self.options.is_secondary();
            let is_final =
                |column: &Arc<Column>| column.is_settled() || column.stays_uncovered(none_is_read);
            if columns.iter().all(is_final) && !planted!(WaitsForUnidentified) {
                return false;
            }
            let Some(left) = deadline.checked_duration_since(Instant::now()) else {
                return false;
            };
            // What fails is tried at once, and again in its time.
            if !std::mem::replace(&mut asked, true) {
                self.bell.call(|calls| calls.retry = true);
            }
            self.bell.wait_past(passes, left);
        }
    }

    /// Makes one summary of the right size for each column family, rebuilds segment filters of
    /// another rate, and waits for it, however long it takes to read all keys. Readers and writers go on; memtables are flushed. Where the
    /// budget has no room for a summary of that size, the one that is there stays.
    ///
    /// # Errors
    /// When it could not be finished, as where a flush would wait for compactions that do not come to an
    /// end; the filters stay as they were, and true, and upkeep tries again later.
    pub fn consolidate(&self) -> Result<(), UpkeepFailed> {
        if let Some(reason) = self.why_nothing_is_made() {
            return Err(UpkeepFailed(reason.to_owned()));
        }
        let ticket = self.bell.call(|calls| calls.consolidate = true);
        self.bell
            .wait_for(ticket, LONG)
            .map_or(Ok(()), |reason| Err(UpkeepFailed(reason)))
    }

    fn why_nothing_is_made(&self) -> Option<&'static str> {
        if self.options.is_frozen() {
            Some("the filters are frozen; open the database to write, without `frozen`")
        } else if self.trust.lost().is_some() {
            Some("an audit refuted the filters; open the database again")
        } else if self.columns.one_has_given_up() {
            Some("a hook failed, and keys may have been missed; open the database again")
        } else {
            None
        }
    }

    /// Changes the rate of all filters, as [`SieveOptions::rate`] sets it. They are rebuilt in the
    /// background, from the keys of the tables as they are; no table is rewritten.
    /// [`SieveDb::consolidate`] waits for it. What is below [`SieveOptions::LEAST_RATE`] counts as that.
    pub fn set_rate(&self, rate: Rate) {
        let rate = Rate::clamped(rate.get().max(SieveOptions::LEAST_RATE));
        self.columns.set_summary_rate(rate);
        for column in self.columns.all() {
            let segments = column.segment_rate().map(|_| segment_part(rate));
            column.set_segment_rate(segments);
        }
        if !planted!(NoWakeAfterSetRate) {
            self.bell.call(|calls| calls.consolidate = true);
        }
    }

    /// The settings with the rates of now, which may not be those of the open.
    fn settings(&self) -> SieveOptions {
        let settings = self.options.clone();
        settings
            .summary_rate(self.columns.summary_rate())
            .segment_rate(self.default.segment_rate())
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What a table's filter of so many keys takes.
    pub(crate) fn segment_size(&self, keys: Items, rate: Rate) -> Bits {
        self.options.segment_size(keys, rate)
    }

    pub(crate) fn budget(&self) -> Option<Bits> {
        self.options.get_memory_budget()
    }

    /// Memory that a filter may take which takes `own` of it now.
    pub(crate) fn room(&self, own: Bits) -> Bits {
        room(&self.options, &self.columns, &self.registry, own)
    }

    pub(crate) fn columns(&self) -> &Columns {
        &self.columns
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(crate) fn shelf(&self) -> &Shelf {
        &self.shelf
    }

    #[cfg(test)]
    pub(crate) fn shared_columns(&self) -> Arc<Columns> {
        Arc::clone(&self.columns)
    }

    #[cfg(test)]
    pub(crate) fn shared_registry(&self) -> Arc<Registry> {
        Arc::clone(&self.registry)
    }

    #[cfg(test)]
    pub(crate) fn shared_bell(&self) -> Arc<Bell> {
        Arc::clone(&self.bell)
    }
}

impl Drop for SieveDb {
    fn drop(&mut self) {
        self.bell.call(|calls| calls.stop = true);
        if planted!(EndsBesideUpkeep) {
            self.engine.cancel_all_background_work(false);
        }
        // Before the engine's own flush at its end: see upkeep's.
        if let Some(upkeep) = self.upkeep.take()
            && upkeep.join().is_err()
        {
            tracing::error!("upkeep ended in a panic; filters are remade at the next open");
        }
        // A block cache of the user's may keep readers of our filters, and lend them to the next
        // front of these tables, which could neither check nor drop them.
        self.columns.all().iter().for_each(|column| column.retire());
        self.registry.distrust();
    }
}

const _: fn() = || {
    fn may_be_shared<T: Send + Sync>() {}
    may_be_shared::<SieveDb>();
};

impl std::fmt::Debug for SieveDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SieveDb")
            .field("path", &self.path())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rocksdb::{DB, Options};

    use super::*;
    use crate::rocks::held::Held;

    /// The engine's end lets a flush of upkeep's fail; with `atomic_flush` its own would run beside that.
    #[test]
    fn the_engine_does_not_end_while_upkeep_flushes() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let held = Held::flushes_of(&mut options);
        let db = SieveDb::open(&options, &SieveOptions::default(), home.path()).unwrap();
        let held = held;
        assert!(db.wait_until_covered(LONG));
        Held::write(&db);
        db.set_rate(Rate::ONE_PERCENT);
        held.wait();
        thread::scope(|scope| {
            let closing = scope.spawn(|| drop(db));
            // For what must not happen meanwhile.
            thread::sleep(Duration::from_millis(200));
            held.let_go();
            closing.join().unwrap();
        });
        let tables = DB::open_for_read_only(&options, home.path(), false);
        let tables = tables.unwrap().live_files().unwrap();
        assert_eq!(tables.len(), 1, "the flush came to its end");
    }
}
