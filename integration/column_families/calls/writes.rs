//! Writes of the database: to the family that they are given, its filters and its locks.

use std::path::{Path, PathBuf};

use lsm_sieve::SieveDb;
use rocksdb::{
    DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Error, ErrorKind, IngestExternalFileOptions,
    SstFileWriter, WriteBatch, WriteBatchWithTransaction, WriteOptions,
};

use super::{Handle, KINDS, Kind, OTHER, World, call_rows, kind_of, report, sampled_keys};
use crate::support::binding::given;
use crate::support::model_db::options;

type Write = fn(&SieveDb, &Handle<'_>, &[u8]) -> Result<(), Error>;

const VALUE: &[u8] = b"written";

/// The key after this one.
fn next(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}

fn batch(cf: &Handle<'_>, key: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::default();
    batch.put_cf(cf, key, VALUE);
    batch
}

fn transactional_batch(cf: &Handle<'_>, key: &[u8]) -> WriteBatchWithTransaction<true> {
    let mut batch = WriteBatchWithTransaction::default();
    batch.put_cf(cf, key, VALUE);
    batch
}

const PUTS: &[(&str, Write)] = call_rows! {|db, cf, key|
    put_cf(cf, key, VALUE),
    put_cf_opt(cf, key, VALUE, &WriteOptions::default()),
    write(batch(cf, key)),
    write_opt(transactional_batch(cf, key), &WriteOptions::default()),
    write_without_wal(given(&mut batch(cf, key))),
};

const MERGES: &[(&str, Write)] = call_rows! {|db, cf, key|
    merge_cf(cf, key, VALUE),
    merge_cf_opt(cf, key, VALUE, &WriteOptions::default()),
};

const DELETES: &[(&str, Write)] = call_rows! {|db, cf, key|
    delete_cf(cf, key),
    delete_cf_opt(cf, key, &WriteOptions::default()),
};

/// Neither locks nor commits see range deletes.
const RANGE_DELETES: &[(&str, Write)] = call_rows! {|db, cf, key|
    delete_range_cf(cf, key, &*next(key)),
    delete_range_cf_opt(cf, key, &*next(key), &WriteOptions::default()),
};

type Ingest = fn(&SieveDb, &Handle<'_>, PathBuf) -> Result<(), Error>;

const INGESTIONS: &[(&str, Ingest)] = call_rows! {|db, cf, file|
    ingest_external_file_cf(cf, vec![file]),
    ingest_external_file_cf_opts(cf, &IngestExternalFileOptions::default(), vec![file]),
};

/// Writes of one key.
const WRITES: [&[(&str, Write)]; 4] = [PUTS, MERGES, DELETES, RANGE_DELETES];

pub(super) fn names() -> Vec<String> {
    let writes = WRITES.concat();
    let writes = writes.iter().map(|(name, _)| *name);
    let names = writes.chain(INGESTIONS.iter().map(|(name, _)| *name));
    names.map(|name| format!("SieveDb::{name}")).collect()
}

/// The value that such a write leaves.
fn written(name: &str, old: Option<Vec<u8>>) -> Option<Vec<u8>> {
    match name {
        _ if name.starts_with("delete") => None,
        _ if name.starts_with("merge") => Some([&*old.unwrap_or_default(), VALUE].concat()),
        _ => Some(VALUE.to_vec()),
    }
}

/// Checks that one family has the write, and that the other is unchanged.
fn is_in_its_cf(world: &World, name: &str, key: &[u8]) {
    let (db, default, other) = (&world.db, world.handle(DEFAULT), world.handle(OTHER));
    let key_name = format!("{name} {} {:?}", key.escape_ascii(), world.kind);
    let expected = written(name, world.of_other(key));
    let found = [
        db.get_unfiltered_cf(&other, key),
        db.get_cf(&other, key),
        db.get_cf(&default, key),
    ];
    let found = found.map(Result::unwrap);
    let untouched = world.default.get(key).cloned();
    assert_eq!(found, [expected.clone(), expected, untouched], "{key_name}");
}

#[test]
fn writes_go_to_their_cf() {
    let mut variants = 0;
    for kind in KINDS {
        for (name, write) in WRITES.concat() {
            let world = World::new(kind);
            for key in sampled_keys() {
                write(&world.db, &world.handle(OTHER), &key).unwrap();
                is_in_its_cf(&world, name, &key);
                variants += 1;
            }
        }
        for (name, ingest) in INGESTIONS {
            let world = World::new(kind);
            for key in sampled_keys() {
                let file = sst(world.home.path(), &key);
                ingest(&world.db, &world.handle(OTHER), file).unwrap();
                is_in_its_cf(&world, name, &key);
                variants += 1;
            }
        }
    }
    report("writes", names().len(), variants);
}

/// An SST with this key.
fn sst(folder: &Path, key: &[u8]) -> PathBuf {
    let path = folder.join(format!("{}.sst", key.escape_ascii()));
    let options = options();
    let mut writer = SstFileWriter::create(&options);
    writer.open(&path).unwrap();
    writer.put(key, VALUE).unwrap();
    writer.finish().unwrap();
    path
}

/// The writes that transactions see.
fn tracked_writes() -> Vec<(&'static str, Write)> {
    [PUTS, MERGES, DELETES].concat()
}

#[test]
fn writes_wait_for_the_lock_of_their_cf() {
    let world = World::new(Kind::Locking);
    let (db, default, other) = (&world.db, world.handle(DEFAULT), world.handle(OTHER));
    for (name, write) in tracked_writes() {
        for key in sampled_keys() {
            let holder = db.transaction().unwrap();
            holder.put_cf(&other, &key, "held").unwrap();
            let refused = kind_of(write(db, &other, &key));
            assert_eq!(refused, ErrorKind::TimedOut, "{name}");
            drop(holder);

            let holder = db.transaction().unwrap();
            holder.put_cf(&default, &key, "held").unwrap();
            write(db, &other, &key).expect(name);
        }
    }
    report(
        "writes beside locks",
        tracked_writes().len(),
        2 * tracked_writes().len() * sampled_keys().count(),
    );
}

#[test]
fn commits_detect_writes_to_their_cf() {
    let world = World::new(Kind::Optimistic);
    let (db, default, other) = (&world.db, world.handle(DEFAULT), world.handle(OTHER));
    for (name, write) in tracked_writes() {
        for key in sampled_keys() {
            for (own, conflict) in [(&other, Some(ErrorKind::Busy)), (&default, None)] {
                let transaction = db.transaction().unwrap();
                transaction.put_cf(own, &key, "its own").unwrap();
                write(db, &other, &key).unwrap();
                let failed = transaction.commit().err().map(|error| error.kind());
                assert_eq!(failed, conflict, "{name}");
            }
        }
    }
    report(
        "writes beside commits",
        tracked_writes().len(),
        2 * tracked_writes().len() * sampled_keys().count(),
    );
}
