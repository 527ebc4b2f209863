//! What readers ask a front, one key at a time and many, and what they report back.
//!
//! ```text
//! ask_to_read -> ask_under      a glance at the summary denies the key: most misses
//!                    | says nothing
//!                ask_or_spare   of the last 32 keys all were there: the engine is asked at once
//!                    | not spared
//!                ask_summary    the last 8 keys that the summary let by were there: so is the next one likely
//!                    | not believed
//! ask ---------> ask_fully      the whole view, be it complete or not
//! look_up                       an ask, and the audit of what it drew; look_up_to_read alike
//! ```
//!
//! Before the engine is asked for a key that is likely to be there comes prefetch_tables.

use super::Column;
use crate::filter::{AtLine, AtWindow, Glance, Lens, Look, through_best};
use crate::planted::planted;
use crate::rcu::Reading;
use crate::rocks::audit::{Asked, Auditor};
use crate::rocks::coverage::{Answer, CHUNK, Proof};
use crate::stats::{Event, Fate, Stats};
use crate::sync::atomic::Ordering;
use crate::threads::OwnSlot;

impl Column {
    /// The filters' answer, counted when it is *absent*. What is doubted waits for
    /// [`Column::audit`].
    #[inline]
    pub(crate) fn ask(&self, key: &[u8]) -> Asked {
        match self.ask_to_read(key) {
            Asked::Likely | Asked::Spared => self.ask_fully(key),
            asked => asked,
        }
    }

    /// [`Column::ask`] for a read of the key's value, which need not ask where the key is likely to be there.
    #[inline]
    pub(crate) fn ask_to_read(&self, key: &[u8]) -> Asked {
        if self.begins_static() {
            return through_best(BeginsStatic(self), key);
        }
        through_best(self, key)
    }

    /// Whether the summary begins static, so that it is glanced at in another way.
    #[inline]
    pub(crate) fn begins_static(&self) -> bool {
        self.begins_static.load(Ordering::Relaxed)
    }

    /// [`Column::ask_fully`] where that is not spared. Cold to the compiler alone: [`Column::ask_under`] is to
    /// be the straight way through its caller.
    #[cold]
    #[inline(never)]
    pub(crate) fn ask_or_spare(&self, key: &[u8]) -> Asked {
        if self.spares_hits && OwnSlot::known().is_some_and(|slot| self.counters.may_spare(slot)) {
            Asked::Spared
        } else if self.may_believe() {
            self.ask_summary(key)
        } else {
            self.ask_fully(key)
        }
    }

    /// Whether what the summary lets by of this thread's next keys is likely to be there.
    fn may_believe(&self) -> bool {
        self.spares_hits && OwnSlot::known().is_some_and(|slot| self.counters.may_believe(slot))
    }

    /// [`Column::ask_fully`] without the second look, if there is one.
    fn ask_summary(&self, key: &[u8]) -> Asked {
        let hash = self.hasher.hash(key);
        let answer = self.view.with(|view| {
            let has_second_look = view.has_second_look();
            has_second_look.then(|| view.denied_by_summary(hash))
        });
        match answer {
            None => self.ask_fully(key),
            Some(None) => Asked::Likely,
            Some(Some(proof)) => {
                self.note(Fate::Missed);
                self.denied(self.count(Event::Absent), proof)
            }
        }
    }

    /// [`Column::ask_under`] a reading that begins where that takes no call.
    #[inline(always)]
    fn ask_at_once<G: Glance>(&self, lens: impl Lens, key: &[u8]) -> Option<Asked> {
        let slot = OwnSlot::known()?;
        let reading = Reading::begin_at_once(slot)?;
        self.ask_under::<G>(slot, &reading, lens, key)
    }

