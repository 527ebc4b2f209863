//! Partitioned filters: one segment filter for each SST takes their place, and RocksDB probes it from
//! each partition.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::{BTreeMap, BTreeSet};

use lsm_sieve::{RocksDb, SieveDb};
use rocksdb::{CompactionDecision as Decision, Options, ReadOptions, SliceTransform};

use crate::support::binding::options_by_text;
use crate::support::model_db::{
    Dice, KEYS, Model, absent_key, check_cf_reads, check_settled, cover, fill, for_speed, options,
    report, settle, verify_finds_every_key, write_randomly,
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

/// What Kvrocks' storage sets for every column family, with small memtables and levels.
const KVROCKS: &str = "block_based_table_factory={format_version=5;\
    index_type=kTwoLevelIndexSearch;filter_policy=bloomfilter:10;partition_filters=true;\
    optimize_filters_for_memory=true;metadata_block_size=4096;\
    data_block_index_type=kDataBlockBinaryAndHash;data_block_hash_table_util_ratio=0.75;\
    block_size=16384;cache_index_and_filter_blocks=true;\
    cache_index_and_filter_blocks_with_high_priority=true;\
    pin_l0_filter_and_index_blocks_in_cache=true};\
    min_write_buffer_number_to_merge=2;max_write_buffer_number=4;enable_pipelined_write=true;\
    memtable_whole_key_filtering=true;memtable_prefix_bloom_size_ratio=0.1;\
    enable_blob_files=true;min_blob_size=16;enable_blob_garbage_collection=true;\
    write_buffer_size=65536;target_file_size_base=65536;max_bytes_for_level_base=131072";

/// The column families of a Kvrocks database beside the default one.
const FAMILIES_OF_KVROCKS: [&str; 5] = ["metadata", "zset_score", "pubsub", "propagate", "stream"];

/// Its compaction filters remove what expired.
fn drop_expired(_: u32, _: &[u8], value: &[u8]) -> Decision {
    match value {
        b"expired" => Decision::Remove,
        _ => Decision::Keep,
    }
}

#[test]
fn a_database_with_the_options_of_kvrocks_is_read_as_its_model_says() {
    let home = tempfile::tempdir().unwrap();
    let open = || {
        let mut options = options_by_text(&options(), KVROCKS).unwrap();
        options.set_compaction_filter("expired", drop_expired);
        let families = FAMILIES_OF_KVROCKS.map(|name| (name, options.clone()));
        let builder = SieveDb::builder(home.path()).options(&options);
        let builder = builder.filters(&for_speed()).cfs_with_opts(families);
        builder.open().unwrap()
    };
    let names = || FAMILIES_OF_KVROCKS.into_iter().chain(["default"]);
    let mut models: BTreeMap<_, _> = names().map(|name| (name, Model::new())).collect();
    let mut dice = Dice(5);
    let mut db = open();
    for round in 0..3 {
        for (name, model) in &mut models {
            write_randomly(&db, name, model, &mut dice, 1_500);
            check_cf_reads(&db, name, model);
            let cf = db.cf_handle(name).unwrap();
            for i in 0..200 {
                let key = format!("expired-{round}-{i}");
                db.put_cf(&cf, key, b"expired").unwrap();
            }
            db.compact_range_cf::<&[u8], &[u8]>(&cf, None, None);
            check_cf_reads(&db, name, model);
        }
        drop(db);
        db = open();
    }
    cover(&db);
    settle(&db);
    for (name, model) in &models {
        let tally = check_cf_reads(&db, name, model);
        assert!(
            tally.ruled_out * 10 >= KEYS as usize * 9,
            "{name} {tally:?}"
        );
    }
    verify_finds_every_key(&db);
    each_has_a_filter(&db);
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
