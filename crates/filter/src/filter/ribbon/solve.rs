//! Solves the slots of a ribbon filter from its keys, one shard at a time.

use std::collections::TryReserveError;
use std::fmt;

use super::{
    BLOCK_SLOTS, BUCKET_SLOTS, BUCKETS_A_WORD, Layer, Place, Ribbon, Slots, WORDS_A_LINE, low_bits,
};
use crate::bits::Words;
use crate::fault::fault;
use crate::hash::KeyHash;
use crate::math::{Items, ribbon};

/// The number of sizes that are tried, each a hundredth larger. More than one is hardly ever
/// needed.
const SIZES: u32 = 64;

/// The filter of these keys, which are in ascending order without duplicates: its geometry and its
/// words. `None` if there is no room for them.
pub(in crate::filter) fn solved(
    hashes: &[KeyHash],
    slots: Slots,
) -> Result<Option<(Ribbon, Words)>, TryReserveError> {
    let mut count = ribbon::slots(Items::new(hashes.len() as u64));
    for _ in 0..SIZES {
        let Some(geometry) = Ribbon::with_slots(count, slots) else {
            break;
        };
        if let Some(words) = filled(geometry, hashes)? {
            return Ok(Some((geometry, words)));
        }
        count += count / 100 + BUCKET_SLOTS;
    }
    Ok(None)
}

/// The words of this geometry with these keys; `None` if a shard has too many.
fn filled(geometry: Ribbon, hashes: &[KeyHash]) -> Result<Option<Words>, TryReserveError> {
    let mut filling = Filling::of(geometry)?;
    filling.add(hashes)?;
    filling.finish()
}

/// A filter whose keys come in ascending order, one part at a time.
pub(in crate::filter) struct Filling {
    system: System,
    words: Words,
    /// The current shard: its first word, its words once they are solved, and the keys so far.
    shard_at: u64,
    shard: Vec<u64>,
    keys: Vec<KeyHash>,
    fits: bool,
}

impl fmt::Debug for Filling {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut filling = f.debug_struct("Filling");
        filling.field("geometry", &self.geometry());
        filling.field("fits", &self.fits).finish_non_exhaustive()
    }
}

impl Filling {
    pub(in crate::filter) fn of(geometry: Ribbon) -> Result<Self, TryReserveError> {
        let len = usize::try_from(geometry.words).unwrap_or(usize::MAX);
        let mut shard = Vec::new();
        shard.try_reserve_exact(geometry.shard_words as usize)?;
        Ok(Self {
            words: Words::from_values(len, [])?,
            system: System::of_shards(geometry)?,
            shard_at: 0,
            shard,
            keys: Vec::new(),
            fits: true,
        })
    }

    pub(in crate::filter) fn geometry(&self) -> Ribbon {
        self.system.geometry
    }

    /// Adds keys in ascending order, all above the earlier ones. False once a shard has too many.
    pub(in crate::filter) fn add(
        &mut self,
        mut hashes: &[KeyHash],
    ) -> Result<bool, TryReserveError> {
        let geometry = self.geometry();
        while let Some(&first) = hashes.first() {
            let shard_at = geometry.in_shard(first).0;
            if shard_at != self.shard_at {
                self.solve_shard()?;
                self.shard_at = shard_at;
            }
            let its_own = hashes.partition_point(|&hash| geometry.in_shard(hash).0 == shard_at);
            let (keys, others) = hashes.split_at(its_own);
            self.fits &= (self.keys.len() + keys.len()) as u64 <= geometry.shard_slots();
            if !self.fits {
                return Ok(false);
            }
            self.keys.try_reserve_exact(keys.len())?;
            self.keys.extend_from_slice(keys);
            hashes = others;
        }
        Ok(self.fits)
    }

    /// The words; `None` if a shard had too many keys.
    pub(in crate::filter) fn finish(mut self) -> Result<Option<Words>, TryReserveError> {
        self.solve_shard()?;
        Ok(self.fits.then_some(self.words))
    }

