//! Transactions: what they read past the filters, and what their commits find out.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use lsm_sieve::{SieveDb, Transaction};
use rocksdb::{
    AsColumnFamilyRef, BoundColumnFamily, DBPinnableSlice, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT,
    Error, ErrorKind, IteratorMode, OptimisticTransactionOptions, ReadOptions, WriteOptions,
};

use crate::twin::{
    Dice, KEYS, Model, absent_key, agree, agree_in, cover, fill, key, nothing_is_lost, options,
    settle, sieve,
};

const OTHER: &str = "other";

fn open(path: &Path) -> SieveDb {
    let sieve = sieve().transactions(true);
    SieveDb::open_cf(&options(), &sieve, path, [DEFAULT, OTHER]).unwrap()
}

/// A database whose filters rule out what is not there, and its model.
fn covered(path: &Path) -> (SieveDb, Model) {
    let db = open(path);
    let mut model = Model::new();
    fill(&db, &mut model, 0..500);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    (db, model)
}

/// Of so many keys that are not there, the first that the filters rule out.
fn denied(db: &SieveDb, cf: &impl AsColumnFamilyRef, from: u64) -> Vec<u8> {
    let mut absent = (from..from + 100).map(absent_key);
    let denied = absent.find(|key| db.answer_cf(cf, key).is_absent());
    denied.expect("the filters rule nothing out")
}

fn kind_of(result: Result<(), Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

type Found = Result<Option<Vec<u8>>, Error>;

/// A way to read one key of a family.
type Read = fn(&Transaction<'_>, &Arc<BoundColumnFamily<'_>>, &[u8]) -> Found;

fn copied(pinned: Result<Option<DBPinnableSlice<'_>>, Error>) -> Found {
    pinned.map(|found| found.map(|value| value.to_vec()))
}

const READS: [(&str, Read); 5] = [
    ("get_cf", |of, cf, key| of.get_cf(cf, key)),
    ("get_cf_opt", |of, cf, key| {
        of.get_cf_opt(cf, key, &ReadOptions::default())
    }),
    ("get_pinned_cf", |of, cf, key| {
        copied(of.get_pinned_cf(cf, key))
    }),
    ("get_pinned_cf_opt", |of, cf, key| {
        copied(of.get_pinned_cf_opt(cf, key, &ReadOptions::default()))
    }),
    ("multi_get_cf", |of, cf, key| {
        of.multi_get_cf([(cf, key), (cf, b"absent")]).remove(0)
    }),
];

/// Those of the default family.
const DEFAULT_READS: [(&str, Read); 5] = [
    ("get", |of, _, key| of.get(key)),
    ("get_opt", |of, _, key| {
        of.get_opt(key, &ReadOptions::default())
    }),
    ("get_pinned", |of, _, key| copied(of.get_pinned(key))),
    ("get_pinned_opt", |of, _, key| {
        copied(of.get_pinned_opt(key, &ReadOptions::default()))
    }),
    ("multi_get", |of, _, key| {
        of.multi_get([key, b"absent"]).remove(0)
    }),
];

const READS_FOR_UPDATE: [(&str, Read); 4] = [
    ("get_for_update_cf", |of, cf, key| {
        of.get_for_update_cf(cf, key, true)
    }),
    ("get_for_update_cf_opt", |of, cf, key| {
        of.get_for_update_cf_opt(cf, key, false, &ReadOptions::default())
    }),
    ("get_pinned_for_update_cf", |of, cf, key| {
        copied(of.get_pinned_for_update_cf(cf, key, true))
    }),
    ("get_pinned_for_update_cf_opt", |of, cf, key| {
        let plain = ReadOptions::default();
        copied(of.get_pinned_for_update_cf_opt(cf, key, true, &plain))
    }),
];

/// Those of the default family.
const DEFAULT_READS_FOR_UPDATE: [(&str, Read); 4] = [
    ("get_for_update", |of, _, key| of.get_for_update(key, true)),
    ("get_for_update_opt", |of, _, key| {
        of.get_for_update_opt(key, true, &ReadOptions::default())
    }),
    ("get_pinned_for_update", |of, _, key| {
        copied(of.get_pinned_for_update(key, false))
    }),
    ("get_pinned_for_update_opt", |of, _, key| {
        let plain = ReadOptions::default();
        copied(of.get_pinned_for_update_opt(key, true, &plain))
    }),
];

/// Every way to read one key of this family.
fn reads(family: &str) -> Vec<(&'static str, Read)> {
    let mut reads = [&READS[..], &READS_FOR_UPDATE].concat();
    if family == DEFAULT {
        reads.extend(DEFAULT_READS);
        reads.extend(DEFAULT_READS_FOR_UPDATE);
    }
    reads
}

/// Checks that every way to read a key finds this.
fn finds(of: &Transaction<'_>, db: &SieveDb, family: &str, key: &[u8], expected: Option<&[u8]>) {
    let cf = db.cf_handle(family).unwrap();
    for (name, read) in reads(family) {
        let found = read(of, &cf, key).unwrap();
        assert_eq!(found.as_deref(), expected, "{name} in {family}");
    }
}

#[test]
fn what_a_transaction_wrote_is_read_though_the_filters_deny_it() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = covered(home.path());
    for family in [DEFAULT, OTHER] {
        let cf = db.cf_handle(family).unwrap();
        let own = denied(&db, &cf, 0);
        let transaction = db.transaction();
        finds(&transaction, &db, family, &own, None);
        transaction.put_cf(&cf, &own, "written").unwrap();
        finds(&transaction, &db, family, &own, Some(b"written"));
        transaction.set_savepoint();
        transaction.delete_cf(&cf, &own).unwrap();
        finds(&transaction, &db, family, &own, None);
        transaction.merge_cf(&cf, &own, "merged").unwrap();
        finds(&transaction, &db, family, &own, Some(b"merged"));
        transaction.rollback_to_savepoint().unwrap();
        transaction.merge_cf(&cf, &own, "+").unwrap();
        finds(&transaction, &db, family, &own, Some(b"written+"));
        // Nobody else knows.
        assert!(db.get_cf(&cf, &own).unwrap().is_none());
        assert!(db.answer_cf(&cf, &own).is_absent());
        transaction.rollback().unwrap();
        finds(&transaction, &db, family, &own, None);
    }
    agree(&db, &model);
}

