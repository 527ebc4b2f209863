//! What a lookup reads: one view, loaded once, that proves which keys are absent.
//!
//! *Invariant 1.* *Absent* may be answered only by a view of known coverage. Its summary filter
//! holds the key of every entry in a memtable and in a segment that was live when the view was made,
//! but for tombstones. The exceptions are the segments that the view lists as uncovered, which are
//! checked one by one. Keys are inserted into the summary filter before the engine makes them
//! visible, and compaction only removes keys. So a view stays valid until external writes arrive,
//! such as an ingested file. Before they do, another view of unknown coverage is published.

use std::sync::Arc;

use crate::fault::fault;
use crate::filter::{Scalable, Simd};
use crate::hash::{KeyHash, KeyHasher};
use crate::prefix::{PrefixSet, Prefixes};
use crate::ranges::{RangeProbe, Ranges};
use crate::reach::reached;
use crate::segment::Segment;
use crate::sorted_runs::{SortedRuns, WithRange};

/// The answer of the filters to "is this key in the database?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key is in no memtable and in no segment.
    Absent(AbsenceProof),
    /// The key may exist; read the engine.
    Maybe,
}

impl Answer {
    /// Whether the key certainly does not exist.
    pub fn is_absent(self) -> bool {
        matches!(self, Self::Absent(_))
    }
}

/// Proof that the filters of a view with known coverage do not contain a key. Only such a view can
/// make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsenceProof(());

impl AbsenceProof {
    /// The proof, if the filters of a view of known coverage say that it holds no such key.
    #[inline(always)]
    fn unless(may_hold: bool) -> Option<Self> {
        (!may_hold).then_some(Self(()))
    }
}

/// Keys that are looked up together.
pub(crate) const CHUNK: usize = 64;

/// If more uncovered segments than this overlap at one key, none is checked and every key is *maybe*.
/// Probing each would take as long as the engine does.
const MOST_RUNS: usize = 64;

/// A summary filter, and what is known of ranges beside it.
#[derive(Clone, Debug)]
pub struct Summary {
    pub(crate) filter: Arc<Scalable>,
    pub(crate) ranges: Ranges,
}

impl From<Arc<Scalable>> for Summary {
    /// One without a range filter, unless it has one already.
    fn from(filter: Arc<Scalable>) -> Self {
        Self {
            filter,
            ranges: Ranges::Unknown,
        }
    }
}

/// One consistent set of filters.
#[derive(Clone, Debug)]
pub struct View {
    /// Writes feed it. Its hashes are remixed, so that its false positives are independent of those
    /// of the segment filters.
    pub summary: Arc<Scalable>,
    pub(crate) coverage: Coverage,
    /// The prefixes that the summary filter has of all keys that it has.
    pub(crate) summary_prefixes: PrefixSet,
    /// What is known of ranges beside the blocks in the summary filter.
    pub(crate) ranges: Ranges,
    /// Grows with each view of a column family that is published.
    pub(crate) edition: u64,
}

/// Which segments the summary filter does not cover.
#[derive(Clone, Debug)]
pub enum Coverage {
    /// Unknown: no key can be proved absent.
    Unknown,
    /// It covers all. This is a case of its own, since each lookup checks it.
    Complete,
    /// It covers all but these.
    AllBut(Arc<Uncovered>),
}

