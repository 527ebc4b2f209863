//! The options of an engine: those that must work with the plugin, and those that it must refuse.

use std::cmp::Ordering;
use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use lsm_sieve::{FilterSize, Items, OpenError, SieveDb};
use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, BottommostLevelCompaction, CompactOptions,
    CompactionDecision, CuckooTableOptions, DBCompactionStyle, DBCompressionType,
    DEFAULT_COLUMN_FAMILY_NAME, Direction, FlushOptions, IngestExternalFileOptions, IteratorMode,
    KeyEncodingType, MemtableFactory, Options, PlainTableFactoryOptions, ReadOptions,
    SliceTransform, SstFileWriter, UniversalCompactOptions,
};

use crate::support::binding::{options_by_text, set_mempurge_threshold};
use crate::support::model_db::{
    Dice, Model, absent_key, check_reads, check_settled, cover, fill, key, open, options, settle,
    sieve, verify_finds_every_key, write_randomly,
};

const DEFAULT: &str = DEFAULT_COLUMN_FAMILY_NAME;

type Setting = (&'static str, fn(&mut Options));

fn table(set: impl FnOnce(&mut BlockBasedOptions)) -> BlockBasedOptions {
    let mut table = BlockBasedOptions::default();
    set(&mut table);
    table
}

/// Small memtables and levels, so that every kind of compaction happens.
fn busy() -> Options {
    let mut options = options();
    options.set_write_buffer_size(64 << 10);
    options.set_target_file_size_base(32 << 10);
    options.set_max_bytes_for_level_base(128 << 10);
    options.set_level_zero_file_num_compaction_trigger(2);
    options
}

fn hash_skip_list(options: &mut Options) {
    options.set_allow_concurrent_memtable_write(false);
    options.set_memtable_factory(MemtableFactory::HashSkipList {
        bucket_count: 16,
        height: 4,
        branching_factor: 4,
    });
}

const SUPPORTED: [Setting; 19] = [
    ("level", |_| {}),
    ("dynamic levels", |o| {
        o.set_level_compaction_dynamic_level_bytes(true)
    }),
    ("static levels", |o| {
        o.set_level_compaction_dynamic_level_bytes(false)
    }),
    ("universal", |o| {
        o.set_compaction_style(DBCompactionStyle::Universal);
        o.set_universal_compaction_options(&UniversalCompactOptions::default());
    }),
    ("no filters at the bottom", |o| {
        o.set_optimize_filters_for_hits(true);
        o.set_block_based_table_factory(&table(|t| t.set_bloom_filter(10.0, false)));
    }),
    ("lz4", |o| o.set_compression_type(DBCompressionType::Lz4)),
    ("zstd below", |o| {
        o.set_bottommost_compression_type(DBCompressionType::Zstd)
    }),
    ("parallel compression", |o| {
        o.set_compression_type(DBCompressionType::Zstd);
        o.set_compression_options_parallel_threads(4);
    }),
    ("subcompactions", |o| {
        o.set_max_subcompactions(4);
        o.set_max_background_jobs(4);
    }),
    ("partitioned filters", |o| {
        o.set_block_based_table_factory(&table(|t| {
            t.set_bloom_filter(10.0, false);
            t.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
            t.set_partition_filters(true);
            t.set_metadata_block_size(512);
        }));
    }),
    ("prefixes", |o| {
        o.set_prefix_extractor(SliceTransform::create_fixed_prefix(6));
        o.set_memtable_prefix_bloom_ratio(0.1);
        o.set_block_based_table_factory(&table(|t| t.set_bloom_filter(10.0, false)));
    }),
    ("prefixes alone", |o| {
        o.set_prefix_extractor(SliceTransform::create_fixed_prefix(6));
        o.set_block_based_table_factory(&table(|t| {
            t.set_bloom_filter(10.0, false);
            t.set_whole_key_filtering(false);
        }));
    }),
    ("block-based bloom", |o| {
        o.set_block_based_table_factory(&table(|t| t.set_bloom_filter(10.0, true)));
    }),
    ("hash skip list", |o| {
        o.set_prefix_extractor(SliceTransform::create_fixed_prefix(4));
        hash_skip_list(o);
    }),
    ("hash skip list without prefixes", hash_skip_list),
    ("updates in place", |o| {
        o.set_allow_concurrent_memtable_write(false);
        o.set_inplace_update_support(true);
    }),
    ("ingestion behind", |o| o.set_allow_ingest_behind(true)),
    ("blob files", |o| {
        o.set_enable_blob_files(true);
        o.set_min_blob_size(8);
        o.set_enable_blob_gc(true);
    }),
    ("cached filter blocks", |o| {
        o.set_block_based_table_factory(&table(|t| {
            t.set_ribbon_filter(10.0);
            t.set_cache_index_and_filter_blocks(true);
            t.set_pin_l0_filter_and_index_blocks_in_cache(true);
        }));
    }),
];

#[test]
fn answers_are_correct_under_every_supported_option() {
    for (name, set) in SUPPORTED {
        println!("{name}");
        let home = tempfile::tempdir().unwrap();
        let mut options = busy();
        set(&mut options);
        let mut model = Model::new();
        let mut dice = Dice(21);
        {
            let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
            for _ in 0..3 {
                write_randomly(&db, DEFAULT, &mut model, &mut dice, 400);
                db.flush().unwrap();
            }
            check_reads(&db, &model);
            db.compact_range::<&[u8], &[u8]>(None, None);
            check_settled(&db, &model);
            db.filters().consolidate().unwrap();
            write_randomly(&db, DEFAULT, &mut model, &mut dice, 200);
            db.flush().unwrap();
            check_settled(&db, &model);
        }
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        check_reads(&db, &model);
        check_settled(&db, &model);
    }
}

/// A compaction filter may drop entries and change values, but not keys. The keys that are left are
/// found.
#[test]
fn keys_left_by_a_compaction_filter_are_found() {
    let home = tempfile::tempdir().unwrap();
    let mut options = busy();
    options.set_compaction_filter("every third", |_, key: &[u8], _: &[u8]| {
        match key.last().map(|last| last % 3) {
            Some(0) => CompactionDecision::Remove,
            Some(1) => CompactionDecision::Change(b"changed"),
            _ => CompactionDecision::Keep,
        }
    });
    let mut model = Model::new();
    let mut dice = Dice(34);
    for round in 0..3 {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        write_randomly(&db, DEFAULT, &mut model, &mut dice, 600);
        db.flush().unwrap();
        // While entries wait for a compaction, their values are up to the engine.
        for key in model.keys() {
            assert_eq!(db.get(key).unwrap(), db.get_unfiltered(key).unwrap());
        }
        db.compact_range::<&[u8], &[u8]>(None, None);
        let mut every_level = CompactOptions::default();
        every_level.set_bottommost_level_compaction(BottommostLevelCompaction::Force);
        db.with_engine_untracked(|engine| {
            engine.compact_range_opt::<&[u8], &[u8]>(None, None, &every_level)
        });
        let before = model.len();
        model.retain(|key, _| key.last().is_none_or(|last| last % 3 != 0));
        assert!(model.len() < before, "round {round}: nothing was dropped");
        for (key, value) in &mut model {
            if key.last().is_some_and(|last| last % 3 == 1) {
                *value = b"changed".to_vec();
            }
        }
        check_reads(&db, &model);
        check_settled(&db, &model);
    }
}

/// RocksDB probes our segment filters for the prefixes of its extractor too.
#[test]
fn prefix_iterators_find_their_keys() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(9));
    options.set_memtable_prefix_bloom_ratio(0.2);
    options.set_block_based_table_factory(&table(|t| t.set_bloom_filter(10.0, false)));
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 10..900);
    db.flush().unwrap();
    fill(&db, &mut model, 900..1_200);
    check_settled(&db, &model);
    for cf in db.filters().inspect().unwrap().cfs {
        assert!(
            cf.segments
                .iter()
                .all(|table| !cf.segments.is_empty() && table.covered)
        );
    }
    every_prefix_is_found(&db, &model);
}

