//! Lookups of many keys at once: the twin of [`super::lookup`].
//!
//! ```text
//! keys ── 1 filters, a chunk at a time: all prefetches, then all probes ── absent ──► not found
//!             │ maybe
//!         2 the engine, once, for the keys that passed
//!         3 a second check: do the filters still say *absent* of the others?
//!             │ no: the engine again, for all keys
//!         4 feedback to the counters and the predictor
//! ```
//!
//! RocksDB's `MultiGet` returns the values of one moment. So a key that the filters answered absent
//! before the engine was read must be absent after it as well. It is if the edition of the view is
//! the same, since an *absent* of one edition holds at every moment since. Otherwise the key may
//! have been written between the two, perhaps by a batch that deleted another.

use std::borrow::Cow;
use std::sync::Arc;

use crate::cf_filter::lookup::{self, Verdict};
use crate::cf_filter::{CfFilter, Lookups};
use crate::fault::fault;
use crate::predictor::Outcome;
use crate::reach::reached;
use crate::stats::Event;
use crate::view::{CHUNK, View};

/// The values of several keys, in their order.
pub(crate) type Values<V, E> = Vec<Result<Option<V>, E>>;

/// The values of keys of one column family. `engine` reads those that it is given.
pub fn multi_get<V, E, K: AsRef<[u8]>>(
    cf: &CfFilter,
    keys: &[K],
    engine: impl Fn(&[&[u8]]) -> Values<V, E>,
) -> Values<V, E> {
    multi_get_at(cf, keys, |passed: &[usize]| {
        let keys: Vec<&[u8]> = passed.iter().map(|&at| keys[at].as_ref()).collect();
        engine(&keys)
    })
}

/// [`multi_get`] with an `engine` that reads the keys at the indexes that it is given.
pub fn multi_get_at<V, E, K: AsRef<[u8]>>(
    cf: &CfFilter,
    keys: &[K],
    engine: impl Fn(&[usize]) -> Values<V, E>,
) -> Values<V, E> {
    let lookups = cf.lookups();
    // 1.
    let (edition, checked) = check_many(cf, keys);
    let still_absent = |passed: &[usize]| {
        let absent = (0..keys.len()).filter(|at| passed.binary_search(at).is_err());
        let absent: Vec<&[u8]> = absent.map(|at| keys[at].as_ref()).collect();
        lookups.still_absent(&absent, edition)
    };
    let record = |_: usize, found: Option<bool>| lookups.record(Verdict::Maybe, found);
    let values = read_passed(
        keys.len(),
        checked.passed,
        true,
        still_absent,
        engine,
        record,
    );
    // 4. After the hits of the same batch, which say nothing of the next lookup then.
    if let Some(outcome) = checked.outcome {
        lookups.record_outcome(outcome);
    }
    values
}

/// The values of keys, each with the filters of its column family, if that has any. `engine` reads
/// the keys at the indexes that it is given.
pub fn multi_get_cf<V, E>(
    keys: &[(Option<Arc<CfFilter>>, &[u8])],
    engine: impl Fn(&[usize]) -> Values<V, E>,
) -> Values<V, E> {
    let editions: Vec<_> = keys
        .iter()
        .map(|(cf, _)| cf.as_ref().map(|cf| cf.lookups().edition()))
        .collect();
    // 1.
    let is_absent = |(cf, key): &(Option<Arc<CfFilter>>, &[u8])| {
        cf.as_ref().is_some_and(|cf| lookup::rules_out(&**cf, key))
    };
    let passed = (0..keys.len())
        .filter(|&at| !is_absent(&keys[at]))
        .collect();
    let still_absent = |passed: &[usize]| {
        fault!(
            NegativesOfManyMoments,
            if passed.is_empty() {
                return true;
            }
        );
        let mut absent = (0..keys.len()).filter(|at| passed.binary_search(at).is_err());
        absent.all(|at| {
            let cf = keys[at].0.as_ref().zip(editions[at]);
            cf.is_some_and(|(cf, edition)| cf.lookups().still_absent(&[keys[at].1], edition))
        })
    };
    let record = |at: usize, found: Option<bool>| {
        if let Some(cf) = &keys[at].0 {
            cf.lookups().record(Verdict::Maybe, found);
        }
    };
    // Each was checked at a moment of its own.
    read_passed(keys.len(), passed, false, still_absent, engine, record)
}

