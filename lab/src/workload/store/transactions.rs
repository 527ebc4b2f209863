//! Optimistic transactions of RocksDB as a [`Store`], without filters and with them.

use std::path::Path;

use lsm_sieve::{Isolation, SieveDb, SieveOptions, TransactionSettings};
use rocksdb::{Error, MultiThreaded, OptimisticTransactionDB, Options};

use super::{Space, Store};
use lsm_sieve_cli::workload::store::OpenStoreError;

/// RocksDB alone.
pub struct PlainTransactions(OptimisticTransactionDB<MultiThreaded>);

impl PlainTransactions {
    /// Opens the database in `path`.
    ///
    /// # Errors
    /// [`OpenStoreError::Engine`].
    pub fn open(options: &Options, path: &Path) -> Result<Self, OpenStoreError> {
        let opened = OptimisticTransactionDB::open(options, path);
        opened.map(Self).map_err(|source| OpenStoreError::Engine {
            path: path.to_owned(),
            source,
        })
    }

    /// The engine.
    pub const fn engine(&self) -> &OptimisticTransactionDB<MultiThreaded> {
        &self.0
    }
}

/// RocksDB with lsm-sieve's filters.
pub struct SieveTransactions(SieveDb);

impl SieveTransactions {
    /// Opens the database in `path`.
    ///
    /// # Errors
    /// [`OpenStoreError::Front`].
    pub fn open(
        options: &Options,
        sieve: &SieveOptions,
        path: &Path,
    ) -> Result<Self, OpenStoreError> {
        let sieve = sieve.clone().transactions(Isolation::Optimistic);
        let opened = SieveDb::open(options, &sieve, path);
        opened.map(Self).map_err(|source| OpenStoreError::Front {
            path: path.to_owned(),
            source,
        })
    }

    /// The database with its filters.
    pub const fn db(&self) -> &SieveDb {
        &self.0
    }
}

macro_rules! store {
    ($type:ty, $settings:expr, $($question_mark:tt)?) => {
        impl Store for $type {
            type Error = Error;

            fn read(&self, _: Space, key: &[u8]) -> Result<bool, Error> {
                Ok(self.0.get_pinned(key)?.is_some())
            }

            fn read_many(&self, keys: &[&[u8]]) -> Result<usize, Error> {
                let mut keys = keys.iter();
                keys.try_fold(0, |found, key| {
                    Ok(found + usize::from(self.read(Space::Default, key)?))
                })
            }

            fn write(&mut self, _: Space, key: &[u8], value: &[u8]) -> Result<(), Error> {
                self.0.put(key, value)
            }

            fn create(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
                let transaction = self.0.transaction_opt(&<_>::default(), $settings)$($question_mark)?;
                let is_new = transaction.get_pinned_for_update(key, true)?.is_none();
                if is_new {
                    transaction.put(key, value)?;
                }
                transaction.commit()?;
                Ok(is_new)
            }

            fn flush(&mut self) -> Result<(), Error> {
                self.0.flush()
            }
        }
    };
}
store!(PlainTransactions, &<_>::default(),);
store!(SieveTransactions, TransactionSettings::Default, ?);