#[test]
fn a_merge_is_on_top_of_what_the_database_has() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = covered(home.path());
    let (there, value) = model.last_key_value().unwrap();
    let transaction = db.transaction();
    finds(&transaction, &db, DEFAULT, there, Some(value));
    transaction.merge(there, "+").unwrap();
    let merged = [value, &b"+"[..]].concat();
    finds(&transaction, &db, DEFAULT, there, Some(&merged));
    transaction.commit().unwrap();
    assert_eq!(db.get(there).unwrap(), Some(merged));
}

#[test]
fn transactions_ask_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path());
    let transaction = db.transaction();
    transaction.put("another key", "value").unwrap();
    for family in [DEFAULT, OTHER] {
        let cf = db.cf_handle(family).unwrap();
        let sought = denied(&db, &cf, 0);
        assert!(db.answer_cf(&cf, b"absent").is_absent());
        let before = db.stats_cf(family).unwrap();
        let mut asked = 0;
        for (name, read) in reads(family) {
            assert_eq!(read(&transaction, &cf, &sought).unwrap(), None);
            asked += if name.starts_with("multi") { 2 } else { 1 };
            let after = db.stats_cf(family).unwrap();
            assert_eq!(after.absent, before.absent + asked, "{name} in {family}");
        }
    }
}

