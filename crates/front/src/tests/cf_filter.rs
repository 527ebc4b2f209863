//! The filters of one column family over a store. No maintenance changes them but what a test does.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::thread;

use super::memory_lsm::{Store, Stored};
use crate::audit::Distrust as _;
use crate::cf_filter::lookup::{Fast, FastProbe, Verdict, check_all, get};
use crate::cf_filter::{CfFilter, Listing, Resolve, WritePosition};
use crate::cf_filters::Progress;
use crate::filter::{Chain, Scalable, Scalar, Stage, WithSimd as _};
use crate::math::{Bits, Items, Rate};
use crate::options::FrontOptions;
use crate::segment::SegmentId;
use crate::sorted_runs::WithRange;
use crate::threads::OwnSlot;
use crate::view::Coverage;

/// An empty store whose filters are complete.
fn open() -> Store {
    let store = Store::open_without_thread(Stored::new(), &FrontOptions::default());
    let cf_filter = store.cf_filter();
    assert!(publish_complete(cf_filter, cf_filter.view().summary));
    store
}

/// Another empty summary filter.
fn summary(store: &Store) -> Arc<Scalable> {
    let options = FrontOptions::default().summary(Items::new(0), Bits::new(0));
    let imprint = store.filters.hasher.imprint().for_summary();
    Arc::new(Scalable::new(imprint, options))
}

/// Publishes this summary filter as covering all segments; returns whether it was published.
fn publish_complete(cf_filter: &CfFilter, summary: Arc<Scalable>) -> bool {
    let (listed, nothing) = (cf_filter.list(|| ()), HashSet::new());
    cf_filter.publish(&listed, summary, Coverage::Complete, nothing)
}

fn is_absent(verdict: Option<Verdict>) -> bool {
    let verdict = verdict.unwrap();
    matches!(verdict, Verdict::Absent(_) | Verdict::AbsentSampled(_))
}

/// What the fast probe says without the vectors that most processors have.
fn is_absent_fast(filters: impl Resolve, key: &[u8]) -> bool {
    let fast = FastProbe(filters).with_simd(Scalar, key);
    matches!(fast, Fast::Absent(_) | Fast::AbsentSampled(_))
}

/// Most processors that run tests dispatch to SIMD.
#[test]
fn fast_probe_agrees_with_all_filters_and_the_store() {
    let store = open();
    let (cf_filter, cf_filters) = (&**store.cf_filter(), &*store.filters.cf_filters);
    // With one stage, and then with several.
    for written in [100, 300_000_u32] {
        for key in 0..written {
            store.put(&key.to_be_bytes(), b"value");
        }
        let before = cf_filter.stats();
        let (mut absent, mut absent_fast) = (0, 0);
        for key in (0..100).chain(1 << 31..(1 << 31) + 1_000_u32) {
            let key = &key.to_be_bytes();
            let here = is_absent(check_all(cf_filter, key));
            assert_eq!(is_absent(check_all((cf_filters, 0), key)), here);
            assert!(!here || !store.has(key));
            absent += u64::from(here);
            let fast = is_absent_fast(cf_filter, key);
            assert_eq!(is_absent_fast((cf_filters, 0), key), fast);
            assert!(here || !fast);
            absent_fast += u64::from(fast);
        }
        assert!((900..=1_000).contains(&absent), "{absent}");
        let is_one_line = cf_filter.view().summary.stages() == 1 && OwnSlot::taken().is_some();
        assert_eq!(absent_fast, if is_one_line { absent } else { 0 });
        let counted = cf_filter.stats().absent - before.absent;
        assert_eq!(counted, 2 * absent + 2 * absent_fast);
    }
    assert!(cf_filter.view().summary.stages() > 1);
    assert!(check_all((cf_filters, 1), b"key").is_none());
}

