//! Ranges: exact questions and iterators with bounds agree with a model, whatever happened to the keys
//! before.
//!
//! `LSM_SIEVE_RANGE_OPERATIONS` sets how many operations the random test checks.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeSet;
use std::path::Path;

use lsm_sieve::{OpenError, Prefix, SieveDb, SieveOptions};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rocksdb::{Options, ReadOptions, WriteBatch};

use crate::support::binding::options_by_text;
use crate::support::environment::number_from;
use crate::support::model_db::{ingest, options, settle, sieve};

type Keys = BTreeSet<Vec<u8>>;

/// A letter and a number of eight bytes, many in a block and in many blocks; some keys go on behind it,
/// and some are shorter.
fn key(random: &mut StdRng) -> Vec<u8> {
    let number: u64 = random.random_range(0..1_000) * 40_000 + random.random_range(0..50);
    let mut key = vec![b'a' + random.random_range(0..3_u8)];
    key.extend(number.to_be_bytes());
    match random.random_range(0..20) {
        0 => key.push(random.random_range(0..2)),
        1 => key.truncate(random.random_range(0..9)),
        _ => {}
    }
    key
}

/// Two bounds, mostly near one another.
fn bounds(random: &mut StdRng) -> (Vec<u8>, Vec<u8>) {
    let from = key(random);
    let mut end = from.clone();
    match random.random_range(0..10) {
        0 => end = key(random),
        1 => end.push(random.random_range(0..2)),
        _ => {
            let width = 1 << random.random_range(0..18);
            if let Some(Ok(number)) = from.get(1..9).map(<[u8; 8]>::try_from) {
                let last = u64::from_be_bytes(number) + random.random_range(0..=width);
                end = [&from[..1], &last.to_be_bytes()].concat();
            }
        }
    }
    (from, end)
}

fn by_letter(bits: u32) -> SieveOptions {
    sieve().ranges("default", Prefix::fixed(1), bits)
}

struct World {
    keys: Keys,
    random: StdRng,
    operations: u64,
}

impl World {
    fn write(&mut self, db: &SieveDb) {
        let key = key(&mut self.random);
        match self.random.random_range(0..10) {
            0..=5 => db.put(&key, b"value").unwrap(),
            6 => db.merge(&key, b"more").unwrap(),
            7 | 8 => {
                let next = self.keys.range(key.clone()..).next().cloned();
                let key = next.unwrap_or(key);
                db.delete(&key).unwrap();
                self.keys.remove(&key);
                return;
            }
            _ => {
                let (from, end) = bounds(&mut self.random);
                if from < end {
                    let mut batch = WriteBatch::default();
                    batch.delete_range(&from, &end);
                    db.write(batch).unwrap();
                    self.keys.retain(|key| *key < from || *key >= end);
                }
                return;
            }
        }
        self.keys.insert(key);
    }

    fn rearrange(&mut self, db: &SieveDb, home: &Path) {
        match self.random.random_range(0..7) {
            0..=1 => db.flush().unwrap(),
            2 => db.compact_range(None::<&[u8]>, None::<&[u8]>),
            3 | 4 => db.filters().consolidate().unwrap(),
            5 => settle(db),
            _ => {
                let new = (0..5).map(|_| key(&mut self.random)).collect();
                ingest(db, &home.join("ingested.sst"), &new, b"new");
                self.keys.extend(new);
            }
        }
    }

    fn ask(&mut self, db: &SieveDb) {
        let (from, end) = bounds(&mut self.random);
        let within = |key: &&Vec<u8>| (&from..&end).contains(key);
        let first = self.keys.iter().find(within);
        let last = self.keys.iter().rfind(within);
        let exists = db.range_exists(&from..&end).unwrap();
        assert_eq!(exists, first.is_some(), "{from:?}..{end:?}");
        self.operations += 1;
        if self.random.random_bool(0.9) {
            return;
        }
        let mut options = ReadOptions::default();
        options.set_iterate_range(from.clone()..end.clone());
        let mut iterator = db.raw_iterator_opt(options);
        iterator.seek_to_first();
        assert_eq!(
            iterator.key(),
            first.map(Vec::as_slice),
            "{from:?}..{end:?}"
        );
        iterator.seek_to_last();
        assert_eq!(iterator.key(), last.map(Vec::as_slice), "{from:?}..{end:?}");
        iterator.status().unwrap();
    }
}

#[test]
fn random_range_operations_match_their_model() {
    let operations = number_from("LSM_SIEVE_RANGE_OPERATIONS").unwrap_or(60_000);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("LSM_SIEVE_SEED={seed}");
    let home = tempfile::tempdir().unwrap();
    let mut world = World {
        keys: Keys::new(),
        random: StdRng::seed_from_u64(seed),
        operations: 0,
    };
    let (rounds, mut absent) = (10, 0);
    for _ in 0..rounds {
        let settings = match world.random.random_range(0..4) {
            0 => sieve(),
            1 => by_letter(12).speed_over_memory(true),
            _ => by_letter(16),
        };
        let db = SieveDb::open(&options(), &settings, home.path().join("db")).unwrap();
        let until = world.operations + operations / rounds;
        while world.operations < until {
            match world.random.random_range(0..1_000) {
                0..=1 => world.rearrange(&db, home.path()),
                2..=60 => world.write(&db),
                _ => world.ask(&db),
            }
        }
        let stats = db.filters().stats();
        assert_eq!(stats.false_negatives, 0);
        absent += stats.prefixes_absent;
    }
    println!(
        "{{\"operations\":{},\"absent\":{absent},\"false_negatives\":0}}",
        world.operations
    );
    assert!(absent > world.operations / 10, "{absent}");
}

