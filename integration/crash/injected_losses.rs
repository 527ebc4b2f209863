//! Injected losses: a check that cannot fail proves nothing.
//!
//! A bit of a key is cleared in a filter on disk and the checksums are recomputed, as a bug of the
//! plugin would leave it. The check must name the key, or one that shared the bit.

use std::path::{Path, PathBuf};

use lsm_sieve::{HashId, Items, SieveOptions};
use lsm_sieve_filter::filter::Stage;
use lsm_sieve_filter::hash::KeyHash;
use lsm_sieve_format::disk::{self, Disk, RealDisk};
use lsm_sieve_format::format::{self, Identity, StageRecord, Subject};

use super::World;
use super::filter_check::{self, check_model, truth};
use super::random_options::RandomOptions;
use super::workload::{self, FAMILIES, Step};
use crate::support::history::Failed;
use crate::support::history::model::Change;
use crate::support::history::world::World as _;
use crate::support::model_db::always_filtered;

/// The key to lose.
const LOST: u32 = 0;

/// The SST has a filter, and in each filter a key has bits of its own.
fn settings() -> SieveOptions {
    always_filtered().speed_over_memory(true)
}

/// A closed database with at least one SST. Its summary filter covers all SSTs.
struct Database {
    home: tempfile::TempDir,
    setup: RandomOptions,
}

impl Database {
    fn new() -> Result<Self, Failed> {
        let database = Self {
            home: tempfile::tempdir()?,
            setup: RandomOptions::new(0),
        };
        let db = database.setup.open(&database.path(), &settings())?;
        let family = db.cf_handle(FAMILIES[0]).ok_or("no default family")?;
        for first in [0, 1, 2] {
            for index in (first..300).step_by(3) {
                db.put_cf(
                    &family,
                    workload::key(index),
                    workload::value(u64::from(index)),
                )?;
            }
            db.flush_cf(&family)?;
        }
        // Let compactions finish: a later one would build new filters, and the key would be found
        // again.
        db.compact_range_cf(&family, None::<&[u8]>, None::<&[u8]>);
        db.filters().consolidate()?;
        drop(family);
        drop(db);
        Ok(database)
    }

    fn path(&self) -> PathBuf {
        self.home.path().join("database")
    }

    fn check(&self) -> Result<(), Failed> {
        let truth = truth(&self.setup, &self.path())?;
        // An audit may find the loss first, and nothing is covered after that.
        let sieve = settings().audit(0);
        filter_check::check(&self.setup, &sieve, &self.path(), &truth).map(drop)
    }

    /// Clears a bit of a key in each sidecar whose subject is wanted. Returns the number of
    /// sidecars.
    fn lose(&self, key: &[u8], wanted: impl Fn(&Subject) -> bool) -> Result<usize, Failed> {
        let folder = self.path().join("sieve");
        let identity = Identity::load_or_new(&RealDisk, &folder, HashId::default())?;
        let hash = identity.identity().hasher().hash(key);
        let mut changed = 0;
        for name in RealDisk.list(&folder)? {
            changed += usize::from(lose_in(&folder, &name, hash, &wanted)?);
        }
        Ok(changed)
    }
}

fn lose_in(
    folder: &Path,
    name: &str,
    hash: KeyHash,
    wanted: impl Fn(&Subject) -> bool,
) -> Result<bool, Failed> {
    if !name.ends_with(".sieve") {
        return Ok(false);
    }
    let bytes = disk::read_file(&RealDisk, &folder.join(name), 1 << 30)?;
    let mut sidecar = format::decode(&bytes)?;
    if !wanted(&sidecar.subject) {
        return Ok(false);
    }
    let hash = if is_summary(&sidecar.subject) {
        hash.for_summary()
    } else {
        hash
    };
    for stage in &mut sidecar.stages {
        clear_a_bit(stage, hash)?;
    }
    disk::publish(&RealDisk, folder, name, &format::encode(&sidecar)?)?;
    Ok(true)
}

/// An empty stage of this shape shows which bits belong to the key.
fn clear_a_bit(record: &mut StageRecord, hash: KeyHash) -> Result<(), Failed> {
    let words = vec![0; record.words.len()];
    let stage = Stage::from_words(record.shape, Items::new(0), words)?;
    stage.insert(hash);
    let mut pairs = record.words.iter_mut().zip(stage.words());
    let (word, mask) = pairs
        .find(|(_, mask)| *mask != 0)
        .ok_or("a key without bits")?;
    *word &= !(1 << mask.trailing_zeros());
    Ok(())
}

fn is_summary(subject: &Subject) -> bool {
    matches!(subject, Subject::Summary { .. })
}

#[test]
fn check_passes_if_nothing_was_lost() {
    Database::new().unwrap().check().unwrap();
}

#[test]
fn check_detects_a_lost_key() {
    let database = Database::new().unwrap();
    assert!(database.lose(&workload::key(LOST), is_summary).unwrap() > 0);
    let error = database.check().unwrap_err().to_string();
    assert!(error.contains("LOST key-"), "{error}");
}

#[test]
fn check_detects_a_key_lost_by_a_segment_filter() {
    let database = Database::new().unwrap();
    let segments = |subject: &Subject| !is_summary(subject);
    assert!(database.lose(&workload::key(LOST), segments).unwrap() > 0);
    let error = database.check().unwrap_err().to_string();
    assert!(error.contains("LOST key-"), "{error}");
}

#[test]
fn check_detects_a_lost_write() {
    let database = Database::new().unwrap();
    let truth = truth(&database.setup, &database.path()).unwrap();
    let mut world = World::new(0);
    world.settle(&truth);
    check_model(&world.setup, &truth, &world.model).unwrap();
    let write = Step::Write(0, LOST, Change::Set(7));
    world.may_be_done(&write);
    check_model(&world.setup, &truth, &world.model).unwrap();
    world.done(&write);
    check_model(&world.setup, &truth, &world.model).unwrap_err();
}

/// A kill in a database's first open left an unfinished identity file for ever: only those of
/// sidecars were removed at the next open. The identity's are removed too.
#[test]
fn unfinished_files_left_by_a_kill_are_removed() {
    let database = Database::new().unwrap();
    let folder = database.path().join("sieve");
    for name in [
        "identity",
        "summary-00000000.sieve",
        "000102030405060708090a0b0c0d0e0f.sieve",
    ] {
        let name = format!("{name}.0123456789abcdef.tmp");
        disk::publish(&RealDisk, &folder, &name, b"unfinished").unwrap();
    }
    assert_eq!(
        filter_check::temporaries(&database.path()).unwrap().len(),
        3
    );
    database.check().unwrap();
}
