//! Counters that cost the look-up path no atomic read-modify-write.
//!
//! A thread adds to a slot of its own with a plain load and store; while others have all slots, the
//! rest share the last one and pay for an atomic add.

use std::array;
use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

use crate::threads::{OwnSlot, SLOTS};

/// The events of one thread, on cache lines of its own.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    /// Ordinals of the next events.
    next: [AtomicU64; Event::COUNT],
    /// See [`Counters::note`].
    there_in_turn: AtomicU64,
    /// See [`Counters::note`].
    passed_rightly_in_turn: AtomicI64,
    /// See [`Counters::note_tables`].
    tables_were_asked: AtomicBool,
}

/// So many keys in turn that were there foretell another one.
const FORETELL: u64 = 2;

/// After so many in turn the filters may be spared. Of look-ups in no order, half are spared where one key in
/// fifty is absent, and one in thirty where one in ten is.
const SPARE: u64 = 32;

/// After so many keys in turn that the summary let by and that were there, it is believed. At the default rate, where
/// one key in a hundred is there, seven in ten that it lets by are, and eight in turn are one time in eighteen;
/// where one in ten is, three times in four.
const BELIEVE: i64 = 8;

/// Of keys in turn that passed and were there, one in so many tells whether the tables are asked for such.
const TELL: i64 = 32;

/// What is counted.
#[derive(Clone, Copy, Debug)]
#[repr(usize)]
pub(crate) enum Event {
    /// A look-up that the filters answered.
    Absent,
    /// A look-up that went to the engine and found its key.
    Found,
    /// A look-up that went to the engine under complete filters and found nothing.
    FalsePositive,
    /// A look-up that went to the engine because the filters were not complete.
    Uncovered,
    /// A look-up that went to the engine without a look at the filters and found nothing.
    Unasked,
    /// A negative that was checked against what stands below.
    Audited,
    /// A negative that such a check refuted.
    Refuted,
}

/// What became of a key that was looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// The engine found it.
    There,
    /// It is not there: the summary denied it, or was not asked.
    Missed,
    /// Nor is it there though the summary let it by, or had to; or the engine failed.
    PassedInVain,
}

impl Event {
    const COUNT: usize = 7;
}

/// Event counts of one column family.
#[derive(Debug)]
pub(crate) struct Counters {
    /// Made when its thread comes first: of a thousand families, most are asked by few threads.
    slots: [OnceLock<Box<Slot>>; SLOTS + 1],
    begun: Begun,
}

/// The ordinals that the events begin with: anywhere, and far apart in each slot.
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

/// Odd, and without a pattern in its bits (from wyhash).
const FAR: u64 = 0xa076_1d64_78bd_642f;

impl Counters {
    /// What counters take beside themselves that eight threads came to.
    pub(crate) const SIZE_OF_A_FEW: usize = 8 * size_of::<Slot>();

