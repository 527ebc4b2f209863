//! A blocked probe with AVX2: one lane per group, and half the instructions.
//!
//! ```text
//! lane g:  | word | bit 6 | bit 6 | ... | consumed by later groups |   spread, shifted to group g
//! ```
//!
//! A lookup waits for its cache line. The fewer instructions it has, the more lookups wait in
//! parallel.

use std::arch::x86_64::*;

use super::{SPREAD, take};
use crate::bits::Line;
use crate::hash::KeyHash;

/// [`super::contains_by_words`] with AVX2.
#[target_feature(enable = "avx2")]
#[inline]
pub(in crate::filter) fn contains<const GROUPS: usize, const EACH: u32>(
    line: &Line,
    hash: KeyHash,
) -> bool {
    let spread = hash.get().wrapping_mul(SPREAD);
    if GROUPS == 2 {
        two_groups::<EACH>(line, spread)
    } else {
        four_groups::<EACH>(line, spread)
    }
}

/// Two bits choose one of a group's four words.
#[target_feature(enable = "avx2")]
#[inline]
fn two_groups<const EACH: u32>(line: &Line, spread: u64) -> bool {
    let spent = 2 + 6 * EACH;
    let word = |group: u32| line.word(4 * group as usize + take(spread, group * spent, 2) as usize);
    let words = _mm_set_epi64x(word(1).cast_signed(), word(0).cast_signed());
    let lanes = _mm_set1_epi64x(spread.cast_signed());
    let lanes = _mm_sllv_epi64(lanes, _mm_set_epi64x(spent.into(), 0));
    let mut mask = _mm_setzero_si128();
    for probe in 0..EACH {
        let start = _mm_set1_epi64x((64 - 2 - 6 * (probe + 1)).into());
        let bit = _mm_and_si128(_mm_srlv_epi64(lanes, start), _mm_set1_epi64x(63));
        mask = _mm_or_si128(mask, _mm_sllv_epi64(_mm_set1_epi64x(1), bit));
    }
    _mm_testc_si128(words, mask) == 1
}

/// The topmost bit chooses one of a group's two words, which is the bit that a blend uses.
#[target_feature(enable = "avx2")]
#[inline]
fn four_groups<const EACH: u32>(line: &Line, spread: u64) -> bool {
    let spent = i64::from(1 + 6 * EACH);
    // Unpacking interleaves the halves of a line into the words of groups 0, 2, 1 and 3.
    let lanes = _mm256_set1_epi64x(spread.cast_signed());
    let lanes = _mm256_sllv_epi64(lanes, _mm256_setr_epi64x(0, 2 * spent, spent, 3 * spent));
    let (low, high) = line.halves();
    let first = _mm256_castsi256_pd(_mm256_unpacklo_epi64(low, high));
    let second = _mm256_castsi256_pd(_mm256_unpackhi_epi64(low, high));
    let words = _mm256_blendv_pd(first, second, _mm256_castsi256_pd(lanes));
    let mut mask = _mm256_setzero_si256();
    for probe in 0..EACH {
        let start = _mm256_set1_epi64x((64 - 1 - 6 * (probe + 1)).into());
        let bit = _mm256_and_si256(_mm256_srlv_epi64(lanes, start), _mm256_set1_epi64x(63));
        mask = _mm256_or_si256(mask, _mm256_sllv_epi64(_mm256_set1_epi64x(1), bit));
    }
    _mm256_testc_si256(_mm256_castpd_si256(words), mask) == 1
}
