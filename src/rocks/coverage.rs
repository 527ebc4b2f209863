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
use super::runs::{SortedRuns, Spanning};
use crate::filter::{Glance, Lens, Scalable};
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

/// More uncovered tables than this over one another are not told apart: to ask each would take as long as the
/// engine does.
const MOST_RUNS: usize = 64;

/// One consistent set of filters.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Fed by the memtables, with remixed hashes: its false positives are not the tables'.
    pub(crate) summary: Arc<Scalable>,
    pub(crate) coverage: Coverage,
    /// Asked where the summary says *maybe*, if that is not believed; complete by itself. None beside unknown
    /// coverage.
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
    AllBut(Arc<Uncovered>),
}

impl Coverage {
    pub(crate) fn all_but(uncovered: Vec<Spanning<'_, OwnFilter>>) -> Self {
        if uncovered.is_empty() {
            Self::Complete
        } else {
            Self::AllBut(Arc::new(Uncovered::new(uncovered)))
        }
    }

    #[inline]
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, Self::Complete)
    }
}

/// The filter of a live table whose keys are not all in the summary, where the table has an identity to bind
/// one to.
pub(crate) type OwnFilter = Option<Arc<Segment>>;

/// Live tables whose keys are not all in the summary: one at least.
#[derive(Debug)]
pub(crate) struct Uncovered {
    count: usize,
    /// How many of these have no id: no filter will be bound to them.
    without_id: usize,
    /// `None` where too many lie over one another: any of them may hold any key.
    tables: Option<SortedRuns<OwnFilter>>,
}

impl Uncovered {
    fn new(tables: Vec<Spanning<'_, OwnFilter>>) -> Self {
        Self {
            count: tables.len(),
            without_id: tables.iter().filter(|table| table.filter.is_none()).count(),
            tables: SortedRuns::new(tables, MOST_RUNS),
        }
    }

