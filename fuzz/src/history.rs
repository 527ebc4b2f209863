//! The life of a filter, step by step beside an exact table: keys are added and validly removed,
//! filters are merged, resized, stored and read back, and no member is ever denied.

use super::store;
use arbitrary::{Result, Unstructured};
use lsm_sieve_classics::filter::resize::{expand, fold};
use lsm_sieve_classics::filter::{
    Composite, CounterWidth, Counting, Full, Growing, Growth, HashCoding, Kind, Membership,
    MinimalIncrease, RecurringMinimum, RemoveError, Sliding, SlidingOptions, Spectral, Stage, Turn,
};
use lsm_sieve_filter::hash::KeyHash;
use lsm_sieve_filter::math::{Items, Rate};
use std::collections::{HashMap, HashSet, VecDeque};

/// Every step checks all keys, so a long life takes long and shows little that is new.
const BYTES_MAX: usize = 1_000;

/// Chooses a filter, and takes its steps from the rest of the input.
pub fn run(bytes: &[u8]) {
    _ = live(&mut Unstructured::new(&bytes[..bytes.len().min(BYTES_MAX)]));
}

fn live(input: &mut Unstructured<'_>) -> Result<()> {
    let items = Items::new(input.int_in_range(0..=200)?);
    let (rate, width) = (store::rate(input)?, width(input)?);
    match input.int_in_range(0..=8)? {
        0 | 1 => stages(items, rate, input),
        2 => counted(Counting::with_rate(items, rate).ok(), input),
        3 => counted(Spectral::with_rate(items, rate, width).ok(), input),
        4 => counted(RecurringMinimum::with_rate(items, rate, width).ok(), input),
        5 => minimal(MinimalIncrease::with_rate(items, rate, width).ok(), input),
        6 => growing(growth(items, rate, input)?, width, input),
        7 => sliding(items, rate, input),
        _ => coded(HashCoding::with_rate(items, rate).ok(), input)
            .and_then(|()| composite((items, rate), input)),
    }
}

fn width(input: &mut Unstructured<'_>) -> Result<CounterWidth> {
    let widths = [
        CounterWidth::Four,
        CounterWidth::Eight,
        CounterWidth::Sixteen,
        CounterWidth::ThirtyTwo,
    ];
    input.choose(&widths).copied()
}

// ------------------------------------------------------------------ stages

/// The layouts of a stage.
const LAYOUTS: [Kind; 4] = [
    Kind::Standard,
    Kind::Partitioned,
    Kind::Blocked,
    Kind::Classic,
];

fn reread(stage: &Stage) -> Stage {
    let words: Vec<u64> = stage.words().collect();
    Stage::from_words(stage.shape(), stage.items(), words).expect(SAME)
}

/// Several stages and their keys, merged and resized in every way that the shapes allow.
fn stages(items: Items, rate: Rate, input: &mut Unstructured<'_>) -> Result<()> {
    let kind = *input.choose(&LAYOUTS)?;
    let Ok(first) = Stage::with_rate(kind, items, rate) else {
        return Ok(());
    };
    let mut all = vec![(first, HashSet::new())];
    while !input.is_empty() {
        let (one, other) = (
            input.choose_index(all.len())?,
            input.choose_index(all.len())?,
        );
        let (stage, keys) = &all[one];
        let (second, others) = &all[other];
        let made = match input.int_in_range(0..=15)? {
            0 => fold(stage).ok().map(|folded| (folded, keys.clone())),
            1 => expand(stage).ok().map(|wider| (wider, keys.clone())),
            2 => Some((reread(stage), keys.clone())),
            3 => Stage::new(stage.shape())
                .ok()
                .map(|empty| (empty, HashSet::new())),
            4 => stage.and(second).ok().map(|both| (both, keys & others)),
            5 => {
                let merged = stage.or_with(second).map(|()| keys | others);
                merged.into_iter().for_each(|union| all[one].1 = union);
                None
            }
            _ => {
                let key = store::key(input)?;
                stage.insert(key);
                all[one].1.insert(key);
                None
            }
        };
        // Few at a time, and of few bits: an expanded one may be expanded again.
        let fits = |(stage, _): &(Stage, _)| stage.size().get() < 1 << 16;
        all.extend(made.filter(fits));
        if all.len() > 4 {
            all.remove(0);
        }
        for (stage, keys) in &all {
            assert!(
                keys.iter().all(|&key| stage.may_contain(key)),
                "{:?}",
                stage.shape()
            );
        }
    }
    Ok(())
}

// ------------------------------------------------------------------ counters

