//! The keys of lookups: ids drawn from a distribution, and the key bytes of ids.

use super::random::{Random, scramble};
use super::zipf::Zipf;

/// How ids are drawn, relative to the loaded ids 0..n.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// All loaded ids with equal probability.
    Uniform,
    /// Id k with probability proportional to (k + 1)^-exponent.
    Zipf {
        /// Above 0; YCSB uses 0.99.
        exponent: f64,
    },
    /// 0, 1, 2, ..., n − 1, and then from 0 again.
    Sequential,
    /// Ids in n..2n, which are not loaded.
    Absent,
}

impl Distribution {
    /// An endless stream of ids, determined by the seed.
    ///
    /// # Panics
    /// If `n` is 0 or above 2^63, or an exponent is not above 0.
    pub fn over(self, n: u64, seed: u64) -> Ids {
        assert!(
            (1..=1 << 63).contains(&n),
            "a universe has 1 to 2^63 ids, got {n}"
        );
        let source = match self {
            Self::Uniform => Source::Uniform { from: 0 },
            Self::Absent => Source::Uniform { from: n },
            Self::Zipf { exponent } => Source::Zipf(Zipf::new(n, exponent)),
            Self::Sequential => Source::Sequential { next: 0 },
        };
        Ids {
            source,
            n,
            random: Random::new(seed),
        }
    }
}

/// The endless stream of [`Distribution::over`].
#[derive(Clone, Debug)]
pub struct Ids {
    source: Source,
    n: u64,
    random: Random,
}

#[derive(Clone, Debug)]
enum Source {
    Uniform { from: u64 },
    Zipf(Zipf),
    Sequential { next: u64 },
}

impl Iterator for Ids {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        Some(match &mut self.source {
            Source::Uniform { from } => *from + self.random.below(self.n),
            Source::Zipf(zipf) => zipf.draw(&mut self.random),
            Source::Sequential { next } => {
                let id = *next;
                *next = (id + 1) % self.n;
                id
            }
        })
    }
}

/// The key of an id from a trace: eight big-endian bytes, so that keys sort like ids.
pub const fn trace_key(id: u64) -> [u8; 8] {
    id.to_be_bytes()
}

/// The 16-byte key of an id in a synthetic load. The keys of consecutive ids are far apart in the
/// sort order.
///
/// Distinct ids give distinct keys, so keys of ids that were not loaded are absent by construction.
/// They sort between the loaded ones.
pub const fn scattered_key(id: u64) -> [u8; 16] {
    let high = scramble(id);
    let low = scramble(!high);
    ((high as u128) << 64 | low as u128).to_be_bytes()
}

/// Ids from here on are never loaded.
const ABSENT: u64 = 1 << 40;

/// A key that no id below 2^40 has.
pub fn absent_key(random: &mut Random) -> [u8; 16] {
    scattered_key(ABSENT + random.below(ABSENT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn absent_ids_are_never_loaded_ones() {
        let loaded: HashSet<_> = (0..10_000).map(scattered_key).collect();
        assert_eq!(loaded.len(), 10_000);
        let mut absent = Distribution::Absent.over(10_000, 1).take(10_000);
        assert!(absent.all(|id| !loaded.contains(&scattered_key(id))));
    }

    #[test]
    fn loaded_distributions_stay_within_their_universe() {
        let skewed = Distribution::Zipf { exponent: 0.99 };
        for kind in [Distribution::Uniform, Distribution::Sequential, skewed] {
            let ids: Vec<u64> = kind.over(100, 3).take(20_000).collect();
            assert!(ids.iter().all(|&id| id < 100), "{kind:?}");
            let distinct: HashSet<_> = ids.iter().collect();
            assert_eq!(distinct.len(), 100, "{kind:?} reaches every id");
        }
    }

    #[test]
    fn same_seed_draws_the_same_stream() {
        let draw = |seed| {
            Distribution::Uniform
                .over(1 << 40, seed)
                .take(8)
                .collect::<Vec<_>>()
        };
        assert_eq!(draw(5), draw(5));
        assert_ne!(draw(5), draw(6));
    }

    #[test]
    fn trace_keys_sort_as_their_ids() {
        assert!(trace_key(255) < trace_key(256));
    }
}
