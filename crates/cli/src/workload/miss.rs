//! The latency of lookups with and without the filters, on two stores with the same keys in turn.
//!
//! A processor's clock frequency, its caches and other processes change within seconds. Figures of
//! two runs at different times would compare these conditions and not the stores. So both stores
//! are open at the same time. Every round looks up the same keys in both of them, in alternating
//! order, and the result is the median over the rounds. Keys are generated before the clock starts,
//! and a part of them is looked up before it, so that each store is timed with warm caches, as if
//! it ran alone.

use std::hint::black_box;
use std::time::{Duration, Instant};

use super::Watch;
use super::keys::{Distribution, scattered_key};
use super::random::Random;
use super::replay::{Counts, ReplayError};
use super::store::{Space, Store, VALUE, WithFilters};

/// Keys of one chunk of a load, which is written to one store and then to the other.
const CHUNK_KEYS: u64 = 10_000;
/// Keys per batched read.
pub const BATCH_KEYS: usize = 64;
/// One in `WARMING` lookups of a round is made before the clock starts.
const WARMING: usize = 2;

type Key = [u8; 16];

/// How many keys are loaded and looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Distinct keys to load, in random order.
    pub keys: u64,
    /// Explicit flushes, evenly spread over the load; with 0, the engine flushes when it likes.
    pub runs: u64,
    /// Rounds of lookups.
    pub rounds: usize,
    /// Lookups per kind, store and round.
    pub lookups: usize,
    /// Determines the keys of the lookups.
    pub seed: u64,
}

/// One figure per store.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Pair {
    /// The engine alone.
    pub native: f64,
    /// With the filters.
    pub sieve: f64,
}

impl Pair {
    /// How many times faster than the engine alone: native over sieve.
    pub fn speedup(self) -> f64 {
        self.native / self.sieve
    }

    /// How many times slower than the engine alone: sieve over native.
    pub fn slowdown(self) -> f64 {
        self.sieve / self.native
    }
}

/// Loads both stores with the same keys and flushes at the same points.
///
/// Returns the microseconds per key, including flushes.
///
/// # Errors
/// [`ReplayError`] if a store fails or the watch stops the load.
pub fn fill<E, N, S>(
    plan: &Plan,
    native: &mut N,
    sieve: &mut S,
    watch: &mut impl Watch,
) -> Result<Pair, ReplayError<E>>
where
    E: std::error::Error + 'static,
    N: Store<Error = E>,
    S: Store<Error = E>,
{
    let mut spent = [Duration::ZERO; 2];
    for (turn, (from, to, flush)) in (0_u64..).zip(stretches(plan)) {
        let keys: Vec<Key> = (from..to).map(scattered_key).collect();
        for side in [turn % 2, (turn + 1) % 2] {
            if side == 0 {
                spent[0] += load(&keys, flush, native).map_err(ReplayError::Store)?;
            } else {
                spent[1] += load(&keys, flush, sieve).map_err(ReplayError::Store)?;
            }
        }
        watch.advance(to - from)?;
    }
    let [native, sieve] = spent.map(|time| time.as_secs_f64() * 1e6 / plan.keys as f64);
    Ok(Pair { native, sieve })
}

/// The load in chunks `(from, to, whether to flush after it)`. All runs have the same number of
/// keys, as far as the keys divide evenly.
fn stretches(plan: &Plan) -> impl Iterator<Item = (u64, u64, bool)> {
    let keys = plan.keys;
    let run_keys = if plan.runs == 0 {
        keys
    } else {
        keys.div_ceil(plan.runs)
    };
    let flushes = plan.runs > 0;
    let mut from = 0;
    std::iter::from_fn(move || {
        if from == keys {
            return None;
        }
        let run_end = (from / run_keys + 1).saturating_mul(run_keys).min(keys);
        let to = (from + CHUNK_KEYS).min(run_end);
        let stretch = (from, to, flushes && to == run_end);
        from = to;
        Some(stretch)
    })
}

fn load<S: Store>(keys: &[Key], flush: bool, store: &mut S) -> Result<Duration, S::Error> {
    let start = Instant::now();
    for key in keys {
        store.write(Space::Default, key, &VALUE)?;
    }
    if flush {
        store.flush()?;
    }
    Ok(start.elapsed())
}

