//! The expected contents of a database: an array of numbers by rank for each family.
//!
//! A value is a number, spelt out with a padding that depends on it. A merge adds to it. So a copy
//! of a model, which a snapshot takes, is a copy of numbers.

use std::ops::Range;

use rocksdb::MergeOperands;
use serde::{Deserialize, Serialize};

/// The names of the families. The first always exists.
pub const FAMILIES: [&str; 4] = ["default", "one", "two", "late"];

/// The bytes of a value.
pub fn value(number: u64) -> Vec<u8> {
    number
        .to_le_bytes()
        .into_iter()
        .chain(padding(number))
        .collect()
}

/// The padding after the number in a value: a few bytes, and sometimes many.
fn padding(number: u64) -> impl Iterator<Item = u8> {
    const LONG: u64 = 61;
    let length = match number % LONG {
        0 => 700,
        short => short % 16,
    };
    (b'a'..=b'z')
        .cycle()
        .zip(0..length)
        .map(|(letter, _)| letter)
}

/// The number in a value; `None` for bytes that are no value.
pub fn number(bytes: &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    let number = u64::from_le_bytes(*number);
    rest.iter().copied().eq(padding(number)).then_some(number)
}

/// The merge operator: addition. Bytes that are no value make the result invalid, so that a read
/// notices.
pub fn add(_: &[u8], old: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let mut parts = old.into_iter().chain(operands.iter()).map(number);
    let sum = parts.try_fold(0_u64, |sum, part| Some(sum.wrapping_add(part?)));
    Some(sum.map_or_else(|| b"no number".to_vec(), value))
}

/// A change of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Change {
    Put(u64),
    Merge(u64),
    Delete,
}

impl Change {
    /// The new value of a key that had the value `old`.
    pub fn of(self, old: Option<u64>) -> Option<u64> {
        match self {
            Self::Put(number) => Some(number),
            Self::Merge(number) => Some(old.unwrap_or(0).wrapping_add(number)),
            Self::Delete => None,
        }
    }
}

/// The values of the keys of one family, by rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents(Vec<Option<u64>>);

impl Contents {
    pub fn empty(keys: usize) -> Self {
        Self(vec![None; keys])
    }

    pub fn get(&self, rank: usize) -> Option<u64> {
        self.0.get(rank).copied().flatten()
    }

    pub fn apply(&mut self, rank: usize, change: Change) {
        if let Some(slot) = self.0.get_mut(rank) {
            *slot = change.of(*slot);
        }
    }

    pub fn clear(&mut self, ranks: Range<usize>) {
        let end = ranks.end.min(self.0.len());
        let start = ranks.start.min(end);
        self.0[start..end].fill(None);
    }

    /// The ranks in this range that have a value, ascending, with their values.
    pub fn held(&self, ranks: Range<usize>) -> impl DoubleEndedIterator<Item = (usize, u64)> + '_ {
        let end = ranks.end.min(self.0.len());
        let start = ranks.start.min(end);
        (start..end).filter_map(|rank| Some((rank, self.0[rank]?)))
    }
}

/// The families of a database; `None` for one that does not exist.
#[derive(Clone, Debug)]
pub struct Model {
    families: [Option<Contents>; FAMILIES.len()],
    keys: usize,
}

impl Model {
    /// All families but the last, empty.
    pub fn new(keys: usize) -> Self {
        let mut families = FAMILIES.map(|_| Some(Contents::empty(keys)));
        families[FAMILIES.len() - 1] = None;
        Self { families, keys }
    }

    pub fn family(&self, family: usize) -> Option<&Contents> {
        self.families.get(family)?.as_ref()
    }

    pub fn family_mut(&mut self, family: usize) -> Option<&mut Contents> {
        self.families.get_mut(family)?.as_mut()
    }

    /// The families that exist.
    pub fn existing(&self) -> impl Iterator<Item = usize> + use<> {
        let existing = self.families.each_ref().map(Option::is_some);
        (0..FAMILIES.len()).filter(move |&family| existing[family])
    }

    /// Creates a family that does not exist, or empties one that does.
    pub fn make_empty(&mut self, family: usize) {
        self.families[family] = Some(Contents::empty(self.keys));
    }

    pub fn remove(&mut self, family: usize) {
        self.families[family] = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_encode_numbers_and_other_bytes_are_rejected() {
        for expected in [0, 1, 61, 62, u64::MAX] {
            assert_eq!(number(&value(expected)), Some(expected));
        }
        assert_eq!(number(b"short"), None);
        let mut cut = value(61);
        cut.pop();
        assert_eq!(number(&cut), None);
    }

    #[test]
    fn changes_apply_to_contents() {
        let mut contents = Contents::empty(4);
        contents.apply(1, Change::Merge(5));
        contents.apply(1, Change::Merge(6));
        contents.apply(3, Change::Put(7));
        contents.apply(9, Change::Put(8));
        assert_eq!(contents.held(0..99).collect::<Vec<_>>(), [(1, 11), (3, 7)]);
        contents.clear(0..2);
        assert_eq!(contents.held(0..4).next_back(), Some((3, 7)));
        contents.apply(3, Change::Delete);
        assert_eq!(contents, Contents::empty(4));
    }
}
