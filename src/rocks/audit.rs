//! Audits: one negative in so many is checked against what stands below the filter that gave it.
//!
//! A false negative is silent: nobody reads what was ruled out. So some of what was ruled out is
//! read all the same, for as long as the database runs:
//!
//! ```text
//!   front      denies a key     -> the engine is asked, through the tables' filters,
//!                                  or past them where they had a part in the denial
//!   RocksDB    finds no key     -> it is asked again, past the tables' filters
//! ```
//!
//! Either kind is drawn with the same chance. A key that both layers deny wrongly at once is found
//! by the draw of a draw: the first layer's audits, too, go past the tables at that chance. Unless the
//! user set the chance, the front's are passed over while they rest (`pace`): a loop of denials would
//! draw more than are worth their time. RocksDB's come after a walk that costs as much each time.
//!
//! *No false alarm.* A key may be written between the denial and the audit's read. It is then in
//! the filters before the engine shows it, and bits are never cleared: so if the view that was
//! published before the read is still the view after it, and denies the key that the read found,
//! it lies. Where another view was published meanwhile, the audit does not judge the front. The tables'
//! filters are tried by two reads of one snapshot, which only they can make differ; with unordered
//! writes a snapshot still changes, and a secondary has none: there these audits correct the answer
//! without a verdict.
//!
//! *No changed answer.* An audit that cannot read lets the negative stand. One that finds a key which
//! the front denied sends the caller to the engine; one that finds what RocksDB did not has the
//! caller ask again past the tables' filters. What the engine says then is right either way.
//!
//! What it does not see: a key that is there for an old snapshot alone; and, beside unordered writes,
//! what the front and a table's filter both deny while another view is published.

use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Weak};

use rocksdb::{Error, ReadOptions};

use super::Engine;
use super::bound;
use super::bypass::past_table_filters;
use super::column::Column;
use super::coverage::Proof;
use super::trust::Trust;
use crate::hash::KeyHash;
use crate::planted::planted;
use crate::stats::Event;

/// What a look-up came to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Asked {
    /// The filters rule the key out.
    Absent(Proof),
    /// They do, and this negative was drawn for an audit.
    Doubted(Proof),
    /// It may be there.
    Maybe,
    /// The summary lets it by, and is believed: what it let by of late was there.
    Likely,
    /// They were not asked, since the key is likely to be there.
    Spared,
}

/// Which negatives are audited: one in so many, and of keys that take turns each in its share, however many
/// they are.
///
/// What is drawn is `n φ` (mod 2^64), n the [ordinal](crate::stats::Counters::add) of the negative in its thread's slot. For
/// every so many-th of them as well, hence for each of several keys that take turns, that is a sequence which
/// fills the circle evenly (Weyl): at once as a rule, and in the long run where they are as many as a large
/// Fibonacci number. Ordinals begin anywhere, so that a process that ends soon audits its share, and threads
/// audit by turns. It needs nothing that the look-up does not have at hand, and four instructions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sample {
    /// The least draw that is an audit.
    least: u64,
}

/// 2^64 divided by the golden ratio, and odd.
const PHI: u64 = 0x9e37_79b9_7f4a_7c15;

impl Sample {
    /// One in `of`; none for 0.
    pub(crate) const fn one_in(of: u32) -> Self {
        // Of none, one draw of all is left.
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
    pub(crate) fn draws(self, ordinal: u64) -> bool {
        drawn(ordinal) >= self.least
    }

    /// Which to audit of so many negatives, the first of which has this ordinal: one as a rule, so that many
    /// keys cost one draw; all where more than one would be due.
    pub(crate) fn among(self, ordinal: u64, times: usize) -> Range<usize> {
        let audits_less_one = u128::from(u64::MAX - self.least);
        if audits_less_one * times as u128 > u128::from(u64::MAX) {
            return 0..times;
        }
        let at = u128::from(u64::MAX - drawn(ordinal)) / (audits_less_one + 1);
        if at >= times as u128 {
            return 0..0;
        }
        at as usize..at as usize + 1
    }
}

#[inline]
fn drawn(ordinal: u64) -> u64 {
    ordinal.wrapping_mul(PHI)
}

/// Proof that a filter denied a key which is there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Refutation {
    /// The column family.
    pub family: String,
    /// Which filter lied.
    pub filter: Liar,
    /// The key's hash under the secret seed.
    pub key_hash: u64,
    /// Which seed that was; it does not tell the seed.
    pub seed_id: u64,
    /// Whether the folder of filters says so too, so that the next open makes all of them anew.
    /// False when the disk refused: remove the folder before the database is opened again.
    pub noted: bool,
}