/// The fast probe denies nearly all absent keys, alone and by the column family's id, and no other
/// key.
#[test]
fn static_summary_agrees_with_the_store() {
    let store = open();
    let (cf_filter, cf_filters) = (&**store.cf_filter(), &*store.filters.cf_filters);
    let keys = |numbers: Range<u32>| numbers.map(u32::to_be_bytes);
    let hashes = keys(0..2_000).map(|key| cf_filter.hasher().hash(&key).for_summary());
    let stage = Stage::ribbon(hashes.collect(), Rate::ONE_PERCENT).unwrap();
    keys(0..2_000).for_each(|key| store.put(&key, b"value"));
    let imprint = cf_filter.hasher().imprint().for_summary();
    let chain = Chain::new(imprint, vec![stage]);
    let options = FrontOptions::default().summary(Items::new(0), Bits::new(0));
    let summary = Scalable::starting_with(imprint, options, chain);
    assert!(publish_complete(cf_filter, Arc::new(summary)));
    let (mut absent, mut absent_fast) = (0, 0);
    for key in keys(0..2_000).chain(keys(1 << 31..(1 << 31) + 2_000)) {
        let key = &key[..];
        let here = is_absent(check_all(cf_filter, key));
        let read = || Ok::<_, ()>(store.has(key).then_some(()));
        let found = get(cf_filter, key, read).unwrap().is_some();
        assert_eq!(found, store.has(key));
        assert!(!here || !found);
        let fast = is_absent_fast(cf_filter, key);
        assert_eq!(is_absent_fast((cf_filters, 0), key), fast);
        assert!(here || !fast);
        absent += u32::from(here);
        absent_fast += u32::from(fast);
    }
    assert!((1_960..=2_000).contains(&absent), "{absent}");
    // Of seven columns, one absent key in 128 passes, and a few are bumped.
    let least = if OwnSlot::taken().is_some() { 1_800 } else { 0 };
    assert!((least..=absent).contains(&absent_fast), "{absent_fast}");
}

/// A wait for all column families would otherwise take a dropped one for a failed hook.
#[test]
fn removed_filters_do_not_count_as_disabled() {
    let store = open();
    let (cf_filter, cf_filters) = (store.cf_filter(), &store.filters.cf_filters);
    assert!(!cf_filters.any_is_disabled());
    cf_filters.remove(cf_filter);
    assert!(cf_filter.coverage().is_disabled() && !cf_filters.any_is_disabled());
    cf_filters.insert(0, Arc::clone(cf_filter));
    assert!(cf_filters.any_is_disabled());
}

#[test]
fn summary_counts_as_stored_until_keys_or_segments_come() {
    let store = open();
    let cf_filter = store.cf_filter();
    let put = |numbers: Range<u32>| {
        numbers.for_each(|key| store.put(&key.to_be_bytes(), b"value"));
    };
    let are = || (cf_filter.is_saved(), cf_filter.is_nearly_saved());
    let note = || {
        cf_filter
            .coverage()
            .note_saved(cf_filter.coverage().to_save(&cf_filter.view().summary))
    };
    put(0..10_000);
    assert_eq!(are(), (false, false));
    note();
    assert_eq!(are(), (true, true));
    put(10_000..11_000);
    assert_eq!(are(), (false, true));
    put(11_000..12_000);
    assert_eq!(are(), (false, false));
    note();
    let cover = |ids: &[u8]| {
        let ids = ids.iter().map(|&id| SegmentId::from_bytes([id; 16]));
        let (listed, summary) = (cf_filter.list(|| ()), cf_filter.view().summary);
        assert!(cf_filter.publish(&listed, summary, Coverage::Complete, ids.collect()));
    };
    cover(&[1, 2]);
    assert_eq!(are(), (false, true));
    note();
    cover(&[2]);
    assert_eq!(are(), (true, true));
    let summary_now = cf_filter.view().summary;
    cf_filter.mark_covered(&summary_now, Some(SegmentId::from_bytes([2; 16])));
    assert_eq!(are(), (true, true), "it was covered");
    cf_filter.mark_covered(&summary_now, Some(SegmentId::from_bytes([3; 16])));
    assert_eq!(are(), (false, true));
    note();
    assert_eq!(are(), (true, true));
    assert!(publish_complete(cf_filter, summary(&store)));
    assert_eq!(are(), (false, false));
}

/// A save that began before would be taken for one of the present.
#[test]
fn state_that_lost_its_trust_while_it_was_stored_does_not_count_as_stored() {
    let store = open();
    let cf_filter = store.cf_filter();
    let coverage = cf_filter.coverage();
    let state = coverage.to_save(&cf_filter.view().summary);
    coverage.forget_saved();
    assert!(!coverage.may_be_saved(&state));
    coverage.note_saved(state);
    assert!(!cf_filter.is_saved() && !cf_filter.is_nearly_saved());
}

