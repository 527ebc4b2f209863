//! What an attacker on the same machine, or with access to the files, can and cannot do.
//!
//! The threat model is in SECURITY.md. Damage of every kind is in `damage`, hostile headers are in
//! `crates/format/src/format`.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "the hostile hand works past the door to files"
)]

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use lsm_sieve::{OpenError, SieveDb};
use lsm_sieve_filter::filter::{Kind, Shape};
use lsm_sieve_filter::math::{Bits, Items, Probes};
use lsm_sieve_format::disk::{RealDisk, publish, read_file};
use lsm_sieve_format::format::{StageRecord, decode, decode_identity, encode};
use rocksdb::DB;

use crate::support::database_files::{sidecars, stamps};
use crate::support::model_db::{
    Model, check_reads, check_settled, cover, fill, open, options, settle, sieve,
};

const KEYS: u64 = 300;

/// A closed database of one SST.
fn write(path: &Path) -> Model {
    let db = open(path);
    let mut model = Model::new();
    fill(&db, &mut model, 4..4 + KEYS);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    model
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let names = stamps(folder, "");
    names.keys().map(|name| folder.join(name)).collect()
}

#[test]
fn filter_files_are_readable_by_their_owner_only() {
    let home = tempfile::tempdir().unwrap();
    write(home.path());
    let folder = home.path().join("sieve");
    let mode = |path: &Path| fs::symlink_metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files = files(&folder);
    assert!(files.len() >= 3, "identity, summary, sidecar: {files:?}");
    for file in files {
        assert_eq!(mode(&file), 0o600, "{}", file.display());
    }
}

/// A sidecar alone, from a bucket or a bug report, does not reveal the seed.
#[test]
fn secret_seed_is_in_the_identity_file_only() {
    let home = tempfile::tempdir().unwrap();
    write(home.path());
    let folder = home.path().join("sieve");
    let identity = decode_identity(&fs::read(folder.join("identity")).unwrap()).unwrap();
    let seed = identity.seed.as_bytes();
    let mut holders = Vec::new();
    let log = home.path().join("LOG");
    for file in files(&folder).into_iter().chain([log]) {
        let bytes = fs::read(&file).unwrap();
        let leaks = |half: &[u8]| bytes.windows(half.len()).any(|window| window == half);
        if leaks(&seed[..8]) || leaks(&seed[8..]) {
            holders.push(file.file_name().unwrap().to_owned());
        }
    }
    assert_eq!(holders, ["identity"]);
}

/// Nothing is written through a link, and RocksDB alone still opens the database.
#[test]
fn filter_folder_that_is_a_link_or_shared_is_refused() {
    for what in ["link", "open to others"] {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("database");
        let model = write(&path);
        let folder = path.join("sieve");
        let elsewhere = home.path().join("elsewhere");
        if what == "link" {
            fs::rename(&folder, &elsewhere).unwrap();
            symlink(&elsewhere, &folder).unwrap();
        } else {
            fs::set_permissions(&folder, Permissions::from_mode(0o770)).unwrap();
        }
        let before = stamps(&folder, "");
        for read_only_filters in [false, true] {
            let error = SieveDb::open(
                &options(),
                &sieve().read_only_filters(read_only_filters),
                &path,
            )
            .unwrap_err();
            let refused = matches!(error, OpenError::Folder(_) | OpenError::Identity(_));
            assert!(refused, "{what}: {error}");
        }
        assert_eq!(stamps(&folder, ""), before, "{what}");
        let plain = DB::open(&options(), &path).unwrap();
        for (key, value) in &model {
            assert_eq!(plain.get(key).unwrap().as_ref(), Some(value), "{what}");
        }
        drop(plain);
        if what == "link" {
            fs::remove_file(&folder).unwrap();
            fs::rename(&elsewhere, &folder).unwrap();
        } else {
            fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
        }
        check_settled(&open(&path), &model);
    }
}

/// A sidecar with right checksums, for the right SST, and 100,000 times too large.
#[test]
fn oversized_sidecar_is_not_loaded() {
    const WORDS: usize = 1 << 18;
    let home = tempfile::tempdir().unwrap();
    let model = write(home.path());
    let folder = home.path().join("sieve");
    let file = sidecars(&folder).remove(0);
    let mut sidecar = decode(&read_file(&RealDisk, &file, 1 << 30).unwrap()).unwrap();
    let stage = || StageRecord {
        shape: Shape {
            kind: Kind::Blocked,
            bits: Bits::new(WORDS as u64 * 64),
            probes: Probes::new(8),
            groups: 2,
        },
        items: Items::new(KEYS),
        words: vec![u64::MAX; WORDS],
    };
    sidecar.stages = vec![stage(), stage()];
    let name = file.file_name().unwrap().to_str().unwrap();
    publish(&RealDisk, &folder, name, &encode(&sidecar).unwrap()).unwrap();
    // An open that builds no other filter in its place.
    let read_only_filters =
        SieveDb::open(&options(), &sieve().read_only_filters(true), home.path()).unwrap();
    settle(&read_only_filters);
    let cf = &read_only_filters.filters().inspect().unwrap().cfs[0];
    assert!(cf.segments[0].filter.is_none(), "it was read");
    drop(read_only_filters);
    let db = open(home.path());
    check_reads(&db, &model);
    check_settled(&db, &model);
    let cf = &db.filters().inspect().unwrap().cfs[0];
    let filter = cf.segments[0].filter.as_ref().unwrap();
    assert!(filter.bits < 20 * KEYS, "{filter:?}");
    assert!(
        fs::metadata(&file).unwrap().len() < 2_000,
        "it was replaced"
    );
}
