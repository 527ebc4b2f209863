//! Audits of *absent* answers while the store changes.

use std::sync::Arc;

use super::memory_lsm::{Store, Stored};
use crate::options::FrontOptions;

/// While the audit reads the key, it is deleted and consolidated away: the new view is right to deny
/// it.
#[test]
fn audit_that_read_the_store_before_a_view_came_does_not_refute_it() {
    let options = FrontOptions {
        audit: Some(0),
        ..super::default_options()
    };
    let store = Arc::new(Store::open(Stored::new(), &options));
    store.settle();
    store.put(b"key", b"value");
    let changing = Arc::downgrade(&store);
    store.after_next_audit(move || {
        let store = changing.upgrade().unwrap();
        store.delete(b"key");
        store.flush();
        assert!(store.consolidate());
        assert!(store.rules_out(b"key"));
    });
    let is_absent = store.cf_filter().audit_negative(b"key");
    assert!(!is_absent, "the store had it");
    assert!(store.rules_out(b"key"), "the view came");
    assert_eq!(store.filters.false_negative(), None);
}

/// It would deny keys by a seed that is no longer trusted.
#[test]
fn family_that_comes_after_a_false_negative_denies_nothing() {
    let options = FrontOptions {
        audit: Some(0),
        ..super::default_options()
    };
    let store = Store::open_without_thread(Stored::new(), &options);
    store.look();
    store.other_thread().write_past_filters(b"key", b"value");
    assert!(store.rules_out(b"key"));
    assert!(!store.cf_filter().audit_negative(b"key"));
    assert!(store.filters.false_negative().is_some());
    let late = store.add_family("late");
    store.look();
    assert!(late.coverage().is_disabled());
    assert!(!late.answer(b"absent").is_absent());
}
