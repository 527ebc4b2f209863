//! One summary of the right size in the place of a grown one, without a stop: new memtables feed it
//! beside the old one, a flush turns all other memtables into tables, the tables are read, and the
//! view is swapped.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use rocksdb::BoundColumnFamily;
use rocksdb::properties::{NUM_ENTRIES_ACTIVE_MEM_TABLE, NUM_ENTRIES_IMM_MEM_TABLES};

use super::coverage::is_covered;
use super::{Upkeep, UpkeepError};
use crate::filter::Scalable;
use crate::hash::KeyHash;
use crate::math::Items;
use crate::planted::planted;
use crate::rocks::column::{Column, Epoch};
use crate::rocks::coverage::Coverage;
use crate::rocks::ffi::{self, LiveTable};
use crate::rocks::options::SieveOptions;
use crate::rocks::setback::Setback;
use crate::segment::SegmentId;

/// All live tables of a family in one epoch.
pub(super) struct Absorbed {
    epoch: Epoch,
    /// Those whose keys were read.
    pub(super) read: Vec<LiveTable>,
    /// Those that could not be.
    set_aside: Vec<LiveTable>,
}

impl Absorbed {
    /// Errs where a table could not be read whose keys the summary of now has.
    pub(super) fn lacks_nothing_known(&self, column: &Column) -> Result<(), UpkeepError> {
        let known = column.covers();
        let needed = |table: &&LiveTable| is_covered(table, &known);
        match self.set_aside.iter().find(needed) {
            None => Ok(()),
            Some(table) => Err(UpkeepError::Needed {
                path: table.path.clone(),
            }),
        }
    }
}

/// Stages that a summary may grow to while writers are busy; each is one cache line of a miss.
const BUSY_STAGES: usize = 6;

/// How often upkeep looks whether a flush would still wait, or is done.
const A_MOMENT: Duration = Duration::from_millis(20);

/// Looks at flushes that do not end, a second for each request of one's own, three in all.
const LOOKS: u32 = 150;
const LOOKS_A_REQUEST: u32 = 50;

/// And at compactions that a flush would wait for, ten seconds: they may have stopped for good.
const LOOKS_AT_COMPACTIONS: u32 = 500;

impl Upkeep {
    /// A secondary may not: it cannot flush the memtables that feed the summary of before.
    pub(super) fn may_consolidate(&self) -> bool {
        !self.options.is_frozen()
    }

    pub(super) fn consolidation_is_due(&self, column: &Column, quiet: bool) -> bool {
        let now = self.moment(column);
        // A summary that the budget keeps from the promised rate would come out the same again.
        if !self.may_consolidate() || !column.is_settled() || column.is_consolidated(now) {
            return false;
        }
        let summary = column.view().summary;
        let due = has_grown_beside_writers(&summary)
            || (quiet && self.would_be_better(&summary))
            || (summary.is_saturated() && self.has_room_again(column));
        if quiet && !due && !summary.is_saturated() {
            // Nor until something is written: an answer may take a listing of all tables.
            column.note_consolidated(Some(now));
        }
        due && !self.flush_would_wait(column)
    }

    /// Whether a summary made anew would take less, let less by, or be of the kind that is asked for.
    fn would_be_better(&self, summary: &Scalable) -> bool {
        if planted!(NoConsolidationAtPause) {
            return false;
        }
        let is_another_kind = self.options.has_static_filters() && !summary.begins_static();
        is_outgrown(summary, &self.summary_options())
            || (summary.items() > Items::new(0) && is_another_kind)
    }

    /// Whether the budget has room for all keys of a summary that ran out of it, and for a quarter
    /// more: else the next one would soon run out as well.
    fn has_room_again(&self, column: &Column) -> bool {
        if planted!(NoConsolidationWhenRoomAgain) {
            return false;
        }
        let Some(budget) = self.filter_budget() else {
            return false;
        };
        let Ok(entries) = self.entries(column) else {
            return false;
        };
        let grown = Items::new(entries.saturating_add(entries / 4));
        let others = self.columns.size_of_summaries(Some(column));
        let options = self.summary_options();
        let needed = options.summary_size(grown);
        others + needed <= budget
    }

