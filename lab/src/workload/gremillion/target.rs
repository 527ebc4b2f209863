//! What answers the transactions: a store or a filter, which reports whether the differential file
//! had to be searched.

use crate::filter::{Kind, Shape, Stage, StageError};
use crate::math::{Bits, Probes};
use lsm_sieve_cli::workload::random::{Random, scramble};
use lsm_sieve_filter::hash::{HashId, KeyHash, KeyHasher, Seed};

use super::error_floor;

/// A differential file, or only its filter.
pub trait Target {
    /// The error of a read or a write.
    type Error;

    /// Writes a new version of the record into the differential file.
    ///
    /// # Errors
    /// If it cannot be written.
    fn update(&mut self, key: &[u8]) -> Result<(), Self::Error>;

    /// Reads the record; true if the differential file was searched for it.
    ///
    /// # Errors
    /// If it cannot be read.
    fn read(&mut self, key: &[u8]) -> Result<bool, Self::Error>;
}

/// The kind of hash functions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Hashing {
    /// XXH3-64; all positions come from its 64 bits.
    #[default]
    Strong,
    /// XXH3-64 folded to one of [`error_floor::RANGE`] values, from which all positions come: two keys
    /// agree in every position with probability 1 / [`error_floor::RANGE`].
    Weak,
}

/// A filter alone, with a given number of bits and hash functions.
#[derive(Debug)]
pub struct Filtered {
    stage: Stage,
    hasher: KeyHasher,
    hashing: Hashing,
    /// Gives equal base values different positions in different runs.
    salt: u64,
}

impl Filtered {
    /// An empty filter; the seed determines its hash functions.
    ///
    /// # Errors
    /// If no such filter exists, or it cannot be allocated.
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
            Hashing::Weak => KeyHash::new(scramble((hash.get() % error_floor::RANGE) ^ self.salt)),
        }
    }
}

impl Target for Filtered {
    type Error = StageError;

    fn update(&mut self, key: &[u8]) -> Result<(), StageError> {
        self.stage.insert(self.hash(key));
        Ok(())
    }

    fn read(&mut self, key: &[u8]) -> Result<bool, StageError> {
        Ok(self.stage.may_contain(self.hash(key)))
    }
}
