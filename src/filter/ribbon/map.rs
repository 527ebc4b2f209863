//! A map: a static filter that tells of each key in which group of keys it is (a Bloomier filter, Chazelle
//! et al., SODA 2004, in the slots of a ribbon filter).
//!
//! ```text
//! hash    | what tells keys apart, 61 bits | group, 3 bits |        while the map is made
//! slot    | fingerprint | value, v bits | fingerprint |          v = 0 to 3
//! value   of a key in one group: that group; of one in several: the next number after the groups
//! ```
//!
//! A key that is in no group has a random value where the filter lets it by: the chance that it is taken
//! for one of a given group is 2^−r.

use super::solve::solved;
use super::{Ribbon, Slots};
use crate::bits::Words;
use crate::filter::{Kind, Stage};
use crate::hash::KeyHash;
use crate::math::Rate;
use crate::math::ribbon::{PARTS, slot_parts};
use crate::planted::planted;
use std::collections::TryReserveError;

/// Groups that a map can tell apart.
pub const GROUPS: usize = 8;

/// The bits of a hash that name a group.
const TAG: u64 = GROUPS as u64 - 1;

/// The bits of a slot that values take at most.
pub const MOST_VALUE_BITS: u32 = TAG.count_ones();

impl Slots {
    /// Of fingerprints and values; `None` where there is no room for both.
    pub(in crate::filter) fn of_map(parts: u32, value_bits: u32) -> Option<Self> {
        let fit = value_bits <= MOST_VALUE_BITS;
        fit.then(|| Self::of(parts, value_bits, told_by(Kind::Map)))
            .flatten()
    }
}

/// A key's hash, and the group that the key is in; of the hash, three bits are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Grouped(KeyHash);

impl Grouped {
    /// A key in the first group.
    pub fn new(hash: KeyHash) -> Self {
        Self(KeyHash::new(hash.get() & !TAG))
    }

    /// The same key in another group.
    ///
    /// # Panics
    /// When there is no such group: they are fewer than [`GROUPS`].
    #[must_use]
    pub fn in_group(self, group: usize) -> Self {
        assert!(group < GROUPS, "{group} is no group");
        Self(KeyHash::new((self.0.get() & !TAG) | group as u64))
    }

    fn group(self) -> usize {
        (self.0.get() & TAG) as usize
    }

    fn is_key_of(self, other: Self) -> bool {
        (self.0.get() ^ other.0.get()) <= TAG
    }
}

/// A set of the values that a map has for keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Values(u8);

impl Values {
    pub(super) const ANY: Self = Self(u8::MAX);

    /// Those whose bits are set.
    pub const fn from_bits(bits: u8) -> Self {
        Self(bits)
    }

    /// A bit for each.
    pub const fn bits(self) -> u8 {
        self.0
    }

    fn of(values: impl IntoIterator<Item = usize>) -> Self {
        Self(values.into_iter().fold(0, |bits, value| bits | 1 << value))
    }

    #[inline]
    pub(super) fn has(self, value: u32) -> bool {
        (self.0 >> value) & 1 == 1
    }
}

/// A map, and the values that keys of each group may have: what to ask it for the keys of one group.
#[derive(Debug)]
pub struct Mapped {
    /// The map, which answers *maybe* for a key of any group.
    pub stage: Stage,
    /// Of the first group, the second, ...
    pub values: [Values; GROUPS],
}

/// Which value stands for which group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coding {
    /// Values that stand for one group, or for the last two.
    several: usize,
    /// Whether the next value is that of keys in several groups.
    are_shared: bool,
}

impl Coding {
    /// Of so many groups, some of whose keys may be in several.
    pub(super) fn new(groups: usize, are_shared: bool) -> Self {
        // Where each number is that of a group, the last two groups get one.
        let several = groups.clamp(1, GROUPS - usize::from(are_shared));
        Self {
            several,
            are_shared,
        }
    }

    fn value_of(self, group: usize) -> usize {
        group.min(self.several - 1)
    }