/// The cost per key if a share of the keys is absent. Times are medians over the rounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Mix {
    /// The share, from 0 to 1. Each key is absent with this probability, independent of the others.
    pub absent: f64,
    /// Nanoseconds per key, looked up one at a time.
    pub one_ns: Pair,
    /// Nanoseconds per key, looked up in batches of [`BATCH_KEYS`].
    pub many_ns: Pair,
    /// Mean number of blocks read from disk per key, looked up one at a time, if the stores count
    /// them.
    pub one_blocks: Pair,
    /// The same per key of a batch.
    pub many_blocks: Pair,
}

/// The times of lookups, and the answers of the filters.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Lookups of absent keys only.
    pub miss: Mix,
    /// Lookups of loaded keys only.
    pub hit: Mix,
    /// Lookups of both: one entry per requested share, in their order.
    pub mixes: Vec<Mix>,
    /// The filters' answers for absent and for loaded keys.
    pub counts: Counts,
}

/// Looks up absent keys, loaded keys, and mixes with these shares of absent keys, in both loaded
/// stores.
///
/// # Errors
/// [`ReplayError`] if a store fails or the watch stops the rounds.
///
/// # Panics
/// If the plan has no round.
pub fn measure<E, N, S>(
    plan: &Plan,
    shares: &[f64],
    native: &N,
    sieve: &S,
    watch: &mut impl Watch,
) -> Result<Figures, ReplayError<E>>
where
    E: std::error::Error + 'static,
    N: Store<Error = E>,
    S: WithFilters<Error = E>,
{
    assert!(plan.rounds > 0, "a median needs a round");
    let mut random = Random::new(plan.seed);
    let mut counts = Counts::default();
    let (mut miss, mut hit) = (Rounds::of(1.0), Rounds::of(0.0));
    let mut mixes: Vec<Rounds> = shares.iter().copied().map(Rounds::of).collect();
    // The first round fills the block cache; its times are not used.
    for round in 0..=plan.rounds {
        for rounds in [&mut miss, &mut hit].into_iter().chain(&mut mixes) {
            // Each kind draws its own keys: otherwise the second kind would find its blocks cached.
            let mut measure = |kind: Kind| {
                let drawn = Draw::new(plan, rounds.absent, random.word());
                let keys = &drawn.keys;
                let both = pair(
                    round,
                    || kind.measure(native, keys),
                    || kind.measure(sieve, keys),
                );
                both.map(|both| (drawn, both)).map_err(ReplayError::Store)
            };
            let [(drawn, one), (drawn_together, many)] =
                [measure(Kind::One)?, measure(Kind::Many)?];
            if round == 0 {
                continue;
            }
            counts.false_negatives += drawn.lost(&one) + drawn_together.lost(&many);
            check(&drawn, sieve, &mut counts).map_err(ReplayError::Store)?;
            rounds.one_ns.push(one.ns);
            rounds.many_ns.push(many.ns);
            rounds.one_blocks.push(one.blocks);
            rounds.many_blocks.push(many.blocks);
        }
        watch.advance(1)?;
    }
    Ok(Figures {
        miss: miss.median(),
        hit: hit.median(),
        mixes: mixes.iter().map(Rounds::median).collect(),
        counts,
    })
}

/// The figures of one share in each round.
struct Rounds {
    absent: f64,
    one_ns: Vec<Pair>,
    many_ns: Vec<Pair>,
    one_blocks: Vec<Pair>,
    many_blocks: Vec<Pair>,
}

impl Rounds {
    fn of(absent: f64) -> Self {
        Self {
            absent,
            one_ns: Vec::new(),
            many_ns: Vec::new(),
            one_blocks: Vec::new(),
            many_blocks: Vec::new(),
        }
    }

    fn median(&self) -> Mix {
        Mix {
            absent: self.absent,
            one_ns: both(&self.one_ns, median),
            many_ns: both(&self.many_ns, median),
            one_blocks: both(&self.one_blocks, mean),
            many_blocks: both(&self.many_blocks, mean),
        }
    }
}

/// Keys to look up, and which of them are loaded.
struct Draw {
    keys: Vec<Key>,
    is_loaded: Vec<bool>,
}

