//! What answers the transactions: anything that says whether it had to search the differential file.

use crate::filter::{Kind, Shape, Stage, StageError};
use crate::hash::{HashId, KeyHash, KeyHasher, Seed};
use crate::math::{Bits, Probes};
use crate::workload::random::{Random, scramble};

use super::floor;

/// A differential file, or the filter that stands for one.
pub trait Subject {
    /// Why it could not answer.
    type Error;

    /// Writes a new version of the record into the differential file.
    ///
    /// # Errors
    /// When it cannot be written.
    fn update(&mut self, key: &[u8]) -> Result<(), Self::Error>;

    /// Reads the record; true when the differential file was searched for it.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&mut self, key: &[u8]) -> Result<bool, Self::Error>;
}

/// The hash functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hashing {
    /// XXH3-64, and all positions from its 64 bits.
    #[default]
    Strong,
    /// The same folded to one of [`floor::RANGE`] values, and all positions from that: two keys in
    /// so many agree in every position.
    Weak,
}

/// A filter of exactly so many bits and functions, alone.
#[derive(Debug)]
pub struct Filtered {
    stage: Stage,
    hasher: KeyHasher,
    hashing: Hashing,
    /// Keeps the positions of equal bases apart from run to run.
    salt: u64,
}

impl Filtered {
    /// An empty one; the seed chooses its hash functions.
    ///
    /// # Errors
    /// When there is no such filter, or no memory for it.
    pub fn new(
        bits: Bits,
        probes: Probes,
        hashing: Hashing,
        seed: u64,
    ) -> Result<Self, StageError> {
        let stage = Stage::new(Shape {
            kind: Kind::Standard,
            bits,
            probes,
            groups: 0,
        })?;
        let mut random = Random::new(seed);
        let words = [random.word(), random.word()].map(u64::to_le_bytes);
        let mut bytes = [0; 16];
        bytes.copy_from_slice(words.as_flattened());
        Ok(Self {
            stage,
            hasher: KeyHasher::new(HashId::Xxh3, Seed::from_bytes(bytes)),
            hashing,
            salt: random.word(),
        })
    }

    fn hash(&self, key: &[u8]) -> KeyHash {
        let hash = self.hasher.hash(key);
        match self.hashing {
            Hashing::Strong => hash,
            Hashing::Weak => KeyHash::new(scramble((hash.get() % floor::RANGE) ^ self.salt)),
        }
    }
}

impl Subject for Filtered {
    type Error = StageError;

    fn update(&mut self, key: &[u8]) -> Result<(), StageError> {
        self.stage.insert(self.hash(key));
        Ok(())
    }

    fn read(&mut self, key: &[u8]) -> Result<bool, StageError> {
        Ok(self.stage.may_contain(self.hash(key)))
    }
}
