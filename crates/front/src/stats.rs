//! Counters that cost the lookup path no atomic read-modify-write.
//!
//! A thread adds to a slot of its own with a plain load and store. If all slots are taken, the
//! other threads share the last one and pay for an atomic add.

use std::array;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::fault::fault;
use crate::predictor::Predictor;
use crate::threads::{OwnSlot, SLOTS};

/// The counts and the predictor of one thread, on cache lines of its own: a lookup touches one place.
#[derive(Debug)]
#[repr(align(128))]
pub(crate) struct Slot {
    /// The ordinals of the next events.
    next: [AtomicU64; Event::COUNT],
    /// What the thread's last lookups say of its next one.
    pub(crate) predictor: Predictor,
}

impl Slot {
    /// Counts `times` events and returns the ordinal of the first; for the thread that owns the slot.
    #[inline]
    pub(crate) fn add(&self, event: Event, times: u64) -> u64 {
        let next = &self.next[event as usize];
        let ordinal = next.load(Ordering::Relaxed);
        next.store(ordinal.wrapping_add(times), Ordering::Relaxed);
        ordinal
    }
}

/// What is counted.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub enum Event {
    /// A lookup that the filters answered.
    Absent,
    /// A hit: a lookup that read the engine and found its key.
    Found,
    /// The same of a lookup that checked no filter.
    FoundUnchecked,
    /// A lookup that read the engine under complete coverage and found nothing.
    FalsePositive,
    /// A lookup that read the engine because coverage was not complete, and found nothing.
    Uncovered,
    /// A lookup that read the engine without checking the filters, and found nothing.
    NotConsulted,
    /// A negative that was audited.
    Audited,
    /// An audited negative whose key exists.
    FalseNegative,
    /// A question for a prefix or a range that the filters answered: no key has it.
    PrefixAbsent,
    /// A prefix that the engine was asked for, and has.
    PrefixFound,
    /// A prefix that the engine was asked for, and does not have.
    PrefixFalsePositive,
}

impl Event {
    const COUNT: usize = 11;
}

/// The event counts of one column family.
#[derive(Debug)]
pub struct Counters {
    /// Allocated when its thread comes first: of a thousand column families, most are read by few
    /// threads.
    slots: [OnceLock<Box<Slot>>; SLOTS + 1],
    begun: Begun,
}

/// The first ordinals of the events: random, and far apart in each slot.
#[derive(Clone, Copy, Debug)]
struct Begun(u64);

impl Begun {
    fn anywhere() -> Self {
        Self(RandomState::new().hash_one(()))
    }

    fn with(self, slot: usize, event: usize) -> u64 {
        let nth = (slot * Event::COUNT + event) as u64;
        self.0.wrapping_add(nth.wrapping_mul(FAR))
    }
}

/// Distance between the first ordinals of neighbouring counters: an odd constant of wyhash.
const FAR: u64 = 0xa076_1d64_78bd_642f;

impl Default for Counters {
    fn default() -> Self {
        Self {
            slots: [const { OnceLock::new() }; SLOTS + 1],
            begun: Begun::anywhere(),
        }
    }
}

impl Counters {
    /// Memory of the slots of eight threads.
    pub(crate) const SIZE_OF_A_FEW: usize = 8 * size_of::<Slot>();

    #[inline]
    fn slot(&self, index: usize) -> &Slot {
        match self.slots[index].get() {
            Some(slot) => slot,
            None => self.make_slot(index),
        }
    }

    #[cold]
    fn make_slot(&self, index: usize) -> &Slot {
        let next = |event| AtomicU64::new(self.begun.with(index, event));
        self.slots[index].get_or_init(|| {
            Box::new(Slot {
                next: array::from_fn(next),
                predictor: Predictor::default(),
            })
        })
    }

    /// Counts `times` events and returns the ordinal of the first. Events of one kind and slot have
    /// consecutive ordinals (mod 2^64), which begin anywhere.
    #[inline]
    pub fn add(&self, event: Event, times: u64) -> u64 {
        match OwnSlot::get() {
            Some(slot) => self.slot(slot.index()).add(event, times),
            None => self.slot(SLOTS).next[event as usize].fetch_add(times, Ordering::Relaxed),
        }
    }

