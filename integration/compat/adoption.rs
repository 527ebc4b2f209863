//! Databases that were written without the plugin, and databases that are read without it again.

use std::path::Path;

use rocksdb::{
    BlockBasedOptions, BottommostLevelCompaction, Cache, ChecksumType, CompactOptions, DB,
    DEFAULT_COLUMN_FAMILY_NAME, Env, Options,
};

use lsm_sieve::SieveDb;

use super::ssts_without_id::{make_old, replace_in_table, unchecked};
use crate::support::binding::options_by_text;
use crate::support::model_db::{
    Dice, Model, absent_key, check_reads, check_settled, cover, fill, key, open, options, settle,
    sieve, verify_finds_every_key, write_randomly,
};

/// [`options`] with one of RocksDB's own filters.
fn with_filter(set: impl FnOnce(&mut BlockBasedOptions)) -> Options {
    let mut table = BlockBasedOptions::default();
    set(&mut table);
    let mut options = options();
    options.set_block_based_table_factory(&table);
    options
}

fn native_filters() -> [(&'static str, Options); 4] {
    [
        ("none", options()),
        (
            "bloom",
            with_filter(|table| table.set_bloom_filter(10.0, false)),
        ),
        ("ribbon", with_filter(|table| table.set_ribbon_filter(10.0))),
        (
            "partitioned",
            with_filter(|table| {
                table.set_bloom_filter(10.0, false);
                table.set_index_type(rocksdb::BlockBasedIndexType::TwoLevelIndexSearch);
                table.set_partition_filters(true);
                table.set_metadata_block_size(512);
            }),
        ),
    ]
}

/// Writes three SSTs and some log without the plugin. Returns the model.
fn written_plainly(options: &Options, path: &Path) -> Model {
    let mut model = Model::new();
    let db = DB::open(options, path).expect("it opens without the plugin");
    for i in 0..1_200_u64 {
        db.put(key(i), i.to_be_bytes()).expect("a put");
        model.insert(key(i), i.to_be_bytes().to_vec());
        if i % 7 == 0 {
            db.delete(key(i / 2)).expect("a delete");
            model.remove(&key(i / 2));
        }
        if i % 11 == 0 {
            db.merge(key(i + 1), b"operand only").expect("a merge");
            let value: &mut Vec<u8> = model.entry(key(i + 1)).or_default();
            value.extend(b"operand only");
        }
        if i % 300 == 299 {
            db.flush().expect("a flush");
        }
    }
    model
}

/// One SST of 300 keys, written without the plugin.
fn one_plain_table(options: &Options, path: &Path) -> Model {
    let mut model = Model::new();
    let db = DB::open(options, path).expect("it opens without the plugin");
    for i in 300..600 {
        db.put(key(i), b"plain").expect("a put");
        model.insert(key(i), b"plain".to_vec());
    }
    db.flush().expect("a flush");
    model
}

fn reads_plainly(db: &DB, model: &Model) {
    for (key, value) in model {
        let found = db.get(key).expect("a read");
        assert_eq!(found.as_ref(), Some(value), "{}", key.escape_ascii());
    }
    for i in 0..500 {
        let found = db
            .get(crate::support::model_db::absent_key(i))
            .expect("a read");
        assert_eq!(found, None);
    }
    let all = db.iterator(rocksdb::IteratorMode::Start);
    assert_eq!(all.count(), model.len());
}

#[test]
fn plain_database_is_correct_at_once_and_covered_soon() {
    for (name, options) in native_filters() {
        let home = tempfile::tempdir().unwrap();
        let mut model = written_plainly(&options, home.path());
        println!("{name}");
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        check_reads(&db, &model);
        check_settled(&db, &model);
        for segment in &db.filters().inspect().unwrap().cfs[0].segments {
            let is_upper = segment.level == Some(0);
            assert!(
                segment.covered && segment.filter.is_some() == is_upper,
                "{name}"
            );
        }
        write_randomly(
            &db,
            DEFAULT_COLUMN_FAMILY_NAME,
            &mut model,
            &mut Dice(1),
            500,
        );
        db.flush().unwrap();
        check_settled(&db, &model);
        db.compact_range::<&[u8], &[u8]>(None, None);
        check_settled(&db, &model);
    }
}

/// Paths are bytes, which need not be UTF-8.
#[cfg(target_os = "linux")]
#[test]
fn database_in_a_non_utf8_folder_is_covered() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(OsStr::from_bytes(b"caf\xe9"));
    let model = written_plainly(&options(), &path);
    let db = SieveDb::open(&options(), &sieve(), &path).unwrap();
    check_settled(&db, &model);
}

