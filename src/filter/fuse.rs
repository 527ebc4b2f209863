//! The static layout: cells that are worked out from all keys at once, and take none afterwards.
//!
//! ```text
//! words   | seed 0 | ... | seed S−1 | cells of shard 0 | ... | cells of shard S−1 | 0 |
//!
//! shard   = ⌊ hash × S / 2^64 ⌋                                  about a million cells each
//! h       = high ^ low half of (hash ^ seed) × MIX
//! first   = ⌊ h × (cells − 3 segments) / 2^64 ⌋
//! cells   first,  first + 1 segment,  + 2 segments,  + 3 segments     the last three with 16 bits
//!                                                                     of h each, XORed within
//!                                                                     their segment
//! maybe   when the four cells XOR to the fingerprint, r bits of h ^ h / 2^32
//! ```
//!
//! In a map ([`map`]) the low bits of that sum are the key's value, and those above them its fingerprint.
//!
//! A binary fuse filter (Graf & Lemire, JEA 27, 2022). The cells are found by peeling: a key that has
//! one of its cells to itself is put aside, for that cell can be set last; so are all keys, one after
//! another, and then the cells are set in reverse order. Where that comes to no end the shard takes the
//! next seed.
//!
//! A key that is inserted nevertheless makes the filter answer *maybe* to all: what the seeds then say.

mod map;
mod peel;

pub(super) use self::map::Coded;
use self::map::VALUE_UNIT;
pub use self::map::{GROUPS, Grouped, MOST_VALUE_BITS, Mapped, Values};
pub(super) use self::peel::fused;

use super::{Kind, Shape, ShapeError, probe};
use crate::bits::Words;
use crate::hash::KeyHash;
use crate::math::fuse::{self, MAX_CELL_BITS};
use crate::math::{Bits, Items, Probes};
use crate::planted::planted;

/// The geometry: a shard at least, of four segments at least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fuse {
    words: u64,
    shards: u64,
    shard_words: u64,
    cells: Cells,
    /// Cells of a segment, a power of two.
    segment: u64,
    /// Cells that can be a key's first.
    starts: u64,
}

const WORD_BITS: u64 = 64;

/// What each cell holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cells {
    bits: u32,
    /// The low ones of these bits are not of the fingerprint.
    value_bits: u32,
    /// The bits of a key's hash that tell it from another: all, but in a map.
    told_by: u64,
    /// The bits of a sum that are clear for a key which is in the filter.
    tested: u64,
}

impl Cells {
    /// Of fingerprints alone; `None` where there are no such cells.
    pub(super) fn plain(bits: u32) -> Option<Self> {
        let fit = (1..=MAX_CELL_BITS).contains(&bits);
        fit.then(|| Self {
            bits,
            value_bits: 0,
            told_by: u64::MAX,
            tested: low_bits(bits),
        })
    }

    fn kind(self) -> Kind {
        if self.told_by == u64::MAX {
            Kind::Fuse
        } else {
            Kind::Map
        }
    }
}

/// Cells of a key.
const ARITY: u64 = 4;

/// Cells for which a filter is given one more shard: building a shard takes 30 bytes for each of its
/// cells, and fewer cells than 600,000 would take more than 1.075 for each key.
const SHARD_CELLS: u64 = 1 << 20;

/// An odd constant of wyhash's; frozen, since stored bits depend on it.
const MIX: u64 = 0xa076_1d64_78bd_642f;

/// In the place of a seed: the filter answers *maybe* to all.
const FULL: u64 = u64::MAX;

/// The fewest cells of a shard whose segments have 2^5, 2^6, ... cells: 1.08 for each of 2.91^(i + 1/2)
/// keys. Frozen, since stored bits depend on it.
const SEGMENTS: [u64; 9] = [
    385, 1_119, 3_256, 9_474, 27_569, 80_224, 233_450, 679_339, 1_976_875,
];

/// The cells of the smallest segments, as a power of two.
const LEAST_LOG2: u32 = 4;

impl Fuse {
    /// The geometry in so many words; `None` where they are too few.
    fn in_words(words: u64, cells: Cells) -> Option<Self> {
        let shards = (words / (SHARD_CELLS / WORD_BITS) / u64::from(cells.bits)).max(1);
        let shard_words = words.checked_sub(shards + 1)? / shards;
        let room = shard_words * WORD_BITS / u64::from(cells.bits);
        let larger = SEGMENTS.iter().filter(|&&least| least <= room).count();
        let segment_log2 = LEAST_LOG2 + larger as u32;
        let segment = 1 << segment_log2;
        let segments = room / segment;
        Some(Self {
            words,
            shards,
            shard_words,
            cells,
            segment,
            starts: segments
                .checked_sub(ARITY - 1)
                .filter(|&starts| starts > 0)?
                * segment,
        })
    }

    /// The geometry for so many keys, which hardly ever needs to be larger.
    pub(super) fn for_keys(items: Items, cells: Cells) -> Option<Self> {
        Self::with_cells(fuse::cells(items), cells)
    }

