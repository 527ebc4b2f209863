//! The lenses of vectors: AVX2, and AVX-512 where it counts bits. Each is proof that this processor has them.

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

/// The vectors of AVX-512, for sums of columns; a line is looked at by AVX2, which takes no longer.
#[derive(Clone, Copy)]
pub(in crate::filter) struct ByAvx512(ByAvx2);

/// The best lens of vectors.
pub(super) enum Best {
    Avx2(ByAvx2),
    Avx512(ByAvx512),
}

/// What [`best`] found, so that it is one load: to ask for each feature takes a dozen instructions.
static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const AVX2: u8 = 2;
const AVX512: u8 = 3;

/// The best lens of vectors that this processor has, if it has one.
#[inline(always)]
pub(super) fn best() -> Option<Best> {
    match FOUND.load(Relaxed) {
        AVX512 => Some(Best::Avx512(ByAvx512(ByAvx2(())))),
        AVX2 => Some(Best::Avx2(ByAvx2(()))),
        NONE => None,
        _ => find_best(),
    }
}

#[cold]
fn find_best() -> Option<Best> {
    let avx2 = || ByAvx2::where_it_runs().map(Best::Avx2);
    let best = ByAvx512::where_it_runs().map(Best::Avx512).or_else(avx2);
    let found = match best {
        Some(Best::Avx512(_)) => AVX512,
        Some(Best::Avx2(_)) => AVX2,
        None => NONE,
    };
    FOUND.store(found, Relaxed);
    best
}

impl ByAvx2 {
    pub(in crate::filter) fn where_it_runs() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

impl ByAvx512 {
    pub(in crate::filter) fn where_it_runs() -> Option<Self> {
        let avx2 = ByAvx2::where_it_runs()?;
        let counts =
            is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vpopcntdq");
        counts.then_some(Self(avx2))
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

impl Lens for ByAvx512 {
    #[inline(always)]
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool {
        self.0.contains::<GROUPS, EACH>(line, hash)
    }

    #[inline(always)]
    fn sum_of_columns(self, words: &Words, pane: Pane) -> u64 {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: the lens is proof that this one can.
        unsafe {
            ribbon::avx512::sum_of_columns(words, pane)
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline(never)]
pub(super) fn by_avx2<Key, L: Look<Key>>(lens: ByAvx2, look: L, key: Key) -> L::Seen {
    look.through(lens, key)
}

#[target_feature(enable = "avx2,avx512f,avx512vpopcntdq")]
#[inline(never)]
pub(super) fn by_avx512<Key, L: Look<Key>>(lens: ByAvx512, look: L, key: Key) -> L::Seen {
    look.through(lens, key)
}