    fn solve_shard(&mut self) -> Result<(), TryReserveError> {
        self.shard.clear();
        self.shard.resize(self.geometry().shard_words as usize, 0);
        self.fits = self.fits && self.system.takes_all(&self.keys, &mut self.shard)?;
        self.keys.clear();
        if self.fits {
            self.system.solve(&mut self.shard);
            self.words.put(self.shard_at / WORDS_A_LINE, &self.shard);
        }
        Ok(())
    }
}

/// The equations of a shard, each of which begins at another slot.
struct System {
    geometry: Ribbon,
    /// The coefficients of the equation that begins at each slot, from that slot on; the first is
    /// one. Zero if no equation begins there.
    coefficients: Vec<u64>,
    /// What the columns of that equation sum to, one bit each.
    sums: Vec<u32>,
    /// The slots at which the last added equations begin.
    added: Vec<usize>,
}

impl System {
    fn of_shards(geometry: Ribbon) -> Result<Self, TryReserveError> {
        let slots = geometry.shard_slots() as usize;
        let mut system = Self {
            geometry,
            coefficients: Vec::new(),
            sums: Vec::new(),
            added: Vec::new(),
        };
        system.coefficients.try_reserve_exact(slots)?;
        system.sums.try_reserve_exact(slots)?;
        Ok(system)
    }

    /// Adds the equations of all these keys and records in the shard's words which are bumped.
    /// False if some are bumped from the last layer.
    fn takes_all(
        &mut self,
        hashes: &[KeyHash],
        shard: &mut [u64],
    ) -> Result<bool, TryReserveError> {
        let slots = self.geometry.shard_slots() as usize;
        self.coefficients.clear();
        self.coefficients.resize(slots, 0);
        self.sums.clear();
        self.sums.resize(slots, 0);

        let mut keys = Vec::new();
        keys.try_reserve_exact(hashes.len())?;
        keys.extend(hashes.iter().map(|&hash| self.geometry.in_shard(hash).1));
        let mut layer = self.geometry.first_layer;
        loop {
            let mut bumped = self.take(layer, &keys, shard)?;
            if bumped.is_empty() {
                return Ok(true);
            }
            let Some(next) = layer.next() else {
                return Ok(false);
            };
            bumped.sort_unstable();
            (keys, layer) = (bumped, next);
        }
    }

    /// Adds the equations of these keys, which are in ascending order, to a layer. Returns the
    /// hashes of the bumped keys in the next layer.
    fn take(
        &mut self,
        layer: Layer,
        keys: &[u64],
        shard: &mut [u64],
    ) -> Result<Vec<u64>, TryReserveError> {
        let mut bumped = Vec::new();
        let bucket_of = |key: u64| layer.slot_of(key) / BUCKET_SLOTS;
        for keys in keys.chunk_by(|&key, &next| bucket_of(key) == bucket_of(next)) {
            let (lost, threshold) = self.take_bucket(&layer, keys)?;
            bumped.try_reserve(lost.len())?;
            bumped.extend(lost.iter().map(|&key| Place::new(key, &layer).mixed));
            let bucket = bucket_of(keys[0]);
            shard[(bucket / BUCKETS_A_WORD) as usize] |= threshold << (bucket % BUCKETS_A_WORD * 8);
        }
        Ok(bumped)
    }

