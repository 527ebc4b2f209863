//! Transactions read, write and track the key of the family that they are given.

use lsm_sieve::Transaction;
use rocksdb::{
    DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Error, ErrorKind, ReadOptions, SnapshotWithThreadMode,
};

use super::{
    Found, Handle, Kind, NOWHERE, OTHER, World, all_keys, call_rows, kind_of, read_rows, report,
    sampled_keys,
};

type Read = fn(&Transaction<'_>, &Handle<'_>, &[u8]) -> Option<Vec<u8>>;

const READS: &[(&str, Read)] = read_rows! {|transaction, cf, key|
    get_cf(cf, key),
    get_cf_opt(cf, key, &ReadOptions::default()),
    get_pinned_cf(cf, key),
    get_pinned_cf_opt(cf, key, &ReadOptions::default()),
    multi_get_cf([(cf, key), (cf, NOWHERE)]),
    multi_get_cf_opt([(cf, key), (cf, NOWHERE)], &ReadOptions::default()),
};

type OfSnapshot<'db> = SnapshotWithThreadMode<'db, Transaction<'db>>;
type SnapshotRead = fn(&OfSnapshot<'_>, &Handle<'_>, &[u8]) -> Option<Vec<u8>>;

const SNAPSHOT_READS: &[(&str, SnapshotRead)] = read_rows! {|snapshot, cf, key|
    get_cf(cf, key),
    get_cf_opt(cf, key, ReadOptions::default()),
    get_pinned_cf(cf, key),
    get_pinned_cf_opt(cf, key, ReadOptions::default()),
    multi_get_cf([(cf, key), (cf, NOWHERE)]),
    multi_get_cf_opt([(cf, key), (cf, NOWHERE)], ReadOptions::default()),
};

/// A read for update under a lock that is exclusive or not.
type ReadForUpdate =
    fn(&Transaction<'_>, &Handle<'_>, &[u8], bool) -> Result<Option<Vec<u8>>, Error>;

macro_rules! reads_for_update {
    (|$on:ident, $cf:ident, $key:ident, $exclusive:ident| $($method:ident($($argument:expr),*),)*) => {
        &[$((
            stringify!($method),
            |$on, $cf, $key, $exclusive| {
                let found = $on.$method($($argument),*)?;
                Ok(found.map(|value| value.to_vec()))
            },
        ),)*]
    };
}

const READS_FOR_UPDATE: &[(&str, ReadForUpdate)] = reads_for_update! {|on, cf, key, exclusive|
    get_for_update_cf(cf, key, exclusive),
    get_for_update_cf_opt(cf, key, exclusive, &ReadOptions::default()),
    get_pinned_for_update_cf(cf, key, exclusive),
    get_pinned_for_update_cf_opt(cf, key, exclusive, &ReadOptions::default()),
};

/// The reads of the default family. The sources' table of methods does not list them.
const DEFAULT_READS_FOR_UPDATE: &[(&str, ReadForUpdate)] = reads_for_update! {|on, _cf, key, exclusive|
    get_for_update(key, exclusive),
    get_for_update_opt(key, exclusive, &ReadOptions::default()),
    get_pinned_for_update(key, exclusive),
    get_pinned_for_update_opt(key, exclusive, &ReadOptions::default()),
};

type Write = fn(&Transaction<'_>, &Handle<'_>, &[u8]) -> Result<(), Error>;

const WRITES: &[(&str, Write)] = call_rows! {|transaction, cf, key|
    put_cf(cf, key, "+"),
    merge_cf(cf, key, "+"),
    delete_cf(cf, key),
};

pub(super) fn names() -> Vec<String> {
    let reads = READS.iter().map(|(name, _)| *name);
    let for_update = READS_FOR_UPDATE.iter().map(|(name, _)| *name);
    let writes = WRITES.iter().map(|(name, _)| *name);
    let names = reads.chain(for_update).chain(writes);
    names.map(|name| format!("Transaction::{name}")).collect()
}

const KINDS: [Kind; 2] = [Kind::Optimistic, Kind::Locking];

