//! A database that is opened to be read: its filters speak, and no file of it changes.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::Path;

use lsm_sieve::{OpenError, Rate, SieveDb};

use crate::copy::contents;
use crate::twin::{Model, absent_key, agree, cover, fill, open, options, settle, sieve};

fn open_to_read(path: &Path) -> SieveDb {
    let db = SieveDb::open_for_read_only(&options(), &sieve(), path, false).unwrap();
    settle(&db);
    db
}

#[test]
fn filters_answer_and_no_file_changes() {
    const ASKED: u64 = 1_000;
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    {
        let db = open(home.path());
        fill(&db, &mut model, 0..900);
        db.flush().unwrap();
        cover(&db);
        // Into the log.
        fill(&db, &mut model, 900..1_000);
    }
    let before = contents(home.path());
    {
        let db = open_to_read(home.path());
        agree(&db, &model);
        let denied = (0..ASKED).filter(|&i| db.answer(absent_key(i)).is_absent());
        assert!(denied.count() as u64 > ASKED * 9 / 10);
        assert!(db.put(b"key", b"value").is_err() && db.flush().is_err());
        assert!(db.consolidate().is_err());
        db.set_rate(Rate::ONE_PERCENT);
        settle(&db);
    }
    assert!(contents(home.path()) == before, "a file has changed");
    let refused = SieveDb::open_for_read_only(&options(), &sieve(), home.path(), true);
    assert!(matches!(refused, Err(OpenError::Engine { .. })));
}

/// Tables and sidecars that it reads go meanwhile.
#[test]
fn beside_a_writer_the_database_is_read_as_it_was() {
    let home = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    let db = open(home.path());
    for part in [0..300, 200..500] {
        fill(&db, &mut model, part);
        db.flush().unwrap();
    }
    cover(&db);
    settle(&db);
    fill(&db, &mut model, 500..600);
    let (reader, then) = (open_to_read(home.path()), model.clone());

    fill(&db, &mut model, 600..900);
    db.delete(b"key-00000250").unwrap();
    model.remove(&b"key-00000250"[..]);
    db.flush().unwrap();
    db.compact_range::<&[u8], &[u8]>(None, None);
    db.consolidate().unwrap();
    assert_eq!(db.live_files().unwrap().len(), 1);

    settle(&reader);
    agree(&reader, &then);
    agree(&db, &model);
}
