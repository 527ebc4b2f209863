//! The operations that a workload needs of a store: the one place that names an engine's calls.
//!
//! [`Store`] is a key-value store. [`WithFilters`] is a store with filters before the engine, whose
//! answers can be read separately. Drivers are written against these two traits, so a replay runs
//! unchanged over RocksDB with filters, RocksDB alone, and a map.

#[cfg(test)]
pub(crate) mod map;
#[cfg(feature = "rocksdb")]
mod rocks;

#[cfg(feature = "rocksdb")]
pub use rocks::{OpenStoreError, Plain, Sieve, column_families, count_blocks};

use std::error::Error;

/// The value of every record; filters see only keys.
pub const VALUE: [u8; 32] = [0x5a; 32];

/// A key space of a store: one column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The default column family, which every database has.
    Default,
    /// The main file: records as of the last reorganisation.
    Main,
    /// The differential file: newer records.
    Differential,
}

impl Space {
    /// The name of its column family.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Main => "main",
            Self::Differential => "differential",
        }
    }
}

/// A key-value store under a workload.
pub trait Store {
    /// The error of the engine.
    type Error: Error + Send + Sync + 'static;

    /// Reads a record; returns whether it exists.
    ///
    /// # Errors
    /// The engine's error.
    fn read(&self, space: Space, key: &[u8]) -> Result<bool, Self::Error>;

    /// Reads the newest record of a key: from the differential file, or else from the main file.
    ///
    /// # Errors
    /// The engine's error.
    fn read_newest(&self, key: &[u8]) -> Result<bool, Self::Error> {
        Ok(self.read(Space::Differential, key)? || self.read(Space::Main, key)?)
    }

    /// Reads records of [`Space::Default`] in one call; returns how many exist.
    ///
    /// # Errors
    /// The engine's error for any of them.
    fn read_many(&self, keys: &[&[u8]]) -> Result<usize, Self::Error>;

    /// Blocks that this thread's reads, of any store, have read from disk so far. 0 if they are not
    /// counted.
    fn blocks_read(&self) -> u64 {
        0
    }

    /// Writes a record and replaces an existing one.
    ///
    /// # Errors
    /// The engine's error.
    fn write(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Writes records of [`Space::Default`] in one batch.
    ///
    /// # Errors
    /// The engine's error.
    fn write_many(&mut self, keys: &[[u8; 16]], value: &[u8]) -> Result<(), Self::Error> {
        let mut keys = keys.iter();
        keys.try_for_each(|key| self.write(Space::Default, key, value))
    }

    /// Writes a record of [`Space::Default`] unless there is one, in a transaction if the store has
    /// them; returns whether it did.
    ///
    /// # Errors
    /// The engine's error.
    fn create(&mut self, key: &[u8], value: &[u8]) -> Result<bool, Self::Error> {
        let is_new = !self.read(Space::Default, key)?;
        if is_new {
            self.write(Space::Default, key, value)?;
        }
        Ok(is_new)
    }

    /// Flushes the memtable into a sorted run.
    ///
    /// # Errors
    /// The engine's error.
    fn flush(&mut self) -> Result<(), Self::Error>;
}

/// A store whose filters can be probed separately from the engine.
pub trait WithFilters: Store {
    /// Whether the filters alone answer *absent*.
    fn rules_out(&self, space: Space, key: &[u8]) -> bool;

    /// Reads the engine without the filters; returns whether the record exists.
    ///
    /// # Errors
    /// The engine's error.
    fn read_past(&self, space: Space, key: &[u8]) -> Result<bool, Self::Error>;
}