    /// The settings with the summaries' rate and the families of now.
    pub(super) fn summary_options(&self) -> SieveOptions {
        let options = self.options.clone();
        options
            .summary_rate(self.columns.summary_rate())
            .shared_by(self.columns.all().len())
            .beside_fronts(self.columns.size_of_fronts())
    }

    /// Whether a flush would wait for compactions. Nobody asked for the consolidation then, and
    /// upkeep has other work.
    pub(super) fn flush_would_wait(&self, column: &Column) -> bool {
        let handle = self.handle(column);
        handle.is_ok_and(|handle| ffi::flush_would_wait(&handle))
    }

    /// Makes one summary of the right size while readers and writers go on.
    pub(super) fn consolidate(
        &self,
        column: &Column,
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        let now = self.moment(column);
        column.note_consolidated(None);
        let old = Arc::clone(&column.view().summary);
        let new = Arc::new(self.new_summary(column, &old)?);
        if new.is_saturated() && column.is_settled() && !planted!(SaturatedForSaturated) {
            // The budget has no room for another one: whatever the old one denies, it denies for less. One
            // that denies nothing keeps the tables' filters out of the budget.
            column.note_consolidated(Some(now));
            if old.is_saturated() && column.drop_summary() {
                self.bell.ring();
            }
            return Ok(());
        }
        if planted!(OldSummaryStarved) {
            column.retarget(vec![Arc::clone(&new)]);
        } else {
            column.retarget(vec![Arc::clone(&old), Arc::clone(&new)]);
        }
        let outcome = self.fill_and_swap(column, &new, setback);
        let kept = if outcome.is_ok() || planted!(UnfinishedSummaryFed) {
            new
        } else {
            Arc::clone(&old)
        };
        column.retarget(vec![kept]);
        if outcome.is_ok() {
            column.note_consolidated(Some(now));
            tracing::info!(
                column = column.name(),
                items = column.view().summary.items().get(),
                "consolidated the summary"
            );
            self.save_summary(column);
        }
        outcome
    }

    fn new_summary(&self, column: &Column, old: &Scalable) -> Result<Scalable, UpkeepError> {
        let entries = self.entries(column)?;
        // A settled summary has taken every key once, unless it ran out of room; tables count each
        // version. At loose rates its own count is short of the keys that changed no bit of it.
        let options = self.summary_options();
        let keys = if column.is_settled() && !old.is_saturated() {
            entries.min(old.estimated_items().get())
        } else {
            entries
        };
        let (keys, others) = (
            Items::new(keys),
            self.columns.size_of_summaries(Some(column)),
        );
        let imprint = column.hasher().imprint().remixed();
        Ok(if options.has_static_filters() {
            let size = options.summary_size(keys);
            Scalable::awaiting(imprint, options.static_summary(keys, others), size)
        } else {
            Scalable::new(imprint, options.summary(options.with_room(keys), others))
        })
    }

    /// What tables and memtables hold, each version of a key by itself.
    pub(super) fn entries(&self, column: &Column) -> Result<u64, UpkeepError> {
        let handle = self.handle(column)?;
        let in_memory = [NUM_ENTRIES_ACTIVE_MEM_TABLE, NUM_ENTRIES_IMM_MEM_TABLES]
            .map(|name| self.engine.property_int_value_cf(&handle, name));
        let in_memory = in_memory.into_iter().filter_map(|n| n.ok().flatten());
        let tables = self.list(column)?;
        Ok(in_memory
            .chain(tables.iter().map(|table| table.entries))
            .sum())
    }