    /// Adds the equations of the keys of one bucket. Returns the bumped keys, which are the first
    /// ones, and the bucket's threshold.
    fn take_bucket<'k>(
        &mut self,
        layer: &Layer,
        keys: &'k [u64],
    ) -> Result<(&'k [u64], u64), TryReserveError> {
        let slot_of = |key: u64| layer.slot_of(key);
        // From the last to the first: the later ones can also use the slots of the next bucket, and
        // those that are bumped leave room for the bucket before.
        let mut left = keys;
        for beside in keys
            .chunk_by(|&key, &next| slot_of(key) == slot_of(next))
            .rev()
        {
            if !self.adds(layer, beside)? {
                return Ok((left, slot_of(beside[0]) % BUCKET_SLOTS + 1));
            }
            left = &left[..left.len() - beside.len()];
        }
        Ok((left, 0))
    }

    /// Adds the equations of keys that start at the same slot: all of them or, if one contradicts
    /// an earlier equation, none.
    fn adds(&mut self, layer: &Layer, keys: &[u64]) -> Result<bool, TryReserveError> {
        self.added.clear();
        self.added.try_reserve(keys.len())?;
        for &key in keys {
            let place = Place::new(key, layer);
            let sum = place.fingerprint as u32;
            fault!(
                StaticKeyLost,
                if key % 1_000 == 7 {
                    continue;
                }
            );
            if !self.add(place.slot as usize, place.coefficients(), sum) {
                for &slot in &self.added {
                    self.coefficients[slot] = 0;
                }
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Adds one equation by eliminating those that begin at its slot, one after another. False if
    /// it contradicts them.
    fn add(&mut self, mut slot: usize, mut coefficients: u64, mut sum: u32) -> bool {
        loop {
            let there = self.coefficients[slot];
            if there == 0 {
                self.coefficients[slot] = coefficients;
                self.sums[slot] = sum;
                self.added.push(slot);
                return true;
            }
            coefficients ^= there;
            sum ^= self.sums[slot];
            if coefficients == 0 {
                return u64::from(sum) & low_bits(self.geometry.slots.most_columns()) == 0;
            }
            let clear = coefficients.trailing_zeros();
            coefficients >>= clear;
            slot += clear as usize;
        }
    }

    /// Solves the equations from the last slot to the first, and sets the shard's columns.
    fn solve(&self, shard: &mut [u64]) {
        const MOST: usize = u32::BITS as usize;
        let mut columns = [0_u64; MOST];
        let columns = &mut columns[..self.geometry.slots.most_columns() as usize];
        let blocks = self.coefficients.chunks_exact(BLOCK_SLOTS as usize);
        let sums = self.sums.chunks_exact(BLOCK_SLOTS as usize);
        for (block, (coefficients, sums)) in blocks.zip(sums).enumerate().rev() {
            for (&coefficients, &sums) in coefficients.iter().zip(sums).rev() {
                for (column, bits) in columns.iter_mut().enumerate() {
                    *bits <<= 1;
                    // A slot at which no equation begins is zero.
                    let sum = (*bits & coefficients).count_ones() ^ (sums >> column);
                    *bits |= u64::from(sum & 1 & u32::from(coefficients != 0));
                }
            }
            let block = block as u64;
            let rest = (block < self.geometry.wider()).then(|| self.geometry.rest());
            for plane in self.geometry.planes().chain(rest) {
                let (at, first) = (plane.block_at(block) as usize, plane.first_column as usize);
                let columns = &columns[first..first + plane.columns as usize];
                shard[at..at + columns.len()].copy_from_slice(columns);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;

    const KEYS: usize = 200_000;

    fn in_slots(count: u64) -> Option<(Ribbon, Words)> {
        let geometry = Ribbon::with_slots(count, Slots::new(4 * ribbon::PARTS).unwrap());
        let mut sorted: Vec<KeyHash> = hashes(1).take(KEYS).collect();
        sorted.sort_unstable();
        let words = filled(geometry.unwrap(), &sorted).unwrap()?;
        Some((geometry.unwrap(), words))
    }

    /// If there are hardly more slots than keys, each layer bumps about a thirtieth of its keys.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn keys_are_bumped_from_layer_to_layer() {
        let (geometry, words) = in_slots(KEYS as u64 + 260).unwrap();
        let layers = std::iter::successors(Some(geometry.first_layer), |layer| layer.next());
        let ends: Vec<u64> = layers.map(Layer::slots_end).collect();
        assert_eq!(ends.last(), Some(&geometry.shard_slots()));
        let mut keys = vec![0; ends.len()];
        for hash in hashes(1).take(KEYS) {
            assert!(geometry.may_contain(&words, hash));
            let slot = geometry.window(&words, hash).unwrap().block * BLOCK_SLOTS;
            keys[ends.partition_point(|&end| end <= slot)] += 1;
        }
        let share = |keys: i32, of: u64| f64::from(keys) / of as f64;
        assert!(
            (0.96..0.98).contains(&share(keys[0], KEYS as u64)),
            "{keys:?}"
        );
        assert!(keys[1] > 4_000 && keys[2] > 20, "{keys:?}");
    }

    /// The next size would be tried then.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn solving_fails_with_fewer_slots_than_keys() {
        assert!(in_slots(KEYS as u64 - 500).is_none());
    }
}
