//! Builds the static first stage of a summary filter from the keys of memtables and SSTs. If memory does
//! not hold all hashes at once, they are split into parts, and the SSTs are read once for each
//! part.

use std::collections::HashSet;
use std::num::NonZeroU64;
use std::sync::Arc;

use super::consolidation::ReadSegments;
use super::growth::KeySource;
use super::{Maintenance, TaskError};
use crate::fault::fault;
use crate::filter::{RibbonBuilder, Scalable, Stage, StageError};
use crate::front::cf_filter::CfFilter;
use crate::front::engine::LiveSegment;
use crate::front::maintenance::backoff::Backoff;
use crate::hash::KeyHash;
use crate::math::Rate;

impl Maintenance {
    /// Reads all live SSTs into the static first stage of a summary filter, which also gets
    /// `in_memtables`.
    pub(super) fn complete(
        &self,
        cf_filter: &CfFilter,
        new: &Arc<Scalable>,
        in_memtables: &[KeyHash],
        backoff: &mut Backoff,
    ) -> Result<ReadSegments, TaskError> {
        let entries = self.entries(cf_filter)?;
        let tables = self.list(cf_filter)?;
        let mut readings = Readings {
            maintenance: self,
            cf_filter,
            backoff,
            new,
            in_memtables,
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

/// The state of reading all live SSTs, once for each part of the hashes.
struct Readings<'a> {
    maintenance: &'a Maintenance,
    cf_filter: &'a CfFilter,
    backoff: &'a mut Backoff,
    /// The summary filter, which writes already feed.
    new: &'a Scalable,
    in_memtables: &'a [KeyHash],
    parts: NonZeroU64,
    entries: u64,
    rate: Rate,
    /// The paths of the SSTs that existed before the first read.
    first_listed: HashSet<&'a str>,
    /// The result of the last read.
    last: Option<ReadSegments>,
    /// The paths of the SSTs that were read for every part so far.
    for_all_parts: HashSet<String>,
}

impl Readings<'_> {
    fn make_filter(&mut self) -> Result<Stage, TaskError> {
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

    /// Reads all live SSTs for a part; returns the hashes of their keys, and of those in memtables,
    /// that are `of_part`.
    ///
    /// For SSTs that appeared after the first listing, skips keys that a later stage may have: all
    /// that is written and flushed meanwhile might not fit into memory.
    fn take(&mut self, of_part: impl Fn(KeyHash) -> bool) -> Result<Vec<KeyHash>, TaskError> {
        let (cf_filter, new, first_listed) = (self.cf_filter, self.new, &self.first_listed);
        let no_room = |source| TaskError::Hashes {
            cf: cf_filter.name().to_owned(),
            source,
        };
        let share = self.entries / self.parts;
        // One hash over the capacity would move them all, and a part may exceed its share a little.
        let room = share.saturating_add(share / 64);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let mut taken = Vec::new();
        taken.try_reserve_exact(room).map_err(no_room)?;
        let in_memtables = self.in_memtables.iter().copied();
        let in_memtables = in_memtables.filter(|&hash| of_part(hash));
        taken
            .try_reserve(in_memtables.clone().count())
            .map_err(no_room)?;
        taken.extend(in_memtables);
        let mut room = Ok(());
        let add = |table: &LiveSegment, hashes: &[KeyHash]| {
            if room.is_ok() {
                room = taken.try_reserve(hashes.len());
            }
            if room.is_err() {
                return;
            }
            let is_whole = first_listed.contains(&*table.path);
            for &hash in hashes.iter().filter(|&&hash| of_part(hash)) {
                // All versions of a key are adjacent in an SST.
                let is_same = taken.last() == Some(&hash);
                if !is_same && (is_whole || !new.may_have_in_a_stage(hash)) {
                    taken.push(hash);
                }
            }
        };
        let none = HashSet::new();
        let absorbed = self
            .maintenance
            .read_all_keys(cf_filter, self.backoff, none, add)?;
        room.map_err(no_room)?;
        // Fail here: otherwise all other parts would be read for nothing.
        absorbed.check_needed_segments(cf_filter)?;
        let mut is_first = self.last.is_none();
        fault!(PartlyReadSstCovered, is_first = true);
        let paths = absorbed.read.iter().map(|table| &table.path);
        let for_all = paths.filter(|&path| is_first || self.for_all_parts.contains(path));
        self.for_all_parts = for_all.cloned().collect();
        self.last = Some(absorbed);
        Ok(taken)
    }

    /// Whether an SST was read for all parts.
    fn are_of(&self, table: &LiveSegment) -> bool {
        self.for_all_parts.contains(&table.path)
    }

    /// Inserts all keys of the SSTs that appeared between two parts.
    fn conclude(mut self) -> Result<ReadSegments, TaskError> {
        match self.last.take() {
            Some(last) if last.read.iter().all(|table| self.are_of(table)) => Ok(last),
            _ => {
                let read = self.for_all_parts;
                self.maintenance.insert_all_keys(
                    self.new,
                    self.cf_filter,
                    self.backoff,
                    read,
                    KeySource::Tables { logged: false },
                )
            }
        }
    }

    fn no_stage(&self, source: StageError) -> TaskError {
        TaskError::Static {
            cf: self.cf_filter.name().to_owned(),
            source,
        }
    }
}

#[cfg(test)]
#[cfg(feature = "rocksdb")]
mod tests {
    use std::thread;
    use std::time::Duration;

    use rocksdb::{Options, SstFileWriter};

    use crate::math::{Bits, Items};
    use crate::rocks::{SieveDb, SieveOptions};

    const KEYS: u32 = 20_000;
    const PATIENCE: Duration = Duration::from_secs(20);

    fn settings() -> SieveOptions {
        SieveOptions::default().audit(0).static_filters(true)
    }

    /// A database of overlapping SSTs, whose summary filter is built from `at_once` hashes at a
    /// time.
    fn filled(home: &std::path::Path, sieve: &SieveOptions, at_once: u64) -> SieveDb {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_disable_auto_compactions(true);
        let sieve = sieve.clone().build_memory(Bits::from_bytes(8 * at_once));
        let db = SieveDb::open(&options, &sieve, home).unwrap();
        for table in 0..3 {
            let keys = (0..KEYS).filter(|key| key % 3 == table || key % 10 == 0);
            keys.for_each(|key| db.put(key.to_be_bytes(), "value").unwrap());
            db.flush().unwrap();
        }
        db
    }

    fn is_denied(db: &SieveDb, key: u32) -> bool {
        db.filter_answer(key.to_be_bytes()).is_absent()
    }

    #[test]
    fn a_summary_that_is_made_in_parts_has_all_keys_once() {
        let sieve = settings();
        for at_once in [1 << 20, 7_000, 300] {
            let home = tempfile::tempdir().unwrap();
            let db = filled(home.path(), &sieve, at_once);
            db.consolidate().unwrap();
            let summary = db.cf_filters().all().remove(0).view().summary;
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

    /// The parts before it have none of its keys.
    #[test]
    fn a_table_that_comes_between_two_parts_is_read_whole() {
        let sieve = settings();
        // Fewer than fit into memory.
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
            // Some builds are overtaken.
            while !files.is_finished() {
                drop(db.consolidate());
            }
        });
        assert!(db.wait_until_complete(PATIENCE));
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

    /// There is room for a few keys more than the first part predicts. Keys that memtables feed
    /// anyway must not use it.
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
        assert!(db.wait_for_maintenance(PATIENCE));
        let read = |key: u32| db.get(key.to_be_bytes()).unwrap();
        assert!((0..KEYS).all(|key| !is_denied(&db, key) && read(key).is_some()));
    }
}