type AnyRead = Box<dyn Fn(&Transaction<'_>, &Handle<'_>, &[u8]) -> Option<Vec<u8>>>;

/// Every way to read one key, for update or not.
fn all_reads() -> Vec<(&'static str, AnyRead)> {
    let plain = READS.iter();
    let plain = plain.map(|&(name, read)| (name, Box::new(read) as AnyRead));
    let for_update = READS_FOR_UPDATE.iter().map(|&(name, read)| {
        let read: AnyRead = Box::new(move |on, cf, key| read(on, cf, key, true).value());
        (name, read)
    });
    plain.chain(for_update).collect()
}

#[test]
fn transactions_read_values_of_their_cf() {
    let mut variants = 0;
    for kind in KINDS {
        let world = World::new(kind);
        let cf = world.handle(OTHER);
        let transaction = world.db.transaction().unwrap();
        // The same keys in the default family are other keys.
        for key in all_keys() {
            transaction.put(&key, "of the default family").unwrap();
        }
        for key in all_keys() {
            let expected = world.of_other(&key);
            for (name, read) in all_reads() {
                let found = read(&transaction, &cf, &key);
                assert_eq!(found, expected, "{name} {} {kind:?}", key.escape_ascii());
                variants += 1;
            }
            let snapshot = transaction.snapshot();
            for (name, read) in SNAPSHOT_READS {
                assert_eq!(read(&snapshot, &cf, &key), expected, "{name} of a snapshot");
                variants += 1;
            }
        }
        for key in all_keys() {
            transaction.put_cf(&cf, &key, "its own").unwrap();
            for (name, read) in all_reads() {
                let found = read(&transaction, &cf, &key);
                assert_eq!(found.as_deref(), Some(&b"its own"[..]), "{name} {kind:?}");
                variants += 1;
            }
        }
    }
    let calls = READS.len() + READS_FOR_UPDATE.len();
    report("reads of transactions", calls, variants);
}

/// All in one call. The transaction has written none or one of them.
#[test]
fn transactional_multi_get_reads_each_key_in_its_cf() {
    for kind in KINDS {
        let world = World::new(kind);
        let (default, other) = (world.handle(DEFAULT), world.handle(OTHER));
        let transaction = world.db.transaction().unwrap();
        let in_both = |key: Vec<u8>| [(&default, key.clone()), (&other, key)];
        let there = |key: Vec<u8>| [world.default.get(&key).cloned(), world.of_other(&key)];
        let mut expected: Vec<_> = all_keys().flat_map(there).collect();
        for wrote in [false, true] {
            if wrote {
                transaction
                    .put_cf(&other, all_keys().next().unwrap(), "own")
                    .unwrap();
                expected[1] = Some(b"own".to_vec());
            }
            let found = transaction.multi_get_cf(all_keys().flat_map(in_both));
            let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
            assert_eq!(found, expected);
        }
    }
}

/// Each read for update, with the family whose key it tracks and the one whose key it does not.
fn watches() -> impl Iterator<Item = (&'static str, ReadForUpdate, [&'static str; 2])> {
    let given = READS_FOR_UPDATE
        .iter()
        .map(|&(name, read)| (name, read, [OTHER, DEFAULT]));
    let default = DEFAULT_READS_FOR_UPDATE.iter();
    given.chain(default.map(|&(name, read)| (name, read, [DEFAULT, OTHER])))
}

#[test]
fn commits_detect_writes_to_reads_for_update_in_their_cf() {
    let world = World::new(Kind::Optimistic);
    let mut variants = 0;
    for (name, read, families) in watches() {
        let [watched, unwatched] = families.map(|family| world.handle(family));
        for key in sampled_keys() {
            for exclusive in [true, false] {
                for (written, conflict) in [(&watched, Some(ErrorKind::Busy)), (&unwatched, None)] {
                    let transaction = world.db.transaction().unwrap();
                    read(&transaction, &watched, &key, exclusive).unwrap();
                    world.db.put_cf(written, &key, "somebody else's").unwrap();
                    transaction.put("a key of its own", "value").unwrap();
                    let failed = transaction.commit().err().map(|error| error.kind());
                    assert_eq!(failed, conflict, "{name} {}", key.escape_ascii());
                    variants += 1;
                }
            }
        }
    }
    report(
        "reads for update beside writes",
        watches().count(),
        variants,
    );
}

