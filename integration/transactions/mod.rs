//! Transactions: what they read past the filters, and the conflicts that their commits detect.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use lsm_sieve::{Isolation, SieveDb, SieveOptions, Transaction, TransactionSettings};
use rocksdb::{
    AsColumnFamilyRef, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Error, ErrorKind, IteratorMode,
    OptimisticTransactionOptions, Options, ReadOptions, TransactionDBOptions, TransactionOptions,
    WriteBatchWithTransaction, WriteOptions,
};

use crate::support::binding::given;
use crate::support::model_db::{
    Dice, KEYS, Model, absent_key, check_cf_reads, check_reads, cover, fill, key, options, settle,
    sieve, stats_of, verify_finds_every_key, with_filter_budget,
};
use crate::support::reads::{self, Handle, NOWHERE, Read};

mod locks;

const OTHER: &str = "other";

fn optimistic(sieve: SieveOptions) -> SieveOptions {
    sieve.transactions(Isolation::Optimistic)
}

fn locking(sieve: SieveOptions) -> SieveOptions {
    sieve.transactions(Isolation::locks(TransactionDBOptions::default()))
}

/// Settings with either kind of transactions.
const KINDS: [fn(SieveOptions) -> SieveOptions; 2] = [optimistic, locking];

fn open(path: &Path, sieve: &SieveOptions) -> SieveDb {
    SieveDb::builder(path)
        .options(&options())
        .filters(sieve)
        .cfs([DEFAULT, OTHER])
        .open()
        .unwrap()
}

/// A database whose filters deny absent keys, and its model.
fn covered(path: &Path, sieve: &SieveOptions) -> (SieveDb, Model) {
    let db = open(path, sieve);
    let mut model = Model::new();
    fill(&db, &mut model, 0..500);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    (db, model)
}

/// The first absent key from this number on that the filters deny.
fn denied(db: &SieveDb, cf: &impl AsColumnFamilyRef, from: u64) -> Vec<u8> {
    let mut absent = (from..from + 100).map(absent_key);
    let denied = absent.find(|key| db.filters().answer_cf(cf, key).is_absent());
    denied.expect("the filters rule nothing out")
}

fn kind_of(result: Result<(), Error>) -> ErrorKind {
    result.unwrap_err().kind()
}

/// Every way to read one key of this family.
fn reads_of<'db>(family: &str) -> Vec<Read<Transaction<'db>, Handle<'db>>> {
    let mut reads = reads::of_transaction();
    reads.extend(reads::for_update(false));
    reads.retain(|read| family == DEFAULT || read.names_a_cf());
    reads
}

/// Every read for update, sharing its lock or not.
fn reads_for_update<'db>() -> Vec<Read<Transaction<'db>, Handle<'db>>> {
    reads::for_update_either_way().flatten().collect()
}

/// Checks that every way to read a key returns this value.
fn finds(of: &Transaction<'_>, db: &SieveDb, family: &str, key: &[u8], expected: Option<&[u8]>) {
    let cf = db.cf_handle(family).unwrap();
    for read in reads_of(family) {
        let found = read.value(of, &cf, key).unwrap();
        assert_eq!(found.as_deref(), expected, "{} in {family}", read.name);
    }
}

#[test]
fn transaction_reads_its_own_writes_that_filters_deny() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let (db, model) = covered(home.path(), &kind(sieve()));
        for family in [DEFAULT, OTHER] {
            let cf = db.cf_handle(family).unwrap();
            let own = denied(&db, &cf, 0);
            let transaction = db.transaction().unwrap();
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
            // Not visible outside the transaction.
            assert!(db.get_cf(&cf, &own).unwrap().is_none());
            assert!(db.filters().answer_cf(&cf, &own).is_absent());
            transaction.rollback().unwrap();
            finds(&transaction, &db, family, &own, None);
        }
        check_reads(&db, &model);
    }
}

#[test]
fn merge_in_transaction_applies_to_the_database_value() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let (db, model) = covered(home.path(), &kind(sieve()));
        let (there, value) = model.last_key_value().unwrap();
        let transaction = db.transaction().unwrap();
        finds(&transaction, &db, DEFAULT, there, Some(value));
        transaction.merge(there, "+").unwrap();
        let merged = [value, &b"+"[..]].concat();
        finds(&transaction, &db, DEFAULT, there, Some(&merged));
        transaction.commit().unwrap();
        assert_eq!(db.get(there).unwrap(), Some(merged));
    }
}