/// An SST that is built with an extractor is probed for its prefixes, whenever the extractor was set.
/// The filters of a database that was opened with another one have the prefixes of that.
#[test]
fn prefix_iterators_find_keys_written_after_the_extractor_was_set() {
    for at_open in [None, Some(9)] {
        let home = tempfile::tempdir().unwrap();
        let mut options = options();
        // Without a policy, RocksDB's scans are answered by no segment filter.
        options.set_block_based_table_factory(&table(|t| t.set_bloom_filter(10.0, false)));
        if let Some(length) = at_open {
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(length));
        }
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        let extractor = [("prefix_extractor", "fixed:10")];
        db.with_engine_untracked(|engine| engine.set_options(&extractor))
            .unwrap();
        let mut model = Model::new();
        fill(&db, &mut model, 10..1_200);
        db.flush().unwrap();
        every_prefix_is_found(&db, &model);
        check_settled(&db, &model);
    }
}

/// Iterates over each hundred of the keys below 1,200.
fn every_prefix_is_found(db: &SieveDb, model: &Model) {
    for hundred in 0..12_u64 {
        // "key-000001", ..., the hundreds of a key
        let prefix = &key(hundred * 100 + 10)[..10];
        let mut same = ReadOptions::default();
        same.set_prefix_same_as_start(true);
        let mode = IteratorMode::From(prefix, Direction::Forward);
        let found = db.with_engine_untracked(|engine| {
            let found = engine.iterator_opt(mode, same);
            let found = found.map(|entry| entry.expect("a read"));
            found.filter(|(key, _)| key.starts_with(prefix)).count()
        });
        let expected = model.keys().filter(|key| key.starts_with(prefix)).count();
        assert_eq!(found, expected, "hundred {hundred}");
    }
}