/// A filter that was refuted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liar {
    /// The one before the engine, of summary and tables.
    Front,
    /// That of a table, which RocksDB asks.
    Table,
}

impl fmt::Display for Liar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Front => "the front",
            Self::Table => "a table's filter",
        })
    }
}

/// What the audits of one column family need besides its front.
#[derive(Debug)]
pub(crate) struct Auditor {
    /// Weak, because the engine holds the front.
    engine: Weak<Engine>,
    trust: Arc<Trust>,
    /// Not so a secondary: its reads pass over them, and what comes is seen batch by batch.
    has_snapshots: bool,
}

impl Auditor {
    pub(crate) fn new(engine: Weak<Engine>, trust: Arc<Trust>, has_snapshots: bool) -> Self {
        Self {
            engine,
            trust,
            has_snapshots,
        }
    }

    /// Whether a denial by the front stands: the engine did not find the key.
    pub(crate) fn denial_stands(&self, column: &Column, key: &[u8]) -> bool {
        let Some(engine) = self.engine.upgrade() else {
            return true;
        };
        let hash = column.hasher().hash(key);
        let before = column.view();
        let audits = column.count(Event::Audited);
        let read = || found(column, &engine, key);
        let past = before.denied_by_summary(hash).is_none() || column.sample().draws(audits);
        let there = if past {
            past_table_filters(read)
        } else {
            read()
        };
        if there != Some(true) {
            return true;
        }
        let now = column.view();
        let same = now.edition == before.edition || planted!(LaterViewRefuted);
        if same && now.answer(hash, key).is_absent() {
            self.refute(column, hash, Liar::Front);
        } else if past {
            // The caller will read through them.
            self.try_tables(column, &engine, key);
        }
        false
    }

    /// Whether RocksDB does have a key that it did not find, so that it must be asked again, past the
    /// tables' filters.
    pub(crate) fn tables_hide(&self, column: &Column, key: &[u8]) -> bool {
        let Some(engine) = self.engine.upgrade() else {
            return false;
        };
        column.count(Event::Audited);
        let there = past_table_filters(|| found(column, &engine, key));
        if there != Some(true) {
            return false;
        }
        self.try_tables(column, &engine, key);
        true
    }

    /// Refutes the tables' filters if they hide this key.
    fn try_tables(&self, column: &Column, engine: &Engine, key: &[u8]) {
        let fixed = !column.memtables().publishes_first() || planted!(MovingMomentTrusted);
        if self.has_snapshots && fixed && differs_at_one_moment(column, engine, key) {
            self.refute(column, column.hasher().hash(key), Liar::Table);
        }
    }

    fn refute(&self, column: &Column, hash: KeyHash, filter: Liar) {
        column.count(Event::Refuted);
        self.trust.lose(Refutation {
            family: column.name().to_owned(),
            filter,
            key_hash: hash.get(),
            seed_id: column.hasher().imprint().seed_id,
            noted: false,
        });
    }
}

/// Whether the engine finds the key; `None` when that cannot be told.
fn found(column: &Column, engine: &Engine, key: &[u8]) -> Option<bool> {
    let family = bound::family(column, engine)?;
    let value = engine.get_pinned_cf(&family, key).ok()?;
    Some(value.is_some())
}