#[test]
fn transaction_reads_use_the_filters() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let (db, _model) = covered(home.path(), &kind(sieve()));
        let transaction = db.transaction().unwrap();
        transaction.put("another key", "value").unwrap();
        for family in [DEFAULT, OTHER] {
            let cf = db.cf_handle(family).unwrap();
            let sought = denied(&db, &cf, 0);
            assert!(db.filters().answer_cf(&cf, NOWHERE).is_absent());
            let before = stats_of(&db, family).unwrap();
            let mut lookups = 0;
            for read in reads_of(family) {
                assert_eq!(read.value(&transaction, &cf, &sought).unwrap(), None);
                lookups += read.keys_a_call();
                let absent = stats_of(&db, family).unwrap().absent - before.absent;
                assert_eq!(absent, lookups, "{} in {family}", read.name);
            }
        }
    }
}

#[test]
fn reads_for_update_track_keys_that_filters_deny() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path(), &optimistic(sieve()));
    let default = db.cf_handle(DEFAULT).unwrap();
    for (at, read) in (2_u64..).zip(reads_for_update()) {
        let name = read.name;
        let sought = denied(&db, &default, 100 * at);
        let transaction = db.transaction().unwrap();
        assert_eq!(read.value(&transaction, &default, &sought).unwrap(), None);
        db.put(&sought, "somebody else's").unwrap();
        transaction.put("a key of its own", name).unwrap();
        assert_eq!(kind_of(transaction.commit()), ErrorKind::Busy, "{name}");
        assert_eq!(db.get("a key of its own").unwrap(), None, "{name}");
    }
    // In another family it is another key.
    let other = db.cf_handle(OTHER).unwrap();
    let sought = denied(&db, &other, 0);
    let transaction = db.transaction().unwrap();
    let found = transaction.get_for_update_cf(&other, &sought, true);
    assert_eq!(found.unwrap(), None);
    db.put(&sought, "of the default family").unwrap();
    transaction.put_cf(&other, &sought, "its own").unwrap();
    transaction.commit().unwrap();
    assert!(db.get_cf(&other, &sought).unwrap().is_some());
}

/// The use case with many misses: a key is created unless it exists.
#[test]
fn one_of_many_concurrent_creates_of_an_absent_key_commits() {
    KINDS.iter().for_each(|kind| make_if_absent(&kind(sieve())));
}

fn make_if_absent(sieve: &SieveOptions) {
    const MAKERS: usize = 4;
    const MADE: u64 = 300;
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path(), sieve);
    let winners: Vec<AtomicUsize> = (0..MADE).map(|_| AtomicUsize::new(0)).collect();
    let make = |maker: usize, key: &[u8]| -> Result<bool, Error> {
        let transaction = db.transaction().unwrap();
        if transaction.get_for_update(key, true)?.is_some() {
            return Ok(false);
        }
        // Lets the other threads run.
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
fn transaction_snapshot_bounds_reads_and_conflicts() {
    let home = tempfile::tempdir().unwrap();
    let (db, model) = covered(home.path(), &optimistic(sieve()));
    let (there, value) = model.last_key_value().unwrap();
    let new = denied(&db, &db.cf_handle(DEFAULT).unwrap(), 0);
    let mut from_now = OptimisticTransactionOptions::default();
    from_now.set_snapshot(true);
    let transaction = db
        .transaction_opt(&WriteOptions::default(), &from_now)
        .unwrap();
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
    // Without it, a read sees the present.
    assert_eq!(transaction.get(&new).unwrap().as_deref(), Some(&b"new"[..]));
    let found = transaction.get_for_update_opt(&new, true, &then).unwrap();
    assert_eq!(found, None);
    drop((then, snapshot));
    assert_eq!(kind_of(transaction.commit()), ErrorKind::Busy);
}

/// A commit can check conflicts only in memtables.
#[test]
fn conflicts_are_detected_after_a_flush() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), &optimistic(sieve()));
    db.create_cf("made later", &options()).unwrap();
    for family in [DEFAULT, OTHER, "made later"] {
        let cf = db.cf_handle(family).unwrap();
        for somebody_wrote in [false, true] {
            let transaction = db.transaction().unwrap();
            transaction.put_cf(&cf, "key", "value").unwrap();
            let other = if somebody_wrote { "key" } else { "another key" };
            db.put_cf(&cf, other, "somebody else's").unwrap();
            db.flush_cf(&cf).unwrap();
            db.put_cf(&cf, "a third key", "value").unwrap();
            let conflict = transaction.commit().err().map(|error| error.kind());
            let expected = somebody_wrote.then_some(ErrorKind::Busy);
            assert_eq!(conflict, expected, "{family}");
        }
    }
}

#[test]
fn transactions_need_their_setting() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve(), home.path()).unwrap();
    let refused = db.transaction().unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    let what_to_do = "open the database with `SieveOptions::transactions`";
    assert!(refused.to_string().contains(what_to_do), "{refused}");
    drop(db);
    let locks = Isolation::locks(TransactionDBOptions::default());
    for (isolation, settings) in [
        (
            Isolation::Optimistic,
            TransactionSettings::Locking(&TransactionOptions::default()),
        ),
        (
            locks,
            TransactionSettings::Optimistic(&OptimisticTransactionOptions::default()),
        ),
    ] {
        let sieve = sieve().transactions(isolation.clone());
        let db = SieveDb::open(&options(), &sieve, home.path()).unwrap();
        let refused = db.transaction_opt(&WriteOptions::default(), settings);
        let refused = refused.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{isolation:?}");
    }
}

