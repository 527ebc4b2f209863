//! A filter of recently inserted keys: generations of equal size, of which the oldest is cleared
//! and becomes the newest.
//!
//! ```text
//! | gen 3: filling | gen 2 | gen 1 | gen 0: cleared next |     a key is in as long as its generation
//! ```
//!
//! Keys go to the newest generation, and a lookup probes all. A generation ends when it has taken
//! its keys ([`Turn::Count`]) or when its time is over ([`Turn::Period`]). So a key is never
//! answered absent **within the window**, which begins at its last insertion:
//!
//! | | kept at least for | forgotten at the latest after |
//! |---|---|---|
//! | by count, g generations of n | (g − 1) n newer insertions | g n newer distinct keys |
//! | by period T | (g − 1) T | g T |
//!
//! Outside of the window, an inserted key *is* answered absent. This is a filter for cache
//! admission and rate limits. It cannot replace a lookup, so it does not implement
//! [`super::Filter`]. All generations together keep the rate; by period, only as long as no
//! generation takes more keys than it was made for.

use super::merge::{same_imprint, same_shape};
use super::{Chain, Kind, Mismatch, Stage, StageError};
use crate::fault::fault;
use crate::hash::{Imprint, KeyHash};
use crate::math::{Bits, Items, Rate, growth, window};
use std::collections::VecDeque;
use std::time::Duration;

/// When the newest generation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// When it has as many keys as it was made for.
    Count,
    /// After this much time; the time is set by [`Sliding::advance`].
    Period(Duration),
}

/// The options of a [`Sliding`] filter.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlidingOptions {
    /// The layout of a generation.
    pub kind: Kind,
    /// The false-positive rate of all generations together.
    pub rate: Rate,
    /// Distinct keys per generation.
    pub items: Items,
    /// Number of generations. Fewer than 2 count as 2, since a single one would forget all keys at
    /// once.
    pub generations: u32,
    /// When a generation ends.
    pub turn: Turn,
}

/// A Bloom filter over a sliding window.
#[derive(Debug)]
pub struct Sliding {
    options: SlidingOptions,
    /// Oldest first; at least 2.
    generations: VecDeque<Stage>,
    /// When the newest generation ends, on the caller's clock.
    ends: Duration,
}

impl SlidingOptions {
    fn count(&self) -> u32 {
        self.generations.max(2)
    }

    fn generation(&self) -> Result<Stage, StageError> {
        let rate = window::share(self.rate, self.count());
        Stage::with_rate(self.kind, self.items, rate)
    }
}

impl Sliding {
    /// An empty window, which begins at time 0 of the caller's clock.
    ///
    /// # Errors
    /// If no geometry reaches the rate, or memory for all generations cannot be allocated.
    pub fn new(options: SlidingOptions) -> Result<Self, StageError> {
        let generations = (0..options.count()).map(|_| options.generation());
        let ends = match options.turn {
            Turn::Count => Duration::MAX,
            Turn::Period(period) => period,
        };
        Ok(Self {
            options,
            generations: generations.collect::<Result<_, _>>()?,
            ends,
        })
    }

    /// Restores a window from the stages of [`Sliding::to_chain`], oldest first. `imprint` is that
    /// of the hashes that will be used.
    ///
    /// If the chain has fewer generations than the options, the older ones are empty. If it has
    /// more, the oldest are dropped. Time restarts at 0.
    ///
    /// # Errors
    /// If the chain has another imprint, a stage has another shape than the options give, no
    /// geometry reaches the rate, or memory cannot be allocated.
    pub fn from_chain(
        options: SlidingOptions,
        chain: Chain,
        imprint: Imprint,
    ) -> Result<Self, Mismatch> {
        same_imprint(imprint, chain.imprint())?;
        let mut window = Self::new(options)?;
        let shape = window.newest().shape();
        for stage in chain.into_stages() {
            same_shape(shape, stage.shape())?;
            window.generations.pop_front();
            window.generations.push_back(stage);
        }
        Ok(window)
    }

