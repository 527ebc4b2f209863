//! The static layout: slots that are solved from all keys at once and take no further keys.
//!
//! ```text
//! words   | shard 0 | shard 1 | ... | unused |         shard = ⌊ hash × S / 2^64 ⌋, about 2 M keys
//! shard   | thresholds, a byte per 128 slots | columns 0 to 7 | columns 8 to 15 | ... | rest |
//! columns | block 0 | block 1 | ...                    64 slots each
//! block   | 0 | 1 | ... | 7 |                          a word per column: a bit per slot
//! rest    | block 0 | block 1 | ...                    for fractional r: a column of some blocks
//!
//! h       = low half of hash × S
//! start   = ⌊ h × (slots of the layer − 63) / 2^64 ⌋   64 slots from there on are the key's window
//! mixed   = high ^ low half of (h ^ SEED) × MIX        | 1: the coefficients of the window's slots
//! bumped  if start mod 128 < the bucket's threshold:   mixed is the key's h in the next layer
//! maybe   if each column's sum equals the key's fingerprint bit for that column
//! ```
//!
//! A bumped ribbon filter (Dillinger et al., SEA 2022). The slots solve one linear equation per
//! key. All coefficients of an equation lie in 64 consecutive slots, which makes the system fast to
//! solve and lets a probe read two lines. The first layer has fewer slots than there are keys, so
//! that hardly a slot is unused. If a key's equation has no solution, the key is bumped to the next
//! layer, with all other keys of its bucket that start at or before it.
//!
//! A key that is bumped from the last layer is answered *maybe*. This happens only after an
//! insertion into the built filter, which raises all thresholds.

mod builder;
mod probes;
mod solve;

pub use self::builder::RibbonBuilder;
pub(super) use self::solve::solved;

use self::probes::{Each, One};
use super::simd::columns::Pane;
use super::simd::{Simd, dispatch};
use super::{Kind, Shape, ShapeError, probe};
use crate::bits::{self, Words};
use crate::fault::fault;
use crate::hash::KeyHash;
use crate::math::ribbon::{self, BUCKET_SLOTS, MAX_SLOT_BITS, PARTS};
use crate::math::{Bits, Items, Probes};
use crate::sync::atomic::{Ordering, fence};

/// The geometry: at least one shard of at least one bucket.
#[derive(Clone, Copy, Debug)]
pub struct Ribbon {
    words: u64,
    shards: u64,
    shard_words: u64,
    slots: Slots,
    buckets: u64,
    first_layer: Layer,
    first_plane: Plane,
    /// The low bits of the first plane's columns. A key is denied if its sum differs from its
    /// fingerprint in one of them.
    tested: u64,
}

const WORD_BITS: u64 = 64;

/// The slots of a block, and of a key's window.
const BLOCK_SLOTS: u64 = WORD_BITS;
const BUCKET_BLOCKS: u64 = BUCKET_SLOTS / BLOCK_SLOTS;
const BUCKETS_A_WORD: u64 = 8;

const WORDS_A_LINE: u64 = bits::WORDS_A_LINE as u64;

/// The number of columns that are probed together.
const TOGETHER: u32 = 8;

/// Words after all shards. The probe of a window that begins in the last block also reads the block
/// after it, and columns that a block does not have.
const BEHIND: u64 = 3 * WORDS_A_LINE;

/// A filter gets one more shard for this many buckets, because building a shard takes 30 bytes per
/// slot.
const SHARD_BUCKETS: u64 = 1 << 14;

/// Of the buckets not used yet, a layer leaves one in this many to the layers after it.
const LAYER_SHARE: u64 = 32;

/// Fewer buckets than this are not divided further.
const LAST_LAYER: u64 = 4;

/// Odd constants of wyhash. Frozen, because stored bits depend on them.
const MIX: u64 = 0xa076_1d64_78bd_642f;
const SEED: u64 = 0xe703_7ed1_a0b4_28db;
const FINGER: u64 = 0x8ebc_6af0_9c88_c6e3;