/// A prefix extractor that is set on the running engine changes the input of RocksDB's filters.
#[test]
fn options_changed_on_the_running_engine_lose_no_key() {
    let blocks = "block_based_table_factory";
    // Without the two-level index RocksDB itself crashes.
    let partitioned =
        "{index_type=kTwoLevelIndexSearch;partition_filters=true;metadata_block_size=128}";
    let whole_index = "{index_type=kBinarySearch;partition_filters=false}";
    let changes = [
        (blocks, partitioned),
        (blocks, whole_index),
        ("prefix_extractor", "fixed:6"),
        (blocks, "{filter_policy=bloomfilter:10:false}"),
        (blocks, "{whole_key_filtering=false}"),
        (blocks, partitioned),
        (blocks, "{filter_policy=nullptr}"),
        ("prefix_extractor", "nullptr"),
    ];
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_block_based_table_factory(&table(|t| t.set_bloom_filter(10.0, false)));
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    let mut model = Model::new();
    let mut dice = Dice(31);
    for change in changes {
        write_randomly(&db, DEFAULT, &mut model, &mut dice, 200);
        db.flush().unwrap();
        let changed = db.with_engine_untracked(|engine| engine.set_options(&[change]));
        println!("{change:?}: {changed:?}");
        check_reads(&db, &model);
        write_randomly(&db, DEFAULT, &mut model, &mut dice, 200);
        db.flush().unwrap();
        check_reads(&db, &model);
        check_settled(&db, &model);
    }
    db.compact_range::<&[u8], &[u8]>(None, None);
    check_settled(&db, &model);
}

/// If RocksDB filters by prefix alone, its builder is fed prefixes, which are not the keys.
#[test]
fn filters_hold_whole_keys_after_options_change() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = SieveDb::open(&options(), &sieve(), home.path()).unwrap();
        let change = [
            ("prefix_extractor", "fixed:4"),
            ("block_based_table_factory", "{whole_key_filtering=false}"),
        ];
        db.with_engine_untracked(|engine| engine.set_options(&change))
            .unwrap();
        fill(&db, &mut model, 10..400);
        db.flush().unwrap();
        cover(&db);
        settle(&db);
        check_reads(&db, &model);
        db.filters()
            .set_filter_size(FilterSize::rate(0.001).unwrap());
        db.filters().consolidate().unwrap();
        check_settled(&db, &model);
    }
    let db = open(home.path());
    check_reads(&db, &model);
    check_settled(&db, &model);
}

