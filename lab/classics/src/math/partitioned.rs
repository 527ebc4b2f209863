//! The partitioned filter: k slices of m bits, one probe in each (Almeida et al. 2007, §2).
//!
//! The slices are independent, so the textbook formula is exact here, for any size.

use super::{Bits, Items, Probes, Rate, halvings, whole};

/// The exact rate, (1 − (1 − 1/m)^n)^k, m the bits of one slice (Almeida §2; Grandi).
pub fn rate(slice: Bits, probes: Probes, items: Items) -> f64 {
    super::fill::expected(clear_chance(slice), items).powf(f64::from(probes.get()))
}

/// The bits of one slice, and the number of slices, that keep `items` keys below `rate`.
///
/// k = ⌈log2 1/p⌉ (Almeida §3), and m solves (1 − (1 − 1/m)^n)^k = p. The slices end a little above
/// half full, which is the fill at which Table 1 of the paper gives its capacities.
pub fn size(items: Items, rate: Rate) -> (Bits, Probes) {
    let k = halvings(rate);
    let fill = rate.get().powf(1.0 / f64::from(k));
    let clear = (-fill).ln_1p() / items.get().max(1) as f64;
    (
        Bits::new(whole(-1.0 / clear.exp_m1()).max(1)),
        Probes::new(k),
    )
}

/// The probability that one key leaves a given bit clear, 1 − 1/m, m the bits of one slice.
pub fn clear_chance(slice: Bits) -> f64 {
    1.0 - 1.0 / slice.get().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    /// Table 1 of the paper: M = 262,144 bits in k slices hold n keys at rate P.
    #[test]
    fn agrees_with_table_1() {
        for (p, k, m, n) in [
            (1e-3, 10, 26_214, 18_232),
            (1e-4, 14, 18_724, 13_674),
            (1e-5, 17, 15_420, 10_939),
            (1e-6, 20, 13_107, 9_116),
        ] {
            let (slice, probes) = size(Items::new(n), Rate::new(p).unwrap());
            assert_eq!(probes.get(), k);
            assert_close(slice.get() as f64, f64::from(m), 0.002);
        }
    }

    #[test]
    fn a_size_keeps_its_rate() {
        for n in [1, 10, 1_000, 1_000_000] {
            for p in [0.9, 0.1, 0.01, 1e-6, 1e-12] {
                let (m, k) = size(Items::new(n), Rate::new(p).unwrap());
                assert!(rate(m, k, Items::new(n)) <= p * (1.0 + 1e-9), "{n} {p} {m}");
            }
        }
    }
}
