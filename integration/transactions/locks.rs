//! Transactions that lock their keys: which calls wait for a lock, and which databases have none.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use lsm_sieve::{Isolation, OpenError, SieveDb, SieveOptions, TransactionSettings};
use rocksdb::{
    BoundColumnFamily, Error, ErrorKind, MultiThreaded, OptimisticTransactionOptions, ReadOptions,
    TransactionDB, TransactionDBOptions, TransactionOptions, WriteBatch, WriteOptions,
};

use super::{DEFAULT, KINDS, OTHER, covered, denied, kind_of, locking, open, reads_for_update};
use crate::support::binding::given;
use crate::support::model_db::{absent_key, options, settle, sieve};
use crate::support::reads;

/// Settings under which no call waits for a lock.
fn impatient() -> SieveOptions {
    let mut locks = TransactionDBOptions::default();
    locks.set_default_lock_timeout(0);
    locks.set_txn_lock_timeout(0);
    sieve().transactions(Isolation::locks(locks))
}

#[test]
fn key_that_filters_deny_is_locked() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path(), &impatient());
    let default = db.cf_handle(DEFAULT).unwrap();
    for (at, read) in (0_u64..).zip(reads_for_update()) {
        let name = read.name;
        let sought = denied(&db, &default, 100 * at);
        let holder = db.transaction().unwrap();
        assert_eq!(read.value(&holder, &default, &sought).unwrap(), None);
        assert_eq!(
            kind_of(db.put(&sought, "other")),
            ErrorKind::TimedOut,
            "{name}"
        );
        let late = db.transaction().unwrap();
        let refused = late.get_for_update(&sought, true).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TimedOut, "{name}: {refused}");
        // In another family it is another key.
        db.put_cf(&db.cf_handle(OTHER).unwrap(), &sought, "its own")
            .unwrap();

        holder.put(&sought, "made").unwrap();
        assert_eq!(db.get(&sought).unwrap(), None);
        holder.commit().unwrap();
        let found = late.get_for_update(&sought, true).unwrap();
        assert_eq!(found.as_deref(), Some(&b"made"[..]), "{name}");
        drop(late);
        db.put(&sought, "another's").unwrap();
    }
}

type Write = fn(&SieveDb, &Arc<BoundColumnFamily<'_>>, &[u8]) -> Result<(), Error>;

/// Every write of a single key outside of transactions.
const WRITES: [(&str, Write); 15] = [
    ("put", |db, _, key| db.put(key, "")),
    ("put_opt", |db, _, key| {
        db.put_opt(key, "", &WriteOptions::default())
    }),
    ("put_cf", |db, cf, key| db.put_cf(cf, key, "")),
    ("put_cf_opt", |db, cf, key| {
        db.put_cf_opt(cf, key, "", &WriteOptions::default())
    }),
    ("merge", |db, _, key| db.merge(key, "")),
    ("merge_opt", |db, _, key| {
        db.merge_opt(key, "", &WriteOptions::default())
    }),
    ("merge_cf", |db, cf, key| db.merge_cf(cf, key, "")),
    ("merge_cf_opt", |db, cf, key| {
        db.merge_cf_opt(cf, key, "", &WriteOptions::default())
    }),
    ("delete", |db, _, key| db.delete(key)),
    ("delete_opt", |db, _, key| {
        db.delete_opt(key, &WriteOptions::default())
    }),
    ("delete_cf", |db, cf, key| db.delete_cf(cf, key)),
    ("delete_cf_opt", |db, cf, key| {
        db.delete_cf_opt(cf, key, &WriteOptions::default())
    }),
    ("write", |db, cf, key| db.write(batch(cf, key))),
    ("write_opt", |db, cf, key| {
        db.write_opt(batch(cf, key), &WriteOptions::default())
    }),
    ("write_without_wal", |db, cf, key| {
        db.write_without_wal(given(&mut batch(cf, key)))
    }),
];

/// A batch that writes this key after an unlocked one.
fn batch(cf: &Arc<BoundColumnFamily<'_>>, key: &[u8]) -> WriteBatch {
    let mut batch = WriteBatch::default();
    batch.put_cf(cf, "free", "");
    batch.put_cf(cf, key, "");
    batch
}

#[test]
fn every_write_waits_for_its_key_lock() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &impatient());
    let default = db.cf_handle(DEFAULT).unwrap();
    let holder = db.transaction().unwrap();
    holder.put("held", "value").unwrap();
    for (name, write) in WRITES {
        let refused = kind_of(write(&db, &default, b"held"));
        assert_eq!(refused, ErrorKind::TimedOut, "{name}");
        assert_eq!(db.get("free").unwrap(), None, "{name}");
    }
    holder.rollback().unwrap();
    for (name, write) in WRITES {
        write(&db, &default, b"held").unwrap();
        let found = db.get("held").unwrap();
        assert_eq!(found.is_none(), name.starts_with("delete"), "{name}");
    }
    assert!(db.get("free").unwrap().is_some());
}

