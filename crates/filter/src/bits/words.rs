//! A fixed number of 64-bit words whose bits are only ever set, aligned to cache lines.
//!
//! ```text
//! line 0                                   line 1
//! | w0 | w1 | w2 | w3 | w4 | w5 | w6 | w7 | w8 | ...        one line: 64 bytes, aligned
//! ```

use super::line::{Line, WORDS_A_LINE};
use super::pages::Lines;
use crate::sync::atomic::AtomicU64;
#[cfg(all(target_arch = "x86_64", not(interleave)))]
use std::arch::x86_64::__m256i;
use std::collections::TryReserveError;

const WORD_BITS: u64 = 64;

/// Words in lines. The last line may extend beyond the last word; that part stays zero.
pub struct Words {
    lines: Lines,
    len: usize,
}

impl Words {
    /// `len` words with these values (zeros follow if there are too few), or the allocator's error.
    pub fn from_values(
        len: usize,
        values: impl IntoIterator<Item = u64>,
    ) -> Result<Self, TryReserveError> {
        let mut values = values.into_iter().take(len).fuse();
        let mut next = || AtomicU64::new(values.next().unwrap_or(0));
        let line = || Line(std::array::from_fn(|_| next()));
        let lines = Lines::filled(len.div_ceil(WORDS_A_LINE), line)?;
        Ok(Self { lines, len })
    }

    /// Replaces the words from this line on. At least as many must be there.
    pub fn put(&mut self, first_line: u64, words: &[u64]) {
        let room = self.len - in_memory(first_line) * WORDS_A_LINE;
        assert!(words.len() <= room, "{} words for {room}", words.len());
        let lines = self.lines.iter_mut().skip(in_memory(first_line));
        let cells = lines.flat_map(|line| &mut line.0);
        cells
            .zip(words)
            .for_each(|(cell, &word)| *cell = AtomicU64::new(word));
    }

    /// One line of ones.
    pub fn full_line() -> Self {
        let full = std::array::from_fn(|_| AtomicU64::new(u64::MAX));
        Self {
            lines: Lines::one(Line(full)),
            len: WORDS_A_LINE,
        }
    }

    /// Clears every bit.
    pub fn clear(&mut self) {
        let cells = self.lines.iter_mut().flat_map(|line| &mut line.0);
        cells.for_each(|cell| *cell = AtomicU64::new(0));
    }

    /// The line at this index, which must be in bounds.
    #[inline]
    pub fn line(&self, index: u64) -> &Line {
        &self.lines[in_memory(index)]
    }

    /// [`Words::line`] for exclusive access.
    #[inline]
    pub fn line_mut(&mut self, index: u64) -> &mut Line {
        &mut self.lines[in_memory(index)]
    }

    /// The line at this index, if it is in bounds.
    #[inline]
    pub fn get(&self, index: u64) -> Option<&Line> {
        self.lines.get(usize::try_from(index).ok()?)
    }

