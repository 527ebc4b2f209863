//! Counters that add up: each lookup is counted once, by its outcome.
//!
//! ```text
//! lookups = absent                                         the filters denied the key
//!         + found                                          the engine found it; found_unchecked
//!                                                          of them without a filter
//!         + false_positives | uncovered | not_consulted    the engine found nothing
//! audited <= the lookups that found nothing                one in n of them; with n = 1, all
//! ```
//!
//! A failed read is no lookup. Of filter answers without a read, only *absent* is counted.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

mod read_calls;

use lsm_sieve::{FilterSize, Isolation, SieveDb, SieveOptions, Stats};
use read_calls::{ANSWERS, Tally, tally_of};
use rocksdb::{
    BlockBasedOptions, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Options, ReadOptions, ReadTier,
    TransactionDBOptions,
};
use tempfile::TempDir;

use crate::support::model_db::{
    Model, absent_key, cover, fill, key, options, settle, sieve, stats_of,
};
use crate::support::reads;

const OTHER: &str = "other";

/// Keys that exist, half of them in an SST and half in a memtable, and as many that do not.
const KEYS: u64 = 1_000;

struct World {
    db: SieveDb,
    _home: TempDir,
}

impl World {
    fn new(sieve: &SieveOptions, options: &Options) -> Self {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::builder(home.path())
            .options(options)
            .filters(sieve)
            .cfs([DEFAULT, OTHER])
            .open()
            .unwrap();
        let fill = |numbers: std::ops::Range<u64>| {
            for family in [DEFAULT, OTHER] {
                let cf = db.cf_handle(family).unwrap();
                let put = |i| db.put_cf(&cf, key(i), "value").unwrap();
                numbers.clone().for_each(put);
            }
        };
        fill(0..KEYS / 2);
        for family in [DEFAULT, OTHER] {
            db.flush_cf(&db.cf_handle(family).unwrap()).unwrap();
        }
        db.filters().consolidate().unwrap();
        fill(KEYS / 2..KEYS);
        cover(&db);
        settle(&db);
        Self { db, _home: home }
    }

    fn stats(&self, family: &str) -> Stats {
        stats_of(&self.db, family).unwrap()
    }

    /// What a call adds to the counters of its family. It adds nothing to those of the other.
    fn counted<R>(&self, name: &str, family: &str, call: impl FnOnce() -> R) -> (Stats, R) {
        let other = if family == DEFAULT { OTHER } else { DEFAULT };
        let before = [family, other].map(|family| self.stats(family));
        let done = call();
        let after = [family, other].map(|family| self.stats(family));
        assert_eq!(after[1], before[1], "{name} was counted in {other}");
        assert_eq!(
            self.db.filters().stats(),
            after[0] + after[1],
            "{name}: the sum of both"
        );
        let healths = self.db.filters().health().cfs;
        let health = healths.into_iter().find(|health| health.name == family);
        assert_eq!(health.unwrap().stats, after[0], "{name}: health");
        (difference(after[0], before[0]), done)
    }
}

fn difference(after: Stats, before: Stats) -> Stats {
    let mut difference = after;
    difference.absent -= before.absent;
    difference.found -= before.found;
    difference.found_unchecked -= before.found_unchecked;
    difference.false_positives -= before.false_positives;
    difference.uncovered -= before.uncovered;
    difference.not_consulted -= before.not_consulted;
    difference.audited -= before.audited;
    difference.false_negatives -= before.false_negatives;
    difference
}

/// Keys that exist and keys that do not, mixed.
fn mixed() -> Vec<Vec<u8>> {
    let there = (0..KEYS).map(key);
    let absent = (0..KEYS).map(absent_key);
    let mut keys: Vec<_> = there.chain(absent).collect();
    keys.sort_by_key(|key| crc32fast::hash(key));
    keys
}

/// The family of a call: its name says whether it takes one.
fn family_of(name: &str) -> &'static str {
    if name.contains("_cf") { OTHER } else { DEFAULT }
}

/// Checks that the counters of a call match its outcome. `audits`: whether every negative is
/// audited.
fn adds_up(name: &str, stats: Stats, tally: Tally, audits: bool) {
    let misses = stats.absent + stats.false_positives + stats.uncovered + stats.not_consulted;
    let counted = Tally {
        found: stats.found,
        missing: misses,
        failed: tally.failed,
    };
    assert_eq!(counted, tally, "{name}: {stats:?}");
    assert_eq!(stats.lookups(), tally.found + tally.missing, "{name}");
    let audited = if audits { stats.absent } else { 0 };
    assert_eq!(
        (stats.audited, stats.false_negatives),
        (audited, 0),
        "{name}"
    );
}

/// The outcome of reading all keys.
const ALL: Tally = Tally {
    found: KEYS,
    missing: KEYS,
    failed: 0,
};

