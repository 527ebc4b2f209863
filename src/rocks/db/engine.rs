//! The engine behind the filters: families, flushes, compactions, numbers.

use std::path::Path;
use std::sync::Arc;

use rocksdb::backup::BackupEngine;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::perf::MemoryUsageBuilder;
use rocksdb::{
    AsColumnFamilyRef, BoundColumnFamily, CStrLike, CompactOptions, DBWALIterator,
    DEFAULT_COLUMN_FAMILY_NAME, Error, FlushOptions, LiveFile, Range, WaitForCompactOptions,
};

use super::{LONG, SieveDb};
use crate::planted::planted;
use crate::rocks::family::Family;
use crate::rocks::{Engine, ffi};

/// How much of a column family is in tables. `rocksdb` has a type of this name that it does not export.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnFamilyMetaData {
    /// The bytes of its tables.
    pub size: u64,
    /// Its name.
    pub name: String,
    /// The number of its tables.
    pub file_count: usize,
}

impl SieveDb {
    /// Writes the default column family's memtables to a table and waits for it.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush(&self) -> Result<(), Error> {
        self.engine.flush()
    }

    /// [`SieveDb::flush`] with options.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush_opt(&self, options: &FlushOptions) -> Result<(), Error> {
        self.engine.flush_opt(options)
    }

    /// Writes a column family's memtables to a table and waits for it.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush_cf(&self, cf: &impl AsColumnFamilyRef) -> Result<(), Error> {
        self.engine.flush_cf(cf)
    }

    /// [`SieveDb::flush_cf`] with options.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: &FlushOptions,
    ) -> Result<(), Error> {
        self.engine.flush_cf_opt(cf, options)
    }

    /// Writes the memtables of several column families to tables.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush_cfs_opt(
        &self,
        cfs: &[&impl AsColumnFamilyRef],
        options: &FlushOptions,
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        let alone = || self.columns.flush_without_upkeep();
        let _alone = (!planted!(FamiliesFlushedBesideUpkeep)).then(alone);
        self.engine.flush_cfs_opt(cfs, options)
    }

    /// Writes the log to its file, and syncs it if so asked.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn flush_wal(&self, sync: bool) -> Result<(), Error> {
        self.refuse_if_reader()?;
        self.engine.flush_wal(sync)
    }

    /// Compacts a range of the default column family; `None` is before the first key, or after the
    /// last.
    pub fn compact_range<S: AsRef<[u8]>, E: AsRef<[u8]>>(&self, start: Option<S>, end: Option<E>) {
        self.engine.compact_range(start, end);
    }

    /// [`SieveDb::compact_range`] with options.
    pub fn compact_range_opt<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        start: Option<S>,
        end: Option<E>,
        options: &CompactOptions,
    ) {
        self.engine.compact_range_opt(start, end, options);
    }

    /// Compacts a range of a column family; `None` is before the first key, or after the last.
    pub fn compact_range_cf<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        start: Option<S>,
        end: Option<E>,
    ) {
        self.engine.compact_range_cf(cf, start, end);
    }

    /// [`SieveDb::compact_range_cf`] with options.
    pub fn compact_range_cf_opt<S: AsRef<[u8]>, E: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        start: Option<S>,
        end: Option<E>,
        options: &CompactOptions,
    ) {
        self.engine.compact_range_cf_opt(cf, start, end, options);
    }

    /// Waits until no flush or compaction is under way or due.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn wait_for_compact(&self, options: &WaitForCompactOptions) -> Result<(), Error> {
        self.refuse_if_reader()?;
        self.engine.wait_for_compact(options)
    }

    /// Ends the engine's flushes and compactions for good, as before closing; waits for them if so asked.
    pub fn cancel_all_background_work(&self, wait: bool) {
        let alone = || self.columns.flush_without_upkeep();
        let _alone = (!planted!(FlushesBesideUpkeep)).then(alone);
        self.engine.cancel_all_background_work(wait);
    }

    /// A column family's handle.
    pub fn cf_handle(&self, name: &str) -> Option<Arc<BoundColumnFamily<'_>>> {
        self.engine.cf_handle(name)
    }

    /// A column family to be asked often: looked up once, with its front.
    pub(crate) fn family(&self, name: &str) -> Option<Family> {
        let family = Family::new(&self.engine, name)?;
        Some(match self.columns.get(ffi::column_id(family.handle())) {
            Some(column) => family.behind(column),
            None => family,
        })
    }

    /// Runs `use_engine` with the bare engine, for what has no method here. Writes through it are
    /// seen by the filters; so that no other way in can be missed, nothing is ruled out, in any column
    /// family, until upkeep has looked at the tables afterwards: not for what is done every second. Of
    /// an engine that is open to read only, RocksDB leaves it to the caller to change nothing.
    ///
    /// `rocksdb` gives a raw pointer of its `DB` alone (`AsRawPtr`, with the feature `raw-ptr`). That is a database
    /// for one thread, and has none of an [`Engine`], unless `rocksdb`'s feature `multi-threaded-cf` makes it one.
    pub fn with_engine<R>(&self, use_engine: impl FnOnce(&Engine) -> R) -> R {
        let arriving = self.columns.expect_foreign_keys(None);
        let _arriving = (!planted!(EngineUseAnnouncedBriefly)).then_some(arriving);
        let done = use_engine(&self.engine);
        self.extend_locks();
        done
    }

    /// Reads what the writer of the database has written since, where this one was
    /// [opened as a secondary](SieveDb::open_as_secondary). From here on nothing is ruled out until upkeep has
    /// looked at the tables that came, which [`SieveDb::wait_until_known`] waits for.
    ///
    /// # Errors
    /// What RocksDB says. An error that comes again and again, as after the writer made a column family, ends
    /// when the secondary is opened anew; what was there is read until then.
    pub fn try_catch_up_with_primary(&self) -> Result<(), Error> {
        // Memtables are given up here before their tables can be listed.
        let announced = self.options.is_secondary() && !planted!(CatchUpUnannounced);
        if planted!(CatchUpAnnouncedLate) {
            let caught_up = self.engine.try_catch_up_with_primary();
            drop(self.columns.expect_foreign_keys(None));
            return caught_up;
        }
        let arriving = announced.then(|| self.columns.expect_foreign_keys(None));
        let _arriving = arriving.filter(|_| !planted!(CatchUpAnnouncedBriefly));
        if planted!(CatchUpAnnouncedBriefly) {
            // Upkeep may list the tables before the engine is locked.
            self.wait_until_known(LONG);
        }
        self.engine.try_catch_up_with_primary()
    }

    /// RocksDB's own refusal, where the engine writes nothing: for what its read-only and its secondary
    /// instance do all the same, or do by halves, crash at, or wait for without end.
    pub(super) fn refuse_if_reader(&self) -> Result<(), Error> {
        if self.options.is_reader() {
            return self.engine.flush();
        }
        Ok(())
    }

    /// One of RocksDB's texts about the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn property_value(&self, name: impl CStrLike) -> Result<Option<String>, Error> {
        self.engine.property_value(name)
    }

    /// One of RocksDB's texts about a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn property_value_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        name: impl CStrLike,
    ) -> Result<Option<String>, Error> {
        self.engine.property_value_cf(cf, name)
    }

    /// One of RocksDB's numbers about the default column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn property_int_value(&self, name: impl CStrLike) -> Result<Option<u64>, Error> {
        self.engine.property_int_value(name)
    }

    /// One of RocksDB's numbers about a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn property_int_value_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        name: impl CStrLike,
    ) -> Result<Option<u64>, Error> {
        self.engine.property_int_value_cf(cf, name)
    }

    /// The number of the newest write.
    pub fn latest_sequence_number(&self) -> u64 {
        self.engine.latest_sequence_number()
    }

    /// The table files of all column families.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn live_files(&self) -> Result<Vec<LiveFile>, Error> {
        self.engine.live_files()
    }

    /// The log's batches from the one with this number on.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_updates_since(&self, number: u64) -> Result<DBWALIterator, Error> {
        self.engine.get_updates_since(number)
    }

    /// How much of the default column family is in tables.
    pub fn get_column_family_metadata(&self) -> ColumnFamilyMetaData {
        let default = self.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
        self.get_column_family_metadata_cf(&default.expect("every database has it"))
    }

    /// How much of a column family is in tables.
    pub fn get_column_family_metadata_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
    ) -> ColumnFamilyMetaData {
        let found = self.engine.get_column_family_metadata_cf(cf);
        ColumnFamilyMetaData {
            size: found.size,
            name: found.name,
            file_count: found.file_count,
        }
    }

    /// Has the engine's memory counted by `usage`, as its `add_db` does. What the filters take is told
    /// by [`SieveDb::health`].
    pub fn add_to_memory_usage<'a>(&'a self, usage: &mut MemoryUsageBuilder<'a>) {
        usage.add_db(&*self.engine);
    }

    /// The name that RocksDB gave the database when it was made; ASCII as a rule.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn get_db_identity(&self) -> Result<Vec<u8>, Error> {
        self.engine.get_db_identity()
    }

    /// About how many bytes these ranges of the default column family take on the disk, memtables not
    /// counted.
    pub fn get_approximate_sizes(&self, ranges: &[Range<'_>]) -> Vec<u64> {
        self.engine.get_approximate_sizes(ranges)
    }

    /// About how many bytes these ranges of a column family take on the disk, memtables not counted.
    pub fn get_approximate_sizes_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        ranges: &[Range<'_>],
    ) -> Vec<u64> {
        self.engine.get_approximate_sizes_cf(cf, ranges)
    }

    /// Makes a copy of the database as it is now, in a folder that does not exist yet. It has no
    /// filters: a front that opens it makes them from its tables.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.checkpoint_with_log_size(path, 0)
    }

    /// [`SieveDb::checkpoint`] that flushes the memtables only where the logs hold so many bytes or more, and
    /// else copies the logs; writes without log are missing then. [`SieveDb::checkpoint`] always flushes.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn checkpoint_with_log_size(
        &self,
        path: impl AsRef<Path>,
        log_size_for_flush: u64,
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        let alone = || self.columns.flush_without_upkeep();
        let _alone = (!planted!(CheckpointBesideUpkeep)).then(alone);
        Checkpoint::new(&*self.engine)?.create_checkpoint_with_log_size(path, log_size_for_flush)
    }

    /// [`SieveDb::create_new_backup_flush`] without a flush.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn create_new_backup(&self, backups: &mut BackupEngine) -> Result<(), Error> {
        self.create_new_backup_flush(backups, false)
    }

    /// Adds a backup of the database as it is now, after a flush if so asked. It has no filters: a front
    /// that opens what is restored makes them from its tables.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn create_new_backup_flush(
        &self,
        backups: &mut BackupEngine,
        flush_before_backup: bool,
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        let _alone = self.columns.flush_without_upkeep();
        backups.create_new_backup_flush(&*self.engine, flush_before_backup)
    }

    /// Changes options of the default column family while it is open.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn set_options(&self, options: &[(&str, &str)]) -> Result<(), Error> {
        self.refuse_if_reader()?;
        refuse_mempurge(options)?;
        self.engine.set_options(options)
    }

    /// Changes options of a column family while it is open.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn set_options_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: &[(&str, &str)],
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        refuse_mempurge(options)?;
        self.engine.set_options_cf(cf, options)
    }

    /// Removes the tables of the default column family that lie within a range as a whole, its last key
    /// included. Those of level 0 stay; an older snapshot may miss what was removed.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn delete_file_in_range<K: AsRef<[u8]>>(&self, from: K, to: K) -> Result<(), Error> {
        self.refuse_if_reader()?;
        self.engine.delete_file_in_range(from, to)
    }

    /// [`SieveDb::delete_file_in_range`] in a column family.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn delete_file_in_range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        from: K,
        to: K,
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        self.engine.delete_file_in_range_cf(cf, from, to)
    }

    /// Keeps files that are no longer needed, as for a copy of them by hand. Calls are counted.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn disable_file_deletions(&self) -> Result<(), Error> {
        self.engine.disable_file_deletions()
    }

    /// Ends one [`SieveDb::disable_file_deletions`]; files are removed again when all are ended.
    ///
    /// # Errors
    /// What RocksDB says.
    pub fn enable_file_deletions(&self) -> Result<(), Error> {
        self.engine.enable_file_deletions()
    }

    /// Where the database is.
    pub fn path(&self) -> &Path {
        self.engine.path()
    }
}

