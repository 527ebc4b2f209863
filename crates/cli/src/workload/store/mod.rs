//! What a workload asks of a store: the one place where an engine's calls are named.
//!
//! [`Store`] is a key-value store; [`Fronted`] is one with filters before it, whose answers can be
//! had apart from the engine's. Drivers are written against these two, so a replay runs unchanged
//! over a RocksDB with the front, over one without, and over a map.

#[cfg(feature = "rocksdb")]
mod differential;
#[cfg(test)]
pub(crate) mod map;
#[cfg(feature = "rocksdb")]
mod rocks;

#[cfg(feature = "rocksdb")]
pub use differential::Differential;
#[cfg(feature = "rocksdb")]
pub use rocks::{OpenStoreError, Plain, Sieve, column_families, count_blocks};

use std::error::Error;

/// A key space of a store: one column family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Space {
    /// The one that every database has.
    Default,
    /// Records as of the last reorganisation.
    Main,
    /// Records newer than that.
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
    /// What the engine says when it fails.
    type Error: Error + Send + Sync + 'static;

    /// Reads a record; says whether there was one.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn read(&self, space: Space, key: &[u8]) -> Result<bool, Self::Error>;

    /// Reads the newest record of a key: the differential one, or else the main one.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn read_newest(&self, key: &[u8]) -> Result<bool, Self::Error> {
        Ok(self.read(Space::Differential, key)? || self.read(Space::Main, key)?)
    }

    /// Reads records of [`Space::Default`] in one call; says how many there were.
    ///
    /// # Errors
    /// Whatever the engine says about any of them.
    fn read_many(&self, keys: &[&[u8]]) -> Result<usize, Self::Error>;

    /// The blocks that this thread's reads, of whatever store, took from disk so far. 0 where they are not
    /// counted.
    fn blocks_read(&self) -> u64 {
        0
    }

    /// Writes a record, whether or not there was one.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn write(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), Self::Error>;

    /// Moves what is in memory into a sorted run.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn flush(&mut self) -> Result<(), Self::Error>;
}

/// A store whose filters can be asked apart from the engine.
pub trait Fronted: Store {
    /// Whether the filters alone answer *absent*.
    fn rules_out(&self, space: Space, key: &[u8]) -> bool;

    /// Asks the engine, past the filters; says whether there was a record.
    ///
    /// # Errors
    /// Whatever the engine says.
    fn read_past(&self, space: Space, key: &[u8]) -> Result<bool, Self::Error>;
}
