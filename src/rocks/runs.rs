//! The filters of tables, in sorted runs: of each run, one table at most may hold a given key.
//!
//! ```text
//! run 0   |-- t1 --|  |-- t4 --|        |- t6 -|          lows, highs: where tables begin and end
//! run 1     |----- t2 -----| |---- t5 ----|               t4 and t5 are asked for a key at x
//! run 2       |----- t3 ----|
//!                             x
//! ```
//!
//! Of keys, only the 16 bytes after what all ends have in common are compared. That can make tables
//! overlap that do not, which costs a question and loses no key: the order of the parts is that of the
//! keys, but for keys whose parts are equal.

use std::ops::Range;
use std::sync::Arc;

use super::range::KeyRange;
use crate::planted::planted;
use crate::segment::SealedFilter;

/// A table's filter, and the keys that the table spans, if known.
#[derive(Debug)]
pub(crate) struct Spanning<'a> {
    pub(crate) filter: Arc<SealedFilter>,
    pub(crate) range: Option<&'a KeyRange>,
}

/// Filters by what their tables span.
#[derive(Debug)]
pub(crate) struct SortedRuns {
    /// All ends begin with it.
    common: Vec<u8>,
    /// Where tables begin; those of one run after those of another, ascending within it.
    lows: Vec<Place>,
    highs: Vec<Place>,
    filters: Vec<Arc<SealedFilter>>,
    runs: Vec<Range<usize>>,
}

/// Part of a key as a number that grows with the key.
type Place = u128;

/// More tables than this over one another are no runs: a search in each would take too long.
pub(crate) const MOST_RUNS: usize = 16;

impl SortedRuns {
    /// `None` where more than [`MOST_RUNS`] tables span one key.
    pub(crate) fn new(tables: Vec<Spanning<'_>>) -> Option<Self> {
        let common = common_start(&tables);
        let spans = tables.into_iter().map(|table| {
            let ends = |range: &KeyRange| {
                let place = |end| place_after(&common, end);
                Some((place(range.low())?, place(range.high())?))
            };
            let all = (Place::MIN, Place::MAX);
            let span = table.range.and_then(ends).unwrap_or(all);
            (span, table.filter)
        });
        let mut spans: Vec<_> = spans.collect();
        spans.sort_by_key(|&(span, _)| span);
        let runs = sorted_runs(spans)?;
        let (mut lows, mut highs, mut filters) = (Vec::new(), Vec::new(), Vec::new());
        let mut bounds = Vec::with_capacity(runs.len());
        for run in runs {
            let start = filters.len();
            for ((low, high), filter) in run {
                lows.push(low);
                highs.push(high);
                filters.push(filter);
            }
            bounds.push(start..filters.len());
        }
        Some(Self {
            common,
            lows,
            highs,
            filters,
            runs: bounds,
        })
    }

    /// The filters of the tables that may hold the key: at most [`MOST_RUNS`].
    pub(crate) fn that_may_hold(&self, key: &[u8]) -> impl Iterator<Item = &Arc<SealedFilter>> {
        let place = place_after(&self.common, key);
        self.runs
            .iter()
            .filter_map(move |run| self.in_run(run, place?))
    }

    fn in_run(&self, run: &Range<usize>, place: Place) -> Option<&Arc<SealedFilter>> {
        let begun = self.lows[run.clone()].partition_point(|&low| low <= place);
        let last = run.start + begun.checked_sub(1)?;
        let high = self.highs[last];
        let reaches = place < high || (place == high && !planted!(RunEndLeftOut));
        reaches.then(|| &self.filters[last])
    }

    /// The filters of all tables.
    pub(crate) fn filters(&self) -> &[Arc<SealedFilter>] {
        &self.filters
    }
}