impl Draw {
    fn new(plan: &Plan, absent: f64, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let [mut loaded_ids, mut absent_ids] = [Distribution::Uniform, Distribution::Absent]
            .map(|kind| kind.over(plan.keys, random.word()));
        let is_loaded: Vec<bool> = (0..plan.lookups).map(|_| random.unit() >= absent).collect();
        let id = |&is_loaded: &bool| {
            if is_loaded {
                loaded_ids.next()
            } else {
                absent_ids.next()
            }
        };
        let keys = is_loaded.iter().filter_map(id).map(scattered_key).collect();
        Self { keys, is_loaded }
    }

    fn loaded(&self) -> usize {
        self.is_loaded.iter().filter(|&&loaded| loaded).count()
    }

    /// The number of loaded keys that were not found.
    fn lost(&self, both: &Both) -> u64 {
        self.loaded().saturating_sub(both.found) as u64
    }
}

/// How keys are looked up.
#[derive(Clone, Copy)]
enum Kind {
    One,
    Many,
}

/// The results of one set of keys on one store, per key.
#[derive(Clone, Copy)]
struct Timing {
    ns: f64,
    blocks: f64,
    found: usize,
}

impl Kind {
    fn measure<S: Store>(self, store: &S, keys: &[Key]) -> Result<Timing, S::Error> {
        // The other store has just filled the caches. Refilling them is a cost of the alternation
        // and not of a lookup, so the first keys warm the caches and are not timed.
        let (warming, timed) = keys.split_at(keys.len() / WARMING);
        let mut found = self.look_up(store, warming)?;
        let (start, blocks) = (Instant::now(), store.blocks_read());
        found += self.look_up(store, timed)?;
        let a_key = |all: f64| all / timed.len().max(1) as f64;
        Ok(Timing {
            ns: a_key(start.elapsed().as_nanos() as f64),
            blocks: a_key((store.blocks_read() - blocks) as f64),
            found,
        })
    }

    fn look_up<S: Store>(self, store: &S, keys: &[Key]) -> Result<usize, S::Error> {
        let mut found = 0;
        match self {
            Self::One => {
                for key in keys {
                    found += usize::from(store.read(Space::Default, black_box(key))?);
                }
            }
            Self::Many => {
                let mut batch = [&[][..]; BATCH_KEYS];
                for keys in keys.chunks(BATCH_KEYS) {
                    let batch = &mut batch[..keys.len()];
                    batch
                        .iter_mut()
                        .zip(keys)
                        .for_each(|(slot, key)| *slot = key);
                    found += store.read_many(black_box(batch))?;
                }
            }
        }
        Ok(found)
    }
}

struct Both {
    ns: Pair,
    blocks: Pair,
    found: usize,
}

/// Runs the lookups on one store, then on the other. The order alternates, so that neither store
/// always finds warm keys.
fn pair<E>(
    round: usize,
    native: impl Fn() -> Result<Timing, E>,
    sieve: impl Fn() -> Result<Timing, E>,
) -> Result<Both, E> {
    let (native, sieve) = if round.is_multiple_of(2) {
        let native = native()?;
        (native, sieve()?)
    } else {
        let sieve = sieve()?;
        (native()?, sieve)
    };
    let of = |side: fn(&Timing) -> f64| Pair {
        native: side(&native),
        sieve: side(&sieve),
    };
    Ok(Both {
        ns: of(|timing| timing.ns),
        blocks: of(|timing| timing.blocks),
        found: sieve.found,
    })
}

/// Counts the answers of the filters and the engine for keys that are known to be present or
/// absent. This is not timed.
fn check<S: WithFilters>(drawn: &Draw, sieve: &S, counts: &mut Counts) -> Result<(), S::Error> {
    for (key, &present) in drawn.keys.iter().zip(&drawn.is_loaded) {
        let ruled_out = sieve.rules_out(Space::Default, key);
        let read = sieve.read_past(Space::Default, key)?;
        counts.record(ruled_out, read, present);
    }
    Ok(())
}

/// Combines the figures of the rounds, per store.
fn both(rounds: &[Pair], become_one: fn(Vec<f64>) -> f64) -> Pair {
    let of = |side: fn(&Pair) -> f64| become_one(rounds.iter().map(side).collect());
    Pair {
        native: of(|pair| pair.native),
        sieve: of(|pair| pair.sieve),
    }
}

