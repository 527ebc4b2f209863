//! Calls that take families by name: those that open, create, drop and describe them.

use std::path::Path;
use std::time::Duration;

use lsm_sieve::{OpenError, RocksDb, SieveDb, SieveOptions};
use rocksdb::{ColumnFamilyTtl, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Options};

use super::{EACH, KINDS, Kind, OTHER, World, keys, report};
use crate::support::model_db::{cover, open_cfs, options, settle, sieve, stats_of};

/// Opens the default family and the second one, which has options of its own if the call takes any.
type Open = fn(&SieveOptions, &Path, Options) -> Result<SieveDb, OpenError>;

/// Whether a call gives the second family its own options.
#[derive(Clone, Copy, PartialEq)]
enum With {
    Names,
    Options,
}

const TTL: Duration = Duration::from_secs(1 << 20);

/// The opens for writing.
const OPENS: [(&str, With, Open); 2] = [
    ("cfs", With::Names, |sieve, path, _| {
        SieveDb::builder(path)
            .options(&options())
            .filters(sieve)
            .cfs([OTHER])
            .open()
    }),
    ("open_cf_with_opts", With::Options, |sieve, path, own| {
        SieveDb::open_cf_with_opts(&options(), sieve, path, [(OTHER, own)])
    }),
];

/// The opens that do not write, or that append a time to values.
const OTHER_OPENS: [(&str, With, Open); 6] = [
    ("cfs, read_only", With::Names, |sieve, path, _| {
        SieveDb::builder(path)
            .options(&options())
            .filters(sieve)
            .cfs([OTHER])
            .read_only(false)
            .open()
    }),
    (
        "cfs_with_opts, read_only",
        With::Options,
        |sieve, path, own| {
            let families = [(OTHER, own)];
            SieveDb::builder(path)
                .options(&options())
                .filters(sieve)
                .cfs_with_opts(families)
                .read_only(false)
                .open()
        },
    ),
    ("cfs, secondary", With::Names, |sieve, path, _| {
        SieveDb::builder(path)
            .options(&options())
            .filters(sieve)
            .cfs([OTHER])
            .secondary(path.with_extension("secondary"))
            .open()
    }),
    (
        "cfs_with_opts, secondary",
        With::Options,
        |sieve, path, own| {
            let (messages, families) = (path.with_extension("secondary"), [(OTHER, own)]);
            SieveDb::builder(path)
                .options(&options())
                .filters(sieve)
                .cfs_with_opts(families)
                .secondary(messages)
                .open()
        },
    ),
    ("cfs, ttl", With::Names, |sieve, path, _| {
        SieveDb::builder(path)
            .options(&options())
            .filters(sieve)
            .cfs([OTHER])
            .ttl(TTL)
            .open()
    }),
    ("cfs_with_ttl, ttl", With::Options, |sieve, path, own| {
        let families = [(OTHER, own, ColumnFamilyTtl::SameAsDb)];
        SieveDb::builder(path)
            .options(&options())
            .filters(sieve)
            .cfs_with_ttl(families)
            .ttl(TTL)
            .open()
    }),
];

type Check = fn(World);

const CALLS: [(&str, Check); 4] = [
    ("create_cf", |world| {
        world.db.create_cf("third", &options()).unwrap();
        let third = world.handle("third");
        for family in [DEFAULT, OTHER] {
            let there = world.db.get_cf(&world.handle(family), "b00").unwrap();
            assert!(there.is_some());
        }
        assert_eq!(world.db.get_cf(&third, "b00").unwrap(), None);
        world.db.put_cf(&third, "b00", "the third's").unwrap();
        let found = world.db.get_cf(&third, "b00").unwrap();
        assert_eq!(found.as_deref(), Some(&b"the third's"[..]));
    }),
    ("drop_cf", |world| {
        world.db.drop_cf(OTHER).unwrap();
        assert!(world.db.cf_handle(OTHER).is_none());
        assert!(stats_of(&world.db, OTHER).is_none());
        assert!(world.db.get("b00").unwrap().is_some());
    }),
    ("stats_cf", |world| {
        let stats = || [DEFAULT, OTHER].map(|family| stats_of(&world.db, family).unwrap());
        let before = stats();
        let (default, other) = (world.handle(DEFAULT), world.handle(OTHER));
        for (cf, times) in [(&default, 1), (&other, 3)] {
            (0..times).for_each(|_| assert!(world.db.get_cf(cf, "b00").unwrap().is_some()));
        }
        let found = [0, 1].map(|i| stats()[i].found - before[i].found);
        assert_eq!(found, [1, 3]);
        assert_eq!(stats_of(&world.db, "none"), None);
    }),
    ("list_cf", |world| {
        let path = world.db.path().to_owned();
        let World { db, home, .. } = world;
        drop(db);
        let families = RocksDb::list_cf(&options(), path).unwrap();
        assert_eq!(families, [DEFAULT, OTHER]);
        drop(home);
    }),
];

