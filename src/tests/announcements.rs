//! External writes are announced for as long as they last: whichever call brings keys past the memtables, an
//! absent key is *maybe* in the middle of it, even once maintenance has been by.
//!
//! An ingestion is held in the flush that it waits for ([`BlockedFlush`]), a catch-up at a pipe in the place of the log
//! that it reads.

#![expect(
    clippy::disallowed_methods,
    reason = "a log of RocksDB is replaced, and no file of ours"
)]

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use rocksdb::{
    AsColumnFamilyRef, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Error, IngestExternalFileOptions,
    Options, SstFileWriter,
};
use tempfile::TempDir;

use crate::SieveDb;
use crate::SieveOptions;
use crate::tests::blocked_flush::BlockedFlush;

const LIMIT: Duration = Duration::from_secs(60);
const OTHER: &str = "other";

/// Every method that announces external writes, by the tests of this file.
const ANNOUNCING: [&str; 2] = ["external_writes", "with_engine_untracked"];

fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options
}

fn open(options: &Options, path: &Path) -> SieveDb {
    SieveDb::builder(path)
        .options(options)
        .filters(&SieveOptions::default())
        .cfs([DEFAULT, OTHER])
        .open()
        .unwrap()
}

/// A key that the filters of this family rule out, once they are complete.
fn absent_key(db: &SieveDb, cf: &impl AsColumnFamilyRef) -> String {
    assert!(db.filters().wait_until_complete(LIMIT) && db.filters().wait_for_maintenance(LIMIT));
    let mut keys = (0..100).map(|key| format!("never {key}"));
    let absent = keys.find(|key| db.filters().answer_cf(cf, key).is_absent());
    absent.expect("the filters rule nothing out")
}

/// Whether the filters say *maybe* of this key, and go on to when maintenance has looked at the tables.
fn stays_maybe(db: &SieveDb, cf: &impl AsColumnFamilyRef, absent: &str) -> bool {
    let at_first = !db.filters().answer_cf(cf, absent).is_absent();
    assert!(db.filters().wait_for_maintenance(LIMIT));
    at_first && !db.filters().answer_cf(cf, absent).is_absent()
}

/// Whether the filters rule out this key again, or another if a new filter has a false positive for it.
fn rules_out_again(db: &SieveDb, cf: &impl AsColumnFamilyRef, absent: &str) -> bool {
    assert!(db.filters().wait_until_complete(LIMIT));
    let others = (0..100).map(|key| format!("also never {key}"));
    let mut keys = std::iter::once(absent.to_owned()).chain(others);
    keys.any(|key| db.filters().answer_cf(cf, key).is_absent())
}

/// An SST with a key on either side of [`BlockedFlush::KEY`].
fn sst(folder: &Path) -> PathBuf {
    let path = folder.join("ingested.sst");
    let options = Options::default();
    let mut writer = SstFileWriter::create(&options);
    writer.open(&path).unwrap();
    writer.put("a", "ingested").unwrap();
    writer.put("z", "ingested").unwrap();
    writer.finish().unwrap();
    path
}

/// Ingests these files, into the given family where the call takes one.
type Ingest = fn(&SieveDb, Vec<PathBuf>) -> Result<(), Error>;

fn ingestion_is_announced_until_its_end(cf: &str, ingest: Ingest) {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    let held = BlockedFlush::flushes_of(&mut options);
    let db = open(&options, &home.path().join("db"));
    let held = held;
    let cf = db.cf_handle(cf).unwrap();
    let absent = absent_key(&db, &cf);
    db.put_cf(&cf, BlockedFlush::KEY, "value").unwrap();
    db.merge_cf(&cf, BlockedFlush::KEY, "operand").unwrap();
    let files = vec![sst(home.path())];
    let announced = thread::scope(|scope| {
        let ingesting = scope.spawn(|| ingest(&db, files));
        held.wait();
        let announced = stays_maybe(&db, &cf, &absent);
        held.release_flush();
        ingesting.join().unwrap().unwrap();
        announced
    });
    assert!(announced);
    for key in ["a", "z"] {
        assert!(db.get_cf(&cf, key).unwrap().is_some(), "{key} was lost");
    }
    assert!(rules_out_again(&db, &cf, &absent));
}

#[test]
fn ingestion_is_announced_until_its_end_by_ingest_external_file() {
    ingestion_is_announced_until_its_end(DEFAULT, |db, files| db.ingest_external_file(files));
}

#[test]
fn ingestion_is_announced_until_its_end_by_ingest_external_file_opts() {
    ingestion_is_announced_until_its_end(DEFAULT, |db, files| {
        db.ingest_external_file_opts(&IngestExternalFileOptions::default(), files)
    });
}

#[test]
fn ingestion_is_announced_until_its_end_by_ingest_external_file_cf() {
    ingestion_is_announced_until_its_end(OTHER, |db, files| {
        db.ingest_external_file_cf(&db.cf_handle(OTHER).unwrap(), files)
    });
}

#[test]
fn ingestion_is_announced_until_its_end_by_ingest_external_file_cf_opts() {
    ingestion_is_announced_until_its_end(OTHER, |db, files| {
        let settings = IngestExternalFileOptions::default();
        db.ingest_external_file_cf_opts(&db.cf_handle(OTHER).unwrap(), &settings, files)
    });
}

#[test]
fn use_of_the_engine_is_announced_in_every_family_until_its_end() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&options(), home.path());
    let cfs = [DEFAULT, OTHER].map(|name| db.cf_handle(name).unwrap());
    let absent = cfs.each_ref().map(|cf| absent_key(&db, cf));
    let of_each = || cfs.iter().zip(&absent);
    db.with_engine_untracked(|_| {
        for (cf, absent) in of_each() {
            assert!(stays_maybe(&db, cf, absent));
        }
    });
    assert!(of_each().all(|(cf, absent)| rules_out_again(&db, cf, absent)));
}