    /// A geometry of so many cells, and little more.
    fn with_cells(count: u64, cells: Cells) -> Option<Self> {
        let least = count.checked_mul(u64::from(cells.bits))? / WORD_BITS;
        // As many more as make another segment of each shard.
        let more = (least..).step_by((least / SHARD_CELLS + 1) as usize);
        let geometries = more.take(1 << 16).map(|words| Self::in_words(words, cells));
        geometries
            .flatten()
            .find(|geometry| geometry.shards * geometry.shard_cells() >= count)
    }

    fn shard_cells(self) -> u64 {
        self.starts + (ARITY - 1) * self.segment
    }

    pub(super) fn shape(self) -> Shape {
        Shape {
            kind: self.cells.kind(),
            bits: Bits::new(self.words * WORD_BITS),
            probes: Probes::new(ARITY as u32),
            groups: self.cells.bits + self.cells.value_bits * VALUE_UNIT,
        }
    }

    /// Makes the filter full, unless the key seems to be in it.
    pub(super) fn insert(&self, words: &Words, hash: KeyHash) -> bool {
        if self.may_contain(words, hash) {
            return false;
        }
        if !planted!(FuseInsertionIgnored) {
            (0..self.shards).for_each(|shard| _ = words.set_word(shard, FULL));
        }
        true
    }

    #[inline(never)]
    pub(super) fn may_contain(&self, words: &Words, hash: KeyHash) -> bool {
        self.contains(words, hash)
    }

    #[inline(always)]
    fn contains(&self, words: &Words, hash: KeyHash) -> bool {
        let (sum, seed) = self.sum(words, hash);
        sum & self.cells.tested == 0 || seed == FULL
    }

    /// Whether a key may be in the filter and have one of these values.
    pub(super) fn may_have_one(&self, words: &Words, hash: KeyHash, values: Values) -> bool {
        if self.cells.kind() != Kind::Map {
            return true;
        }
        let (sum, seed) = self.sum(words, hash);
        let has = || values.has((sum & low_bits(self.cells.value_bits)) as u32);
        (sum & self.cells.tested == 0 && has()) || seed == FULL
    }

    /// What a key's cells and its fingerprint add up to, and above it anything; and the seed of its shard.
    #[inline(always)]
    fn sum(&self, words: &Words, hash: KeyHash) -> (u64, u64) {
        let shard = self.shard(hash);
        let seed = words.word(shard);
        let mixed = self.mix(hash, seed);
        let start = self.start_of(shard);
        let [first, second, third, fourth] = self.positions(mixed);
        // Not by `map`, which is a call.
        let sum = fingerprint(mixed)
            ^ self.cell(words, start, first)
            ^ self.cell(words, start, second)
            ^ self.cell(words, start, third)
            ^ self.cell(words, start, fourth);
        (sum, seed)
    }

    /// Nothing: while a processor works on the keys before, it has as many of these lines on their way as
    /// it can, and to work the cells out twice takes longer.
    pub(super) fn prefetch(self, _words: &Words, _hash: KeyHash) {}

    pub(super) fn test_each(&self, words: &Words, hashes: &[KeyHash], answers: &mut [bool]) {
        for (&hash, answer) in hashes.iter().zip(answers) {
            *answer = *answer || self.contains(words, hash);
        }
    }

    /// Whatever the number of keys: a key that is in none finds cells that it does not fill.
    pub(super) fn rate(self, _keys: Items) -> f64 {
        fuse::rate(self.cells.bits - self.cells.value_bits)
    }

    /// How often a key that is in none is found to have one of these values.
    pub(super) fn rate_of(self, values: Values) -> f64 {
        let has = (0..1 << self.cells.value_bits).filter(|&value| values.has(value));
        has.count() as f64 * fuse::rate(self.cells.bits)
    }

    pub(super) fn observed_rate(&self, words: &Words) -> f64 {
        if self.is_full(words) {
            1.0
        } else {
            self.rate(Items::new(0))
        }
    }

    pub(super) fn is_full(&self, words: &Words) -> bool {
        (0..self.shards).all(|shard| words.word(shard) == FULL)
    }

    #[inline]
    fn shard(&self, hash: KeyHash) -> u64 {
        probe::fast_range(self.untagged(hash), self.shards)
    }

    /// The bits of a hash that tell one key from another.
    #[inline]
    fn untagged(&self, hash: KeyHash) -> u64 {
        hash.get() & self.cells.told_by
    }

    #[inline]
    fn mix(&self, hash: KeyHash, seed: u64) -> u64 {
        let product = u128::from(self.untagged(hash) ^ seed) * u128::from(MIX);
        (product >> 64) as u64 ^ product as u64
    }

    /// The first bit of a shard's cells.
    #[inline]
    fn start_of(&self, shard: u64) -> u64 {
        (self.shards + shard * self.shard_words) * WORD_BITS
    }

    /// The cells of a key in its shard; all of them lie there, since a segment is a power of two.
    #[inline]
    fn positions(&self, mixed: u64) -> [u64; ARITY as usize] {
        let segment = self.segment;
        let within = segment - 1;
        let first = probe::fast_range(mixed, self.starts);
        [
            first,
            (first + segment) ^ (mixed & within),
            (first + 2 * segment) ^ ((mixed >> 16) & within),
            (first + 3 * segment) ^ ((mixed >> 32) & within),
        ]
    }

