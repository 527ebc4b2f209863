//! What a lookup reads: one view, loaded once, that proves which keys are absent.
//!
//! *Absent* may be answered only by a view of known coverage. Its summary filter holds every key
//! that a memtable ever took, and every key of the SSTs that were live when the view was made. The
//! exceptions are the SSTs that the view lists as uncovered, which are checked one by one. Keys are
//! inserted into the summary filter before the engine makes them visible, and compaction only
//! removes keys. So a view stays valid until external writes arrive, such as an ingested file.
//! Before they do, another view of unknown coverage is published.

use std::sync::Arc;

use crate::fault::fault;
use crate::filter::{Scalable, Simd};
use crate::front::segment_filters::SegmentFilters;
use crate::front::sorted_runs::{SortedRuns, WithRange};
use crate::hash::{KeyHash, KeyHasher};
use crate::prefix::{PrefixSet, Prefixes};
use crate::segment::Segment;

/// The answer of the filters to "is this key in the database?".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The key is in no memtable and in no SST.
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

/// Proof that a view of known coverage denies a key. Nothing else can make one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbsenceProof(());

/// A key passed a filter.
pub(crate) struct Passed;

/// Keys that are looked up together.
pub(crate) const CHUNK: usize = 64;

/// Of these, the keys that are probed before the lines for their segment-filter checks are
/// prefetched. Those lines arrive while the next keys are probed.
const STRIDE: usize = 16;

/// If more uncovered SSTs than this overlap at one key, none is checked and every key is *maybe*.
/// Probing each would take as long as the engine does.
const MOST_RUNS: usize = 64;

/// One consistent set of filters.
#[derive(Clone, Debug)]
pub(crate) struct View {
    /// Memtables insert into it. Its hashes are remixed, so that its false positives are
    /// independent of those of the segment filters.
    pub(crate) summary: Arc<Scalable>,
    pub(crate) coverage: Coverage,
    /// The prefixes that the summary filter has of all keys that it has.
    pub(crate) summary_prefixes: PrefixSet,
    /// Checked if the summary filter says *maybe*, unless the summary filter alone decides. It
    /// holds all keys by itself. `None` if coverage is unknown.
    pub(crate) segment_filters: Option<SegmentFilters>,
    /// Grows with each view of a column family that is published.
    pub(crate) edition: u64,
}

/// Which SSTs the summary filter does not cover.
#[derive(Clone, Debug)]
pub(crate) enum Coverage {
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

/// The segment filter of a live SST that is not covered. `None` if the SST has no id to bind a
/// filter to.
pub(crate) type MaybeFilter = Option<Arc<Segment>>;

/// Live SSTs that are not covered: at least one.
#[derive(Debug)]
pub(crate) struct Uncovered {
    count: usize,
    /// How many of these have no id, so that no filter will be bound to them.
    without_id: usize,
    /// `None` if too many SSTs overlap: any of them may hold any key.
    tables: Option<SortedRuns<MaybeFilter>>,
}

impl Uncovered {
    fn new(tables: Vec<WithRange<'_, MaybeFilter>>) -> Self {
        Self {
            count: tables.len(),
            without_id: tables.iter().filter(|table| table.filter.is_none()).count(),
            tables: SortedRuns::new(tables, MOST_RUNS),
        }
    }

    fn may_contain_prefix(&self, probe: PrefixProbe<'_>) -> bool {
        fault!(UncoveredIgnored, return false);
        let (Some(tables), Some(id)) = (&self.tables, probe.prefixes.ids().get(probe.at)) else {
            return true;
        };
        tables.candidates_for_prefix(probe.prefix).any(|segment| {
            let segment = segment.as_ref();
            let answer = segment.and_then(|segment| segment.answer_prefix(id, probe.hash));
            answer.unwrap_or(true)
        })
    }