#[test]
fn a_key_that_the_filters_deny_is_watched() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path());
    let default = db.cf_handle(DEFAULT).unwrap();
    let ways = [READS_FOR_UPDATE, DEFAULT_READS_FOR_UPDATE].concat();
    for (at, (name, read)) in (2_u64..).zip(ways) {
        let sought = denied(&db, &default, 100 * at);
        let transaction = db.transaction();
        assert_eq!(read(&transaction, &default, &sought).unwrap(), None);
        db.put(&sought, "somebody else's").unwrap();
        transaction.put("a key of its own", name).unwrap();
        assert_eq!(kind_of(transaction.commit()), ErrorKind::Busy, "{name}");
        assert_eq!(db.get("a key of its own").unwrap(), None, "{name}");
    }
    // In another family it is another key.
    let other = db.cf_handle(OTHER).unwrap();
    let sought = denied(&db, &other, 0);
    let transaction = db.transaction();
    let found = transaction.get_for_update_cf(&other, &sought, true);
    assert_eq!(found.unwrap(), None);
    db.put(&sought, "of the default family").unwrap();
    transaction.put_cf(&other, &sought, "its own").unwrap();
    transaction.commit().unwrap();
    assert!(db.get_cf(&other, &sought).unwrap().is_some());
}

/// The use that misses come from: a key that is made unless it is there.
#[test]
fn of_many_that_make_a_key_if_it_is_absent_one_does() {
    const MAKERS: usize = 4;
    const MADE: u64 = 300;
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path());
    let winners: Vec<AtomicUsize> = (0..MADE).map(|_| AtomicUsize::new(0)).collect();
    let make = |maker: usize, key: &[u8]| -> Result<bool, Error> {
        let transaction = db.transaction();
        if transaction.get_for_update(key, true)?.is_some() {
            return Ok(false);
        }
        // The others' turn.
        thread::yield_now();
        transaction.put(key, maker.to_string())?;
        transaction.commit().map(|()| true)
    };
    thread::scope(|scope| {
        for maker in 0..MAKERS {
            let (make, winners, db) = (&make, &winners, &db);
            scope.spawn(move || {
                for (i, winner) in winners.iter().enumerate() {
                    let key = absent_key(10_000 + i as u64);
                    let won = loop {
                        match make(maker, &key) {
                            Ok(won) => break won,
                            Err(error) if error.kind() == ErrorKind::Busy => {}
                            Err(error) => panic!("{error}"),
                        }
                    };
                    winner.fetch_add(usize::from(won), Ordering::Relaxed);
                    if maker == 0 && i % 50 == 0 {
                        db.flush().unwrap();
                    }
                }
            });
        }
    });
    let won = winners.iter().map(|winner| winner.load(Ordering::Relaxed));
    assert!(won.into_iter().all(|won| won == 1), "{winners:?}");
}

#[test]
fn a_snapshot_is_read_through_and_conflicts_are_counted_from_it() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = covered(home.path());
    let (there, value) = model.last_key_value().unwrap();
    let new = denied(&db, &db.cf_handle(DEFAULT).unwrap(), 0);
    let mut from_now = OptimisticTransactionOptions::default();
    from_now.set_snapshot(true);
    let transaction = db.transaction_opt(&WriteOptions::default(), &from_now);
    db.put(there, "changed").unwrap();
    db.put(&new, "new").unwrap();

    let mut then = ReadOptions::default();
    let snapshot = transaction.snapshot();
    then.set_snapshot(&snapshot);
    let found = [there, &new].map(|key| transaction.get_opt(key, &then).unwrap());
    assert_eq!(found, [Some(value.clone()), None]);
    let many = transaction.multi_get_opt([there, &new], &then);
    let many: Vec<_> = many.into_iter().map(Result::unwrap).collect();
    assert_eq!(many, found);
    assert_eq!(snapshot.get(there).unwrap().as_ref(), Some(value));
    // Without it, of now.
    assert_eq!(transaction.get(&new).unwrap().as_deref(), Some(&b"new"[..]));
    let found = transaction.get_for_update_opt(&new, true, &then).unwrap();
    assert_eq!(found, None);
    drop((then, snapshot));
    assert_eq!(kind_of(transaction.commit()), ErrorKind::Busy);
}

