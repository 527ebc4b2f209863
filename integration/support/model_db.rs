//! A database beside its model: every way to read must agree with a `BTreeMap`.
//!
//! ```text
//!   operation ---> SieveDb ---> filters ---> RocksDB
//!       \--------> Model (BTreeMap)            |
//!                    \---- the same? ----------/   every read API, and past the filters
//! ```
//!
//! The random operations come from a fixed seed, so that a failure can be repeated. Single deletes
//! have their own keys: RocksDB leaves a mixture with other writes undefined.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use lsm_sieve::{CfReport, Items, SieveDb, SieveOptions, Stats};
use rocksdb::{
    DBCompressionType, DEFAULT_COLUMN_FAMILY_NAME, IteratorMode, MergeOperands, Options,
    ReadOptions, SstFileWriter, WriteBatch, WriteOptions,
};

use super::reads::{self, Handle, Read};

/// The values of the keys of one column family.
pub(crate) type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Long enough for any wait here; a test that comes near it has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The number of keys that [`write_randomly`] writes, from the first [`key`] on.
pub(crate) const KEYS: u64 = 1_500;

/// A key. The first few are edge cases.
pub(crate) fn key(i: u64) -> Vec<u8> {
    match i {
        0 => Vec::new(),
        1 => vec![b'k'; 70_000],
        2 => vec![0],
        3 => vec![0xff; 300],
        i => format!("key-{i:08}").into_bytes(),
    }
}

/// A key that is never written, and sorts next to one that is.
pub(crate) fn absent_key(i: u64) -> Vec<u8> {
    format!("key-{i:08}-never").into_bytes()
}

/// Options with a merge operator that appends.
pub(crate) fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_compression_type(DBCompressionType::None);
    options.set_merge_operator_associative("append", append);
    options
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the signature of a merge operator"
)]
fn append(_: &[u8], old: Option<&[u8]>, operands: &MergeOperands) -> Option<Vec<u8>> {
    let mut value = old.unwrap_or_default().to_vec();
    operands.iter().for_each(|part| value.extend(part));
    Some(value)
}

/// The report of the default column family's filters.
pub(crate) fn report(db: &SieveDb) -> CfReport {
    db.filters().inspect().unwrap().cfs.remove(0)
}

/// The same of a closed database, by an open with read-only filters, which reads no SST.
pub(crate) fn report_with_read_only_filters(path: &Path, options: &Options) -> CfReport {
    let db = SieveDb::open(options, &sieve().read_only_filters(true), path).unwrap();
    settle(&db);
    report(&db)
}

/// Checks that a database agrees with its model, and that all its filters fit into this many bits
/// beyond the fixed memory of its families. The last cache line of a filter takes up to 2,000.
pub(crate) fn check_reads_within_budget(db: &SieveDb, model: &Model, budget: u64) {
    let taken = db.filters().health().memory;
    assert!(
        taken.summary.get() + taken.segments.get() <= budget.max(2_000),
        "{taken:?}"
    );
    check_reads(db, model);
    verify_finds_every_key(db);
}

/// These settings with a budget that leaves this many bits for filters beyond the fixed memory of
/// this many families.
pub(crate) fn with_filter_budget(sieve: SieveOptions, filters: u64, families: u64) -> SieveOptions {
    let overhead = sieve.memory_for(Items::new(0)).overhead.get() * families;
    sieve.memory_budget((overhead + filters) / 8)
}

/// Settings under which every read checks the filters.
pub(crate) fn always_filtered() -> SieveOptions {
    SieveOptions::default().adaptive_hits(false)
}

/// Small summaries, so that they grow within a test.
pub(crate) fn sieve() -> SieveOptions {
    always_filtered().expected_keys(Items::new(400))
}

/// The same for speed: every SST has a filter.
pub(crate) fn for_speed() -> SieveOptions {
    sieve().speed_over_memory(true)
}

/// A database with the default column family alone.
pub(crate) fn open(path: &Path) -> SieveDb {
    SieveDb::open(&options(), &sieve(), path).unwrap()
}

/// The same with these column families as well.
pub(crate) fn open_cfs<N: AsRef<str>>(
    path: impl AsRef<Path>,
    names: impl IntoIterator<Item = N>,
) -> SieveDb {
    SieveDb::builder(path)
        .options(&options())
        .filters(&sieve())
        .cfs(names)
        .open()
        .unwrap()
}

/// Waits until the filters cover every SST.
pub(crate) fn cover(db: &SieveDb) {
    assert!(
        db.filters().wait_until_complete(PATIENCE),
        "the filters never covered"
    );
}

