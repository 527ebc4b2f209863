//! SIMD dispatch: probes that are compiled once for each SIMD level.
//!
//! A function compiled for one kind of processor is not inlined into a function compiled for all of
//! them. A lookup that chose the level at each probe would make a call there and save its registers
//! around it. So it chooses the level before it begins.

#[cfg(all(target_arch = "x86_64", not(interleave)))]
pub(super) mod vectors;

pub(super) mod columns;
pub(super) mod line;

use crate::bits::{Line, Words};
use crate::hash::KeyHash;
use columns::Pane;

/// A SIMD level. All levels give the same answer for a key.
pub trait Simd: Copy {
    /// Whether all bits of a key are set in its line of a blocked filter.
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool;

    /// The sums of the columns of a ribbon filter's pane, from the low bit on; the bits above them
    /// are arbitrary.
    fn sum_of_columns(self, words: &Words, pane: Pane) -> u64;
}

/// A probe for a key, or for several, at any SIMD level. The key is not part of it, so that both
/// are small enough for registers.
pub trait WithSimd<Key> {
    /// The result of the probe.
    type Output;

    /// Runs the probe at this SIMD level; must always be inlined.
    fn with_simd(self, simd: impl Simd, key: Key) -> Self::Output;
}

/// Runs the probe at the best SIMD level of this processor.
#[inline]
pub fn dispatch<Key, P: WithSimd<Key>>(probe: P, key: Key) -> P::Output {
    #[cfg(all(target_arch = "x86_64", not(interleave)))]
    if let Some(simd) = vectors::best() {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: the value is proof that this processor has AVX2.
        return unsafe { vectors::avx2_call(simd, probe, key) };
    }
    scalar(probe, key)
}

#[cfg_attr(all(target_arch = "x86_64", not(interleave)), inline(never))]
fn scalar<Key, P: WithSimd<Key>>(probe: P, key: Key) -> P::Output {
    probe.with_simd(Scalar, key)
}

/// Plain words, which every processor has.
#[derive(Clone, Copy)]
pub struct Scalar;

impl Simd for Scalar {
    #[inline(always)]
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool {
        line::contains_by_words::<GROUPS, EACH>(line, hash)
    }

    #[inline(always)]
    fn sum_of_columns(self, words: &Words, pane: Pane) -> u64 {
        columns::sum_of_columns(words, pane)
    }
}

/// Repeats the body for each SIMD level that this processor has.
#[cfg(test)]
macro_rules! for_each_simd {
    ($simd:ident => $body:expr) => {{
        let $simd = crate::filter::simd::Scalar;
        $body;
        #[cfg(all(target_arch = "x86_64", not(interleave)))]
        {
            match crate::filter::simd::vectors::Avx2::detect() {
                Some($simd) => $body,
                None => eprintln!("skipped: this processor has no AVX2"),
            }
        }
    }};
}

#[cfg(test)]
pub(super) use for_each_simd;