#[test]
fn reverse_comparator_is_supported() {
    let home = tempfile::tempdir().unwrap();
    let text = "comparator=rocksdb.ReverseBytewiseComparator";
    let options = options_by_text(&busy(), text).unwrap();
    let mut model = Model::new();
    let mut dice = Dice(17);
    // First filled without the plugin: uncovered SSTs are then checked by their key ranges.
    {
        let plain = rocksdb::DB::open(&options, home.path()).unwrap();
        for i in 0..500 {
            plain.put(key(i), b"plain").unwrap();
            model.insert(key(i), b"plain".to_vec());
        }
        plain.flush().unwrap();
    }
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    check_reads(&db, &model);
    for _ in 0..3 {
        // Range deletes are written for the other order. The other operations are the same.
        fill(&db, &mut model, dice.below(500)..700);
        db.delete(key(33)).unwrap();
        model.remove(&key(33));
        db.flush().unwrap();
        check_reads(&db, &model);
    }
    db.compact_range::<&[u8], &[u8]>(None, None);
    check_settled(&db, &model);
    let first = db.iterator(IteratorMode::Start).next().unwrap().unwrap();
    assert_eq!(Some(&*first.0), model.keys().next_back().map(Vec::as_slice));
}

fn caseless(a: &[u8], b: &[u8]) -> Ordering {
    a.to_ascii_lowercase().cmp(&b.to_ascii_lowercase())
}

/// A setting, a word of the reason, and how to set it.
type Refused = (&'static str, &'static str, fn(&mut Options));

const REFUSED: [Refused; 5] = [
    ("comparator", "comparator_is_injective(\"caseless\")", |o| {
        o.set_comparator("caseless", Box::new(caseless))
    }),
    ("timestamps", "comparator_is_injective(\"stamped\")", |o| {
        o.set_comparator_with_ts(
            "stamped",
            8,
            Box::new(caseless),
            Box::new(caseless),
            Box::new(|a, _, b, _| a.cmp(b)),
        );
    }),
    ("hash link list", "skip list", |o| {
        o.set_prefix_extractor(SliceTransform::create_fixed_prefix(4));
        o.set_memtable_factory(MemtableFactory::HashLinkList { bucket_count: 16 });
    }),
    ("plain table", "block-based", |o| {
        o.set_plain_table_factory(&PlainTableFactoryOptions {
            user_key_length: 0,
            bloom_bits_per_key: 10,
            hash_table_ratio: 0.75,
            index_sparseness: 16,
            huge_page_tlb_size: 0,
            encoding_type: KeyEncodingType::Plain,
            full_scan_mode: false,
            store_index_in_file: false,
        });
    }),
    ("cuckoo table", "block-based", |o| {
        o.set_cuckoo_table_factory(&CuckooTableOptions::default());
    }),
];

/// Refused with the reason and a remedy, before anything is written.
#[test]
fn unsupported_options_are_refused_with_the_reason() {
    for (name, reason, set) in REFUSED {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let mut refused = options();
        set(&mut refused);
        let error = SieveDb::open(&refused, &sieve(), &path).unwrap_err();
        assert!(
            matches!(error, OpenError::Unsupported { .. }),
            "{name}: {error}"
        );
        let text = error.to_string();
        assert!(
            text.contains(reason) && text.contains(DEFAULT),
            "{name}: {text}"
        );
        assert!(!path.exists(), "{name} left something behind");

        let db = SieveDb::open(&options(), &sieve(), &path).unwrap();
        let error = db.create_cf("refused", &refused).unwrap_err();
        assert!(error.to_string().contains(reason), "{name}: {error}");
        assert!(db.cf_handle("refused").is_none(), "{name}");
        db.put(b"k", b"v").unwrap();
        cover(&db);
        verify_finds_every_key(&db);
    }
}