    /// Adds a key to the newest generation; returns true if it was outside of the window.
    ///
    /// A key of an older generation is added too, so that its window begins again. A key that is
    /// already in the newest generation takes no room and does not end the generation.
    pub fn insert(&mut self, hash: KeyHash) -> bool {
        let absent = !self.is_recent(hash);
        if self.newest().may_contain(hash) {
            return absent;
        }
        let by_count = self.options.turn == Turn::Count;
        if by_count && self.newest().items() >= self.options.items {
            self.turn();
        }
        self.newest().insert(hash);
        absent
    }

    /// Whether the key may have been inserted within the window.
    pub fn is_recent(&self, hash: KeyHash) -> bool {
        // Newest first: recurring keys are most often in the newest generations.
        self.generations
            .iter()
            .rev()
            .any(|stage| stage.may_contain(hash))
    }

    /// Advances time to `now`, on a clock that begins with the filter, and ends generations whose
    /// time is over. Nothing happens without a [`Turn::Period`] or if `now` is in the past.
    pub fn advance(&mut self, now: Duration) {
        let Turn::Period(period) = self.options.turn else {
            return;
        };
        // After a long pause all generations are over; each is cleared only once.
        for _ in 0..self.generations.len() {
            if now < self.ends {
                return;
            }
            self.turn();
            self.ends = self.ends.saturating_add(period);
        }
        self.ends = self.ends.max(now.saturating_add(period));
    }

    /// Ends the newest generation, and forgets the oldest.
    pub fn turn(&mut self) {
        self.generations.rotate_left(1);
        fault!(NewestGenerationDropped, self.generations.rotate_right(1));
        if let Some(newest) = self.generations.back_mut() {
            newest.clear();
        }
    }

    fn newest(&self) -> &Stage {
        &self.generations[self.generations.len() - 1]
    }

    /// The generations, oldest first.
    pub fn generations(&self) -> impl ExactSizeIterator<Item = &Stage> {
        self.generations.iter()
    }

    /// A sealed copy, which answers *maybe* for all keys in the current window.
    ///
    /// # Errors
    /// If memory cannot be allocated.
    pub fn to_chain(&self, imprint: Imprint) -> Result<Chain, StageError> {
        let copies = self.generations.iter().map(Stage::try_clone);
        Ok(Chain::new(imprint, copies.collect::<Result<_, _>>()?))
    }

    /// The false-positive rate from the current generations, for keys outside of the window.
    pub fn predicted_rate(&self) -> f64 {
        growth::compound(self.generations.iter().map(Stage::predicted_rate))
    }

