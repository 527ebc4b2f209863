//! `multi_get` reads all its keys at one moment, as the engine does.

use std::cell::Cell;

use lsm_sieve::SieveDb;
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, WriteBatch};

use crate::support::model_db::{cover, options, sieve};

/// A key that, on its second read, may write a batch: after the filters were checked, and before
/// the engine is read.
struct Trap<'a> {
    key: &'static str,
    batch: Option<(&'a Cell<u32>, &'a dyn Fn())>,
}

impl AsRef<[u8]> for Trap<'_> {
    fn as_ref(&self) -> &[u8] {
        if let Some((reads, batch)) = self.batch {
            reads.set(reads.get() + 1);
            if reads.get() == 2 {
                batch();
            }
        }
        self.key.as_bytes()
    }
}

/// `to` and `from`, of which the second writes the batch. `reads` counts its reads.
fn to_and_from<'a>(reads: &'a Cell<u32>, batch: &'a dyn Fn()) -> [Trap<'a>; 2] {
    let trap = |key, batch| Trap { key, batch };
    [trap("to", None), trap("from", Some((reads, batch)))]
}

/// The engine reads many keys at one sequence number, and so does `SieveDb`.
#[test]
fn multi_get_sees_a_write_batch_whole_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&options(), &sieve().audit(0), home.path()).unwrap();
    db.put("from", "record").unwrap();
    cover(&db);
    assert!(db.filters().answer("to").is_absent());
    let moving = || {
        let mut batch = WriteBatch::default();
        batch.put("to", "record");
        batch.delete("from");
        db.write(batch).unwrap();
    };
    let reads = Cell::new(0);
    let keys = to_and_from(&reads, &moving);
    let found = db.multi_get(keys).into_iter().map(Result::unwrap);
    let found: Vec<_> = found.collect();
    assert!(reads.get() >= 2, "the batch was written");
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
    let reads = Cell::new(1);
    let keys = to_and_from(&reads, &moving);
    assert!(db.filters().answer("to").is_absent());
    let found = db.multi_get_cf(keys.into_iter().map(|key| (&cf, key)));
    let found: Vec<_> = found.into_iter().map(Result::unwrap).collect();
    assert!(reads.get() >= 2, "the batch was written");
    assert_eq!(found, [Some(b"record".to_vec()), None]);
}