/// Waits for a whole maintenance run: every SST then has its filter and its sidecar.
pub(crate) fn settle(db: &SieveDb) {
    assert!(
        db.filters().wait_for_maintenance(PATIENCE),
        "no maintenance run ended"
    );
}

/// Ingests a file with these keys.
pub(crate) fn ingest(db: &SieveDb, file: &Path, keys: &BTreeSet<Vec<u8>>, value: &[u8]) {
    let options = options();
    let mut writer = SstFileWriter::create(&options);
    writer.open(file).unwrap();
    keys.iter().for_each(|key| writer.put(key, value).unwrap());
    writer.finish().unwrap();
    db.ingest_external_file(vec![file]).unwrap();
}

/// Puts the keys of these numbers, each with its number as its value.
pub(crate) fn fill(db: &SieveDb, model: &mut Model, numbers: std::ops::Range<u64>) {
    for i in numbers {
        let value = format!("value {i}").into_bytes();
        db.put(key(i), &value).unwrap();
        model.insert(key(i), value);
    }
}

/// Random numbers from a seed (`SplitMix64`).
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    /// A number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % end
    }
}

/// Random writes by every method, to one column family and its model.
pub(crate) fn write_randomly(
    db: &SieveDb,
    name: &str,
    model: &mut Model,
    dice: &mut Dice,
    times: u64,
) {
    for step in 0..times {
        let (one, other) = (key(dice.below(KEYS)), key(dice.below(KEYS)));
        let value = format!("{step}.{};", dice.below(1 << 40)).into_bytes();
        match dice.below(20) {
            0..=7 => put(db, name, model, &one, &value, dice),
            8..=10 => {
                let cf = db.cf_handle(name).unwrap();
                db.delete_cf(&cf, &one).unwrap();
                model.remove(&one);
            }
            11..=13 => {
                let cf = db.cf_handle(name).unwrap();
                db.merge_cf(&cf, &one, &value).unwrap();
                model.entry(one).or_default().extend(&value);
            }
            14..=16 => batch(db, name, model, [one, other], &value),
            17 => delete_range(db, name, model, &one, dice),
            18 => once(db, name, model, dice),
            _ => db.with_engine_untracked(|engine| {
                let cf = engine.cf_handle(name).unwrap();
                engine.put_cf(&cf, &one, &value).unwrap();
                model.insert(one, value);
            }),
        }
    }
}

fn put(db: &SieveDb, name: &str, model: &mut Model, key: &[u8], value: &[u8], dice: &mut Dice) {
    let mut without_log = WriteOptions::default();
    without_log.disable_wal(true);
    match (name, dice.below(3)) {
        (DEFAULT_COLUMN_FAMILY_NAME, 0) => db.put_opt(key, value, &without_log).unwrap(),
        (DEFAULT_COLUMN_FAMILY_NAME, 1) => db.put(key, value).unwrap(),
        _ => db.put_cf(&db.cf_handle(name).unwrap(), key, value).unwrap(),
    }
    model.insert(key.to_vec(), value.to_vec());
}

fn batch(db: &SieveDb, name: &str, model: &mut Model, keys: [Vec<u8>; 2], value: &[u8]) {
    let [put, deleted] = keys;
    let cf = db.cf_handle(name).unwrap();
    let mut batch = WriteBatch::default();
    batch.delete_cf(&cf, &deleted);
    batch.put_cf(&cf, &put, b"overwritten in the same batch");
    batch.put_cf(&cf, &put, value);
    batch.merge_cf(&cf, &put, b"+");
    db.write(batch).unwrap();
    model.remove(&deleted);
    model.insert(put, [value, b"+"].concat());
}

fn delete_range(db: &SieveDb, name: &str, model: &mut Model, from: &[u8], dice: &mut Dice) {
    let mut to = from.to_vec();
    match to.last_mut() {
        // The next ten or so keys.
        Some(last) if *last < 0xff => *last += 1,
        _ => to.push(0),
    }
    let cf = db.cf_handle(name).unwrap();
    if dice.below(2) == 0 {
        db.delete_range_cf(&cf, from, &to).unwrap();
    } else {
        let mut batch = WriteBatch::default();
        batch.delete_range_cf(&cf, from, &to);
        db.write(batch).unwrap();
    }
    model.retain(|key, _| key.as_slice() < from || key.as_slice() >= to.as_slice());
}

/// A key that is put once and single-deleted once, or not at all.
fn once(db: &SieveDb, name: &str, model: &mut Model, dice: &mut Dice) {
    let cf = db.cf_handle(name).unwrap();
    let key = format!("once-{:016x}", dice.below(u64::MAX)).into_bytes();
    db.put_cf(&cf, &key, b"once").unwrap();
    if dice.below(2) == 0 {
        model.insert(key, b"once".to_vec());
    } else {
        #[cfg(rocksdb_10)]
        super::binding::single_delete(db, &cf, &key);
        #[cfg(not(rocksdb_10))]
        {
            let mut batch = WriteBatch::default();
            batch.single_delete_cf(&cf, &key);
            db.write(batch).unwrap();
        }
    }
}

