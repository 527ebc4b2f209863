//! Which changes survive a power cut: every subset of few, a seeded choice of many.

/// Up to this many waiting changes, every subset of them is tried.
const EXHAUSTIVE_CHANGES: usize = 10;
/// Beyond, so many random subsets.
pub(super) const RANDOM_SUBSETS: usize = 256;

/// Which of `changes` changes survive, for each disk to be tried.
pub(super) fn subsets(changes: usize, seed: u64) -> impl Iterator<Item = Vec<bool>> {
    let exhaustive = changes <= EXHAUSTIVE_CHANGES;
    let count = if exhaustive {
        1 << changes
    } else {
        RANDOM_SUBSETS
    };
    let mut random = SplitMix(seed);
    let mut survives = move |subset: usize, change| {
        if exhaustive {
            subset >> change & 1 == 1
        } else {
            random.next() & 1 == 1
        }
    };
    (0..count).map(move |subset| {
        (0..changes)
            .map(|change| survives(subset, change))
            .collect()
    })
}

/// SplitMix64 (Steele et al., OOPSLA 2014): enough to choose subsets by a seed.
struct SplitMix(u64);

impl SplitMix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