/// Every read of the database and of a snapshot, in batches of several sizes.
fn every_read_adds_up(world: &World, audits: bool) -> Stats {
    let keys = mixed();
    let mut sum = Stats::default();
    let snapshot = world.db.snapshot();
    for size in [keys.len(), 64, 7, 1] {
        let mut check = |name: &str, read: &dyn Fn(&[Vec<u8>]) -> Tally| {
            let read = || keys.chunks(size).map(read).sum::<Tally>();
            let (stats, tally) = world.counted(name, family_of(name), read);
            assert_eq!(tally, ALL, "{name}");
            adds_up(name, stats, tally, audits);
            sum = sum + stats;
        };
        for read in reads::of_db() {
            let cf = world.db.cf_handle(family_of(read.name)).unwrap();
            check(read.name, &|keys| {
                tally_of(read.values(&world.db, &cf, keys, &ReadOptions::default))
            });
        }
        for read in reads::of_snapshot() {
            let cf = world.db.cf_handle(family_of(read.name)).unwrap();
            check(read.name, &|keys| {
                tally_of(read.values(&snapshot, &cf, keys, &ReadOptions::default))
            });
        }
    }
    sum
}

fn audited() -> SieveOptions {
    sieve().audit(1)
}

#[test]
fn summary_filters_count_each_lookup_once() {
    let world = World::new(&audited().segment_filters(None), &options());
    let stats = every_read_adds_up(&world, true);
    assert!(stats.absent > stats.found * 9 / 10, "{stats:?}");
}

/// Many absent keys pass the summary filters here.
#[test]
fn false_positives_of_loose_summaries_are_counted_once() {
    let sieve = audited()
        .filter_size(FilterSize::rate(0.99).unwrap())
        .segment_filters(Some(FilterSize::ONE_PERCENT));
    let world = World::new(&sieve, &options());
    let families = world.db.filters().health().cfs;
    let is_loose = families.iter().all(|family| family.predicted_rate > 0.2);
    assert!(is_loose, "{families:?}");
    let stats = every_read_adds_up(&world, true);
    assert!(stats.false_positives > stats.found / 20, "{stats:?}");
}

#[test]
fn filters_of_any_settings_count_each_lookup_once() {
    let settings = [
        sieve().audit(0),
        audited(),
        audited().adaptive_hits(true),
        audited().speed_over_memory(true),
        audited().memory_budget(512),
        audited().transactions(Isolation::Optimistic),
    ];
    for (at, sieve) in settings.iter().enumerate() {
        let world = World::new(sieve, &options());
        every_read_adds_up(&world, at > 0);
    }
}

/// With a family whose coverage is unknown.
#[test]
fn lookups_without_coverage_are_counted_once() {
    let world = World::new(&audited(), &options());
    let stats = world
        .db
        .with_engine_untracked(|_| every_read_adds_up(&world, true));
    assert_eq!((stats.absent, stats.false_positives), (0, 0));
    assert!(stats.uncovered > 0);
}

#[test]
fn lookups_of_transactions_are_counted_once() {
    let kinds = [
        audited().transactions(Isolation::Optimistic),
        audited().transactions(Isolation::locks(TransactionDBOptions::default())),
    ];
    for sieve in kinds {
        let world = World::new(&sieve, &options());
        let keys = mixed();
        for read in reads::of_transaction() {
            let (name, family) = (read.name, family_of(read.name));
            let cf = world.db.cf_handle(family).unwrap();
            let transaction = world.db.transaction().unwrap();
            let read = || tally_of(read.values(&transaction, &cf, &keys, &ReadOptions::default));
            let (stats, tally) = world.counted(name, family, read);
            assert_eq!(tally, ALL, "{name}");
            adds_up(name, stats, tally, true);
        }
    }
}

/// A key that the transaction wrote is no lookup, nor is a batch with one.
#[test]
fn reads_of_own_writes_are_no_lookups() {
    const OWN: u64 = 30;
    let world = World::new(&audited().transactions(Isolation::Optimistic), &options());
    let keys = mixed();
    for read in reads::of_transaction() {
        let (name, family) = (read.name, family_of(read.name));
        let cf = world.db.cf_handle(family).unwrap();
        let transaction = world.db.transaction().unwrap();
        let own = (0..OWN).map(absent_key);
        own.for_each(|key| transaction.put_cf(&cf, key, "its own").unwrap());
        let read = || tally_of(read.values(&transaction, &cf, &keys, &ReadOptions::default));
        let (stats, tally) = world.counted(name, family, read);
        let missing = KEYS - OWN;
        let found = KEYS + OWN;
        assert_eq!((tally.found, tally.missing), (found, missing), "{name}");
        let counted = match name.contains("multi_get") {
            true => Tally::default(),
            false => {
                ALL - Tally {
                    missing: OWN,
                    ..Tally::default()
                }
            }
        };
        adds_up(name, stats, counted, true);
    }
}

