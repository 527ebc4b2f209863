//! The hash-coding methods with which Bloom compared his filter (CACM 13(7), 1970, §2).
//!
//! ```text
//! | code | - | code | code | - | ...      a cell is empty, or holds the top c bits of a key's code
//!
//! insert     visit the key's random cells in order until one is empty or has its code
//! look up    the same; absent at the first empty cell
//!
//! cell i of a key  = ⌊ mix(hash + i γ) × cells / 2^64 ⌋        i = 1, 2, ...; mix as in SplitMix64
//! code of a key    = top c bits of hash × γ mod 2^64
//! ```
//!
//! With c = 63 the cell holds the key (a 63-bit one). This is his conventional method: exact,
//! except for hashes that agree in these bits. With few bits it is the first of his methods that
//! trade errors for space. Each cell takes one more bit, which marks it as taken.
//!
//! This table is for comparison and not for production. It cannot degrade to *maybe*, so an
//! insertion into a full table is refused. Lookups become slower as it fills. Union and growth need
//! the keys.

use super::{Kind, Shape, ShapeError, StageError, probe};
use crate::bits::Packed;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Probes, Rate, hash_coding};

/// A table of codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HashCoding {
    cells: Packed,
    code_bits: u32,
    taken: u64,
}

/// The table has only one empty cell left, which lookups need to terminate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("all {cells} cells are taken; build a larger table from the keys")]
pub struct Full {
    /// Number of cells of the table.
    pub cells: u64,
}

/// The most bits of a code: with the mark of a taken cell it fits in a word.
pub const MAX_CODE_BITS: u32 = 63;