/// A filter that counts how often a key was inserted, never too low, and supports removal.
trait Counts: Sized {
    fn insert(&mut self, key: KeyHash);
    /// Removes an insertion. Returns false if it cannot tell where it went.
    fn remove(&mut self, key: KeyHash) -> bool;
    /// An upper bound on how often the key was inserted.
    fn at_most(&self, key: KeyHash) -> u64;
    /// The same filter, from its words.
    fn reread(&self) -> Self;
    /// Adds all insertions of a copy of itself.
    fn doubled(&mut self) -> bool;
}

const MEMBER: &str = "a member can be removed";
const SAME: &str = "a filter that was written can be read";

impl Counts for Counting {
    fn insert(&mut self, key: KeyHash) {
        Counting::insert(self, key);
    }

    fn remove(&mut self, key: KeyHash) -> bool {
        Counting::remove(self, key).expect(MEMBER);
        true
    }

    fn at_most(&self, key: KeyHash) -> u64 {
        if self.may_contain(key) { u64::MAX } else { 0 }
    }

    fn reread(&self) -> Self {
        Counting::from_words(self.shape(), self.items(), self.words().to_vec()).expect(SAME)
    }

    fn doubled(&mut self) -> bool {
        self.add(&self.reread()).is_ok()
    }
}

impl Counts for Spectral {
    fn insert(&mut self, key: KeyHash) {
        Spectral::insert(self, key);
    }

    fn remove(&mut self, key: KeyHash) -> bool {
        Spectral::remove(self, key).expect(MEMBER);
        true
    }

    fn at_most(&self, key: KeyHash) -> u64 {
        self.count(key).unwrap_or(u64::MAX)
    }

    fn reread(&self) -> Self {
        Spectral::from_words(self.shape(), self.items(), self.words().to_vec()).expect(SAME)
    }

    fn doubled(&mut self) -> bool {
        self.add(&self.reread()).is_ok()
    }
}

impl Counts for RecurringMinimum {
    fn insert(&mut self, key: KeyHash) {
        RecurringMinimum::insert(self, key);
    }

    fn remove(&mut self, key: KeyHash) -> bool {
        RecurringMinimum::remove(self, key).expect(MEMBER);
        true
    }

    fn at_most(&self, key: KeyHash) -> u64 {
        RecurringMinimum::at_most(self, key).unwrap_or(u64::MAX)
    }

    fn reread(&self) -> Self {
        Self::from_parts(self.primary().reread(), self.secondary().reread())
    }

    fn doubled(&mut self) -> bool {
        self.add(&self.reread()).is_ok()
    }
}

impl Counts for Growing<Counting> {
    fn insert(&mut self, key: KeyHash) {
        Growing::insert(self, key);
    }

    fn remove(&mut self, key: KeyHash) -> bool {
        known_place(Growing::<Counting>::remove(self, key))
    }

    fn at_most(&self, key: KeyHash) -> u64 {
        if self.may_contain(key) { u64::MAX } else { 0 }
    }

    fn reread(&self) -> Self {
        self.clone()
    }

    fn doubled(&mut self) -> bool {
        false
    }
}

impl Counts for Growing<Spectral> {
    fn insert(&mut self, key: KeyHash) {
        Growing::insert(self, key);
    }

    fn remove(&mut self, key: KeyHash) -> bool {
        known_place(Growing::<Spectral>::remove(self, key))
    }

    fn at_most(&self, key: KeyHash) -> u64 {
        self.count(key).unwrap_or(u64::MAX)
    }

    fn reread(&self) -> Self {
        self.clone()
    }

    fn doubled(&mut self) -> bool {
        false
    }
}

fn known_place(removed: std::result::Result<(), RemoveError>) -> bool {
    match removed {
        Ok(()) => true,
        Err(RemoveError::Ambiguous { .. }) => false,
        Err(RemoveError::NotInserted(_)) => panic!("{MEMBER}"),
    }
}

fn counted<F: Counts>(filter: Option<F>, input: &mut Unstructured<'_>) -> Result<()> {
    let Some(mut filter) = filter else {
        return Ok(());
    };
    let mut truth = HashMap::<KeyHash, u64>::new();
    while !input.is_empty() {
        let step = input.int_in_range(0..=15)?;
        let key = store::key(input)?;
        match step {
            0 => filter = filter.reread(),
            1 if truth.values().all(|&held| held < 1 << 20) && filter.doubled() => {
                truth.values_mut().for_each(|held| *held *= 2);
            }
            2..=7 => {
                let held = truth.entry(key).or_default();
                if *held > 0 && filter.remove(key) {
                    *held -= 1;
                }
            }
            _ => {
                filter.insert(key);
                *truth.entry(key).or_default() += 1;
            }
        }
        for (&key, &held) in &truth {
            let most = filter.at_most(key);
            assert!(
                most >= held,
                "at most {most} of what was inserted {held} times"
            );
        }
    }
    Ok(())
}