    fn fill_and_swap(
        &self,
        column: &Column,
        new: &Arc<Scalable>,
        setback: &mut Setback,
    ) -> Result<(), UpkeepError> {
        if !planted!(SwappedWithoutFlush) {
            self.flush(column, new)?;
        }
        let overlooked = planted!(SwappedWithoutFlush) || planted!(OldMemtablesOverlooked);
        if column.memtables().some_do_not_feed(new) && !overlooked {
            return Err(UpkeepError::OldMemtables(column.name().to_owned()));
        }
        let mut absorbed = if new.awaits() {
            self.complete(column, new, setback)?
        } else {
            self.absorb_into(new, column, setback, HashSet::new())?
        };
        // What came from outside meanwhile is read as well, and not all again.
        let mut looks = 0..LOOKS;
        while !self.publish_absorbed(column, new, &absorbed)? {
            if column.has_given_up() || looks.next().is_none() || planted!(ArrivalsBeginAnew) {
                return Err(UpkeepError::Overtaken);
            }
            if self.bell.stops_within(A_MOMENT) {
                return Err(UpkeepError::Stopped);
            }
            let read = absorbed.read.into_iter().map(|table| table.path);
            absorbed = self.absorb_into(new, column, setback, read.collect())?;
        }
        Ok(())
    }

    /// Lets readers ask a summary that has these tables' keys, unless keys came from outside since they were
    /// listed. Returns whether it did.
    fn publish_absorbed(
        &self,
        column: &Column,
        new: &Arc<Scalable>,
        absorbed: &Absorbed,
    ) -> Result<bool, UpkeepError> {
        let Absorbed {
            epoch,
            read,
            set_aside,
        } = absorbed;
        let covers: HashSet<SegmentId> = read.iter().filter_map(LiveTable::id).collect();
        let summary = Arc::clone(new);
        if set_aside.is_empty() {
            return Ok(column.publish(*epoch, summary, Coverage::Complete, covers));
        }
        absorbed.lacks_nothing_known(column)?;
        Ok(self.publish_partial(column, *epoch, summary, covers, set_aside))
    }

    /// Turns the memtables that do not feed this summary into tables, as soon as that slows no writer.
    ///
    /// Never beside an ingestion's flush, nor beside one of several families or the engine's own at its
    /// end: with `atomic_flush`, RocksDB 11.8.1 may take the end of one flush for that of another, and
    /// then refuses the ingestion, or goes on without what is in no log.
    fn flush(&self, column: &Column, new: &Arc<Scalable>) -> Result<(), UpkeepError> {
        let mut looks = 0..LOOKS;
        let mut looks_at_compactions = 0..LOOKS_AT_COMPACTIONS;
        // A checkpoint may take long, and upkeep has other work.
        while self.flush_would_wait(column)
            || (self.columns.engine_is_flushing()
                && (looks.next().is_some() || planted!(CheckpointAwaited)))
        {
            if self.bell.stops_within(A_MOMENT) {
                return Err(UpkeepError::Stopped);
            }
            if looks_at_compactions.next().is_none() && !planted!(WaitsForEver) {
                return Err(UpkeepError::Flush {
                    column: column.name().to_owned(),
                    reason: "it would wait for compactions, which do not come to an end".to_owned(),
                });
            }
        }
        let handle = self.handle(column)?;
        let flush =
            || ffi::flush(&handle).and_then(|()| self.wait_until_flushed(&handle, column, new));
        let mut looks = 0..LOOKS;
        let flushed = loop {
            if let Some(flushed) = self.columns.between_arrivals(flush) {
                break flushed;
            }
            if looks.next().is_none() || planted!(ArrivalsBeginAnew) {
                return Err(UpkeepError::Overtaken);
            }
            if self.bell.stops_within(A_MOMENT) {
                return Err(UpkeepError::Stopped);
            }
        };
        flushed.map_err(|reason| UpkeepError::Flush {
            column: column.name().to_owned(),
            reason,
        })
    }