/// The step of SplitMix64, and the multiplier of codes: 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl HashCoding {
    /// An empty table of at least `cells` cells, with codes of `code_bits` bits.
    ///
    /// # Errors
    /// If `code_bits` is 0 or more than [`MAX_CODE_BITS`], or memory cannot be allocated.
    pub fn with_cells(cells: u64, code_bits: u32) -> Result<Self, StageError> {
        let width = code_bits.saturating_add(1);
        let words = Packed::words_for(cells.max(2), width.clamp(2, u64::BITS));
        Self::new(Shape {
            kind: Kind::HashCoding,
            bits: Bits::new(words.saturating_mul(u64::from(u64::BITS))),
            probes: Probes::new(1),
            groups: width,
        })
    }

    /// An empty table that is half full with `items` keys, and then has at most a false-positive
    /// rate of `rate`.
    ///
    /// # Errors
    /// If the rate needs codes of more than [`MAX_CODE_BITS`], or memory cannot be allocated.
    pub fn with_rate(items: Items, rate: Rate) -> Result<Self, StageError> {
        let cells = items.get().saturating_mul(2);
        Self::with_cells(cells, hash_coding::code_bits(0.5, rate).max(1))
    }

    /// An empty table of this shape.
    ///
    /// # Errors
    /// If the shape is not that of such a table, or memory cannot be allocated.
    pub fn new(shape: Shape) -> Result<Self, StageError> {
        let words = shape.bits.get() / u64::from(u64::BITS);
        Self::filled(
            shape,
            usize::try_from(words).unwrap_or(usize::MAX),
            Vec::new(),
        )
    }

    /// Restores a table from its shape and its words. Words of any value are accepted, as long as a
    /// cell is empty.
    ///
    /// # Errors
    /// If the shape is not that of such a table or needs another number of words, or no cell is
    /// empty.
    pub fn from_words(shape: Shape, words: Vec<u64>) -> Result<Self, StageError> {
        let (expected, got) = (shape.bits.get() / u64::from(u64::BITS), words.len());
        if u64::try_from(got) != Ok(expected) {
            let bits = shape.bits;
            return Err(StageError::WordCount {
                bits,
                expected,
                got,
            });
        }
        let table = Self::filled(shape, got, words)?;
        // Without an empty cell, a lookup would not terminate.
        if table.taken == table.cells() {
            let (kind, wanted) = (shape.kind, "table with an empty cell");
            return Err(ShapeError::Kind { kind, wanted }.into());
        }
        Ok(table)
    }

    fn filled(shape: Shape, words: usize, values: Vec<u64>) -> Result<Self, StageError> {
        let code_bits = checked(shape)?;
        let no_memory = |source| StageError::Memory {
            bits: shape.bits,
            source,
        };
        let cells = Packed::from_values(words, shape.groups, values).map_err(no_memory)?;
        let taken = cells.iter().filter(|&cell| cell != 0).count();
        Ok(Self {
            cells,
            code_bits,
            taken: taken as u64,
        })
    }

    /// Inserts a key; returns true if it was absent.
    ///
    /// # Errors
    /// If the table is full; then nothing has changed.
    pub fn insert(&mut self, hash: KeyHash) -> Result<bool, Full> {
        let (place, found) = self.find(hash);
        if found {
            return Ok(false);
        }
        if self.taken + 1 == self.cells() {
            let cells = self.cells();
            return Err(Full { cells });
        }
        self.cells.set(place, self.code(hash));
        self.taken += 1;
        Ok(true)
    }

    /// False only for a key that was never inserted.
    pub fn may_contain(&self, hash: KeyHash) -> bool {
        self.find(hash).1
    }

    /// The first of the key's cells that is empty or has its code, and whether it has the code.
    fn find(&self, hash: KeyHash) -> (u64, bool) {
        let code = self.code(hash);
        let mut state = hash.get();
        loop {
            state = state.wrapping_add(GAMMA);
            let place = probe::fast_range(mix(state), self.cells());
            match self.cells.get(place) {
                0 => return (place, false),
                cell if cell == code => return (place, true),
                _ => {}
            }
        }
    }

    /// The code of a key, below the bit that marks a taken cell.
    fn code(&self, hash: KeyHash) -> u64 {
        let code = hash.get().wrapping_mul(GAMMA) >> (u64::BITS - self.code_bits);
        1 << self.code_bits | code
    }

    /// Taken cells: the inserted keys, without false positives at their insertion.
    pub fn items(&self) -> Items {
        Items::new(self.taken)
    }

    /// The number of all cells.
    pub fn cells(&self) -> u64 {
        self.cells.len()
    }

    /// Bits per code.
    pub fn code_bits(&self) -> u32 {
        self.code_bits
    }

    /// The bits of all cells, including unused bits at the end of words.
    pub fn size(&self) -> Bits {
        self.shape().bits
    }

    /// The false-positive rate at the current fill.
    pub fn predicted_rate(&self) -> f64 {
        hash_coding::rate(self.empty(), self.code_bits)
    }

    /// The mean number of cells that a miss visits, at the current fill.
    pub fn steps(&self) -> f64 {
        hash_coding::steps(self.empty(), self.code_bits)
    }

    fn empty(&self) -> f64 {
        1.0 - self.taken as f64 / self.cells() as f64
    }

    /// The shape of the filter.
    pub fn shape(&self) -> Shape {
        Shape {
            kind: Kind::HashCoding,
            bits: Bits::new(self.words().len() as u64 * u64::from(u64::BITS)),
            probes: Probes::new(1),
            groups: self.code_bits + 1,
        }
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        self.cells.words()
    }
}

/// The bits of a code in this shape.
fn checked(shape: Shape) -> Result<u32, ShapeError> {
    let Shape {
        kind,
        probes,
        groups,
        ..
    } = shape;
    if kind != Kind::HashCoding {
        let wanted = "table of codes";
        return Err(ShapeError::Kind { kind, wanted });
    }
    if probes.get() != 1 {
        return Err(ShapeError::Probes { kind, probes });
    }
    let code_bits = groups
        .checked_sub(1)
        .filter(|bits| (1..=MAX_CODE_BITS).contains(bits));
    let code_bits = code_bits.ok_or(ShapeError::Groups {
        kind,
        probes,
        groups,
    })?;
    shape.bits_in_units_of(u64::from(u64::BITS))?;
    Ok(code_bits)
}

