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