    /// Waits until all memtables feed this summary, for a while.
    ///
    /// Where a flush takes several memtables (`min_write_buffer_number_to_merge`), RocksDB 11.8.1 may
    /// drop the request for one that comes beside another, and let those wait for ever who wait for it:
    /// so it is asked for again and again.
    fn wait_until_flushed(
        &self,
        handle: &Arc<BoundColumnFamily<'_>>,
        column: &Column,
        new: &Arc<Scalable>,
    ) -> Result<(), String> {
        for look in 1..=LOOKS {
            if !column.memtables().some_do_not_feed(new) || self.bell.stops_within(A_MOMENT) {
                break;
            }
            if look % LOOKS_A_REQUEST == 0 {
                ffi::flush(handle)?;
            }
        }
        Ok(())
    }

    /// Brings the keys of all live tables into a summary, but of those at the paths that were `read` before.
    pub(super) fn absorb_into(
        &self,
        new: &Scalable,
        column: &Column,
        setback: &mut Setback,
        read: HashSet<String>,
    ) -> Result<Absorbed, UpkeepError> {
        let insert = |_: &LiveTable, keys: &[KeyHash]| new.insert_many(keys);
        self.absorb_all(column, setback, read, insert)
    }

    /// Gives a summary's hashes of the keys of all live tables to `take`, but of those at the paths that were
    /// `read` before, until one listing holds none that was neither read nor set aside; `take` may have been given
    /// some keys of a table that is set aside.
    pub(super) fn absorb_all(
        &self,
        column: &Column,
        setback: &mut Setback,
        mut read: HashSet<String>,
        mut take: impl FnMut(&LiveTable, &[KeyHash]),
    ) -> Result<Absorbed, UpkeepError> {
        loop {
            let (epoch, tables) = self.list_in_epoch(column)?;
            let mut all_there = true;
            for table in &tables {
                if read.contains(&table.path) || setback.leaves_alone(&table.path) {
                    continue;
                }
                if self.bell.stopping() {
                    return Err(UpkeepError::Stopped);
                }
                match self.absorb(column, table, |keys| take(table, keys)) {
                    Ok(()) => _ = read.insert(table.path.clone()),
                    Err(error) => all_there = self.set_aside(column, table, error, setback)?,
                }
                if !all_there {
                    break;
                }
            }
            if all_there {
                let (read, set_aside) = tables
                    .into_iter()
                    .partition(|table| read.contains(&table.path));
                return Ok(Absorbed {
                    epoch,
                    read,
                    set_aside,
                });
            }
        }
    }
}

/// Whether a summary has grown so much that it is made anew even beside busy writers.
fn has_grown_beside_writers(summary: &Scalable) -> bool {
    if planted!(NoConsolidationBesideWriters) {
        return false;
    }
    summary.stages() > BUSY_STAGES
}

