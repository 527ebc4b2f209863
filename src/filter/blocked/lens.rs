//! With what a line is looked at, and look-ups that are compiled whole for each.
//!
//! A function for one kind of processor is not inlined into one for all of them: a look-up that chose at its
//! line would call, and keep its registers meanwhile. So it chooses before it begins.

use super::contains_by_words;
use crate::bits::Line;
use crate::hash::KeyHash;

/// With what a line is looked at.
pub(crate) trait Lens: Copy {
    /// Whether all bits of a key are set.
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool;
}

/// What can be asked for a key through any lens.
pub(crate) trait Ask: Copy {
    /// What it says.
    type Answer;

    /// The answer for this key; to be inlined always.
    fn ask_through(self, key: &[u8], lens: impl Lens) -> Self::Answer;
}

/// The answer through the best lens of this processor.
#[inline]
pub(crate) fn ask_through_best<A: Ask>(asked: A, key: &[u8]) -> A::Answer {
    #[cfg(all(target_arch = "x86_64", not(interleave)))]
    if let Some(avx2) = ByAvx2::where_it_runs() {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: this one can.
        return unsafe { ask_by_avx2(asked, key, avx2) };
    }
    ask_by_words(asked, key)
}

#[cfg(all(target_arch = "x86_64", not(interleave)))]
#[target_feature(enable = "avx2")]
#[inline(never)]
fn ask_by_avx2<A: Ask>(asked: A, key: &[u8], avx2: ByAvx2) -> A::Answer {
    asked.ask_through(key, avx2)
}

#[inline(never)]
fn ask_by_words<A: Ask>(asked: A, key: &[u8]) -> A::Answer {
    asked.ask_through(key, ByWords)
}

/// What every processor has.
#[derive(Clone, Copy)]
pub(crate) struct ByWords;

impl Lens for ByWords {
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
impl Lens for ByAvx2 {
    #[inline(always)]
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: whoever has a `ByAvx2` was told that this one can.
        unsafe {
            super::avx2::contains::<GROUPS, EACH>(line, hash)
        }
    }
}
