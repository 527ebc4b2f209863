//! Writes: the engine's own, which the hooks see. If the database has transactions with locks, a
//! write locks its keys first.

use std::path::Path;

use rocksdb::{
    AsColumnFamilyRef, Error, IngestExternalFileOptions, WriteBatch, WriteBatchWithTransaction,
    WriteOptions,
};

use super::SieveDb;
use crate::fault::fault;
use crate::rocks::hooks;

impl SieveDb {
    /// Sets the value of a key in the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.put_opt(key, value, &WriteOptions::default())
    }

    /// [`SieveDb::put`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn put_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        match self.locks() {
            None => self.engine.put_opt(key, value, options),
            Some(locks) => locks.write(&one(|batch| batch.put(key, value)), options),
        }
    }

    /// Sets the value of a key in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn put_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.put_cf_opt(cf, key, value, &WriteOptions::default())
    }

    /// [`SieveDb::put_cf`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn put_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        match self.locks() {
            None => self.engine.put_cf_opt(cf, key, value, options),
            Some(locks) => locks.write(&one(|batch| batch.put_cf(cf, key, value)), options),
        }
    }

    /// Adds a merge operand to a key in the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn merge(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<(), Error> {
        self.merge_opt(key, value, &WriteOptions::default())
    }

    /// [`SieveDb::merge`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn merge_opt(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        match self.locks() {
            None => self.engine.merge_opt(key, value, options),
            Some(locks) => locks.write(&one(|batch| batch.merge(key, value)), options),
        }
    }

    /// Adds a merge operand to a key in a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn merge_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.merge_cf_opt(cf, key, value, &WriteOptions::default())
    }

    /// [`SieveDb::merge_cf`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn merge_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        match self.locks() {
            None => self.engine.merge_cf_opt(cf, key, value, options),
            Some(locks) => locks.write(&one(|batch| batch.merge_cf(cf, key, value)), options),
        }
    }

    /// Removes a key from the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<(), Error> {
        self.delete_opt(key, &WriteOptions::default())
    }

    /// [`SieveDb::delete`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_opt(&self, key: impl AsRef<[u8]>, options: &WriteOptions) -> Result<(), Error> {
        match self.locks() {
            None => self.engine.delete_opt(key, options),
            Some(locks) => locks.write(&one(|batch| batch.delete(key)), options),
        }
    }

    /// Removes a key from a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_cf(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
    ) -> Result<(), Error> {
        self.delete_cf_opt(cf, key, &WriteOptions::default())
    }

    /// [`SieveDb::delete_cf`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_cf_opt(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: impl AsRef<[u8]>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        match self.locks() {
            None => self.engine.delete_cf_opt(cf, key, options),
            Some(locks) => locks.write(&one(|batch| batch.delete_cf(cf, key)), options),
        }
    }

    /// Removes the keys of a column family from `from`, inclusive, to `to`, exclusive.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_range_cf<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        from: K,
        to: K,
    ) -> Result<(), Error> {
        self.engine.delete_range_cf(cf, from, to)
    }

    /// [`SieveDb::delete_range_cf`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_range_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        from: K,
        to: K,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        self.engine.delete_range_cf_opt(cf, from, to, options)
    }

    /// Applies a batch of writes atomically: a `WriteBatch`, or one of `rocksdb`'s transactional
    /// databases.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn write<const TRANSACTION: bool>(
        &self,
        batch: WriteBatchWithTransaction<TRANSACTION>,
    ) -> Result<(), Error> {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// [`SieveDb::write`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn write_opt<const TRANSACTION: bool>(
        &self,
        batch: WriteBatchWithTransaction<TRANSACTION>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        let batch = hooks::plain_batch(batch);
        match self.locks() {
            None => self.engine.write_opt(batch, options),
            Some(locks) => locks.write(&batch, options),
        }
    }

    /// Applies a batch of writes without the log: a crash may lose them.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn write_without_wal<const TRANSACTION: bool>(
        &self,
        batch: WriteBatchWithTransaction<TRANSACTION>,
    ) -> Result<(), Error> {
        let mut options = WriteOptions::default();
        options.disable_wal(true);
        self.write_opt(batch, &options)
    }

    /// Ingests SST files into the default column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn ingest_external_file<P: AsRef<Path>>(&self, paths: Vec<P>) -> Result<(), Error> {
        self.ingest_external_file_opts(&IngestExternalFileOptions::default(), paths)
    }

    /// [`SieveDb::ingest_external_file`] with options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn ingest_external_file_opts<P: AsRef<Path>>(
        &self,
        options: &IngestExternalFileOptions,
        paths: Vec<P>,
    ) -> Result<(), Error> {
        // Their keys bypass the memtables.
        let arriving = self
            .filters
            .cf_filters
            .begin_external_writes(Some(hooks::DEFAULT_ID));
        fault!(IngestionAnnouncedBriefly, drop(arriving));
        self.engine.ingest_external_file_opts(options, paths)
    }

    /// Ingests SST files into a column family.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn ingest_external_file_cf<P: AsRef<Path>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        paths: Vec<P>,
    ) -> Result<(), Error> {
        self.ingest_external_file_cf_opts(cf, &IngestExternalFileOptions::default(), paths)
    }

    /// [`SieveDb::ingest_external_file_cf`] with options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn ingest_external_file_cf_opts<P: AsRef<Path>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        options: &IngestExternalFileOptions,
        paths: Vec<P>,
    ) -> Result<(), Error> {
        fault!(
            CfIngestionUnannounced,
            return self.engine.ingest_external_file_cf_opts(cf, options, paths)
        );
        let arriving = self
            .filters
            .cf_filters
            .begin_external_writes(Some(hooks::cf_id(cf)));
        fault!(CfIngestionAnnouncedBriefly, drop(arriving));
        self.engine.ingest_external_file_cf_opts(cf, options, paths)
    }
}

/// A batch of a single write.
fn one(write: impl FnOnce(&mut WriteBatch)) -> WriteBatch {
    let mut batch = WriteBatch::default();
    write(&mut batch);
    batch
}
