//! Probes of ribbon filters, compiled for each SIMD level.

use super::{Ribbon, low_bits};
use crate::bits::Words;
use crate::filter::simd::{Simd, WithSimd, dispatch};
use crate::hash::KeyHash;

/// Probes for one key.
#[derive(Clone, Copy)]
pub(super) struct One<'a> {
    pub(super) ribbon: &'a Ribbon,
    pub(super) words: &'a Words,
}

impl WithSimd<KeyHash> for One<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd(self, simd: impl Simd, hash: KeyHash) -> bool {
        !self.ribbon.denies(self.words, simd, hash) && dispatch(Whole(self), hash)
    }
}

/// Probes for many keys, in one loop. Sets the answers of keys that may be in the filter to true
/// and leaves the others.
pub(super) struct Each<'a> {
    pub(super) ribbon: &'a Ribbon,
    pub(super) words: &'a Words,
    pub(super) answers: &'a mut [bool],
}

impl WithSimd<&[KeyHash]> for Each<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd(self, simd: impl Simd, hashes: &[KeyHash]) {
        let one = One {
            ribbon: self.ribbon,
            words: self.words,
        };
        // A local copy, so that it is not read again for each key.
        let own = *self.ribbon;
        for (&hash, answer) in hashes.iter().zip(self.answers) {
            *answer =
                *answer || (!own.denies(self.words, simd, hash) && dispatch(Whole(one), hash));
        }
    }
}

/// Probes all layers and planes. Dispatched again, so that it is a function of its own and still
/// compiled for the SIMD level; the fast path then saves and restores no registers for it.
pub(super) struct Whole<'a>(pub(super) One<'a>);

impl WithSimd<KeyHash> for Whole<'_> {
    type Output = bool;

    #[inline(always)]
    fn with_simd(self, simd: impl Simd, hash: KeyHash) -> bool {
        let One { ribbon, words } = self.0;
        let Some(window) = ribbon.window(words, hash) else {
            return true;
        };
        let rest = (window.block + 1 < ribbon.wider()).then(|| ribbon.rest());
        // A loop instead of a closure, which would not be compiled for the SIMD level.
        for plane in ribbon.planes().chain(rest) {
            let wanted = window.fingerprint >> plane.first_column;
            let sum = simd.sum_of_columns(words, window.pane(plane));
            if (sum ^ wanted) & low_bits(plane.columns) != 0 {
                return false;
            }
        }
        true
    }
}
