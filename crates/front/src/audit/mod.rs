//! Audits: a sample of the negatives is read from the engine all the same.
//!
//! A false negative is silent, because no read follows it. So a sample of the keys that the filters
//! deny is read from the engine, for as long as the database runs. RocksDB's point lookup would
//! trust the segment filters, which may have had a part in the denial. An iterator uses none, so
//! audits use one. Unless the user set the sampling rate, audits are throttled (`throttle`): a loop
//! of misses would sample more than are worth their time.
//!
//! *No false alarm.* A key may be written between the denial and the audit's read. It is then in
//! the filters before the engine shows it, and bits are never cleared. So if the view that was
//! published before the read is still published after it, and denies the key that the read found,
//! the view is wrong. If another view was published meanwhile, the audit does not judge the
//! filters.
//!
//! *No changed answer.* If an audit cannot read, the negative stands. If it finds a key that the
//! filters denied, the caller reads the engine. The engine's answer is right either way.
//!
//! *Not found by audits*: a key that exists only for an old snapshot; and a key that RocksDB misses
//! because of a wrong segment filter although the filters here said *maybe*. A full `verify` finds
//! the latter.

use std::ops::Range;

mod throttle;
pub(crate) mod trust;

pub use self::throttle::Throttle;
pub use self::trust::FalseNegative;
pub use self::trust::{Distrust, Trust};

/// Samples one negative in `n`. Uses a Weyl sequence, so that periodic workloads are sampled evenly.
///
/// The draw is `n φ` (mod 2^64), where n is the [ordinal](crate::stats::Counters::add) of the
/// negative in its thread's slot. Every k-th member of this sequence is such a sequence again, and
/// fills the circle evenly: so each of several keys that take turns is sampled in its share.
/// Ordinals start at random, so that a process that ends soon samples its share as well. The
/// ordinal is at hand in a lookup; the draw costs four instructions.
#[derive(Clone, Copy, Debug)]
pub struct Sampler {
    /// The least draw that is audited.
    least: u64,
}

/// One negative in this many is audited. An audit is a read of the engine that misses. It takes
/// seven microseconds, because the engine's code and blocks are usually not in the processor's
/// caches: the filters answer most misses. Spread over 8,192 negatives that is 0.9 ns each.
const AUDITED: u32 = 8_192;

/// 2^64 divided by the golden ratio, and odd.
const PHI: u64 = 0x9e37_79b9_7f4a_7c15;

impl Sampler {
    /// Samples one in `one_in` if that is set, else as many as by default.
    pub fn configured(one_in: Option<u32>) -> Self {
        Self::one_in(one_in.unwrap_or(AUDITED))
    }

    /// Samples one in `of`; none if `of` is 0.
    pub(crate) const fn one_in(of: u32) -> Self {
        // With 0, one of all 2^64 draws is still audited.
        let audits_less_one = match of {
            0 => 0,
            of => u64::MAX / of as u64,
        };
        Self {
            least: u64::MAX - audits_less_one,
        }
    }

    /// Whether to audit the negative with this ordinal.
    #[inline]
    pub fn is_sampled(self, ordinal: u64) -> bool {
        sampled(ordinal) >= self.least
    }

    /// Which of `times` negatives to audit, the first of which has this ordinal. Usually at most
    /// one, so that a batch costs one draw. All, if more than one would be due.
    pub(crate) fn among(self, ordinal: u64, times: usize) -> Range<usize> {
        let audits_less_one = u128::from(u64::MAX - self.least);
        if audits_less_one * times as u128 > u128::from(u64::MAX) {
            return 0..times;
        }
        let at = u128::from(u64::MAX - sampled(ordinal)) / (audits_less_one + 1);
        if at >= times as u128 {
            return 0..0;
        }
        at as usize..at as usize + 1
    }
}

#[inline]
fn sampled(ordinal: u64) -> u64 {
    ordinal.wrapping_mul(PHI)
}

#[cfg(test)]
#[cfg(not(interleave))]
mod tests {
    use super::*;

    fn audits(sample: Sampler, ordinals: impl Iterator<Item = u64>) -> usize {
        ordinals
            .filter(|&ordinal| sample.is_sampled(ordinal))
            .count()
    }

    #[test]
    fn sampler_of_zero_draws_none_and_of_one_draws_all() {
        for first in [0, u64::from(u32::MAX) - 5_000, u64::MAX - 5_000] {
            let ordinals = || (0..10_000).map(|n| first.wrapping_add(n));
            assert_eq!(audits(Sampler::one_in(0), ordinals()), 0);
            assert_eq!(audits(Sampler::one_in(1), ordinals()), 10_000);
        }
    }

    #[test]
    fn batch_draw_samples_each_position_at_the_set_rate() {
        let (of, rounds) = (1_000, 100_000_u64);
        for batch in [|_| 64, |round| 1 + round % 64] {
            let mut ordinal = 0;
            let (mut asked, mut sampled) = ([0_u64; 64], [0_u64; 64]);
            for times in (0..rounds).map(batch) {
                asked[..times as usize].iter_mut().for_each(|n| *n += 1);
                for at in Sampler::one_in(of).among(ordinal, times as usize) {
                    sampled[at] += 1;
                }
                ordinal += times;
            }
            for (asked, sampled) in asked.into_iter().zip(sampled).filter(|(n, _)| *n > 20_000) {
                let share = asked / u64::from(of);
                assert!(
                    (share / 2..=share * 2).contains(&sampled),
                    "{sampled} of {asked}"
                );
            }
        }
        for of in [1, 64, 1_000, 8_192] {
            let all = of as usize;
            assert_eq!(Sampler::one_in(of).among(5, all + 1), 0..all + 1);
            let sampled = |ordinal| Sampler::one_in(of).among(ordinal, all).len();
            assert!((0..1_000).all(|ordinal| sampled(ordinal) == 1), "1 in {of}");
        }
        assert_eq!(Sampler::one_in(1).among(5, 64), 0..64);
        assert_eq!(Sampler::one_in(0).among(0, 64), 0..0);
    }

    /// Otherwise keys whose turns are in step with the sampler would never be audited.
    #[test]
    fn keys_that_take_turns_are_each_sampled_at_the_set_rate() {
        for of in [2_u32, 16, 1_000, 1_024, 8_192] {
            for turns in [1_u64, 2, 3, 8, 1_000, 1_024, 1 << 20] {
                for turn in [0, turns / 2, turns - 1] {
                    let ordinals = (0..u64::from(of) * 100).map(|round| turn + round * turns);
                    let sampled = audits(Sampler::one_in(of), ordinals);
                    assert!(
                        (60..=140).contains(&sampled),
                        "{sampled} of 100: 1 in {of}, {turns} keys"
                    );
                }
            }
        }
    }
}
