//! Hash coding in cells, with which Bloom compares his filter (CACM 13(7), 1970, §§2-3).
//!
//! A lookup visits random cells in order. It rejects at the first empty cell, and accepts at the
//! first cell with the key's code. With a share φ of empty cells and codes of c bits, a step of the
//! lookup of an absent key rejects with probability φ, accepts with (1 − φ) 2^−c, and otherwise
//! continues:
//!
//! ```text
//! rate                = a / (a + φ),   a = (1 − φ) 2^−c
//! cells visited       = 1 / (a + φ)
//! ```

use super::{Rate, whole};

/// The probability that an absent key is accepted.
pub fn rate(empty: f64, code_bits: u32) -> f64 {
    let accepts = accepts(empty, code_bits);
    accepts / (accepts + empty)
}

/// The mean number of cells that the lookup of an absent key visits.
pub fn steps(empty: f64, code_bits: u32) -> f64 {
    1.0 / (accepts(empty, code_bits) + empty)
}

/// The fewest bits of a code for a rate of at most `wanted`: 2^−c = p φ / ((1 − p)(1 − φ)).
pub fn code_bits(empty: f64, wanted: Rate) -> u32 {
    let p = wanted.get();
    let code = p * empty / ((1.0 - p) * (1.0 - empty));
    u32::try_from(whole(-code.log2())).unwrap_or(u32::MAX)
}

fn accepts(empty: f64, code_bits: u32) -> f64 {
    (1.0 - empty) * 0.5_f64.powf(f64::from(code_bits))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    #[test]
    fn half_full_table_of_one_bit_codes_equals_hand_count() {
        // With one bit, half of the codes differ from the key's: 1/4 accepts, 1/2 rejects, 1/4
        // continues.
        assert_close(rate(0.5, 1), 1.0 / 3.0, 1e-12);
        assert_close(steps(0.5, 1), 4.0 / 3.0, 1e-12);
        assert_eq!(rate(1.0, 8), 0.0);
    }

    #[test]
    fn code_bits_are_the_fewest_that_keep_the_rate() {
        for p in [0.1, 0.01, 1e-6] {
            let bits = code_bits(0.5, Rate::new(p).unwrap());
            assert!(rate(0.5, bits) <= p && rate(0.5, bits - 1) > p, "{bits}");
        }
    }
}
