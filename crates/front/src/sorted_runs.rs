//! Segments in sorted runs: of each run, at most one segment may hold a given key.
//!
//! ```text
//! run 0   |-- t1 --|  |-- t4 --|        |- t6 -|          lows, highs: where segments begin and end
//! run 1     |----- t2 -----| |---- t5 ----|               for a key at x, t4 and t5 are probed
//! run 2       |----- t3 ----|
//!                             x
//! ```
//!
//! Keys are compared as 16-byte numbers, taken after the bytes that all range ends have in common.
//! If the numbers are equal, the whole keys are compared.

use std::cmp::Ordering;
use std::ops::Range;

use crate::fault::fault;
use crate::key_range::KeyRange;
use crate::math::Bits;

/// The filter of a segment, and the key range of the segment, if known.
#[derive(Debug)]
pub(crate) struct WithRange<'a, F> {
    pub filter: F,
    pub(crate) range: Option<&'a KeyRange>,
}

/// Filters by the key ranges of their segments.
#[derive(Debug)]
pub(crate) struct SortedRuns<F> {
    /// The bytes that all range ends begin with.
    common: Vec<u8>,
    /// Where segments begin, run after run, ascending within each run.
    lows: Vec<KeyPrefix>,
    highs: Vec<KeyPrefix>,
    ranges: Vec<KeyRange>,
    /// In the same order; then those of segments whose range is unknown.
    filters: Vec<F>,
    runs: Vec<Range<usize>>,
}

/// Part of a key as a number that does not decrease as the key grows.
type KeyPrefix = u128;

impl<F> SortedRuns<F> {
    /// `None` if more than `most` segments may span one key.
    pub(crate) fn new(segments: Vec<WithRange<'_, F>>, most: usize) -> Option<Self> {
        let (mut placed, mut unplaced) = (Vec::new(), Vec::new());
        for WithRange { filter, range } in segments {
            match range {
                Some(range) => placed.push((range, filter)),
                None => unplaced.push(filter),
            }
        }
        let common = common_start(placed.iter().map(|&(range, _)| range));
        let sorted = sorted_runs(placed, most);
        if sorted.len() + unplaced.len() > most {
            return None;
        }
        let (mut ranges, mut filters, mut runs) = (Vec::new(), Vec::new(), Vec::new());
        for run in sorted {
            let start = filters.len();
            for (range, filter) in run {
                ranges.push(range.clone());
                filters.push(filter);
            }
            runs.push(start..filters.len());
        }
        filters.append(&mut unplaced);
        let places = |end: fn(&KeyRange) -> &[u8]| -> Option<_> {
            let places = ranges.iter().map(|range| prefix_after(&common, end(range)));
            places.collect()
        };
        Some(Self {
            lows: places(KeyRange::low)?,
            highs: places(KeyRange::high)?,
            common,
            ranges,
            filters,
            runs,
        })
    }

    /// The filters of the segments that may hold the key: at most `most`. H46.
    pub(crate) fn candidates(&self, key: &[u8]) -> impl Iterator<Item = &F> {
        let place = prefix_after(&self.common, key);
        let in_runs = self.runs.iter();
        let spanning = in_runs.filter_map(move |run| self.in_run(run, key, place?));
        spanning.chain(self.unplaced())
    }

    /// The filters of segments whose range is not known: each may hold any key.
    fn unplaced(&self) -> &[F] {
        fault!(UnknownRangeIsEmpty, return &[]);
        &self.filters[self.ranges.len()..]
    }

    /// The filters of the segments that may hold a key with this prefix.
    pub(crate) fn candidates_for_prefix(&self, prefix: &[u8]) -> impl Iterator<Item = &F> {
        let in_runs = self.runs.iter();
        let spanning = in_runs.flat_map(move |run| &self.filters[self.reaching(run, prefix)]);
        spanning.chain(&self.filters[self.ranges.len()..])
    }