    fn may_contain(&self, hash: KeyHash, key: &[u8]) -> bool {
        if planted!(UncoveredIgnored) {
            return false;
        }
        let Some(tables) = &self.tables else {
            return true;
        };
        tables.that_may_hold(key).any(|segment| {
            let answer = segment.as_ref().and_then(|segment| segment.answer(hash));
            answer.unwrap_or(true)
        })
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

    /// Evidence that a glance at the summary gives, if the summary speaks for all tables.
    #[inline(always)]
    pub(crate) fn absent_at_a_glance<G: Glance>(
        &self,
        lens: impl Lens,
        hash: KeyHash,
    ) -> Option<Proof> {
        if !self.coverage.is_complete() && !planted!(SummaryAlwaysSuffices) {
            return None;
        }
        let is_denied = self.summary.denies::<G>(lens, hash.remixed());
        is_denied.then_some(Proof(()))
    }

    /// The view's answer for a key and its hash.
    pub(crate) fn answer(&self, hash: KeyHash, key: &[u8]) -> Answer {
        self.answer_and_pass(hash, key).0
    }

    /// [`View::answer`], and whether the summary let the key by, or had to.
    pub(crate) fn answer_and_pass(&self, hash: KeyHash, key: &[u8]) -> (Answer, bool) {
        if !self.is_known() {
            return (Answer::Maybe, true);
        }
        let summary = self.summary.may_contain(hash.remixed());
        if self.may_hold(summary, hash, key) {
            return (Answer::Maybe, summary);
        }
        (Answer::Absent(Proof(())), summary)
    }

    /// Whether filters that are known here are asked by the engine for a key that is there: those of tables for one
    /// that is in no memtable.
    pub(crate) fn tables_are_asked(&self, hash: KeyHash) -> bool {
        let inventory = self.inventory.as_ref();
        inventory.is_some_and(|inventory| !inventory.recent_may_contain(hash))
    }

    /// Asks the processor for the lines of these filters.
    pub(crate) fn prefetch_tables(&self, hash: KeyHash, key: &[u8]) {
        if let Some(inventory) = &self.inventory {
            inventory.prefetch_tables(hash, key);
        }
    }

    /// Evidence that the summary gives by itself, without the filter of a table.
    pub(crate) fn denied_by_summary(&self, hash: KeyHash) -> Option<Proof> {
        if !self.coverage.is_complete() && !planted!(SummaryAlwaysSuffices) {
            return None;
        }
        let is_denied = !self.summary.may_contain(hash.remixed());
        is_denied.then_some(Proof(()))
    }

    /// Whether there is a second look, and nothing between it and the summary.
    pub(crate) fn has_second_look(&self) -> bool {
        let is_complete = self.coverage.is_complete() || planted!(BelievedUncovered);
        is_complete && self.inventory.is_some()
    }

    /// False only for an absent key; `summary` is what the summary says of it.
    #[inline(always)]
    fn may_hold(&self, summary: bool, hash: KeyHash, key: &[u8]) -> bool {
        let found = summary
            || match &self.coverage {
                Coverage::Unknown => true,
                Coverage::Complete => false,
                Coverage::AllBut(uncovered) => uncovered.may_contain(hash, key),
            };
        let inventory = self.inventory.as_ref();
        found && inventory.is_none_or(|inventory| inventory.may_contain(hash, key))
    }

    /// [`View::answer`] for up to [`CHUNK`] keys: false where the key is certainly absent. What the summary lets by
    /// is not looked at again where it is `believed`.
    pub(crate) fn answer_many(
        &self,
        hasher: KeyHasher,
        keys: &[impl AsRef<[u8]>],
        maybe: &mut [bool],
        believed: bool,
    ) -> LetBy {
        if !self.is_known() {
            maybe.fill(true);
            return LetBy::alike(keys.len());
        }
        let believed = believed && self.has_second_look();
        let mut remixed = [KeyHash::new(0); CHUNK];
        let remixed = &mut remixed[..keys.len()];
        for (remixed, key) in remixed.iter_mut().zip(keys) {
            *remixed = hasher.hash(key.as_ref()).remixed();
            // At once: the lines come while the next keys are hashed.
            self.summary.prefetch(*remixed);
        }
        let mut by_summary = 0;
        let strides = remixed.chunks(STRIDE).zip(keys.chunks(STRIDE));
        for ((remixed, keys), maybe) in strides.zip(maybe.chunks_mut(STRIDE)) {
            self.summary.contains_prefetched(remixed, maybe);
            let let_by = count(maybe);
            by_summary += let_by;
            if let_by > 0 && !believed {
                self.prefetch_inventory(hasher, keys, maybe);
            }
        }
        if believed || (by_summary == 0 && self.coverage.is_complete()) {
            return LetBy::alike(by_summary);
        }
        self.look_again(hasher, keys, maybe);
        LetBy {
            by_summary,
            in_the_end: count(maybe),
        }
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
    fn look_again(&self, hasher: KeyHasher, keys: &[impl AsRef<[u8]>], maybe: &mut [bool]) {
        let any_is_uncovered = !self.coverage.is_complete() && !planted!(ManyIgnoreUncovered);
        for (maybe, key) in maybe.iter_mut().zip(keys) {
            if *maybe || any_is_uncovered {
                let key = key.as_ref();
                *maybe = self.may_hold(*maybe, hasher.hash(key), key);
            }
        }
    }

    /// Whether anything can be ruled out.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.coverage, Coverage::Unknown)
    }

    /// How many live tables the summary does not speak for; `None` when that is not known.
    pub(crate) fn uncovered(&self) -> Option<usize> {
        match &self.coverage {
            Coverage::Unknown => None,
            Coverage::Complete => Some(0),
            Coverage::AllBut(uncovered) => Some(uncovered.count),
        }
    }

    /// How many of those have no id.
    pub(crate) fn without_id(&self) -> usize {
        match &self.coverage {
            Coverage::Unknown | Coverage::Complete => 0,
            Coverage::AllBut(uncovered) => uncovered.without_id,
        }
    }
}

/// How many of several keys were let by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LetBy {
    /// By the summary.
    pub(crate) by_summary: usize,
    /// By what was looked at after it as well.
    pub(crate) in_the_end: usize,
}