    /// Keys in order, each once, its value in the place of its group; `keys` are in order too.
    pub(super) fn of(self, mut keys: Vec<Grouped>) -> Vec<KeyHash> {
        keys.iter_mut()
            .for_each(|key| *key = key.in_group(self.value_of(key.group())));
        keys.dedup_by(|key, kept| {
            let same = key.is_key_of(*kept);
            if same && key.group() != kept.group() && !planted!(OtherGroupsForgotten) {
                *kept = kept.in_group(self.several);
            }
            same
        });
        keys.into_iter().map(|key| key.0).collect()
    }

    /// The values that keys of each group may have.
    pub(super) fn values(self) -> [Values; GROUPS] {
        let shared = self.are_shared.then_some(self.several);
        std::array::from_fn(|group| Values::of([self.value_of(group)].into_iter().chain(shared)))
    }

    /// Slots of these values and of fingerprints at a rate; `None` where there are none.
    pub(super) fn slots(self, rate: Rate) -> Option<Slots> {
        let values = self.several + usize::from(self.are_shared);
        Slots::of_map(map_parts(rate)?, bits_of(values))
    }
}

/// Keys whose groups were told apart.
pub(in crate::filter) struct Coded {
    pub(in crate::filter) hashes: Vec<KeyHash>,
    pub(in crate::filter) values: [Values; GROUPS],
    coding: Coding,
}

impl Coded {
    pub(in crate::filter) fn new(mut keys: Vec<Grouped>) -> Self {
        keys.sort_unstable();
        let groups = keys.iter().map(|key| key.group() + 1).max().unwrap_or(1);
        let in_two = |pair: &[Grouped]| pair[0].is_key_of(pair[1]) && pair[0] != pair[1];
        let coding = Coding::new(groups, keys.windows(2).any(in_two));
        Self {
            hashes: coding.of(keys),
            values: coding.values(),
            coding,
        }
    }

    /// The map at a rate: its geometry and its words. `None` where there is none.
    pub(in crate::filter) fn solved(
        &self,
        rate: Rate,
    ) -> Result<Option<(Ribbon, Words)>, TryReserveError> {
        match self.coding.slots(rate) {
            Some(slots) => solved(&self.hashes, slots),
            None => Ok(None),
        }
    }
}

/// The parts of a bit in each slot of a map: of fingerprints at this rate, and of the values.
pub(in crate::filter) fn map_parts(rate: Rate) -> Option<u32> {
    Some(slot_parts(rate)? + MOST_VALUE_BITS * PARTS)
}

/// The bits that tell so many values apart.
fn bits_of(values: usize) -> u32 {
    values.next_power_of_two().ilog2()
}

