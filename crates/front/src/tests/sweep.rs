//! Filters of segments that are gone.

use super::memory_lsm::{Store, Stored};

/// Filters used to be dropped only if no compaction ran when a run began. Beside a long compaction the
/// filters of dead segments stayed, and took the budget from those of live ones.
#[test]
fn filters_of_dead_segments_are_dropped_while_a_compaction_runs() {
    const ROUNDS: u32 = 50;
    let store = Store::open(Stored::new(), &super::default_options());
    store.set_compacting(true);
    // The engine keeps its readers of dead segments while an older compaction runs.
    let mut readers = Vec::new();
    for round in 0..ROUNDS {
        store.put(b"first", &round.to_be_bytes());
        store.put(b"last", &round.to_be_bytes());
        store.flush();
        readers.extend(
            store
                .segments()
                .into_iter()
                .map(|id| store.cf_filter().intake().segments().open(id)),
        );
        store.compact();
        store.settle();
    }
    let registry = &store.filters.registry;
    let known = registry.ids().into_iter();
    let segments = known.filter_map(|id| registry.get(id));
    let filters = segments.filter(|segment| segment.filter().is_some());
    let filters = filters.count();
    assert!(filters <= 20, "{filters} filters, one segment is live");
    assert_eq!(store.denied_keys(), 0);
}

/// A compaction may write its SSTs for long before it installs them.
#[test]
fn filter_whose_segment_does_not_become_live_is_stored_in_the_eighth_run() {
    let store = Store::open_without_thread(Stored::new(), &super::default_options());
    store.look();
    store.put(b"key", b"value");
    store.set_compacting(true);
    let id = store.begin_flush();
    let is_known = || store.filters.registry.get(id).is_some();
    for run in 1..8 {
        store.look();
        assert!(is_known(), "run {run}");
    }
    store.look();
    assert!(!is_known());
    store.end_flush();
    store.look();
    let segment = store.filters.registry.get(id).unwrap();
    assert!(segment.filter().is_some() && segment.is_saved());
    assert_eq!(store.scans(), 0, "the filter was loaded");
}

/// It was compacted away, and the store closed before the next run.
#[test]
fn sidecar_of_a_segment_that_was_never_seen_is_removed_when_nothing_is_being_written() {
    let options = super::default_options();
    let store = Store::open_without_thread(Stored::new(), &options);
    store.put(b"key", b"value");
    store.flush();
    store.look();
    let [id] = store.segments()[..] else {
        panic!("one segment")
    };
    store.put(b"key", b"another value");
    store.flush();
    store.compact();
    let store = Store::open_without_thread(store.close(), &options);
    let has_sidecar = || store.filters.filter_store.list().contains(&id);
    store.set_compacting(true);
    (0..3).for_each(|_| store.look());
    assert!(has_sidecar(), "its segment may be under construction");
    store.set_compacting(false);
    (0..2).for_each(|_| store.look());
    assert!(!has_sidecar());
}
