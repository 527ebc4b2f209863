//! The sums of eight columns by the vectors of AVX-512, which count the bits of each.

use std::arch::x86_64::*;

use super::Pane;
use crate::bits::Words;

/// [`super::sum_of_columns`] of the same pane, and above it anything.
#[target_feature(enable = "avx512f,avx512vpopcntdq")]
#[inline]
pub(in crate::filter) fn sum_of_columns(words: &Words, pane: Pane) -> u64 {
    let mask = _mm512_set1_epi64(pane.mask.cast_signed());
    let next_mask = _mm512_set1_epi64(pane.next_mask.cast_signed());
    let [here, next] = words.two_eights_at(pane.word, pane.columns);
    let next = _mm512_and_si512(next, next_mask);
    // (here & mask) ^ next
    let both = _mm512_ternarylogic_epi64::<0x6a>(here, mask, next);
    let counts = _mm512_popcnt_epi64(both);
    _mm512_test_epi64_mask(counts, _mm512_set1_epi64(1)).into()
}
