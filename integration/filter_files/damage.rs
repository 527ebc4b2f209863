//! Damage to filter files costs time, never an answer.
//!
//! Each kind of damage is done to a segment filter's sidecar, to the summary's sidecar and to the
//! identity of a closed database. Before it is opened, `verify` with read-only filters reports the
//! damage. After the open every read finds every key at once, and maintenance rebuilds the file,
//! unless it is of a newer version or not ours. That *every* flipped bit is detected is shown in
//! `crates/format/src/format`; here the bits are sampled.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "damage is done past the door to files"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lsm_sieve::{OpenError, SieveDb, VerifyReport};
use lsm_sieve_format::format;
use rocksdb::{DB, Options};

use crate::support::damage::damaged_variants;
use crate::support::database_files::{copy, sidecars, stamps, summaries};
use crate::support::model_db::{
    Dice, Model, check_reads, check_settled, cover, fill, options, settle, sieve,
};

/// What an intact file of another database is called.
const FOREIGN: &str = "of another database";

/// A closed database of four SSTs and some log, and another of the same keys.
struct Scene {
    home: tempfile::TempDir,
    model: Model,
}

fn settings() -> Options {
    let mut settings = options();
    settings.set_disable_auto_compactions(true);
    settings
}

fn open(path: &Path) -> SieveDb {
    SieveDb::open(&settings(), &sieve(), path).unwrap()
}

fn write(path: &Path) -> Model {
    let db = open(path);
    let mut model = Model::new();
    for table in 0..4 {
        fill(&db, &mut model, table * 300..table * 300 + 400);
        db.flush().unwrap();
    }
    fill(&db, &mut model, 1_400..1_450);
    cover(&db);
    model
}

impl Scene {
    fn new() -> Self {
        let home = tempfile::tempdir().unwrap();
        let model = write(&home.path().join("original"));
        assert_eq!(write(&home.path().join("other")), model);
        Self { home, model }
    }

    /// A fresh copy of the database.
    fn fresh(&self) -> PathBuf {
        let path = self.home.path().join("copy");
        if path.exists() {
            fs::remove_dir_all(&path).unwrap();
        }
        copy(&self.home.path().join("original"), &path);
        path
    }

    fn other(&self) -> PathBuf {
        self.home.path().join("other").join("sieve")
    }
}

fn verify_frozen(path: &Path) -> VerifyReport {
    let db = SieveDb::open(&settings(), &sieve().read_only_filters(true), path).unwrap();
    settle(&db);
    db.filters().verify(true).unwrap()
}

/// The same file as a later version might write it, with a right checksum.
fn newer(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[8] = u8::MAX;
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let crc = crc32fast::hash(&bytes[..length - 4]);
    bytes[length - 4..length].copy_from_slice(&crc.to_le_bytes());
    bytes
}

#[test]
fn damaged_sidecar_is_reported_rebuilt_and_loses_no_key() {
    let scene = Scene::new();
    let mut dice = Dice(1);
    let first = sidecars(&scene.fresh().join("sieve")).remove(0);
    for (what, bytes) in damaged_variants(&fs::read(first).unwrap(), &mut dice) {
        let path = scene.fresh();
        let victim = sidecars(&path.join("sieve")).remove(0);
        fs::write(&victim, &bytes).unwrap();
        let report = verify_frozen(&path);
        assert_eq!(report.damaged.len(), 1, "{what}: {report:?}");
        let name = victim.file_name().unwrap().to_string_lossy();
        assert!(report.damaged[0].contains(&*name), "{what}: {report:?}");
        assert!(report.lost.is_empty(), "{what}");
        assert_eq!(fs::read(&victim).unwrap(), bytes, "{what}: changed");
        let db = open(&path);
        check_reads(&db, &scene.model);
        check_settled(&db, &scene.model);
        assert_ne!(fs::read(&victim).unwrap(), bytes, "{what}: not rebuilt");
        assert_eq!(
            db.filters().verify(true).unwrap().missing,
            [] as [String; 0],
            "{what}"
        );
    }
}

