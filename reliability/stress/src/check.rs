//! The result of a check: the counts, or a violation.

use std::error::Error;
use std::ops::AddAssign;

use serde::Serialize;

/// The operations, all with right results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Keys written, and keys read and compared with the model, once for each way to read.
    pub operations: u64,
    /// The reads among them.
    pub reads: u64,
    /// Reads that had to find a value, by the versions written before and begun after.
    pub must_exist: u64,
    /// Reads that had to find nothing.
    pub must_not_exist: u64,
    /// Reads beside a write, which may find a value or nothing.
    pub either: u64,
    /// Keys that the filters denied, and that the engine, read past them, did not have either.
    pub checked_negatives: u64,
    /// Absent keys that the filters did not deny.
    #[serde(rename = "let_by")]
    pub false_positives: u64,
    /// Entries of SSTs for which `verify` probed the filters.
    pub entries_verified: u64,
    /// The number of times that a database was opened.
    pub opened: u64,
}

impl Tally {
    pub fn wrote(&mut self, keys: usize) {
        self.operations += keys as u64;
    }

    pub fn read(&mut self, certainty: Certainty) {
        self.operations += 1;
        self.reads += 1;
        let count = match certainty {
            Certainty::MustExist => &mut self.must_exist,
            Certainty::MustNotExist => &mut self.must_not_exist,
            Certainty::Either => &mut self.either,
        };
        *count += 1;
    }
}

/// What was known about a key that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    MustExist,
    MustNotExist,
    Either,
}

impl Certainty {
    /// The certainty for a key that no other thread writes.
    pub const fn of(expected: Option<u64>) -> Self {
        match expected {
            Some(_) => Self::MustExist,
            None => Self::MustNotExist,
        }
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.operations += other.operations;
        self.reads += other.reads;
        self.must_exist += other.must_exist;
        self.must_not_exist += other.must_not_exist;
        self.either += other.either;
        self.checked_negatives += other.checked_negatives;
        self.false_positives += other.false_positives;
        self.entries_verified += other.entries_verified;
        self.opened += other.opened;
    }
}

/// A wrong result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Whether a key that exists was not found.
    pub lost: bool,
    pub what: String,
}

impl Violation {
    pub fn lost(what: impl Into<String>) -> Self {
        Self {
            lost: true,
            what: what.into(),
        }
    }

    pub fn other(what: impl Into<String>) -> Self {
        Self {
            lost: false,
            what: what.into(),
        }
    }

    /// Whether the disk was full, in the words of RocksDB and of the system. A lost key is lost all
    /// the same.
    pub fn is_a_full_disk(&self) -> bool {
        !self.lost && self.what.contains("No space left on device")
    }
}

/// Every error here is a finding.
impl<E: Error + 'static> From<E> for Violation {
    fn from(error: E) -> Self {
        let mut what = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            what = format!("{what}: {error}");
            cause = error.source();
        }
        Self::other(what)
    }
}

pub type Checked = Result<(), Violation>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_key_is_no_full_disk_whatever_it_says() {
        let said = "IO error: No space left on device: While appending to file: case/000007.log";
        assert!(Violation::other(said).is_a_full_disk());
        assert!(!Violation::lost(said).is_a_full_disk());
        assert!(!Violation::other("IO error: the file is gone").is_a_full_disk());
    }
}
