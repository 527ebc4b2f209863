//! The static first stage of a summary: a filter of the keys of all live tables that later stages do not have.
//! The tables are read once for each part of the hashes that there is room for.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::consolidation::Absorbed;
use super::{Upkeep, UpkeepError};
use crate::filter::{RibbonBuilder, Scalable, Stage, StageError};
use crate::hash::KeyHash;
use crate::math::Rate;
use crate::planted::planted;
use crate::rocks::column::Column;
use crate::rocks::ffi::LiveTable;
use crate::rocks::setback::Setback;

impl Upkeep {
    /// Reads all live tables into the static first stage of a summary.
    pub(super) fn complete(
        &self,
        column: &Column,
        new: &Arc<Scalable>,
        setback: &mut Setback,
    ) -> Result<Absorbed, UpkeepError> {
        let entries = self.entries(column)?;
        let tables = self.list(column)?;
        let mut readings = Readings {
            upkeep: self,
            column,
            setback,
            new,
            parts: self.options.static_parts(entries),
            entries,
            rate: self.summary_options().first_rate(),
            first_listed: tables.iter().map(|table| &*table.path).collect(),
            last: None,
            for_all_parts: HashSet::new(),
        };
        new.complete(readings.make_filter()?);
        readings.conclude()
    }
}

/// Readings of all live tables, one for each part of the hashes.
struct Readings<'a> {
    upkeep: &'a Upkeep,
    column: &'a Column,
    setback: &'a mut Setback,
    /// The summary, which memtables feed already.
    new: &'a Scalable,
    parts: NonZeroU64,
    entries: u64,
    rate: Rate,
    /// The paths of those that were there before the first reading.
    first_listed: HashSet<&'a str>,
    /// What the last reading found.
    last: Option<Absorbed>,
    /// The paths of those that were read for each part so far.
    for_all_parts: HashSet<String>,
}

