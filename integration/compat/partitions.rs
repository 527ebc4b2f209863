//! Partitioned filters: one segment filter for each SST takes their place, and RocksDB probes it from
//! each partition.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeSet;

use lsm_sieve::{RocksDb, SieveDb};
use rocksdb::{Options, ReadOptions, SliceTransform};

use crate::support::binding::options_by_text;
use crate::support::model_db::{
    Dice, Model, absent_key, check_settled, cover, fill, for_speed, options, report, settle,
    verify_finds_every_key,
};
use crate::support::reads::skipped_ssts;

/// Partitions of about ten keys.
fn partitioned(more: &str) -> Options {
    let text = format!(
        "block_based_table_factory={{filter_policy=bloomfilter:10;index_type=kTwoLevelIndexSearch;\
         partition_filters=true;metadata_block_size=128;block_size=256;{more}}}"
    );
    options_by_text(&options(), &text).unwrap()
}

/// Whether RocksDB probes a segment filter of each SST, which was built while the SST was written.
fn each_has_a_filter(db: &SieveDb) {
    cover(db);
    settle(db);
    let segments = report(db).segments;
    assert!(!segments.is_empty());
    for segment in segments {
        let filter = segment.filter.expect("a filter");
        assert!(segment.consulted);
        assert_eq!(filter.source, "table capture");
    }
}

#[test]
fn a_partitioned_sst_has_one_segment_filter() {
    for more in [
        "",
        "decouple_partitioned_filters=true",
        "cache_index_and_filter_blocks=true",
    ] {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::open(&partitioned(more), &for_speed(), home.path()).unwrap();
        let mut model = Model::new();
        for first in [0, 400, 800] {
            fill(&db, &mut model, first..first + 400);
            db.flush().unwrap();
        }
        each_has_a_filter(&db);
        check_settled(&db, &model);
        // RocksDB's own lookups, past the summary filter, skip SSTs by them.
        assert!(
            skipped_ssts(|| {
                (0..300).for_each(|i| assert!(db.get_unfiltered(absent_key(i)).unwrap().is_none()));
            }) > 250
        );
        db.compact_range::<&[u8], &[u8]>(None, None);
        each_has_a_filter(&db);
        check_settled(&db, &model);
        verify_finds_every_key(&db);
    }
}

/// RocksDB gives a partition the prefix before it and the one behind it, as if they were keys. Seeks
/// that end in either are answered by the one filter of the SST.
#[test]
fn every_prefix_of_a_partitioned_sst_is_found_from_both_sides() {
    let home = tempfile::tempdir().unwrap();
    let mut options = partitioned("");
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(3));
    let db = SieveDb::open(&options, &for_speed(), home.path()).unwrap();
    let mut keys = BTreeSet::new();
    let mut dice = Dice(11);
    for _ in 0..3 {
        for _ in 0..400 {
            let key = format!("{:03}/{:03}", dice.below(250) * 2, dice.below(20));
            db.put(&key, "value").unwrap();
            keys.insert(key);
        }
        // A key that is its own prefix, and one that has none.
        for key in ["123", "9"] {
            db.put(key, "value").unwrap();
            keys.insert(key.to_owned());
        }
        db.flush().unwrap();
    }
    let scan_all = || {
        let plain: &RocksDb = &db;
        for number in 0..500 {
            for target in [
                format!("{number:03}"),
                format!("{number:03}/010"),
                format!("{number:03}~"),
            ] {
                let prefix = &target[..3];
                let mut same = ReadOptions::default();
                same.set_prefix_same_as_start(true);
                let mut iterator = plain.raw_iterator_opt(same);
                iterator.seek(&target);
                let next = keys.range(target.clone()..).next();
                let next = next
                    .filter(|key| key.starts_with(prefix))
                    .map(String::as_bytes);
                assert_eq!(iterator.key(), next, "from {target}");
                iterator.seek_for_prev(&target);
                let last = keys.range(..=target.clone()).next_back();
                let last = last
                    .filter(|key| key.starts_with(prefix))
                    .map(String::as_bytes);
                assert_eq!(iterator.key(), last, "up to {target}");
            }
        }
    };
    scan_all();
    each_has_a_filter(&db);
    scan_all();
    assert!(skipped_ssts(scan_all) > 100);
    db.compact_range::<&[u8], &[u8]>(None, None);
    each_has_a_filter(&db);
    scan_all();
    verify_finds_every_key(&db);
}

/// An extractor that is set on the running engine gives keys other prefixes than the filter has.
#[test]
fn a_partition_with_other_prefixes_names_no_segment() {
    let home = tempfile::tempdir().unwrap();
    let mut options = partitioned("");
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(3));
    let db = SieveDb::open(&options, &for_speed(), home.path()).unwrap();
    let plain: &RocksDb = &db;
    plain
        .set_options(&[("prefix_extractor", "fixed:6")])
        .unwrap();
    let keys: BTreeSet<String> = (0..600).map(|i| format!("{:06}/row", i * 7)).collect();
    keys.iter().for_each(|key| db.put(key, "value").unwrap());
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    for key in &keys {
        let mut same = ReadOptions::default();
        same.set_prefix_same_as_start(true);
        let mut iterator = plain.raw_iterator_opt(same);
        iterator.seek(key);
        assert_eq!(iterator.key(), Some(key.as_bytes()));
        iterator.seek_for_prev(key);
        assert_eq!(iterator.key(), Some(key.as_bytes()));
        assert!(db.get(key).unwrap().is_some());
    }
}