/// RocksDB's default may overwrite one: it checks conflicts before the commit's turn among the
/// writers.
#[test]
fn commit_does_not_overwrite_an_unseen_plain_write() {
    write_beside_commits(&optimistic(sieve()), 150_000);
    write_beside_commits(&locking(sieve()), 20_000);
}

fn write_beside_commits(sieve: &SieveOptions, writes: u64) {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), sieve);
    db.put("key", "0:").unwrap();
    let done = AtomicBool::new(false);
    let extend = || {
        let transaction = db.transaction().unwrap();
        let mut value = transaction.get_for_update("key", true).unwrap().unwrap();
        value.push(b'+');
        transaction.put("key", value).unwrap();
        transaction.commit()
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                if let Err(error) = extend() {
                    assert_eq!(error.kind(), ErrorKind::Busy);
                }
            }
        });
        for i in 0..writes {
            let written = format!("{i}:");
            db.put("key", &written).unwrap();
            let found = db.get("key").unwrap().unwrap();
            if !found.starts_with(written.as_bytes()) {
                done.store(true, Ordering::Relaxed);
                panic!("{written} became {}", found.escape_ascii());
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

/// With unordered writes a sequence number may be visible before its write is.
#[test]
fn unordered_writes_with_transactions_are_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_unordered_write(true);
    let refused = SieveDb::open(
        &options,
        &sieve().transactions(Isolation::Optimistic),
        home.path(),
    );
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("unordered_write"), "{said}");
    drop(SieveDb::open(&options, &sieve(), home.path()).unwrap());
}

#[test]
fn read_only_transactions_read_but_cannot_commit() {
    let home = tempfile::tempdir().unwrap();
    let (database, messages) = (home.path().join("db"), home.path().join("secondary"));
    let (writer, model) = covered(&database, &optimistic(sieve()));
    let sieve = sieve().transactions(Isolation::Optimistic);
    let families = [DEFAULT, OTHER];
    let refuses = |db: &SieveDb| {
        settle(db);
        let transaction = db.transaction().unwrap();
        let (there, value) = model.last_key_value().unwrap();
        finds(&transaction, db, DEFAULT, there, Some(value));
        finds(&transaction, db, DEFAULT, &absent_key(7), None);
        transaction.put("key", "value").unwrap();
        finds(&transaction, db, DEFAULT, b"key", Some(b"value"));
        assert_eq!(kind_of(transaction.commit()), ErrorKind::NotSupported);
        assert_eq!(db.get("key").unwrap(), None);
    };
    let secondary = SieveDb::builder(&database)
        .options(&options())
        .filters(&sieve)
        .cfs(families)
        .secondary(messages)
        .open();
    refuses(&secondary.unwrap());
    drop(writer);
    let reader = SieveDb::builder(&database)
        .options(&options())
        .filters(&sieve)
        .cfs(families)
        .read_only(false)
        .open();
    refuses(&reader.unwrap());
}

/// A commit looks up its families. None must be created or dropped meanwhile.
#[test]
fn cfs_are_created_and_dropped_beside_commits() {
    for (kind, ignores_missing) in KINDS.into_iter().zip([false, true]) {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path(), &kind(sieve()));
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            for writer in 0..2 {
                let (db, done) = (&db, &done);
                scope.spawn(move || {
                    let mut writing = WriteOptions::default();
                    // Otherwise RocksDB stops all writes after a commit that checked no conflicts.
                    writing.set_ignore_missing_column_families(ignores_missing);
                    for i in 0_u64.. {
                        if done.load(Ordering::Relaxed) {
                            return;
                        }
                        let transaction = db
                            .transaction_opt(&writing, TransactionSettings::Default)
                            .unwrap();
                        let key = format!("{writer}.{i}");
                        for family in [DEFAULT, OTHER, "of a moment"] {
                            let Some(cf) = db.cf_handle(family) else {
                                continue;
                            };
                            let found = transaction.get_for_update_cf(&cf, &key, true);
                            assert_eq!(found.unwrap(), None, "{key} in {family}");
                            transaction.put_cf(&cf, &key, "value").unwrap();
                        }
                        match transaction.commit() {
                            Ok(()) => assert!(db.get(&key).unwrap().is_some(), "{key}"),
                            // The family was dropped.
                            Err(error) => assert_eq!(error.kind(), ErrorKind::InvalidArgument),
                        }
                    }
                });
            }
            for _ in 0..60 {
                db.create_cf("of a moment", &options()).unwrap();
                thread::yield_now();
                db.drop_cf("of a moment").unwrap();
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}

#[test]
fn transaction_iterators_see_its_own_writes() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path(), &kind(sieve()));
        db.put("b", "there").unwrap();
        let transaction = db.transaction().unwrap();
        transaction.put("a", "own").unwrap();
        let keys = |mode| {
            let keys = transaction.iterator(mode).map(|entry| entry.unwrap().0);
            keys.map(|key| key[0]).collect::<Vec<u8>>()
        };
        assert_eq!(keys(IteratorMode::Start), b"ab");
        assert_eq!(keys(IteratorMode::End), b"ba");
        let cf = db.cf_handle(OTHER).unwrap();
        transaction.put_cf(&cf, "c", "own").unwrap();
        let mut raw = transaction.raw_iterator_cf(&cf);
        raw.seek_to_first();
        assert_eq!(raw.key(), Some(&b"c"[..]));
        drop(raw);
        transaction.commit().unwrap();
        assert_eq!(db.get("a").unwrap().as_deref(), Some(&b"own"[..]));
    }
}

