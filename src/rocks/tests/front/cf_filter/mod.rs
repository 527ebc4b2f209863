//! `cf_filter` of `lsm-sieve-front`, over RocksDB.

mod lookup;

use std::collections::HashSet;
use std::sync::Arc;
use std::thread;

use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Env, Options};

use crate::filter::Scalable;
use crate::filter::{Chain, Scalar, Stage, WithSimd as _};
use crate::hash::KeyHasher;
use crate::hash::{HashId, Seed};
use crate::math::Items;
use crate::math::{Bits, Rate};
use crate::rocks::{Engine, hooks};
use lsm_sieve_front::audit::Distrust as _;
use lsm_sieve_front::cf_filter::lookup::{Fast, FastProbe, Verdict, check_all, get};
use lsm_sieve_front::cf_filter::*;
use lsm_sieve_front::cf_filters::CfFilters;
use lsm_sieve_front::options::FrontOptions;
use lsm_sieve_front::prefix::PrefixSet;
use lsm_sieve_front::segment::{Registry, SegmentId};
use lsm_sieve_front::sorted_runs::WithRange;
use lsm_sieve_front::threads::OwnSlot;
use lsm_sieve_front::view::Coverage;

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([5; 16]))
}

fn summary() -> Arc<Scalable> {
    let options = FrontOptions::default().summary(Items::new(0), Bits::new(0));
    Arc::new(Scalable::new(hasher().imprint().for_summary(), options))
}

/// An empty database in memory and its filters, which are complete. No maintenance changes the
/// view.
fn engine_and_front() -> (Engine, Arc<CfFilter>) {
    let cf_filter = CfFilter::new(
        DEFAULT_COLUMN_FAMILY_NAME,
        hasher(),
        Arc::new(Registry::new(hasher())),
        Arc::default(),
        &FrontOptions::default(),
        (summary(), HashSet::new(), PrefixSet::default()),
    );
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_env(&Env::mem_env().unwrap());
    hooks::install(&options, Arc::clone(&cf_filter), &hooks::HOOKS);
    let cfs = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
    let engine = Engine::open_cf_with_opts(&options, "/front", cfs).unwrap();
    assert!(knows_all_in(&cf_filter, cf_filter.view().summary));
    (engine, cf_filter)
}

/// Publishes this summary filter as covering all SSTs; returns whether it was published.
fn knows_all_in(cf_filter: &CfFilter, summary: Arc<Scalable>) -> bool {
    let (epoch, nothing) = (cf_filter.epoch(), HashSet::new());
    cf_filter.publish(epoch, summary, Coverage::Complete, nothing)
}

fn is_absent(verdict: Option<Verdict>) -> bool {
    let verdict = verdict.unwrap();
    matches!(verdict, Verdict::Absent(_) | Verdict::AbsentSampled(_))
}

/// What the fast probe says without the vectors that most processors have.
fn is_absent_fast(filters: impl Resolve, key: &[u8]) -> bool {
    let fast = FastProbe(filters).with_simd(Scalar, key);
    matches!(fast, Fast::Absent | Fast::AbsentSampled(_))
}

/// Most processors that run tests dispatch to SIMD.
#[test]
fn fast_probe_agrees_with_all_filters_and_the_database() {
    let (engine, cf_filter) = engine_and_front();
    let cf_filters = CfFilters::new(FrontOptions::default().summary);
    cf_filters.insert(0, Arc::clone(&cf_filter));
    // With one stage, and then with several.
    for written in [100, 300_000_u32] {
        for key in 0..written {
            engine.put(key.to_be_bytes(), "value").unwrap();
        }
        let before = cf_filter.stats();
        let (mut absent, mut absent_fast) = (0, 0);
        for key in (0..100).chain(1 << 31..(1 << 31) + 1_000_u32) {
            let key = &key.to_be_bytes();
            let here = is_absent(check_all(&*cf_filter, key));
            assert_eq!(is_absent(check_all((&cf_filters, 0), key)), here);
            assert!(!here || engine.get(key).unwrap().is_none());
            absent += u64::from(here);
            let fast = is_absent_fast(&*cf_filter, key);
            assert_eq!(is_absent_fast((&cf_filters, 0), key), fast);
            assert!(here || !fast);
            absent_fast += u64::from(fast);
        }
        assert!((900..=1_000).contains(&absent), "{absent}");
        let is_one_line = cf_filter.view().summary.stages() == 1 && OwnSlot::known().is_some();
        assert_eq!(absent_fast, if is_one_line { absent } else { 0 });
        let counted = cf_filter.stats().absent - before.absent;
        assert_eq!(counted, 2 * absent + 2 * absent_fast);
    }
    assert!(cf_filter.view().summary.stages() > 1);
    assert!(check_all((&cf_filters, 1), b"key").is_none());
}