/// The values of `count` keys, of which those at the indexes `passed`, ascending, passed the
/// filters. The others were counted as *absent*, and are not recorded even if they are read. H14.
fn read_passed<V, E>(
    count: usize,
    passed: Vec<usize>,
    at_one_moment: bool,
    still_absent: impl Fn(&[usize]) -> bool,
    engine: impl Fn(&[usize]) -> Values<V, E>,
    record: impl Fn(usize, Option<bool>),
) -> Values<V, E> {
    let mut values = Values::new();
    values.resize_with(count, || Ok(None));
    if passed.is_empty() && (at_one_moment || still_absent(&passed)) {
        return values;
    }
    // 2.
    let all = || Cow::Owned((0..count).collect());
    let mut read = match passed.is_empty() {
        true => all(),
        false => Cow::Borrowed(&passed),
    };
    let mut found = engine(&read);
    // 3.
    if read.len() < count && !still_absent(&passed) {
        read = all();
        found = engine(&read);
    }
    for (&at, value) in read.iter().zip(found) {
        if is_counted(at, &passed, &read) {
            record(at, lookup::found(&value));
        }
        values[at] = value;
    }
    fault!(AnswersShifted, values.rotate_right(1));
    values
}

/// Whether the engine's answer for a key is counted. It is not if the key was counted as *absent*.
fn is_counted(at: usize, passed: &[usize], read: &[usize]) -> bool {
    fault!(
        EngineReadCountedShort,
        if read.last() == Some(&at) {
            return false;
        }
    );
    passed.binary_search(&at).is_ok()
}

/// What the filters said of several keys.
struct Checked {
    /// The indexes of the keys that may exist, ascending.
    passed: Vec<usize>,
    /// The outcome for the predictor; `None` if every key may exist.
    outcome: Option<Outcome>,
}

/// What the filters say of several keys, and the edition of the view that is published before.
fn check_many(cf: &CfFilter, keys: &[impl AsRef<[u8]>]) -> (u64, Checked) {
    let edition = || cf.lookups().edition();
    fault!(ViewNotedLate, {
        let checked = cf.check_many(keys);
        return (edition(), checked);
    });
    (edition(), cf.check_many(keys))
}

impl CfFilter {
    /// The indexes of the keys that may exist, ascending. The others are counted as *absent*, and
    /// some of them are audited. Must not be called while this thread is in a read of the filters.
    pub fn candidate_indexes(&self, keys: &[impl AsRef<[u8]>]) -> Vec<usize> {
        self.check_many(keys).passed
    }

    fn check_many(&self, keys: &[impl AsRef<[u8]>]) -> Checked {
        let mut passed = Vec::new();
        let mut sampled = Vec::new();
        let lookups = &self.lookups;
        lookups.with_view(|view| {
            for (chunk, keys) in keys.chunks(CHUNK).enumerate() {
                let mut maybe = [true; CHUNK];
                let first = chunk * CHUNK;
                let maybe = &mut maybe[..keys.len()];
                let candidates = view.check_many(lookups.hasher(), keys, maybe);
                passed.extend((0..keys.len()).filter(|&at| maybe[at]).map(|at| first + at));
                let absent = absent_of(keys.len(), candidates);
                let ordinal = lookups.counters().add(Event::Absent, absent as u64);
                let draws = lookups.sample().among(ordinal, absent);
                let absent = (0..keys.len()).filter(|&at| !maybe[at]);
                let draws = absent.skip(draws.start).take(draws.len());
                sampled.extend(draws.map(|at| first + at));
            }
        });
        let outcome = (passed.len() < keys.len()).then_some(Outcome::Miss);
        if !sampled.is_empty() {
            sampled.retain(|&at| !self.audit_unless_throttled(keys[at].as_ref()));
            passed.extend(sampled);
            passed.sort_unstable();
        }
        Checked { passed, outcome }
    }
}

fn absent_of(keys: usize, candidates: usize) -> usize {
    let absent = keys - candidates;
    fault!(AbsentCountedShort, return absent - usize::from(absent > 1));
    absent
}

impl Lookups {
    /// Whether the view of this edition is still published and says *absent* of these keys. If so,
    /// it did at every moment since.
    pub(crate) fn still_absent(&self, keys: &[impl AsRef<[u8]>], edition: u64) -> bool {
        self.with_view(|view| {
            let mut chunks = keys.chunks(CHUNK);
            if !is_of_edition(view, edition) {
                reached!(ViewChangedInBatch);
                return false;
            }
            let are_absent = chunks.all(|keys| {
                let mut maybe = [true; CHUNK];
                let maybe = &mut maybe[..keys.len()];
                view.check_many(self.hasher(), keys, maybe) == 0
            });
            reached!(KeyCameInBatch, !are_absent);
            are_absent
        })
    }
}

fn is_of_edition(view: &View, edition: u64) -> bool {
    fault!(ViewChangeUnchecked, return true);
    view.edition == edition
}