/// They are older than all other keys: a deletion hides them, and so does a value.
#[test]
fn keys_ingested_behind_are_found() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_allow_ingest_behind(true);
    options.set_compaction_style(DBCompactionStyle::Universal);
    options.set_num_levels(3);
    let mut model = Model::new();
    {
        let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
        fill(&db, &mut model, 10..300);
        (300..400).for_each(|i| db.delete(key(i)).unwrap());
        db.flush().unwrap();
        db.filters().consolidate().unwrap();
        let file = home.path().join("behind.sst");
        let mut writer = SstFileWriter::create(&options);
        writer.open(&file).unwrap();
        for i in 200..500 {
            writer.put(key(i), b"behind").unwrap();
        }
        writer.finish().unwrap();
        let mut behind = IngestExternalFileOptions::default();
        behind.set_ingest_behind(true);
        db.ingest_external_file_opts(&behind, vec![file]).unwrap();
        for i in 400..500 {
            model.insert(key(i), b"behind".to_vec());
        }
        check_reads(&db, &model);
        check_settled(&db, &model);
        db.filters().consolidate().unwrap();
        check_settled(&db, &model);
    }
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    check_reads(&db, &model);
    check_settled(&db, &model);
}

/// A consolidation reads the keys of a memtable whose values change under it.
#[test]
fn keys_are_found_while_their_values_are_updated_in_place() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_allow_concurrent_memtable_write(false);
    options.set_inplace_update_support(true);
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut dice = Dice(5);
            (0..500).for_each(|i| db.put(key(i), [b'v'; 300]).unwrap());
            while !done.load(SeqCst) {
                let length = dice.below(300) as usize;
                db.put(key(dice.below(500)), vec![b'u'; length]).unwrap();
            }
        });
        for _ in 0..30 {
            db.filters().consolidate().unwrap();
        }
        done.store(true, SeqCst);
    });
    cover(&db);
    assert!((0..500).all(|i| db.get(key(i)).unwrap().is_some()));
    db.filters().consolidate().unwrap();
    assert!((0..500).all(|i| db.get(key(i)).unwrap().is_some()));
    assert!((0..500).all(|i| db.get(absent_key(i)).unwrap().is_none()));
}

/// Below it no filter was built, and each lookup went to an engine that had no filters either.
#[test]
fn growing_filters_keep_the_least_rate() {
    let home = tempfile::tempdir().unwrap();
    let least = FilterSize::rate(FilterSize::LEAST_RATE).unwrap();
    let settings = sieve().filter_size(least).expected_keys(Items::new(10));
    let db = SieveDb::open(&options(), &settings, home.path()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, 0..500);
    cover(&db);
    assert!((0..100).all(|i| db.filters().answer(absent_key(i)).is_absent()));
    db.filters().set_filter_size(least);
    db.filters().consolidate().unwrap();
    assert!((0..100).all(|i| db.filters().answer(absent_key(i)).is_absent()));
    check_settled(&db, &model);
}

/// Memtables that are flushed in pairs are sealed long before.
#[test]
fn consolidation_beside_flushes_of_two_memtables_loses_no_key() {
    const ROUNDS: u64 = 100;
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_min_write_buffer_number_to_merge(2);
    options.set_max_write_buffer_number(6);
    let db = SieveDb::open(&options, &sieve(), home.path()).unwrap();
    let mut model = Model::new();
    let mut at_once = FlushOptions::default();
    at_once.set_wait(false);
    for round in 0..ROUNDS {
        fill(&db, &mut model, 10 * round..10 * round + 5);
        std::thread::scope(|scope| {
            scope.spawn(|| db.flush_opt(&at_once).unwrap());
            fill(&db, &mut model, 10 * round + 5..10 * round + 10);
            db.filters().consolidate().unwrap();
        });
    }
    check_settled(&db, &model);
}

/// Options by text, for those that the binding has no method for.
#[test]
fn unsupported_options_by_text_are_refused() {
    for (text, reason) in [
        ("disallow_memtable_writes=true", "disallow_memtable_writes"),
        ("compaction_style=kCompactionStyleNone", "compaction style"),
        ("memtable=hash_linkedlist:16", "skip list"),
    ] {
        let home = tempfile::tempdir().unwrap();
        let parsed = options_by_text(&options(), text);
        let parsed = parsed.unwrap_or_else(|error| panic!("{text}: {error}"));
        let error = SieveDb::open(&parsed, &sieve(), home.path()).unwrap_err();
        assert!(error.to_string().contains(reason), "{text}: {error}");
    }
}