    /// The byte at this index, which must be in bounds, as it is now.
    #[inline]
    #[cfg(all(target_arch = "x86_64", not(interleave), not(miri)))]
    pub fn byte(&self, index: u64) -> u64 {
        let index = in_memory(index);
        assert!(index < size_of_val(&*self.lines), "it lies inside");
        let byte: u64;
        #[expect(
            unsafe_code,
            reason = "no safe load of a part of a word that others may change"
        )]
        // SAFETY: the byte lies inside. As with relaxed loads, each bit is read as it is before or
        // after another thread sets it.
        unsafe {
            std::arch::asm!(
                "movzx {byte:e}, byte ptr [{lines} + {index}]",
                byte = out(reg) byte,
                lines = in(reg) self.lines.as_ptr(),
                index = in(reg) index,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        byte
    }

    /// The byte at this index, which must be in bounds, as it is now.
    #[cfg(not(all(target_arch = "x86_64", not(interleave), not(miri))))]
    pub fn byte(&self, index: u64) -> u64 {
        assert!(
            in_memory(index) < size_of_val(&*self.lines),
            "it lies inside"
        );
        (self.word(index / 8) >> (index % 8 * 8)) & 0xff
    }

    /// The eight words from `word` on, and the eight words from `word + further` on, as they are
    /// now; each eight as two vectors of four. `further` is at most 8. The line of the first word
    /// and the next two lines must be in bounds.
    #[cfg(all(target_arch = "x86_64", not(interleave)))]
    #[target_feature(enable = "avx")]
    #[inline]
    pub fn load_pair256(&self, word: u64, further: u32) -> [__m256i; 4] {
        let [first, next] = self.octet_starts(word, further);
        let (low, high, next_low, next_high);
        #[expect(
            unsafe_code,
            reason = "no safe load of a vector that others may change"
        )]
        // SAFETY: it reads up to 16 words, of which the last lies inside. As with relaxed loads,
        // each bit is read as it is before or after another thread sets it.
        unsafe {
            std::arch::asm!(
                "vmovdqu {low}, [{lines} + 8 * {first}]",
                "vmovdqu {high}, [{lines} + 8 * {first} + 32]",
                "vmovdqu {next_low}, [{lines} + 8 * {next}]",
                "vmovdqu {next_high}, [{lines} + 8 * {next} + 32]",
                lines = in(reg) self.lines.as_ptr(),
                first = in(reg) first,
                next = in(reg) next,
                low = out(ymm_reg) low,
                high = out(ymm_reg) high,
                next_low = out(ymm_reg) next_low,
                next_high = out(ymm_reg) next_high,
                options(pure, readonly, nostack, preserves_flags),
            );
        }
        [low, high, next_low, next_high]
    }

    /// The indexes at which the words of [`Words::load_pair256`] begin. Panics unless all of them
    /// are in bounds.
    #[cfg(all(target_arch = "x86_64", not(interleave)))]
    #[inline(always)]
    fn octet_starts(&self, word: u64, further: u32) -> [usize; 2] {
        let first = in_memory(word);
        assert!(
            first / WORDS_A_LINE + 2 < self.lines.len(),
            "they lie inside"
        );
        assert!(further as usize <= WORDS_A_LINE, "a line further at most");
        [first, first + further as usize]
    }

    /// The word at this index, which must be in bounds, as it is now.
    #[inline]
    pub fn word(&self, index: u64) -> u64 {
        let lines = WORDS_A_LINE as u64;
        self.line(index / lines).word((index % lines) as usize)
    }

    /// Sets the bits of `mask` in this word; true if one of them was clear.
    #[inline]
    pub fn set_word(&self, index: u64, mask: u64) -> bool {
        let lines = WORDS_A_LINE as u64;
        self.line(index / lines).set((index % lines) as usize, mask)
    }

    /// Whether the bit is set.
    #[inline]
    pub fn contains(&self, bit: u64) -> bool {
        let (line, word, mask) = locate(bit);
        self.line(line).contains(word, mask)
    }

    /// Sets the bit; true if it was clear.
    #[inline]
    pub fn set(&self, bit: u64) -> bool {
        let (line, word, mask) = locate(bit);
        self.line(line).set(word, mask)
    }

    /// Prefetches the line that holds this bit.
    #[inline]
    pub fn prefetch_bit(&self, bit: u64) {
        self.prefetch(locate(bit).0);
    }

    /// Prefetches this line.
    #[inline]
    pub fn prefetch(&self, line: u64) {
        prefetch(self.line(line));
    }

    /// The words, each read when the iterator reaches it.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = u64> {
        let word = |index: usize| self.lines[index / WORDS_A_LINE].word(index % WORDS_A_LINE);
        (0..self.len).map(word)
    }

    /// The lines.
    pub fn lines(&self) -> &[Line] {
        &self.lines
    }

    /// Sets every bit that is set in `other`, which has as many words.
    pub fn or_with(&self, other: &Self) {
        debug_assert_eq!(self.len, other.len, "shapes are compared before words");
        for (into, from) in self.lines.iter().zip(other.lines()) {
            for (word, mask) in from.load().into_iter().enumerate() {
                into.set(word, mask);
            }
        }
    }

    /// Extends `before`, the CRC-32 of other data, by the words, each read when its turn comes.
    pub fn checksum(&self, before: u32) -> u32 {
        // A length for which the checksum has a fast path.
        const LINES: usize = 64;
        let mut crc = crc32fast::Hasher::new_with_initial(before);
        let mut bytes = [[0; 8]; LINES * WORDS_A_LINE];
        for lines in self.lines.chunks(LINES) {
            let words = lines.iter().flat_map(Line::load);
            let filled = bytes.iter_mut().zip(words);
            let count = filled
                .map(|(bytes, word)| *bytes = word.to_le_bytes())
                .count();
            crc.update(bytes[..count].as_flattened());
        }
        crc.finalize()
    }

    /// Clears one bit that is set, as a memory fault would.
    #[cfg(any(test, feature = "laws"))]
    #[doc(hidden)]
    pub fn clear_one_bit(&self) {
        use crate::sync::atomic::Ordering::Relaxed;

        let mut cells = self.lines.iter().flat_map(|line| &line.0);
        let cell = cells.find(|cell| cell.load(Relaxed) != 0);
        let cell = cell.expect("some bit is set");
        let word = cell.load(Relaxed);
        cell.store(word & (word - 1), Relaxed);
    }

    /// The number of set bits.
    pub fn ones(&self) -> u64 {
        self.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// Line, word in the line and mask of a bit.
#[inline]
fn locate(bit: u64) -> (u64, usize, u64) {
    let word = bit / WORD_BITS;
    let lines = WORDS_A_LINE as u64;
    (
        word / lines,
        (word % lines) as usize,
        1 << (bit % WORD_BITS),
    )
}

/// Converts an index into existing memory, which therefore fits a `usize`.
#[inline]
fn in_memory(index: u64) -> usize {
    debug_assert!(
        usize::try_from(index).is_ok(),
        "{index} lies outside of memory"
    );
    index as usize
}

#[cfg(target_arch = "x86_64")]
#[inline]
#[expect(unsafe_code, reason = "the standard library has no safe prefetch")]
fn prefetch(line: &Line) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: SSE is part of x86_64, and a prefetch is a hint that cannot fault or write; the
    // reference keeps the address valid all the same.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(line).cast()) }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn prefetch(_line: &Line) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_returns_whether_the_bit_was_clear() {
        let words = Words::from_values(20, []).unwrap();
        for bit in [0, 63, 64, 511, 512, 1279] {
            words.prefetch_bit(bit);
            assert!(!words.contains(bit));
            assert!(words.set(bit), "clear before");
            assert!(!words.set(bit), "set before");
            assert!(words.contains(bit));
        }
        assert_eq!(words.ones(), 6);
    }

    fn three_lines() -> (Words, Vec<u64>) {
        let values: Vec<u64> = (1..=24_u64)
            .map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15))
            .collect();
        let words = Words::from_values(values.len(), values.iter().copied());
        (words.unwrap(), values)
    }

    #[test]
    fn byte_reads_the_words_in_little_endian() {
        let (words, values) = three_lines();
        let bytes = values.iter().flat_map(|word| word.to_le_bytes());
        for (index, byte) in (0..).zip(bytes) {
            assert_eq!(words.byte(index), u64::from(byte), "{index}");
        }
    }

    #[test]
    #[should_panic(expected = "lies inside")]
    fn byte_past_the_end_panics() {
        three_lines().0.byte(24 * 8);
    }

    #[cfg(all(target_arch = "x86_64", not(interleave), not(miri)))]
    mod vectors {
        use super::*;

        type Words16 = [u64; 16];

        #[expect(unsafe_code, reason = "no safe way from a vector to its words")]
        fn in_halves(words: &Words, word: u64, further: u32) -> Words16 {
            assert!(std::arch::is_x86_feature_detected!("avx"));
            // SAFETY: this processor can.
            let fours = unsafe { words.load_pair256(word, further) };
            // SAFETY: they are as many bytes, of which all values are valid.
            unsafe { std::mem::transmute::<[__m256i; 4], Words16>(fours) }
        }

        #[test]
        fn halves_are_read_at_any_offset() {
            if !std::arch::is_x86_feature_detected!("avx") {
                return eprintln!("skipped: this processor has no AVX");
            }
            let (words, values) = three_lines();
            for word in 0..8 {
                for further in 0..=8 {
                    let eight = |at: usize| values[at..at + 8].iter().copied();
                    let expected: Vec<u64> = eight(word).chain(eight(word + further)).collect();
                    let read = in_halves(&words, word as u64, further as u32);
                    assert_eq!(read[..], expected);
                }
            }
        }

        #[test]
        #[should_panic(expected = "they lie inside")]
        fn halves_past_the_end_panic() {
            in_halves(&three_lines().0, 8, 0);
        }

        #[test]
        #[should_panic(expected = "a line further at most")]
        fn halves_too_far_apart_panic() {
            in_halves(&three_lines().0, 0, 9);
        }
    }

    #[test]
    fn iter_returns_the_given_words() {
        for len in [0, 1, 7, 8, 9, 64] {
            let values: Vec<u64> = (1..=len).collect();
            let words = Words::from_values(values.len(), values.iter().copied()).unwrap();
            assert_eq!(words.iter().collect::<Vec<_>>(), values);
        }
    }

    #[test]
    fn checksum_is_crc32_of_bytes_and_detects_cleared_bit() {
        for len in [0, 8, 64, 800, 8_000] {
            let values: Vec<u64> = (1..=len).collect();
            let words = Words::from_values(values.len(), values.iter().copied()).unwrap();
            let bytes: Vec<u8> = values.iter().flat_map(|word| word.to_le_bytes()).collect();
            assert_eq!(words.checksum(0), crc32fast::hash(&bytes));
            assert_eq!(
                words.checksum(crc32fast::hash(b"x")),
                crc32fast::hash(&[b"x", &bytes[..]].concat())
            );
            if len > 0 {
                words.clear_one_bit();
                assert_ne!(words.checksum(0), crc32fast::hash(&bytes));
            }
        }
    }

    #[test]
    fn allocation_beyond_memory_is_refused() {
        assert!(Words::from_values(usize::MAX, []).is_err());
    }

    #[test]
    fn or_with_sets_bits_of_both() {
        let a = Words::from_values(3, [1, 2, 4]).unwrap();
        let b = Words::from_values(3, [8, 2, 1]).unwrap();
        a.or_with(&b);
        assert_eq!(a.iter().collect::<Vec<_>>(), [9, 2, 5]);
    }
}