/// A user of the engine may also write keys to it directly.
#[test]
fn a_family_made_during_a_use_of_the_engine_is_told_until_the_end() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&options(), home.path());
    assert!(db.filters().wait_until_complete(LIMIT));
    let late = db.with_engine_untracked(|_| {
        db.create_cf("late", &options()).unwrap();
        let late = db.cf_handle("late").unwrap();
        assert!(stays_maybe(&db, &late, "never"));
        late
    });
    assert!(rules_out_again(&db, &late, "never"));
}

/// Of two uses that begin before the column family is created, one may end long before the other.
#[test]
fn cf_created_during_two_uses_of_the_engine_is_maybe_until_both_end() {
    let home = tempfile::tempdir().unwrap();
    let db = open(&options(), home.path());
    assert!(db.filters().wait_until_complete(LIMIT));
    let late = db.with_engine_untracked(|_| {
        let created = db.with_engine_untracked(|_| db.create_cf("late", &options()));
        created.unwrap();
        let late = db.cf_handle("late").unwrap();
        assert!(stays_maybe(&db, &late, "never"));
        late
    });
    assert!(rules_out_again(&db, &late, "never"));
}

/// The newest log of a database.
fn newest_log(database: &Path) -> PathBuf {
    let files = fs::read_dir(database).unwrap();
    let paths = files.map(|file| file.unwrap().path());
    let logs = paths.filter(|path| path.extension().is_some_and(|end| end == "log"));
    logs.max().unwrap()
}

/// A writer, and a secondary that has yet to catch up with a key in an SST and one in a log.
struct Pair {
    secondary: SieveDb,
    writer: SieveDb,
    log: PathBuf,
    _home: TempDir,
}

impl Pair {
    const IN_AN_SST: &str = "in an SST";
    const IN_THE_LOG: &str = "in the log";

    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let writer = open(&options(), &path);
        writer.put("there from the start", "value").unwrap();
        writer.flush().unwrap();
        assert!(writer.filters().wait_until_complete(LIMIT));
        let messages = home.path().join("secondary");
        let names = [DEFAULT, OTHER];
        let sieve = SieveOptions::default();
        let secondary = SieveDb::builder(&path)
            .options(&options())
            .filters(&sieve)
            .cfs(names)
            .secondary(messages)
            .open();
        writer.put(Self::IN_AN_SST, "value").unwrap();
        writer.flush().unwrap();
        writer.put(Self::IN_THE_LOG, "value").unwrap();
        Self {
            secondary: secondary.unwrap(),
            writer,
            log: newest_log(&path),
            _home: home,
        }
    }
}

/// The engine is locked in the middle of a catch-up, so that maintenance cannot be by.
#[cfg(target_os = "linux")]
#[test]
fn a_catch_up_is_announced_from_before_its_start_to_its_end() {
    use rustix::fs::{CWD, Mode, mkfifoat};

    let Pair {
        _home,
        log,
        writer: _writer,
        secondary,
    } = Pair::new();
    let cf = secondary.cf_handle(DEFAULT).unwrap();
    let absent = absent_key(&secondary, &cf);
    let written = fs::read(&log).unwrap();
    fs::remove_file(&log).unwrap();
    mkfifoat(CWD, log.as_path(), Mode::RUSR | Mode::WUSR).unwrap();
    let answers = thread::scope(|scope| {
        let catching_up = scope.spawn(|| secondary.try_catch_up_with_primary());
        // Opens once the catch-up does, which has read the manifest and reads the pipe until it is closed.
        let mut pipe = File::options().write(true).open(&log).unwrap();
        let answers = [absent.as_str(), Pair::IN_AN_SST, Pair::IN_THE_LOG]
            .map(|key| secondary.filters().answer(key));
        pipe.write_all(&written).unwrap();
        drop(pipe);
        catching_up.join().unwrap().unwrap();
        answers
    });
    assert!(
        !answers.iter().any(|answer| answer.is_absent()),
        "{answers:?}"
    );
    for key in [Pair::IN_AN_SST, Pair::IN_THE_LOG] {
        assert!(secondary.get(key).unwrap().is_some(), "{key} was lost");
    }
    assert!(rules_out_again(&secondary, &cf, &absent));
}

/// Each has a test here; a new one wants its own.
#[test]
fn every_method_that_announces_external_writes_is_held_by_a_test() {
    let sources = [
        include_str!("../db/access.rs"),
        include_str!("../db/builder.rs"),
        include_str!("../db/engine.rs"),
        include_str!("../db/mod.rs"),
        include_str!("../db/open.rs"),
        include_str!("../db/reads.rs"),
        include_str!("../db/transaction.rs"),
        include_str!("../db/transaction/iterators.rs"),
        include_str!("../db/transaction/reads.rs"),
        include_str!("../hooks/sieve.rs"),
    ];
    let mut announcing = Vec::new();
    for source in sources {
        let mut method = "";
        for line in source.lines().take_while(|line| *line != "mod tests {") {
            if let Some((_, signature)) = line.split_once("fn ") {
                let end = signature.find(['(', '<']).unwrap_or(signature.len());
                method = &signature[..end];
            }
            if line.contains(".begin_external_writes(") {
                announcing.push(method);
            }
        }
    }
    announcing.sort_unstable();
    announcing.dedup();
    assert_eq!(announcing, ANNOUNCING);
}