pub(super) fn names() -> Vec<String> {
    let calls = CALLS.iter().map(|(name, _)| *name);
    let of_database = ["open_cf_with_opts"].into_iter().chain(calls);
    let of_database = of_database.map(|name| match name {
        "stats_cf" => format!("Sieve::{name}"),
        name => format!("SieveDb::{name}"),
    });
    let of_builder = ["cfs", "cfs_with_opts", "cfs_with_ttl"];
    let of_builder = of_builder.map(|name| format!("Builder::{name}"));
    let of_options =
        ["exclude_cfs", "prefixes", "ranges"].map(|name| format!("SieveOptions::{name}"));
    of_database.chain(of_builder).chain(of_options).collect()
}

/// With another number of levels than the default family.
fn own_options() -> Options {
    let mut own = options();
    own.set_num_levels(3);
    own
}

/// Whether each family has RocksDB's default number of levels; the default family first.
fn deep(db: &SieveDb) -> [bool; 2] {
    let level = "rocksdb.num-files-at-level6";
    [DEFAULT, OTHER].map(|family| {
        let cf = db.cf_handle(family).unwrap();
        let files = db.with_engine_untracked(|engine| engine.property_value_cf(&cf, level));
        files.unwrap().is_some()
    })
}

/// Checks that both families exist, each with its content, options and filters.
fn has_both(name: &str, db: &SieveDb, with: With, [default, other]: [&[u8]; 2]) {
    let handle = db.cf_handle(OTHER).unwrap();
    let values = [db.get("b00"), db.get_cf(&handle, "b00")];
    let values = values.map(|value| value.unwrap().unwrap());
    assert_eq!(values, [default, other], "{name}");
    assert_eq!(deep(db), [true, with == With::Names], "{name}");
    assert!(stats_of(db, OTHER).is_some(), "{name}");
}

#[test]
fn cfs_are_opened_by_name() {
    let mut variants = 0;
    for kind in KINDS {
        for (name, with, open) in OPENS {
            let World {
                db,
                home,
                default,
                other,
                ..
            } = World::new(kind);
            drop(db);
            let db = open(&kind.sieve(), &home.path().join("db"), own_options()).unwrap();
            let values = [&default, &other].map(|model| &*model[&b"b00"[..]]);
            has_both(name, &db, with, values);
            cover(&db);
            settle(&db);
            let cf = db.cf_handle(OTHER).unwrap();
            let absent = keys('d').filter(|key| db.filters().answer_cf(&cf, key).is_absent());
            assert!(absent.count() + 2 >= EACH, "{name}: no filters of its own");
            variants += 1;
        }
    }
    report("opens", OPENS.len(), variants);
}

#[test]
fn cfs_are_opened_by_name_read_only_or_with_ttl() {
    for (name, with, open) in OTHER_OPENS {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let expires = name.ends_with("ttl");
        let write = |db: &SieveDb| {
            db.put("b00", "the default family's").unwrap();
            db.put_cf(&db.cf_handle(OTHER).unwrap(), "b00", "its own")
                .unwrap();
            db.flush_cf(&db.cf_handle(OTHER).unwrap()).unwrap();
        };
        if !expires {
            write(&open_cfs(&path, [OTHER]));
        }
        let db = open(&sieve(), &path, own_options()).unwrap();
        if expires {
            write(&db);
        }
        has_both(name, &db, with, [b"the default family's", b"its own"]);
        drop(db);
        if expires {
            // With a TTL, each value ends with its time.
            let db =
                SieveDb::open_cf_with_opts(&options(), &sieve(), &path, [(OTHER, own_options())]);
            let db = db.unwrap();
            let value = db.get_cf(&db.cf_handle(OTHER).unwrap(), "b00").unwrap();
            assert_eq!(value.unwrap().len(), b"its own".len() + 4, "{name}");
        }
    }
    report("other opens", OTHER_OPENS.len(), OTHER_OPENS.len());
}

#[test]
fn cfs_are_created_dropped_and_reported_by_name() {
    for kind in KINDS {
        for (_, check) in CALLS {
            check(World::new(kind));
        }
    }
    report("calls by name", CALLS.len(), KINDS.len() * CALLS.len());
}

#[test]
fn only_the_excluded_cf_has_no_filters() {
    for kind in [Kind::Plain, Kind::Optimistic, Kind::Locking] {
        let World { db, home, .. } = World::new(kind);
        drop(db);
        let sieve = kind.sieve().exclude_cfs([OTHER]);
        let db = SieveDb::builder(home.path().join("db"))
            .options(&options())
            .filters(&sieve)
            .cfs([OTHER])
            .open()
            .unwrap();
        cover(&db);
        settle(&db);
        let with_filters = [DEFAULT, OTHER].map(|family| stats_of(&db, family).is_some());
        assert_eq!(with_filters, [true, false]);
        let cf = db.cf_handle(OTHER).unwrap();
        assert!(keys('d').all(|key| !db.filters().answer_cf(&cf, key).is_absent()));
        assert!(keys('o').any(|key| db.filters().answer(key).is_absent()));
        assert!(keys('o').all(|key| db.get_cf(&cf, key).unwrap().is_some()));
    }
}
