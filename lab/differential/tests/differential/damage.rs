//! Damage to a store's filters costs time, never a record. Damage to its SSTs is reported.
//!
//! A store's filters are those of its column families. If a generation's filter lacked a key, the
//! reader would go to the main file: to an older value, or to a deleted record. So each filter file
//! of a closed store is damaged in every way that [`crate::filter_files::damage`] knows, replaced by each other
//! one, and removed.
//!
//! An iterator over an SST that cannot be read looks as if the SST ended there.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "damage is done past the door to files"
)]

use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use lsm_sieve_differential::{DifferentialError, DifferentialStore, FilterChoice};
use rocksdb::{DB, DBCompressionType};

use super::model::{Model, check_now, key};
use super::{FIXED, engine, open, with_filter};
use crate::support::damage::damaged_variants;
use crate::support::database_files::{copy, stamps};
use crate::support::model_db::Dice;

const KEYS: u64 = 300;

/// A main file, a frozen generation that was moved in part, and a newest one. Each has newer
/// records for some keys than the one before, and some are deleted again.
fn write(path: &Path, filter: FilterChoice) -> Model {
    let store = open(path, filter).unwrap();
    let mut model = Model::new();
    for (generation, stride) in [(0, 1), (1, 2), (2, 3)] {
        for index in (0..KEYS).step_by(stride) {
            if index % 7 == generation {
                store.delete(key(index)).unwrap();
                model.remove(&key(index));
            } else {
                let value = format!("{generation} of {index}").into_bytes();
                store.put(key(index), &value).unwrap();
                model.insert(key(index), value);
            }
        }
        store.flush().unwrap();
        match generation {
            0 => _ = store.reorganize(|_| ControlFlow::Continue(())).unwrap(),
            1 => _ = store.reorganize(|_| ControlFlow::Break(())).unwrap(),
            _ => {}
        }
    }
    model
}

#[test]
fn damage_to_the_filters_of_a_store_loses_no_record() {
    let mut dice = Dice(5);
    let mut damages = 0;
    for filter in [FilterChoice::Scalable, FIXED] {
        let home = tempfile::tempdir().unwrap();
        let (original, copied) = (home.path().join("original"), home.path().join("copy"));
        let model = write(&original, filter);
        let names: Vec<_> = stamps(&original.join("sieve"), "").into_keys().collect();
        assert!(names.len() > 4, "{names:?}");
        for (at, name) in names.iter().enumerate() {
            let good = fs::read(original.join("sieve").join(name)).unwrap();
            let neighbour = &names[(at + 1) % names.len()];
            let neighbour = fs::read(original.join("sieve").join(neighbour)).unwrap();
            let mut kinds = damaged_variants(&good, &mut dice);
            kinds.push(("its neighbour's".to_owned(), neighbour));
            for (what, bytes) in kinds {
                copy(&original, &copied);
                fs::write(copied.join("sieve").join(name), bytes).unwrap();
                let store = open(&copied, filter).unwrap();
                check_now(&store, &model, KEYS + 20)
                    .unwrap_or_else(|error| panic!("{name:?} {what}: {error}"));
                drop(store);
                fs::remove_dir_all(&copied).unwrap();
                damages += 1;
            }
        }
    }
    println!(r#"{{"part":"damage of a differential store","damages":{damages},"lost":0}}"#);
}

/// Records in an SST that cannot be read in its middle.
const RECORDS: u64 = 5_000;

/// A closed store with such an SST in its differential file.
fn write_unreadable(path: &Path) {
    let mut engine = engine();
    engine.set_write_buffer_size(1 << 20);
    engine.set_compression_type(DBCompressionType::None);
    let options = with_filter(FilterChoice::Scalable);
    let store = DifferentialStore::open(&engine, &options, path).unwrap();
    (0..RECORDS).for_each(|index| store.put(key(index), b"new").unwrap());
    store.flush().unwrap();
    store.close().unwrap();
    let tables = stamps(path, ".sst").into_iter();
    let (name, (_, length, ..)) = tables.max_by_key(|(_, stamp)| stamp.1).unwrap();
    let table = fs::File::options().write(true).open(path.join(name));
    let table = table.unwrap();
    table.write_all_at(&[0xee; 64], length / 2).unwrap();
}

#[test]
fn unreadable_generation_is_not_dropped() {
    let home = tempfile::tempdir().unwrap();
    write_unreadable(home.path());
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    let error = store.reorganize(|_| ControlFlow::Continue(())).unwrap_err();
    assert!(matches!(error, DifferentialError::Read { .. }), "{error}");
    let families = DB::list_cf(&engine(), home.path()).unwrap();
    assert!(
        families.iter().any(|name| name == "differential-1"),
        "{families:?}"
    );
    assert!(store.is_modified(key(RECORDS - 1)).unwrap());
}

/// Such a filter would deny the records behind the unreadable block.
#[test]
fn fixed_filter_is_not_built_from_an_unreadable_sst() {
    let home = tempfile::tempdir().unwrap();
    write_unreadable(home.path());
    let error = open(home.path(), FIXED).unwrap_err().to_string();
    assert!(
        error.contains("cannot read the keys of the differential file"),
        "{error}"
    );
}

#[test]
fn scan_reports_where_it_cannot_read_on() {
    let home = tempfile::tempdir().unwrap();
    write_unreadable(home.path());
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    let mut scan = store.scan::<&[u8]>(..);
    let error = scan.find_map(Result::err).unwrap();
    assert!(matches!(error, DifferentialError::Read { .. }), "{error}");
    assert!(scan.next().is_none());
}