/// The size of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slots {
    /// Its bits, in units of 1 / [`PARTS`].
    parts: u32,
}

impl Slots {
    /// `None` if no slot has this size.
    pub(super) fn new(parts: u32) -> Option<Self> {
        let fit = (PARTS..=PARTS * MAX_SLOT_BITS).contains(&parts);
        fit.then_some(Self { parts })
    }

    /// The columns that all slots have.
    fn columns(self) -> u32 {
        self.parts / PARTS
    }

    /// The columns that the widest slots have.
    fn most_columns(self) -> u32 {
        self.parts.div_ceil(PARTS)
    }

    /// The number of blocks, out of `blocks`, that have all columns. A window uses the extra column
    /// only if both of its blocks have it, hence one block more.
    fn wider_of(self, blocks: u64) -> u64 {
        match self.parts % PARTS {
            0 => 0,
            wider => ((blocks * u64::from(wider)).div_ceil(PARTS.into()) + 1).min(blocks),
        }
    }

    /// The most buckets that fit into `words`. Each takes a byte and the bits of its slots.
    fn buckets_in(self, words: u64) -> u64 {
        words * BUCKETS_A_WORD / u64::from(self.parts + 1)
    }

    /// A lower bound of the words for this many buckets.
    fn words_of(self, buckets: u64) -> Option<u64> {
        Some(buckets.checked_mul((self.parts + 1).into())? / BUCKETS_A_WORD)
    }
}

/// Consecutive buckets of a shard, and what follows them.
#[derive(Clone, Copy, Debug)]
struct Layer {
    first_slot: u64,
    /// The slots at which a window can begin: all but the last 63.
    starts: u64,
    buckets_left: u64,
}

impl Layer {
    /// The layer that begins at `first_slot`, in `buckets` buckets shared with all layers after it.
    #[inline]
    fn new(first_slot: u64, buckets: u64) -> Self {
        let buckets_left = if buckets < LAST_LAYER {
            0
        } else {
            (buckets / LAYER_SHARE).max(1)
        };
        Self {
            first_slot,
            starts: (buckets - buckets_left) * BUCKET_SLOTS - (BLOCK_SLOTS - 1),
            buckets_left,
        }
    }

    /// The slot at which a key's window begins.
    #[inline]
    fn slot_of(&self, hash: u64) -> u64 {
        self.first_slot + probe::fast_range(hash, self.starts)
    }

    fn slots_end(self) -> u64 {
        self.first_slot + self.starts + (BLOCK_SLOTS - 1)
    }

    #[inline]
    fn next(self) -> Option<Self> {
        (self.buckets_left > 0).then(|| Self::new(self.slots_end(), self.buckets_left))
    }
}

/// Up to [`TOGETHER`] columns of all blocks.
#[derive(Clone, Copy, Debug)]
struct Plane {
    /// Its first word in a shard.
    start: u64,
    first_column: u32,
    /// The number of words per block.
    columns: u32,
}

impl Plane {
    /// The first word of a block in its shard.
    #[inline]
    fn block_at(self, block: u64) -> u64 {
        self.start + block * u64::from(self.columns)
    }
}

/// A key in a layer: the slot at which its window begins, and what distinguishes it from other keys
/// there.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u64,
    mixed: u64,
    fingerprint: u64,
}

impl Place {
    #[inline]
    fn new(hash: u64, layer: &Layer) -> Self {
        let product = u128::from(hash ^ SEED) * u128::from(MIX);
        Self {
            slot: layer.slot_of(hash),
            mixed: (product >> 64) as u64 ^ product as u64,
            fingerprint: hash.wrapping_mul(FINGER) >> MAX_SLOT_BITS,
        }
    }

    /// The coefficients of the window's slots. The first is always one.
    #[inline]
    fn coefficients(self) -> u64 {
        self.mixed | 1
    }
}

/// The slots whose sum decides about a key.
#[derive(Clone, Copy, Debug)]
struct Window {
    /// The first word of its shard.
    shard_at: u64,
    /// Its first slots are in this block, the others in the next.
    block: u64,
    /// The slots that add up in the first block, and those in the next.
    mask: u64,
    next_mask: u64,
    /// What each column should sum to, from the low bit on.
    fingerprint: u64,
}