    fn may_contain(&self, hash: KeyHash, key: &[u8]) -> bool {
        fault!(UncoveredIgnored, return false);
        let Some(tables) = &self.tables else {
            return true;
        };
        tables.candidates(key).any(|segment| {
            let answer = segment.as_ref().and_then(|segment| segment.answer(hash));
            answer.unwrap_or(true)
        })
    }
}

/// The prefix that is looked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrefixProbe<'p> {
    /// The functions of the column family.
    pub(crate) prefixes: &'p Prefixes,
    /// The place of the one that gives the prefix.
    pub(crate) at: usize,
    pub(crate) prefix: &'p [u8],
    pub(crate) hash: KeyHash,
}

impl View {
    /// Proof that no key has a prefix, from all filters that have the prefixes of its function.
    pub(crate) fn check_prefix(&self, probe: PrefixProbe<'_>) -> Option<AbsenceProof> {
        (!self.may_hold_prefix(probe)).then_some(AbsenceProof(()))
    }

    /// False only for a prefix that no key has.
    fn may_hold_prefix(&self, probe: PrefixProbe<'_>) -> bool {
        let PrefixProbe {
            at, prefix, hash, ..
        } = probe;
        let mut has_prefixes = self.summary_prefixes.has(at);
        fault!(SummaryAskedForAnyPrefix, has_prefixes = true);
        let passed = !has_prefixes || self.passes_summary(hash);
        let passed = match &self.coverage {
            Coverage::Unknown => return true,
            Coverage::Complete => passed,
            Coverage::AllBut(uncovered) => passed || uncovered.may_contain_prefix(probe),
        };
        let filters = self.segment_filters.as_ref();
        let mut filters = filters.filter(|filters| filters.has_prefixes(at));
        fault!(
            SegmentsAskedForAnyPrefix,
            filters = self.segment_filters.as_ref()
        );
        passed && filters.is_none_or(|filters| filters.may_contain_prefix(hash, prefix))
    }

    /// A view of unknown coverage.
    pub(crate) fn unknown(summary: Arc<Scalable>, summary_prefixes: PrefixSet) -> Self {
        Self {
            summary,
            summary_prefixes,
            coverage: Coverage::Unknown,
            segment_filters: None,
            edition: 0,
        }
    }

    /// The outcome of a fast probe of the summary filter; `None` if the probe cannot decide: the
    /// summary filter does not cover all SSTs, or has several stages, or is static and may have the
    /// key.
    #[inline(always)]
    pub(crate) fn probe_fast(
        &self,
        simd: impl Simd,
        hash: KeyHash,
    ) -> Option<Result<AbsenceProof, Passed>> {
        let mut suffices = self.coverage.is_complete();
        fault!(SummaryAlwaysSuffices, suffices = true);
        if !suffices {
            return None;
        }
        let passes = self.summary.may_contain_fast(simd, hash.for_summary())?;
        Some(if passes {
            Err(Passed)
        } else {
            Ok(AbsenceProof(()))
        })
    }

    /// Whether a key passes the summary filter: false if it is in no covered SST and no memtable.
    #[inline(always)]
    pub(crate) fn passes_summary(&self, hash: KeyHash) -> bool {
        self.summary.may_contain(hash.for_summary())
    }

    /// The answer of all filters for a key and its hash.
    pub(crate) fn answer(&self, hash: KeyHash, key: &[u8]) -> Answer {
        match self.check(self.passes_summary(hash), hash, key) {
            Some(proof) => Answer::Absent(proof),
            None => Answer::Maybe,
        }
    }

    /// Proof that a key is absent, from all filters; `passed` is what the summary filter says of it.
    pub(crate) fn check(&self, passed: bool, hash: KeyHash, key: &[u8]) -> Option<AbsenceProof> {
        (!self.may_hold(passed, hash, key)).then_some(AbsenceProof(()))
    }

    /// Whether the engine checks segment filters for a key that it finds: for one that is in no
    /// memtable.
    pub(crate) fn reads_segments(&self, hash: KeyHash) -> bool {
        let filters = self.segment_filters.as_ref();
        filters.is_some_and(|filters| !filters.memtable_filters_may_contain(hash))
    }

    /// Prefetches the lines of the segment filters that a key concerns.
    pub(crate) fn prefetch_segment_filters(&self, hash: KeyHash, key: &[u8]) {
        if let Some(filters) = &self.segment_filters {
            filters.prefetch_tables(hash, key);
        }
    }

