//! An array of small numbers of one width, packed into words: counters or codes.
//!
//! ```text
//! width 4:   word 0 | n15 | ... | n1 | n0 |   word 1 | n31 | ... | n16 |        lowest bits first
//! width 24:  word 0 | - | n1 | n0 |           no number crosses a word; the rest stays zero
//! ```
//!
//! Not atomic: changing a number must leave its neighbours in the word alone, so only one writer is
//! supported.

use std::collections::TryReserveError;

/// Numbers below 2^width.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packed {
    words: Box<[u64]>,
    width: u32,
}

const WORD_BITS: u32 = u64::BITS;

impl Packed {
    /// Words that hold `count` numbers of `width` bits.
    pub fn words_for(count: u64, width: u32) -> u64 {
        count.div_ceil(u64::from(a_word(width)))
    }

    /// `words` words with these values (zeros follow if there are too few), or the allocator's
    /// error.
    ///
    /// # Panics
    /// If the width is not between 1 and 64.
    pub fn from_values(
        words: usize,
        width: u32,
        values: impl IntoIterator<Item = u64>,
    ) -> Result<Self, TryReserveError> {
        assert!(
            (1..=WORD_BITS).contains(&width),
            "no numbers of {width} bits"
        );
        let mut row = Vec::new();
        row.try_reserve_exact(words)?;
        row.extend(values.into_iter().take(words));
        row.resize(words, 0);
        let words = row.into_boxed_slice();
        Ok(Self { words, width })
    }

    /// The largest number that fits.
    pub fn max(&self) -> u64 {
        u64::MAX >> (WORD_BITS - self.width)
    }

    /// The number at `index`, which must be in bounds.
    #[inline]
    pub fn get(&self, index: u64) -> u64 {
        let (word, shift) = self.locate(index);
        self.words[word] >> shift & self.max()
    }

    /// Replaces the number at `index`, which must be in bounds.
    #[inline]
    pub fn set(&mut self, index: u64, number: u64) {
        debug_assert!(
            number <= self.max(),
            "{number} needs more than {} bits",
            self.width
        );
        let (word, shift) = self.locate(index);
        let others = self.words[word] & !(self.max() << shift);
        self.words[word] = others | number << shift;
    }

    /// The number of values.
    #[expect(
        clippy::len_without_is_empty,
        reason = "an array of no value is as good as any other"
    )]
    pub fn len(&self) -> u64 {
        self.words.len() as u64 * u64::from(a_word(self.width))
    }

    /// All numbers in order.
    pub fn iter(&self) -> impl Iterator<Item = u64> {
        (0..self.len()).map(|index| self.get(index))
    }

    /// The words.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Word and shift. An index in bounds lies in memory, so it fits a `usize`.
    #[inline]
    fn locate(&self, index: u64) -> (usize, u32) {
        let each = u64::from(a_word(self.width));
        ((index / each) as usize, (index % each) as u32 * self.width)
    }
}

/// Numbers in one word.
const fn a_word(width: u32) -> u32 {
    WORD_BITS / width
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_changes_one_value_only() {
        for width in [1, 4, 7, 8, 24, 32, 33, 64] {
            let mut row = Packed::from_values(5, width, []).unwrap();
            let number = |index: u64| index.wrapping_mul(0x9e37_79b9_7f4a_7c15) & row.max();
            let numbers: Vec<u64> = (0..row.len()).map(number).collect();
            for (index, &number) in numbers.iter().enumerate().rev() {
                row.set(index as u64, row.max());
                row.set(index as u64, number);
            }
            assert_eq!(row.iter().collect::<Vec<_>>(), numbers, "{width} bits");
            assert_eq!(Packed::words_for(row.len(), width), 5);
        }
    }

    #[test]
    fn allocation_beyond_memory_is_refused() {
        assert!(Packed::from_values(usize::MAX, 4, []).is_err());
    }
}