impl Readings<'_> {
    fn make_filter(&mut self) -> Result<Stage, UpkeepError> {
        if self.parts.get() == 1 {
            let hashes = self.take(|_| true)?;
            return Stage::ribbon(hashes, self.rate).map_err(|source| self.no_stage(source));
        }
        let mut builder = RibbonBuilder::new(self.parts, self.rate);
        while !builder.is_complete() {
            let hashes = self.take(|hash| builder.is_next(hash))?;
            let added = builder.with_part(hashes);
            builder = added.map_err(|source| self.no_stage(source))?;
        }
        builder.finish().map_err(|source| self.no_stage(source))
    }

    /// Reads all live tables for a part; returns those of their keys' hashes that are `of_part`.
    ///
    /// Of tables that came since the first listing, keys that a later stage may have are left out: what is written
    /// and flushed meanwhile would be more than there is room for.
    fn take(&mut self, of_part: impl Fn(KeyHash) -> bool) -> Result<Vec<KeyHash>, UpkeepError> {
        let (column, new, first_listed) = (self.column, self.new, &self.first_listed);
        let no_room = |source| UpkeepError::Hashes {
            column: column.name().to_owned(),
            source,
        };
        let share = self.entries / self.parts;
        // Of one more than there is room for, all would be moved, and a part may have some more than its share.
        let room = share.saturating_add(share / 64);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut taken = Vec::new();
        taken.try_reserve_exact(room).map_err(no_room)?;
        let mut room = Ok(());
        let add = |table: &LiveTable, hashes: &[KeyHash]| {
            if room.is_ok() {
                room = taken.try_reserve(hashes.len());
            }
            if room.is_err() {
                return;
            }
            let is_whole = first_listed.contains(&*table.path);
            for &hash in hashes.iter().filter(|&&hash| of_part(hash)) {
                // A table has all versions of a key one after another.
                let is_same = taken.last() == Some(&hash);
                if !is_same && (is_whole || !new.may_have_in_a_stage(hash)) {
                    taken.push(hash);
                }
            }
        };
        let none = HashSet::new();
        let absorbed = self.upkeep.absorb_all(column, self.setback, none, add)?;
        room.map_err(no_room)?;
        // Else all other parts would be read in vain.
        absorbed.lacks_nothing_known(column)?;
        let is_first = self.last.is_none() || planted!(PartsOfTablesBelieved);
        let paths = absorbed.read.iter().map(|table| &table.path);
        let for_all = paths.filter(|&path| is_first || self.for_all_parts.contains(path));
        self.for_all_parts = for_all.cloned().collect();
        self.last = Some(absorbed);
        Ok(taken)
    }

    /// Whether a table was read for all parts.
    fn are_of(&self, table: &LiveTable) -> bool {
        self.for_all_parts.contains(&table.path)
    }

    /// Brings the keys of tables that came between two parts into the summary, whole.
    fn conclude(mut self) -> Result<Absorbed, UpkeepError> {
        match self.last.take() {
            Some(last) if last.read.iter().all(|table| self.are_of(table)) => Ok(last),
            _ => {
                let read = self.for_all_parts;
                self.upkeep
                    .absorb_into(self.new, self.column, self.setback, read)
            }
        }
    }

    fn no_stage(&self, source: StageError) -> UpkeepError {
        UpkeepError::Static {
            column: self.column.name().to_owned(),
            source,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use rocksdb::{Options, SstFileWriter};

    use crate::math::Items;
    use crate::rocks::{SieveDb, SieveOptions};

    const KEYS: u32 = 20_000;
    const PATIENCE: Duration = Duration::from_secs(20);

    fn settings() -> SieveOptions {
        SieveOptions::default().audit(0).static_filters(true)
    }

    /// A database of tables that overlap, whose summary is made of so many hashes at a time.
    fn filled(home: &std::path::Path, sieve: &SieveOptions, at_once: u64) -> SieveDb {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_disable_auto_compactions(true);
        let sieve = sieve.clone().hashes_at_once(at_once.try_into().unwrap());
        let db = SieveDb::open(&options, &sieve, home).unwrap();
        for table in 0..3 {
            let keys = (0..KEYS).filter(|key| key % 3 == table || key % 10 == 0);
            keys.for_each(|key| db.put(key.to_be_bytes(), "value").unwrap());
            db.flush().unwrap();
        }
        db
    }

    fn is_denied(db: &SieveDb, key: u32) -> bool {
        db.answer(key.to_be_bytes()).is_absent()
    }

    #[test]
    fn a_summary_that_is_made_in_parts_has_all_keys_once() {
        let sieve = settings();
        for at_once in [1 << 20, 7_000, 300] {
            let home = tempfile::tempdir().unwrap();
            let db = filled(home.path(), &sieve, at_once);
            db.consolidate().unwrap();
            let summary = db.columns().all().remove(0).view().summary;
            assert!(summary.begins_static() && summary.stages() == 1);
            assert_eq!(summary.items(), Items::new(KEYS.into()), "{at_once}");
            assert!(!(0..KEYS).any(|key| is_denied(&db, key)), "{at_once}");
            let absent = KEYS..2 * KEYS;
            let passing = absent.filter(|&key| !is_denied(&db, key)).count();
            assert!(passing < 200, "{passing} of {KEYS}");
            let read = |key: u32| db.get(key.to_be_bytes()).unwrap();
            assert!((0..KEYS).all(|key| read(key).is_some()));
        }
    }

    /// The parts of before have none of its keys.
    #[test]
    fn a_table_that_comes_between_two_parts_is_read_whole() {
        let sieve = settings();
        // Fewer than there is room for.
        const FILES: u32 = 12;
        const KEYS_A_FILE: u32 = 300;
        let home = tempfile::tempdir().unwrap();
        let db = filled(&home.path().join("db"), &sieve, 400);
        let ingest = |number: u32| {
            let file = home.path().join(format!("{number}.sst"));
            let options = Options::default();
            let mut writer = SstFileWriter::create(&options);
            writer.open(&file).unwrap();
            let first = KEYS + number * KEYS_A_FILE;
            let keys = first..first + KEYS_A_FILE;
            keys.for_each(|key| writer.put(key.to_be_bytes(), "value").unwrap());
            writer.finish().unwrap();
            db.ingest_external_file(vec![&file]).unwrap();
        };
        thread::scope(|scope| {
            let files = scope.spawn(|| {
                for number in 0..FILES {
                    ingest(number);
                    thread::sleep(Duration::from_millis(30));
                }
            });
            // Some are overtaken.
            while !files.is_finished() {
                drop(db.consolidate());
            }
        });
        assert!(db.wait_until_covered(PATIENCE));
        let last = KEYS + FILES * KEYS_A_FILE;
        let denied: Vec<u32> = (0..last).filter(|&key| is_denied(&db, key)).collect();
        assert!(
            denied.is_empty(),
            "{} keys, {:?}",
            denied.len(),
            denied.first()
        );
        let read = |key: u32| db.get(key.to_be_bytes()).unwrap();
        assert!((0..last).all(|key| read(key).is_some()));
    }

    /// There is room for a few keys more than the first part tells of, and for none that the memtables feed anyway.
    #[test]
    fn what_is_written_and_flushed_beside_it_crowds_no_summary() {
        let sieve = settings();
        let home = tempfile::tempdir().unwrap();
        let db = filled(home.path(), &sieve, 1_000);
        let failed = thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for key in KEYS..4 * KEYS {
                    db.put(key.to_be_bytes(), "value").unwrap();
                    if key % 5_000 == 0 {
                        db.flush().unwrap();
                    }
                }
            });
            let mut failed = Vec::new();
            while !writer.is_finished() {
                failed.extend(db.consolidate().err().map(|error| error.to_string()));
            }
            failed
        });
        let crowded = failed.iter().filter(|error| error.contains("keys came"));
        assert_eq!(crowded.count(), 0, "{failed:?}");
        assert!((0..4 * KEYS).all(|key| !is_denied(&db, key)));
    }

    #[test]
    fn tables_that_are_compacted_between_two_parts_stay_readable() {
        let sieve = settings();
        let home = tempfile::tempdir().unwrap();
        let db = filled(home.path(), &sieve, 400);
        thread::scope(|scope| {
            let compactions = scope.spawn(|| {
                for round in 0..8_u32 {
                    let more = (0..KEYS).filter(|key| key % 7 == round % 7);
                    more.for_each(|key| db.put(key.to_be_bytes(), "newer").unwrap());
                    db.flush().unwrap();
                    db.compact_range(None::<&[u8]>, None::<&[u8]>);
                }
            });
            while !compactions.is_finished() {
                drop(db.consolidate());
            }
        });
        db.consolidate().unwrap();
        assert!(db.wait_until_known(PATIENCE));
        let read = |key: u32| db.get(key.to_be_bytes()).unwrap();
        assert!((0..KEYS).all(|key| !is_denied(&db, key) && read(key).is_some()));
    }
}
