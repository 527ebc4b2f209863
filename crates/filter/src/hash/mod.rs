//! One stable 64-bit hash per key, computed once at the edge. No filter sees key bytes.
//!
//! A filter outlives the process that wrote it, so the hash must give the same value on every
//! machine and in every release: XXH3-64 is frozen by its specification, SipHash-1-3 by its paper.
//! Both are keyed with a secret [`Seed`] of the database. [`KeyHasher::imprint`] identifies the
//! hash and the seed of a filter without revealing the seed. Filters of different imprints are
//! never compared, merged or consulted for one another.
//!
//! XXH3 does not withstand an attacker who can guess the seed by watching answers. Choose
//! [`HashId::SipHash13`] if an attacker may choose the keys.

use siphasher::sip::SipHasher13;
use std::hash::Hasher as _;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::fault::fault;

/// The 64-bit hash of one key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyHash(u64);

impl KeyHash {
    /// Wraps a hash value.
    #[inline]
    pub const fn new(hash: u64) -> Self {
        Self(hash)
    }

    /// The bare value.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Another hash of the same key, derived from this one. Filters of one shape have the same
    /// false positives if they hold the same keys under the same hash. A second filter that is to
    /// correct the first must not.
    #[inline]
    #[must_use]
    pub const fn for_summary(self) -> Self {
        Self((self.0 ^ (self.0 >> 32)).wrapping_mul(SUMMARY_MIX))
    }
}

/// An odd constant of SplitMix64. Frozen, because stored bits depend on it.
const SUMMARY_MIX: u64 = 0xbf58_476d_1ce4_e5b9;

/// The hash function. The number is the one stored in files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HashId {
    /// XXH3-64 with a seed: the fastest with a frozen specification.
    #[default]
    Xxh3 = 1,
    /// SipHash-1-3 with a 128-bit key, for keys that an attacker may choose.
    SipHash13 = 2,
}

impl HashId {
    /// The hash with this number, if it exists.
    pub const fn from_u8(id: u8) -> Option<Self> {
        match id {
            1 => Some(Self::Xxh3),
            2 => Some(Self::SipHash13),
            _ => None,
        }
    }
}

/// The secret that keys a database's hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Seed([u8; 16]);

impl Seed {
    /// A new secret from the operating system.
    ///
    /// # Errors
    /// If the system cannot provide randomness.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }

    /// A seed from given bytes: for tests, and for a stored seed.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The secret bytes, to be stored where only the owner can read them.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl std::fmt::Debug for Seed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Seed(secret)")
    }
}

/// What two filters must share before one may cover the other's keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Imprint {
    /// The hash function.
    pub hash: HashId,
    /// A value derived from the seed; equal for equal seeds.
    pub seed_id: u64,
    /// Computed from the hashes of fixed keys, short and long, under this seed. Detects a hash
    /// function that has changed.
    pub known_answer: u64,
}

impl Imprint {
    /// The imprint of a filter of [`KeyHash::for_summary`] hashes.
    #[must_use]
    pub const fn for_summary(self) -> Self {
        Self {
            known_answer: KeyHash(self.known_answer).for_summary().0,
            ..self
        }
    }
}

/// Hashes keys with one function and one seed.
#[derive(Clone, Copy)]
pub struct KeyHasher {
    id: HashId,
    seed: Seed,
    /// The part of the seed that XXH3 takes.
    low: u64,
}

impl std::fmt::Debug for KeyHasher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut hasher = f.debug_struct("KeyHasher");
        hasher.field("id", &self.id).field("seed", &self.seed);
        hasher.finish_non_exhaustive()
    }
}

/// The key length up to which XXH3 needs neither loop nor table.
const SHORT: usize = 128;

/// The fixed keys are prefixes of these bytes.
const KNOWN_BYTES: [u8; 2_500] = known_bytes();
/// The lengths of the fixed keys. XXH3 has another code path for the keys up to each of these
/// lengths, and the longest takes more than one block of 1,024 bytes.
const KNOWN_LENGTHS: [usize; 8] = [0, 3, 8, 16, 128, 240, 1_000, KNOWN_BYTES.len()];
const SEED_KEY: &[u8] = b"lsm-sieve seed identity";

/// The byte at `i` is `i * i / 16`, cut to 8 bits.
const fn known_bytes<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    let mut i = 0;
    while i < N {
        bytes[i] = (i * i / 16) as u8;
        i += 1;
    }
    bytes
}

/// The hashes of all fixed keys in one value. Each step is a bijection in each of its two inputs,
/// so the value changes if any single hash changes.
fn known_answer(hash: impl Fn(&[u8]) -> KeyHash) -> u64 {
    KNOWN_LENGTHS.iter().fold(0, |answer, &length| {
        fault!(
            LongKeysNotInKnownAnswer,
            if length > SHORT {
                return answer;
            }
        );
        KeyHash(answer ^ hash(&KNOWN_BYTES[..length]).0)
            .for_summary()
            .0
    })
}

impl KeyHasher {
    /// A hasher with this function and seed.
    #[inline]
    pub fn new(id: HashId, seed: Seed) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = seed.0;
        Self {
            id,
            seed,
            low: u64::from_le_bytes([a, b, c, d, e, f, g, h]),
        }
    }

    /// The hash of a key's bytes.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        match self.try_hash(key) {
            Some(hash) => hash,
            None => self.hash_any(key),
        }
    }

    /// [`KeyHasher::hash`], if it needs no call: XXH3 of a short key.
    #[doc(hidden)]
    #[inline]
    pub fn try_hash(&self, key: &[u8]) -> Option<KeyHash> {
        match self.id {
            HashId::Xxh3 if key.len() <= SHORT => Some(KeyHash(xxh3_64_with_seed(key, self.low))),
            _ => None,
        }
    }

    #[inline(never)]
    fn hash_any(&self, key: &[u8]) -> KeyHash {
        fault!(
            LongKeysHashedDifferently,
            if key.len() > SHORT {
                return KeyHash(xxh3_64_with_seed(key, !self.low));
            }
        );
        match self.id {
            HashId::Xxh3 => KeyHash(xxh3_64_with_seed(key, self.low)),
            HashId::SipHash13 => KeyHash(self.sip(key)),
        }
    }

    fn sip(&self, bytes: &[u8]) -> u64 {
        let mut sip = SipHasher13::new_with_key(&self.seed.0);
        sip.write(bytes);
        sip.finish()
    }

    /// The hash function of this hasher.
    pub const fn id(&self) -> HashId {
        self.id
    }

    /// The seed of this hasher.
    pub const fn seed(&self) -> &Seed {
        &self.seed
    }

    /// The imprint that a filter built with this hasher carries in its header.
    pub fn imprint(&self) -> Imprint {
        Imprint {
            hash: self.id,
            // SipHash is a pseudo-random function: its value does not reveal the seed.
            seed_id: self.sip(SEED_KEY),
            known_answer: known_answer(|key| self.hash(key)),
        }
    }
}

#[cfg(test)]
mod tests;