    /// Whether segment filters are all that is checked after the summary filter.
    pub(crate) fn has_segment_filters(&self) -> bool {
        let mut is_complete = self.coverage.is_complete();
        fault!(SummaryOnlyWhenUncovered, is_complete = true);
        is_complete && self.segment_filters.is_some()
    }

    /// False only for an absent key; `passed` is what the summary filter says of it.
    #[inline(always)]
    fn may_hold(&self, passed: bool, hash: KeyHash, key: &[u8]) -> bool {
        let passed = match &self.coverage {
            Coverage::Unknown => return true,
            Coverage::Complete => passed,
            Coverage::AllBut(uncovered) => passed || uncovered.may_contain(hash, key),
        };
        let filters = self.segment_filters.as_ref();
        passed && filters.is_none_or(|filters| filters.may_contain(hash, key))
    }

    /// [`View::answer`] for up to [`CHUNK`] keys: false if the key is certainly absent. If
    /// `summary_only`, keys that pass the summary filter are not checked against the segment
    /// filters.
    pub(crate) fn check_many(
        &self,
        hasher: KeyHasher,
        keys: &[impl AsRef<[u8]>],
        maybe: &mut [bool],
        summary_only: bool,
    ) -> PassCounts {
        if !self.is_known() {
            maybe.fill(true);
            return PassCounts::same(keys.len());
        }
        let summary_only = summary_only && self.has_segment_filters();
        let mut for_summary = [KeyHash::new(0); CHUNK];
        let for_summary = &mut for_summary[..keys.len()];
        for (for_summary, key) in for_summary.iter_mut().zip(keys) {
            *for_summary = hasher.hash(key.as_ref()).for_summary();
            // Prefetched at once: the lines arrive while the next keys are hashed.
            self.summary.prefetch(*for_summary);
        }
        let mut summary_passed = 0;
        let strides = for_summary.chunks(STRIDE).zip(keys.chunks(STRIDE));
        for ((for_summary, keys), maybe) in strides.zip(maybe.chunks_mut(STRIDE)) {
            self.summary.contains_prefetched(for_summary, maybe);
            let passed = count(maybe);
            summary_passed += passed;
            if passed > 0 && !summary_only {
                self.prefetch_passed(hasher, keys, maybe);
            }
        }
        if summary_only || (summary_passed == 0 && self.coverage.is_complete()) {
            return PassCounts::same(summary_passed);
        }
        self.filter_again(hasher, keys, maybe);
        PassCounts {
            summary: summary_passed,
            all_filters: count(maybe),
        }
    }

    /// Prefetches what [`View::filter_again`] will probe.
    #[cold]
    fn prefetch_passed(&self, hasher: KeyHasher, keys: &[impl AsRef<[u8]>], maybe: &[bool]) {
        if let Some(segment_filters) = &self.segment_filters {
            let found = keys.iter().zip(maybe).filter(|(_, maybe)| **maybe);
            let keys = found.map(|(key, _)| key.as_ref());
            keys.for_each(|key| segment_filters.prefetch(hasher.hash(key), key));
        }
    }

    /// Completes the answers of the summary filter: probes the segment filters for keys that are
    /// `maybe`, and the filters of uncovered SSTs, if there are any, for all keys. Usually few keys
    /// are *maybe*, and only they are hashed again.
    fn filter_again(&self, hasher: KeyHasher, keys: &[impl AsRef<[u8]>], maybe: &mut [bool]) {
        let mut any_is_uncovered = !self.coverage.is_complete();
        fault!(ManyIgnoreUncovered, any_is_uncovered = false);
        for (maybe, key) in maybe.iter_mut().zip(keys) {
            if *maybe || any_is_uncovered {
                let key = key.as_ref();
                *maybe = self.may_hold(*maybe, hasher.hash(key), key);
            }
        }
    }

    /// Whether any key can be proved absent.
    pub(crate) fn is_known(&self) -> bool {
        !matches!(self.coverage, Coverage::Unknown)
    }

