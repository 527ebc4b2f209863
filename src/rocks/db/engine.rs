//! The engine behind the filters: column families, flushes, compactions, properties.

use std::path::Path;
use std::sync::Arc;

use rocksdb::backup::BackupEngine;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::perf::MemoryUsageBuilder;
use rocksdb::{
    AsColumnFamilyRef, BoundColumnFamily, CStrLike, CompactOptions, DBWALIterator,
    DEFAULT_COLUMN_FAMILY_NAME, Error, FlushOptions, LiveFile, Range, WaitForCompactOptions,
};

use super::SieveDb;
use crate::fault::fault;
use crate::front::wakeup::LONG;
use crate::rocks::binding::Engine;
use crate::rocks::db::cf_reader::CfReader;
use crate::rocks::hooks;

/// The SSTs of a column family, as RocksDB sums them up. `rocksdb` has a type of this name that it
/// does not export.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ColumnFamilyMetaData {
    /// The size of its SSTs in bytes.
    pub size: u64,
    /// Its name.
    pub name: String,
    /// The number of its SSTs.
    pub file_count: usize,
}

impl SieveDb {
    /// Flushes the default column family's memtables to an SST and waits for it.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn flush(&self) -> Result<(), Error> {
        self.engine.flush()
    }

    /// [`SieveDb::flush`] with options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn flush_opt(&self, options: &FlushOptions) -> Result<(), Error> {
        self.engine.flush_opt(options)
    }

    /// Flushes a column family's memtables to an SST and waits for it.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn flush_cf(&self, cf: &impl AsColumnFamilyRef) -> Result<(), Error> {
        self.engine.flush_cf(cf)
    }

    /// [`SieveDb::flush_cf`] with options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn flush_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: &FlushOptions,
    ) -> Result<(), Error> {
        self.engine.flush_cf_opt(cf, options)
    }

    /// Flushes the memtables of several column families to SSTs.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn flush_cfs_opt(
        &self,
        cfs: &[&impl AsColumnFamilyRef],
        options: &FlushOptions,
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        fault!(
            CfsFlushedBesideMaintenance,
            return self.engine.flush_cfs_opt(cfs, options)
        );
        let _alone = self.filters.cf_filters.flush_beside_maintenance_guard();
        self.engine.flush_cfs_opt(cfs, options)
    }

    /// Writes the log to its file, and syncs it if `sync` is set.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn flush_wal(&self, sync: bool) -> Result<(), Error> {
        self.refuse_if_reader()?;
        self.engine.flush_wal(sync)
    }

    /// Compacts a range of the default column family. `None` means from the first key, or to the
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

    /// Compacts a range of a column family. `None` means from the first key, or to the last.
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

    /// Waits until no flush or compaction is running or pending.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn wait_for_compact(&self, options: &WaitForCompactOptions) -> Result<(), Error> {
        self.refuse_if_reader()?;
        self.engine.wait_for_compact(options)
    }

    /// Stops the engine's flushes and compactions for good, as before closing; waits for them if
    /// `wait` is set.
    pub fn cancel_all_background_work(&self, wait: bool) {
        fault!(
            CancelBesideMaintenance,
            return self.engine.cancel_all_background_work(wait)
        );
        let _alone = self.filters.cf_filters.flush_beside_maintenance_guard();
        self.engine.cancel_all_background_work(wait);
    }

    /// A column family's handle.
    pub fn cf_handle(&self, name: &str) -> Option<Arc<BoundColumnFamily<'_>>> {
        self.engine.cf_handle(name)
    }

    /// A reader of a column family for frequent use: its handle and filters are looked up once.
    pub(crate) fn cf(&self, name: &str) -> Option<CfReader> {
        let cf = CfReader::new(&self.engine, name)?;
        Some(
            match self.filters.cf_filters.get(hooks::cf_id(cf.handle())) {
                Some(cf_filter) => cf.behind(cf_filter),
                None => cf,
            },
        )
    }

    /// Runs `use_engine` with the bare engine, for what has no method here. The filters see writes
    /// through it. External writes that it may do are not tracked: until maintenance has listed the
    /// SSTs afterwards, no key of any column family is answered absent. Do not call it every
    /// second. If the engine is open for reading only, RocksDB leaves it to the caller to change
    /// nothing.
    ///
    /// `rocksdb` gives a raw pointer only of its `DB` (`AsRawPtr`, with the feature `raw-ptr`).
    /// That is a single-threaded database, and an [`Engine`] has no raw pointer unless `rocksdb`'s
    /// feature `multi-threaded-cf` makes it a `DB`.
    pub fn with_engine_untracked<R>(&self, use_engine: impl FnOnce(&Engine) -> R) -> R {
        let arriving = self.filters.cf_filters.begin_external_writes(None);
        fault!(EngineUseAnnouncedBriefly, drop(arriving));
        let done = use_engine(&self.engine);
        self.extend_locks();
        done
    }

    /// Reads what the writer of the database has written since, if this one was [opened as a
    /// secondary](crate::Builder::secondary). From here on no key is answered absent until
    /// maintenance has gone through the new SSTs; [`SieveDb::wait_for_maintenance`] waits for that.
    ///
    /// # Errors
    /// Returns RocksDB's error. One that recurs, as after the writer created a column family, ends
    /// when the secondary is opened again; until then reads return the state before it.
    pub fn try_catch_up_with_primary(&self) -> Result<(), Error> {
        fault!(
            CatchUpUnannounced,
            return self.engine.try_catch_up_with_primary()
        );
        fault!(CatchUpAnnouncedLate, {
            let caught_up = self.engine.try_catch_up_with_primary();
            drop(self.filters.cf_filters.begin_external_writes(None));
            return caught_up;
        });
        let is_secondary = self.filters.options.is_secondary();
        // The engine drops memtables here before their SSTs can be listed.
        let arriving = is_secondary.then(|| self.filters.cf_filters.begin_external_writes(None));
        fault!(CatchUpAnnouncedBriefly, {
            drop(arriving);
            // Maintenance may list the SSTs before the engine is locked.
            let _ = self.wait_for_maintenance(LONG);
        });
        self.engine.try_catch_up_with_primary()
    }

    /// RocksDB's own refusal if the engine writes nothing. For operations that its read-only and
    /// secondary instances run all the same, run in part, crash at, or wait for without end.
    pub(super) fn refuse_if_reader(&self) -> Result<(), Error> {
        if self.options.is_reader() {
            return self.engine.flush();
        }
        Ok(())
    }

    /// A RocksDB property of the default column family, as text.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn property_value(&self, name: impl CStrLike) -> Result<Option<String>, Error> {
        self.engine.property_value(name)
    }

    /// A RocksDB property of a column family, as text.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn property_value_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        name: impl CStrLike,
    ) -> Result<Option<String>, Error> {
        self.engine.property_value_cf(cf, name)
    }

    /// A RocksDB property of the default column family, as a number.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn property_int_value(&self, name: impl CStrLike) -> Result<Option<u64>, Error> {
        self.engine.property_int_value(name)
    }

    /// A RocksDB property of a column family, as a number.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn property_int_value_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        name: impl CStrLike,
    ) -> Result<Option<u64>, Error> {
        self.engine.property_int_value_cf(cf, name)
    }

    /// The sequence number of the newest write.
    pub fn latest_sequence_number(&self) -> u64 {
        self.engine.latest_sequence_number()
    }

    /// The SST files of all column families.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn live_files(&self) -> Result<Vec<LiveFile>, Error> {
        self.engine.live_files()
    }

    /// The log's batches from this sequence number on.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_updates_since(&self, number: u64) -> Result<DBWALIterator, Error> {
        self.engine.get_updates_since(number)
    }

    /// The number and size of the default column family's SSTs.
    pub fn get_column_family_metadata(&self) -> ColumnFamilyMetaData {
        let default = self.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
        self.get_column_family_metadata_cf(&default.expect("every database has it"))
    }

    /// The number and size of a column family's SSTs.
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

    /// Adds the engine's memory to `usage`, as `usage.add_db` does. For the memory of the filters
    /// see [`SieveDb::health`].
    pub fn add_to_memory_usage<'a>(&'a self, usage: &mut MemoryUsageBuilder<'a>) {
        usage.add_db(&*self.engine);
    }

    /// The identity that RocksDB gave the database when it was created; usually ASCII.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn get_db_identity(&self) -> Result<Vec<u8>, Error> {
        self.engine.get_db_identity()
    }

    /// The approximate bytes on disk of these ranges of the default column family, without
    /// memtables.
    pub fn get_approximate_sizes(&self, ranges: &[Range<'_>]) -> Vec<u64> {
        self.engine.get_approximate_sizes(ranges)
    }

    /// The approximate bytes on disk of these ranges of a column family, without memtables.
    pub fn get_approximate_sizes_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        ranges: &[Range<'_>],
    ) -> Vec<u64> {
        self.engine.get_approximate_sizes_cf(cf, ranges)
    }

    /// Copies the database as it is now into a folder that does not exist yet. The copy has no
    /// filters: [`SieveDb::open`] builds them from its SSTs.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn checkpoint(&self, path: impl AsRef<Path>) -> Result<(), Error> {
        self.checkpoint_with_log_size(path, 0)
    }

    /// [`SieveDb::checkpoint`] that flushes the memtables only if the logs have at least
    /// `log_size_for_flush` bytes. Otherwise it copies the logs, and the copy lacks writes without a
    /// log. [`SieveDb::checkpoint`] always flushes.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn checkpoint_with_log_size(
        &self,
        path: impl AsRef<Path>,
        log_size_for_flush: u64,
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        let write = || {
            Checkpoint::new(&*self.engine)?
                .create_checkpoint_with_log_size(path, log_size_for_flush)
        };
        fault!(CheckpointBesideMaintenance, return write());
        let _alone = self.filters.cf_filters.flush_beside_maintenance_guard();
        write()
    }

    /// [`SieveDb::create_new_backup_flush`] without a flush.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn create_new_backup(&self, backups: &mut BackupEngine) -> Result<(), Error> {
        self.create_new_backup_flush(backups, false)
    }

    /// Adds a backup of the database as it is now, after a flush if `flush` is set. It has no
    /// filters: [`SieveDb::open`] builds them from the SSTs of the restored database.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn create_new_backup_flush(
        &self,
        backups: &mut BackupEngine,
        flush_before_backup: bool,
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        let _alone = self.filters.cf_filters.flush_beside_maintenance_guard();
        backups.create_new_backup_flush(&*self.engine, flush_before_backup)
    }

    /// Changes options of the default column family while the database is open.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn set_options(&self, options: &[(&str, &str)]) -> Result<(), Error> {
        self.refuse_if_reader()?;
        refuse_mempurge(options)?;
        self.engine.set_options(options)
    }

    /// Changes options of a column family while the database is open.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn set_options_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: &[(&str, &str)],
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        refuse_mempurge(options)?;
        self.engine.set_options_cf(cf, options)
    }

    /// Removes the SSTs of the default column family that lie wholly within a range, including its
    /// last key. SSTs of level 0 stay. An older snapshot may miss what was removed.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_file_in_range<K: AsRef<[u8]>>(&self, from: K, to: K) -> Result<(), Error> {
        self.refuse_if_reader()?;
        self.engine.delete_file_in_range(from, to)
    }

    /// [`SieveDb::delete_file_in_range`] in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_file_in_range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        from: K,
        to: K,
    ) -> Result<(), Error> {
        self.refuse_if_reader()?;
        self.engine.delete_file_in_range_cf(cf, from, to)
    }

    /// Keeps files that are no longer needed, for example to copy them by hand. Calls are counted.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn disable_file_deletions(&self) -> Result<(), Error> {
        self.engine.disable_file_deletions()
    }

    /// Ends one [`SieveDb::disable_file_deletions`]. Files are removed again once all have ended.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn enable_file_deletions(&self) -> Result<(), Error> {
        self.engine.enable_file_deletions()
    }

    /// The database's folder.
    pub fn path(&self) -> &Path {
        self.engine.path()
    }
}