/// Counters that are raised only if they are the least: nothing can be removed.
fn minimal(filter: Option<MinimalIncrease>, input: &mut Unstructured<'_>) -> Result<()> {
    let Some(mut filter) = filter else {
        return Ok(());
    };
    let mut truth = HashMap::<KeyHash, u64>::new();
    while !input.is_empty() {
        let key = store::key(input)?;
        filter.insert(key);
        *truth.entry(key).or_default() += 1;
        let again =
            MinimalIncrease::from_words(filter.shape(), filter.items(), filter.words().to_vec());
        assert_eq!(again.as_ref(), Ok(&filter), "{SAME}");
        for (&key, &held) in &truth {
            assert!(filter.count(key).is_none_or(|most| most >= held));
        }
    }
    Ok(())
}

fn growth(first: Items, rate: Rate, input: &mut Unstructured<'_>) -> Result<Growth> {
    let factor = input.int_in_range(0..=5)?;
    let tightening = store::tightening(input)?;
    Ok(Growth {
        rate,
        first,
        factor,
        tightening,
    })
}

fn growing(growth: Growth, width: CounterWidth, input: &mut Unstructured<'_>) -> Result<()> {
    if input.arbitrary()? {
        counted(Growing::counting(growth).ok(), input)
    } else {
        counted(Growing::<Spectral>::spectral(growth, width).ok(), input)
    }
}

// ------------------------------------------------------------------ the exceptions

/// A key is recent until (g - 1) n newer ones were added, here by count.
fn sliding(items: Items, rate: Rate, input: &mut Unstructured<'_>) -> Result<()> {
    let options = SlidingOptions {
        kind: *input.choose(&LAYOUTS)?,
        rate,
        items,
        generations: input.int_in_range(0..=5)?,
        turn: Turn::Count,
    };
    let Ok(mut window) = Sliding::new(options) else {
        return Ok(());
    };
    let least = u64::from(options.generations.max(2) - 1) * items.get();
    let mut newest = VecDeque::new();
    while !input.is_empty() {
        if input.int_in_range(0..=15)? == 0 {
            let imprint = store::imprint();
            let chain = window.to_chain(imprint).expect("memory for a copy");
            window = Sliding::from_chain(options, chain, imprint).expect(SAME);
        }
        let key = store::key(input)?;
        window.insert(key);
        newest.push_front(key);
        newest.truncate(usize::try_from(least).unwrap_or(usize::MAX).max(1));
        assert!(
            newest.iter().all(|&key| window.is_recent(key)),
            "{options:?}"
        );
    }
    Ok(())
}

/// Bloom's hash-coded table takes keys until one cell is left.
fn coded(table: Option<HashCoding>, input: &mut Unstructured<'_>) -> Result<()> {
    let Some(mut table) = table else {
        return Ok(());
    };
    let mut keys = HashSet::new();
    while input.len() > 16 {
        let key = store::key(input)?;
        match table.insert(key) {
            Ok(_) => _ = keys.insert(key),
            Err(Full { cells }) => assert!(table.items().get() + 1 == cells),
        }
        let again = HashCoding::from_words(table.shape(), table.words().to_vec());
        assert_eq!(again.as_ref(), Ok(&table), "{SAME}");
        assert!(keys.iter().all(|&key| table.may_contain(key)));
    }
    Ok(())
}

/// A composite filter may deny a member, but never says that a member was never added.
fn composite(sized: (Items, Rate), input: &mut Unstructured<'_>) -> Result<()> {
    let kind = *input.choose(&LAYOUTS)?;
    let Ok(set) = Composite::with_rates(kind, sized, sized) else {
        return Ok(());
    };
    let (mut added, mut removed) = (HashSet::new(), HashSet::new());
    while !input.is_empty() {
        let key = store::key(input)?;
        if input.arbitrary()? {
            set.remove(key);
            removed.insert(key);
        } else if set.insert(key).is_ok() {
            assert!(!removed.contains(&key), "a removed key cannot come back");
            added.insert(key);
        }
        for &key in &added {
            let membership = set.membership(key);
            assert_ne!(membership, Membership::NeverIn);
            assert!(!removed.contains(&key) || membership == Membership::ProbablyOut);
        }
    }
    Ok(())
}
