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
use crate::math::Items;
use crate::planted::planted;
use crate::rocks::column::{Column, Epoch};
use crate::rocks::coverage::Coverage;
use crate::rocks::ffi::{self, LiveTable};
use crate::rocks::options::HEADROOM;
use crate::rocks::setback::Setback;
use crate::segment::SegmentId;

/// Stages that a summary may grow to while writers are busy; each is one cache line of a miss.
const BUSY_STAGES: usize = 6;

/// How often upkeep looks whether a flush would still wait, or is done.
const A_MOMENT: Duration = Duration::from_millis(20);

/// Looks at flushes that do not end, a second for each request of one's own, three in all.
const LOOKS: u32 = 150;
const LOOKS_A_REQUEST: u32 = 50;

impl Upkeep {
    pub(super) fn consolidation_is_due(&self, column: &Column, quiet: bool) -> bool {
        // A summary that the budget keeps from the promised rate would come out the same again.
        if self.options.is_frozen() || column.is_consolidated(self.engine.latest_sequence_number())
        {
            return false;
        }
        let view = column.view();
        let stages = view.summary.stages();
        let wrong_rate = view.summary.predicted_rate() > self.columns.summary_rate().get() * 1.01;
        column.is_settled()
            && (stages > BUSY_STAGES || (quiet && (stages > 1 || wrong_rate)))
            && !self.flush_would_wait(column)
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
        let sequence = self.engine.latest_sequence_number();
        column.note_consolidated(None);
        let old = Arc::clone(&column.view().summary);
        let new = Arc::new(self.new_summary(column, &old)?);
        if new.is_saturated() && column.is_settled() && !planted!(SaturatedForSaturated) {
            // The budget has no room for another one: whatever the old one denies, it denies for less.
            column.note_consolidated(Some(sequence));
            return Ok(());
        }
        if planted!(OldSummaryStarved) {
            column.retarget(vec![Arc::clone(&new)]);
        } else {
            column.retarget(vec![Arc::clone(&old), Arc::clone(&new)]);
        }
        let outcome = self.fill_and_swap(column, &new, setback);
        let kept = if outcome.is_ok() { new } else { old };
        column.retarget(vec![kept]);
        if outcome.is_ok() {
            column.note_consolidated(Some(sequence));
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
        let keys = if column.is_settled() && !old.is_saturated() {
            entries.min(old.estimated_items().get())
        } else {
            entries
        };
        let room = (keys as f64 * HEADROOM) as u64;
        let options = self
            .options
            .clone()
            .summary_rate(self.columns.summary_rate());
        let others = self.columns.size_without(Some(column));
        Ok(Scalable::new(
            column.hasher().imprint().remixed(),
            options.summary(Items::new(room), others),
        ))
    }

    /// What tables and memtables hold, each version of a key by itself.
    fn entries(&self, column: &Column) -> Result<u64, UpkeepError> {
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
        if column.memtables().write_past(new) && !planted!(SwappedWithoutFlush) {
            return Err(UpkeepError::OldMemtables(column.name().to_owned()));
        }
        let (epoch, tables) = self.absorb_all(column, new, setback)?;
        let (unread, read): (Vec<_>, Vec<_>) = tables
            .iter()
            .partition(|table| setback.leaves_alone(&table.path));
        let covers: HashSet<SegmentId> = read.iter().filter_map(|table| table.id()).collect();
        let (summary, known) = (Arc::clone(new), column.covers());
        let published = if unread.is_empty() {
            column.publish(epoch, summary, Coverage::complete(), covers)
        } else if let Some(needed) = unread.iter().find(|table| is_covered(table, &known)) {
            let path = needed.path.clone();
            return Err(UpkeepError::Needed { path });
        } else {
            self.publish_partial(column, epoch, summary, covers, &tables)
        };
        published.then_some(()).ok_or(UpkeepError::Overtaken)
    }

    /// Turns the memtables that do not feed this summary into tables, as soon as that slows no writer.
    ///
    /// Never beside an ingestion's flush, nor beside one of several families or the engine's own at its
    /// end: with `atomic_flush`, RocksDB 11.8.1 may take the end of one flush for that of another, and
    /// then refuses the ingestion, or goes on without what is in no log.
    fn flush(&self, column: &Column, new: &Arc<Scalable>) -> Result<(), UpkeepError> {
        let mut looks = 0..LOOKS;
        // A checkpoint may take long, and upkeep has other work.
        while self.flush_would_wait(column)
            || (self.columns.are_flushed() && looks.next().is_some())
        {
            if self.bell.stops_within(A_MOMENT) {
                return Err(UpkeepError::Stopped);
            }
        }
        let handle = self.handle(column)?;
        let flush = || ffi::flush(&handle).and_then(|()| self.flushed(&handle, column, new));
        let flushed = self.columns.between_arrivals(flush);
        let flushed = flushed.ok_or(UpkeepError::Overtaken)?;
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
    fn flushed(
        &self,
        handle: &Arc<BoundColumnFamily<'_>>,
        column: &Column,
        new: &Arc<Scalable>,
    ) -> Result<(), String> {
        for look in 1..=LOOKS {
            if !column.memtables().write_past(new) || self.bell.stops_within(A_MOMENT) {
                break;
            }
            if look % LOOKS_A_REQUEST == 0 {
                ffi::flush(handle)?;
            }
        }
        Ok(())
    }

    /// Reads all live tables into a summary, until one listing holds none that was neither read nor
    /// set aside.
    fn absorb_all(
        &self,
        column: &Column,
        summary: &Scalable,
        setback: &mut Setback,
    ) -> Result<(Epoch, Vec<LiveTable>), UpkeepError> {
        let mut read: HashSet<String> = HashSet::new();
        loop {
            let epoch = column.epoch();
            let tables = self.list(column)?;
            let mut all_there = true;
            for table in &tables {
                if read.contains(&table.path) || setback.leaves_alone(&table.path) {
                    continue;
                }
                match self.absorb(column, table, summary) {
                    Ok(()) => _ = read.insert(table.path.clone()),
                    Err(error) => all_there = self.set_aside(column, table, error, setback)?,
                }
                if !all_there {
                    break;
                }
            }
            if all_there {
                return Ok((epoch, tables));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use rocksdb::Options;

    use crate::rocks::inventory::Inventory;
    use crate::rocks::{SieveDb, SieveOptions};

    /// Each left two generations that no memtable feeds any more, and that every second look asked.
    #[test]
    fn consolidations_that_fail_leave_no_generations_behind() {
        const KEYS: u32 = 5_000;
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let db = SieveDb::open(&options, &SieveOptions::default(), home.path()).unwrap();
        (0..KEYS).for_each(|i| db.put(i.to_be_bytes(), b"value").unwrap());
        db.flush().unwrap();
        db.consolidate().unwrap();
        let column = db.columns().all().remove(0);
        let generations = || column.view().inventory.as_ref().map(Inventory::generations);
        assert_eq!(generations(), Some(1));

        let table = &db.live_files().unwrap()[0].name;
        let path = home.path().join(table.trim_start_matches('/'));
        let file = std::fs::File::options().write(true).open(&path).unwrap();
        let middle = file.metadata().unwrap().len() / 2;
        file.write_all_at(&[0xee; 64], middle).unwrap();
        for _ in 0..5 {
            assert!(db.consolidate().is_err(), "the table cannot be read");
        }
        assert_eq!(generations(), Some(1));
        assert!(db.answer((KEYS + 1).to_be_bytes()).is_absent());
    }
}