impl Window {
    #[inline(always)]
    fn new(shard_at: u64, place: Place) -> Self {
        let (block, shift) = (place.slot / BLOCK_SLOTS, place.slot % BLOCK_SLOTS);
        let coefficients = place.coefficients();
        Self {
            shard_at,
            block,
            mask: coefficients << shift,
            next_mask: (coefficients >> 1) >> (BLOCK_SLOTS - 1 - shift),
            fingerprint: place.fingerprint,
        }
    }

    #[inline(always)]
    fn pane(&self, plane: Plane) -> Pane {
        Pane {
            word: self.shard_at + plane.block_at(self.block),
            columns: plane.columns,
            mask: self.mask,
            next_mask: self.next_mask,
        }
    }
}

impl Ribbon {
    /// The geometry in this many words. `None` if they are too few, or if the number of their bits
    /// overflows.
    fn in_words(words: u64, slots: Slots) -> Option<Self> {
        words.checked_mul(WORD_BITS)?;
        let room = words.checked_sub(BEHIND)?;
        let shards = (slots.buckets_in(room) / SHARD_BUCKETS).max(1);
        let shard_words = room / shards / WORDS_A_LINE * WORDS_A_LINE;
        let of_buckets = |buckets| {
            let first_plane = Plane {
                start: threshold_words(buckets),
                first_column: 0,
                columns: slots.columns().min(TOGETHER),
            };
            Self {
                words,
                shards,
                shard_words,
                slots,
                buckets,
                first_layer: Layer::new(0, buckets),
                first_plane,
                tested: low_bits(slots.columns().min(TOGETHER)),
            }
        };
        // Rounding up may leave no room for the last few buckets.
        let most = slots.buckets_in(shard_words);
        let fits = |geometry: &Self| geometry.words_of_a_shard() <= shard_words;
        (1..=most).rev().map(of_buckets).find(fits)
    }

    /// The geometry for this many keys. It hardly ever needs to be larger.
    pub(super) fn for_keys(items: Items, slots: Slots) -> Option<Self> {
        Self::with_slots(ribbon::slots(items), slots)
    }

    /// The geometry of at least this many slots, and little more.
    fn with_slots(count: u64, slots: Slots) -> Option<Self> {
        let least = slots.words_of(count.div_ceil(BUCKET_SLOTS))?;
        // The step that adds another bucket to each shard.
        let step = least / slots.words_of(SHARD_BUCKETS)? + 1;
        let more = (least..).step_by(step as usize).take(1 << 12);
        let geometries = more.map(|words| Self::in_words(words, slots));
        geometries
            .flatten()
            .find(|geometry| geometry.shards * geometry.shard_slots() >= count)
    }

    /// The words of a shard that are used.
    fn words_of_a_shard(self) -> u64 {
        self.rest().block_at(self.wider())
    }

    fn blocks(self) -> u64 {
        self.buckets * BUCKET_BLOCKS
    }

    /// The blocks that have a column in the rest.
    fn wider(self) -> u64 {
        self.slots.wider_of(self.blocks())
    }

    /// The planes that all blocks have.
    fn planes(self) -> impl Iterator<Item = Plane> {
        let columns = self.slots.columns();
        let firsts = (0..columns).step_by(TOGETHER as usize);
        firsts.map(move |first| self.plane(first, (columns - first).min(TOGETHER)))
    }

    /// The plane that only some blocks have.
    fn rest(self) -> Plane {
        self.plane(self.slots.columns(), 1)
    }

    fn plane(self, first_column: u32, columns: u32) -> Plane {
        Plane {
            start: self.first_plane.start + self.blocks() * u64::from(first_column),
            first_column,
            columns,
        }
    }

    fn shard_slots(self) -> u64 {
        self.buckets * BUCKET_SLOTS
    }