/// With RocksDB alone, about one run in 20 then reads overwritten values, and loses keys.
#[test]
fn mempurge_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let mut purged = options();
    set_mempurge_threshold(&mut purged, 1.0);
    let is_refused = |text: &str| text.contains("experimental_mempurge_threshold");
    let refused = SieveDb::open(&purged, &sieve(), home.path()).unwrap_err();
    assert!(is_refused(&refused.to_string()), "{refused}");

    let db = open(home.path());
    let refused = db.create_cf("purged", &purged).unwrap_err();
    assert!(is_refused(refused.as_ref()), "{refused}");
    let default = db.cf_handle(DEFAULT).unwrap();
    let set = |threshold| {
        let change = [("experimental_mempurge_threshold", threshold)];
        [
            db.set_options(&change),
            db.set_options_cf(&default, &change),
        ]
    };
    for refused in set("0.5") {
        assert!(is_refused(refused.unwrap_err().as_ref()));
    }
    set("0").into_iter().for_each(Result::unwrap);
}

/// Options by text that RocksDB refuses and never corrects, if it knows them.
const REFUSED_BY_ROCKSDB: [&str; 14] = [
    "block_based_table_factory={format_version=1}",
    "block_based_table_factory={format_version=99}",
    "block_based_table_factory={index_type=kHashSearch}",
    "block_based_table_factory={no_block_cache=true;cache_index_and_filter_blocks=true}",
    "block_based_table_factory={no_block_cache=true;pin_l0_filter_and_index_blocks_in_cache=true}",
    "block_based_table_factory={block_align=true};compression=kSnappyCompression",
    "block_based_table_factory={block_align=true;block_size=5000};compression=kNoCompression",
    "block_based_table_factory={block_size=8589934592}",
    "block_based_table_factory={super_block_alignment_size=5000}",
    "block_based_table_factory={data_block_index_type=kDataBlockBinaryAndHash;data_block_hash_table_util_ratio=0}",
    "block_based_table_factory={use_udi_as_primary_index=true}",
    "block_based_table_factory={index_block_search_type=kInterpolation};comparator=rocksdb.ReverseBytewiseComparator",
    "compression=kDisableCompressionOption",
    "enable_blob_garbage_collection=true;blob_garbage_collection_age_cutoff=2",
];

/// The database may be opened without the plugin one day, and then nothing may depend on such an
/// option.
#[test]
fn options_that_rocksdb_refuses_are_refused() {
    let mut refused = 0;
    for text in REFUSED_BY_ROCKSDB {
        let home = tempfile::tempdir().unwrap();
        let Ok(options) = options_by_text(&options(), text) else {
            println!("not an option: {text}");
            continue;
        };
        let plain = rocksdb::DB::open(&options, home.path().join("plain"));
        let with_filters = SieveDb::open(&options, &sieve(), home.path().join("sieve"));
        println!(
            "{text}: {:?}, {:?}",
            plain.as_ref().err(),
            with_filters.as_ref().err()
        );
        let Err(plain) = plain else {
            with_filters.unwrap();
            continue;
        };
        refused += 1;
        let said = |error: &OpenError| error.source().map(ToString::to_string);
        let with_filters = with_filters.expect_err(text);
        assert_eq!(
            said(&with_filters).as_deref(),
            Some(plain.as_ref()),
            "{text}: {with_filters}"
        );
        // RocksDB checks less when it creates a column family.
        let mut alone = rocksdb::DB::open(&self::options(), home.path().join("alone")).unwrap();
        let alone = alone.create_cf("refused", &options).err();
        let db = open(&home.path().join("family"));
        let made = db.create_cf("refused", &options).err();
        assert_eq!(
            made.map(rocksdb::Error::into_string),
            alone.map(rocksdb::Error::into_string),
            "{text}"
        );
    }
    assert!(refused >= 10, "{refused}");
}