/// An iterator reads the database as of its creation, whatever the filters know by now.
#[test]
fn iterator_with_bounds_finds_a_key_that_was_deleted_after_it_was_opened() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &by_letter(16), home.path()).unwrap();
    let key = |number: u64| [&b"a"[..], &number.to_be_bytes()].concat();
    db.put(key(5), b"value").unwrap();
    let bounded = || {
        let mut options = ReadOptions::default();
        options.set_iterate_range(key(0)..key(9));
        db.raw_iterator_opt(options)
    };
    let mut held = bounded();
    let snapshot = db.snapshot();
    db.delete(key(5)).unwrap();
    db.flush().unwrap();
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    db.filters().consolidate().unwrap();
    assert!(!db.range_exists(key(0)..key(9)).unwrap());
    held.seek_to_first();
    assert_eq!(held.key(), Some(&key(5)[..]));
    let mut options = ReadOptions::default();
    options.set_iterate_range(key(0)..key(9));
    let mut of_snapshot = snapshot.raw_iterator_opt(options);
    of_snapshot.seek_to_first();
    assert_eq!(of_snapshot.key(), Some(&key(5)[..]));
}

/// Empty ranges are answered without a read, those of a column family too.
#[test]
fn empty_ranges_right_behind_keys_are_answered_by_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let settings = sieve().ranges("events", Prefix::fixed(1), 16);
    let mut create = options();
    create.create_missing_column_families(true);
    let cfs = [("default", options()), ("events", options())];
    let db =
        SieveDb::<rocksdb::MultiThreaded>::open_cf_with_opts(&create, &settings, home.path(), cfs);
    let db = db.unwrap();
    let events = db.cf_handle("events").unwrap();
    let key = |number: u64| [&b"a"[..], &number.to_be_bytes()].concat();
    for number in 0..5_000 {
        db.put_cf(&events, key(100 * number), b"value").unwrap();
        db.put(key(100 * number), b"value").unwrap();
    }
    db.flush_cf(&events).unwrap();
    db.filters().consolidate().unwrap();
    let ask = |cf: bool| {
        for number in 0..1_000 {
            let [behind, at] =
                [100 * number + 1, 100 * number].map(|from| key(from)..key(from + 50));
            let exists = |range| match cf {
                true => db.range_exists_cf(&events, range).unwrap(),
                false => db.range_exists(range).unwrap(),
            };
            assert!(!exists(behind));
            assert!(exists(at));
        }
    };
    ask(true);
    let stats = db.filters().stats_cf(&events).unwrap();
    assert!(stats.prefixes_absent > 980, "{stats:?}");
    assert_eq!(stats.prefixes_found, 1_000);
    assert_eq!(stats.prefixes_absent + stats.prefix_false_positives, 1_000);
    ask(false);
    let health = db.filters().health();
    let ranges = health
        .cfs
        .iter()
        .map(|cf| (cf.name.as_str(), cf.ranges.get() > 0));
    assert_eq!(
        ranges.collect::<Vec<_>>(),
        [("default", false), ("events", true)]
    );
}

#[test]
fn ranges_that_no_filter_can_answer_are_refused_at_open() {
    let home = tempfile::tempdir().unwrap();
    let open = |options: &Options, settings: &SieveOptions| {
        let refused = SieveDb::<rocksdb::MultiThreaded>::open(options, settings, home.path());
        let refused = refused.unwrap_err();
        assert!(matches!(refused, OpenError::Settings { .. }), "{refused:?}");
        refused.to_string()
    };
    let refused = open(&options(), &by_letter(9));
    assert!(
        refused.contains("10 to 34 bits per key, not 9"),
        "{refused}"
    );
    let mut other = options();
    other.set_comparator(
        "by length",
        Box::new(|one, two| one.len().cmp(&two.len()).then(one.cmp(two))),
    );
    let injective = by_letter(16).comparator_is_injective("by length");
    let refused = open(&other, &injective);
    assert!(refused.contains("leave out its ranges"), "{refused}");
}

/// Bounds are in RocksDB's order. The filters answer none of the reverse order, or only the empty ones.
#[test]
fn ranges_of_the_reverse_order_are_those_of_rocksdb() {
    let home = tempfile::tempdir().unwrap();
    let text = "comparator=rocksdb.ReverseBytewiseComparator";
    let reverse = options_by_text(&options(), text).unwrap();
    let key = |number: u64| [&b"a"[..], &number.to_be_bytes()].concat();
    let db =
        SieveDb::<rocksdb::MultiThreaded>::open(&reverse, &by_letter(16), home.path()).unwrap();
    (0..1_000).for_each(|number| db.put(key(100 * number), b"value").unwrap());
    db.filters().consolidate().unwrap();
    for number in 1..1_000 {
        let at = 100 * number;
        assert!(db.range_exists(key(at)..key(at - 1)).unwrap());
        assert!(!db.range_exists(key(at - 1)..key(at - 50)).unwrap());
        assert!(!db.range_exists(key(at - 1)..key(at)).unwrap());
    }
}