#[test]
fn reads_for_update_lock_the_key_of_their_cf() {
    let world = World::new(Kind::Locking);
    let mut variants = 0;
    for (name, read, families) in watches() {
        let [locked, free] = families.map(|family| world.handle(family));
        for key in sampled_keys() {
            for exclusive in [true, false] {
                let holder = world.db.transaction().unwrap();
                let found = read(&holder, &locked, &key, exclusive).unwrap();
                assert_eq!(found, world.db.get_cf(&locked, &key).unwrap(), "{name}");
                let refused = kind_of(world.db.put_cf(&locked, &key, "somebody else's"));
                assert_eq!(
                    refused,
                    ErrorKind::TimedOut,
                    "{name} {}",
                    key.escape_ascii()
                );
                let second = world.db.transaction().unwrap();
                let taken = second.get_for_update_cf(&locked, &key, exclusive);
                let refused = taken.err().map(|error| error.kind());
                let expected = exclusive.then_some(ErrorKind::TimedOut);
                assert_eq!(refused, expected, "{name}, exclusive: {exclusive}");
                // In the other family it is another key.
                second.get_for_update_cf(&free, &key, true).expect(name);
                drop(second);
                world.db.put_cf(&free, &key, "another's").expect(name);
                variants += 1;
            }
        }
    }
    report("reads for update that lock", watches().count(), variants);
}

/// The value that such a write leaves.
fn written(name: &str, old: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match name {
        "delete_cf" => None,
        "merge_cf" => Some([&*old.unwrap_or_default(), &b"+"[..]].concat()),
        _ => Some(b"+".to_vec()),
    }
}

#[test]
fn commits_write_to_their_cf() {
    let mut variants = 0;
    for kind in KINDS {
        for (name, write) in WRITES {
            let world = World::new(kind);
            let cf = world.handle(OTHER);
            for key in sampled_keys() {
                let transaction = world.db.transaction().unwrap();
                write(&transaction, &cf, &key).unwrap();
                let found = world.db.get_cf(&cf, &key).unwrap();
                assert_eq!(found, world.of_other(&key), "{name}: not committed");
                transaction.commit().unwrap();
                let found = world.db.get_cf(&cf, &key).unwrap();
                assert_eq!(
                    found,
                    written(name, world.of_other(&key)),
                    "{name} {kind:?}"
                );
                let untouched = world.db.get(&key).unwrap();
                assert_eq!(
                    untouched.as_ref(),
                    world.default.get(&key),
                    "{name} {kind:?}"
                );
                variants += 1;
            }
        }
    }
    report("writes of transactions", WRITES.len(), variants);
}

#[test]
fn writes_of_transactions_conflict_in_their_cf() {
    for kind in KINDS {
        for (name, write) in WRITES {
            let world = World::new(kind);
            let (default, other) = (world.handle(DEFAULT), world.handle(OTHER));
            for key in sampled_keys() {
                let transaction = world.db.transaction().unwrap();
                write(&transaction, &other, &key).unwrap();
                world.db.put_cf(&default, &key, "another's").expect(name);
                transaction.commit().expect(name);

                let transaction = world.db.transaction().unwrap();
                write(&transaction, &other, &key).unwrap();
                let beside = world.db.put_cf(&other, &key, "somebody else's");
                let (refused, expected) = match kind {
                    Kind::Locking => (kind_of(beside), ErrorKind::TimedOut),
                    _ => {
                        beside.unwrap();
                        (kind_of(transaction.commit()), ErrorKind::Busy)
                    }
                };
                assert_eq!(refused, expected, "{name} {kind:?}");
            }
        }
    }
}