/// With it RocksDB 11.8.1 loses keys, as where it is set at open.
fn refuse_mempurge(options: &[(&str, &str)]) -> Result<(), Error> {
    const NAME: &str = "experimental_mempurge_threshold";
    let is_on = |value: &str| {
        value
            .parse::<f64>()
            .map_or(true, |threshold| threshold > 0.0)
    };
    match options
        .iter()
        .any(|&(name, value)| name == NAME && is_on(value))
    {
        true => Err(ffi::error_of(format!(
            "Not implemented: with {NAME} RocksDB 11.8.1 itself loses keys and reads values that were overwritten; \
             leave it at 0"
        ))),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rocksdb::backup::BackupEngineOptions;
    use rocksdb::{Env, Options, WriteOptions};

    use super::*;
    use crate::rocks::SieveOptions;
    use crate::rocks::held::Held;

    #[test]
    fn what_the_engine_says_of_itself_is_passed_on() {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::open_default(home.path()).unwrap();
        let options = Options::default();
        db.create_cf(String::from("other"), &options).unwrap();
        let other = db.cf_handle("other").unwrap();
        db.put_cf(&other, "key", "value").unwrap();
        db.flush_cf(&other).unwrap();

        assert_eq!(db.get_column_family_metadata().file_count, 0);
        let metadata = db.get_column_family_metadata_cf(&other);
        assert_eq!((&*metadata.name, metadata.file_count), ("other", 1));
        assert!(metadata.size > 0);
        assert_eq!(db.get_db_identity(), db.engine().get_db_identity());
        let mut usage = MemoryUsageBuilder::new().unwrap();
        db.add_to_memory_usage(&mut usage);
        assert!(usage.build().unwrap().approximate_mem_table_total() > 0);
        let backups = home.path().join("backups");
        let settings = BackupEngineOptions::new(&backups).unwrap();
        let mut backups = BackupEngine::open(&settings, &Env::new().unwrap()).unwrap();
        db.create_new_backup(&mut backups).unwrap();
        assert_eq!(backups.get_backup_info().len(), 1);

        drop((usage, other));
        drop(db);
        let families = SieveDb::list_cf(&options, home.path()).unwrap();
        assert_eq!(families, ["default", "other"]);
    }

    /// Upkeep flushes beside none of them, as long as it lasts.
    #[test]
    fn calls_that_flush_several_families_are_announced_while_they_last() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let held = Held::flushes_of(&mut options);
        let path = home.path().join("db");
        let db = SieveDb::open(&options, &SieveOptions::default(), path).unwrap();
        let held = held;
        let flush = || {
            let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
            db.flush_cfs_opt(&[&cf], &FlushOptions::default())
        };
        let checkpoint = || db.checkpoint(home.path().join("copy"));
        // It flushes what is in no log, and nothing after it does.
        let cancel = || {
            db.cancel_all_background_work(true);
            Ok(())
        };
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        db.put_opt("key", "in no log", &unlogged).unwrap();
        let calls: [(_, &(dyn Fn() -> Result<(), Error> + Sync)); 3] = [
            ("flush_cfs_opt", &flush),
            ("checkpoint", &checkpoint),
            ("cancel_all_background_work", &cancel),
        ];
        for (name, call) in calls {
            Held::write(&db);
            let announced = thread::scope(|scope| {
                let calling = scope.spawn(call);
                held.wait();
                let announced = db.columns().engine_is_flushing();
                held.let_go();
                calling.join().unwrap().unwrap();
                announced
            });
            assert!(announced, "{name}");
            assert!(!db.columns().engine_is_flushing(), "{name} is over");
        }
    }
}
