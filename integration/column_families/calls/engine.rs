//! Calls to the engine behind the filters: flushes, compactions, options, and properties.
//!
//! RocksDB's properties are the oracle: those of the two families differ.

use std::fs;

use lsm_sieve::SieveDb;
use rocksdb::{CompactOptions, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, FlushOptions, Range};

use super::{Handle, KINDS, OTHER, World, report};
use crate::support::binding::Sizes as _;

type Check = fn(&World, &Handle<'_>);

/// Checks what a call changes in the second family, and that the default family is unchanged.
const CALLS: [(&str, Check); 12] = [
    ("flush_cf", |world, cf| {
        flushes(world, || world.db.flush_cf(cf).unwrap());
    }),
    ("flush_cf_opt", |world, cf| {
        flushes(world, || {
            world.db.flush_cf_opt(cf, &FlushOptions::default()).unwrap()
        });
    }),
    ("flush_cfs_opt", |world, cf| {
        flushes(world, || {
            world
                .db
                .flush_cfs_opt(&[cf], &FlushOptions::default())
                .unwrap()
        });
    }),
    ("compact_range_cf", |world, cf| {
        compacts(world, || {
            world.db.compact_range_cf::<&[u8], &[u8]>(cf, None, None)
        });
    }),
    ("compact_range_cf_opt", |world, cf| {
        let options = CompactOptions::default();
        compacts(world, || {
            world
                .db
                .compact_range_cf_opt::<&[u8], &[u8]>(cf, None, None, &options)
        });
    }),
    ("delete_file_in_range_cf", |world, cf| {
        world.db.with_engine_untracked(|engine| {
            for family in [DEFAULT, OTHER] {
                engine.compact_range_cf::<&[u8], &[u8]>(&world.handle(family), None, None);
            }
        });
        world.db.delete_file_in_range_cf(cf, "a", "z").unwrap();
        assert_eq!(tables(world), [1, 0]);
        assert_eq!(world.db.get_cf(cf, "b00").unwrap(), None);
        assert!(world.db.get("b00").unwrap().is_some());
    }),
    ("set_options_cf", |world, cf| {
        world
            .db
            .set_options_cf(cf, &[("disable_auto_compactions", "true")])
            .unwrap();
        let set = [DEFAULT, OTHER].map(|family| stored_options(world, family));
        let set = set.map(|options| options.contains("disable_auto_compactions=true"));
        assert_eq!(set, [false, true]);
    }),
    ("property_value_cf", |world, cf| {
        let value = world.db.property_value_cf(cf, ENTRIES).unwrap();
        let expected = entries_in_memtables(world)[1];
        assert_eq!(value, Some(expected.to_string()));
    }),
    ("property_int_value_cf", |world, cf| {
        let value = world.db.property_int_value_cf(cf, ENTRIES).unwrap();
        assert_eq!(value, Some(entries_in_memtables(world)[1]));
    }),
    ("get_column_family_metadata_cf", |world, cf| {
        let metadata = world.db.get_column_family_metadata_cf(cf);
        assert_eq!((&*metadata.name, metadata.file_count), (OTHER, 1));
    }),
    ("get_approximate_sizes_cf", |world, cf| {
        let all = [Range::new(b"o", b"p")];
        let sizes = |cf: &Handle<'_>| world.db.get_approximate_sizes_cf(cf, &all).sizes()[0];
        assert!(sizes(cf) > 0);
        assert_eq!(sizes(&world.handle(DEFAULT)), 0);
    }),
    ("cf_handle", |world, cf| {
        let handle = world.db.cf_handle(OTHER).unwrap();
        let read = |cf: &Handle<'_>| {
            world
                .db
                .with_engine_untracked(|engine| engine.get_cf(cf, "o00"))
        };
        assert_eq!(read(&handle), read(cf));
        assert!(read(&handle).unwrap().is_some());
        assert!(world.db.cf_handle("none").is_none());
    }),
];

pub(super) fn names() -> Vec<String> {
    let names = CALLS.iter().map(|(name, _)| format!("SieveDb::{name}"));
    names.collect()
}

#[test]
fn engine_calls_act_on_their_cf() {
    for kind in KINDS {
        for (name, check) in CALLS {
            let world = World::new(kind);
            // So that the families differ in the number of keys as well.
            world.db.put("one more", "value").unwrap();
            let entries = entries_in_memtables(&world);
            assert!(
                entries[0] > entries[1] && entries[1] > 0,
                "{name}: {entries:?}"
            );
            assert_eq!(tables(&world), [1, 1], "{name}");
            check(&world, &world.handle(OTHER));
        }
    }
    report(
        "maintenance and reports",
        CALLS.len(),
        KINDS.len() * CALLS.len(),
    );
}

const ENTRIES: &str = "rocksdb.num-entries-active-mem-table";

/// The plain database's answer for each family, the default family first.
fn of_both<T>(db: &SieveDb, call: impl Fn(&lsm_sieve::RocksDb, &Handle<'_>) -> T) -> [T; 2] {
    let call = |family| {
        db.with_engine_untracked(|engine| call(engine, &engine.cf_handle(family).unwrap()))
    };
    [DEFAULT, OTHER].map(call)
}

fn entries_in_memtables(world: &World) -> [u64; 2] {
    of_both(&world.db, |engine, cf| {
        engine.property_int_value_cf(cf, ENTRIES).unwrap().unwrap()
    })
}

/// SSTs of each family.
fn tables(world: &World) -> [usize; 2] {
    let files = world
        .db
        .with_engine_untracked(|engine| engine.live_files().unwrap());
    let of = |family| {
        files
            .iter()
            .filter(|file| file.column_family_name == family)
            .count()
    };
    [DEFAULT, OTHER].map(of)
}

/// SSTs of each family that come from a flush and not from a compaction.
fn flushed_tables(world: &World) -> [u64; 2] {
    let level = "rocksdb.num-files-at-level0";
    let number = |text: Option<String>| text.unwrap().parse::<u64>().unwrap();
    of_both(&world.db, |engine, cf| {
        number(engine.property_value_cf(cf, level).unwrap())
    })
}

fn flushes(world: &World, flush: impl Fn()) {
    let before = entries_in_memtables(world);
    flush();
    assert_eq!(entries_in_memtables(world), [before[0], 0]);
    assert_eq!(tables(world), [1, 2]);
}

fn compacts(world: &World, compact: impl Fn()) {
    let before = entries_in_memtables(world);
    compact();
    assert_eq!(entries_in_memtables(world), [before[0], 0]);
    assert_eq!((tables(world), flushed_tables(world)), ([1, 1], [1, 0]));
}

/// The section of a family in the newest options file.
fn stored_options(world: &World, family: &str) -> String {
    let files = fs::read_dir(world.db.path()).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let is_options = |name: &str| name.starts_with("OPTIONS-") && !name.ends_with("dbtmp");
    let name = |path: &std::path::PathBuf| path.file_name().unwrap().to_string_lossy().into_owned();
    let newest = paths
        .filter(|path| is_options(&name(path)))
        .max_by_key(name);
    let text = fs::read_to_string(newest.unwrap()).unwrap();
    let (_, options) = text
        .split_once(&format!("[CFOptions \"{family}\"]"))
        .unwrap();
    options.split("\n[").next().unwrap_or(options).to_owned()
}