/// The bits of a hash that tell a key from another in a layout.
pub(super) const fn told_by(kind: Kind) -> u64 {
    match kind {
        Kind::Map => !TAG,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::Shape;
    use crate::filter::naive::hashes;
    use crate::math::{Items, Probes};

    const RATE: f64 = 0.004;

    /// So many keys, one after another in each of so many groups.
    fn grouped(keys: usize, groups: usize) -> Vec<Grouped> {
        let keys = hashes(1).take(keys).enumerate();
        keys.map(|(i, hash)| Grouped::new(hash).in_group(i % groups))
            .collect()
    }

    fn mapped(keys: Vec<Grouped>) -> Mapped {
        Stage::mapped(keys, Rate::new(RATE).unwrap()).unwrap()
    }

    fn strangers(asked: usize, passes: impl Fn(KeyHash) -> bool) -> usize {
        hashes(2).take(asked).filter(|&hash| passes(hash)).count()
    }

    /// A key is in one group; each of the others takes it for one of its own at the rate of all cells.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn keys_are_found_in_their_groups_and_hardly_in_others() {
        for (keys, groups) in [
            (0, 1),
            (1, 1),
            (99, 3),
            (40_000, 1),
            (40_000, 8),
            (4_300_000, 5),
        ] {
            let Mapped { stage, values } = mapped(grouped(keys, groups));
            let mut elsewhere = 0;
            for (i, hash) in hashes(1).take(keys).enumerate() {
                assert!(stage.may_contain(hash), "key {i} of {keys}");
                let found = |group| stage.may_have_one(hash, values[group]);
                assert!(found(i % groups), "key {i} of {keys} in {groups}");
                let others = (0..groups).filter(|&group| group != i % groups);
                elsewhere += others.filter(|&group| found(group)).count();
            }
            assert_eq!(elsewhere, 0, "values are exact for keys that are in");
            assert_eq!(stage.items().get(), keys as u64);
            let rate = Rate::new(RATE).unwrap();
            assert_eq!(Stage::mapped_size(stage.items(), rate), Some(stage.size()));
            // Of 400,000 with all three bits 1,562, standard deviation 40; with fewer, half as many each.
            let bits = bits_of(groups.min(keys).max(1));
            let mean = 400_000.0 * stage.predicted_rate();
            assert!((mean - 1_562.5 / f64::from(8_u32 >> bits)).abs() < 1e-6);
            let passed = strangers(400_000, |hash| stage.may_contain(hash)) as f64;
            assert!(
                (passed - mean).abs() < 5.0 * mean.sqrt(),
                "{passed}: {mean}"
            );
            let passed = strangers(400_000, |hash| stage.may_have_one(hash, values[0])) as f64;
            let mean = 400_000.0 * stage.predicted_rate_of(values[0]);
            assert!(
                (passed - mean).abs() < 5.0 * mean.sqrt(),
                "{passed}: {mean}"
            );
        }
    }

    /// Where there are eight groups already, the last two have a number in common.
    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn a_key_of_several_groups_is_found_in_each() {
        for groups in 1..=GROUPS {
            let mut keys = grouped(800, groups);
            let twice = hashes(1).take(40).enumerate();
            keys.extend(twice.map(|(i, hash)| Grouped::new(hash).in_group(i / 7 % groups)));
            let Mapped { stage, values } = mapped(keys);
            assert_eq!(stage.items().get(), 800);
            for (i, hash) in hashes(1).take(800).enumerate() {
                let found = |group| stage.may_have_one(hash, values[group]);
                assert!(found(i % groups), "key {i} of {groups} groups");
                assert!(
                    i >= 40 || found(i / 7 % groups),
                    "key {i} of {groups} groups"
                );
            }
        }
    }

    #[test]
    fn a_map_that_is_given_a_key_answers_maybe_to_all() {
        let Mapped { stage, values } = mapped(grouped(100, 4));
        let key = hashes(2).find(|&hash| !stage.may_contain(hash)).unwrap();
        assert!(stage.insert(key) && stage.is_full());
        assert_eq!(
            strangers(500, |hash| stage.may_have_one(hash, values[3])),
            500
        );
        assert_eq!(stage.predicted_rate_of(values[3]), 1.0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "many keys, one thread")]
    fn a_map_read_back_has_the_same_values() {
        let Mapped { stage, values } = mapped(grouped(700, 6));
        let again = Stage::from_words(stage.shape(), stage.items(), stage.words());
        let again = again.unwrap();
        for hash in hashes(1).take(700).chain(hashes(2).take(5_000)) {
            let of = |stage: &Stage| values.map(|values| stage.may_have_one(hash, values));
            assert_eq!(of(&again), of(&stage));
        }
        let (part, bit) = (1, PARTS);
        for (probes, groups) in [
            (0, 0),
            (1, bit),
            (3, 3 * bit),
            (20, 4 * bit),
            (32, part),
            (33, 0),
        ] {
            let shape = Shape {
                probes: Probes::new(probes),
                groups,
                ..stage.shape()
            };
            assert!(Stage::new(shape).is_err(), "{probes} and {groups}");
        }
    }

    #[test]
    fn rates_that_no_slot_keeps_are_refused() {
        let map = |rate| Stage::mapped(Vec::new(), Rate::new(rate).unwrap());
        // 2^-29 lies between them.
        assert!(map(1.9e-9).is_ok() && map(1.8e-9).is_err());
    }

    /// Stored bits depend on every constant of this file. The sum is frozen: if it changes, files of
    /// earlier releases have become unreadable.
    #[test]
    fn bits_are_frozen() {
        let Mapped { stage, values } = mapped(grouped(1_000, 6));
        assert_eq!(stage.shape().kind, Kind::Map);
        assert_eq!(values[5].bits(), 1 << 5);
        assert_eq!(
            (stage.size().get(), stage.checksum(0)),
            (14_848, 939_869_247)
        );
        assert_eq!(stage.items(), Items::new(1_000));
    }
}