/// What the ends of all tables begin with; nothing where the ends of one are not known.
fn common_start(tables: &[Spanning<'_>]) -> Vec<u8> {
    let ranges = tables.iter().map(|table| table.range);
    let Some(ranges) = ranges.collect::<Option<Vec<_>>>() else {
        return Vec::new();
    };
    let lowest = ranges.iter().map(|range| range.low()).min();
    let highest = ranges.iter().map(|range| range.high()).max();
    let ends = lowest
        .into_iter()
        .flatten()
        .zip(highest.into_iter().flatten());
    ends.take_while(|(low, high)| low == high)
        .map(|(&byte, _)| byte)
        .collect()
}

/// The 16 bytes after `common`; `None` of a key that does not begin with it.
fn place_after(common: &[u8], key: &[u8]) -> Option<Place> {
    let rest = key.strip_prefix(common)?;
    let mut bytes = [0; size_of::<Place>()];
    let count = rest.len().min(bytes.len());
    bytes[..count].copy_from_slice(&rest[..count]);
    Some(Place::from_be_bytes(bytes))
}

type Span = ((Place, Place), Arc<SealedFilter>);

/// As few runs as there can be: a table goes into the first whose tables all end before it begins.
/// `None` where that makes more than [`MOST_RUNS`].
fn sorted_runs(by_low: Vec<Span>) -> Option<Vec<Vec<Span>>> {
    let mut runs: Vec<Vec<Span>> = Vec::new();
    for span in by_low {
        let (low, _) = span.0;
        let ended = |run: &Vec<Span>| run.last().is_none_or(|&((_, high), _)| high < low);
        match runs.iter().position(ended) {
            Some(at) => runs[at].push(span),
            None if runs.len() < MOST_RUNS => runs.push(vec![span]),
            None => return None,
        }
    }
    Some(runs)
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{Rng, RngExt as _, SeedableRng as _};

    use super::*;
    use crate::filter::Chain;
    use crate::format::Source;
    use crate::hash::{HashId, Imprint};
    use crate::math::Rate;

    const IMPRINT: Imprint = Imprint {
        hash: HashId::Xxh3,
        seed_id: 0,
        known_answer: 0,
    };

    fn table(range: Option<&KeyRange>) -> Spanning<'_> {
        let chain = Chain::new(IMPRINT, Vec::new());
        let filter = SealedFilter::new(chain, 0, Rate::ONE_PERCENT, Source::TableCapture);
        Spanning {
            filter: Arc::new(filter),
            range,
        }
    }

    /// Keys that are short, long, alike in their first parts, or one the start of another.
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
    fn a_table_is_asked_for_every_key_that_it_spans() {
        let mut random = SmallRng::seed_from_u64(1);
        let (mut made, mut refused, mut spared) = (0, 0, 0);
        for round in 0..4_000_u32 {
            let common: &[u8] = if round % 2 == 0 { b"" } else { b"all of them/" };
            let mut ranges = Vec::new();
            for _ in 0..random.random_range(0..40) {
                let range = KeyRange::new(&key(&mut random, common), &key(&mut random, common));
                ranges.push((random.random_range(0..40) > 0).then_some(range));
            }
            let tables: Vec<_> = ranges.iter().map(|range| table(range.as_ref())).collect();
            let listed = |table: &Spanning<'_>| (Arc::clone(&table.filter), table.range.cloned());
            let all: Vec<_> = tables.iter().map(listed).collect();
            let Some(runs) = SortedRuns::new(tables) else {
                refused += 1;
                continue;
            };
            made += 1;
            let near = (0..20).map(|_| key(&mut random, common));
            let ends = all.iter().filter_map(|(_, range)| range.as_ref());
            let ends = ends.flat_map(|range| [range.low().to_vec(), range.high().to_vec()]);
            for key in near.chain(ends).chain([Vec::new(), vec![0xff; 40]]) {
                let asked: Vec<_> = runs.that_may_hold(&key).collect();
                assert!(asked.len() <= MOST_RUNS);
                for (filter, range) in &all {
                    let asks = asked.iter().any(|other| Arc::ptr_eq(other, filter));
                    let spans = range.as_ref().is_none_or(|range| range.contains(&key));
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

    /// As they are on a level of many, however alike their names are.
    #[test]
    fn of_tables_beside_one_another_one_is_asked() {
        let key = |i: u32| format!("a name that all of them have in common/{i:06}").into_bytes();
        for reverse in [false, true] {
            let ranges = (0..1_000).map(|i| {
                let (first, last) = (key(i * 10), key(i * 10 + 8));
                if reverse {
                    KeyRange::new(&last, &first)
                } else {
                    KeyRange::new(&first, &last)
                }
            });
            let ranges: Vec<_> = ranges.collect();
            let tables = ranges.iter().map(|range| table(Some(range)));
            let runs = SortedRuns::new(tables.collect()).unwrap();
            for i in 0..10_000 {
                let asked = runs.that_may_hold(&key(i)).count();
                assert_eq!(asked, usize::from(i % 10 != 9), "key {i}");
            }
            assert_eq!(runs.that_may_hold(b"another name").count(), 0);
        }
    }

    #[test]
    fn a_table_of_unknown_ends_is_asked_for_every_key() {
        let known = KeyRange::new(b"prefix/b", b"prefix/d");
        let runs = SortedRuns::new(vec![table(Some(&known)), table(None)]).unwrap();
        let asked = |key: &[u8]| runs.that_may_hold(key).count();
        assert_eq!(
            [asked(b"prefix/c"), asked(b"prefix/e"), asked(b"")],
            [2, 1, 1]
        );
    }

    #[test]
    fn too_many_tables_over_one_key_are_refused() {
        let range = KeyRange::new(b"a", b"z");
        let over = |count| SortedRuns::new((0..count).map(|_| table(Some(&range))).collect());
        assert!(over(MOST_RUNS).is_some());
        assert!(over(MOST_RUNS + 1).is_none());
    }
}