/// With the plugin, without it, and with it again, each time writing and compacting.
#[test]
fn database_opens_without_the_plugin_and_with_it_again() {
    for (name, options) in native_filters() {
        let home = tempfile::tempdir().unwrap();
        let mut model = Model::new();
        println!("{name}");
        for round in 0..2 {
            let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
            check_reads(&db, &model);
            write_randomly(
                &db,
                DEFAULT_COLUMN_FAMILY_NAME,
                &mut model,
                &mut Dice(round),
                600,
            );
            db.flush().unwrap();
            fill(&db, &mut model, 30..60);
            check_settled(&db, &model);
            drop(db);

            let plain = DB::open(&options, home.path()).unwrap();
            reads_plainly(&plain, &model);
            for i in 0..200_u64 {
                let key = key(i * 3 + round);
                plain.put(&key, b"plain").unwrap();
                model.insert(key, b"plain".to_vec());
            }
            plain.flush().unwrap();
            if round == 0 {
                plain.compact_range::<&[u8], &[u8]>(None, None);
            }
            plain.put(b"in the log", b"plain").unwrap();
            model.insert(b"in the log".to_vec(), b"plain".to_vec());
            reads_plainly(&plain, &model);
        }
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        check_reads(&db, &model);
        check_settled(&db, &model);
    }
}

/// The OPTIONS file names nothing that a RocksDB without the plugin does not know.
#[test]
fn options_file_loads_without_the_plugin() {
    for (name, options) in native_filters() {
        let home = tempfile::tempdir().unwrap();
        let mut model = Model::new();
        {
            let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
            write_randomly(
                &db,
                DEFAULT_COLUMN_FAMILY_NAME,
                &mut model,
                &mut Dice(2),
                600,
            );
            cover(&db);
        }
        let strict = false;
        let cache = Cache::new_lru_cache(1 << 20);
        let (loaded, mut families) =
            Options::load_latest(home.path(), Env::new().unwrap(), strict, cache).unwrap();
        println!("{name}: {} families", families.len());
        // A merge operator cannot be loaded from a file: the one of this process is set again.
        assert_eq!(families.len(), 1);
        families.clear();
        let mut loaded = loaded;
        loaded.set_merge_operator_associative("append", |_, old, operands| {
            let mut value = old.unwrap_or_default().to_vec();
            operands.iter().for_each(|part| value.extend(part));
            Some(value)
        });
        let plain = DB::open(&loaded, home.path()).unwrap();
        reads_plainly(&plain, &model);
        plain.compact_range::<&[u8], &[u8]>(None, None);
        reads_plainly(&plain, &model);
        drop(plain);
        check_settled(
            &SieveDb::open(&options, &sieve(), home.path()).unwrap(),
            &model,
        );
    }
}

