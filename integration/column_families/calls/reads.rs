//! Reads of the database and of its snapshots.

use crate::support::model_db::stats_of;
use lsm_sieve::{SieveDb, Snapshot};
use rocksdb::{DBAccess, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, ReadOptions};

use super::{EACH, Found, Handle, KINDS, NOWHERE, OTHER, World, all_keys, keys, read_rows, report};

type Read<On> = fn(&On, &Handle<'_>, &[u8]) -> Option<Vec<u8>>;

/// Reads that check the filters.
const READS: &[(&str, Read<SieveDb>)] = read_rows! {|db, cf, key|
    get_cf(cf, key),
    get_cf_opt(cf, key, &ReadOptions::default()),
    get_pinned_cf(cf, key),
    get_pinned_cf_opt(cf, key, &ReadOptions::default()),
    multi_get_cf([(cf, key), (cf, NOWHERE)]),
    multi_get_cf_opt([(cf, key), (cf, NOWHERE)], &ReadOptions::default()),
    batched_multi_get_cf(cf, [key, NOWHERE], false),
    batched_multi_get_cf_opt(cf, [key, NOWHERE], false, &ReadOptions::default()),
};

/// Reads that do not.
const UNFILTERED: &[(&str, Read<SieveDb>)] = read_rows! {|db, cf, key|
    get_unfiltered_cf(cf, key),
};

/// Reads by the trait that `rocksdb`'s snapshots read through.
const BY_TRAIT: &[(&str, Read<SieveDb>)] = &[
    ("get_cf_opt", |db, cf, key| {
        DBAccess::get_cf_opt(&**db, cf, key, &ReadOptions::default()).value()
    }),
    ("get_pinned_cf_opt", |db, cf, key| {
        DBAccess::get_pinned_cf_opt(&**db, cf, key, &ReadOptions::default()).value()
    }),
    ("multi_get_cf_opt", |db, cf, key| {
        let keys = [(cf, key), (cf, NOWHERE)];
        DBAccess::multi_get_cf_opt(&**db, keys, &ReadOptions::default()).value()
    }),
];

type OfSnapshot = fn(&Snapshot<'_>, &Handle<'_>, &[u8]) -> Option<Vec<u8>>;

const SNAPSHOT_READS: &[(&str, OfSnapshot)] = read_rows! {|snapshot, cf, key|
    get_cf(cf, key),
    get_cf_opt(cf, key, ReadOptions::default()),
    get_pinned_cf(cf, key),
    get_pinned_cf_opt(cf, key, ReadOptions::default()),
    multi_get_cf([(cf, key), (cf, NOWHERE)]),
    multi_get_cf_opt([(cf, key), (cf, NOWHERE)], ReadOptions::default()),
};

/// Whether a key may exist.
type May = fn(&SieveDb, &Handle<'_>, &[u8]) -> bool;

const MAY: [(&str, May); 3] = [
    ("filter_answer_cf", |db, cf, key| {
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
const PREFIXES: [(&str, May); 4] = [
    ("prefix_exists_cf", |db, cf, start| {
        db.prefix_exists_cf(cf, start).unwrap()
    }),
    ("prefixes_exist_cf", |db, cf, start| {
        let mut answers = db.prefixes_exist_cf(cf, &[NOWHERE, start]);
        answers.remove(1).unwrap()
    }),
    ("prefix_may_exist_cf", |db, cf, start| {
        db.filters().prefix_may_exist_cf(cf, start)
    }),
    ("prefixes_may_exist_cf", |db, cf, start| {
        db.filters().prefixes_may_exist_cf(cf, &[NOWHERE, start])[1]
    }),
];

pub(super) fn names() -> Vec<String> {
    let reads = [READS, UNFILTERED].concat();
    let reads = reads.iter().map(|(name, _)| *name);
    let may = MAY.iter().chain(&PREFIXES);
    let of_db = reads.chain(may.map(|(name, _)| *name));
    let of_trait = BY_TRAIT.iter().map(|(name, _)| format!("DBAccess::{name}"));
    of_db
        .map(|name| format!("SieveDb::{name}"))
        .chain(of_trait)
        .collect()
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
    read: impl Fn(&[u8]) -> Option<Vec<u8>>,
) {
    let before = lookups(world);
    for key in all_keys() {
        let key_name = key.escape_ascii();
        assert_eq!(
            read(&key),
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

fn keys_a_call(name: &str) -> u64 {
    if name.contains("multi_get") { 2 } else { 1 }
}

#[test]
fn reads_return_values_of_their_cf() {
    let mut variants = 0;
    for kind in KINDS {
        let world = World::new(kind);
        let cf = world.handle(OTHER);
        for (name, read) in [READS, BY_TRAIT].concat() {
            let read = |key: &[u8]| read(&world.db, &cf, key);
            finds_what_the_cf_has(&world, name, keys_a_call(name), read);
        }
        for (name, read) in UNFILTERED {
            finds_what_the_cf_has(&world, name, 0, |key| read(&world.db, &cf, key));
        }
        let snapshot = world.db.snapshot();
        for (name, read) in SNAPSHOT_READS {
            let read = |key: &[u8]| read(&snapshot, &cf, key);
            finds_what_the_cf_has(&world, name, keys_a_call(name), read);
        }
        variants += READS.len() + BY_TRAIT.len() + UNFILTERED.len() + SNAPSHOT_READS.len();
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
