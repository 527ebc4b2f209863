//! Filters within a memory budget.

use super::memory_lsm::{Store, Stored};
use crate::cf_filter::CfFilter;
use crate::math::{Bits, Items};
use crate::options::{FrontOptions, sizes_for};

#[test]
fn budget_for_a_summary_alone_has_room_for_one() {
    let keys = Items::new(50_000);
    let options = FrontOptions {
        segment_rate: None,
        expected_keys: Some(keys),
        ..super::default_options()
    };
    let options = options.shared_by(1, CfFilter::OVERHEAD);
    let (summary, _) = sizes_for(&options, keys);
    let options = FrontOptions {
        memory_budget: Some(summary + CfFilter::OVERHEAD).into(),
        ..options
    };
    let mut stored = Stored::new();
    for _ in 0..2 {
        let store = Store::open(stored, &options);
        (0..keys.get()).for_each(|key| store.put(&key.to_be_bytes(), b"value"));
        store.flush();
        store.settle();
        assert!(store.is_complete());
        assert!(store.consolidate());
        assert!(!store.cf_filter().view().summary.is_saturated());
        stored = store.close();
    }
}

/// It may be built anew where no room is left.
#[test]
fn room_for_a_filter_is_what_is_left_and_what_it_takes_itself() {
    let store = Store::open_without_thread(Stored::new(), &super::default_options());
    (0..1_000_u32).for_each(|key| store.put(&key.to_be_bytes(), b"value"));
    store.flush();
    store.look();
    let (filters, registry) = (&store.filters, &store.filters.registry);
    let summaries = filters.cf_filters.size_of_published(None);
    let taken = summaries + registry.size() + filters.cf_filters.overhead();
    filters.set_memory_budget(Some(taken.to_bytes() + 100));
    let own = registry.size();
    let left = filters.room(Bits::new(0));
    assert!((100..=101).contains(&left.to_bytes()), "{left:?}");
    assert!(own > Bits::new(0) && filters.room(own) == left + own);
}

#[test]
fn summaries_of_many_column_families_keep_to_a_budget() {
    const FAMILIES: usize = 41;
    const BUDGET: Bits = Bits::new(6_500_000);
    let overhead = CfFilter::OVERHEAD.get() * FAMILIES as u64;
    let options = FrontOptions {
        expected_keys: Some(Items::new(100)),
        memory_budget: Some(BUDGET).into(),
        ..super::default_options()
    };
    let options = options.shared_by(FAMILIES, Bits::new(overhead));
    let store = Store::open(Stored::new(), &options);
    (1..FAMILIES).for_each(|i| _ = store.add_family(&format!("family-{i}")));
    store.settle();
    let cf_filters = &store.filters.cf_filters;
    assert_eq!(cf_filters.all().len(), FAMILIES);
    assert!(
        cf_filters
            .all()
            .iter()
            .all(|cf_filter| cf_filter.is_complete())
    );
    store.put(b"key", b"value");
    (0..3).for_each(|_| store.settle());
    for cf_filter in cf_filters.all() {
        let is_saturated = cf_filter.view().summary.is_saturated();
        assert!(!is_saturated, "{}", cf_filter.name());
    }
    let (summaries, beside) = (cf_filters.size_of_published(None), cf_filters.overhead());
    assert!(summaries + beside <= BUDGET, "{summaries:?}, {beside:?}");
}
