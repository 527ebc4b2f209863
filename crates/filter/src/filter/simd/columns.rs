//! The sums of the columns of a ribbon filter in the window of a key.

#[cfg(all(target_arch = "x86_64", not(interleave)))]
pub(super) mod avx2;

use crate::bits::Words;

/// The window of a key in one plane.
#[derive(Clone, Copy, Debug)]
pub struct Pane {
    /// The first word of its first block; the words of the next block follow.
    pub(in crate::filter) word: u64,
    pub(in crate::filter) columns: u32,
    pub(in crate::filter) mask: u64,
    pub(in crate::filter) next_mask: u64,
}

/// The sums of the columns of a pane, from the low bit on.
#[inline]
pub(super) fn sum_of_columns(words: &Words, pane: Pane) -> u64 {
    let mut sums = 0;
    for column in 0..pane.columns {
        let word = pane.word + u64::from(column);
        let next_word = word + u64::from(pane.columns);
        let both = (words.word(word) & pane.mask) ^ (words.word(next_word) & pane.next_mask);
        sums |= (u64::from(both.count_ones()) & 1) << column;
    }
    sums
}
