//! Audits: one negative in so many is checked against what stands below the filter that gave it.
//!
//! A false negative is silent: nobody reads what was ruled out. So some of what the front rules out is
//! read from the engine all the same, for as long as the database runs. RocksDB asks the filters of tables
//! that may have had a part in the denial, and believes them; an iterator asks none. Unless the user set the
//! chance, audits are passed over while they rest (`pace`): a loop of denials would draw more than are worth
//! their time.
//!
//! *No false alarm.* A key may be written between the denial and the audit's read. It is then in
//! the filters before the engine shows it, and bits are never cleared: so if the view that was
//! published before the read is still the view after it, and denies the key that the read found,
//! it lies. Where another view was published meanwhile, the audit does not judge the front.
//!
//! *No changed answer.* An audit that cannot read lets the negative stand. One that finds a key which
//! the front denied sends the caller to the engine. What the engine says then is right either way.
//!
//! What it does not see: a key that is there for an old snapshot alone; and what RocksDB rules out by the
//! filter of a table where the front did not, which a full `verify` finds.

use std::ops::Range;
use std::sync::{Arc, Weak};

use rocksdb::ReadOptions;

use super::Engine;
use super::bound;
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

/// Entries that an audit passes over at most where it looks for a key.
const MOST_SKIPPED: u64 = 1_000;

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
    /// The key's hash under the secret seed.
    pub key_hash: u64,
    /// Which seed that was; it does not tell the seed.
    pub seed_id: u64,
    /// Whether the folder of filters says so too, so that the next open makes all of them anew.
    /// False when the disk refused: remove the folder before the database is opened again.
    pub noted: bool,
}

/// What the audits of one column family need besides its front.
#[derive(Debug)]
pub(crate) struct Auditor {
    /// Weak, because the engine holds the front.
    engine: Weak<Engine>,
    trust: Arc<Trust>,
}

impl Auditor {
    pub(crate) fn new(engine: Weak<Engine>, trust: Arc<Trust>) -> Self {
        Self { engine, trust }
    }

    /// Whether a denial by the front stands: the engine did not find the key.
    pub(crate) fn denial_stands(&self, column: &Column, key: &[u8]) -> bool {
        let Some(engine) = self.engine.upgrade() else {
            return true;
        };
        let hash = column.hasher().hash(key);
        let before = column.view();
        column.count(Event::Audited);
        if found(column, &engine, key) != Some(true) {
            return true;
        }
        let now = column.view();
        let same = now.edition == before.edition || planted!(LaterViewRefuted);
        if same && now.answer(hash, key).is_absent() {
            self.refute(column, hash);
        }
        false
    }

    fn refute(&self, column: &Column, hash: KeyHash) {
        column.count(Event::Refuted);
        self.trust.lose(Refutation {
            family: column.name().to_owned(),
            key_hash: hash.get(),
            seed_id: column.hasher().imprint().seed_id,
            noted: false,
        });
    }
}

/// Whether the engine has the key, whatever the filters of its tables say; `None` when that cannot be told.
fn found(column: &Column, engine: &Engine, key: &[u8]) -> Option<bool> {
    let family = bound::family(column, engine)?;
    let mut options = ReadOptions::default();
    // A prefix extractor of the user's would have the tables asked for the prefix.
    options.set_total_order_seek(true);
    options.set_max_skippable_internal_keys(MOST_SKIPPED);
    let mut entries = engine.raw_iterator_cf_opt(&family, options);
    entries.seek(key);
    if entries.status().is_ok() {
        return Some(entries.key() == Some(key));
    }
    // Behind the place of the key are more tombstones than an audit is worth.
    let value = engine.get_pinned_cf(&family, key).ok()?;
    Some(value.is_some())
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
