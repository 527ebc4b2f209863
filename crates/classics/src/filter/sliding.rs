//! A filter of what came lately: generations of equal size, the oldest of which is cleared for the
//! newest.
//!
//! ```text
//! | gen 3: filling | gen 2 | gen 1 | gen 0: next to go |      a key is in while its generation is
//! ```
//!
//! Keys go to the newest generation, and a look-up asks all. A generation ends when it has taken
//! its keys ([`Turn::Count`]) or when its time is over ([`Turn::Period`]). So a key is never
//! answered absent **within the window**, counted from its last insertion:
//!
//! | | kept at least while | forgotten at the latest after |
//! |---|---|---|
//! | by count, g generations of n | (g − 1) n newer insertions | g n newer distinct keys |
//! | by period T | (g − 1) T | g T |
//!
//! Outside of it a member *is* answered absent: this is a filter for admission and rate limits, and
//! does not stand in for a look-up, so [`super::Filter`] is not implemented. All generations
//! together keep the rate; by period, only while no generation takes more keys than it was made
//! for.

use super::merge::{same_imprint, same_shape};
use super::{Chain, Kind, Mismatch, Stage, StageError};
use crate::hash::{Imprint, KeyHash};
use crate::math::{Bits, Items, Rate, growth, window};
use crate::planted::planted;
use std::collections::VecDeque;
use std::time::Duration;

/// When the newest generation ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// When it has taken the keys that it was made for.
    Count,
    /// When this much time is over; told by [`Sliding::advance`].
    Period(Duration),
}

/// How a [`Sliding`] filter is made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SlidingOptions {
    /// The layout of a generation.
    pub kind: Kind,
    /// The rate that all generations together keep.
    pub rate: Rate,
    /// Distinct keys of one generation.
    pub items: Items,
    /// Generations; fewer than 2 count as 2, since one alone would forget all at once.
    pub generations: u32,
    /// When one ends.
    pub turn: Turn,
}

/// A Bloom filter over a moving window.
#[derive(Debug)]
pub struct Sliding {
    options: SlidingOptions,
    /// Oldest first; never fewer than 2.
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
    /// When no geometry keeps the rate, or memory does not suffice for all generations.
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

    /// A window read back: the stages of [`Sliding::to_chain`], oldest first. `imprint` is that of
    /// the hashes that will be asked for.
    ///
    /// Where there are fewer than the options say, older ones were empty; where there are more, the
    /// oldest are forgotten. Time goes on at 0.
    ///
    /// # Errors
    /// When the chain is of another imprint, a stage has not the shape that the options give, no
    /// geometry keeps the rate, or memory does not suffice.
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

    /// Adds a key to the newest generation; true when it was outside of the window.
    ///
    /// A key that an older generation holds is added all the same: its window begins anew. One that
    /// the newest holds takes no room, and so ends no generation.
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
        // The newest generations see most of what recurs.
        self.generations
            .iter()
            .rev()
            .any(|stage| stage.may_contain(hash))
    }

    /// Lets time go on to `now`, on a clock that begins with the filter: generations whose time is
    /// over end. Without a [`Turn::Period`], or when `now` lies in the past, nothing happens.
    pub fn advance(&mut self, now: Duration) {
        let Turn::Period(period) = self.options.turn else {
            return;
        };
        // After a long pause every generation is over, and is cleared once and not more often.
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
        if !planted!(NewestForgotten) {
            self.generations.rotate_left(1);
        }
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

    /// A sealed copy: *maybe* for all keys in the window as it stands.
    ///
    /// # Errors
    /// When memory does not suffice.
    pub fn to_chain(&self, imprint: Imprint) -> Result<Chain, StageError> {
        let copies = self.generations.iter().map(Stage::try_clone);
        Ok(Chain::new(imprint, copies.collect::<Result<_, _>>()?))
    }

    /// The chance that a key not in the window is taken for one that is, as the generations stand.
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
            // A generation may end a little late: keys that changed no bit do not count.
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

    /// A full generation used to be ended by a key that it held already, so that two keys in turn
    /// pushed all others out of the window.
    #[test]
    fn keys_that_come_again_and_again_push_no_other_out() {
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
    fn a_repeated_key_stays() {
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
    fn a_window_read_back_slides_on() {
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

    /// Asked for hashes of another seed, it would deny what came a moment ago.
    #[test]
    fn a_window_of_another_seed_is_refused() {
        let chain = Sliding::new(OPTIONS).unwrap().to_chain(imprint(1)).unwrap();
        let refused = Sliding::from_chain(OPTIONS, chain, imprint(2)).unwrap_err();
        assert!(matches!(refused, Mismatch::Seed { .. }), "{refused}");
    }
}
