//! A catch-up of a secondary that fails half way leaves readers the SSTs that they had, although the
//! newest version has others.

#![expect(
    clippy::disallowed_methods,
    reason = "a log of RocksDB is damaged, and no file of ours"
)]

use std::fs;
use std::sync::Arc;

use rocksdb::{DB, DBRecoveryMode, Options, WriteOptions};

use crate::SieveDb;
use crate::engine::RocksEngine;
use lsm_sieve_front::engine::Engine as _;

#[test]
fn listed_ssts_of_a_secondary_are_those_of_its_readers() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let mut options = Options::default();
    options.create_if_missing(true);
    options.set_wal_recovery_mode(DBRecoveryMode::AbsoluteConsistency);
    let writer = DB::open(&options, &path).unwrap();
    // What a log has goes into the secondary's memtables.
    let mut unlogged = WriteOptions::default();
    unlogged.disable_wal(true);
    let keys = 0..100_u8;
    for key in keys.clone() {
        writer.put_opt([key], b"value", &unlogged).unwrap();
    }
    writer.flush().unwrap();
    let secondary = SieveDb::builder(&path)
        .options(&options)
        .secondary(home.path().join("secondary"))
        .open()
        .unwrap();
    let engine = RocksEngine::new(Arc::clone(&secondary.filters().engine), true);
    let cf_filter = secondary.cf_filters().all().remove(0);
    let listed = || {
        let segments = engine.segments(cf_filter.key_space()).unwrap();
        segments
            .into_iter()
            .map(|segment| segment.path)
            .collect::<Vec<_>>()
    };
    let before = listed();
    assert_eq!(before.len(), 1);

    for key in keys.clone().step_by(2) {
        writer.delete_opt([key], &unlogged).unwrap();
    }
    writer.flush().unwrap();
    writer.compact_range::<&[u8], &[u8]>(None, None);
    keys.clone()
        .for_each(|key| writer.put([key, key], b"value").unwrap());
    let files = fs::read_dir(&path).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let logs = paths.filter(|path| path.extension().is_some_and(|end| end == "log"));
    let log = logs.max().unwrap();
    let mut damaged = fs::read(&log).unwrap();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 1;
    fs::write(&log, damaged).unwrap();
    assert!(secondary.try_catch_up_with_primary().is_err());

    assert_eq!(listed(), before);
    let found = keys.filter(|&key| secondary.get_unfiltered([key]).unwrap().is_some());
    assert_eq!(found.count(), 100);
}
