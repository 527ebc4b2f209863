//! Point reads, and seeks for one prefix, go on to skip SSTs where RocksDB's scans do not.

use std::path::Path;

use lsm_sieve::{Isolation, SieveDb, SieveOptions};
use rocksdb::{Direction, IteratorMode, SliceTransform, TransactionDBOptions};

use super::twins::sieve;
use crate::support::model_db::{cover, options, settle};
use crate::support::reads::skipped_ssts;

const SSTS: u32 = 6;

/// Each key is its own prefix. All SSTs overlap; the keys of the oldest end with 0.
fn open(path: &Path, sieve: &SieveOptions) -> SieveDb {
    let mut options = options();
    options.set_disable_auto_compactions(true);
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(4));
    let db = SieveDb::open(&options, sieve, path).unwrap();
    for sst in 0..SSTS {
        for number in 0..100 {
            db.put(format!("{number:03}{sst}"), "value").unwrap();
        }
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    db
}

/// A filter that answers point reads alone must know them all: `MultiGet` by its batches, the others
/// by what their callers say.
#[test]
fn point_reads_skip_ssts_without_a_filter_policy() {
    let home = tempfile::tempdir().unwrap();
    let locks = Isolation::locks(TransactionDBOptions::default());
    for (name, isolation) in [("optimistic", Isolation::Optimistic), ("locks", locks)] {
        let db = open(&home.path().join(name), &sieve().transactions(isolation));
        let transaction = db.transaction().unwrap();
        let cf = db.cf_handle("default").unwrap();
        let key = "0500";
        let found = |value: Option<Vec<u8>>| assert_eq!(value.unwrap(), b"value");
        let many = [key, "0510"];
        let all = |values: Vec<Result<Option<Vec<u8>>, _>>| {
            values.into_iter().for_each(|value| found(value.unwrap()));
        };
        let reads: [(&str, &dyn Fn()); 10] = [
            ("get", &|| found(db.get(key).unwrap())),
            ("get_unfiltered", &|| found(db.get_unfiltered(key).unwrap())),
            ("get_pinned", &|| {
                assert!(db.get_pinned(key).unwrap().is_some())
            }),
            ("get_cf", &|| found(db.get_cf(&cf, key).unwrap())),
            ("snapshot", &|| found(db.snapshot().get(key).unwrap())),
            ("key_may_exist", &|| assert!(db.key_may_exist(key))),
            ("multi_get", &|| all(db.multi_get(many))),
            ("of a transaction", &|| found(transaction.get(key).unwrap())),
            ("of a transaction, for update", &|| {
                found(transaction.get_for_update(key, true).unwrap());
            }),
            ("of a transaction, many", &|| {
                all(transaction.multi_get(many))
            }),
        ];
        for (what, read) in reads {
            assert!(skipped_ssts(read) >= u64::from(SSTS) - 1, "{what}");
        }
        let seek = || assert!(db.prefix_exists(key).unwrap());
        assert!(skipped_ssts(seek) >= u64::from(SSTS) - 1);
        let scan = || {
            let from = IteratorMode::From(key.as_bytes(), Direction::Forward);
            let rows = db.iterator(from).map(Result::unwrap);
            assert_eq!(rows.count(), 50 * SSTS as usize);
        };
        assert_eq!(skipped_ssts(scan), 0);
    }
}