/// Writes feed two while one is being built.
#[test]
fn filters_that_are_fed_and_read_are_weighed_once() {
    let store = open();
    let cf_filter = store.cf_filter();
    let (old, new) = (cf_filter.view().summary, summary(&store));
    assert_eq!(cf_filter.size_of_summaries(), old.size());
    let both = old.size() + new.size();
    for fed in [[&old, &new], [&new, &old]] {
        assert!(cf_filter.feed(fed.map(Arc::clone).into()));
        assert_eq!(cf_filter.size_of_summaries(), both);
    }
    assert!(cf_filter.feed(vec![new]));
    assert_eq!(
        cf_filter.size_of_summaries(),
        both,
        "lookups still read the old one"
    );
}

/// Its file was removed before the filter was stored.
#[test]
fn summary_of_a_family_that_was_dropped_while_it_was_stored_leaves_no_file() {
    let store = Store::open_without_thread(Stored::new(), &FrontOptions::default());
    store.put(b"key", b"value");
    store.flush();
    store.look();
    let cf_filter = Arc::clone(store.cf_filter());
    let is_saved = || store.filters.filter_store.check_summary(cf_filter.name());
    assert!(store.consolidate() && is_saved().unwrap());
    let (dropped, cf_filters) = (
        Arc::clone(&cf_filter),
        Arc::clone(&store.filters.cf_filters),
    );
    store.after_next_save(move || cf_filters.remove(&dropped));
    store.put(b"another", b"value");
    store.consolidate();
    assert!(cf_filter.coverage().is_disabled());
    assert!(!is_saved().unwrap());
}

/// A wait for all families goes on until each has come as far as it will.
#[test]
fn progress_is_that_of_the_family_that_goes_on_longest() {
    let store = open();
    let (first, second) = (store.cf_filter(), store.add_family("second"));
    let progress = || store.filters.cf_filters.progress(false);
    assert_eq!(progress(), Progress::Growing);
    assert!(publish_complete(&second, second.view().summary));
    assert_eq!(progress(), Progress::Complete);
    first.external_writes_happened();
    second.external_writes_happened();
    let without_id = WithRange {
        filter: None,
        range: None,
    };
    let coverage = Coverage::all_but(vec![without_id]);
    let (listed, summary) = (first.list(|| ()), first.view().summary);
    assert!(first.publish(&listed, summary, coverage, HashSet::new()));
    assert_eq!(progress(), Progress::Growing);
    assert!(publish_complete(&second, second.view().summary));
    assert_eq!(progress(), Progress::Final);
}

/// The filters say nothing of a segment that was not read, so nothing false.
#[test]
fn miss_beside_an_uncovered_segment_is_no_false_positive() {
    let store = open();
    let cf_filter = store.cf_filter();
    let uncovered = WithRange {
        filter: None,
        range: None,
    };
    let (listed, summary) = (cf_filter.list(|| ()), cf_filter.view().summary);
    let coverage = Coverage::all_but(vec![uncovered]);
    assert!(cf_filter.publish(&listed, summary, coverage, HashSet::new()));
    let verdict = check_all(&**cf_filter, b"absent").unwrap();
    assert!(matches!(verdict, Verdict::Maybe));
    cf_filter.lookups().record(verdict, Some(false));
    assert!(!is_absent_fast(&**cf_filter, b"absent"));
    let stats = cf_filter.stats();
    assert_eq!((stats.uncovered, stats.false_positives), (1, 0));
}

/// A maintenance run may be under way when a hook fails.
#[test]
fn disabled_filters_publish_nothing_from_an_earlier_epoch() {
    let store = open();
    let cf_filter = store.cf_filter();
    let (listed, summary) = (cf_filter.list(|| ()), cf_filter.view().summary);
    assert!(cf_filter.answer(b"absent").is_absent());
    cf_filter.disable();
    let published = cf_filter.publish(&listed, summary, Coverage::Complete, HashSet::new());
    assert!(!published && !cf_filter.answer(b"absent").is_absent());
}

