//! With what words are looked at, and look-ups that are compiled whole for each.
//!
//! A function for one kind of processor is not inlined into one for all of them: a look-up that chose at its
//! words would call, and keep its registers meanwhile. So it chooses before it begins.

#[cfg(all(target_arch = "x86_64", not(interleave)))]
pub(super) mod vectors;

use super::blocked;
use super::ribbon::{self, Pane};
use crate::bits::{Line, Words};
use crate::hash::KeyHash;

/// With what words are looked at: any two say the same of a key.
pub trait Lens: Copy {
    /// Whether all bits of a key are set in its line of a blocked filter.
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool;

    /// What the columns of a ribbon filter's pane sum to, from the low bit on; above them, anything.
    fn sum_of_columns(self, words: &Words, pane: Pane) -> u64;
}

/// What can be looked at for a key, or for several, through any lens. The key is no part of it, so that both are
/// small enough for registers.
pub trait Look<Key> {
    /// What is seen.
    type Seen;

    /// What is seen through this lens; to be inlined always.
    fn through(self, lens: impl Lens, key: Key) -> Self::Seen;
}

/// What is seen through the best lens of this processor.
#[inline]
pub fn through_best<Key, L: Look<Key>>(look: L, key: Key) -> L::Seen {
    #[cfg(all(target_arch = "x86_64", not(interleave)))]
    if let Some(lens) = vectors::best() {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: the lens is proof that this one can.
        return unsafe { vectors::by_avx2(lens, look, key) };
    }
    by_words(look, key)
}

#[cfg_attr(all(target_arch = "x86_64", not(interleave)), inline(never))]
fn by_words<Key, L: Look<Key>>(look: L, key: Key) -> L::Seen {
    look.through(ByWords, key)
}

/// What every processor has.
#[derive(Clone, Copy)]
pub struct ByWords;

impl Lens for ByWords {
    #[inline(always)]
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool {
        blocked::contains_by_words::<GROUPS, EACH>(line, hash)
    }

    #[inline(always)]
    fn sum_of_columns(self, words: &Words, pane: Pane) -> u64 {
        ribbon::sum_of_columns(words, pane)
    }
}

/// Does this with each lens that this processor has.
#[cfg(test)]
macro_rules! for_each_lens {
    ($lens:ident => $body:expr) => {{
        let $lens = crate::filter::lens::ByWords;
        $body;
        #[cfg(all(target_arch = "x86_64", not(interleave)))]
        {
            match crate::filter::lens::vectors::ByAvx2::where_it_runs() {
                Some($lens) => $body,
                None => eprintln!("skipped: this processor has no AVX2"),
            }
        }
    }};
}

#[cfg(test)]
pub(super) use for_each_lens;
