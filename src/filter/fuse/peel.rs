//! The cells of a fuse filter, worked out from its keys a shard at a time.

use std::collections::TryReserveError;

use super::{ARITY, Cells, Fuse, GROUPS, WORD_BITS, fingerprint, low_bits};
use crate::hash::KeyHash;
use crate::math::{Items, fuse};
use crate::planted::planted;

/// Seeds that are tried in shards of one size; the first does as a rule.
const SEEDS: u64 = 32;

/// Times that shards are made larger, by a fiftieth each; once is too often already.
const SIZES: u32 = 64;

/// Spreads the numbers of tries over all seeds: 2^64 divided by the golden ratio.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The filter of these keys, of which each is left once: its geometry and its words. `None` where there
/// is no room for so many.
pub(in crate::filter) fn fused(
    hashes: &mut Vec<KeyHash>,
    cells: Cells,
) -> Result<Option<(Fuse, Vec<u64>)>, TryReserveError> {
    // Most hashes come once, and of one shard they need not be sorted, which takes a third of the time.
    // One that comes twice is never put aside.
    if let Some(geometry) = Fuse::for_keys(Items::new(hashes.len() as u64), cells)
        && geometry.shards == 1
        && let Some(words) = filled(geometry, hashes, 1)?
    {
        return Ok(Some((geometry, words)));
    }
    hashes.sort_unstable();
    hashes.dedup();
    fused_sorted(hashes, cells)
}

/// [`fused`] of hashes that are in ascending order, and of which none comes twice.
pub(super) fn fused_sorted(
    hashes: &[KeyHash],
    cells: Cells,
) -> Result<Option<(Fuse, Vec<u64>)>, TryReserveError> {
    let mut count = fuse::cells(Items::new(hashes.len() as u64));
    for _ in 0..SIZES {
        let Some(geometry) = Fuse::with_cells(count, cells) else {
            break;
        };
        if let Some(words) = filled(geometry, hashes, SEEDS)? {
            return Ok(Some((geometry, words)));
        }
        count += count / 50 + ARITY;
    }
    Ok(None)
}

/// The words of this geometry with these keys, in the order of their shards; `None` where none of so
/// many seeds will do.
fn filled(
    geometry: Fuse,
    hashes: &[KeyHash],
    seeds: u64,
) -> Result<Option<Vec<u64>>, TryReserveError> {
    let mut words = Vec::new();
    let len = usize::try_from(geometry.words).unwrap_or(usize::MAX);
    words.try_reserve_exact(len)?;
    words.resize(len, 0);
    let mut peeling = Peeling::of_shards(geometry, hashes.len())?;
    let mut left = hashes;
    for shard in 0..geometry.shards {
        let its_own = left.partition_point(|&hash| geometry.shard(hash) == shard);
        let (keys, others) = left.split_at(its_own);
        left = others;
        let Some(seed) = (1..=seeds)
            .map(|number| number.wrapping_mul(GOLDEN))
            .find(|&seed| peeling.succeeds(keys, seed))
        else {
            return Ok(None);
        };
        words[shard as usize] = seed;
        peeling.set_cells(&mut words, geometry.start_of(shard));
    }
    Ok(Some(words))
}

/// What is known of a shard's cells while its keys are put aside one after another.
struct Peeling {
    geometry: Fuse,
    /// The hashes of a cell's keys, XORed: of a cell with one key, that key's.
    sums: Vec<u64>,
    /// How many keys a cell has; and which of theirs it is, and their values, both XORed.
    degrees: Vec<u16>,
    /// Cells that had one key when they were looked at.
    alone: Vec<u32>,
    /// The keys put aside, each with which of its cells was its alone, and its value.
    order: Vec<(u64, u16)>,
}

/// The bits of a degree that say which of a key's cells it is.
const WHICH: u16 = ARITY as u16 - 1;

/// The value 1, and one key more.
const ONE_VALUE: u16 = ARITY as u16;
const ONE: u16 = ONE_VALUE * GROUPS as u16;

