//! Reads of the database and of its snapshots.

use lsm_sieve::{RocksDb, SieveDb};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, ReadOptions};

use super::{EACH, KINDS, OTHER, World, all_keys, keys, report};
use crate::support::model_db::stats_of;
use crate::support::reads::{self, Found, Handle, NOWHERE, Read};

/// Whether a key may exist.
type May = fn(&SieveDb, &Handle<'_>, &[u8]) -> bool;

const MAY: [(&str, May); 3] = [
    ("answer_cf", |db, cf, key| {
        !db.filters().answer_cf(cf, key).is_absent()
    }),
    ("key_may_exist_cf", |db, cf, key| {
        db.key_may_exist_cf(cf, key)
    }),
    ("key_may_exist_cf_opt", |db, cf, key| {
        db.key_may_exist_cf_opt(cf, key, &ReadOptions::default())
    }),
];

/// Whether there is, or may be, a key that starts so.
const PREFIXES: [(&str, May); 5] = [
    ("prefix_exists_cf", |db, cf, start| {
        db.prefix_exists_cf(cf, start).unwrap()
    }),
    ("prefixes_exist_cf", |db, cf, start| {
        let mut answers = db.prefixes_exist_cf(cf, &[NOWHERE, start]);
        answers.remove(1).unwrap()
    }),
    ("range_exists_cf", |db, cf, start| {
        let end = [start, &[u8::MAX; 9]].concat();
        db.range_exists_cf(cf, start..&end[..]).unwrap()
    }),
    ("prefix_may_exist_cf", |db, cf, start| {
        db.filters().prefix_may_exist_cf(cf, start)
    }),
    ("prefixes_may_exist_cf", |db, cf, start| {
        db.filters().prefixes_may_exist_cf(cf, &[NOWHERE, start])[1]
    }),
];

pub(super) fn names() -> Vec<String> {
    let reads = in_a_cf(reads::of_db()).chain(in_a_cf(reads::unfiltered()));
    let reads = reads.map(|read| read.name);
    let of_filters = ["answer_cf", "prefix_may_exist_cf", "prefixes_may_exist_cf"];
    let may = MAY.iter().chain(&PREFIXES).map(|(name, _)| *name);
    let of_db = reads.chain(may.filter(|name| !of_filters.contains(name)));
    let of_trait = in_a_cf(reads::by_trait::<RocksDb, _>());
    of_db
        .map(|name| format!("SieveDb::{name}"))
        .chain(of_filters.map(|name| format!("Sieve::{name}")))
        .chain(of_trait.map(|read| format!("DBAccess::{}", read.name)))
        .collect()
}

fn in_a_cf<'db, On>(
    reads: Vec<Read<On, Handle<'db>>>,
) -> impl Iterator<Item = Read<On, Handle<'db>>> {
    reads.into_iter().filter(Read::names_a_cf)
}

/// The lookups that the filters of both families counted.
fn lookups(world: &World) -> [u64; 2] {
    [DEFAULT, OTHER].map(|family| stats_of(&world.db, family).unwrap().lookups())
}

/// Checks that a read returns the value of the second family, and that only that family's filters
/// are checked, this many times per key.
fn finds_what_the_cf_has(
    world: &World,
    name: &str,
    lookups_per_key: u64,
    read: impl Fn(&[u8]) -> Found,
) {
    let before = lookups(world);
    for key in all_keys() {
        let key_name = key.escape_ascii();
        assert_eq!(
            read(&key).unwrap(),
            world.of_other(&key),
            "{name} {key_name} {:?}",
            world.kind
        );
    }
    let after = lookups(world);
    assert_eq!(
        after[0], before[0],
        "{name} was counted in the default family"
    );
    let expected = all_keys().count() as u64 * lookups_per_key;
    assert_eq!(after[1], before[1] + expected, "{name} {:?}", world.kind);
}

#[test]
fn reads_return_values_of_their_cf() {
    let mut variants = 0;
    for kind in KINDS {
        let world = World::new(kind);
        let (cf, snapshot) = (world.handle(OTHER), world.db.snapshot());
        let mut check = |name: &str, lookups: u64, read: &dyn Fn(&[u8]) -> Found| {
            finds_what_the_cf_has(&world, name, lookups, read);
            variants += 1;
        };
        for read in in_a_cf(reads::of_db()) {
            let found = |key: &[u8]| read.value(&world.db, &cf, key);
            check(read.name, read.keys_a_call(), &found);
        }
        for read in in_a_cf(reads::by_trait()) {
            let found = |key: &[u8]| read.value(&*world.db, &cf, key);
            check(read.name, read.keys_a_call(), &found);
        }
        for read in in_a_cf(reads::unfiltered()) {
            check(read.name, 0, &|key| read.value(&world.db, &cf, key));
        }
        for read in in_a_cf(reads::of_snapshot()) {
            let found = |key: &[u8]| read.value(&snapshot, &cf, key);
            check(read.name, read.keys_a_call(), &found);
        }
    }
    report("reads", names().len(), variants * all_keys().count());
}

/// All in one call.
#[test]
fn multi_get_reads_each_key_in_its_cf() {
    for kind in KINDS {
        let world = World::new(kind);
        let (default, other) = (world.handle(DEFAULT), world.handle(OTHER));
        let wanted: Vec<_> = all_keys()
            .flat_map(|key| [(&default, key.clone()), (&other, key)])
            .collect();
        let expected: Vec<_> = all_keys()
            .flat_map(|key| [world.default.get(&key).cloned(), world.of_other(&key)])
            .collect();
        let plain = ReadOptions::default();
        let found = [
            world.db.multi_get_cf(wanted.clone()),
            world.db.multi_get_cf_opt(wanted.clone(), &plain),
            world.db.snapshot().multi_get_cf(wanted),
        ];
        for found in found {
            let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
            assert_eq!(found, expected);
        }
    }
}

#[test]
fn filters_answer_for_their_cf() {
    for kind in KINDS {
        let world = World::new(kind);
        let cf = world.handle(OTHER);
        for (name, may_be_there) in MAY {
            let may_be_there = |key: &Vec<u8>| may_be_there(&world.db, &cf, key);
            assert!(world.other.keys().all(may_be_there), "{name} lost a key");
            // At most two false positives.
            let absent = keys('d').filter(|key| !may_be_there(key)).count();
            assert!(absent + 2 >= EACH, "{name} answered for the default family");
        }
    }
    report("answers", MAY.len(), KINDS.len() * MAY.len());
}

#[test]
fn every_call_for_a_prefix_is_answered_by_its_own_cf() {
    for kind in KINDS {
        let world = World::new(kind);
        let cf = world.handle(OTHER);
        for (name, is_there) in PREFIXES {
            for key in all_keys() {
                let start = &key[..key.len().min(3)];
                let exists = world.other.keys().any(|key| key.starts_with(start));
                let answer = is_there(&world.db, &cf, start);
                let is_exact = !name.contains("may");
                assert!(
                    answer == exists || (answer && !is_exact),
                    "{name} {start:?}"
                );
            }
        }
    }
    report("answers", PREFIXES.len(), KINDS.len() * PREFIXES.len());
}