    pub(super) fn shape(self) -> Shape {
        Shape {
            kind: Kind::Ribbon,
            bits: Bits::new(self.words * WORD_BITS),
            probes: Probes::new(self.slots.columns()),
            groups: self.slots.parts % PARTS,
        }
    }

    /// Makes the filter full, unless it may contain the key already.
    pub(super) fn insert(&self, words: &Words, hash: KeyHash) -> bool {
        if self.may_contain(words, hash) {
            return false;
        }
        fault!(StaticInsertionIgnored, return true);
        self.bumped_words().for_each(|word| bump_all(words, word));
        true
    }

    /// The words of all thresholds, those of later layers first. So if a concurrent lookup finds a
    /// key bumped from a layer by this insertion, it finds it bumped from all later layers too.
    fn bumped_words(&self) -> impl Iterator<Item = u64> {
        self.thresholds().rev()
    }

    #[inline]
    pub(super) fn may_contain(&self, words: &Words, hash: KeyHash) -> bool {
        let one = One {
            ribbon: self,
            words,
        };
        dispatch(one, hash)
    }

    pub(super) fn test_each(&self, words: &Words, hashes: &[KeyHash], answers: &mut [bool]) {
        let each = Each {
            ribbon: self,
            words,
            answers,
        };
        dispatch(each, hashes);
    }

    /// Whether the first layer and the first plane show that a key is not in the filter. They do
    /// for nearly all such keys.
    #[inline(always)]
    pub(super) fn denies(&self, words: &Words, simd: impl Simd, hash: KeyHash) -> bool {
        let (shard_at, hash) = self.in_shard(hash);
        let place = Place::new(hash, &self.first_layer);
        if is_bumped(words, shard_at, place) {
            return false;
        }
        let window = Window::new(shard_at, place);
        let sum = simd.sum_of_columns(words, window.pane(self.first_plane));
        (sum ^ window.fingerprint) & self.tested != 0
    }

    /// `None` for a key that is bumped from the last layer.
    #[inline(always)]
    fn window(&self, words: &Words, hash: KeyHash) -> Option<Window> {
        let (shard_at, mut hash) = self.in_shard(hash);
        let mut layer = self.first_layer;
        loop {
            let place = Place::new(hash, &layer);
            if !is_bumped(words, shard_at, place) {
                return Some(Window::new(shard_at, place));
            }
            layer = layer.next()?;
            // Pairs with [`bump_all`]: the thread that raised that threshold had raised those of
            // this layer before.
            fence(Ordering::Acquire);
            hash = place.mixed;
        }
    }

    /// The words of all thresholds.
    fn thresholds(&self) -> impl DoubleEndedIterator<Item = u64> {
        let of_a_shard = threshold_words(self.buckets);
        let shards = (0..self.shards).map(|shard| shard * self.shard_words);
        shards.flat_map(move |start| start..start + of_a_shard)
    }

    /// Prefetches the lines that decide about nearly all keys.
    #[inline]
    pub(super) fn prefetch(&self, words: &Words, hash: KeyHash) {
        let (shard_at, hash) = self.in_shard(hash);
        let slot = self.first_layer.slot_of(hash);
        let word = self.first_plane.block_at(slot / BLOCK_SLOTS);
        let line = (shard_at + word) / WORDS_A_LINE;
        words.prefetch(line);
        words.prefetch(line + 1);
    }

    /// Independent of the number of keys: a key that was not inserted finds slots that do not sum
    /// to its fingerprint.
    pub(super) fn rate(self, _keys: Items) -> f64 {
        ribbon::rate(self.slots.parts)
    }

    pub(super) fn observed_rate(&self, words: &Words) -> f64 {
        if self.is_full(words) {
            1.0
        } else {
            self.rate(Items::new(0))
        }
    }

    pub(super) fn is_full(&self, words: &Words) -> bool {
        self.thresholds().all(|word| words.word(word) == u64::MAX)
    }

