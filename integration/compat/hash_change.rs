//! A database that is opened with another hash function than its filters were built with.

use lsm_sieve::{HashId, MaintenanceError, SieveDb};
use rocksdb::DEFAULT_COLUMN_FAMILY_NAME as DEFAULT;

use crate::support::database_files::stamps;
use crate::support::model_db::{
    Dice, Model, check_reads, check_settled, cover, fill, options, report, settle, sieve,
    verify_finds_every_key, write_randomly,
};

#[test]
fn another_hash_rebuilds_all_filters_and_loses_no_key() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    for (seed, hash) in [HashId::Xxh3, HashId::SipHash13, HashId::Xxh3]
        .into_iter()
        .enumerate()
    {
        let db = SieveDb::open(&options(), &sieve().hash(hash), home.path()).unwrap();
        check_reads(&db, &model);
        write_randomly(&db, DEFAULT, &mut model, &mut Dice(seed as u64), 400);
        check_settled(&db, &model);
        db.flush().unwrap();
        cover(&db);
    }
}

/// RocksDB's cache may outlive the database and hand its filter readers to the next one.
#[test]
fn block_cache_shared_across_opens_yields_no_wrong_filter() {
    let home = tempfile::tempdir().unwrap();
    let cache = rocksdb::Cache::new_lru_cache(8 << 20);
    let mut table = rocksdb::BlockBasedOptions::default();
    table.set_block_cache(&cache);
    table.set_cache_index_and_filter_blocks(true);
    table.set_bloom_filter(10.0, false);
    let mut options = options();
    options.set_block_based_table_factory(&table);
    let mut model = Model::new();
    for hash in [HashId::Xxh3, HashId::SipHash13, HashId::Xxh3] {
        {
            let db = SieveDb::open(&options, &sieve().hash(hash), home.path()).unwrap();
            check_reads(&db, &model);
            write_randomly(&db, DEFAULT, &mut model, &mut Dice(hash as u64), 300);
            db.flush().unwrap();
            check_settled(&db, &model);
        }
        let plain = rocksdb::DB::open(&options, home.path()).unwrap();
        for (key, value) in &model {
            assert_eq!(plain.get(key).unwrap().as_ref(), Some(value));
        }
    }
    verify_finds_every_key(&SieveDb::open(&options, &sieve(), home.path()).unwrap());
}

/// An open with read-only filters must not replace the secret that the filters were built with.
#[test]
fn read_only_filters_of_another_hash_are_unused_and_unchanged() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let strong = sieve().hash(HashId::SipHash13);
        let db = SieveDb::open(&options(), &strong, home.path()).unwrap();
        fill(&db, &mut model, 0..500);
        db.flush().unwrap();
        cover(&db);
    }
    let before = stamps(&home.path().join("sieve"), "");
    {
        let db = SieveDb::open(&options(), &sieve().read_only_filters(true), home.path()).unwrap();
        settle(&db);
        assert_eq!(report(&db).uncovered, Some(0));
        verify_finds_every_key(&db);
        check_reads(&db, &model);
        assert_eq!(db.filters().consolidate(), Err(MaintenanceError::ReadOnly));
    }
    assert_eq!(stamps(&home.path().join("sieve"), ""), before);
    // Nor does it create a missing folder.
    let plain = tempfile::tempdir().unwrap();
    drop(rocksdb::DB::open(&options(), plain.path()).unwrap());
    drop(SieveDb::open(&options(), &sieve().read_only_filters(true), plain.path()).unwrap());
    assert!(!plain.path().join("sieve").exists());
}
