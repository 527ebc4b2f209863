//! SplitMix64: a small random number generator whose output never changes.
//!
//! Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. Its
//! finaliser is a bijection of 64-bit words, so distinct inputs give distinct outputs. Therefore
//! loaded and absent keys are disjoint, and no table of them is needed.

const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Maps a word to a pseudo-random one; distinct words to distinct words.
pub const fn scramble(word: u64) -> u64 {
    let z = word.wrapping_add(GAMMA);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Whether `word` belongs to a pseudo-random share of all words. The seed determines the share.
pub(crate) fn chosen(word: u64, seed: u64, share: f64) -> bool {
    unit(scramble(word ^ scramble(seed))) < share
}

/// A number in [0, 1) from the upper 53 bits of a word.
fn unit(word: u64) -> f64 {
    (word >> 11) as f64 / (1_u64 << 53) as f64
}

/// A stream of random numbers, determined by its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn word(&mut self) -> u64 {
        let word = scramble(self.0);
        self.0 = self.0.wrapping_add(GAMMA);
        word
    }

    /// A number in [0, 1).
    pub fn unit(&mut self) -> f64 {
        unit(self.word())
    }

    /// A number in 0..n, by Lemire's multiplication. Its bias of at most n / 2^64 does not matter
    /// here.
    ///
    /// # Panics
    /// If n is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "there is no number below 0");
        let product = u128::from(self.word()) * u128::from(n);
        u64::try_from(product >> 64).unwrap_or(n - 1)
    }

    /// An index into a list of this length.
    ///
    /// # Panics
    /// If the list is empty.
    pub fn index(&mut self, length: usize) -> usize {
        usize::try_from(self.below(length as u64)).unwrap_or(length - 1)
    }

    /// A random element of the list.
    ///
    /// # Panics
    /// If the list is empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.index(list.len())]
    }

    /// True with probability 1 / n.
    ///
    /// # Panics
    /// If n is 0.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of the published generator for seed 1234567; another stream is another workload.
    #[test]
    fn the_stream_is_frozen() {
        let mut random = Random::new(1_234_567);
        let words: Vec<u64> = (0..3).map(|_| random.word()).collect();
        assert_eq!(
            words,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn chosen_share_is_close_to_the_given_share() {
        let hits = (0..100_000).filter(|&id| chosen(id, 7, 0.25)).count();
        assert!((24_500..25_500).contains(&hits), "{hits}");
    }
}