/// `segment_rate(None)` promises that RocksDB's own filters stay in place.
#[test]
fn without_segment_filters_rocksdb_builds_its_own() {
    let bloom = || with_filter(|table| table.set_bloom_filter(10.0, false));
    let filter_bytes = |db: &SieveDb| -> u64 {
        let properties = db.with_engine_untracked(|engine| {
            engine
                .property_value("rocksdb.aggregated-table-properties")
                .unwrap()
        });
        let properties = properties.unwrap();
        let field = properties.split("filter block size=").nth(1).unwrap();
        field.split(';').next().unwrap().trim().parse().unwrap()
    };
    let mut model = Model::new();
    let home = tempfile::tempdir().unwrap();
    let db = SieveDb::open(&bloom(), &sieve().segment_filters(None), home.path()).unwrap();
    fill(&db, &mut model, 0..1_400);
    db.flush().unwrap();
    assert!(filter_bytes(&db) >= 1_400, "{} bytes", filter_bytes(&db));
    check_settled(&db, &model);
    let cf = &db.filters().inspect().unwrap().cfs[0];
    assert!(cf.segments.iter().all(|segment| segment.filter.is_none()));
    drop(db);
    // And back again: the SSTs then get our filters.
    let db = SieveDb::open(&bloom(), &sieve(), home.path()).unwrap();
    check_settled(&db, &model);
    let cf = &db.filters().inspect().unwrap().cfs[0];
    assert!(cf.segments.iter().all(|segment| segment.filter.is_some()));
    db.compact_range::<&[u8], &[u8]>(None, None);
    verify_finds_every_key(&db);
    drop(db);
    check_settled(&open(home.path()), &model);
}

/// An SST of a RocksDB before 6.24 has no filter in a read-only database. Every key in its key
/// range is *maybe*.
#[test]
fn sst_without_unique_id_is_maybe_in_its_range_until_covered() {
    for comparator in [
        "leveldb.BytewiseComparator",
        "rocksdb.ReverseBytewiseComparator",
    ] {
        let home = tempfile::tempdir().unwrap();
        let options = unchecked();
        let text = format!("comparator={comparator}");
        let options = options_by_text(&options, &text).unwrap();
        let model = one_plain_table(&options, home.path());
        make_old(home.path());
        let cf = |db: &SieveDb| db.filters().inspect().unwrap().cfs.remove(0);
        {
            let sieve = sieve().read_only_filters(true);
            let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
            settle(&db);
            assert_eq!(cf(&db).segments[0].id, None);
            assert_eq!(cf(&db).uncovered, Some(1));
            check_reads(&db, &model);
            assert!(
                db.filters().answer(key(299)).is_absent(),
                "before its range"
            );
            assert!(
                !db.filters().answer(absent_key(450)).is_absent(),
                "within its range"
            );
            assert!(
                db.filters().answer(key(600)).is_absent(),
                "behind its range"
            );
            let lost = db.filters().verify(true).unwrap().lost;
            assert!(lost.is_empty(), "{lost:?}");
        }
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        check_settled(&db, &model);
        assert_eq!(cf(&db).segments[0].id, None);

        let mut rewritten = CompactOptions::default();
        rewritten.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        db.with_engine_untracked(|engine| {
            engine.compact_range_opt::<&[u8], &[u8]>(None, None, &rewritten)
        });
        check_settled(&db, &model);
        assert!(cf(&db).segments[0].id.is_some());
    }
}

/// A reader that stops early must not be trusted: the keys that it did not return may be in the
/// SST.
#[test]
fn sst_that_was_read_in_part_is_not_covered() {
    let home = tempfile::tempdir().unwrap();
    // Without checksums, so that a property can be changed.
    let options = with_filter(|table| table.set_checksum_type(ChecksumType::NoChecksum));
    let model = one_plain_table(&options, home.path());
    // A number in seven bits a byte, the lowest first: 300, and 301.
    replace_in_table(home.path(), b"entries\xac\x02", b"entries\xad\x02");

    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    settle(&db);
    let cf = db.filters().inspect().unwrap().cfs.remove(0);
    assert_eq!(cf.segments[0].entries, 301);
    assert_eq!(cf.uncovered, Some(1));
    check_reads(&db, &model);
    let verified = db.filters().verify(true).unwrap_err().to_string();
    let consolidated = db.filters().consolidate().unwrap_err().to_string();
    for error in [verified, consolidated] {
        assert!(error.contains("301 entries but 300"), "{error}");
    }
}
