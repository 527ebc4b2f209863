//! The binary fuse filter of four positions (Graf & Lemire, JEA 27, 2022): r bits of each key's
//! fingerprint, in little more than r bits a key.
//!
//! ```text
//! cells          n · max(1.075, 0.77 + 0.305 · ln 600,000 / ln n)
//! segment        2^⌊ln n / ln 2.91 − 1/2⌋ cells; a key's four lie in four segments that follow each other
//! rate           2^−r
//! ```
//!
//! The cells of a key add up to its fingerprint. That they can be chosen so for all keys is so almost
//! always with as many cells as that, and is tried again with another hash where it is not.

use super::{Items, Rate, halvings, whole};

/// The most bits of a cell.
pub const MAX_CELL_BITS: u32 = 32;

/// Cells for each of very many keys.
const MANY: f64 = 1.075;

/// And what segments and words round off, at most.
const ROUNDED: f64 = 1.005;

/// The bits of a cell that keep `rate`: ⌈log2 1/p⌉; `None` where there are no such cells.
pub fn cell_bits(rate: Rate) -> Option<u32> {
    Some(halvings(rate)).filter(|&bits| bits <= MAX_CELL_BITS)
}

/// The rate of cells of so many bits, 2^−r, whatever the number of keys.
pub fn rate(cell_bits: u32) -> f64 {
    (-f64::from(cell_bits)).exp2()
}

/// The cells that so many keys need.
pub fn cells(items: Items) -> u64 {
    let n = items.get() as f64;
    if n < 2.0 {
        return items.get();
    }
    let few = 0.77 + 0.305 * 600_000_f64.ln() / n.ln();
    whole(n * few.max(MANY))
}

/// The cells of a segment, for so many keys, as a power of two.
pub fn segment_log2(items: Items) -> u32 {
    let n = items.get().max(1) as f64;
    (n.ln() / 2.91_f64.ln() - 0.5).floor() as u32
}

/// The bits a key that cells of so many bits take, over many keys.
pub fn bits_of_cells(cell_bits: u32) -> f64 {
    f64::from(cell_bits) * MANY * ROUNDED
}

/// The lowest rate whose filter takes no more than so many bits per key, over many keys; of fewer than
/// 1.1, the rate of one bit a cell.
pub fn rate_of(bits_a_key: f64) -> Rate {
    let bits = (bits_a_key / (MANY * ROUNDED)).floor();
    let bits = bits.clamp(1.0, f64::from(MAX_CELL_BITS));
    // So little above that no rounding asks for another bit.
    Rate::clamped((-bits).exp2() * (1.0 + 1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    #[test]
    fn a_cell_has_the_fewest_bits_that_keep_the_rate() {
        for (wanted, bits) in [(0.5, 1), (0.25, 2), (0.01, 7), (0.004, 8), (2e-10, 33)] {
            let found = cell_bits(Rate::new(wanted).unwrap());
            assert_eq!(found, Some(bits).filter(|&bits| bits <= 32), "{wanted}");
            assert!(rate(bits) <= wanted && rate(bits - 1) > wanted);
        }
    }

    /// The paper's own: 12.5 % above the bound for a thousand keys is far off, 7.5 % for a million not.
    #[test]
    fn few_keys_take_more_cells_and_many_take_a_thirteenth_more() {
        assert_close(cells(Items::new(1_000)) as f64, 1_357.5, 1e-3);
        assert_close(cells(Items::new(10_000)) as f64, 12_106.0, 1e-3);
        assert_close(cells(Items::new(600_000)) as f64, 645_000.0, 1e-3);
        assert_close(cells(Items::new(100_000_000)) as f64, 107_500_000.0, 1e-3);
        assert_eq!([0, 1].map(|n| cells(Items::new(n))), [0, 1]);
    }

    #[test]
    fn a_segment_grows_with_the_keys() {
        for (keys, log2) in [(1, 0), (1_000, 5), (100_000, 10), (1_000_000, 12)] {
            assert_eq!(segment_log2(Items::new(keys)), log2, "{keys}");
        }
    }
}