#[test]
fn sidecar_in_the_place_of_another_is_refused() {
    let scene = Scene::new();
    let foreign = sidecars(&scene.other());
    for what in ["swapped", FOREIGN, "a summary"] {
        let path = scene.fresh();
        let ours = sidecars(&path.join("sieve"));
        let (first, second) = (&ours[0], &ours[1]);
        match what {
            "swapped" => {
                let bytes = fs::read(first).unwrap();
                fs::copy(second, first).unwrap();
                fs::write(second, bytes).unwrap();
            }
            "a summary" => drop(fs::copy(&summaries(&path.join("sieve"))[0], first).unwrap()),
            _ => drop(fs::copy(&foreign[0], first).unwrap()),
        }
        let report = verify_frozen(&path);
        assert_eq!(
            report.damaged.len(),
            if what == "swapped" { 2 } else { 1 },
            "{what}"
        );
        assert!(report.damaged[0].contains(" is of another "), "{report:?}");
        let db = open(&path);
        check_reads(&db, &scene.model);
        check_settled(&db, &scene.model);
        assert!(verify_with(&db), "{what}");
    }
}

fn verify_with(db: &SieveDb) -> bool {
    let report = db.filters().verify(true).unwrap();
    report.damaged.is_empty() && report.missing.is_empty() && report.lost.is_empty()
}

#[test]
fn missing_sidecar_is_reported_and_rebuilt() {
    let scene = Scene::new();
    let path = scene.fresh();
    let all = sidecars(&path.join("sieve"));
    let victim = &all[2];
    fs::remove_file(victim).unwrap();
    let report = verify_frozen(&path);
    assert_eq!(report.sidecars_checked, all.len() as u64 - 1, "{report:?}");
    assert!(!report.missing.is_empty(), "{report:?}");
    let db = open(&path);
    check_reads(&db, &scene.model);
    check_settled(&db, &scene.model);
    settle(&db);
    assert!(victim.exists() && verify_with(&db));
}

/// Files of another release, whose hash gave long keys another value: they deny every key.
#[test]
fn sidecars_of_a_changed_hash_are_refused_and_rebuilt() {
    let scene = Scene::new();
    let path = scene.fresh();
    let filters = path.join("sieve");
    let all = [sidecars(&filters), summaries(&filters)].concat();
    for victim in &all {
        let mut sidecar = format::decode(&fs::read(victim).unwrap()).unwrap();
        sidecar.imprint.known_answer ^= 1;
        let stages = sidecar.stages.iter_mut();
        stages.for_each(|stage| stage.words.fill(0));
        fs::write(victim, format::encode(&sidecar).unwrap()).unwrap();
    }
    let report = verify_frozen(&path);
    assert!(report.lost.is_empty(), "{report:?}");
    assert_eq!(report.damaged.len(), all.len(), "{report:?}");
    let of_another = |text: &String| text.contains(" is of another hash or seed");
    assert!(report.damaged.iter().all(of_another), "{report:?}");
    let db = open(&path);
    check_reads(&db, &scene.model);
    check_settled(&db, &scene.model);
    assert!(verify_with(&db));
}

/// Files of a newer version are neither used nor replaced, and their keys are found.
#[test]
fn newer_files_are_unchanged_and_lose_no_key() {
    let scene = Scene::new();
    let path = scene.fresh();
    let filters = path.join("sieve");
    let victims = [sidecars(&filters).remove(1), summaries(&filters).remove(0)];
    for victim in &victims {
        let bytes = newer(&fs::read(victim).unwrap());
        fs::write(victim, bytes).unwrap();
    }
    let before = stamps(&filters, ".sieve");
    let report = verify_frozen(&path);
    assert_eq!(report.damaged.len(), 2, "{report:?}");
    let newer = |text: &String| text.contains("newer version");
    assert!(report.damaged.iter().all(newer), "{report:?}");
    for _ in 0..2 {
        let db = open(&path);
        check_reads(&db, &scene.model);
        cover(&db);
        db.filters().consolidate().unwrap();
        check_reads(&db, &scene.model);
        assert!(db.filters().verify(true).unwrap().lost.is_empty());
    }
    let after = stamps(&filters, ".sieve");
    for victim in &victims {
        let name = victim.file_name().unwrap();
        assert_eq!(after.get(name), before.get(name), "{name:?} was touched");
    }
}