#[test]
fn non_exclusive_locks_are_shared() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path(), &impatient());
    let sought = denied(&db, &db.cf_handle(DEFAULT).unwrap(), 0);
    let readers = [db.transaction().unwrap(), db.transaction().unwrap()];
    for reader in &readers {
        assert_eq!(reader.get_for_update(&sought, false).unwrap(), None);
    }
    let writer = db.transaction().unwrap();
    assert_eq!(kind_of(writer.put(&sought, "value")), ErrorKind::TimedOut);
    drop(readers);
    writer.put(&sought, "value").unwrap();
    writer.commit().unwrap();
    assert!(db.get(&sought).unwrap().is_some());
}

/// Only one of the eight reads for update was tried with either kind of lock, so that the others
/// could have ignored it.
#[test]
fn each_read_for_update_takes_the_lock_that_it_is_asked_for() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path(), &impatient());
    for family in [DEFAULT, OTHER] {
        let cf = db.cf_handle(family).unwrap();
        db.put_cf(&cf, "flushed", "value").unwrap();
        db.flush_cf(&cf).unwrap();
        db.put_cf(&cf, "held", "value").unwrap();
        let absent = denied(&db, &cf, 0);
        let value = Some(b"value".to_vec());
        let keys = [
            (&b"flushed"[..], value.clone()),
            (b"held", value),
            (&absent[..], None),
        ];
        let reads = reads::for_update_either_way();
        let reads = reads.filter(|[read, _]| family == DEFAULT || read.names_a_cf());
        for by in reads {
            let name = by[0].name;
            let read = |of: &_, key: &[u8], exclusive: bool| {
                by[usize::from(exclusive)].value(of, &cf, key)
            };
            for (key, there) in &keys {
                let what = format!("{name} of {} in {family}", key.escape_ascii());
                let begin = || db.transaction().unwrap();
                let finds = |of: &_, exclusive| {
                    let found = read(of, key, exclusive);
                    assert_eq!(found.as_ref(), Ok(there), "{what}, exclusive: {exclusive}");
                };
                let is_refused = |exclusive| {
                    let refused = read(&begin(), key, exclusive).map_err(|error| error.kind());
                    assert_eq!(
                        refused,
                        Err(ErrorKind::TimedOut),
                        "{what}, exclusive: {exclusive}"
                    );
                };
                // Shared: others share it, and nobody has it alone.
                let (one, other) = (begin(), begin());
                finds(&one, false);
                finds(&other, false);
                is_refused(true);
                assert_eq!(
                    kind_of(db.put_cf(&cf, key, "x")),
                    ErrorKind::TimedOut,
                    "{what}"
                );
                drop(other);
                // The last who has it may take it alone.
                finds(&one, true);
                is_refused(false);
                is_refused(true);
                drop(one);
                let one = begin();
                finds(&one, true);
                is_refused(false);
                is_refused(true);
                drop(one);
                finds(&begin(), true);
            }
        }
    }
}

/// Read before it was locked, the key would be absent.
#[test]
fn read_for_update_that_waited_for_a_lock_finds_what_its_holder_wrote() {
    let mut locks = TransactionDBOptions::default();
    locks.set_default_lock_timeout(60_000);
    locks.set_txn_lock_timeout(60_000);
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve().transactions(Isolation::locks(locks));
    let (db, _model) = covered(home.path(), &sieve);
    for family in [DEFAULT, OTHER] {
        let cf = db.cf_handle(family).unwrap();
        let mut reads = reads_for_update();
        reads.retain(|read| family == DEFAULT || read.names_a_cf());
        let holder = db.transaction().unwrap();
        let begin = Barrier::new(reads.len() + 1);
        thread::scope(|scope| {
            let waiting = (0_u64..).zip(reads).map(|(at, read)| {
                let sought = denied(&db, &cf, 100 * at);
                holder.put_cf(&cf, &sought, read.name).unwrap();
                let (db, cf, begin) = (&db, &cf, &begin);
                scope.spawn(move || {
                    let transaction = db.transaction().unwrap();
                    begin.wait();
                    let found = read.value(&transaction, cf, &sought).unwrap();
                    let found = found.map(|value| String::from_utf8(value).unwrap());
                    assert_eq!(found.as_deref(), Some(read.name), "in {family}");
                })
            });
            let waiting: Vec<_> = waiting.collect();
            begin.wait();
            // RocksDB does not say whether a call waits.
            thread::sleep(Duration::from_millis(200));
            let all_wait = waiting.iter().all(|thread| !thread.is_finished());
            holder.commit().unwrap();
            assert!(all_wait, "in {family}");
        });
    }
}

