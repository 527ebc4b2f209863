//! Reads of several keys at one moment.

use std::convert::Infallible;
use std::sync::Arc;

use super::memory_lsm::{Store, Stored};
use crate::options::FrontOptions;

/// Each of the two keys was ruled out at its turn, and yet the record always existed.
#[test]
fn record_that_moves_between_two_absent_answers_is_found() {
    // Each *absent* is audited, which lets the test act between the two.
    let options = FrontOptions {
        audit: Some(1),
        ..FrontOptions::default()
    };
    let store = Arc::new(Store::open(Stored::new(), &options));
    store.put(b"from", b"record");
    assert!(store.consolidate());
    assert!(store.rules_out(b"to") && !store.rules_out(b"from"));
    let moving = Arc::downgrade(&store);
    store.after_next_audit(move || {
        let store = moving.upgrade().unwrap();
        store.move_record(b"from", b"to");
        store.flush();
        store.compact();
        assert!(store.consolidate());
        assert!(store.rules_out(b"from") && !store.rules_out(b"to"));
    });
    let found = store.multi_get(&[b"to", b"from"]);
    let Ok(found) = found.into_iter().collect::<Result<Vec<_>, Infallible>>();
    assert_eq!(found, [Some(b"record".to_vec()), None]);
}