/// Reads limited to the block cache fail if the key is in an SST.
#[test]
fn failed_reads_are_no_lookups() {
    let mut uncached = BlockBasedOptions::default();
    uncached.disable_cache();
    let mut options = options();
    options.set_block_based_table_factory(&uncached);
    let from_memory = || {
        let mut options = ReadOptions::default();
        options.set_read_tier(ReadTier::BlockCache);
        options
    };
    let world = World::new(&audited().transactions(Isolation::Optimistic), &options);
    let (keys, snapshot) = (mixed(), world.db.snapshot());
    let check = |name: &str, read: &dyn Fn(&[Vec<u8>]) -> Tally| {
        let (stats, tally) = world.counted(name, family_of(name), || read(&keys));
        // RocksDB reads a batch of keys from an SST without a cache all the same.
        let is_read = name.contains("multi_get") && tally.failed == 0;
        let found = if is_read { KEYS } else { KEYS / 2 };
        assert_eq!(tally.found, found, "{name}");
        assert!(
            (is_read || tally.failed >= KEYS / 2) && tally.missing > KEYS / 2,
            "{name}: {tally:?}"
        );
        adds_up(name, stats, tally, true);
    };
    for read in reads::of_db().iter().filter(|read| read.takes_options()) {
        let cf = world.db.cf_handle(family_of(read.name)).unwrap();
        check(read.name, &|keys| {
            tally_of(read.values(&world.db, &cf, keys, &from_memory))
        });
    }
    let of_snapshot = reads::of_snapshot();
    for read in of_snapshot.iter().filter(|read| read.takes_options()) {
        let cf = world.db.cf_handle(family_of(read.name)).unwrap();
        check(read.name, &|keys| {
            tally_of(read.values(&snapshot, &cf, keys, &from_memory))
        });
    }
    let of_transaction = reads::of_transaction();
    for read in of_transaction.iter().filter(|read| read.takes_options()) {
        let cf = world.db.cf_handle(family_of(read.name)).unwrap();
        let transaction = world.db.transaction().unwrap();
        check(read.name, &|keys| {
            tally_of(read.values(&transaction, &cf, keys, &from_memory))
        });
    }
}

#[test]
fn filter_answers_count_only_absent_keys() {
    for adaptive_hits in [false, true] {
        let world = World::new(&audited().adaptive_hits(adaptive_hits), &options());
        // So that maintenance replaces no filter meanwhile.
        world.db.filters().consolidate().unwrap();
        settle(&world.db);
        let keys = mixed();
        let denied = keys
            .iter()
            .filter(|key| world.db.filters().answer(key).is_absent());
        let denied = denied.count() as u64;
        assert!(denied > KEYS * 9 / 10 && denied <= KEYS);
        for (name, may_be_there) in ANSWERS {
            let family = family_of(name);
            let cf = world.db.cf_handle(family).unwrap();
            let call = || {
                let absent = keys.iter().filter(|key| !may_be_there(&world.db, &cf, key));
                absent.count() as u64
            };
            let (stats, absent) = world.counted(name, family, call);
            let expected = Tally {
                missing: stats.absent,
                ..Tally::default()
            };
            adds_up(name, stats, expected, true);
            // RocksDB may find the others in memory.
            assert!(
                absent >= stats.absent && stats.absent > KEYS * 9 / 10,
                "{name}"
            );
            if name.starts_with("answer") {
                assert_eq!(absent, stats.absent, "{name}");
            }
            if family == DEFAULT {
                assert_eq!(stats.absent, denied, "{name}");
            }
        }
    }
}

#[test]
fn excluded_cf_is_not_counted() {
    let world = World::new(&audited().exclude_cfs([OTHER]), &options());
    let cf = world.db.cf_handle(OTHER).unwrap();
    assert_eq!(stats_of(&world.db, OTHER), None);
    for read in reads::of_db().iter().filter(|read| read.names_a_cf()) {
        let before = world.db.filters().stats();
        let values = read.values(&world.db, &cf, &mixed(), &ReadOptions::default);
        assert_eq!(tally_of(values), ALL, "{}", read.name);
        assert_eq!(world.db.filters().stats(), before, "{}", read.name);
    }
}

#[test]
fn each_lookup_of_a_single_cf_is_counted_once() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &SieveOptions::default(), home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..500);
    db.flush().unwrap();
    cover(&db);
    let before = db.filters().stats();
    for i in 0..500 {
        db.get(key(i)).unwrap();
        db.get_pinned(key(i)).unwrap();
        db.get(absent_key(i)).unwrap();
    }
    db.multi_get((0..500).map(key)).into_iter().for_each(drop);
    db.multi_get((0..500).map(absent_key))
        .into_iter()
        .for_each(drop);
    let after = db.filters().stats();
    assert_eq!(after.found - before.found, 1_500);
    assert_eq!(after.uncovered, before.uncovered);
    let misses = (after.absent - before.absent) + (after.false_positives - before.false_positives);
    assert_eq!(misses, 1_000);
    assert_eq!(after.lookups() - before.lookups(), 2_500);
    assert_eq!(stats_of(&db, DEFAULT), Some(after));
    assert_eq!(stats_of(&db, "no such family"), None);
    assert!(after.observed_rate() < 0.05);
    assert_ne!(after, Stats::default());
    // Reads past the filters are not counted.
    db.get_unfiltered(key(1)).unwrap();
    assert_eq!(db.filters().stats(), after);
}
