//! The rate of each generation if all together keep one rate: the compound rate of Almeida et al.
//! 2007 (equation 1), solved for equal stages.

use super::Rate;

/// The rate of each of `parts` equal filters that together keep `rate`: 1 − (1 − P)^(1/parts).
pub fn share(rate: Rate, parts: u32) -> Rate {
    let absent = (-rate.get()).ln_1p() / f64::from(parts.max(1));
    Rate::clamped(-absent.exp_m1())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::math::assert_close;

    #[test]
    fn equal_shares_compound_to_the_whole_rate() {
        for (rate, parts) in [(0.01, 4), (0.5, 2), (1e-12, 1_000)] {
            let each = share(Rate::new(rate).unwrap(), parts);
            let together = crate::math::growth::compound((0..parts).map(|_| each.get()));
            assert_close(together, rate, 1e-9);
        }
        assert_eq!(share(Rate::ONE_PERCENT, 0), share(Rate::ONE_PERCENT, 1));
    }
}