    /// The bits of all generations.
    pub fn size(&self) -> Bits {
        Bits::new(
            self.generations
                .iter()
                .map(|stage| stage.size().get())
                .sum(),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::naive::{hashes, imprint};

    const OPTIONS: SlidingOptions = SlidingOptions {
        kind: Kind::Blocked,
        rate: Rate::ONE_PERCENT,
        items: Items::new(1_000),
        generations: 4,
        turn: Turn::Count,
    };

    fn every_second() -> SlidingOptions {
        let turn = Turn::Period(Duration::from_secs(1));
        SlidingOptions { turn, ..OPTIONS }
    }

    #[test]
    fn a_key_is_recent_for_three_generations_and_gone_after_four() {
        let mut window = Sliding::new(OPTIONS).unwrap();
        let keys: Vec<_> = hashes(1).take(20_000).collect();
        for (i, &hash) in keys.iter().enumerate() {
            window.insert(hash);
            // A generation may end a little later, since keys that change no bit do not count.
            let kept = &keys[i.saturating_sub(2_999)..=i];
            assert!(i % 97 > 0 || kept.iter().all(|&hash| window.is_recent(hash)));
        }
        let old = keys[..15_000]
            .iter()
            .filter(|&&hash| window.is_recent(hash));
        let share = old.count() as f64 / 15_000.0;
        assert!(share < 0.0125, "{share} of what is long gone");
    }

    #[test]
    fn a_full_window_keeps_the_rate() {
        let mut window = Sliding::new(OPTIONS).unwrap();
        hashes(1)
            .take(50_000)
            .for_each(|hash| _ = window.insert(hash));
        assert!(window.predicted_rate() <= 0.01);
        let hits = hashes(2)
            .take(200_000)
            .filter(|&hash| window.is_recent(hash))
            .count();
        assert!(hits < 2_150, "{hits} of 200,000");
    }

    /// Regression: a key that a full generation already held ended the generation, so that two keys
    /// in turn pushed all others out of the window.
    #[test]
    fn repeated_keys_do_not_end_a_generation() {
        let mut window = Sliding::new(SlidingOptions {
            items: Items::new(2),
            ..OPTIONS
        })
        .unwrap();
        let keys: Vec<_> = hashes(1).take(3).collect();
        window.insert(keys[0]);
        for _ in 0..50 {
            window.insert(keys[1]);
            window.insert(keys[2]);
        }
        assert!(window.is_recent(keys[0]));
    }

    #[test]
    fn repeated_key_stays_recent() {
        let mut window = Sliding::new(OPTIONS).unwrap();
        let key = KeyHash::new(7 << 50);
        assert!(window.insert(key));
        for (i, hash) in hashes(1).take(20_000).enumerate() {
            window.insert(hash);
            if i % 500 == 0 {
                assert!(!window.insert(key), "forgotten after {i}");
            }
        }
    }

    #[test]
    fn time_ends_generations_one_by_one() {
        let mut window = Sliding::new(every_second()).unwrap();
        let key = KeyHash::new(7 << 50);
        window.insert(key);
        for tenth in 0..40 {
            window.advance(Duration::from_millis(100 * tenth));
            assert!(window.is_recent(key), "after {tenth} tenths");
        }
        window.advance(Duration::from_secs(4));
        assert!(!window.is_recent(key));
        window.insert(key);
        window.advance(Duration::from_secs(1));
        assert!(
            window.is_recent(key),
            "a clock that goes back takes nothing"
        );
        window.advance(Duration::from_secs(1_000_000));
        assert!(!window.is_recent(key));
        window.insert(key);
        window.advance(Duration::from_millis(1_000_000_500));
        assert!(
            window.is_recent(key),
            "a long pause leaves no debt of turns"
        );
    }

    #[test]
    fn window_from_chain_continues_like_the_original() {
        let mut window = Sliding::new(OPTIONS).unwrap();
        hashes(1)
            .take(5_500)
            .for_each(|hash| _ = window.insert(hash));
        let chain = window.to_chain(imprint(1)).unwrap();
        let mut again = Sliding::from_chain(OPTIONS, chain, imprint(1)).unwrap();
        for hash in hashes(1).skip(5_500).take(3_000) {
            assert_eq!(window.insert(hash), again.insert(hash));
        }
        let foreign = Chain::saturated(imprint(1));
        let foreign = Sliding::from_chain(OPTIONS, foreign, imprint(1)).unwrap_err();
        assert!(matches!(foreign, Mismatch::Probes { .. }), "{foreign}");
        let bits = |window: &Sliding| {
            let words = window
                .generations()
                .flat_map(|stage| stage.words().collect::<Vec<_>>());
            words.collect::<Vec<_>>()
        };
        assert_eq!(bits(&window), bits(&again));
    }

    /// With hashes of another seed, the window would deny keys that were just inserted.
    #[test]
    fn a_window_of_another_seed_is_refused() {
        let chain = Sliding::new(OPTIONS).unwrap().to_chain(imprint(1)).unwrap();
        let refused = Sliding::from_chain(OPTIONS, chain, imprint(2)).unwrap_err();
        assert!(matches!(refused, Mismatch::Seed { .. }), "{refused}");
    }
}