#[test]
fn damaged_summary_is_rebuilt_and_loses_no_key() {
    let scene = Scene::new();
    let mut dice = Dice(2);
    let path = scene.fresh();
    let bytes = fs::read(&summaries(&path.join("sieve"))[0]).unwrap();
    let foreign = fs::read(&summaries(&scene.other())[0]).unwrap();
    let of_segment = fs::read(&sidecars(&path.join("sieve"))[0]).unwrap();
    let mut kinds = damaged_variants(&bytes, &mut dice);
    kinds.push((FOREIGN.to_owned(), foreign));
    kinds.push(("a segment's".to_owned(), of_segment));
    for (what, bytes) in kinds {
        let path = scene.fresh();
        let victim = summaries(&path.join("sieve")).remove(0);
        fs::write(&victim, &bytes).unwrap();
        let report = verify_frozen(&path);
        assert!(report.lost.is_empty(), "{what}: {report:?}");
        assert_eq!(report.damaged.len(), 1, "{what}: {report:?}");
        assert!(report.damaged[0].contains("summary-"), "{what}: {report:?}");
        let db = open(&path);
        check_reads(&db, &scene.model);
        check_settled(&db, &scene.model);
        drop(db);
        assert_ne!(fs::read(&victim).unwrap(), bytes, "{what}: not rebuilt");
        assert!(verify_frozen(&path).damaged.is_empty(), "{what}");
    }
    let path = scene.fresh();
    fs::remove_file(summaries(&path.join("sieve")).remove(0)).unwrap();
    check_settled(&open(&path), &scene.model);
    assert_eq!(summaries(&path.join("sieve")).len(), 1);
}

/// Without its identity a database is a new one to its filters: all are rebuilt.
#[test]
fn damaged_identity_is_replaced_and_loses_no_key() {
    let scene = Scene::new();
    let mut dice = Dice(3);
    let good = fs::read(scene.fresh().join("sieve").join("identity")).unwrap();
    let foreign = fs::read(scene.other().join("identity")).unwrap();
    let mut kinds = damaged_variants(&good, &mut dice);
    kinds.push((FOREIGN.to_owned(), foreign));
    for (what, bytes) in kinds {
        let path = scene.fresh();
        let victim = path.join("sieve").join("identity");
        fs::write(&victim, &bytes).unwrap();
        if what != FOREIGN {
            let report = verify_frozen(&path);
            assert_eq!(report.damaged.len(), 1, "{what}: {report:?}");
            assert!(report.damaged[0].contains("identity"), "{what}: {report:?}");
            assert!(!report.missing.is_empty() && report.lost.is_empty());
            assert_eq!(fs::read(&victim).unwrap(), bytes, "{what}: changed");
        }
        let db = open(&path);
        check_reads(&db, &scene.model);
        check_settled(&db, &scene.model);
        assert!(verify_with(&db), "{what}");
        drop(db);
        assert_ne!(
            fs::read(&victim).unwrap(),
            good,
            "{what}: the secret of old came back"
        );
        check_settled(&open(&path), &scene.model);
    }
    let path = scene.fresh();
    fs::remove_file(path.join("sieve").join("identity")).unwrap();
    check_settled(&open(&path), &scene.model);
}