/// With this option RocksDB 11.8.1 loses keys, also if it is set at the open.
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
        true => Err(hooks::error_of(format!(
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
    use crate::rocks::tests::blocked_flush::BlockedFlush;

    #[test]
    fn what_the_engine_says_of_itself_is_passed_on() {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::builder(home.path()).open().unwrap();
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
        let cfs = SieveDb::list_cf(&options, home.path()).unwrap();
        assert_eq!(cfs, ["default", "other"]);
    }

    /// Maintenance does not flush while one of these calls runs.
    #[test]
    fn calls_that_flush_several_families_are_announced_while_they_last() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let held = BlockedFlush::flushes_of(&mut options);
        let path = home.path().join("db");
        let db = SieveDb::open(&options, &SieveOptions::default(), path).unwrap();
        let held = held;
        let flush = || {
            let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
            db.flush_cfs_opt(&[&cf], &FlushOptions::default())
        };
        let checkpoint = || db.checkpoint(home.path().join("copy"));
        // It flushes what is in no log; no flush runs after it.
        let cancel = || {
            db.cancel_all_background_work(true);
            Ok(())
        };
        let mut unlogged = WriteOptions::default();
        unlogged.disable_wal(true);
        db.put_opt("key", "in no log", &unlogged).unwrap();
        let requests: [(_, &(dyn Fn() -> Result<(), Error> + Sync)); 3] = [
            ("flush_cfs_opt", &flush),
            ("checkpoint", &checkpoint),
            ("cancel_all_background_work", &cancel),
        ];
        for (name, call) in requests {
            BlockedFlush::write(&db);
            let announced = thread::scope(|scope| {
                let calling = scope.spawn(call);
                held.wait();
                let announced = db.cf_filters().is_engine_flushing();
                held.release_flush();
                calling.join().unwrap().unwrap();
                announced
            });
            assert!(announced, "{name}");
            assert!(!db.cf_filters().is_engine_flushing(), "{name} is over");
        }
    }
}
