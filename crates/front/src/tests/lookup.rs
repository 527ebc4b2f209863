//! What a thread's last lookup says of its next one.

use super::memory_lsm::{Store, Stored};
use crate::options::FrontOptions;
use crate::threads::OwnSlot;

/// A store with one key in a segment and one in a memtable.
fn filled(options: &FrontOptions) -> Store {
    let store = Store::open_without_thread(Stored::new(), options);
    store.put(b"in a segment", b"value");
    store.flush();
    store.put(b"in a memtable", b"value");
    (0..2).for_each(|_| store.look());
    assert!(store.is_complete());
    store
}

/// Whether the predictor expects that the engine probes segment filters, after a hit of `key`.
fn expects_probes_after(store: &Store, key: &[u8]) -> bool {
    assert!(store.get(key).is_some());
    let slot = OwnSlot::taken().unwrap();
    let counters = store.cf_filter().lookups().counters();
    counters.predictor(slot).expects_segment_probes()
}

#[test]
fn segment_probes_are_expected_after_a_hit_in_a_segment() {
    let store = filled(&super::default_options());
    for _ in 0..2 {
        assert!(expects_probes_after(&store, b"in a segment"));
        assert!(!expects_probes_after(&store, b"in a memtable"));
    }
}

/// The engine's own filters cannot be prefetched.
#[test]
fn segment_probes_are_not_expected_without_segment_filters() {
    let store = filled(&FrontOptions {
        segment_rate: None,
        ..super::default_options()
    });
    assert!(!expects_probes_after(&store, b"in a segment"));
}
