//! A look-up by the vectors of AVX2: the sums of eight columns at once.
//!
//! ```text
//! | column 0 | column 1 | column 2 | column 3 |  | column 4 | ... | column 7 |    64 bits each, of two blocks
//! | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |                the halves of each, added; then the halves of these, ...
//! ```

use std::arch::x86_64::*;

use super::{Pane, Ribbon, Values};
use crate::bits::Words;
use crate::hash::KeyHash;

/// [`Ribbon::passes`] of the same key.
#[target_feature(enable = "avx2")]
pub(super) fn passes(ribbon: &Ribbon, words: &Words, hash: KeyHash, values: Values) -> bool {
    let sum_of = |words: &Words, pane| sum_of_columns(words, pane);
    !ribbon.denies_at_once(words, hash, sum_of) && passes_all(ribbon, words, hash, values)
}

/// Turns the answers of those that pass true, and leaves the others.
#[target_feature(enable = "avx2")]
pub(super) fn test_each(ribbon: &Ribbon, words: &Words, hashes: &[KeyHash], answers: &mut [bool]) {
    // Of one's own: it need not be read again for each.
    let own = *ribbon;
    let sum_of = |words: &Words, pane| sum_of_columns(words, pane);
    for (&hash, answer) in hashes.iter().zip(answers) {
        *answer = *answer
            || (!own.denies_at_once(words, hash, sum_of)
                && passes_all(ribbon, words, hash, Values::ANY));
    }
}

/// Apart, so that nothing is saved and restored for what hardly ever happens.
#[target_feature(enable = "avx2")]
#[inline(never)]
fn passes_all(ribbon: &Ribbon, words: &Words, hash: KeyHash, values: Values) -> bool {
    let sum_of = |words: &Words, pane| sum_of_columns(words, pane);
    ribbon.passes_by(words, hash, values, sum_of)
}

/// [`super::sum_of_columns`] of the same pane, and above it anything.
#[target_feature(enable = "avx2")]
#[inline]
fn sum_of_columns(words: &Words, pane: Pane) -> u64 {
    let mask = _mm256_set1_epi64x(pane.mask.cast_signed());
    let next_mask = _mm256_set1_epi64x(pane.next_mask.cast_signed());
    let [low, high, next_low, next_high] = words.two_eights_at(pane.word, pane.columns);
    let (low, high) = (_mm256_and_si256(low, mask), _mm256_and_si256(high, mask));
    let next_low = _mm256_and_si256(next_low, next_mask);
    let next_high = _mm256_and_si256(next_high, next_mask);
    let low = _mm256_castsi256_ps(_mm256_xor_si256(low, next_low));
    let high = _mm256_castsi256_ps(_mm256_xor_si256(high, next_high));
    let halves = _mm256_xor_ps(
        _mm256_shuffle_ps::<0x88>(low, high),
        _mm256_shuffle_ps::<0xdd>(low, high),
    );
    // Columns 0, 1, 4, 5, 2, 3, 6 and 7 until here.
    let mut sums = _mm256_permute4x64_epi64::<0xd8>(_mm256_castps_si256(halves));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<16>(sums));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<8>(sums));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<4>(sums));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<2>(sums));
    sums = _mm256_xor_si256(sums, _mm256_srli_epi32::<1>(sums));
    let lowest_first = _mm256_castsi256_ps(_mm256_slli_epi32::<31>(sums));
    _mm256_movemask_ps(lowest_first).cast_unsigned().into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Stage;
    use crate::filter::naive::hashes;
    use crate::math::Rate;

    #[test]
    #[cfg_attr(miri, ignore = "it has no such vectors")]
    fn vectors_say_what_words_say() {
        if !std::arch::is_x86_feature_detected!("avx2") {
            eprintln!("skipped: this processor has no AVX2");
            return;
        }
        for rate in [0.4, 0.01, 0.002, 1e-6] {
            let keys = hashes(1).take(900).collect();
            let stage = Stage::ribbon(keys, Rate::new(rate).unwrap()).unwrap();
            let ribbon = Ribbon::try_from(stage.shape()).unwrap();
            let mut claimed = 0;
            for hash in hashes(1).take(900).chain(hashes(2).take(9_000)) {
                let words = stage.stored();
                let expected =
                    ribbon.passes_by(words, hash, Values::ANY, super::super::sum_of_columns);
                #[expect(unsafe_code, reason = "not every processor can run what is called")]
                // SAFETY: this one can.
                let got = unsafe { passes(&ribbon, words, hash, Values::ANY) };
                assert_eq!(got, expected, "{rate}: {hash:?}");
                claimed += usize::from(got);
            }
            assert!((900..900 + 6_000).contains(&claimed), "{claimed} at {rate}");
        }
    }
}