    pub(crate) fn new() -> Self {
        Self {
            slots: [const { OnceLock::new() }; SLOTS + 1],
            begun: Begun::anywhere(),
        }
    }

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
                there_in_turn: AtomicU64::new(0),
                passed_rightly_in_turn: AtomicI64::new(0),
                tables_were_asked: AtomicBool::new(false),
            })
        })
    }

    /// Counts `times` events; returns the ordinal of the first of them: those of one kind and slot are
    /// numbered in turn (mod 2^64), and begin anywhere.
    #[inline]
    pub(crate) fn add(&self, event: Event, times: u64) -> u64 {
        match OwnSlot::get() {
            Some(slot) => self.add_to(slot, event, times),
            None => self.slot(SLOTS).next[event as usize].fetch_add(times, Ordering::Relaxed),
        }
    }

    /// [`Counters::add`] for a thread that knows its slot.
    #[inline]
    pub(crate) fn add_to(&self, slot: OwnSlot, event: Event, times: u64) -> u64 {
        // Nobody else writes this slot.
        let next = &self.slot(slot.index()).next[event as usize];
        let ordinal = next.load(Ordering::Relaxed);
        next.store(ordinal.wrapping_add(times), Ordering::Relaxed);
        ordinal
    }

    /// Notes what became of this thread's last key.
    #[inline]
    pub(crate) fn note(&self, slot: OwnSlot, fate: Fate) {
        let Slot {
            there_in_turn,
            passed_rightly_in_turn,
            ..
        } = self.slot(slot.index());
        match fate {
            Fate::There => {
                let there = there_in_turn.load(Ordering::Relaxed);
                there_in_turn.store(there + 1, Ordering::Relaxed);
                let passed = passed_rightly_in_turn.load(Ordering::Relaxed);
                passed_rightly_in_turn.store(passed + 1, Ordering::Relaxed);
            }
            Fate::Missed => there_in_turn.store(0, Ordering::Relaxed),
            Fate::PassedInVain => self.note_in_vain_among(slot, 0),
        }
    }

    /// Notes that of several keys which the summary let by some were denied by a second look; the others, so
    /// many, are noted after this, as if they had been before it.
    pub(crate) fn note_in_vain_among(&self, slot: OwnSlot, others: usize) {
        let slot = self.slot(slot.index());
        slot.there_in_turn.store(0, Ordering::Relaxed);
        slot.passed_rightly_in_turn
            .store(-(others as i64), Ordering::Relaxed);
    }

    /// Whether the filters are likely to let this thread's next key by.
    #[inline]
    pub(crate) fn foretell(&self, slot: OwnSlot) -> bool {
        self.there_in_turn(slot) >= FORETELL
    }

    /// Whether they are so likely to that they need not be asked.
    #[inline]
    pub(crate) fn may_spare(&self, slot: OwnSlot) -> bool {
        self.there_in_turn(slot) >= SPARE
    }

    /// Whether what the summary lets by of this thread's keys is so likely to be there that it takes no second look.
    #[inline]
    pub(crate) fn may_believe(&self, slot: OwnSlot) -> bool {
        self.passed_rightly_in_turn(slot) >= BELIEVE
    }

    /// Whether the engine is likely to ask its tables for this thread's next key, which is likely to be there;
    /// `None` where that is to be looked at, and [noted](Counters::note_tables).
    #[inline]
    pub(crate) fn foretell_tables(&self, slot: OwnSlot) -> Option<bool> {
        let asked = &self.slot(slot.index()).tables_were_asked;
        let is_foretold = self.passed_rightly_in_turn(slot) % TELL != 0;
        is_foretold.then(|| asked.load(Ordering::Relaxed))
    }

    /// Notes whether the engine asks its tables for this thread's next key: it does for one that is in no memtable.
    #[inline]
    pub(crate) fn note_tables(&self, slot: OwnSlot, are_asked: bool) {
        let asked = &self.slot(slot.index()).tables_were_asked;
        asked.store(are_asked, Ordering::Relaxed);
    }

    #[inline]
    fn there_in_turn(&self, slot: OwnSlot) -> u64 {
        let in_turn = &self.slot(slot.index()).there_in_turn;
        in_turn.load(Ordering::Relaxed)
    }

    #[inline]
    fn passed_rightly_in_turn(&self, slot: OwnSlot) -> i64 {
        let in_turn = &self.slot(slot.index()).passed_rightly_in_turn;
        in_turn.load(Ordering::Relaxed)
    }

    pub(crate) fn stats(&self) -> Stats {
        let sum = |event: Event| {
            let event = event as usize;
            let counted = |(slot, own): (usize, &OnceLock<Box<Slot>>)| {
                let next = own.get().map(|own| own.next[event].load(Ordering::Relaxed));
                next.map_or(0, |next| next.wrapping_sub(self.begun.with(slot, event)))
            };
            self.slots.iter().enumerate().map(counted).sum()
        };
        Stats {
            absent: sum(Event::Absent),
            found: sum(Event::Found),
            false_positives: sum(Event::FalsePositive),
            uncovered: sum(Event::Uncovered),
            unasked: sum(Event::Unasked),
            audited: sum(Event::Audited),
            refuted: sum(Event::Refuted),
        }
    }
}

/// What the filters did for the look-ups so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Look-ups answered *absent* by the filters: engine reads avoided.
    pub absent: u64,
    /// Look-ups that entered the engine and found their key.
    pub found: u64,
    /// Look-ups that entered the engine under complete filters and found nothing. Where hits and misses mix, the
    /// summary alone was asked.
    pub false_positives: u64,
    /// Look-ups of missing keys that entered the engine because coverage was not complete.
    pub uncovered: u64,
    /// Look-ups of missing keys that entered the engine without a look at the filters
    /// ([`SieveOptions::spare_hits`](crate::SieveOptions::spare_hits)).
    pub unasked: u64,
    /// Negatives, counted above as well, that an audit read again past the filter that gave them.
    pub audited: u64,
    /// Audited negatives whose key was there: the filters are not believed any more.
    pub refuted: u64,
}

impl Stats {
    /// All look-ups that did not end with an error of RocksDB's.
    pub fn lookups(&self) -> u64 {
        self.absent + self.engine_reads()
    }

    /// Look-ups that entered the engine.
    pub fn engine_reads(&self) -> u64 {
        self.found + self.false_positives + self.uncovered + self.unasked
    }

    /// False positives among the look-ups of missing keys, FP / (FP + TN); 0 without any.
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
            false_positives: self.false_positives + other.false_positives,
            uncovered: self.uncovered + other.uncovered,
            unasked: self.unasked + other.unasked,
            audited: self.audited + other.audited,
            refuted: self.refuted + other.refuted,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_threads_than_slots_lose_no_count() {
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..SLOTS + 20 {
                scope.spawn(|| (0..1_000).for_each(|_| _ = counters.add(Event::Absent, 1)));
            }
        });
        assert_eq!(counters.stats().absent, (SLOTS as u64 + 20) * 1_000);
    }

    /// Else whoever draws by them draws the same of each thread, and nothing from processes that end soon.
    #[test]
    fn events_of_one_slot_follow_one_another_and_begin_anywhere() {
        let counters = Counters::new();
        let first = counters.add(Event::Absent, 5);
        assert_eq!(counters.add(Event::Absent, 1), first.wrapping_add(5));
        assert_eq!(counters.stats().absent, 6);
        assert_ne!(Counters::new().add(Event::Absent, 1), first);
        assert_ne!(counters.add(Event::Found, 1), first);
    }
}