impl Coverage {
    pub(crate) fn all_but(uncovered: Vec<WithRange<'_, MaybeFilter>>) -> Self {
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

/// The segment filter of a live segment that is not covered. `None` if the segment has no id to bind a
/// filter to.
pub(crate) type MaybeFilter = Option<Arc<Segment>>;

/// Live segments that are not covered: at least one. H23.
#[derive(Debug)]
pub struct Uncovered {
    count: usize,
    /// How many of these have no id, so that no filter will be bound to them.
    without_id: usize,
    /// `None` if too many segments overlap: any of them may hold any key.
    segments: Option<SortedRuns<MaybeFilter>>,
}

impl Uncovered {
    fn new(segments: Vec<WithRange<'_, MaybeFilter>>) -> Self {
        Self {
            count: segments.len(),
            without_id: segments
                .iter()
                .filter(|segment| segment.filter.is_none())
                .count(),
            segments: SortedRuns::new(segments, MOST_RUNS),
        }
    }

    fn may_contain_prefix(&self, probe: PrefixProbe<'_>) -> bool {
        fault!(UncoveredIgnored, return false);
        let (Some(segments), Some(id)) = (&self.segments, probe.prefixes.ids().get(probe.at))
        else {
            return true;
        };
        let may_contain = segments.candidates_for_prefix(probe.prefix).any(|segment| {
            let segment = segment.as_ref();
            let answer = segment.and_then(|segment| segment.answer_prefix(id, probe.hash));
            answer.unwrap_or(true)
        });
        reached!(PrefixDeniedBesideUncovered, !may_contain);
        may_contain
    }

    fn may_contain(&self, hash: KeyHash, key: &[u8]) -> bool {
        fault!(UncoveredIgnored, return false);
        let Some(segments) = &self.segments else {
            return true;
        };
        let may_contain = segments.candidates(key).any(|segment| {
            let answer = segment.as_ref().and_then(|segment| segment.answer(hash));
            reached!(UncoveredWithoutFilter, answer.is_none());
            answer.unwrap_or(true)
        });
        reached!(UncoveredDenied, !may_contain);
        may_contain
    }
}

/// The prefix that is looked for.
#[derive(Clone, Copy, Debug)]
pub struct PrefixProbe<'p> {
    /// The functions of the column family.
    pub prefixes: &'p Prefixes,
    /// The place of the one that gives the prefix.
    pub(crate) at: usize,
    pub(crate) prefix: &'p [u8],
    pub hash: KeyHash,
}

impl View {
    /// Proof that no key has a prefix, from all filters that have the prefixes of its function.
    pub fn check_prefix(&self, probe: PrefixProbe<'_>) -> Option<AbsenceProof> {
        AbsenceProof::unless(self.may_hold_prefix(probe))
    }

    /// False only for a prefix that no key has (invariant 10, H81).
    fn may_hold_prefix(&self, probe: PrefixProbe<'_>) -> bool {
        let passed = !self.has_prefixes_of(probe.at) || self.passes_summary(probe.hash);
        match &self.coverage {
            Coverage::Unknown => true,
            Coverage::Complete => passed,
            Coverage::AllBut(uncovered) => passed || uncovered.may_contain_prefix(probe),
        }
    }

    /// Whether it can say that no key has one of these numbers.
    #[inline]
    pub(crate) fn answers_range(&self, probe: RangeProbe<'_>) -> bool {
        let are_known = matches!(self.ranges, Ranges::Known(_));
        reached!(RangeBesideUncovered, are_known && !self.ranges_are_whole());
        are_known && self.ranges_are_whole() && probe.is_narrow()
    }

    /// Proof that no key of a prefix has one of these numbers (invariant 11).
    #[inline]
    pub(crate) fn check_range(
        &self,
        hasher: KeyHasher,
        probe: RangeProbe<'_>,
    ) -> Option<AbsenceProof> {
        AbsenceProof::unless(self.may_hold_range(hasher, probe))
    }

    fn may_hold_range(&self, hasher: KeyHasher, probe: RangeProbe<'_>) -> bool {
        let (Ranges::Known(known), Some(blocks)) = (&self.ranges, probe.blocks(hasher)) else {
            return true;
        };
        if !self.ranges_are_whole() {
            return true;
        }
        let in_range_filter = || {
            let RangeProbe {
                prefix,
                first,
                last,
            } = probe;
            known.filter.may_contain(prefix, first, last)
        };
        fault!(BlocksNotAsked, return in_range_filter());
        let (first, last) = blocks;
        // Its line arrives while the range filter is probed.
        self.summary.prefetch(first);
        let in_blocks = || {
            let may_contain = |block| self.summary.may_contain(block);
            let may_contain = may_contain(first) || last.is_some_and(may_contain);
            reached!(RangeOfLaterKey, may_contain);
            may_contain
        };
        in_range_filter() || in_blocks()
    }

    /// Whether no uncovered segment may have a key of any range.
    fn ranges_are_whole(&self) -> bool {
        fault!(RangesBesideUncovered, return self.is_known());
        self.coverage.is_complete()
    }

    /// Whether the summary filter has the prefixes by the function at this place.
    fn has_prefixes_of(&self, at: usize) -> bool {
        fault!(SummaryAskedForAnyPrefix, return true);
        self.summary_prefixes.has(at)
    }

    /// A view of unknown coverage: H8.
    pub(crate) fn unknown(summary: Arc<Scalable>, summary_prefixes: PrefixSet) -> Self {
        Self {
            summary,
            summary_prefixes,
            ranges: Ranges::Unknown,
            coverage: Coverage::Unknown,
            edition: 0,
        }
    }

