//! A cache line of words whose bits are only ever set.
//!
//! Bits are tested before they are set. Most bits of a filled filter are set already, and a plain
//! load leaves the line shared, while `fetch_or` would take it away from every other core.

use crate::sync::atomic::{AtomicU64, Ordering::Relaxed};
#[cfg(all(target_arch = "x86_64", not(interleave)))]
use std::arch::x86_64::__m256i;

/// Eight words that the processor fetches together.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Line(pub(super) [AtomicU64; WORDS_A_LINE]);

pub const WORDS_A_LINE: usize = 8;

#[cfg(not(interleave))]
const _: () = assert!(size_of::<Line>() == 64 && align_of::<Line>() == 64);

impl Line {
    /// Whether all bits of `mask` are set in this word.
    #[inline]
    pub fn contains(&self, word: usize, mask: u64) -> bool {
        self.missing(word, mask) == 0
    }

    /// The bits of `mask` that are clear in this word.
    #[inline]
    pub fn missing(&self, word: usize, mask: u64) -> u64 {
        !self.word(word) & mask
    }

    /// This word as it is now.
    #[inline]
    pub fn word(&self, word: usize) -> u64 {
        self.0[word].load(Relaxed)
    }

    /// The first four words and the last four, as they are now.
    #[cfg(all(target_arch = "x86_64", not(interleave)))]
    #[target_feature(enable = "avx")]
    #[inline]
    #[expect(
        unsafe_code,
        reason = "no safe load of a vector that others may change"
    )]
    pub fn halves(&self) -> (__m256i, __m256i) {
        let (low, high);
        // SAFETY: it reads the 64 bytes that are borrowed, and they are aligned. Other threads may
        // be setting bits in them; as with relaxed loads, each bit is read as it is before or
        // after.
        unsafe {
            std::arch::asm!(
                "vmovdqa {low}, [{line}]",
                "vmovdqa {high}, [{line} + 32]",
                line = in(reg) self,
                low = out(ymm_reg) low,
                high = out(ymm_reg) high,
                options(readonly, nostack, preserves_flags),
            );
        }
        (low, high)
    }

    /// Sets the bits of `mask` in this word; true if one of them was clear.
    #[inline]
    pub fn set(&self, word: usize, mask: u64) -> bool {
        if self.contains(word, mask) {
            return false;
        }
        self.0[word].fetch_or(mask, Relaxed) & mask != mask
    }

    /// [`Line::set`] if no other thread reads or writes: no locked instruction.
    #[inline]
    pub fn set_alone(&mut self, word: usize, mask: u64) -> bool {
        let before = self.word(word);
        self.0[word] = AtomicU64::new(before | mask);
        before & mask != mask
    }

    /// The words as they are now.
    #[inline]
    pub fn load(&self) -> [u64; WORDS_A_LINE] {
        std::array::from_fn(|word| self.0[word].load(Relaxed))
    }
}
