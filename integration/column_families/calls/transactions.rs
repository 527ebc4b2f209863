//! Transactions read, write and track the key of the family that they are given.

use lsm_sieve::Transaction;
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Error, ErrorKind};

use super::{Kind, OTHER, World, all_keys, call_rows, kind_of, report, sampled_keys};
use crate::support::reads::{self, Handle, Read};

type Write = fn(&Transaction<'_>, &Handle<'_>, &[u8]) -> Result<(), Error>;

const WRITES: &[(&str, Write)] = call_rows! {|transaction, cf, key|
    put_cf(cf, key, "+"),
    merge_cf(cf, key, "+"),
    delete_cf(cf, key),
};

pub(super) fn names() -> Vec<String> {
    let reads = reads_in_a_cf().into_iter().map(|read| read.name);
    let names = reads.chain(WRITES.iter().map(|(name, _)| *name));
    names.map(|name| format!("Transaction::{name}")).collect()
}

const KINDS: [Kind; 2] = [Kind::Optimistic, Kind::Locking];

/// Every way to read a key of a family, for update or not.
fn reads_in_a_cf<'db>() -> Vec<ReadOf<'db>> {
    let mut reads = reads::of_transaction();
    reads.retain(Read::names_a_cf);
    reads
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
            for read in reads_in_a_cf() {
                let found = read.value(&transaction, &cf, &key).unwrap();
                let name = read.name;
                assert_eq!(found, expected, "{name} {} {kind:?}", key.escape_ascii());
                variants += 1;
            }
            let snapshot = transaction.snapshot();
            let of_snapshot = reads::of_snapshot();
            for read in of_snapshot.iter().filter(|read| read.names_a_cf()) {
                let found = read.value(&snapshot, &cf, &key).unwrap();
                assert_eq!(found, expected, "{} of a snapshot", read.name);
                variants += 1;
            }
        }
        for key in all_keys() {
            transaction.put_cf(&cf, &key, "its own").unwrap();
            for read in reads_in_a_cf() {
                let found = read.value(&transaction, &cf, &key).unwrap();
                let own = Some(&b"its own"[..]);
                assert_eq!(found.as_deref(), own, "{} {kind:?}", read.name);
                variants += 1;
            }
        }
    }
    report("reads of transactions", reads_in_a_cf().len(), variants);
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

type ReadOf<'db> = Read<Transaction<'db>, Handle<'db>>;

/// Each read for update, sharing its lock and not, with the family whose key it tracks and the one
/// whose key it does not.
fn watches<'db>() -> Vec<([ReadOf<'db>; 2], [&'static str; 2])> {
    let reads = reads::for_update_either_way();
    let with_families = reads.map(|reads| match reads[0].names_a_cf() {
        true => (reads, [OTHER, DEFAULT]),
        false => (reads, [DEFAULT, OTHER]),
    });
    with_families.collect()
}

#[test]
fn commits_detect_writes_to_reads_for_update_in_their_cf() {
    let world = World::new(Kind::Optimistic);
    let mut variants = 0;
    for (reads, families) in watches() {
        let [watched, unwatched] = families.map(|family| world.handle(family));
        for key in sampled_keys() {
            for read in &reads {
                let name = read.name;
                for (written, conflict) in [(&watched, Some(ErrorKind::Busy)), (&unwatched, None)] {
                    let transaction = world.db.transaction().unwrap();
                    read.value(&transaction, &watched, &key).unwrap();
                    world.db.put_cf(written, &key, "somebody else's").unwrap();
                    transaction.put("a key of its own", "value").unwrap();
                    let failed = transaction.commit().err().map(|error| error.kind());
                    assert_eq!(failed, conflict, "{name} {}", key.escape_ascii());
                    variants += 1;
                }
            }
        }
    }
    report("reads for update beside writes", watches().len(), variants);
}

#[test]
fn reads_for_update_lock_the_key_of_their_cf() {
    let world = World::new(Kind::Locking);
    let mut variants = 0;
    for (reads, families) in watches() {
        let [locked, free] = families.map(|family| world.handle(family));
        for key in sampled_keys() {
            for (exclusive, read) in [false, true].into_iter().zip(&reads) {
                let name = read.name;
                let holder = world.db.transaction().unwrap();
                let found = read.value(&holder, &locked, &key).unwrap();
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
    report("reads for update that lock", watches().len(), variants);
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
