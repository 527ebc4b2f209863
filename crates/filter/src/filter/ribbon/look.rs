//! Looks for keys, compiled whole for each lens.

use super::{Ribbon, low_bits};
use crate::bits::Words;
use crate::filter::lens::{Lens, Look, through_best};
use crate::hash::KeyHash;

/// A look for one key.
#[derive(Clone, Copy)]
pub(super) struct One<'a> {
    pub(super) ribbon: &'a Ribbon,
    pub(super) words: &'a Words,
}

impl Look<KeyHash> for One<'_> {
    type Seen = bool;

    #[inline(always)]
    fn through(self, lens: impl Lens, hash: KeyHash) -> bool {
        !self.ribbon.denies(self.words, lens, hash) && through_best(Whole(self), hash)
    }
}

/// A look for many keys, in one loop: turns the answers of those that pass true, and leaves the others.
pub(super) struct Each<'a> {
    pub(super) ribbon: &'a Ribbon,
    pub(super) words: &'a Words,
    pub(super) answers: &'a mut [bool],
}

impl Look<&[KeyHash]> for Each<'_> {
    type Seen = ();

    #[inline(always)]
    fn through(self, lens: impl Lens, hashes: &[KeyHash]) {
        let one = One {
            ribbon: self.ribbon,
            words: self.words,
        };
        // Of one's own: it need not be read again for each.
        let own = *self.ribbon;
        for (&hash, answer) in hashes.iter().zip(self.answers) {
            *answer =
                *answer || (!own.denies(self.words, lens, hash) && through_best(Whole(one), hash));
        }
    }
}

/// A look at all layers and planes: chosen anew, so that it is apart and still compiled for the lens, and nothing
/// is saved and restored for what hardly ever happens.
pub(super) struct Whole<'a>(pub(super) One<'a>);

impl Look<KeyHash> for Whole<'_> {
    type Seen = bool;

    #[inline(always)]
    fn through(self, lens: impl Lens, hash: KeyHash) -> bool {
        let One { ribbon, words } = self.0;
        let Some(window) = ribbon.window(words, hash) else {
            return true;
        };
        let rest = (window.block + 1 < ribbon.wider()).then(|| ribbon.rest());
        // A loop, and no closure, which would not be compiled for the lens.
        for plane in ribbon.planes().chain(rest) {
            let wanted = window.fingerprint >> plane.first_column;
            let sum = lens.sum_of_columns(words, window.pane(plane));
            if (sum ^ wanted) & low_bits(plane.columns) != 0 {
                return false;
            }
        }
        true
    }
}