    /// The answer of the summary filter, if one cache line of it decides. `None` if it does not cover
    /// all segments, has several stages, or is static and may have the key.
    #[inline(always)]
    pub(crate) fn probe_fast(&self, simd: impl Simd, hash: KeyHash) -> Option<Answer> {
        if !self.summary_suffices() {
            return None;
        }
        let may_hold = self.summary.may_contain_fast(simd, hash.for_summary())?;
        Some(AbsenceProof::unless(may_hold).map_or(Answer::Maybe, Answer::Absent))
    }

    #[inline(always)]
    fn summary_suffices(&self) -> bool {
        fault!(SummaryAlwaysSuffices, return true);
        self.coverage.is_complete()
    }

    /// Whether a key passes the summary filter: false if it is in no covered segment and no memtable.
    #[inline(always)]
    pub(crate) fn passes_summary(&self, hash: KeyHash) -> bool {
        self.summary.may_contain(hash.for_summary())
    }

    /// The answer of all filters for a key and its hash.
    pub fn answer(&self, hash: KeyHash, key: &[u8]) -> Answer {
        match self.check(self.passes_summary(hash), hash, key) {
            Some(proof) => Answer::Absent(proof),
            None => Answer::Maybe,
        }
    }

    /// Proof that a key is absent, from all filters; `passed` is what the summary filter says of it.
    pub(crate) fn check(&self, passed: bool, hash: KeyHash, key: &[u8]) -> Option<AbsenceProof> {
        AbsenceProof::unless(self.may_hold(passed, hash, key))
    }

    /// False only for an absent key; `passed` is what the summary filter says of it.
    #[inline(always)]
    fn may_hold(&self, passed: bool, hash: KeyHash, key: &[u8]) -> bool {
        reached!(CoverageUnknown, matches!(self.coverage, Coverage::Unknown));
        match &self.coverage {
            Coverage::Unknown => true,
            Coverage::Complete => passed,
            Coverage::AllBut(uncovered) => passed || uncovered.may_contain(hash, key),
        }
    }

    /// [`View::answer`] for up to [`CHUNK`] keys: false if the key is certainly absent. Returns how
    /// many are not.
    pub(crate) fn check_many(
        &self,
        hasher: KeyHasher,
        keys: &[impl AsRef<[u8]>],
        maybe: &mut [bool],
    ) -> usize {
        if !self.is_known() {
            maybe.fill(true);
            return keys.len();
        }
        let mut for_summary = [KeyHash::new(0); CHUNK];
        let for_summary = &mut for_summary[..keys.len()];
        for (for_summary, key) in for_summary.iter_mut().zip(keys) {
            *for_summary = hasher.hash(key.as_ref()).for_summary();
            // Prefetched at once: the lines arrive while the next keys are hashed.
            self.summary.prefetch(*for_summary);
        }
        self.summary.contains_prefetched(for_summary, maybe);
        if !self.coverage.is_complete() {
            self.check_uncovered(hasher, keys, maybe);
        }
        maybe.iter().filter(|&&maybe| maybe).count()
    }

    /// For keys that the summary filter denied, what the filters of uncovered segments say.
    fn check_uncovered(&self, hasher: KeyHasher, keys: &[impl AsRef<[u8]>], maybe: &mut [bool]) {
        fault!(ManyIgnoreUncovered, return);
        for (maybe, key) in maybe.iter_mut().zip(keys) {
            let key = key.as_ref();
            *maybe = self.may_hold(*maybe, hasher.hash(key), key);
        }
    }

    /// Whether any key can be proved absent.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.coverage, Coverage::Unknown)
    }

    /// How many live segments the summary filter does not cover; `None` if that is unknown.
    pub fn uncovered(&self) -> Option<usize> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::filter::ScalableOptions;
    use crate::format::Source;
    use crate::hash::{HashId, Seed};
    use crate::key_range::KeyRange;
    use crate::math::Rate;
    use crate::prefix::Prefix;
    use crate::segment::{Registry, SegmentBuilder, SegmentId};

