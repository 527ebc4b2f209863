//! `audit` of `lsm-sieve-front`, over RocksDB.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use rocksdb::{MergeOperands, Options};

use crate::rocks::{SieveDb, SieveOptions};

const PATIENCE: Duration = Duration::from_secs(60);

/// While the audit reads the key, it is deleted and consolidated away: the new view is right to
/// deny it.
#[test]
fn a_view_is_not_refuted_by_what_was_read_before_it_came() {
    let home = tempfile::tempdir().unwrap();
    let (reading, is_read) = mpsc::channel();
    let (go_on, goes_on) = mpsc::channel();
    let trap = Arc::new(Mutex::new(Some((reading, goes_on))));
    let stops_once = move |_: &[u8], _: Option<&[u8]>, _: &MergeOperands| {
        let sprung = trap.lock().unwrap().take();
        if let Some((reading, goes_on)) = sprung {
            reading.send(()).unwrap();
            goes_on.recv_timeout(PATIENCE).unwrap();
        }
        Some(b"merged".to_vec())
    };
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_merge_operator_associative("stops once", stops_once);
    let sieve = SieveOptions::default().audit(0);
    let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
    assert!(db.wait_until_complete(PATIENCE));
    db.merge("key", "operand").unwrap();
    let cf_filter = db.cf_filters().all().remove(0);
    std::thread::scope(|scope| {
        let audit = scope.spawn(|| cf_filter.audit_negative(b"key"));
        is_read.recv_timeout(PATIENCE).unwrap();
        db.delete("key").unwrap();
        db.flush().unwrap();
        db.consolidate().unwrap();
        assert!(db.filter_answer("key").is_absent());
        go_on.send(()).unwrap();
        assert!(!audit.join().unwrap(), "the engine found it");
    });
    assert_eq!(db.false_negative(), None);
}