    /// The slot of the thread that owns it, if the thread has counted something: without a call.
    #[inline]
    pub(crate) fn own(&self, slot: OwnSlot) -> Option<&Slot> {
        self.slots[slot.index()].get().map(Box::as_ref)
    }

    /// What this thread's last lookups say of its next one.
    #[inline]
    pub(crate) fn predictor(&self, slot: OwnSlot) -> &Predictor {
        &self.slot(slot.index()).predictor
    }

    pub fn stats(&self) -> Stats {
        let sum = |event: Event| {
            let event = event as usize;
            let counted = |(slot, own): (usize, &OnceLock<Box<Slot>>)| {
                let next = own.get().map(|own| own.next[event].load(Ordering::Relaxed));
                next.map_or(0, |next| next.wrapping_sub(self.begun.with(slot, event)))
            };
            self.slots.iter().enumerate().map(counted).sum()
        };
        let unchecked = sum(Event::FoundUnchecked);
        let stats = Stats {
            absent: sum(Event::Absent),
            found: sum(Event::Found) + unchecked,
            found_unchecked: unchecked,
            false_positives: sum(Event::FalsePositive),
            uncovered: sum(Event::Uncovered),
            not_consulted: sum(Event::NotConsulted),
            audited: sum(Event::Audited),
            false_negatives: sum(Event::FalseNegative),
            prefixes_absent: sum(Event::PrefixAbsent),
            prefixes_found: sum(Event::PrefixFound),
            prefix_false_positives: sum(Event::PrefixFalsePositive),
        };
        fault!(
            CountersSwapped,
            return Stats {
                uncovered: stats.not_consulted,
                not_consulted: stats.uncovered,
                ..stats
            }
        );
        stats
    }
}

/// What the filters did for the lookups so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Lookups that the filters answered *absent*: engine reads avoided.
    pub absent: u64,
    /// Hits: lookups that read the engine and found their key.
    pub found: u64,
    /// Hits, also counted in `found`, of lookups that checked no filter
    /// (`SieveOptions::adaptive_hits`). If these are most of
    /// the lookups, the filters have nothing to do in this column family.
    pub found_unchecked: u64,
    /// Lookups that read the engine under complete coverage and found nothing: false positives of
    /// the summary filter.
    pub false_positives: u64,
    /// Lookups of absent keys that read the engine because coverage was not complete.
    pub uncovered: u64,
    /// Lookups of absent keys that read the engine without checking the filters
    /// (`SieveOptions::adaptive_hits`).
    pub not_consulted: u64,
    /// Negatives, also counted in `absent`, that an audit read from the engine.
    pub audited: u64,
    /// Audited negatives whose key exists: the filters are no longer trusted.
    pub false_negatives: u64,
    /// Questions for a prefix or a range that the filters answered *absent*: seeks avoided. These
    /// questions are not among the lookups.
    pub prefixes_absent: u64,
    /// Prefixes and ranges that the engine was asked for, and has.
    pub prefixes_found: u64,
    /// Prefixes and ranges that the engine was asked for, and does not have. Questions that no filter could
    /// answer are among them.
    pub prefix_false_positives: u64,
}

impl Stats {
    /// All lookups that did not end with an error of RocksDB.
    pub fn lookups(&self) -> u64 {
        self.absent + self.engine_reads()
    }

    /// Lookups that read the engine.
    pub fn engine_reads(&self) -> u64 {
        self.found + self.false_positives + self.uncovered + self.not_consulted
    }

    /// False positives among the lookups of absent keys, FP / (FP + TN); 0 if there were none.
    pub fn observed_rate(&self) -> f64 {
        let negatives = self.false_positives + self.absent;
        if negatives == 0 {
            0.0
        } else {
            self.false_positives as f64 / negatives as f64
        }
    }
}

