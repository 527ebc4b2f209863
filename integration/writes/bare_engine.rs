//! Uses of the engine that `with_engine_untracked` announces: they count as external writes.

use lsm_sieve::Answer;

use crate::support::model_db::{Model, absent_key, check_settled, cover, fill, open};

/// Until an announced use of the engine has returned, no key is denied.
#[test]
fn every_answer_is_maybe_while_the_bare_engine_is_used() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..200);
    cover(&db);
    db.with_engine_untracked(|engine| {
        engine.put(b"by the engine", b"x").unwrap();
        _ = db
            .filters()
            .wait_for_maintenance(std::time::Duration::from_secs(5));
        for i in 0..200 {
            assert_eq!(db.filters().answer(absent_key(i)), Answer::Maybe);
        }
        assert!(!db.filters().wait_until_complete(std::time::Duration::ZERO));
    });
    model.insert(b"by the engine".to_vec(), b"x".to_vec());
    check_settled(&db, &model);
}

#[test]
fn filters_resume_after_a_panic_in_the_bare_engine() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path());
    let mut model = Model::new();
    fill(&db, &mut model, 0..200);
    let used = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        db.with_engine_untracked(|engine| {
            engine.put(b"then it panicked", b"x").unwrap();
            std::panic::resume_unwind(Box::new("injected"));
        });
    }));
    assert!(used.is_err());
    model.insert(b"then it panicked".to_vec(), b"x".to_vec());
    check_settled(&db, &model);
}