    /// How many live SSTs the summary filter does not cover; `None` if that is unknown.
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

/// How many keys of a batch passed the filters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassCounts {
    /// Those that passed the summary filter.
    pub(crate) summary: usize,
    /// Those that also passed what was checked after it.
    pub(crate) all_filters: usize,
}

impl PassCounts {
    fn same(count: usize) -> Self {
        Self {
            summary: count,
            all_filters: count,
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
    use crate::front::key_range::KeyRange;
    use crate::front::segment_filters::in_runs;
    use crate::hash::{HashId, Seed};
    use crate::math::Rate;
    use crate::prefix::Prefix;
    use crate::segment::SealedFilter;

    /// Lookups check that coverage is complete before they use the fast probe.
    #[test]
    fn coverage_of_all_but_none_is_complete() {
        assert!(Coverage::all_but(Vec::new()).is_complete());
    }

    fn hasher() -> KeyHasher {
        KeyHasher::new(HashId::Xxh3, Seed::from_bytes([4; 16]))
    }

    /// A view of an empty summary filter beside SSTs without filters that have these ranges.
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
        view.check_many(hasher(), &[b"~", key], &mut maybe, false);
        assert_eq!(maybe[1], !alone, "{key:?}");
        alone
    }

    /// RocksDB lists SSTs and ranges in two calls; an SST may be compacted away in between.
    #[test]
    fn a_table_whose_range_is_not_known_may_hold_any_key() {
        assert!(!rules_out(&view_beside(&[None]), b"key"));
    }

    /// They answer for keys alone, or for the prefixes of another function.
    #[test]
    fn filters_without_the_prefixes_that_are_asked_for_deny_none() {
        let empty = Scalable::new(hasher().imprint().for_summary(), ScalableOptions::default());
        let prefixes = Prefixes::new([Prefix::fixed(3)]).unwrap();
        let of_one_sst = |has: PrefixSet| {
            let stage = crate::filter::Stage::with_rate(
                crate::filter::Kind::Blocked,
                crate::math::Items::new(10),
                Rate::ONE_PERCENT,
            );
            let chain = Chain::new(hasher().imprint(), vec![stage.unwrap()]);
            let filter = SealedFilter::new(chain, 1, Rate::ONE_PERCENT, Source::TableCapture);
            let table = WithRange {
                filter: Arc::new(filter),
                range: None,
            };
            Some(SegmentFilters::new(
                in_runs(vec![table]).unwrap(),
                Vec::new(),
                has,
            ))
        };
        let (none, all) = (PrefixSet::default(), prefixes.all());
        let empty = Arc::new(empty);
        for (summary, segments, is_denied) in [
            (none, none, false),
            (all, none, true),
            (none, all, true),
            (all, all, true),
        ] {
            let view = View {
                coverage: Coverage::Complete,
                segment_filters: of_one_sst(segments),
                ..View::unknown(Arc::clone(&empty), summary)
            };
            let probe = PrefixProbe {
                prefixes: &prefixes,
                at: 0,
                prefix: b"key",
                hash: hasher().hash(b"key"),
            };
            assert_eq!(view.check_prefix(probe).is_some(), is_denied);
            let unknown = View {
                coverage: Coverage::Unknown,
                ..view
            };
            assert!(unknown.check_prefix(probe).is_none());
        }
    }

    /// The summary filter has no key of an uncovered SST.
    #[test]
    fn a_summary_is_not_believed_beside_tables_that_it_does_not_cover() {
        let nothing = Chain::saturated(hasher().imprint());
        let filter = SealedFilter::new(nothing, 0, Rate::ONE_PERCENT, Source::TableCapture);
        let table = WithRange {
            filter: Arc::new(filter),
            range: None,
        };
        let tables = in_runs(vec![table]).unwrap();
        let view = View {
            segment_filters: Some(SegmentFilters::new(
                tables,
                Vec::new(),
                PrefixSet::default(),
            )),
            ..view_beside(&[None])
        };
        for summary_only in [false, true] {
            let mut maybe = [true];
            let passed = view.check_many(hasher(), &[b"key"], &mut maybe, summary_only);
            assert_eq!((maybe, passed.all_filters), ([true], 1));
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