/// An identity that must not be replaced, or is no file of ours, refuses the open and changes
/// nothing. RocksDB alone still opens the database.
#[test]
fn irreplaceable_identity_refuses_the_open() {
    let scene = Scene::new();
    for what in ["newer", "symlink", "folder"] {
        let path = scene.fresh();
        let victim = path.join("sieve").join("identity");
        let bytes = fs::read(&victim).unwrap();
        fs::remove_file(&victim).unwrap();
        match what {
            "newer" => fs::write(&victim, newer(&bytes)).unwrap(),
            "symlink" => symlink(scene.other().join("identity"), &victim).unwrap(),
            _ => fs::create_dir(&victim).unwrap(),
        }
        let before = stamps(&path.join("sieve"), "");
        let error = SieveDb::open(&settings(), &sieve(), &path).unwrap_err();
        assert!(matches!(error, OpenError::Identity(_)), "{what}: {error}");
        assert_eq!(
            stamps(&path.join("sieve"), ""),
            before,
            "{what}: something changed"
        );
        let plain = DB::open(&settings(), &path).unwrap();
        for (key, value) in &scene.model {
            assert_eq!(plain.get(key).unwrap().as_ref(), Some(value), "{what}");
        }
        drop(plain);
        // The remedy that the message names.
        let aside = path.join("aside");
        fs::rename(&victim, &aside).unwrap();
        check_settled(&open(&path), &scene.model);
    }
}

/// A symlink is neither followed nor trusted, even if it leads to the right file.
#[test]
fn symlink_in_place_of_a_filter_is_not_followed() {
    let scene = Scene::new();
    for summary in [false, true] {
        let path = scene.fresh();
        let filters = path.join("sieve");
        let victim = match summary {
            true => summaries(&filters).remove(0),
            false => sidecars(&filters).remove(0),
        };
        let elsewhere = scene.home.path().join("elsewhere");
        fs::copy(&victim, &elsewhere).unwrap();
        fs::remove_file(&victim).unwrap();
        symlink(&elsewhere, &victim).unwrap();
        let target = fs::read(&elsewhere).unwrap();
        let report = verify_frozen(&path);
        assert_eq!(report.damaged.len(), 1, "{report:?}");
        let db = open(&path);
        check_reads(&db, &scene.model);
        check_settled_but_for_files(&db, &scene.model);
        drop(db);
        assert_eq!(fs::read(&elsewhere).unwrap(), target, "written through");
        let db = open(&path);
        check_reads(&db, &scene.model);
        check_settled_but_for_files(&db, &scene.model);
    }
}

/// As [`check_settled`], but an unusable file may stay.
fn check_settled_but_for_files(db: &SieveDb, model: &Model) {
    cover(db);
    let tally = check_reads(db, model);
    assert!(tally.ruled_out * 10 >= tally.missing * 9, "{tally:?}");
    assert!(db.filters().verify(true).unwrap().lost.is_empty());
}

/// Every kind of damage at once, with garbage files beside it.
#[test]
fn folder_of_garbage_loses_no_key() {
    let scene = Scene::new();
    let mut dice = Dice(9);
    for _ in 0..5 {
        let path = scene.fresh();
        let filters = path.join("sieve");
        for name in stamps(&filters, "").keys() {
            let file = filters.join(name);
            let mut bytes = fs::read(&file).unwrap();
            let spoil = damaged_variants(&bytes, &mut dice);
            let choice = dice.below(spoil.len() as u64 + 1) as usize;
            bytes = spoil
                .into_iter()
                .nth(choice)
                .map_or(bytes, |(_, bytes)| bytes);
            fs::write(&file, bytes).unwrap();
        }
        fs::write(filters.join("notes.txt"), b"not ours").unwrap();
        fs::write(filters.join("0000.sieve"), b"not ours").unwrap();
        fs::create_dir(filters.join("folder.sieve")).unwrap();
        let db = open(&path);
        check_reads(&db, &scene.model);
        check_settled(&db, &scene.model);
        assert!(filters.join("notes.txt").exists() && filters.join("0000.sieve").exists());
    }
}
