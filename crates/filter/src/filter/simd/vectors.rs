//! The SIMD level AVX2. A value of its type is proof that this processor has AVX2.

use std::arch::is_x86_feature_detected;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::columns::{self, Pane};
use super::{Simd, WithSimd, line};
use crate::bits::{Line, Words};
use crate::hash::KeyHash;

/// AVX2.
#[derive(Clone, Copy)]
pub(in crate::filter) struct Avx2(());

/// The result of [`best`], cached so that it is one load: testing for the feature takes a dozen
/// instructions.
static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
const UNKNOWN: u8 = 0;
const NONE: u8 = 1;
const AVX2: u8 = 2;

/// The AVX2 level, if this processor has it.
#[inline(always)]
pub(super) fn best() -> Option<Avx2> {
    match FOUND.load(Relaxed) {
        AVX2 => Some(Avx2(())),
        NONE => None,
        _ => find_best(),
    }
}

#[cold]
fn find_best() -> Option<Avx2> {
    let best = Avx2::detect();
    let found = if best.is_some() { AVX2 } else { NONE };
    FOUND.store(found, Relaxed);
    best
}

impl Avx2 {
    pub(in crate::filter) fn detect() -> Option<Self> {
        is_x86_feature_detected!("avx2").then_some(Self(()))
    }
}

impl Simd for Avx2 {
    #[inline(always)]
    fn contains<const GROUPS: usize, const EACH: u32>(self, line: &Line, hash: KeyHash) -> bool {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: the value is proof that this processor has AVX2.
        unsafe {
            line::avx2::contains::<GROUPS, EACH>(line, hash)
        }
    }

    #[inline(always)]
    fn sum_of_columns(self, words: &Words, pane: Pane) -> u64 {
        #[expect(unsafe_code, reason = "not every processor can run what is called")]
        // SAFETY: the value is proof that this processor has AVX2.
        unsafe {
            columns::avx2::sum_of_columns(words, pane)
        }
    }
}

#[target_feature(enable = "avx2")]
#[inline(never)]
pub(super) fn avx2_call<Key, P: WithSimd<Key>>(simd: Avx2, probe: P, key: Key) -> P::Output {
    probe.with_simd(simd, key)
}