    /// A miss as most are, without a call, by a glance at the summary. `None` says nothing:
    /// [`Column::ask_or_spare`] does, and at once where the key is likely to be there.
    #[inline(always)]
    pub(crate) fn ask_under<G: Glance>(
        &self,
        slot: OwnSlot,
        reading: &Reading,
        lens: impl Lens,
        key: &[u8],
    ) -> Option<Asked> {
        if self.counters.foretell(slot) {
            return None;
        }
        let hash = self.hasher.at_once(key)?;
        let view = self.view.get(reading);
        let proof = view.absent_at_a_glance::<G>(lens, hash)?;
        let ordinal = self.counters.add_to(slot, Event::Absent, 1);
        Some(self.denied(ordinal, proof))
    }

    /// Asks the processor for the lines of the tables' filters that the engine will look at for a key, where they
    /// were not asked before: they come while it is on its way there. Not while the thread's keys are in memtables.
    #[inline(never)]
    pub(crate) fn prefetch_tables(&self, key: &[u8]) {
        let Some(slot) = OwnSlot::known() else {
            return;
        };
        let foretold = self.counters.foretell_tables(slot);
        if foretold == Some(false) {
            return;
        }
        let hash = self.hasher.hash(key);
        self.view.with(|view| {
            let are_asked = foretold.unwrap_or_else(|| {
                let are_asked = view.tables_are_asked(hash);
                self.counters.note_tables(slot, are_asked);
                are_asked
            });
            if are_asked {
                view.prefetch_tables(hash, key);
            }
        });
    }

    /// [`Column::ask`], whatever it takes; may be called under a reading.
    #[inline(never)]
    pub(crate) fn ask_fully(&self, key: &[u8]) -> Asked {
        let hash = self.hasher.hash(key);
        let (answer, passed) = self.view.with(|view| view.answer_and_pass(hash, key));
        let Answer::Absent(proof) = answer else {
            return Asked::Maybe;
        };
        let fate = if passed {
            Fate::PassedInVain
        } else {
            Fate::Missed
        };
        self.note(fate);
        self.denied(self.count(Event::Absent), proof)
    }

    #[inline]
    fn denied(&self, ordinal: u64, proof: Proof) -> Asked {
        if self.sample.draws(ordinal) {
            Asked::Doubted(proof)
        } else {
            Asked::Absent(proof)
        }
    }

    /// The filters' answer, audited. Not for use within a read of a published value.
    #[inline]
    pub(crate) fn look_up(&self, key: &[u8]) -> Answer {
        self.audited(self.ask(key), key)
    }

    /// [`Column::look_up`] for a read of the key's value, by the summary alone where that is believed.
    pub(crate) fn look_up_to_read(&self, key: &[u8]) -> Answer {
        let asked = match self.ask_to_read(key) {
            Asked::Spared => self.ask_summary(key),
            asked => asked,
        };
        self.audited(asked, key)
    }

    #[inline]
    fn audited(&self, asked: Asked, key: &[u8]) -> Answer {
        match asked {
            Asked::Absent(proof) => Answer::Absent(proof),
            Asked::Doubted(proof) => self.audit(key, proof),
            Asked::Maybe | Asked::Likely | Asked::Spared => Answer::Maybe,
        }
    }

    /// The answer once the engine has been asked as well. Not for use within a read of a published
    /// value: it takes long, and may end in another view.
    #[cold]
    pub(crate) fn audit(&self, key: &[u8], proof: Proof) -> Answer {
        if self.stands_or_rests(key) {
            Answer::Absent(proof)
        } else {
            Answer::Maybe
        }
    }

