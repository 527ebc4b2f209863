//! The changes that survive a power cut: every subset if they are few, a seeded choice if many.

/// Up to this many waiting changes, every subset is tried.
const EXHAUSTIVE_CHANGES: usize = 10;

/// For each disk to try, which of `changes` changes survive: all subsets if they are few, else
/// `samples` subsets.
pub(super) fn subsets(
    changes: usize,
    samples: usize,
    seed: u64,
) -> impl Iterator<Item = Vec<bool>> {
    let exhaustive = changes <= EXHAUSTIVE_CHANGES;
    let count = if exhaustive { 1 << changes } else { samples };
    let mut random = SplitMix(seed);
    (0..count).map(move |subset: usize| {
        if exhaustive {
            (0..changes)
                .map(|change| subset >> change & 1 == 1)
                .collect()
        } else {
            random.subset(changes)
        }
    })
}

/// SplitMix64 (Steele et al., OOPSLA 2014): good enough to choose subsets by a seed.
struct SplitMix(u64);

impl SplitMix {
    /// A random subset: about half of the changes, nearly all of them or nearly none. With a
    /// probability of one half each, a single one out of thousands would practically never be left
    /// out.
    fn subset(&mut self, changes: usize) -> Vec<bool> {
        let survives = match self.next() % 4 {
            0 => |word: u64| word.is_multiple_of(64),
            1 => |word: u64| !word.is_multiple_of(64),
            _ => |word: u64| word.is_multiple_of(2),
        };
        (0..changes).map(|_| survives(self.next())).collect()
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