impl Peeling {
    fn of_shards(geometry: Fuse, keys: usize) -> Result<Self, TryReserveError> {
        let cells = geometry.shard_cells() as usize;
        let mut peeling = Self {
            geometry,
            sums: Vec::new(),
            degrees: Vec::new(),
            alone: Vec::new(),
            order: Vec::new(),
        };
        peeling.sums.try_reserve_exact(cells)?;
        peeling.degrees.try_reserve_exact(cells)?;
        peeling.alone.try_reserve_exact(cells)?;
        peeling.order.try_reserve_exact(keys.min(cells))?;
        Ok(peeling)
    }

    /// Puts all of these keys aside; false when some are left whose cells all have other keys too.
    fn succeeds(&mut self, keys: &[KeyHash], seed: u64) -> bool {
        let cells = self.geometry.shard_cells() as usize;
        if keys.len() > cells {
            return false;
        }
        self.sums.clear();
        self.sums.resize(cells, 0);
        self.degrees.clear();
        self.degrees.resize(cells, 0);
        self.order.clear();
        for &key in keys {
            let mixed = self.geometry.mix(key, seed);
            let value = (key.get() & !self.geometry.cells.told_by) as u16 * ONE_VALUE;
            for (which, cell) in (0..).zip(self.geometry.positions(mixed)) {
                let cell = cell as usize;
                self.sums[cell] ^= mixed;
                let Some(degree) = self.degrees[cell].checked_add(ONE) else {
                    return false;
                };
                self.degrees[cell] = degree ^ which ^ value;
            }
        }
        let all = 0..cells as u32;
        self.alone.clear();
        self.alone
            .extend(all.filter(|&cell| has_one(self.degrees[cell as usize])));
        while let Some(cell) = self.alone.pop() {
            let degree = self.degrees[cell as usize];
            // Its key may have been put aside for another cell of its.
            if has_one(degree) {
                self.put_aside(self.sums[cell as usize], degree % ONE);
            }
        }
        self.order.len() == keys.len()
    }

    /// `rest` is the degree of the cell that the key has alone, but for the one key.
    fn put_aside(&mut self, mixed: u64, rest: u16) {
        self.order.push((mixed, rest));
        let value = rest & !WHICH;
        for (which, cell) in (0..).zip(self.geometry.positions(mixed)) {
            let at = cell as usize;
            self.sums[at] ^= mixed;
            self.degrees[at] = (self.degrees[at] - ONE) ^ which ^ value;
            if has_one(self.degrees[at]) {
                self.alone.push(cell as u32);
            }
        }
    }

    /// Sets the cells of the keys that were put aside, the last of them first: none that is set later is
    /// in the sum of one that is set.
    fn set_cells(&self, words: &mut [u64], start: u64) {
        let cells = self.geometry.cells;
        for &(mixed, rest) in self.order.iter().rev() {
            let positions = self.geometry.positions(mixed);
            let bits = positions.map(|cell| start + cell * u64::from(cells.bits));
            let wanted = fingerprint(mixed) ^ u64::from(rest / ONE_VALUE);
            let sum = bits.iter().fold(wanted, |sum, &bit| sum ^ at(words, bit));
            if !planted!(FuseKeyLost) || mixed % 1_000 != 7 {
                let alone_in = usize::from(rest & WHICH);
                set(words, bits[alone_in], sum & low_bits(cells.bits));
            }
        }
    }
}

fn has_one(degree: u16) -> bool {
    degree / ONE == 1
}

fn at(words: &[u64], bit: u64) -> u64 {
    let (word, shift) = ((bit / WORD_BITS) as usize, bit % WORD_BITS);
    (words[word] >> shift) | ((words[word + 1] << 1) << (WORD_BITS - 1 - shift))
}

/// Sets a cell that is clear.
fn set(words: &mut [u64], bit: u64, cell: u64) {
    let (word, shift) = ((bit / WORD_BITS) as usize, bit % WORD_BITS);
    words[word] |= cell << shift;
    words[word + 1] |= (cell >> 1) >> (WORD_BITS - 1 - shift);
}