/// Batches of `rocksdb`'s transactional databases have a type of their own.
#[test]
fn both_types_of_write_batches_are_written() {
    for kind in KINDS {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path(), &kind(sieve()));
        let mut batch = WriteBatchWithTransaction::<true>::default();
        batch.put("key", "value");
        batch.merge_cf(&db.cf_handle(OTHER).unwrap(), "key", "other");
        db.write(batch).unwrap();
        check_reads(&db, &[(b"key".to_vec(), b"value".to_vec())].into());
        check_cf_reads(&db, OTHER, &[(b"key".to_vec(), b"other".to_vec())].into());
        let mut batch = WriteBatchWithTransaction::<false>::default();
        batch.delete("key");
        db.write_without_wal(given(&mut batch)).unwrap();
        check_reads(&db, &Model::new());
    }
}

/// Keys tracked since the savepoint are released, and those tracked before it are not.
#[test]
fn rollback_to_a_savepoint_keeps_earlier_tracked_keys() {
    let home = tempfile::tempdir().unwrap();
    let (db, _model) = covered(home.path(), &optimistic(sieve()));
    let cf = db.cf_handle(DEFAULT).unwrap();
    let (before, after) = (denied(&db, &cf, 0), denied(&db, &cf, 1_000));
    for (written, expected) in [(&after, None), (&before, Some(ErrorKind::Busy))] {
        let transaction = db.transaction().unwrap();
        assert_eq!(transaction.get_for_update(&before, true).unwrap(), None);
        transaction.set_savepoint();
        for key in [&before, &after] {
            assert_eq!(transaction.get_for_update(key, true).unwrap(), None);
        }
        transaction.rollback_to_savepoint().unwrap();
        db.put(written, "somebody else's").unwrap();
        db.delete(written).unwrap();
        transaction.put("a key of its own", "value").unwrap();
        let conflict = transaction.commit().err().map(|error| error.kind());
        assert_eq!(conflict, expected);
    }
}

/// A transaction's changes to one family, on top of the database.
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

/// Random transactions and reopens under these settings.
fn transact_at_random(
    sieve: &SieveOptions,
    kind: fn(SieveOptions) -> SieveOptions,
    options: &Options,
    seed: u64,
) {
    let home = tempfile::tempdir().unwrap();
    let mut dice = Dice(seed);
    let mut models: [Model; 2] = Default::default();
    for _ in 0..3 {
        let sieve = kind(sieve.clone());
        let db = SieveDb::builder(home.path())
            .options(options)
            .filters(&sieve)
            .cfs([DEFAULT, OTHER])
            .open()
            .unwrap();
        for _ in 0..60 {
            let at = dice.below(2) as usize;
            let cf = db.cf_handle([DEFAULT, OTHER][at]).unwrap();
            let transaction = db.transaction().unwrap();
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
        check_reads(&db, &models[0]);
        check_cf_reads(&db, OTHER, &models[1]);
        cover(&db);
        verify_finds_every_key(&db);
    }
}

#[test]
fn random_transactions_match_their_model() {
    let settings = [
        sieve(),
        sieve().speed_over_memory(true),
        sieve().segment_filters(None),
        with_filter_budget(sieve(), 4_096, 2),
        sieve().adaptive_hits(true),
        sieve().exclude_cfs([OTHER]),
    ];
    let mut pipelined = options();
    pipelined.set_enable_pipelined_write(true);
    for kind in KINDS {
        for (seed, settings) in (1..).zip(&settings) {
            transact_at_random(settings, kind, &options(), seed);
        }
        transact_at_random(&sieve(), kind, &pipelined, 20);
    }
}
