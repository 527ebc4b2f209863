//! The one line that a look-up waits for, found first and looked at later, so that who looks chooses with what.

use super::{Blocked, contains_by_words, for_pattern};
use crate::bits::{Line, Words};
use crate::hash::KeyHash;
use crate::math::blocked::Pattern;

impl Blocked {
    /// Where this key's bits are; `None` if the line lay outside.
    #[inline(always)]
    pub(in crate::filter) fn spot(self, words: &Words, hash: KeyHash) -> Option<Spot<'_>> {
        Some(Spot {
            line: words.get(self.line(hash))?,
            pattern: self.pattern,
            hash,
        })
    }
}

/// The one line of a filter that tells whether it may contain a key.
#[derive(Clone, Copy)]
pub(crate) struct Spot<'a> {
    line: &'a Line,
    pattern: Pattern,
    hash: KeyHash,
}

impl Spot<'_> {
    /// Whether the filter may contain the key.
    #[inline(always)]
    pub(crate) fn is_taken(self, look: impl Look) -> bool {
        for_pattern!(self.pattern, contains_by(look, self.line, self.hash))
    }
}

#[inline(always)]
fn contains_by<const GROUPS: usize, const EACH: u32>(
    look: impl Look,
    line: &Line,
    hash: KeyHash,
) -> bool {
    look.contains::<GROUPS, EACH>(line, hash)
}

/// With what a line is looked at: a type, so that a whole look-up can be compiled for one kind of processor. What
/// is compiled for several must call what is compiled for one, and keep its registers meanwhile.
pub(crate) trait Look: Copy {
    /// Whether all bits of a key are set.
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool;
}

/// What every processor has.
#[derive(Clone, Copy)]
pub(crate) struct ByWords;

impl Look for ByWords {
    #[inline(always)]
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool {
        contains_by_words::<GROUPS, EACH>(line, hash)
    }
}

/// The vectors of AVX2; proof that this processor has them.
#[cfg(all(target_arch = "x86_64", not(interleave)))]
#[derive(Clone, Copy)]
pub(crate) struct ByAvx2(());

#[cfg(all(target_arch = "x86_64", not(interleave)))]
impl ByAvx2 {
    #[inline(always)]
    pub(crate) fn where_it_runs() -> Option<Self> {
        std::arch::is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

#[cfg(all(target_arch = "x86_64", not(interleave)))]
impl Look for ByAvx2 {
    #[inline(always)]
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: whoever has a `ByAvx2` was told that this one can.
        unsafe {
            super::avx2::contains::<GROUPS, EACH>(line, hash)
        }
    }
}
