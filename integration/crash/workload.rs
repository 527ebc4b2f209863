//! The steps of a writer, fixed by its seed.
//!
//! Each writer owns a range of the key space, so that the order of two writers does not matter. A
//! value is a number. A merge adds to it, which is associative, so the model is a number too.

use std::ops::Range;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::support::history::model::{Change, Write};
use crate::support::history::world::WRITERS;

/// The permanent column families.
pub(super) const FAMILIES: [&str; 3] = ["default", "one", "two"];

/// One that is created and dropped.
pub(super) const TEMPORARY: &str = "temporary";

/// Keys of a family that may be written.
pub(super) const KEYS: u32 = 2_000;

/// Keys that are read. The last ones are never written.
pub(super) const KEYS_READ: u32 = 2_500;

const OWN: u32 = KEYS / WRITERS;

/// The bytes of a key.
pub(super) fn key(index: u32) -> Vec<u8> {
    format!("key-{index:05}").into_bytes()
}

/// The bytes of a value.
pub(super) fn value(number: u64) -> Vec<u8> {
    let mut bytes = number.to_le_bytes().to_vec();
    let padding = number % 150;
    bytes.extend((0..padding).map(|_| b'a' + (number % 23) as u8));
    bytes
}

/// The number of a value; `None` for other bytes.
pub(super) fn number(bytes: &[u8]) -> Option<u64> {
    let number = u64::from_le_bytes(*bytes.first_chunk()?);
    (value(number) == bytes).then_some(number)
}

/// One step of a writer.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Write(usize, u32, Change),
    Batch(Vec<Write>),
    RemoveRange(usize, Range<u32>),
    /// An SST file written outside the database: every `stride`-th key of a range, all with one
    /// number.
    Ingest {
        family: usize,
        keys: Range<u32>,
        stride: usize,
        number: u64,
        moved: bool,
    },
    Read(usize, u32),
    /// Takes a snapshot of some keys, or releases the one that is held.
    Snapshot(usize, u32),
    Flush(usize),
    Compact(usize),
    /// Creates or drops a family, or writes into it.
    CreateOrDropCf(u64),
}

impl Step {
    /// The changes of the step to the permanent families.
    pub(super) fn changes(&self) -> Vec<Write> {
        match self {
            Self::Write(family, key, change) => vec![(*family, *key, *change)],
            Self::Batch(changes) => changes.clone(),
            Self::RemoveRange(family, keys) => keys
                .clone()
                .map(|key| (*family, key, Change::Remove))
                .collect(),
            Self::Ingest {
                family,
                keys,
                stride,
                number,
                ..
            } => keys
                .clone()
                .step_by(*stride)
                .map(|key| (*family, key, Change::Set(*number)))
                .collect(),
            Self::Read(..)
            | Self::Snapshot(..)
            | Self::Flush(_)
            | Self::Compact(_)
            | Self::CreateOrDropCf(_) => Vec::new(),
        }
    }

    /// For the statistics of when kills came.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Write(..) => "write",
            Self::Batch(_) => "batch",
            Self::RemoveRange(..) => "remove range",
            Self::Ingest { .. } => "ingest",
            Self::Read(..) => "read",
            Self::Snapshot(..) => "snapshot",
            Self::Flush(_) => "flush",
            Self::Compact(_) => "compact",
            Self::CreateOrDropCf(_) => "create or drop family",
        }
    }
}

/// An endless stream of steps.
pub(super) struct Workload {
    random: StdRng,
    writer: u32,
    /// Many writes go to few keys, others to many; each workload has its own mixture.
    hot: u32,
}

impl Workload {
    pub(super) fn new(seed: u64, writer: u32) -> Self {
        let mut random = StdRng::seed_from_u64(seed ^ (u64::from(writer) << 56));
        let hot = random.random_range(20..OWN);
        Self {
            random,
            writer,
            hot,
        }
    }

    fn family(&mut self) -> usize {
        self.random.random_range(0..FAMILIES.len())
    }

    fn key(&mut self) -> u32 {
        let width = if self.random.random_bool(0.5) {
            self.hot
        } else {
            OWN
        };
        self.writer * OWN + self.random.random_range(0..width)
    }

    /// Half of the numbers have long values.
    fn number(&mut self) -> u64 {
        self.random.random_range(0..1_u64 << 40)
    }

    fn change(&mut self) -> Change {
        match self.random.random_range(0..10) {
            0..6 => Change::Set(self.number()),
            6..8 => Change::Add(self.number()),
            _ => Change::Remove,
        }
    }

    fn write(&mut self) -> Write {
        (self.family(), self.key(), self.change())
    }

    fn range(&mut self, most: u32) -> Range<u32> {
        let from = self.key();
        let to = from + self.random.random_range(1..=most);
        from..to.min((self.writer + 1) * OWN)
    }
}

impl Iterator for Workload {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        Some(match self.random.random_range(0..1_000) {
            0..600 => {
                let (family, key, change) = self.write();
                Step::Write(family, key, change)
            }
            600..700 => {
                let length = self.random.random_range(2..20);
                Step::Batch((0..length).map(|_| self.write()).collect())
            }
            700..715 => Step::RemoveRange(self.family(), self.range(30)),
            715..735 => Step::Ingest {
                family: self.family(),
                keys: self.range(300),
                stride: self.random.random_range(1..4),
                number: self.number(),
                moved: self.random.random_bool(0.5),
            },
            735..940 => Step::Read(self.family(), self.key()),
            940..965 => Step::Snapshot(self.family(), self.key()),
            965..985 => Step::Flush(self.family()),
            985..993 => Step::Compact(self.family()),
            _ if self.writer == 0 => Step::CreateOrDropCf(self.number()),
            _ => Step::Read(self.family(), self.key()),
        })
    }
}