fn mean(values: Vec<f64>) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// The median; the lower of two middle values. Panics without values.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

#[cfg(test)]
mod tests {
    use super::super::store::map::Map;
    use super::*;
    use std::collections::HashSet;
    use std::convert::Infallible;

    const PLAN: Plan = Plan {
        keys: 25_001,
        runs: 4,
        rounds: 3,
        lookups: 1000,
        seed: 1,
    };

    fn filled() -> (Map, Map) {
        let (mut native, mut sieve) = (Map::default(), Map::default());
        fill::<Infallible, _, _>(&PLAN, &mut native, &mut sieve, &mut ()).unwrap();
        (native, sieve)
    }

    #[test]
    fn both_stores_get_every_key_and_every_flush() {
        let (native, sieve) = filled();
        for store in [native, sieve] {
            assert_eq!((store.len(Space::Default), store.flushes), (25_001, 4));
        }
    }

    #[test]
    fn runs_are_of_even_length() {
        let ends: Vec<u64> = stretches(&PLAN)
            .filter(|(_, _, flush)| *flush)
            .map(|(_, to, _)| to)
            .collect();
        assert_eq!(ends, [6_251, 12_502, 18_753, 25_001]);
        let leveled = Plan { runs: 0, ..PLAN };
        assert!(stretches(&leveled).all(|(_, _, flush)| !flush));
    }

    #[test]
    fn correct_front_has_no_false_negatives() {
        let (native, sieve) = filled();
        let figures = measure(&PLAN, &[], &native, &sieve, &mut ()).unwrap();
        assert_eq!(figures.counts.lookups, 6000);
        assert_eq!(figures.counts.misses, 3000);
        assert_eq!(
            (
                figures.counts.false_negatives,
                figures.counts.false_positives
            ),
            (0, 0)
        );
        assert_eq!((figures.miss.absent, figures.hit.absent), (1.0, 0.0));
        assert!(figures.miss.one_ns.native > 0.0 && figures.hit.many_ns.sieve > 0.0);
    }

    /// The keys that warm a store do not count in its blocks per key.
    #[test]
    fn hit_reads_one_block_and_miss_reads_none() {
        let (native, sieve) = filled();
        let figures = measure(&PLAN, &[], &native, &sieve, &mut ()).unwrap();
        let (hit, miss) = (figures.hit.one_blocks, figures.miss.one_blocks);
        assert_eq!((hit.native, hit.sieve), (1.0, 1.0));
        assert_eq!((miss.native, miss.sieve), (0.0, 0.0));
    }

    #[test]
    fn drawn_keys_have_the_given_share_of_absent_keys() {
        let plan = Plan {
            lookups: 100_000,
            ..PLAN
        };
        let loaded: HashSet<Key> = (0..plan.keys).map(scattered_key).collect();
        for (share, least, most) in [(0.0, 0, 0), (0.1, 9_600, 10_400), (1.0, 100_000, 100_000)] {
            let drawn = Draw::new(&plan, share, 5);
            assert_eq!(drawn.keys.len(), plan.lookups);
            for (key, &is_loaded) in drawn.keys.iter().zip(&drawn.is_loaded) {
                assert_eq!(loaded.contains(key), is_loaded);
            }
            // Four standard deviations to each side.
            let absent = plan.lookups - drawn.loaded();
            assert!((least..=most).contains(&absent), "{absent} of {share}");
        }
    }

    #[test]
    fn lost_keys_are_counted_as_false_negatives() {
        let (native, mut sieve) = filled();
        sieve
            .lost
            .extend((0..25_001).map(|id| scattered_key(id).to_vec()));
        let figures = measure(&PLAN, &[0.5], &native, &sieve, &mut ()).unwrap();
        // Seen three times in each of three rounds: in single lookups, in batches, and by the
        // check of the filters.
        assert!(figures.counts.false_negatives > 3 * 3 * 1_400);
        assert_eq!(figures.mixes[0].absent, 0.5);
    }

    #[test]
    fn median_is_the_lower_middle_value() {
        assert_eq!(median(vec![9.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 900.0]), 2.0);
    }
}