    /// The indexes of the keys that may be there, ascending; the others are counted as *absent*.
    /// Not for use within a read of a published value.
    pub(crate) fn ask_many(&self, keys: &[impl AsRef<[u8]>]) -> Vec<usize> {
        let mut left = Vec::new();
        let mut doubted = Vec::new();
        let mut in_vain = false;
        let believed = self.may_believe();
        self.view.with(|view| {
            for (chunk, keys) in keys.chunks(CHUNK).enumerate() {
                let mut maybe = [true; CHUNK];
                let first = chunk * CHUNK;
                let maybe = &mut maybe[..keys.len()];
                let let_by = view.answer_many(self.hasher, keys, maybe, believed);
                if let_by.in_the_end > 0 {
                    left.extend((0..keys.len()).filter(|&at| maybe[at]).map(|at| first + at));
                }
                let times = keys.len() - let_by.in_the_end;
                let times = times - usize::from(planted!(AbsentCountedShort) && times > 1);
                let ordinal = self.counters.add(Event::Absent, times as u64);
                in_vain |= let_by.in_the_end < let_by.by_summary;
                let drawn = self.sample.among(ordinal, times);
                let absent = (0..keys.len()).filter(|&at| !maybe[at]);
                let drawn = absent.skip(drawn.start).take(drawn.len());
                doubted.extend(drawn.map(|at| first + at));
            }
        });
        if let Some(slot) = OwnSlot::known() {
            if in_vain {
                self.counters.note_in_vain_among(slot, left.len());
            } else if left.len() < keys.len() {
                self.counters.note(slot, Fate::Missed);
            }
        }
        if !doubted.is_empty() {
            doubted.retain(|&at| !self.stands_or_rests(keys[at].as_ref()));
            left.extend(doubted);
            left.sort_unstable();
        }
        left
    }

    /// Which view is published now.
    pub(crate) fn edition(&self) -> u64 {
        self.view.with(|view| view.edition)
    }

    /// Whether the view of this edition is still published and denies these keys. If so, it denied them at
    /// every moment since.
    pub(crate) fn still_denies(&self, keys: &[impl AsRef<[u8]>], edition: u64) -> bool {
        self.view.with(|view| {
            let mut chunks = keys.chunks(CHUNK);
            (view.edition == edition || planted!(EditionUnchecked))
                && chunks.all(|keys| {
                    let mut maybe = [true; CHUNK];
                    let maybe = &mut maybe[..keys.len()];
                    let let_by = view.answer_many(self.hasher, keys, maybe, false);
                    let_by.in_the_end == 0
                })
        })
    }

    /// Counts what the engine found of a key that the filters did not rule out.
    pub(crate) fn engine_answered(&self, asked: Asked, found: bool) {
        let event = match asked {
            _ if found => Event::Found,
            Asked::Spared => Event::Unasked,
            _ if self.is_complete() => Event::FalsePositive,
            _ => Event::Uncovered,
        };
        self.count(event);
        self.note(match asked {
            _ if found => Fate::There,
            Asked::Spared => Fate::Missed,
            _ => Fate::PassedInVain,
        });
    }

    /// Notes that the engine could not read a key: reads that fail spare no filters.
    #[cold]
    pub(crate) fn engine_failed(&self) {
        self.note(Fate::PassedInVain);
    }

    fn note(&self, fate: Fate) {
        if let Some(slot) = OwnSlot::known() {
            self.counters.note(slot, fate);
        }
    }

    /// [`Column::denial_stands`], or audits rest.
    #[cold]
    fn stands_or_rests(&self, key: &[u8]) -> bool {
        self.pace.run(|| self.denial_stands(key)).unwrap_or(true)
    }

    /// Whether an audit finds no key where the filters deny one. Not for use within a read of a
    /// published value.
    #[cold]
    pub(crate) fn denial_stands(&self, key: &[u8]) -> bool {
        let auditor = self.auditor.get();
        auditor.is_none_or(|auditor| auditor.denial_stands(self, key))
    }

    /// Counts one event; returns its ordinal in this thread's slot.
    pub(crate) fn count(&self, event: Event) -> u64 {
        self.counters.add(event, 1)
    }

    /// Gives the front what its audits need.
    pub(crate) fn audit_with(&self, auditor: Auditor) {
        self.auditor.get_or_init(|| auditor);
    }

    pub(crate) fn stats(&self) -> Stats {
        self.counters.stats()
    }
}

/// [`Column::ask_to_read`] where the summary does not begin static.
impl Look<&[u8]> for &Column {
    type Seen = Asked;