    /// Lookups check that coverage is complete before they use the fast probe.
    #[test]
    fn coverage_of_all_but_none_is_complete() {
        assert!(Coverage::all_but(Vec::new()).is_complete());
    }

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([4; 16]))
    }

    /// A view of an empty summary filter beside segments without filters that have these ranges.
    fn view_beside(ranges: &[Option<KeyRange>]) -> View {
        let summary = Scalable::new(hasher().imprint().for_summary(), ScalableOptions::default());
        let spanning = ranges.iter().map(|range| WithRange {
            filter: None,
            range: range.as_ref(),
        });
        View {
            coverage: Coverage::all_but(spanning.collect()),
            ..View::unknown(Arc::new(summary), PrefixSet::default())
        }
    }

    /// The answer for a single key, which must equal that for the key in a batch.
    fn rules_out(view: &View, key: &[u8]) -> bool {
        let alone = view.answer(hasher().hash(key), key).is_absent();
        let mut maybe = [true; 2];
        view.check_many(hasher(), &[b"~", key], &mut maybe);
        assert_eq!(maybe[1], !alone, "{key:?}");
        alone
    }

    /// RocksDB lists SSTs and ranges in two calls; an SST may be compacted away in between.
    #[test]
    fn uncovered_segment_of_unknown_range_may_hold_any_key() {
        assert!(!rules_out(&view_beside(&[None]), b"key"));
    }

    /// It answers for keys alone, or for the prefixes of another function.
    #[test]
    fn summary_without_the_prefixes_that_are_asked_for_denies_none() {
        let empty = Scalable::new(hasher().imprint().for_summary(), ScalableOptions::default());
        let empty = Arc::new(empty);
        let prefixes = Prefixes::new([Prefix::fixed(3)]).unwrap();
        let probe = PrefixProbe {
            prefixes: &prefixes,
            at: 0,
            prefix: b"key",
            hash: hasher().hash(b"key"),
        };
        for (has, is_denied) in [(PrefixSet::default(), false), (prefixes.all(), true)] {
            let view = View {
                coverage: Coverage::Complete,
                ..View::unknown(Arc::clone(&empty), has)
            };
            assert_eq!(view.check_prefix(probe).is_some(), is_denied);
            let unknown = View {
                coverage: Coverage::Unknown,
                ..view
            };
            assert!(unknown.check_prefix(probe).is_none());
        }
    }

    /// Of a segment without a filter, or whose filter has other prefixes, all in its range.
    #[test]
    fn prefix_is_denied_beside_uncovered_segments_that_lack_it() {
        let [two, three] =
            [2, 3].map(|length| Arc::new(Prefixes::new([Prefix::fixed(length)]).unwrap()));
        let registry = Registry::new(hasher());
        let filled = |number, prefixes: &Arc<Prefixes>| {
            let id = SegmentId::from_bytes([number; 16]);
            let builder = SegmentBuilder::new(id, hasher(), Rate::ONE_PERCENT);
            let mut builder = builder.with_prefixes(prefixes);
            builder.add(b"bb1");
            builder.add(b"dd9");
            let filter = builder.seal(2, Source::TableCapture).unwrap();
            registry.open(id).set_filter(filter, false);
            Some(registry.open(id))
        };
        let range = KeyRange::new(b"bb1", b"dd9");
        for (filter, cc_is_denied) in [
            (None, false),
            (filled(1, &three), false),
            (filled(2, &two), true),
        ] {
            let filter = vec![WithRange {
                filter,
                range: Some(&range),
            }];
            let view = View {
                coverage: Coverage::all_but(filter),
                summary_prefixes: two.all(),
                ..view_beside(&[])
            };
            for (prefix, is_denied) in [
                (b"aa", true),
                (b"bb", false),
                (b"cc", cc_is_denied),
                (b"dd", false),
                (b"ee", true),
            ] {
                let probe = PrefixProbe {
                    prefixes: &two,
                    at: 0,
                    prefix,
                    hash: hasher().hash(prefix),
                };
                assert_eq!(view.check_prefix(probe).is_some(), is_denied, "{prefix:?}");
            }
            view.summary.insert(hasher().hash(b"ee").for_summary());
            let probe = PrefixProbe {
                prefixes: &two,
                at: 0,
                prefix: b"ee",
                hash: hasher().hash(b"ee"),
            };
            assert!(view.check_prefix(probe).is_none(), "the summary has it");
        }
    }

    /// The summary filter has no key of an uncovered segment.
    #[test]
    fn batch_beside_uncovered_segments_is_not_denied_by_the_summary() {
        let view = view_beside(&[None]);
        let mut maybe = [false];
        assert_eq!(view.check_many(hasher(), &[b"key"], &mut maybe), 1);
        assert_eq!(maybe, [true]);
    }

    #[test]
    fn uncovered_segments_matter_only_for_keys_in_their_range() {
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