/// A commit can only look for conflicts in memtables.
#[test]
fn flushed_memtables_are_kept_where_transactions_are_said_to_come() {
    let home = tempfile::tempdir().unwrap();
    let flushed_between = |db: &SieveDb, family: &str| {
        let cf = db.cf_handle(family).unwrap();
        let transaction = db.transaction();
        transaction.put_cf(&cf, "key", "value").unwrap();
        db.put_cf(&cf, "another key", "value").unwrap();
        db.flush_cf(&cf).unwrap();
        db.put_cf(&cf, "another key", "value").unwrap();
        transaction.commit()
    };
    {
        let db = open(home.path());
        db.create_cf("made later", &options()).unwrap();
        for family in [DEFAULT, OTHER, "made later"] {
            flushed_between(&db, family).unwrap();
        }
    }
    let families = [DEFAULT, OTHER, "made later"];
    let db = SieveDb::open_cf(&options(), &sieve(), home.path(), families).unwrap();
    for family in families {
        let failed = flushed_between(&db, family);
        assert_eq!(kind_of(failed), ErrorKind::TryAgain, "{family}");
    }
}

#[test]
fn iterators_and_batches_are_those_of_rocksdb() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    db.put("b", "there").unwrap();
    let transaction = db.transaction();
    transaction.put("a", "own").unwrap();
    let keys = |mode| {
        let keys = transaction.iterator(mode).map(|entry| entry.unwrap().0);
        keys.map(|key| key[0]).collect::<Vec<u8>>()
    };
    assert_eq!(keys(IteratorMode::Start), b"ab");
    assert_eq!(keys(IteratorMode::End), b"ba");
    let batch = transaction.get_writebatch();
    transaction.rollback().unwrap();
    assert_eq!(transaction.get("a").unwrap(), None);
    transaction.rebuild_from_writebatch(&batch).unwrap();
    finds(&transaction, &db, DEFAULT, b"a", Some(b"own"));
    transaction.commit().unwrap();
    assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"own"[..]));
}

/// What a transaction did to one family, over what the database has.
type Changes = BTreeMap<Vec<u8>, Option<Vec<u8>>>;

/// One random step of a transaction and its model.
fn step(
    transaction: &Transaction<'_>,
    cf: &impl AsColumnFamilyRef,
    (model, changes): (&Model, &mut Changes),
    dice: &mut Dice,
) {
    let key = key(dice.below(KEYS));
    let seen = |changes: &Changes| match changes.get(&key) {
        Some(changed) => changed.clone(),
        None => model.get(&key).cloned(),
    };
    let value = format!("{};", dice.below(1 << 40)).into_bytes();
    match dice.below(8) {
        0..=1 => {
            transaction.put_cf(cf, &key, &value).unwrap();
            changes.insert(key, Some(value));
        }
        2 => {
            transaction.merge_cf(cf, &key, &value).unwrap();
            let merged = [seen(changes).unwrap_or_default(), value].concat();
            changes.insert(key, Some(merged));
        }
        3 => {
            transaction.delete_cf(cf, &key).unwrap();
            changes.insert(key, None);
        }
        4 => {
            let found = transaction.get_for_update_cf(cf, &key, true).unwrap();
            assert_eq!(found, seen(changes));
        }
        _ => assert_eq!(transaction.get_cf(cf, &key).unwrap(), seen(changes)),
    }
}

#[test]
fn random_transactions_leave_what_their_model_says() {
    let home = tempfile::tempdir().unwrap();
    let mut dice = Dice(20_261_124);
    let mut models: [Model; 2] = Default::default();
    for _ in 0..3 {
        let db = open(home.path());
        for _ in 0..60 {
            let at = dice.below(2) as usize;
            let cf = db.cf_handle([DEFAULT, OTHER][at]).unwrap();
            let transaction = db.transaction();
            let mut changes = Changes::new();
            for _ in 0..dice.below(60) {
                step(&transaction, &cf, (&models[at], &mut changes), &mut dice);
            }
            if dice.below(4) == 0 {
                continue;
            }
            if dice.below(8) == 0 {
                db.flush_cf(&cf).unwrap();
            }
            transaction.commit().unwrap();
            for (key, changed) in changes {
                match changed {
                    Some(value) => models[at].insert(key, value),
                    None => models[at].remove(&key),
                };
            }
        }
        agree(&db, &models[0]);
        agree_in(&db, OTHER, &models[1]);
        cover(&db);
        nothing_is_lost(&db);
    }
}
