//! Derives many independent positions from one 64-bit hash.
//!
//! Probe i first multiplies the hash by its own odd constant. The popular alternative, a + i·b with
//! two hashes, is not good enough here: in a slice of m bits two keys agree in a and b with
//! probability 1/m², and then they agree in *all* probes. A filter of 89 keys in slices of 128 bits
//! would answer *maybe* to 0.5 % of misses instead of 0.00005 %.

use crate::hash::KeyHash;
use crate::math::MAX_PROBES;

pub(crate) use lsm_sieve_filter::filter::probe::fast_range;

/// One position in `0..range` for each of the first `probes` multipliers.
#[inline]
pub(crate) fn positions(hash: KeyHash, probes: u32, range: u64) -> impl Iterator<Item = u64> {
    multiples(hash, probes).map(move |multiple| fast_range(multiple, range))
}

/// The hash times each of the first `probes` multipliers, from which positions are computed.
#[inline]
pub(crate) fn multiples(hash: KeyHash, probes: u32) -> impl Iterator<Item = u64> {
    let multipliers = ODD.iter().take(probes as usize);
    multipliers.map(move |odd| hash.get().wrapping_mul(*odd))
}

/// The multipliers: SplitMix64 from seed 0, made odd. Frozen, because stored bits depend on them.
static ODD: [u64; MAX_PROBES as usize] = odd_multipliers();

const fn odd_multipliers() -> [u64; MAX_PROBES as usize] {
    let mut odd = [0; MAX_PROBES as usize];
    let mut state: u64 = 0;
    let mut i = 0;
    while i < odd.len() {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        odd[i] = (z ^ (z >> 31)) | 1;
        i += 1;
    }
    odd
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference sequence of SplitMix64 from seed 0 begins so. All are odd, by chance or by `|
    /// 1`.
    #[test]
    fn multipliers_are_frozen_and_odd() {
        assert_eq!(ODD[0], 0xe220_a839_7b1d_cdaf);
        assert_eq!(ODD[1], 0x6e78_9e6a_a1b9_65f4 | 1);
        assert!(ODD.iter().all(|odd| odd % 2 == 1));
    }
}