    #[inline(always)]
    fn through(self, lens: impl Lens, key: &[u8]) -> Asked {
        let asked = self.ask_at_once::<AtLine>(lens, key);
        asked.unwrap_or_else(|| self.ask_or_spare(key))
    }
}

/// A front whose summary begins static. What it is asked is apart, since a glance at a window takes more registers
/// than one at a line should have to save.
pub(crate) struct BeginsStatic<'a>(pub(crate) &'a Column);

/// [`Column::ask_to_read`].
impl Look<&[u8]> for BeginsStatic<'_> {
    type Seen = Asked;

    #[inline(always)]
    fn through(self, lens: impl Lens, key: &[u8]) -> Asked {
        let Self(column) = self;
        let asked = column.ask_at_once::<AtWindow>(lens, key);
        asked.unwrap_or_else(|| column.ask_or_spare(key))
    }
}

/// The same under a reading that has begun.
pub(crate) struct UnderReading<'a>(pub(crate) BeginsStatic<'a>, pub(crate) &'a Reading);

impl Look<&[u8]> for UnderReading<'_> {
    type Seen = Asked;

    #[inline(always)]
    fn through(self, lens: impl Lens, key: &[u8]) -> Asked {
        let Self(BeginsStatic(column), reading) = self;
        let at_once = || column.ask_under::<AtWindow>(OwnSlot::known()?, reading, lens, key);
        at_once().unwrap_or_else(|| column.ask_or_spare(key))
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::OwnSlot;
    use crate::math::{Items, Rate};
    use crate::rocks::{SieveDb, SieveOptions};

    const LIMIT: Duration = Duration::from_secs(60);

    /// A database with one key in a table and one in a memtable.
    fn filled(home: &std::path::Path, sieve: &SieveOptions) -> SieveDb {
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        let open = || SieveDb::open(&options, sieve, home).unwrap();
        let db = open();
        db.put("in a table", "value").unwrap();
        db.flush().unwrap();
        // What fed the filter of a memtable that is flushed is known to be in a table a moment later.
        drop(db);
        let db = open();
        db.put("in a memtable", "value").unwrap();
        assert!(db.wait_until_known(LIMIT));
        db
    }

    fn wait_for_second_look(db: &SieveDb) {
        let column = db.columns().all().remove(0);
        let started = Instant::now();
        while column.view().inventory.is_none() {
            assert!(started.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// A database of a table, and absent keys: some that the summary denies, and some that only a second look does.
    fn with_absent_keys(home: &std::path::Path) -> (SieveDb, [Vec<[u8; 4]>; 2]) {
        let sieve = SieveOptions::default()
            .rate(Rate::new(0.2).unwrap())
            .expected_keys(Items::new(20_000));
        let mut options = rocksdb::Options::default();
        options.create_if_missing(true);
        let open = || SieveDb::open(&options, &sieve, home).unwrap();
        let db = open();
        (0..20_000_u32).for_each(|key| db.put(key.to_be_bytes(), "value").unwrap());
        // Nothing is left to be made then, and no view to be shown in the place of this one.
        drop(db);
        let db = open();
        assert!(db.wait_until_known(LIMIT));
        wait_for_second_look(&db);
        let column = db.columns().all().remove(0);
        let (view, hasher) = (column.view(), column.hasher);
        let absent = (1 << 31..(1 << 31) + 10_000_u32).map(u32::to_be_bytes);
        let (denied, passing): (Vec<_>, Vec<_>) =
            absent.partition(|key| view.denied_by_summary(hasher.hash(key)).is_some());
        let passing = passing.into_iter();
        let again = passing.filter(|key| view.answer(hasher.hash(key), key).is_absent());
        let again: Vec<_> = again.collect();
        assert!(again.len() > 100, "{}", again.len());
        (db, [denied, again])
    }

    /// A second look that is not taken costs a read of the engine now and then, and spares one at each key that
    /// is there.
    #[test]
    fn no_second_look_is_taken_while_what_the_summary_lets_by_is_there() {
        let home = tempfile::tempdir().unwrap();
        let (db, [_, passing]) = with_absent_keys(home.path());
        let absent = passing[0];
        let default = db.cf_handle("default").unwrap();
        let reads: [&dyn Fn([u8; 4]) -> bool; 4] = [
            &|key| db.get(key).unwrap().is_some(),
            &|key| db.get_cf(&default, key).unwrap().is_some(),
            &|key| db.multi_get([key]).remove(0).unwrap().is_some(),
            &|key| {
                db.multi_get_cf([(&default, key)])
                    .remove(0)
                    .unwrap()
                    .is_some()
            },
        ];
        for read in reads {
            let entered = || db.stats().false_positives;
            assert!(!read(absent));
            for believed in [false, true] {
                let before = entered();
                assert!((0..7 + u32::from(believed)).all(|key| read(key.to_be_bytes())));
                assert!(!read(absent));
                assert_eq!(entered() - before, u64::from(believed));
            }
            // The engine did not find it.
            let before = entered();
            assert!(!read(absent) && entered() == before);
            assert!((0..8_u32).all(|key| read(key.to_be_bytes())));
            assert!(
                db.answer(absent).is_absent(),
                "asked for itself it gets one"
            );
        }
    }

    /// The engine tells of the others once all were asked.
    #[test]
    fn a_batch_of_which_one_key_passed_in_vain_brings_no_belief() {
        let home = tempfile::tempdir().unwrap();
        let (db, [_, passing]) = with_absent_keys(home.path());
        let batch = (0..20_u32).map(u32::to_be_bytes).chain([passing[0]]);
        let found = db.multi_get(batch).into_iter().map(Result::unwrap);
        assert_eq!(found.flatten().count(), 20);
        assert!(db.get(passing[1]).unwrap().is_none());
        assert_eq!(db.stats().false_positives, 0);
    }

    /// What the summary denies says nothing of what it lets by.
    #[test]
    fn denials_between_them_leave_the_summary_believed() {
        let home = tempfile::tempdir().unwrap();
        let (db, [denied, passing]) = with_absent_keys(home.path());
        for (key, absent) in (0..8_u32).zip(denied) {
            assert!(db.get(key.to_be_bytes()).unwrap().is_some());
            assert!(db.get(absent).unwrap().is_none());
        }
        assert_eq!(db.stats().false_positives, 0);
        assert!(db.get(passing[0]).unwrap().is_none());
        assert_eq!(db.stats().false_positives, 1);
    }

    /// Whether the engine's tables are foretold to be asked after so many reads of a key that is there.
    fn foretold_after(db: &SieveDb, reads: u32, key: &str) -> Option<bool> {
        assert!((0..reads).all(|_| db.get(key).unwrap().is_some()));
        let column = db.columns().all().remove(0);
        column.counters.foretell_tables(OwnSlot::known().unwrap())
    }

    /// Of a thread's keys that are all there, one in 32 tells where they are.
    #[test]
    fn tables_are_foretold_where_the_last_keys_were_in_none_but_these() {
        let home = tempfile::tempdir().unwrap();
        let db = filled(home.path(), &SieveOptions::default());
        wait_for_second_look(&db);
        assert_eq!(foretold_after(&db, 31, "in a table"), Some(false));
        assert_eq!(foretold_after(&db, 1, "in a table"), None);
        assert_eq!(foretold_after(&db, 1, "in a table"), Some(true));
        assert_eq!(foretold_after(&db, 32, "in a memtable"), Some(false));
        assert_eq!(foretold_after(&db, 32, "in a table"), Some(true));
    }

    /// RocksDB's own filters are not at hand.
    #[test]
    fn filters_of_tables_are_foretold_where_they_are_at_hand() {
        let home = tempfile::tempdir().unwrap();
        let db = filled(home.path(), &SieveOptions::default().segment_rate(None));
        assert_eq!(foretold_after(&db, 33, "in a table"), Some(false));
    }
}
