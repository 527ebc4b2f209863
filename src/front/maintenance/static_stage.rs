//! Builds the static first stage of a summary filter from the keys of memtables and SSTs. If memory
//! does not hold all hashes at once, those of the SSTs go to a file first. The stage is then built
//! in parts, and the file is read once for each part.
//!
//! The log of keys is not used: it has the keys of deletions, and keys that are gone.

use std::collections::{HashSet, TryReserveError};

use super::consolidation::ReadSegments;
use super::{Maintenance, TaskError};
use crate::fault::fault;
use crate::filter::{RibbonBuilder, Scalable, Stage, StageError};
use crate::front::cf_filter::CfFilter;
use crate::front::key_log::KeyLog;
use crate::front::maintenance::backoff::Backoff;
use crate::hash::KeyHash;
use crate::math::Rate;

/// What a static stage gets beside the keys of SSTs.
pub(super) struct StaticKeys<'a> {
    pub(super) rate: Rate,
    pub(super) in_memtables: &'a [KeyHash],
}

/// The hashes of the keys of all SSTs.
enum Spool {
    Memory(Vec<KeyHash>),
    File(KeyLog),
}

impl Spool {
    fn append(&mut self, hashes: impl Iterator<Item = KeyHash>) -> Result<(), TryReserveError> {
        match self {
            Self::Memory(kept) => {
                for hash in hashes {
                    kept.try_reserve(1)?;
                    kept.push(hash);
                }
            }
            Self::File(log) => log.append(hashes),
        }
        Ok(())
    }

    /// `None` if the file could not be written.
    fn len(&self) -> Option<u64> {
        match self {
            Self::Memory(kept) => Some(kept.len() as u64),
            Self::File(log) => log.len(),
        }
    }

    /// Passes all hashes to `take`; false if the file cannot be read.
    fn replay(&self, mut take: impl FnMut(&[KeyHash])) -> bool {
        match self {
            Self::Memory(kept) => {
                take(kept);
                true
            }
            Self::File(log) => {
                log.complete();
                log.replay(take)
            }
        }
    }
}

impl Maintenance {
    /// Puts the static first stage into a summary filter, with the keys of memtables and of all live
    /// SSTs.
    pub(super) fn complete(
        &self,
        cf_filter: &CfFilter,
        new: &Scalable,
        keys: &StaticKeys<'_>,
        backoff: &mut Backoff,
    ) -> Result<ReadSegments, TaskError> {
        let mut spool = self.spool(self.entries(cf_filter)?);
        let (mut last, mut room) = (None, Ok(()));
        let none = HashSet::new();
        let absorbed = self.read_all_keys(cf_filter, backoff, none, |_, hashes| {
            // All versions of a key are adjacent in an SST.
            let new = hashes.iter().copied();
            let new = new.filter(|&hash| last.replace(hash) != Some(hash));
            if room.is_ok() {
                room = spool.append(new);
            }
        })?;
        absorbed.check_needed_segments(cf_filter)?;
        let cf = || cf_filter.name().to_owned();
        room.map_err(|source| TaskError::Hashes { cf: cf(), source })?;
        let stage = self.static_stage(cf_filter, &spool, keys)?;
        new.complete(stage.ok_or_else(|| TaskError::Spool(cf()))?);
        Ok(absorbed)
    }

    /// In memory for few entries, and where no file can be created.
    fn spool(&self, entries: u64) -> Spool {
        let log = KeyLog::default();
        let are_few = self.options.static_parts(entries).get() == 1;
        match !are_few && log.begin(self.filter_store.folder().path()) {
            true => Spool::File(log),
            false => Spool::Memory(Vec::new()),
        }
    }

    /// A static stage of these keys and of those in a file. `None` if that cannot be read.
    fn static_stage(
        &self,
        cf_filter: &CfFilter,
        spool: &Spool,
        keys: &StaticKeys<'_>,
    ) -> Result<Option<Stage>, TaskError> {
        let cf = || cf_filter.name().to_owned();
        let no_stage = |source: StageError| TaskError::Static { cf: cf(), source };
        let no_room = |source| TaskError::Hashes { cf: cf(), source };
        let Some(spooled) = spool.len() else {
            return Ok(None);
        };
        let most = spooled + keys.in_memtables.len() as u64;
        let parts = self.options.static_parts(most);
        let share = usize::try_from(most / parts).unwrap_or(usize::MAX);
        let mut builder = RibbonBuilder::new(parts, keys.rate);
        while !builder.is_complete() {
            if self.wakeup.stopping() {
                return Err(TaskError::Stopped);
            }
            let mut part = Vec::new();
            // One hash over the capacity would move them all, and a part may exceed its share a little.
            let mut room = part.try_reserve_exact(share.saturating_add(share / 64));
            let mut take = |hashes: &[KeyHash]| {
                for &hash in hashes.iter().filter(|&&hash| builder.is_next(hash)) {
                    if room.is_ok() {
                        room = part.try_reserve(1);
                    }
                    if room.is_ok() {
                        part.push(hash);
                    }
                }
            };
            let mut in_memtables = keys.in_memtables;
            fault!(StaticStageWithoutMemtables, in_memtables = &[]);
            take(in_memtables);
            if !spool.replay(take) {
                return Ok(None);
            }
            room.map_err(no_room)?;
            if parts.get() == 1 {
                // The size is exact then.
                return Stage::ribbon(part, keys.rate).map(Some).map_err(no_stage);
            }
            builder = builder.with_part(part).map_err(no_stage)?;
        }
        builder.finish().map(Some).map_err(no_stage)
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
        SieveOptions::default().audit(0)
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
