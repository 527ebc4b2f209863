//! The static first stage of a summary, of the keys of all live tables: a map, or a filter made a part of the
//! hashes at a time.

use std::collections::{HashSet, TryReserveError};
use std::sync::Arc;

use super::consolidation::Absorbed;
use super::coverage::Reading;
use super::harvest::{Harvest, grouped_by_run};
use super::{Upkeep, UpkeepError};
use crate::filter::{RibbonBuilder, Scalable, Stage, StageError};
use crate::hash::KeyHash;
use crate::math::Items;
use crate::planted::planted;
use crate::rocks::column::Column;
use crate::rocks::ffi::LiveTable;
use crate::rocks::setback::Setback;
use crate::segment::{SegmentId, Share};

/// What tables have in a map.
pub(super) type Shares = Vec<(SegmentId, Share)>;

impl Upkeep {
    /// Reads all live tables into the static first stage of a summary. Returns what that has of each, if it
    /// is a map.
    pub(super) fn complete(
        &self,
        column: &Column,
        new: &Arc<Scalable>,
        setback: &mut Setback,
    ) -> Result<(Absorbed, Shares), UpkeepError> {
        let entries = self.entries(column)?;
        if self.options.makes_map(Items::new(entries)) {
            return self.complete_with_map(column, new, setback, entries);
        }
        let absorbed = self.complete_with_filter(column, new, setback, entries)?;
        Ok((absorbed, Shares::new()))
    }

    /// Reads all tables once for each part of the hashes that there is room for.
    fn complete_with_filter(
        &self,
        column: &Column,
        new: &Scalable,
        setback: &mut Setback,
        entries: u64,
    ) -> Result<Absorbed, UpkeepError> {
        let no_stage = |source| no_stage(column, source);
        let rate = self.summary_options().first_rate();
        let parts = self.options.static_parts(entries);
        if parts.get() == 1 {
            let (hashes, absorbed) = self.read_some(column, setback, entries, |_| true)?;
            new.complete(Stage::ribbon(hashes, rate).map_err(no_stage)?);
            return Ok(absorbed);
        }
        let mut builder = RibbonBuilder::new(parts, rate);
        let mut in_all: Option<HashSet<String>> = None;
        while !builder.is_complete() {
            let is_next = |hash| builder.is_next(hash);
            let (hashes, absorbed) = self.read_some(column, setback, entries / parts, is_next)?;
            builder.add(hashes).map_err(no_stage)?;
            let mut read: HashSet<String> = absorbed.read.into_iter().map(|t| t.path).collect();
            if let Some(before) = in_all
                && !planted!(PartsOfTablesBelieved)
            {
                read.retain(|path| before.contains(path));
            }
            in_all = Some(read);
        }
        new.complete(builder.finish().map_err(no_stage)?);
        // Those that came meanwhile.
        self.absorb_into(new, column, setback, in_all.unwrap_or_default())
    }

    /// Those of the hashes of all live tables' keys that are wanted, about so many.
    fn read_some(
        &self,
        column: &Column,
        setback: &mut Setback,
        about: u64,
        is_wanted: impl Fn(KeyHash) -> bool,
    ) -> Result<(Vec<KeyHash>, Absorbed), UpkeepError> {
        let no_room = |source| no_room(column, source);
        let mut hashes = Vec::new();
        let about = usize::try_from(about).unwrap_or(usize::MAX);
        hashes.try_reserve_exact(about).map_err(no_room)?;
        let mut room = Ok(());
        let reading = Reading::ForSummary;
        let absorbed = self.absorb_all(column, setback, reading, HashSet::new(), |_, keys| {
            if room.is_ok() {
                room = hashes.try_reserve(keys.len());
            }
            if room.is_ok() {
                hashes.extend(keys.iter().copied().filter(|&hash| is_wanted(hash)));
            }
        })?;
        room.map_err(no_room)?;
        Ok((hashes, absorbed))
    }

    /// Reads all tables once, by the sorted run that they are in.
    fn complete_with_map(
        &self,
        column: &Column,
        new: &Arc<Scalable>,
        setback: &mut Setback,
        entries: u64,
    ) -> Result<(Absorbed, Shares), UpkeepError> {
        let no_room = |source| no_room(column, source);
        let keys = usize::try_from(entries).unwrap_or(usize::MAX);
        let mut harvest = Harvest::with_room(keys).map_err(no_room)?;
        let mut room = Ok(());
        let reading = Reading::ForMap;
        let absorbed =
            self.absorb_all(column, setback, reading, HashSet::new(), |table, keys| {
                if room.is_ok() {
                    room = harvest.add(table, keys);
                }
            })?;
        room.map_err(no_room)?;
        let grouped = grouped_by_run(&absorbed.read);
        let rate = self.summary_options().first_rate();
        let map = Stage::mapped(harvest.into_grouped(&grouped), rate);
        let map = map.map_err(|source| no_stage(column, source))?;
        new.complete(map.stage);
        let share = |(table, group): (&LiveTable, usize)| {
            let (summary, values) = (Arc::clone(new), map.values[group]);
            Some((table.id()?, Share { summary, values }))
        };
        let shares = grouped.into_iter().filter_map(share).collect();
        Ok((absorbed, shares))
    }
}

fn no_room(column: &Column, source: TryReserveError) -> UpkeepError {
    UpkeepError::Hashes {
        column: column.name().to_owned(),
        source,
    }
}

fn no_stage(column: &Column, source: StageError) -> UpkeepError {
    UpkeepError::Static {
        column: column.name().to_owned(),
        source,
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

    /// A database of tables that overlap, whose static summary is made of so many hashes at a time.
    fn filled(home: &std::path::Path, at_once: u64) -> SieveDb {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_disable_auto_compactions(true);
        let sieve = SieveOptions::default().static_filters(true).audit(0);
        let sieve = sieve.hashes_at_once(at_once.try_into().unwrap());
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
        for at_once in [1 << 20, 7_000, 300] {
            let home = tempfile::tempdir().unwrap();
            let db = filled(home.path(), at_once);
            db.consolidate().unwrap();
            let summary = db.columns().all().remove(0).view().summary;
            assert!(summary.begins_static() && summary.stages() == 1);
            assert_eq!(summary.items(), Items::new(KEYS.into()), "{at_once}");
            assert!(!(0..KEYS).any(|key| is_denied(&db, key)), "{at_once}");
            let passing = (KEYS..2 * KEYS).filter(|&key| !is_denied(&db, key)).count();
            assert!(passing < 200, "{passing} of {KEYS}");
        }
    }

    /// The parts of before have none of its keys.
    #[test]
    fn a_table_that_comes_between_two_parts_is_read_whole() {
        const FILES: u32 = 12;
        const KEYS_A_FILE: u32 = 1_000;
        let home = tempfile::tempdir().unwrap();
        let db = filled(&home.path().join("db"), 400);
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
            while !files.is_finished() {
                db.consolidate().unwrap();
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
    }
}