    /// The first word of a key's shard, and the key's hash in that shard. The order of the shard's
    /// keys is kept.
    #[inline]
    fn in_shard(&self, hash: KeyHash) -> (u64, u64) {
        let product = u128::from(hash.get()) * u128::from(self.shards);
        ((product >> 64) as u64 * self.shard_words, product as u64)
    }
}

/// Whether a key is bumped from the layer for which its place was computed.
#[inline]
fn is_bumped(words: &Words, shard_at: u64, place: Place) -> bool {
    let threshold = words.byte(shard_at * BUCKETS_A_WORD + place.slot / BUCKET_SLOTS);
    place.slot % BUCKET_SLOTS < threshold
}

/// Raises the thresholds of a word, after all that were raised before.
fn bump_all(words: &Words, word: u64) {
    fence(Ordering::Release);
    words.set_word(word, u64::MAX);
}

/// The words of this many thresholds: whole lines, so that a block of eight columns is one line.
#[inline]
fn threshold_words(buckets: u64) -> u64 {
    buckets
        .div_ceil(BUCKETS_A_WORD)
        .next_multiple_of(WORDS_A_LINE)
}

/// A word whose `count` low bits are ones.
#[inline]
fn low_bits(count: u32) -> u64 {
    (1 << count) - 1
}

impl TryFrom<Shape> for Ribbon {
    type Error = ShapeError;

    fn try_from(shape: Shape) -> Result<Self, ShapeError> {
        let Shape {
            kind,
            bits,
            probes,
            groups,
        } = shape;
        let parts = shape.bounded_probes()? * PARTS + groups % PARTS;
        let slots = (groups < PARTS).then(|| Slots::new(parts)).flatten();
        let slots = slots.ok_or(ShapeError::Groups {
            kind,
            probes,
            groups,
        })?;
        let words = shape.bits_in_units_of(WORD_BITS)? / WORD_BITS;
        let unit = WORD_BITS;
        Self::in_words(words, slots).ok_or(ShapeError::Bits { kind, bits, unit })
    }
}

#[cfg(test)]
mod tests {
    use super::probes::Whole;
    use super::*;
    use crate::filter::naive::hashes;
    use crate::filter::simd::{Scalar, WithSimd as _, for_each_simd};
    use crate::filter::{Stage, StageError};
    use crate::math::Rate;

    fn ribbon_of(keys: usize, rate: f64) -> Stage {
        let hashes = hashes(1).take(keys).collect();
        Stage::ribbon(hashes, Rate::new(rate).unwrap()).unwrap()
    }

    fn strangers(stage: &Stage, asked: usize) -> usize {
        let strange = hashes(2).take(asked);
        strange.filter(|&hash| stage.may_contain(hash)).count()
    }

    /// The last number of keys needs several shards.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn ribbon_has_all_keys_and_the_computed_rate_and_size() {
        for keys in [0, 1, 2, 3, 10, 99, 1_000, 30_000, 300_000, 4_300_000] {
            let stage = ribbon_of(keys, 0.003);
            assert!(
                hashes(1).take(keys).all(|hash| stage.may_contain(hash)),
                "{keys}"
            );
            // Mean 586, standard deviation 24. With two blocks, every window has the ninth column
            // too: mean 391.
            let found = strangers(&stage, 200_000);
            let least = if keys < 1_000 { 290 } else { 460 };
            assert!((least..=720).contains(&found), "{found} beside {keys}");
            let rate = Rate::new(0.003).unwrap();
            assert_eq!(Stage::ribbon_size(stage.items(), rate), Some(stage.size()));
            assert_eq!(stage.estimated_items().get(), keys as u64);
            let geometry = Ribbon::try_from(stage.shape()).unwrap();
            assert_eq!(geometry.shards > 1, keys > 4_000_000);
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn ribbon_overhead_is_below_1_5_percent_for_many_keys() {
        let stage = ribbon_of(1_000_000, 0.01);
        let bits = stage.size().get() as f64 / 1e6;
        assert!((6.75..6.75 * 1.015).contains(&bits), "{bits}");
    }

    /// Whole bits and fractions between them, in one plane and in several.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn ribbon_of_every_slot_width_contains_its_keys() {
        for parts in PARTS..=PARTS * MAX_SLOT_BITS {
            let stage = ribbon_of(700, ribbon::rate(parts));
            let Shape { probes, groups, .. } = stage.shape();
            assert_eq!((probes.get(), groups), (parts / PARTS, parts % PARTS));
            assert!(
                hashes(1).take(700).all(|hash| stage.may_contain(hash)),
                "{parts}"
            );
        }
        let below = Stage::ribbon(Vec::new(), Rate::new(1e-10).unwrap());
        assert!(matches!(below, Err(StageError::OutOfReach { .. })));
    }