impl LetBy {
    fn alike(count: usize) -> Self {
        Self {
            by_summary: count,
            in_the_end: count,
        }
    }
}

/// How many are true.
fn count(answers: &[bool]) -> usize {
    answers.iter().map(|&answer| usize::from(answer)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::{Chain, ScalableOptions};
    use crate::format::Source;
    use crate::hash::{HashId, Seed};
    use crate::math::Rate;
    use crate::rocks::inventory::in_runs;
    use crate::rocks::range::KeyRange;
    use crate::segment::SealedFilter;

    /// Look-ups ask whether coverage is complete before they ask for one line alone.
    #[test]
    fn coverage_of_all_but_none_is_complete() {
        assert!(Coverage::all_but(Vec::new()).is_complete());
    }

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([4; 16]))
    }

    /// Of an empty summary, beside tables without filters that span this.
    fn view_beside(ranges: &[Option<KeyRange>]) -> View {
        let summary = Scalable::new(hasher().imprint().remixed(), ScalableOptions::default());
        let spanning = ranges.iter().map(|range| Spanning {
            filter: None,
            range: range.as_ref(),
        });
        View {
            coverage: Coverage::all_but(spanning.collect()),
            ..View::unknown(Arc::new(summary))
        }
    }

    /// The answer for a key alone, which is also that for the key among others.
    fn rules_out(view: &View, key: &[u8]) -> bool {
        let alone = view.answer(hasher().hash(key), key).is_absent();
        let mut maybe = [true; 2];
        view.answer_many(hasher(), &[b"~", key], &mut maybe, false);
        assert_eq!(maybe[1], !alone, "{key:?}");
        alone
    }

    /// RocksDB tells tables and ranges in two calls; between them a table may be compacted away.
    #[test]
    fn a_table_whose_range_is_not_known_may_hold_any_key() {
        assert!(!rules_out(&view_beside(&[None]), b"key"));
    }

    /// It has no key of a table that it does not cover.
    #[test]
    fn a_summary_is_not_believed_beside_tables_that_it_does_not_cover() {
        let nothing = Chain::saturated(hasher().imprint());
        let filter = SealedFilter::new(nothing, 0, Rate::ONE_PERCENT, Source::TableCapture);
        let table = Spanning {
            filter: Arc::new(filter),
            range: None,
        };
        let tables = in_runs(vec![table]).unwrap();
        let view = View {
            inventory: Some(Inventory::new(tables, Vec::new())),
            ..view_beside(&[None])
        };
        for believed in [false, true] {
            let mut maybe = [true];
            let let_by = view.answer_many(hasher(), &[b"key"], &mut maybe, believed);
            assert_eq!((maybe, let_by.in_the_end), ([true], 1));
        }
    }

    #[test]
    fn of_tables_that_are_not_covered_those_matter_that_span_the_key() {
        let number = |i: u32| i.to_be_bytes();
        let spanning = |first, last| Some(KeyRange::new(&number(first), &number(last)));
        let beside: Vec<_> = (0..1_000).map(|i| spanning(10 * i, 10 * i + 8)).collect();
        let view = view_beside(&beside);
        for i in 0..10_010 {
            assert_eq!(rules_out(&view, &number(i)), i % 10 == 9 || i >= 10_000);
        }
        let few: Vec<_> = (0..60).map(|i| spanning(i, 1_000)).collect();
        assert!(rules_out(&view_beside(&few), &number(2_000)));
        let many: Vec<_> = (0..70).map(|i| spanning(i, 1_000)).collect();
        assert!(!rules_out(&view_beside(&many), &number(2_000)));
    }
}
