//! The sums of eight columns with AVX2.
//!
//! ```text
//! | column 0 | column 1 | column 2 | column 3 |  | column 4 | ... |    64 bits each, of two blocks
//! | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |    the halves of each, added; then the halves of these, ...
//! ```

use std::arch::x86_64::*;

use super::Pane;
use crate::bits::Words;

/// [`super::sum_of_columns`] of the same pane; the bits above its columns are arbitrary.
#[target_feature(enable = "avx2")]
#[inline]
pub(in crate::filter) fn sum_of_columns(words: &Words, pane: Pane) -> u64 {
    let mask = _mm256_set1_epi64x(pane.mask.cast_signed());
    let next_mask = _mm256_set1_epi64x(pane.next_mask.cast_signed());
    let [low, high, next_low, next_high] = words.load_pair256(pane.word, pane.columns);
    let (low, high) = (_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
    let next_low = _mm256_and_si256(next_low, next_mask);
    let next_high = _mm256_and_si256(next_high, next_mask);
    let low = _mm256_castsi256_ps(_mm256_xor_si256(low, next_low));
    let high = _mm256_castsi256_ps(_mm256_xor_si256(high, next_high));
    let halves = _mm256_xor_ps(
        _mm256_shuffle_ps::<0x88>(low, high),
        _mm256_shuffle_ps::<0xdd>(low, high),
    );
    // The columns are in the order 0, 1, 4, 5, 2, 3, 6, 7 until here.
    let mut sums = _mm256_permute4x64_epi64::<0xd8>(_mm256_castps_si256(halves));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<16>(sums));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<8>(sums));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<4>(sums));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<2>(sums));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<1>(sums));
    let lowest_first = _mm256_castsi256_ps(_mm256_slli_epi32::<31>(sums));
    _mm256_movemask_ps(lowest_first).cast_unsigned().into()
}
