//! Snapshots read through the filters, and find what was deleted after them.

use lsm_sieve::{Isolation, SieveDb};
use rocksdb::{
    AsColumnFamilyRef, DBAccess, DEFAULT_COLUMN_FAMILY_NAME, Error, ReadOptions,
    SnapshotWithThreadMode,
};

use crate::support::model_db::{
    KEYS, Model, absent_key, cover, fill, key, open, options, sieve, verify_finds_every_key,
};

/// An iterator skips a deleted key, but an older snapshot still sees it: a consolidation must keep
/// it.
#[test]
fn snapshot_older_than_a_consolidation_reads_deleted_keys() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..KEYS);
    db.flush().unwrap();
    let snapshot = db.snapshot();
    let mut then = ReadOptions::default();
    then.set_snapshot(&snapshot);
    for i in 0..KEYS {
        match i % 3 {
            0 => db.delete(key(i)).unwrap(),
            1 => db.put(key(i), b"newer").unwrap(),
            _ => {}
        }
    }
    let as_then = |stage: &str| {
        for (key, value) in &model {
            let found = [db.get_opt(key, &then), snapshot.get(key)];
            let found = found.map(Result::unwrap);
            assert_eq!(found, [Some(value.clone()), Some(value.clone())], "{stage}");
        }
    };
    as_then("in the memtable");
    db.filters().consolidate().unwrap();
    as_then("consolidated");
    db.compact_range::<&[u8], &[u8]>(None, None);
    cover(&db);
    db.filters().consolidate().unwrap();
    as_then("compacted and consolidated");
    for i in (0..KEYS).step_by(3) {
        assert_eq!(db.get(key(i)).unwrap(), None);
    }
    verify_finds_every_key(&db);
}

/// By every read of a snapshot that code written for any of `rocksdb`'s databases may use.
fn found_in(
    db: &impl DBAccess,
    cf: &impl AsColumnFamilyRef,
    key: &[u8],
) -> Result<[bool; 6], Error> {
    let snapshot = SnapshotWithThreadMode::new(db);
    Ok([
        snapshot.get(key)?.is_some(),
        snapshot.get_cf(cf, key)?.is_some(),
        snapshot.get_pinned(key)?.is_some(),
        snapshot.get_pinned_cf(cf, key)?.is_some(),
        snapshot.multi_get([key]).remove(0)?.is_some(),
        snapshot.multi_get_cf([(cf, key)]).remove(0)?.is_some(),
    ])
}

#[test]
fn snapshot_reads_use_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve()
        .audit(0)
        .adaptive_hits(false)
        .transactions(Isolation::Optimistic);
    let db = SieveDb::open(&options(), &sieve, home.path()).unwrap();
    fill(&db, &mut Model::new(), 0..KEYS);
    db.flush().unwrap();
    cover(&db);
    let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
    let absent = (0..)
        .map(absent_key)
        .find(|key| db.filters().answer(key).is_absent());
    let transaction = db.transaction().unwrap();
    for (key, is_there) in [(key(1), true), (absent.unwrap(), false)] {
        let before = db.filters().stats();
        assert_eq!(found_in(&*db, &cf, &key).unwrap(), [is_there; 6]);
        assert_eq!(found_in(&transaction, &cf, &key).unwrap(), [is_there; 6]);
        let after = db.filters().stats();
        let expected = if is_there { (0, 12) } else { (12, 0) };
        let denied = after.absent - before.absent;
        assert_eq!(
            (denied, after.engine_reads() - before.engine_reads()),
            expected
        );
    }
}
