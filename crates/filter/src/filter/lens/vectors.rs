//! The lens of the vectors of AVX2: it is proof that this processor has them.

use std::arch::is_x86_feature_detected;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::{Lens, Look};
use crate::bits::{Line, Words};
use crate::filter::ribbon::Pane;
use crate::filter::{blocked, ribbon};
use crate::hash::KeyHash;

/// The vectors of AVX2.
#[derive(Clone, Copy)]
pub(in crate::filter) struct ByAvx2(());

/// What [`best`] found, so that it is one load: to ask for the feature takes a dozen instructions.
static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const AVX2: u8 = 2;

/// The lens of vectors, if this processor has them.
#[inline(always)]
pub(super) fn best() -> Option<ByAvx2> {
    match FOUND.load(Relaxed) {
        AVX2 => Some(ByAvx2(())),
        NONE => None,
        _ => find_best(),
    }
}

#[cold]
fn find_best() -> Option<ByAvx2> {
    let best = ByAvx2::where_it_runs();
    let found = if best.is_some() { AVX2 } else { NONE };
    FOUND.store(found, Relaxed);
    best
}

impl ByAvx2 {
    pub(in crate::filter) fn where_it_runs() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

impl Lens for ByAvx2 {
    #[inline(always)]
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: the lens is proof that this one can.
        unsafe {
            blocked::avx2::contains::<GROUPS, EACH>(line, hash)
        }
    }

    #[inline(always)]
    fn sum_of_columns(self, words: &Words, pane: Pane) -> u64 {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: the lens is proof that this one can.
        unsafe {
            ribbon::avx2::sum_of_columns(words, pane)
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline(never)]
pub(super) fn by_avx2<Key, L: Look<Key>>(lens: ByAvx2, look: L, key: Key) -> L::Seen {
    look.through(lens, key)
}