    /// The segments of a run that may hold a key with this prefix: neighbours. H80.
    fn reaching(&self, run: &Range<usize>, prefix: &[u8]) -> Range<usize> {
        let ranges = &self.ranges[run.clone()];
        let first = ranges.partition_point(|range| range.high() < prefix);
        let begins = |range: &KeyRange| range.low() <= prefix || range.low().starts_with(prefix);
        let count = ranges[first..].partition_point(begins);
        let first = run.start + first;
        fault!(OneSstPerPrefix, return first..first + count.min(1));
        first..first + count
    }

    fn in_run(&self, run: &Range<usize>, key: &[u8], place: KeyPrefix) -> Option<&F> {
        let lows = &self.lows[run.clone()];
        let mut begun = lows.partition_point(|&low| low <= place);
        if lows[begun.checked_sub(1)?] == place {
            begun = self.ranges[run.clone()].partition_point(|range| range.low() <= key);
        }
        let last = run.start + begun.checked_sub(1)?;
        fault!(
            RunEndLeftOut,
            if key == self.ranges[last].high() {
                return None;
            }
        );
        let reaches = match place.cmp(&self.highs[last]) {
            Ordering::Less => true,
            Ordering::Equal => key <= self.ranges[last].high(),
            Ordering::Greater => false,
        };
        reaches.then(|| &self.filters[last])
    }

    /// Memory beside the filters.
    pub(crate) fn size_beside_filters(&self) -> Bits {
        let ends = self.ranges.iter();
        let ends = ends.map(|range| range.low().len() + range.high().len());
        let parts = [
            ends.sum(),
            self.common.len(),
            size_of_val(&*self.lows) + size_of_val(&*self.highs),
            size_of_val(&*self.ranges) + size_of_val(&*self.filters),
            size_of_val(&*self.runs),
        ];
        Bits::from_bytes(parts.iter().sum::<usize>() as u64)
    }

    /// The filters of all segments.
    pub(crate) fn filters(&self) -> &[F] {
        &self.filters
    }
}

/// The bytes that the ends of all ranges begin with.
fn common_start<'a>(ranges: impl Iterator<Item = &'a KeyRange> + Clone) -> Vec<u8> {
    let lowest = ranges.clone().map(KeyRange::low).min();
    let highest = ranges.map(KeyRange::high).max();
    let ends = lowest
        .into_iter()
        .flatten()
        .zip(highest.into_iter().flatten());
    ends.take_while(|(low, high)| low == high)
        .map(|(&byte, _)| byte)
        .collect()
}

/// The 16 bytes after `common`; `None` if the key does not begin with it.
fn prefix_after(common: &[u8], key: &[u8]) -> Option<KeyPrefix> {
    // An empty prefix is not compared. An empty vector has a dangling pointer, and on a processor
    // with AVX-512 a masked load from an unmapped page takes longer than all else here.
    let rest = match common {
        [] => key,
        _ => key.strip_prefix(common)?,
    };
    let bytes = rest.first_chunk().copied().unwrap_or_else(|| {
        let mut bytes = [0; size_of::<KeyPrefix>()];
        bytes[..rest.len()].copy_from_slice(rest);
        bytes
    });
    Some(KeyPrefix::from_be_bytes(bytes))
}

type Placed<'a, F> = (&'a KeyRange, F);