    /// A cell, in the low bits, and whatever lies above it.
    #[inline(always)]
    fn cell(&self, words: &Words, start: u64, cell: u64) -> u64 {
        words.bits_at(start + cell * u64::from(self.cells.bits))
    }
}

fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

#[inline]
fn fingerprint(mixed: u64) -> u64 {
    mixed ^ (mixed >> 32)
}

impl TryFrom<Shape> for Fuse {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        let Shape {
            kind,
            bits,
            probes,
            groups,
        } = shape;
        if u64::from(probes.get()) != ARITY {
            return Err(ShapeError::Probes { kind, probes });
        }
        let cells = match kind {
            Kind::Map => Cells::of_groups(groups),
            _ => Cells::plain(groups),
        };
        let cells = cells.ok_or(ShapeError::Groups {
            kind,
            probes,
            groups,
        })?;
        let words = shape.bits_in_units_of(WORD_BITS)? / WORD_BITS;
        let unit = WORD_BITS;
        Self::in_words(words, cells).ok_or(ShapeError::Bits { kind, bits, unit })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;
    use crate::filter::{Stage, StageError};
    use crate::math::Rate;

    fn fused(keys: usize, rate: f64) -> Stage {
        let hashes = hashes(1).take(keys).collect();
        Stage::fused(hashes, Rate::new(rate).unwrap()).unwrap()
    }

    fn strangers(stage: &Stage, asked: usize) -> usize {
        let strange = hashes(2).take(asked);
        strange.filter(|&hash| stage.may_contain(hash)).count()
    }

    /// The last are of several shards.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn all_keys_are_found_at_the_rate_and_in_the_bits_of_the_formula() {
        for keys in [0, 1, 2, 3, 10, 99, 1_000, 30_000, 300_000, 2_300_000] {
            let stage = fused(keys, 0.004);
            assert!(
                hashes(1).take(keys).all(|hash| stage.may_contain(hash)),
                "{keys}"
            );
            // Mean 781, standard deviation 28.
            let found = strangers(&stage, 200_000);
            assert!((640..=920).contains(&found), "{found} beside {keys}");
            let rate = Rate::new(0.004).unwrap();
            assert_eq!(Stage::fused_size(stage.items(), rate), Some(stage.size()));
            assert_eq!(stage.estimated_items().get(), keys as u64);
        }
        assert!(
            Fuse::try_from(fused(2_300_000, 0.004).shape())
                .unwrap()
                .shards
                > 1
        );
    }

    #[test]
    fn every_width_of_a_cell_works() {
        for bits in 1..=MAX_CELL_BITS {
            let stage = fused(700, fuse::rate(bits));
            assert_eq!(stage.shape().groups, bits);
            assert!(
                hashes(1).take(700).all(|hash| stage.may_contain(hash)),
                "{bits}"
            );
        }
        let below = Stage::fused(Vec::new(), Rate::new(1e-10).unwrap());
        assert!(matches!(below, Err(StageError::OutOfReach { .. })));
    }

    #[test]
    fn a_key_that_comes_twice_counts_once() {
        let twice = hashes(1).take(500).chain(hashes(1).take(500));
        let stage = Stage::fused(twice.collect(), Rate::ONE_PERCENT).unwrap();
        assert_eq!(stage.items().get(), 500);
        assert!(stage.words().eq(fused(500, 0.01).words()));
    }

    #[test]
    fn a_stage_that_is_given_a_key_answers_maybe_to_all() {
        let stage = fused(100, 0.01);
        let keys = hashes(1).take(100);
        assert!(
            keys.into_iter().all(|hash| !stage.insert(hash)),
            "it was in"
        );
        let key = hashes(2).find(|&hash| !stage.may_contain(hash)).unwrap();
        assert!(!stage.is_full() && stage.insert(key));
        assert!(stage.is_full() && stage.may_contain(key));
        assert_eq!((stage.predicted_rate(), stage.observed_rate()), (1.0, 1.0));
        assert_eq!(strangers(&stage, 1_000), 1_000);
    }

    /// A table, because no two machines need agree in the last bit of a logarithm.
    #[test]
    fn segments_are_those_of_the_formula() {
        for (least, log2) in SEGMENTS.into_iter().zip(LEAST_LOG2 + 1..) {
            let keys = least as f64 / 1.08;
            let just = |share: f64| fuse::segment_log2(Items::new((keys * share) as u64));
            assert_eq!((just(0.99), just(1.01)), (log2 - 1, log2));
        }
    }

    /// Stored bits depend on every constant of this file. The sum is frozen: if it changes, files of
    /// earlier releases have become unreadable.
    #[test]
    fn bits_are_frozen() {
        let stage = fused(1_000, 0.01);
        assert_eq!(
            (stage.size().get(), stage.checksum(0)),
            (9_984, 3_167_703_857)
        );
    }
}