/// Whether a summary lets more by than was promised, or takes a third more memory than one of the
/// right size: with second stages a quarter of the first, all keys are read once for each quarter more.
fn is_outgrown(summary: &Scalable, options: &SieveOptions) -> bool {
    if summary.predicted_rate() > options.get_summary_rate().get() * 1.01 {
        return true;
    }
    // A static stage takes no keys: the one beside it was planned when it was made.
    let planned = if summary.begins_static() { 2 } else { 1 };
    summary.stages() > planned && {
        let right = options.size_of_kind(summary.begins_static(), summary.items());
        summary.size().get() > right.get() + right.get() / 3
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use std::sync::mpsc;
    use std::thread;
    use std::time::{Duration, Instant};

    use rocksdb::{Options, SstFileWriter};

    use super::is_outgrown;
    use crate::filter::naive::{hashes, imprint};
    use crate::filter::{Scalable, Stage};
    use crate::math::{Bits, Items};
    use crate::rocks::held::Held;
    use crate::rocks::inventory::Inventory;
    use crate::rocks::{SieveDb, SieveOptions};

    const KEYS: u32 = 5_000;
    const PATIENCE: Duration = Duration::from_secs(20);

    /// A consolidated database of one table.
    fn consolidated(path: &Path) -> SieveDb {
        let mut options = Options::default();
        options.create_if_missing(true);
        let sieve = SieveOptions::default().audit(0);
        let db = SieveDb::open(&options, &sieve, path).unwrap();
        (0..KEYS).for_each(|i| db.put(i.to_be_bytes(), b"value").unwrap());
        db.flush().unwrap();
        db.consolidate().unwrap();
        db
    }

    fn damage_the_table(db: &SieveDb) {
        let table = &db.live_files().unwrap()[0].name;
        let path = db.path().join(table.trim_start_matches('/'));
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let middle = file.metadata().unwrap().len() / 2;
        file.write_all_at(&[0xee; 64], middle).unwrap();
    }

    /// With stages that double, the first key past the headroom would treble the memory, and all keys
    /// would be read again for each fiftieth more.
    #[test]
    fn a_large_summary_is_outgrown_by_a_quarter_of_its_keys_and_not_before() {
        const FIRST: u64 = 4_000_000;
        let options = SieveOptions::default();
        let summary = options.summary(Items::new(FIRST), Bits::new(0));
        let summary = Scalable::new(imprint(1), summary);
        let mut keys = hashes(1);
        let mut grow_to = |share: f64| {
            let more = (FIRST as f64 * share) as u64 - summary.items().get();
            keys.by_ref()
                .take(more as usize)
                .for_each(|key| summary.append(key));
            (summary.stages(), is_outgrown(&summary, &options))
        };
        assert_eq!(grow_to(0.99), (1, false));
        assert_eq!(grow_to(1.03), (2, false));
        assert_eq!(grow_to(1.20), (2, false));
        assert_eq!(grow_to(1.30), (3, true));
    }

    /// The first key and a pause would have all keys read again, for ever.
    #[test]
    fn a_static_summary_is_outgrown_by_a_quarter_of_its_keys_and_not_by_the_first() {
        const FIRST: u64 = 1_200_000;
        let options = SieveOptions::default().static_filters(true);
        let rate = options.first_rate();
        let keys = Items::new(FIRST);
        let size = options.summary_size(keys);
        let summary = options.static_summary(keys, Bits::new(0));
        let summary = Scalable::awaiting(imprint(1), summary, size);
        let mut keys = hashes(1);
        let first = keys.by_ref().take(FIRST as usize);
        summary.complete(Stage::ribbon(first.collect(), rate).unwrap());
        let mut grow_by = |more: u64| {
            let more = keys.by_ref().take(more as usize);
            more.for_each(|key| summary.append(key));
            (summary.stages(), is_outgrown(&summary, &options))
        };
        assert_eq!(grow_by(0), (1, false));
        assert_eq!(grow_by(1), (2, false));
        assert_eq!(grow_by(FIRST / 5), (2, false));
        assert_eq!(grow_by(FIRST / 10), (3, true));
    }

    /// Readers go on with the old summary, and so must writers.
    #[test]
    fn consolidations_that_fail_leave_writers_their_summary() {
        let home = tempfile::tempdir().unwrap();
        let db = consolidated(home.path());
        damage_the_table(&db);
        assert!(db.consolidate().is_err(), "the table cannot be read");
        db.put(b"written since", b"value").unwrap();
        assert!(!db.answer(b"written since").is_absent());
    }

    /// Each left two generations that no memtable feeds any more, and that every second look asked.
    #[test]
    fn consolidations_that_fail_leave_no_generations_behind() {
        let home = tempfile::tempdir().unwrap();
        let db = consolidated(home.path());
        let column = db.columns().all().remove(0);
        let generations = || column.view().inventory.as_ref().map(Inventory::generations);
        assert_eq!(generations(), Some(1));

        damage_the_table(&db);
        for _ in 0..5 {
            assert!(db.consolidate().is_err(), "the table cannot be read");
        }
        assert_eq!(generations(), Some(1));
        assert!(db.answer((KEYS + 1).to_be_bytes()).is_absent());
    }

    /// What they hold is in no table, and nothing has told the new summary of it.
    #[test]
    fn memtables_that_outlast_a_flush_keep_the_summary_that_they_feed() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        // Then nobody but upkeep waits for a flush, and upkeep not for ever.
        options.set_min_write_buffer_number_to_merge(2);
        options.set_max_write_buffer_number(6);
        let held = Held::flushes_of(&mut options);
        let db = SieveDb::open(&options, &SieveOptions::default(), home.path()).unwrap();
        let _held = held;
        assert!(db.wait_until_covered(PATIENCE));
        Held::write(&db);
        let refused = db.consolidate().unwrap_err().to_string();
        assert!(
            refused.contains("memtables still feed the old"),
            "{refused}"
        );
        assert!(!db.answer(Held::KEY).is_absent());
        // Nor does another memtable feed the new one alone.
        db.put("later", "value").unwrap();
        assert!(!db.answer("later").is_absent());
    }

    fn wait_until(what: &str, is_so: impl Fn() -> bool) {
        let began = Instant::now();
        while !is_so() {
            assert!(began.elapsed() < PATIENCE, "{what}");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Files that overlap nothing leave the latest sequence number as it is.
    #[test]
    fn what_is_ingested_piece_by_piece_ends_in_one_stage() {
        const FILES: u32 = 12;
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let sieve = SieveOptions::default().expected_keys(Items::new(1_000));
        let db = SieveDb::open(&options, &sieve, home.path().join("db")).unwrap();
        let file = home.path().join("keys.sst");
        for number in 0..FILES {
            let mut writer = SstFileWriter::create(&options);
            writer.open(&file).unwrap();
            let keys = number * 1_000..(number + 1) * 1_000;
            keys.for_each(|key| writer.put(key.to_be_bytes(), b"value").unwrap());
            writer.finish().unwrap();
            db.ingest_external_file(vec![&file]).unwrap();
            assert!(db.wait_until_covered(PATIENCE));
        }
        let column = db.columns().all().remove(0);
        let holds_all = || column.view().summary.items() > Items::new(11_000);
        wait_until("one stage, of the right size", || {
            db.wait_until_covered(PATIENCE) && column.view().summary.stages() == 1 && holds_all()
        });
        (0..FILES * 1_000).for_each(|key| assert!(!db.answer(key.to_be_bytes()).is_absent()));
    }

    /// Else all tables were listed twice a second for as long as nothing is written.
    #[test]
    fn an_idle_database_is_not_asked_again() {
        let home = tempfile::tempdir().unwrap();
        drop(consolidated(home.path()));
        let sieve = SieveOptions::default().static_filters(true).audit(0);
        for sieve in [SieveOptions::default().audit(0), sieve] {
            let db = SieveDb::open(&Options::default(), &sieve, home.path()).unwrap();
            let column = db.columns().all().remove(0);
            let now = column.moment(db.latest_sequence_number());
            wait_until("at rest", || column.is_consolidated(now));
            assert_eq!(
                column.view().summary.begins_static(),
                sieve.has_static_filters()
            );
            assert!(!db.answer(7_u32.to_be_bytes()).is_absent());
        }
    }

    /// Beside which upkeep must not flush.
    #[test]
    fn upkeep_waits_for_a_long_checkpoint_no_longer_than_seconds() {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::open_default(home.path()).unwrap();
        let checkpoint = db.columns().flush_without_upkeep();
        let (done, ended) = mpsc::channel();
        let ended = thread::scope(|scope| {
            scope.spawn(|| done.send(db.consolidate()));
            let ended = ended.recv_timeout(PATIENCE);
            drop(checkpoint);
            ended
        });
        let refused = ended.expect("it ends beside the checkpoint").unwrap_err();
        assert!(refused.to_string().contains("meanwhile"), "{refused}");
        db.consolidate().unwrap();
    }
}
