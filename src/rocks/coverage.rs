//! What a reader consults: one view, loaded once, that says which keys are nowhere.
//!
//! *Absent* may be answered only by a view that is complete: its summary holds every key that a
//! memtable ever took and every key of the tables that were live when the view was made, except
//! the tables that it lists as uncovered, which are asked one by one. Keys are added to the
//! summary before the engine makes them visible; compaction only removes keys; so a complete view
//! stays complete until keys arrive from outside (an ingested file), and then another view, which
//! knows nothing, is published first.

use std::sync::Arc;

use super::inventory::Inventory;
use super::range::KeyRange;
use crate::filter::{Lens, Scalable};
use crate::hash::{KeyHash, KeyHasher};
use crate::planted::planted;
use crate::segment::Segment;

/// The answer of the filters to "is this key in the database?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is in no memtable and in no table.
    Absent(Proof),
    /// It may be there; ask the engine.
    Maybe,
}

impl Answer {
    /// Whether the key is certainly not there.
    pub fn is_absent(self) -> bool {
        matches!(self, Self::Absent(_))
    }
}

/// Evidence of a complete view without a match; nothing else can make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proof(());

/// Keys that are looked up together.
pub(crate) const CHUNK: usize = 64;

/// Of these, so many are looked at before the lines are asked for that their second looks need: those
/// come while the next are looked at.
const STRIDE: usize = 16;

/// One consistent set of filters.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Fed by the memtables, with remixed hashes: its false positives are not the tables'.
    pub(crate) summary: Arc<Scalable>,
    pub(crate) coverage: Coverage,
    /// Asked where the summary says *maybe*; complete by itself. None beside unknown coverage.
    pub(crate) inventory: Option<Inventory>,
    /// Grows with each view of a column that is published.
    pub(crate) edition: u64,
}

/// Which tables the summary does not speak for.
#[derive(Clone, Debug)]
pub(crate) enum Coverage {
    /// Not known: nothing can be ruled out.
    Unknown,
    /// None: a case of its own, since each look-up asks.
    Complete,
    /// These, and no others.
    AllBut(Arc<[Uncovered]>),
}

impl Coverage {
    pub(crate) fn all_but(uncovered: impl Iterator<Item = Uncovered>) -> Self {
        let uncovered: Arc<[Uncovered]> = uncovered.collect();
        if uncovered.is_empty() {
            Self::Complete
        } else {
            Self::AllBut(uncovered)
        }
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }

    /// `None` when it is not known which they are.
    fn uncovered(&self) -> Option<&[Uncovered]> {
        match self {
            Self::Unknown => None,
            Self::Complete => Some(&[]),
            Self::AllBut(tables) => Some(tables),
        }
    }
}

/// A live table whose keys are not all in the summary.
#[derive(Debug)]
pub(crate) struct Uncovered {
    /// Its own filter, where it has an identity to bind one to.
    pub(crate) segment: Option<Arc<Segment>>,
    /// What it spans, if known.
    pub(crate) range: Option<KeyRange>,
}

impl Uncovered {
    fn may_contain(&self, hash: KeyHash, key: &[u8]) -> bool {
        if planted!(UncoveredIgnored) {
            return false;
        }
        let segment = self.segment.as_ref();
        let answer = || segment.and_then(|segment| segment.answer(hash));
        self.in_range(key) && answer().unwrap_or(true)
    }

    fn in_range(&self, key: &[u8]) -> bool {
        match &self.range {
            Some(range) => range.contains(key),
            None => !planted!(UnknownRangeIsEmpty),
        }
    }
}

impl View {
    /// A view that rules nothing out.
    pub(crate) fn unknown(summary: Arc<Scalable>) -> Self {
        Self {
            summary,
            coverage: Coverage::Unknown,
            inventory: None,
            edition: 0,
        }
    }

    /// Evidence that one line of the summary gives, if it has one that tells, and speaks for all tables.
    #[inline(always)]
    pub(crate) fn absent_at_once(&self, hash: KeyHash, lens: impl Lens) -> Option<Proof> {
        if !self.coverage.is_complete() && !planted!(SummaryAlwaysSuffices) {
            return None;
        }
        let spot = self.summary.spot(hash.remixed())?;
        (!spot.is_taken(lens)).then_some(Proof(()))
    }

    /// The view's answer for a key and its hash.
    pub(crate) fn answer(&self, hash: KeyHash, key: &[u8]) -> Answer {
        let Some(uncovered) = self.coverage.uncovered() else {
            return Answer::Maybe;
        };
        let summary = self.summary.may_contain(hash.remixed());
        if self.may_hold(summary, uncovered, hash, key) {
            return Answer::Maybe;
        }
        Answer::Absent(Proof(()))
    }

    /// [`View::answer`] for a key that is likely to be there: it takes a second look as a rule, so all
    /// lines are asked for at once.
    pub(crate) fn answer_likely(&self, hash: KeyHash, key: &[u8]) -> Answer {
        let Some(inventory) = self
            .inventory
            .as_ref()
            .filter(|_| self.coverage.is_complete())
        else {
            return self.answer(hash, key);
        };
        let remixed = hash.remixed();
        self.summary.prefetch(remixed);
        if inventory.may_contain(hash, key) && self.summary.may_contain(remixed) {
            return Answer::Maybe;
        }
        Answer::Absent(Proof(()))
    }