#[test]
fn optimistic_reads_for_update_conflict_whether_exclusive_or_not() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path(), &sieve().transactions(Isolation::Optimistic));
    let default = db.cf_handle(DEFAULT).unwrap();
    let mut from = 0;
    for read in reads_for_update() {
        let name = read.name;
        from += 100;
        let sought = denied(&db, &default, from);
        let readers = [db.transaction().unwrap(), db.transaction().unwrap()];
        for reader in &readers {
            assert_eq!(read.value(reader, &default, &sought), Ok(None), "{name}");
        }
        db.put(&sought, "somebody else's").unwrap();
        for reader in readers {
            reader.put("a key of its own", name).unwrap();
            assert_eq!(kind_of(reader.commit()), ErrorKind::Busy, "{name}");
        }
    }
}

#[test]
fn transaction_options_take_effect() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path(), &locking(sieve()));
    let begin = |set: fn(&mut TransactionOptions)| {
        let mut options = TransactionOptions::default();
        set(&mut options);
        db.transaction_opt(&WriteOptions::default(), &options)
            .unwrap()
    };
    let sought = denied(&db, &db.cf_handle(DEFAULT).unwrap(), 0);

    let from_now = begin(|options| options.set_snapshot(true));
    db.put(&sought, "since").unwrap();
    let conflict = from_now.get_for_update(&sought, true).unwrap_err();
    assert_eq!(conflict.kind(), ErrorKind::Busy, "{conflict}");
    let mut then = ReadOptions::default();
    let snapshot = from_now.snapshot();
    then.set_snapshot(&snapshot);
    assert_eq!(from_now.get_opt(&sought, &then).unwrap(), None);
    drop((then, snapshot));

    let expiring = begin(|options| options.set_expiration(0));
    expiring.put("a key", "value").unwrap();
    assert_eq!(kind_of(expiring.commit()), ErrorKind::Expired);

    let holder = db.transaction().unwrap();
    holder.put("held", "value").unwrap();
    let impatient = begin(|options| options.set_lock_timeout(0));
    let refused = impatient.get_for_update("held", true).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::TimedOut);
    assert!(refused.to_string().contains("lock"), "{refused}");
}

/// Two transactions wait for each other, and one of them gets an error.
#[test]
fn deadlocked_transactions_get_an_error() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &locking(sieve()));
    let mut noticing = TransactionOptions::default();
    noticing.set_deadlock_detect(true);
    noticing.set_lock_timeout(60_000);
    let both = Barrier::new(2);
    let take = |first: &str, second: &str| {
        let transaction = db
            .transaction_opt(&WriteOptions::default(), &noticing)
            .unwrap();
        assert_eq!(transaction.get_for_update(first, true).unwrap(), None);
        both.wait();
        let taken = transaction.get_for_update(second, true);
        taken.map_err(|error| error.kind())
    };
    let taken = thread::scope(|scope| {
        let other = scope.spawn(|| take("b", "a"));
        [take("a", "b"), other.join().unwrap()]
    });
    assert!(taken.contains(&Err(ErrorKind::Busy)), "{taken:?}");
    assert!(taken.contains(&Ok(None)), "{taken:?}");
}

type Create = fn(&SieveDb, &str);

fn by_front(db: &SieveDb, name: &str) {
    db.create_cf(name, &options()).unwrap();
}

/// By the plain database, after another.
fn by_engine(db: &SieveDb, name: &str) {
    let created = db.with_engine_untracked(|engine| {
        engine.create_cf("of a moment", &options())?;
        engine.drop_cf("of a moment")?;
        engine.create_cf(name, &options())
    });
    created.unwrap();
}

