//! The differential store as a [`Store`].

use std::path::Path;

use rocksdb::Options;

use super::{Space, Store, WithFilters};
use lsm_sieve::SieveOptions;
use lsm_sieve_differential::{
    DifferentialError, DifferentialOptions, DifferentialStore, OpenDifferentialError,
};

/// A differential store. Its main file cannot be read without its differential file, so every space
/// but [`Space::Differential`] stands for both.
pub struct Differential(DifferentialStore);

impl Differential {
    /// Opens the store in `path`.
    ///
    /// # Errors
    /// [`OpenDifferentialError`].
    pub fn open(
        options: &Options,
        sieve: &SieveOptions,
        path: &Path,
    ) -> Result<Self, OpenDifferentialError> {
        let settings = DifferentialOptions {
            filters: sieve.clone(),
            ..DifferentialOptions::default()
        };
        DifferentialStore::open(options, &settings, path).map(Self)
    }

    /// The store itself.
    pub const fn store(&self) -> &DifferentialStore {
        &self.0
    }
}

impl Store for Differential {
    type Error = DifferentialError;

    fn read(&self, space: Space, key: &[u8]) -> Result<bool, DifferentialError> {
        match space {
            Space::Differential => Ok(self.0.may_be_modified(key) && self.0.is_modified(key)?),
            Space::Main | Space::Default => self.read_newest(key),
        }
    }

    fn read_newest(&self, key: &[u8]) -> Result<bool, DifferentialError> {
        Ok(self.0.get(key)?.is_some())
    }

    fn read_many(&self, keys: &[&[u8]]) -> Result<usize, DifferentialError> {
        let mut values = self.0.multi_get(keys).into_iter();
        values.try_fold(0, |found, value| Ok(found + usize::from(value?.is_some())))
    }

    fn write(&mut self, space: Space, key: &[u8], value: &[u8]) -> Result<(), DifferentialError> {
        match space {
            Space::Main => self.0.load([(key, value)]),
            Space::Differential | Space::Default => self.0.put(key, value),
        }
    }

    fn flush(&mut self) -> Result<(), DifferentialError> {
        self.0.flush()
    }
}

impl WithFilters for Differential {
    fn rules_out(&self, space: Space, key: &[u8]) -> bool {
        space == Space::Differential && !self.0.may_be_modified(key)
    }

    fn read_past(&self, space: Space, key: &[u8]) -> Result<bool, DifferentialError> {
        match space {
            Space::Differential => self.0.is_modified(key),
            Space::Main | Space::Default => Ok(self.0.get_unfiltered(key)?.is_some()),
        }
    }
}