    /// Whether the summary rules the key out by itself, without the filter of a table.
    pub(crate) fn summary_denies(&self, hash: KeyHash) -> bool {
        self.coverage.is_complete() && !self.summary.may_contain(hash.remixed())
    }

    /// False only for an absent key; `summary` is what the summary says of it, which does not speak for the
    /// tables that are `uncovered`.
    #[inline(always)]
    fn may_hold(&self, summary: bool, uncovered: &[Uncovered], hash: KeyHash, key: &[u8]) -> bool {
        let found = summary || uncovered.iter().any(|table| table.may_contain(hash, key));
        let inventory = self.inventory.as_ref();
        found && inventory.is_none_or(|inventory| inventory.may_contain(hash, key))
    }

    /// [`View::answer`] for up to [`CHUNK`] keys: false where the key is certainly absent. Returns whether
    /// one is not.
    pub(crate) fn answer_many(
        &self,
        hasher: KeyHasher,
        keys: &[impl AsRef<[u8]>],
        maybe: &mut [bool],
    ) -> bool {
        let Some(uncovered) = self.coverage.uncovered() else {
            maybe.fill(true);
            return true;
        };
        let mut remixed = [KeyHash::new(0); CHUNK];
        let remixed = &mut remixed[..keys.len()];
        for (remixed, key) in remixed.iter_mut().zip(keys) {
            *remixed = hasher.hash(key.as_ref()).remixed();
            // At once: the lines come while the next keys are hashed.
            self.summary.prefetch(*remixed);
        }
        let mut any = !uncovered.is_empty();
        let strides = remixed.chunks(STRIDE).zip(keys.chunks(STRIDE));
        for ((remixed, keys), maybe) in strides.zip(maybe.chunks_mut(STRIDE)) {
            self.summary.contains_prefetched(remixed, maybe);
            if contains_one(maybe) {
                any = true;
                self.prefetch_inventory(hasher, keys, maybe);
            }
        }
        any && self.look_again(hasher, keys, maybe)
    }

    /// Asks the processor for what [`View::look_again`] will look at.
    #[cold]
    fn prefetch_inventory(&self, hasher: KeyHasher, keys: &[impl AsRef<[u8]>], maybe: &[bool]) {
        if let Some(inventory) = &self.inventory {
            let found = keys.iter().zip(maybe).filter(|(_, maybe)| **maybe);
            let keys = found.map(|(key, _)| key.as_ref());
            keys.for_each(|key| inventory.prefetch(hasher.hash(key), key));
        }
    }

    /// What else there is to say of keys of which the summary says `maybe`, or not. Few are *maybe* as a
    /// rule, and no other key is hashed again.
    fn look_again(&self, hasher: KeyHasher, keys: &[impl AsRef<[u8]>], maybe: &mut [bool]) -> bool {
        let uncovered = self.coverage.uncovered();
        let uncovered = uncovered.filter(|_| !planted!(ManyIgnoreUncovered));
        let uncovered = uncovered.unwrap_or_default();
        for (maybe, key) in maybe.iter_mut().zip(keys) {
            if *maybe || !uncovered.is_empty() {
                let key = key.as_ref();
                *maybe = self.may_hold(*maybe, uncovered, hasher.hash(key), key);
            }
        }
        contains_one(maybe)
    }

    pub(crate) fn is_known(&self) -> bool {
        self.coverage.uncovered().is_some()
    }

    /// How many live tables the summary does not speak for; `None` when that is not known.
    pub(crate) fn uncovered(&self) -> Option<usize> {
        self.coverage.uncovered().map(<[_]>::len)
    }
}

/// Whether one is true; all are read, since a loop that ends early is slower for so few.
fn contains_one(answers: &[bool]) -> bool {
    answers.iter().fold(false, |any, &answer| any | answer)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::ScalableOptions;
    use crate::hash::{HashId, Seed};

    /// Look-ups ask whether coverage is complete before they ask for one line alone.
    #[test]
    fn coverage_of_all_but_none_is_complete() {
        assert!(Coverage::all_but([].into_iter()).is_complete());
    }

    /// RocksDB tells tables and ranges in two calls; between them a table may be compacted away.
    #[test]
    fn a_table_whose_range_is_not_known_may_hold_any_key() {
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([4; 16]));
        let summary = Scalable::new(hasher.imprint().remixed(), ScalableOptions::default());
        let unplaced = Uncovered {
            segment: None,
            range: None,
        };
        let view = View {
            coverage: Coverage::all_but([unplaced].into_iter()),
            ..View::unknown(Arc::new(summary))
        };
        let hash = hasher.hash(b"key");
        assert_eq!(view.answer(hash, b"key"), Answer::Maybe);
        let mut maybe = [false];
        assert!(view.answer_many(hasher, &[b"key"], &mut maybe));
        assert_eq!(maybe, [true]);
    }
}
