//! The bits of a key in its line of a blocked filter, and whether they are set.

#[cfg(all(target_arch = "x86_64", not(interleave)))]
pub(super) mod avx2;

use crate::bits::Line;
use crate::hash::KeyHash;

/// Spreads a hash, so that keys of one line do not share the bits that choose within it. 2^64
/// divided by the golden ratio. Frozen, because stored bits depend on it.
pub(in crate::filter) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// Loops instead of closures here and in [`mark`], because loops are always compiled into their
/// caller. One comparison at the end: a compiler turns one comparison per word into branches that
/// cannot be predicted.
#[inline(always)]
pub(super) fn contains_by_words<const GROUPS: usize, const EACH: u32>(
    line: &Line,
    hash: KeyHash,
) -> bool {
    let spread = hash.get().wrapping_mul(SPREAD);
    let mut missing = 0;
    for group in 0..GROUPS {
        let (word, mask) = mark::<GROUPS, EACH>(spread, group);
        missing |= line.missing(word, mask);
    }
    missing == 0
}

/// The word of one group, and the bits to set in it.
#[inline(always)]
pub(in crate::filter) fn mark<const GROUPS: usize, const EACH: u32>(
    spread: u64,
    group: usize,
) -> (usize, u64) {
    let span = 8 / GROUPS;
    let start = group as u32 * (span.ilog2() + 6 * EACH);
    let word = group * span + take(spread, start, span.ilog2()) as usize;
    let first = start + span.ilog2();
    let mut mask = 0;
    for probe in 0..EACH {
        mask |= 1 << take(spread, first + 6 * probe, 6);
    }
    (word, mask)
}

/// `count` bits after the topmost `start`. Shifts of one product: a chain of shifted products would
/// be compiled to one multiplication for each of them.
#[inline(always)]
fn take(spread: u64, start: u32, count: u32) -> u64 {
    (spread >> (64 - start - count)) & ((1 << count) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mark_stays_within_the_words_of_its_group() {
        let hashes = if cfg!(miri) { 200u64 } else { 10_000 };
        for hash in (0..hashes).map(|i| KeyHash::new(i.wrapping_mul(0xd134_2543_de82_ef95))) {
            let spread = hash.get().wrapping_mul(SPREAD);
            for group in 0..2 {
                let (word, mask) = mark::<2, 5>(spread, group);
                assert_eq!(word / 4, group);
                assert!((1..=5).contains(&mask.count_ones()));
            }
            for group in 0..4 {
                let (word, mask) = mark::<4, 2>(spread, group);
                assert_eq!(word / 2, group);
                assert!((1..=2).contains(&mask.count_ones()));
            }
        }
    }
}