/// Whether one snapshot has the key past the tables' filters, and has it not through them.
fn differs_at_one_moment(column: &Column, engine: &Engine, key: &[u8]) -> bool {
    let Some(family) = bound::family(column, engine) else {
        return false;
    };
    let moment = engine.snapshot();
    let mut options = ReadOptions::default();
    options.set_snapshot(&moment);
    let read = || -> Result<bool, Error> {
        let value = engine.get_pinned_cf_opt(&family, key, &options)?;
        Ok(value.is_some())
    };
    read() == Ok(false) && past_table_filters(read) == Ok(true)
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, mpsc};
    use std::time::Duration;

    use rocksdb::{MergeOperands, Options};

    use super::*;
    use crate::rocks::{SieveDb, SieveOptions};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn audits(sample: Sample, ordinals: impl Iterator<Item = u64>) -> usize {
        ordinals.filter(|&ordinal| sample.draws(ordinal)).count()
    }

    #[test]
    fn none_is_drawn_of_none_and_every_one_of_one() {
        for first in [0, u64::from(u32::MAX) - 5_000, u64::MAX - 5_000] {
            let ordinals = || (0..10_000).map(|n| first.wrapping_add(n));
            assert_eq!(audits(Sample::one_in(0), ordinals()), 0);
            assert_eq!(audits(Sample::one_in(1), ordinals()), 10_000);
        }
    }

    #[test]
    fn of_many_at_once_one_is_drawn_in_the_share_of_all() {
        let (of, rounds) = (1_000, 100_000_u64);
        for batch in [|_| 64, |round| 1 + round % 64] {
            let mut ordinal = 0;
            let (mut asked, mut drawn) = ([0_u64; 64], [0_u64; 64]);
            for times in (0..rounds).map(batch) {
                asked[..times as usize].iter_mut().for_each(|n| *n += 1);
                for at in Sample::one_in(of).among(ordinal, times as usize) {
                    drawn[at] += 1;
                }
                ordinal += times;
            }
            for (asked, drawn) in asked.into_iter().zip(drawn).filter(|(n, _)| *n > 20_000) {
                let share = asked / u64::from(of);
                assert!(
                    (share / 2..=share * 2).contains(&drawn),
                    "{drawn} of {asked}"
                );
            }
        }
        for of in [1, 64, 1_000, 8_192] {
            let all = of as usize;
            assert_eq!(Sample::one_in(of).among(5, all + 1), 0..all + 1);
            let drawn = |ordinal| Sample::one_in(of).among(ordinal, all).len();
            assert!((0..1_000).all(|ordinal| drawn(ordinal) == 1), "1 in {of}");
        }
        assert_eq!(Sample::one_in(1).among(5, 64), 0..64);
        assert_eq!(Sample::one_in(0).among(0, 64), 0..0);
    }

    /// Keys that take turns in step with the sample would else be passed over for ever.
    #[test]
    fn every_key_is_drawn_in_its_share_whatever_its_turn() {
        for of in [2_u32, 16, 1_000, 1_024, 8_192] {
            for turns in [1_u64, 2, 3, 8, 1_000, 1_024, 1 << 20] {
                for turn in [0, turns / 2, turns - 1] {
                    let ordinals = (0..u64::from(of) * 100).map(|round| turn + round * turns);
                    let drawn = audits(Sample::one_in(of), ordinals);
                    assert!(
                        (60..=140).contains(&drawn),
                        "{drawn} of 100: 1 in {of}, {turns} keys"
                    );
                }
            }
        }
    }

    /// While the audit reads the key, it is deleted and consolidated away: the new view denies it by
    /// right.
    #[test]
    fn a_view_is_not_refuted_by_what_was_read_before_it_came() {
        let home = tempfile::tempdir().unwrap();
        let (reading, is_read) = mpsc::channel();
        let (go_on, goes_on) = mpsc::channel();
        let trap = Arc::new(Mutex::new(Some((reading, goes_on))));
        let stops_once = move |_: &[u8], _: Option<&[u8]>, _: &MergeOperands| {
            let sprung = trap.lock().unwrap().take();
            if let Some((reading, goes_on)) = sprung {
                reading.send(()).unwrap();
                goes_on.recv_timeout(PATIENCE).unwrap();
            }
            Some(b"merged".to_vec())
        };
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_merge_operator_associative("stops once", stops_once);
        let sieve = SieveOptions::default().audit(0);
        let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
        assert!(db.wait_until_covered(PATIENCE));
        db.merge("key", "operand").unwrap();
        let column = db.columns().all().remove(0);
        std::thread::scope(|scope| {
            let audit = scope.spawn(|| column.denial_stands(b"key"));
            is_read.recv_timeout(PATIENCE).unwrap();
            db.delete("key").unwrap();
            db.consolidate().unwrap();
            assert!(db.answer("key").is_absent());
            go_on.send(()).unwrap();
            assert!(!audit.join().unwrap(), "the engine found it");
        });
        assert_eq!(db.refutation(), None);
    }
}
