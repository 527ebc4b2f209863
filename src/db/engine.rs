//! The few methods of `rocksdb`'s database that do not go through its handle, and need more than
//! `rocksdb` does.

use std::borrow::Borrow;

use rocksdb::{
    AsColumnFamilyRef, DBWithThreadMode, Error, ThreadMode, WriteBatchWithTransaction, WriteOptions,
};

use super::SieveDb;
use crate::db::cf_reader::CfReader;
use crate::fault::fault;
use crate::hooks;

impl<T: ThreadMode> SieveDb<T> {
    /// Applies a batch of writes atomically: a `WriteBatch`, or one of `rocksdb`'s transactional
    /// databases, by value or by reference.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn write<const TRANSACTION: bool>(
        &self,
        batch: impl Borrow<WriteBatchWithTransaction<TRANSACTION>>,
    ) -> Result<(), Error> {
        self.write_opt(batch, &WriteOptions::default())
    }

    /// [`SieveDb::write`] with write options.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn write_opt<const TRANSACTION: bool>(
        &self,
        batch: impl Borrow<WriteBatchWithTransaction<TRANSACTION>>,
        options: &WriteOptions,
    ) -> Result<(), Error> {
        hooks::write(&self.db, &self.handle, batch.borrow(), options)
    }

    /// Runs `use_engine` while no key of any column family is answered absent; nor is one until
    /// maintenance has listed the SSTs afterwards. For what goes past the handle, as C++ code on
    /// the engine itself, and may bring keys past the memtables. Do not call it every second.
    pub fn with_engine_untracked<R>(
        &self,
        use_engine: impl FnOnce(&DBWithThreadMode<T>) -> R,
    ) -> R {
        let arriving = self.cf_filters().begin_external_writes(None);
        fault!(EngineUseAnnouncedBriefly, drop(arriving));
        use_engine(&self.db)
    }

    /// Removes the SSTs of the default column family that lie wholly within a range, including its
    /// last key. SSTs of level 0 stay. An older snapshot may miss what was removed.
    ///
    /// # Errors
    /// Returns RocksDB's error.
    pub fn delete_file_in_range<K: AsRef<[u8]>>(&self, from: K, to: K) -> Result<(), Error> {
        self.sieve.refuse_if_reader()?;
        self.db.delete_file_in_range(from, to)
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
        self.sieve.refuse_if_reader()?;
        self.db.delete_file_in_range_cf(cf, from, to)
    }
}

impl SieveDb {
    /// A reader of a column family for frequent use: its handle and filters are looked up once.
    #[doc(hidden)]
    pub fn cf(&self, name: &str) -> Option<CfReader> {
        let cf = CfReader::new(&self.db, name)?;
        Some(match self.cf_filters().get(hooks::cf_id(cf.handle())) {
            Some(cf_filter) => cf.behind(cf_filter),
            None => cf,
        })
    }
}
