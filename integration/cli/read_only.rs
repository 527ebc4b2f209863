//! A database that is only read, by the command and by the library.

use lsm_sieve::SieveDb;

use crate::runner::json;
use crate::support::database_files::contents;
use crate::support::model_db::{Model, check_reads, fill, options, settle, sieve};

/// RocksDB 11.8.1 dereferences a null pointer there, unless it is told to check such logs.
#[test]
fn log_listed_in_the_manifest_is_read_by_read_only_opens() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("db");
    let mut model = Model::new();
    {
        let mut options = options();
        options.set_track_and_verify_wals_in_manifest(true);
        let db = SieveDb::builder(&path)
            .options(&options)
            .filters(&sieve())
            .cfs(["other"])
            .open()
            .unwrap();
        let other = db.cf_handle("other").unwrap();
        fill(&db, &mut model, 0..100);
        // The log is closed, kept for the other family, and listed.
        db.put_cf(&other, b"key", b"value").unwrap();
        db.flush_cf(&other).unwrap();
        fill(&db, &mut model, 100..200);
        settle(&db);
    }
    let before = contents(&path);
    let folder = path.to_str().unwrap();
    json(&["inspect", folder]);
    assert_eq!(json(&["verify", "--full", folder])["keys_checked"], 1);
    let counts = ["--reads", "9", "--misses", "8", "--lookups", "10"];
    {
        let db = SieveDb::builder(&path)
            .options(&options())
            .filters(&sieve())
            .read_only(false)
            .open()
            .unwrap();
        settle(&db);
        check_reads(&db, &model);
    }
    assert!(contents(&path) == before, "a file has changed");

    std::fs::remove_dir_all(path.join("sieve")).unwrap();
    json(&[&["advise", "front", folder][..], &counts].concat());
}
