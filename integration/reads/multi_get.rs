//! `multi_get` reads all its keys at one moment, as the engine does.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use lsm_sieve::{Isolation, SieveDb};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, ReadOptions, WriteBatch};

use crate::support::model_db::{cover, options, sieve};

/// A key that may write a batch when it is read for the last of so many times.
struct Trap<'a> {
    key: &'static str,
    batch: Option<(&'a Cell<i32>, &'a dyn Fn())>,
}

impl AsRef<[u8]> for Trap<'_> {
    fn as_ref(&self) -> &[u8] {
        if let Some((left, batch)) = self.batch {
            left.set(left.get() - 1);
            if left.get() == 0 {
                batch();
            }
        }
        self.key.as_bytes()
    }
}

/// `to` and `from`, of which the second writes the batch. `left` counts its reads down.
fn to_and_from<'a>(left: &'a Cell<i32>, batch: &'a dyn Fn()) -> [Trap<'a>; 2] {
    let trap = |key, batch| Trap { key, batch };
    [trap("to", None), trap("from", Some((left, batch)))]
}

/// The engine reads many keys at one sequence number, and so does a transaction, which reads a key
/// to look for its own writes, to check the filters, and to read the engine.
#[test]
fn multi_get_sees_a_write_batch_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let optimistic = sieve().audit(0).transactions(Isolation::Optimistic);
    let db = SieveDb::open(&options(), &optimistic, home.path()).unwrap();
    db.put("from", "record").unwrap();
    cover(&db);
    assert!(db.filters().answer("to").is_absent());
    let moving = || {
        let mut batch = WriteBatch::default();
        batch.put("to", "record");
        batch.delete("from");
        db.write(batch).unwrap();
    };
    let left = Cell::new(3);
    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let keys = to_and_from(&left, &moving).into_iter();
    let transaction = db.transaction().unwrap();
    let found = transaction.multi_get_cf(keys.map(|key| (&cf, key)));
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert!(left.get() <= 0, "the batch was written");
    assert_eq!(found, [Some(b"record".to_vec()), None]);
}

/// The batch is written while the keys are collected.
#[test]
fn record_that_moves_before_a_multi_get_of_a_cf_is_found() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve().audit(0), home.path()).unwrap();
    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    db.put("from", "record").unwrap();
    cover(&db);
    let moving = || {
        let mut batch = WriteBatch::default();
        batch.put("to", "record");
        batch.delete("from");
        db.write(batch).unwrap();
        db.flush().unwrap();
        db.filters().consolidate().unwrap();
        assert!(db.filters().answer("from").is_absent());
    };
    let left = Cell::new(1);
    let keys = to_and_from(&left, &moving);
    assert!(db.filters().answer("to").is_absent());
    let keys = keys.into_iter().map(|key| (&cf, key));
    let found = db.multi_get_cf_opt(keys, &ReadOptions::default());
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert!(left.get() <= 0, "the batch was written");
    assert_eq!(found, [Some(b"record".to_vec()), None]);
}

/// Through the handle, keys are copied before the filters are checked, so a batch can only come
/// between the two by chance.
#[test]
fn records_that_move_beside_a_multi_get_by_the_handle_are_found_once() {
    const RECORDS: u64 = 3_000;
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve().audit(0), home.path()).unwrap();
    let names = |record: u64| ["to", "from"].map(|place| format!("{place} {record}"));
    for record in 0..RECORDS {
        let [_, from] = names(record);
        db.put(from, "record").unwrap();
    }
    cover(&db);
    let turn = AtomicU64::new(0);
    let torn = thread::scope(|scope| {
        scope.spawn(|| {
            for record in 0..RECORDS {
                while turn.load(Ordering::Acquire) <= record {
                    std::hint::spin_loop();
                }
                (0..record * 37 % 400).for_each(|_| std::hint::spin_loop());
                let [to, from] = names(record);
                let mut batch = WriteBatch::default();
                batch.put(to, "record");
                batch.delete(from);
                db.write(batch).unwrap();
            }
        });
        let is_torn = |record: u64| {
            turn.store(record + 1, Ordering::Release);
            loop {
                let found = db.multi_get(names(record)).into_iter();
                let found: Vec<_> = found.map(|value| value.unwrap().is_some()).collect();
                if found != [false, true] {
                    return found != [true, false];
                }
            }
        };
        let torn: Vec<_> = (0..RECORDS).filter(|&record| is_torn(record)).collect();
        torn
    });
    assert!(torn.is_empty(), "{torn:?}");
}
