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