#[test]
fn created_cfs_have_locks() {
    let home = tempfile::tempdir().unwrap();
    let excluded = impatient().exclude_cfs(["left out", OTHER]);
    let db = open(home.path(), &excluded);
    let ways = [
        ("made", by_front as Create),
        ("left out", by_front),
        ("another's", by_engine),
    ];
    for (name, create) in ways {
        for _ in 0..2 {
            create(&db, name);
            let cf = db.cf_handle(name).unwrap();
            let holder = db.transaction().unwrap();
            assert_eq!(holder.get_for_update_cf(&cf, "key", true).unwrap(), None);
            let refused = kind_of(db.put_cf(&cf, "key", "value"));
            assert_eq!(refused, ErrorKind::TimedOut, "{name}");
            holder.put_cf(&cf, "key", "value").unwrap();
            holder.commit().unwrap();
            assert!(db.get_cf(&cf, "key").unwrap().is_some());
            let holder = db.transaction().unwrap();
            holder.put_cf(&cf, "key", "value").unwrap();
            db.drop_cf(name).unwrap();
            holder.rollback().unwrap();
        }
    }
}

/// Transactions that `rocksdb` committed in two phases are there. Those that it only prepared wait
/// for it.
#[test]
fn prepared_transactions_are_left_to_rocksdb() {
    let home = tempfile::tempdir().unwrap();
    let native = || {
        let locks = TransactionDBOptions::default();
        TransactionDB::<MultiThreaded>::open(&options(), &locks, home.path()).unwrap()
    };
    let prepare = |db: &TransactionDB<MultiThreaded>, name: &str| {
        let transaction = db.transaction();
        transaction.put(name, "value").unwrap();
        transaction.set_name(name.as_bytes()).unwrap();
        transaction.prepare().unwrap();
    };
    let db = native();
    prepare(&db, "prepared");
    drop(db);
    for _ in 0..2 {
        let refused = SieveDb::open(&options(), &locking(sieve()), home.path());
        let Err(OpenError::Engine { source, .. }) = refused else {
            panic!("{refused:?}");
        };
        assert!(source.to_string().contains("`TransactionDB`"), "{source}");
    }
    let db = native();
    let prepared = db.prepared_transactions().pop().unwrap();
    prepared.commit().unwrap();
    drop(db);
    for _ in 0..2 {
        let db = SieveDb::open(&options(), &locking(sieve()), home.path()).unwrap();
        settle(&db);
        assert_eq!(db.get("prepared").unwrap().as_deref(), Some(&b"value"[..]));
    }
}

#[test]
fn read_only_open_with_locks_is_refused() {
    let home = tempfile::tempdir().unwrap();
    drop(open(home.path(), &locking(sieve())));
    let names = [DEFAULT, OTHER];
    let (options, locking) = (options(), locking(sieve()));
    let reader = SieveDb::builder(home.path())
        .options(&options)
        .filters(&locking)
        .cfs(names)
        .read_only(false)
        .open();
    let messages = tempfile::tempdir().unwrap();
    let messages = messages.path();
    let follower = SieveDb::builder(home.path())
        .options(&options)
        .filters(&locking)
        .cfs(names)
        .secondary(messages)
        .open();
    for refused in [reader, follower] {
        let said = refused.unwrap_err().to_string();
        assert!(said.contains("transactions with locks"), "{said}");
    }
}

#[test]
fn unordered_writes_with_locks_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_unordered_write(true);
    let refused = SieveDb::open(&options, &locking(sieve()), home.path());
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("unordered_write"), "{said}");
}

#[test]
fn options_of_the_other_transaction_kind_are_refused() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path(), &kind(sieve()));
        let writing = WriteOptions::default();
        let optimistic = OptimisticTransactionOptions::default();
        let locking = TransactionOptions::default();
        let settings: [TransactionSettings<'_>; 2] = [(&optimistic).into(), (&locking).into()];
        let panics = settings.map(|settings| {
            let begin = || drop(db.transaction_opt(&writing, settings).unwrap());
            catch_unwind(AssertUnwindSafe(begin)).is_err()
        });
        assert_eq!(panics.iter().filter(|panics| **panics).count(), 1);
    }
}

/// Up to the limit keys are locked, and no more.
#[test]
fn lock_options_of_the_database_take_effect() {
    let home = tempfile::tempdir().unwrap();
    let mut locks = TransactionDBOptions::default();
    locks.set_max_num_locks(2);
    let db = open(home.path(), &sieve().transactions(Isolation::locks(locks)));
    let transaction = db.transaction().unwrap();
    for key in 0..2 {
        assert_eq!(
            transaction.get_for_update(absent_key(key), true).unwrap(),
            None
        );
    }
    let refused = transaction.get_for_update(absent_key(2), true).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Aborted, "{refused}");
}
