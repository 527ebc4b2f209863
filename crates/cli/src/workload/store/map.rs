//! A map whose filters can be set to answer wrongly, to test the counts of the drivers.

use super::{Space, Store, WithFilters};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::convert::Infallible;

/// A set of records. The filters answer correctly, except for the keys of two lists.
#[derive(Default)]
pub(crate) struct Map {
    records: BTreeSet<(Space, Vec<u8>)>,
    /// Absent keys that the filters answer *maybe*: false positives.
    pub(crate) let_through: BTreeSet<Vec<u8>>,
    /// Present keys that the filters answer *absent*: false negatives.
    pub(crate) lost: BTreeSet<Vec<u8>>,
    pub(crate) flushes: u64,
    /// Counts one block per record that was found.
    blocks_read: Cell<u64>,
}

impl Map {
    fn holds(&self, space: Space, key: &[u8]) -> bool {
        self.records.contains(&(space, key.to_vec()))
    }

    pub(crate) fn len(&self, space: Space) -> usize {
        self.records.iter().filter(|(at, _)| *at == space).count()
    }
}

impl Store for Map {
    type Error = Infallible;

    fn read(&self, space: Space, key: &[u8]) -> Result<bool, Infallible> {
        let found = !self.rules_out(space, key) && self.holds(space, key);
        self.blocks_read.update(|blocks| blocks + u64::from(found));
        Ok(found)
    }

    fn blocks_read(&self) -> u64 {
        self.blocks_read.get()
    }

    fn read_many(&self, keys: &[&[u8]]) -> Result<usize, Infallible> {
        let found =
            |key: &&&[u8]| !self.rules_out(Space::Default, key) && self.holds(Space::Default, key);
        Ok(keys.iter().filter(found).count())
    }

    fn write(&mut self, space: Space, key: &[u8], _value: &[u8]) -> Result<(), Infallible> {
        self.records.insert((space, key.to_vec()));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Infallible> {
        self.flushes += 1;
        Ok(())
    }
}

impl WithFilters for Map {
    fn rules_out(&self, space: Space, key: &[u8]) -> bool {
        if self.holds(space, key) {
            self.lost.contains(key)
        } else {
            !self.let_through.contains(key)
        }
    }

    fn read_past(&self, space: Space, key: &[u8]) -> Result<bool, Infallible> {
        Ok(self.holds(space, key))
    }
}