/// What it lists may lack the keys that they bring; and an ingestion may take no sequence number.
#[test]
fn external_writes_end_earlier_listings_and_positions_when_they_begin_and_when_they_end() {
    let store = open();
    let cf_filter = store.cf_filter();
    let publishes = |listing: &Listing<()>| {
        let summary = cf_filter.view().summary;
        let published = cf_filter.publish(listing, summary, Coverage::Complete, HashSet::new());
        assert_eq!(cf_filter.answer(b"absent").is_absent(), published);
        published
    };
    let position = || cf_filter.coverage().write_position(0, None);
    let list = || (cf_filter.list(|| ()), position());
    let mut earlier = vec![list()];
    let check = |earlier: &[(Listing<()>, WritePosition)]| {
        for (listing, then) in earlier {
            assert!(!publishes(listing));
            assert_ne!(*then, position());
        }
    };
    let first = cf_filter.begin_external_writes();
    check(&earlier);
    earlier.push(list());
    assert!(!publishes(&earlier[1].0), "one goes on");
    let second = cf_filter.begin_external_writes();
    check(&earlier);
    earlier.push(list());
    drop(first);
    check(&earlier);
    earlier.push(list());
    assert!(!publishes(&earlier[3].0), "the other goes on");
    drop(second);
    check(&earlier);
    assert!(publishes(&cf_filter.list(|| ())));
}

/// Those that writes feed while another takes the place of the first, too.
#[test]
fn disabled_filters_are_freed() {
    let store = open();
    let cf_filter = store.cf_filter();
    let anew = summary(&store);
    assert!(cf_filter.feed(vec![cf_filter.view().summary, anew]));
    let now = cf_filter.view().summary;
    cf_filter.mark_covered(&now, Some(SegmentId::from_bytes([1; 16])));
    let before = cf_filter.size_of_summaries();
    cf_filter.disable();
    assert!(cf_filter.coverage().covered().is_empty());
    assert!(!cf_filter.feed(vec![now]), "a rebuild was under way");
    assert!(
        cf_filter.size_of_summaries().get() < before.get() / 10,
        "{:?}",
        cf_filter.size_of_summaries()
    );
    assert!(!cf_filter.drop_summary(), "there is none left");
}

/// The key was written and deleted between the two checks.
#[test]
fn key_that_another_view_denies_is_not_still_absent() {
    let store = open();
    let cf_filter = store.cf_filter();
    let edition = cf_filter.lookups().edition();
    let still_absent = || cf_filter.lookups().still_absent(&["key"], edition);
    assert!(still_absent());
    store.put(b"key", b"value");
    assert!(!still_absent());
    store.delete(b"key");
    let anew = summary(&store);
    assert!(cf_filter.feed(vec![Arc::clone(&anew)]));
    assert!(publish_complete(cf_filter, anew));
    assert!(cf_filter.answer(b"key").is_absent());
    assert!(!still_absent());
}

#[test]
fn keys_written_while_the_summary_is_dropped_are_found() {
    let store = open();
    let cf_filter = store.cf_filter();
    thread::scope(|scope| {
        let drops = scope.spawn(|| assert!(cf_filter.drop_summary()));
        for key in 0_u32.. {
            let last = drops.is_finished();
            store.put(&key.to_be_bytes(), b"value");
            let answer = cf_filter.answer(&key.to_be_bytes());
            assert!(!answer.is_absent(), "key {key}");
            store.flush();
            if last {
                break;
            }
        }
    });
}

/// Who waits for complete filters waits on for a segment that can be covered.
#[test]
fn segment_without_an_id_ends_no_wait_for_another() {
    let store = open();
    let cf_filter = &**store.cf_filter();
    let listed = cf_filter.list(|| ());
    let segment = || {
        let id = SegmentId::from_bytes([1; 16]);
        Some(store.filters.registry.open(id))
    };
    let cases = [
        (vec![None], true),
        (vec![None, segment()], false),
        (vec![segment()], false),
    ];
    for (filters, stays) in cases {
        let range = None;
        let uncovered = filters
            .into_iter()
            .map(|filter| WithRange { filter, range });
        let coverage = Coverage::all_but(uncovered.collect());
        assert!(cf_filter.publish(&listed, summary(&store), coverage, HashSet::new()));
        assert_eq!(cf_filter.lookups().stays_uncovered(false), stays);
    }
}