impl std::ops::Add for Stats {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            absent: self.absent + other.absent,
            found: self.found + other.found,
            found_unchecked: self.found_unchecked + other.found_unchecked,
            false_positives: self.false_positives + other.false_positives,
            uncovered: self.uncovered + other.uncovered,
            not_consulted: self.not_consulted + other.not_consulted,
            audited: self.audited + other.audited,
            false_negatives: self.false_negatives + other.false_negatives,
            prefixes_absent: self.prefixes_absent + other.prefixes_absent,
            prefixes_found: self.prefixes_found + other.prefixes_found,
            prefix_false_positives: self.prefix_false_positives + other.prefix_false_positives,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_slots_lose_no_count() {
        let counters = Counters::default();
        std::thread::scope(|scope| {
            for _ in 0..SLOTS + 20 {
                scope.spawn(|| (0..1_000).for_each(|_| _ = counters.add(Event::Absent, 1)));
            }
        });
        assert_eq!(counters.stats().absent, (SLOTS as u64 + 20) * 1_000);
    }

    /// Each event happens another number of times, so that a figure that counts another one's events
    /// is noticed. It used not to be: tests compared sums, or one figure with 0.
    #[test]
    fn each_event_is_counted_in_the_figure_of_its_name() {
        let counters = Counters::default();
        let all = [
            (Event::Absent, 1),
            (Event::Found, 20),
            (Event::FoundUnchecked, 300),
            (Event::FalsePositive, 4_000),
            (Event::Uncovered, 50_000),
            (Event::NotConsulted, 600_000),
            (Event::Audited, 7_000_000),
            (Event::FalseNegative, 80_000_000),
            (Event::PrefixAbsent, 900_000_000),
            (Event::PrefixFound, 1_000_000_000),
            (Event::PrefixFalsePositive, 11_000_000_000),
        ];
        assert_eq!(all.len(), Event::COUNT);
        for (event, times) in all {
            counters.add(event, times);
        }
        let expected = Stats {
            absent: 1,
            found: 320,
            found_unchecked: 300,
            false_positives: 4_000,
            uncovered: 50_000,
            not_consulted: 600_000,
            audited: 7_000_000,
            false_negatives: 80_000_000,
            prefixes_absent: 900_000_000,
            prefixes_found: 1_000_000_000,
            prefix_false_positives: 11_000_000_000,
        };
        let stats = counters.stats();
        assert_eq!(stats, expected);
        assert_eq!(stats.engine_reads(), 654_320);
        assert_eq!(stats.lookups(), 654_321);
        assert_eq!(stats.observed_rate(), 4_000.0 / 4_001.0);
        assert_eq!(Stats::default().observed_rate(), 0.0);
        assert_eq!(stats + Stats::default(), stats);
        let more = Stats {
            absent: 2,
            found: 3,
            found_unchecked: 5,
            false_positives: 7,
            uncovered: 11,
            not_consulted: 13,
            audited: 17,
            false_negatives: 19,
            prefixes_absent: 23,
            prefixes_found: 29,
            prefix_false_positives: 31,
        };
        let sum = Stats {
            absent: 3,
            found: 323,
            found_unchecked: 305,
            false_positives: 4_007,
            uncovered: 50_011,
            not_consulted: 600_013,
            audited: 7_000_017,
            false_negatives: 80_000_019,
            prefixes_absent: 900_000_023,
            prefixes_found: 1_000_000_029,
            prefix_false_positives: 11_000_000_031,
        };
        assert_eq!(stats + more, sum);
    }

    /// Otherwise a sampler would draw the same for each thread, and nothing in short-lived
    /// processes.
    #[test]
    fn event_ordinals_of_a_slot_are_consecutive_from_a_random_start() {
        let counters = Counters::default();
        let first = counters.add(Event::Absent, 5);
        assert_eq!(counters.add(Event::Absent, 1), first.wrapping_add(5));
        assert_eq!(counters.stats().absent, 6);
        assert_ne!(Counters::default().add(Event::Absent, 1), first);
        assert_ne!(counters.add(Event::Found, 1), first);
    }
}