/// What a comparison found.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    /// Absent keys.
    pub(crate) missing: usize,
    /// Absent keys that the filters denied.
    pub(crate) ruled_out: usize,
}

/// The keys that a comparison reads: all of the model, all that [`write_randomly`] may have
/// written, and as many that are never written.
pub(crate) fn keys_to_read(model: &Model) -> Vec<Vec<u8>> {
    let mut keys: Vec<Vec<u8>> = model.keys().cloned().collect();
    keys.extend((0..KEYS).map(key));
    keys.extend((0..KEYS).map(absent_key));
    keys
}

/// Checks that every way to read the default column family agrees with the model.
pub(crate) fn check_reads(db: &SieveDb, model: &Model) -> Tally {
    for key in model.keys() {
        let name = key.escape_ascii();
        assert!(db.key_may_exist(key), "may {name}");
        assert!(!db.filters().answer(key).is_absent(), "lost {name}");
    }
    let keys = keys_to_read(model);
    check_values(db, DEFAULT_COLUMN_FAMILY_NAME, model, &[&keys], |read| {
        !read.names_a_cf()
    });
    check_cf_reads(db, DEFAULT_COLUMN_FAMILY_NAME, model)
}

/// Checks the same of any column family, through the calls that name one.
pub(crate) fn check_cf_reads(db: &SieveDb, name: &str, model: &Model) -> Tally {
    let cf = db.cf_handle(name).unwrap();
    let keys = keys_to_read(model);
    let mut tally = Tally::default();
    for key in &keys {
        let absent = db.filters().answer_cf(&cf, key).is_absent();
        let exists = model.contains_key(key);
        assert!(!absent || !exists, "lost {}", key.escape_ascii());
        tally.missing += usize::from(!exists);
        tally.ruled_out += usize::from(absent);
    }
    let batches: Vec<_> = keys.chunks(700).collect();
    check_values(db, name, model, &batches, |read| read.names_a_cf());
    let all = db.iterator_cf(&cf, IteratorMode::Start);
    let all: Vec<_> = all.map(Result::unwrap).collect();
    let mut expected: Vec<_> = model.iter().collect();
    if all.first().map(|(key, _)| &**key) != expected.first().map(|(key, _)| key.as_slice()) {
        expected.reverse();
    }
    assert_eq!(all.len(), expected.len(), "iterator of {name}");
    for ((key, value), (expected_key, expected)) in all.iter().zip(expected) {
        assert_eq!((&**key, &**value), (&**expected_key, &**expected));
    }
    tally
}

/// Checks the values that these reads return, also past the filters.
fn check_values<'db>(
    db: &'db SieveDb,
    name: &str,
    model: &Model,
    batches: &[&[Vec<u8>]],
    are_checked: fn(&Read<SieveDb, Handle<'db>>) -> bool,
) {
    let cf = db.cf_handle(name).unwrap();
    let reads = reads::of_db().into_iter().chain(reads::unfiltered());
    for read in reads.filter(are_checked) {
        for &keys in batches {
            let values = read.values(db, &cf, keys, &ReadOptions::default);
            for (key, value) in keys.iter().zip(values) {
                let what = || format!("{} {} in {name}", read.name, key.escape_ascii());
                assert_eq!(value.unwrap().as_ref(), model.get(key), "{}", what());
            }
        }
    }
}

/// Checks that `verify` finds every key in its filters.
pub(crate) fn verify_finds_every_key(db: &SieveDb) {
    let report = db.filters().verify(true).unwrap();
    assert!(report.lost.is_empty(), "{:?}", report.lost);
    assert!(report.damaged.is_empty(), "{:?}", report.damaged);
}

/// Checks a settled database: complete coverage, nearly every absent key denied, no key lost.
pub(crate) fn check_settled(db: &SieveDb, model: &Model) {
    cover(db);
    settle(db);
    let tally = check_reads(db, model);
    // 0.9 although 0.99 is promised: deleted keys stay in the filters until these are rebuilt.
    let never = KEYS as usize;
    assert!(
        tally.ruled_out * 10 >= never * 9,
        "{tally:?}: the filters hardly rule anything out"
    );
    verify_finds_every_key(db);
}

/// The counters of the column family with this name, if it has filters.
pub(crate) fn stats_of(db: &SieveDb, name: &str) -> Option<Stats> {
    let cf = db.cf_handle(name)?;
    db.filters().stats_cf(&cf)
}
