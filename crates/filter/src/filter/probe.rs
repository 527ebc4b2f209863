//! Derives a position from a hash.
//!
//! A position in a range is the high half of hash × range, which needs no division and uses the
//! hash's high bits ([Lemire 2019](https://arxiv.org/abs/1805.10941)).

/// The position in `0..range` that the hash's high bits choose.
#[inline]
pub fn fast_range(hash: u64, range: u64) -> u64 {
    let product = u128::from(hash) * u128::from(range);
    (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_range_stays_within_its_range() {
        for range in [1, 2, 3, 1_000, u64::MAX] {
            assert_eq!(fast_range(0, range), 0);
            assert_eq!(fast_range(u64::MAX, range), range - 1);
        }
    }
}
