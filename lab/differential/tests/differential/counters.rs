//! The counters of a store, and when it says that a reorganisation is due.

use std::ops::ControlFlow;

use lsm_sieve::{Bits, Items, Rate};
use lsm_sieve_classics::math::differential::{Costs, Operation};
use lsm_sieve_differential::{
    Batch, DifferentialError, DifferentialOptions, DifferentialStore, FilterChoice, Trigger,
};
use lsm_sieve_filter::math::Probes;
use rocksdb::statistics::Ticker;
use std::time::Duration;

use super::model::key;
use super::refusals::{bare, make};
use super::{engine, open, with_filter};

const GREMILLION: FilterChoice = FilterChoice::Fixed {
    bits: Bits::new(65_536),
    probes: Probes::new(6),
};

#[test]
fn each_read_is_counted_once_and_by_kind() {
    for filter in [FilterChoice::Scalable, GREMILLION] {
        let home = tempfile::tempdir().unwrap();
        let store = open(home.path(), filter).unwrap();
        assert!(
            store
                .db()
                .filters()
                .wait_until_complete(Duration::from_secs(60))
        );
        store
            .load((0..1_000).map(|index| (key(index), b"main")))
            .unwrap();
        for index in 0..100 {
            store.put(key(index), b"newer").unwrap();
        }
        (100..110).for_each(|index| store.delete(key(index)).unwrap());
        let found = (0..1_000).filter(|&index| store.get(key(index)).unwrap().is_some());
        assert_eq!(found.count(), 990);
        store.multi_get((0..1_000).map(key));

        let stats = store.stats();
        assert_eq!(
            (stats.writes, stats.reads(), stats.found),
            (110, 2_000, 220)
        );
        assert_eq!(stats.transactions(), 2_110);
        assert_eq!(stats.main_reads(), 1_780);
        assert_eq!(stats.uncovered, 0);
        assert_eq!(stats.avoided + stats.unnecessary, 1_780);
        assert!(stats.observed_rate() < 0.02, "{filter:?}: {stats:?}");
    }
}

#[test]
fn failed_reads_are_not_counted() {
    let home = tempfile::tempdir().unwrap();
    make(home.path());
    let db = bare(home.path());
    let file = db.cf_handle("differential-1").unwrap();
    db.put_cf(file, key(1), b"\x09value").unwrap();
    drop(db);
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    store.get(key(1)).unwrap_err();
    let mut many = store.multi_get([key(1), key(2)]);
    assert_eq!(many.remove(1).unwrap(), None);
    many.remove(0).unwrap_err();
    let stats = store.stats();
    assert_eq!((stats.reads(), stats.found), (1, 0), "{stats:?}");
}

#[test]
fn with_sync_every_write_is_synced() {
    let home = tempfile::tempdir().unwrap();
    let mut engine = engine();
    engine.enable_statistics();
    let options = DifferentialOptions {
        sync: true,
        ..with_filter(FilterChoice::Scalable)
    };
    let store = DifferentialStore::open(&engine, &options, home.path()).unwrap();
    let syncs = || engine.get_ticker_count(Ticker::WalFileSynced);
    let mut before = syncs();
    let mut is_synced = |what: &str, written: Result<(), DifferentialError>| {
        written.unwrap();
        let after = syncs();
        assert!(after > before, "{what}");
        before = after;
    };
    let mut batch = Batch::default();
    batch.put(key(3), b"new");
    is_synced("a put", store.put(key(1), b"new"));
    is_synced("a delete", store.delete(key(2)));
    is_synced("a batch", store.write(&batch));
    is_synced("a load", store.load([(key(4), b"main")]));
}

/// (1 - (1 - 1/N)^(mk))^m with N = 16,384, m = 4, k = 7,000 is 0.4498 (Mullin 1983).
#[test]
fn small_fixed_filter_has_the_predicted_false_positive_rate() {
    let home = tempfile::tempdir().unwrap();
    let filter = FilterChoice::Fixed {
        bits: Bits::new(16_384),
        probes: Probes::new(4),
    };
    let store = open(home.path(), filter).unwrap();
    (0..7_000).for_each(|index| store.put(key(index), b"newer").unwrap());
    (10_000..30_000).for_each(|index| _ = store.get(key(index)).unwrap());
    // Six standard deviations of 20,000 probes, and 1 % for the variation of the fill ratio.
    let rate = store.stats().observed_rate();
    assert!((rate - 0.4498).abs() < 0.022 + 0.01, "{rate}");
    let predicted = store.extent().unwrap().predicted_rate;
    assert!(
        (rate - predicted).abs() < 0.022,
        "{rate}, predicted {predicted}"
    );
}

#[test]
fn reorganisation_empties_the_differential_file_and_its_filter() {
    for filter in [FilterChoice::Scalable, GREMILLION] {
        let home = tempfile::tempdir().unwrap();
        let store = open(home.path(), filter).unwrap();
        let triggers = [
            Trigger::Records(Items::new(4_000)),
            Trigger::Bytes(20_000),
            Trigger::FilterRate(Rate::new(1e-15).unwrap()),
        ];
        let due = || triggers.map(|trigger| store.is_due(trigger).unwrap());
        assert_eq!(due(), [false; 3], "{filter:?} {:?}", store.extent());
        (0..5_000).for_each(|index| store.put(key(index), [7; 100]).unwrap());
        assert_eq!(due(), [true; 3], "{filter:?} {:?}", store.extent());
        assert!(!store.is_due(Trigger::ByHand).unwrap());
        let mut last = 0;
        let done = store.reorganize(|progress| {
            assert!(progress.moved > last && progress.of >= progress.moved);
            last = progress.moved;
            ControlFlow::Continue(())
        });
        let done = done.unwrap();
        assert_eq!(
            (done.records, done.generations, done.finished),
            (5_000, 1, true)
        );
        assert_eq!(last, 5_000);
        let left = store.extent().unwrap();
        assert_eq!((left.generations, left.records), (1, Items::new(0)));
        assert_eq!(due(), [false; 3], "{filter:?} {left:?}");
        let families = rocksdb::DB::list_cf(&engine(), home.path()).unwrap();
        assert_eq!(families, ["default", "main", "differential-2"]);
        assert_eq!(store.get(key(17)).unwrap(), Some(vec![7; 100]));
    }
}

/// The best interval by the cost model, counted by the store.
#[test]
fn cost_model_interval_comes_due_and_restarts() {
    let operation = Operation {
        records: Items::new(1_000_000),
        updates: 0.08,
    };
    let costs = Costs {
        search: 100.0,
        main: 100.0,
        probe: 0.01,
        held: 0.001,
        reorganisation: 100.0,
        moved: 0.1,
    };
    let advice = operation.advise(&costs, None, None, 0.0);
    let plan = advice.recommended.unwrap().plan;
    let interval = plan.interval as u64;
    assert!((100..100_000).contains(&interval), "{interval}");
    let home = tempfile::tempdir().unwrap();
    let store = open(home.path(), FilterChoice::Scalable).unwrap();
    let due = || store.is_due(Trigger::Transactions(interval)).unwrap();
    for _ in 0..2 {
        store.put(key(1), b"new").unwrap();
        (2..interval).for_each(|_| _ = store.get(key(2)).unwrap());
        assert!(!due(), "one transaction early");
        store.get(key(2)).unwrap();
        assert!(due());
        store.reorganize(|_| ControlFlow::Continue(())).unwrap();
        assert!(!due());
    }
}