    #[test]
    fn ribbon_size_of_impossible_key_count_is_none() {
        const MANY: u64 = match usize::BITS {
            64 => 1 << 56,
            _ => 1 << 26,
        };
        for items in [1 << 62, u64::MAX] {
            let size = Stage::ribbon_size(Items::new(items), Rate::ONE_PERCENT);
            assert_eq!(size, None, "{items}");
        }
        let large = Stage::ribbon_size(Items::new(MANY), Rate::ONE_PERCENT);
        let bits_a_key = large.unwrap().get() as f64 / MANY as f64;
        assert!((6.75..6.85).contains(&bits_a_key), "{bits_a_key}");
    }

    #[test]
    fn duplicate_key_counts_once() {
        let twice = hashes(1).take(500).chain(hashes(1).take(500));
        let stage = Stage::ribbon(twice.collect(), Rate::ONE_PERCENT).unwrap();
        assert_eq!(stage.items().get(), 500);
        assert!(stage.words().eq(ribbon_of(500, 0.01).words()));
    }

    #[test]
    fn ribbon_saturates_when_new_key_is_inserted() {
        let stage = ribbon_of(100, 0.01);
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

    /// Checked between any two of the stores that make the filter full.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn ribbon_keys_are_found_during_an_insertion() {
        let stage = ribbon_of(3_000, 0.01);
        let ribbon = Ribbon::try_from(stage.shape()).unwrap();
        assert!(ribbon.first_layer.next().is_some());
        let keys: Vec<_> = hashes(1).take(3_000).collect();
        for word in ribbon.bumped_words() {
            bump_all(stage.stored(), word);
            assert!(keys.iter().all(|&key| stage.may_contain(key)), "{word}");
        }
        assert!(stage.is_full());
    }

    /// With few bits per slot, and with more than fit a plane.
    #[test]
    fn window_is_probed_alike_by_every_instruction_set() {
        const KEYS: usize = if cfg!(miri) { 60 } else { 900 };
        const ABSENT: usize = if cfg!(miri) { 30 } else { 9_000 };
        for stage in [0.4, 0.01, 0.002, 1e-6].map(|rate| ribbon_of(KEYS, rate)) {
            let (ribbon, words) = (&Ribbon::try_from(stage.shape()).unwrap(), stage.stored());
            let whole = || Whole(One { ribbon, words });
            for_each_simd!(simd => {
                let mut claimed = 0;
                for hash in hashes(1).take(KEYS).chain(hashes(2).take(ABSENT)) {
                    let expected = whole().with_simd(Scalar, hash);
                    assert_eq!(whole().with_simd(simd, hash), expected, "{hash:?}");
                    let denied = ribbon.denies(words, simd, hash);
                    assert_eq!(denied, ribbon.denies(words, Scalar, hash), "{hash:?}");
                    assert!(!(denied && expected), "{hash:?}");
                    claimed += usize::from(expected);
                }
                assert!((KEYS..KEYS + ABSENT * 2 / 3).contains(&claimed), "{claimed}");
            });
        }
    }

    /// Stored bits depend on every constant of this file. The checksum is frozen: if it changes,
    /// files of earlier releases have become unreadable.
    #[test]
    fn bits_are_frozen() {
        let stage = ribbon_of(1_000, 0.01);
        assert_eq!(
            (stage.size().get(), stage.checksum(0)),
            (10_240, 2_875_456_895)
        );
    }
}