/// The finaliser of SplitMix64.
const fn mix(state: u64) -> u64 {
    let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::hashes;

    fn filled(cells: u64, code_bits: u32, keys: usize) -> HashCoding {
        let mut table = HashCoding::with_cells(cells, code_bits).unwrap();
        hashes(1)
            .take(keys)
            .for_each(|hash| _ = table.insert(hash).unwrap());
        table
    }

    #[test]
    fn full_width_codes_have_no_false_positives() {
        let table = filled(20_000, MAX_CODE_BITS, 10_000);
        assert!(hashes(1).take(10_000).all(|hash| table.may_contain(hash)));
        assert!(!hashes(2).take(100_000).any(|hash| table.may_contain(hash)));
        assert_eq!(table.items().get(), 10_000);
    }

    /// Within 3.3 standard deviations of the binomial, for tables from a quarter full to 95 % full.
    #[test]
    fn truncated_codes_have_the_predicted_rate() {
        for (code_bits, keys) in [(3, 5_000), (7, 10_000), (7, 19_000), (10, 10_000)] {
            let table = filled(20_000, code_bits, keys);
            assert!(hashes(1).take(keys).all(|hash| table.may_contain(hash)));
            let hits = hashes(2)
                .take(500_000)
                .filter(|&hash| table.may_contain(hash))
                .count() as f64;
            let expected = 5e5 * table.predicted_rate();
            let slack = 3.29 * expected.sqrt() + 1.0;
            assert!(
                (hits - expected).abs() < slack,
                "{code_bits} bits: {hits} for {expected}"
            );
        }
    }

    /// The counted cells that misses visit agree with the formula.
    #[test]
    fn mean_number_of_visited_cells_equals_the_formula() {
        let table = filled(20_000, 7, 15_000);
        let visited = |hash: KeyHash| {
            let code = table.code(hash);
            let states = (1..).map(|i: u64| hash.get().wrapping_add(i.wrapping_mul(GAMMA)));
            let cells = states.map(|state| probe::fast_range(mix(state), table.cells()));
            let ends = |place: &u64| [0, code].contains(&table.cells.get(*place));
            1 + cells.take_while(|place| !ends(place)).count()
        };
        let all: usize = hashes(2).take(50_000).map(visited).sum();
        let mean = all as f64 / 50_000.0;
        assert!((mean / table.steps() - 1.0).abs() < 0.02, "{mean}");
    }

    #[test]
    fn full_table_refuses_an_insertion_and_keeps_its_keys() {
        let mut table = HashCoding::with_cells(64, 30).unwrap();
        let full = hashes(1)
            .map(|hash| table.insert(hash))
            .find_map(Result::err)
            .unwrap();
        assert_eq!(full.cells, table.cells());
        let kept = usize::try_from(table.items().get()).unwrap();
        assert_eq!(kept as u64, full.cells - 1);
        assert!(hashes(1).take(kept).all(|hash| table.may_contain(hash)));
    }

    #[test]
    fn table_without_an_empty_cell_is_refused() {
        let table = filled(100, 15, 50);
        let words = table.words().to_vec();
        assert_eq!(
            HashCoding::from_words(table.shape(), words),
            Ok(table.clone())
        );
        // A cell that is not zero is not empty, even without the mark of a taken cell.
        for word in [u64::MAX, 0x0001_0001_0001_0001] {
            let full = vec![word; table.words().len()];
            assert!(HashCoding::from_words(table.shape(), full).is_err());
        }
        for groups in [0, 1, 65, u32::MAX] {
            assert!(
                HashCoding::new(Shape {
                    groups,
                    ..table.shape()
                })
                .is_err()
            );
        }
    }

    /// Bloom's conclusion: at usual rates, his filter takes the fewest bits.
    #[test]
    fn a_bloom_filter_takes_fewer_bits_than_truncated_codes() {
        let (items, rate) = (Items::new(100_000), Rate::ONE_PERCENT);
        let bloom = crate::math::classic::size(items, rate).0;
        let codes = HashCoding::with_rate(items, rate).unwrap().size();
        assert!(codes.get() > bloom.get() * 3 / 2, "{codes} against {bloom}");
    }
}