/// The fewest runs that hold all segments. It stops when there are more than `most` of them. A segment
/// goes into the first run whose segments all end before it begins.
fn sorted_runs<F>(mut segments: Vec<Placed<'_, F>>, most: usize) -> Vec<Vec<Placed<'_, F>>> {
    segments.sort_by_key(|&(range, _)| range.low());
    let mut runs: Vec<Vec<Placed<'_, F>>> = Vec::new();
    for segment in segments {
        let low = segment.0.low();
        let ended =
            |run: &Vec<Placed<'_, F>>| run.last().is_none_or(|&(last, _)| last.high() < low);
        match runs.iter().position(ended) {
            Some(at) => runs[at].push(segment),
            None => runs.push(vec![segment]),
        }
        if runs.len() > most {
            break;
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, RngExt as _, SeedableRng as _};

    use std::sync::Arc;

    use super::*;
    use crate::filter::Chain;
    use crate::format::Source;
    use crate::hash::{HashId, Imprint};
    use crate::math::Rate;
    use crate::segment::SealedFilter;

    const MOST_RUNS: usize = 16;

    const IMPRINT: Imprint = Imprint {
        hash: HashId::Xxh3,
        seed_id: 0,
        known_answer: 0,
    };

    fn segment(range: Option<&KeyRange>) -> WithRange<'_, Arc<SealedFilter>> {
        let chain = Chain::new(IMPRINT, Vec::new());
        let filter = SealedFilter::new(chain, 0, Rate::ONE_PERCENT, Source::TableCapture);
        WithRange {
            filter: Arc::new(filter),
            range,
        }
    }

    /// Keys that are short or long, share their first bytes, or are prefixes of one another.
    fn key(random: &mut impl Rng, common: &[u8]) -> Vec<u8> {
        let mut key = common.to_vec();
        if random.random_range(0..8) == 0 {
            key.extend([7; 20]);
        }
        for _ in 0..random.random_range(0..5) {
            key.push([0, 1, b'a', 0xff][random.random_range(0..4)]);
        }
        key
    }

    #[test]
    fn segment_is_a_candidate_for_every_key_in_its_range() {
        let mut random = SmallRng::seed_from_u64(1);
        let (mut made, mut refused, mut spared) = (0, 0, 0);
        for round in 0..4_000_u32 {
            let common: &[u8] = if round % 2 == 0 { b"" } else { b"all of them/" };
            let mut ranges = Vec::new();
            for _ in 0..random.random_range(0..40) {
                let range = KeyRange::new(&key(&mut random, common), &key(&mut random, common));
                ranges.push((random.random_range(0..40) > 0).then_some(range));
            }
            let segments: Vec<_> = ranges.iter().map(|range| segment(range.as_ref())).collect();
            let listed = |segment: &WithRange<'_, Arc<SealedFilter>>| {
                (Arc::clone(&segment.filter), segment.range.cloned())
            };
            let all: Vec<_> = segments.iter().map(listed).collect();
            let Some(runs) = SortedRuns::new(segments, MOST_RUNS) else {
                refused += 1;
                continue;
            };
            made += 1;
            let near = (0..20).map(|_| key(&mut random, common));
            let ends = all.iter().filter_map(|(_, range)| range.as_ref());
            let ends = ends.flat_map(|range| [range.low().to_vec(), range.high().to_vec()]);
            for key in near.chain(ends).chain([Vec::new(), vec![0xff; 40]]) {
                let asked: Vec<_> = runs.candidates(&key).collect();
                assert!(asked.len() <= MOST_RUNS);
                for (filter, range) in &all {
                    let asks = asked.iter().any(|other| Arc::ptr_eq(other, filter));
                    let contains = |range: &KeyRange| range.low() <= &*key && &*key <= range.high();
                    let spans = range.as_ref().is_none_or(contains);
                    assert!(asks || !spans, "{key:?} of {range:?}");
                    spared += usize::from(!asks);
                }
            }
        }
        assert!(
            made > 1_000 && refused > 100 && spared > 10_000,
            "{made} {refused} {spared}"
        );
    }

    fn same(i: u32) -> Vec<u8> {
        format!("a name that they have in common/{i:06}").into_bytes()
    }

    /// A thousand segments, each with nine keys in ten, in the order of a comparator or its reverse.
    fn beside(reverse: bool) -> Vec<KeyRange> {
        let ranges = (0..1_000).map(|i| {
            let (first, last) = (same(i * 10), same(i * 10 + 8));
            if reverse {
                KeyRange::new(&last, &first)
            } else {
                KeyRange::new(&first, &last)
            }
        });
        ranges.collect()
    }

    fn runs_of_one_a_key(ranges: &[KeyRange]) -> SortedRuns<Arc<SealedFilter>> {
        let segments = ranges.iter().map(|range| segment(Some(range)));
        let runs = SortedRuns::new(segments.collect(), MOST_RUNS).unwrap();
        for i in 0..10_000 {
            let asked = runs.candidates(&same(i)).count();
            assert_eq!(asked, usize::from(i % 10 != 9), "key {i}");
        }
        runs
    }

    /// As on a level of many segments, however similar their keys are.
    #[test]
    fn disjoint_segments_give_one_candidate() {
        for reverse in [false, true] {
            let runs = runs_of_one_a_key(&beside(reverse));
            assert_eq!(runs.candidates(b"another name").count(), 0);
        }
    }

    #[test]
    fn segment_of_unknown_range_is_a_candidate_for_every_key() {
        let known = KeyRange::new(b"prefix/b", b"prefix/d");
        let runs = SortedRuns::new(vec![segment(Some(&known)), segment(None)], MOST_RUNS).unwrap();
        let asked = |key: &[u8]| runs.candidates(key).count();
        assert_eq!(
            [asked(b"prefix/c"), asked(b"prefix/e"), asked(b"")],
            [2, 1, 1]
        );
    }

    /// The segments share a long prefix with one another, but not with a segment beside them.
    #[test]
    fn segments_whose_keys_share_a_long_prefix_do_not_overlap() {
        let mut ranges = beside(false);
        ranges.push(KeyRange::new(b"another", b"another"));
        let runs = runs_of_one_a_key(&ranges);
        assert_eq!(runs.candidates(b"another").count(), 1);
    }

    #[test]
    fn too_many_segments_over_one_key_are_refused() {
        let range = KeyRange::new(b"a", b"z");
        let over = |known, unknown| {
            let known = (0..known).map(|_| segment(Some(&range)));
            let unknown = (0..unknown).map(|_| segment(None));
            SortedRuns::new(known.chain(unknown).collect(), MOST_RUNS).is_some()
        };
        assert!(over(MOST_RUNS, 0) && over(0, MOST_RUNS) && over(MOST_RUNS - 1, 1));
        assert!(!over(MOST_RUNS + 1, 0) && !over(0, MOST_RUNS + 1) && !over(MOST_RUNS, 1));
    }

    /// Several segments of one run may hold keys with the same prefix.
    #[test]
    fn segments_of_a_run_that_reach_into_a_prefix_are_all_candidates() {
        let range = |low: &str, high: &str| KeyRange::new(low.as_bytes(), high.as_bytes());
        let ranges = [
            range("a1", "a9"),
            range("b", "b3"),
            range("b4", "b6"),
            range("b7", "c2"),
            range("c5", "d"),
            range("a5", "z"),
        ];
        let segments = ranges.iter().enumerate().map(|(filter, range)| WithRange {
            filter,
            range: Some(range),
        });
        let unplaced = WithRange {
            filter: 9,
            range: None,
        };
        let runs = SortedRuns::new(segments.chain([unplaced]).collect(), 10).unwrap();
        for (prefix, expected) in [
            ("b", &[1, 2, 3, 5, 9][..]),
            ("b3", &[1, 5, 9]),
            ("b5", &[2, 5, 9]),
            ("c", &[3, 4, 5, 9]),
            ("c3", &[5, 9]),
            ("d", &[4, 5, 9]),
            ("a", &[0, 5, 9]),
            ("Z", &[9]),
            ("", &[0, 1, 2, 3, 4, 5, 9]),
        ] {
            let found = runs.candidates_for_prefix(prefix.as_bytes());
            let mut found: Vec<_> = found.copied().collect();
            found.sort_unstable();
            assert_eq!(found, expected, "{prefix}");
        }
    }
}