/// The fast probe denies nearly all absent keys, alone and by the column family's id, and no
/// other key.
#[test]
fn static_summary_agrees_with_the_database() {
    let (engine, cf_filter) = engine_and_front();
    let cf_filters = CfFilters::new(FrontOptions::default().summary);
    cf_filters.insert(0, Arc::clone(&cf_filter));
    let keys = |numbers: std::ops::Range<u32>| numbers.map(u32::to_be_bytes);
    let hashes = keys(0..2_000).map(|key| hasher().hash(&key).for_summary());
    let stage = Stage::ribbon(hashes.collect(), Rate::ONE_PERCENT).unwrap();
    keys(0..2_000).for_each(|key| engine.put(key, "value").unwrap());
    let imprint = hasher().imprint().for_summary();
    let chain = Chain::new(imprint, vec![stage]);
    let options = FrontOptions::default().summary(Items::new(0), Bits::new(0));
    let summary = Scalable::starting_with(imprint, options, chain);
    assert!(knows_all_in(&cf_filter, Arc::new(summary)));
    let (mut absent, mut absent_fast) = (0, 0);
    for key in keys(0..2_000).chain(keys(1 << 31..(1 << 31) + 2_000)) {
        let key = &key[..];
        let here = is_absent(check_all(&*cf_filter, key));
        let found = get(&*cf_filter, key, || engine.get(key)).unwrap();
        assert_eq!(found, engine.get(key).unwrap());
        assert!(!here || found.is_none());
        let fast = is_absent_fast(&*cf_filter, key);
        assert_eq!(is_absent_fast((&cf_filters, 0), key), fast);
        assert!(here || !fast);
        absent += u32::from(here);
        absent_fast += u32::from(fast);
    }
    assert!((1_960..=2_000).contains(&absent), "{absent}");
    // Of seven columns, one absent key in 128 passes, and a few are bumped.
    let least = if OwnSlot::known().is_some() { 1_800 } else { 0 };
    assert!((least..=absent).contains(&absent_fast), "{absent_fast}");
}

/// A wait for all column families would otherwise take a dropped one for a failed hook.
#[test]
fn a_front_that_is_taken_out_is_none_that_has_given_up() {
    let (_engine, cf_filter) = engine_and_front();
    let cf_filters = CfFilters::new(FrontOptions::default().summary);
    cf_filters.insert(0, Arc::clone(&cf_filter));
    assert!(!cf_filters.any_is_disabled());
    cf_filters.withdraw_view(&cf_filter);
    assert!(cf_filter.is_disabled() && !cf_filters.any_is_disabled());
    cf_filters.insert(0, cf_filter);
    assert!(cf_filters.any_is_disabled());
}

#[test]
fn a_summary_is_stored_until_keys_or_tables_come() {
    let (engine, cf_filter) = engine_and_front();
    let put = |numbers: std::ops::Range<u32>| {
        numbers.for_each(|key| engine.put(key.to_be_bytes(), "value").unwrap());
    };
    let are = || (cf_filter.is_stored(), cf_filter.is_nearly_stored());
    let store = || cf_filter.note_stored(cf_filter.to_store(&cf_filter.view().summary));
    put(0..10_000);
    assert_eq!(are(), (false, false));
    store();
    assert_eq!(are(), (true, true));
    put(10_000..11_000);
    assert_eq!(are(), (false, true));
    put(11_000..12_000);
    assert_eq!(are(), (false, false));
    store();
    let covered = |ids: &[u8]| {
        let ids = ids.iter().map(|&id| SegmentId::from_bytes([id; 16]));
        let (epoch, summary) = (cf_filter.epoch(), cf_filter.view().summary);
        assert!(cf_filter.publish(epoch, summary, Coverage::Complete, ids.collect()));
    };
    covered(&[1, 2]);
    assert_eq!(are(), (false, true));
    store();
    covered(&[2]);
    assert_eq!(are(), (true, true));
    assert!(knows_all_in(&cf_filter, summary()));
    assert_eq!(are(), (false, false));
}

/// The filters say nothing of an SST that was not read, so nothing false.
#[test]
fn a_miss_beside_a_table_that_is_not_covered_is_no_false_positive() {
    let (_engine, cf_filter) = engine_and_front();
    let uncovered = WithRange {
        filter: None,
        range: None,
    };
    let (epoch, summary) = (cf_filter.epoch(), cf_filter.view().summary);
    let coverage = Coverage::all_but(vec![uncovered]);
    assert!(cf_filter.publish(epoch, summary, coverage, HashSet::new()));
    let verdict = check_all(&*cf_filter, b"absent").unwrap();
    assert!(matches!(verdict, Verdict::Maybe));
    cf_filter.record(verdict, Some(false));
    let stats = cf_filter.stats();
    assert_eq!((stats.uncovered, stats.false_positives), (1, 0));
}

/// A maintenance run may be under way when a hook fails.
#[test]
fn what_was_learnt_before_a_front_gave_up_is_not_published() {
    let (_engine, cf_filter) = engine_and_front();
    let (epoch, summary) = (cf_filter.epoch(), cf_filter.view().summary);
    assert!(cf_filter.answer(b"absent").is_absent());
    cf_filter.disable();
    let published = cf_filter.publish(epoch, summary, Coverage::Complete, HashSet::new());
    assert!(!published && !cf_filter.answer(b"absent").is_absent());
}

/// The key was written and deleted between the two checks.
#[test]
fn what_another_view_denies_was_not_denied_all_along() {
    let (engine, cf_filter) = engine_and_front();
    let edition = cf_filter.edition();
    let still_denied = || cf_filter.still_absent(&["key"], edition);
    assert!(still_denied());
    engine.put("key", "value").unwrap();
    assert!(!still_denied());
    engine.delete("key").unwrap();
    let anew = summary();
    assert!(cf_filter.feed(vec![Arc::clone(&anew)]));
    assert!(knows_all_in(&cf_filter, anew));
    assert!(cf_filter.answer(b"key").is_absent());
    assert!(!still_denied());
}

#[test]
fn keys_written_while_a_summary_is_dropped_are_found() {
    let (engine, cf_filter) = engine_and_front();
    thread::scope(|scope| {
        let drops = scope.spawn(|| assert!(cf_filter.drop_summary()));
        for key in 0_u32.. {
            let last = drops.is_finished();
            engine.put(key.to_be_bytes(), "value").unwrap();
            assert!(
                !cf_filter.answer(&key.to_be_bytes()).is_absent(),
                "key {key}"
            );
            engine.flush().unwrap();
            if last {
                break;
            }
        }
    });
}
