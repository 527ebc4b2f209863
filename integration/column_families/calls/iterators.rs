//! Iterators of the database, of its snapshots and of transactions.

use lsm_sieve::{SieveDb, Snapshot, Transaction};
use rocksdb::{
    DBAccess, DBIteratorWithThreadMode, DBRawIteratorWithThreadMode, IteratorMode, ReadOptions,
};

use super::{Handle, KINDS, Kind, OTHER, World, report};
use crate::support::model_db::Model;

/// What an iterator returns.
trait Entries {
    fn entries(self) -> Model;
}

impl<D: DBAccess> Entries for DBIteratorWithThreadMode<'_, D> {
    fn entries(self) -> Model {
        let entries = self.map(|entry| entry.unwrap());
        entries
            .map(|(key, value)| (key.into(), value.into()))
            .collect()
    }
}

impl<D: DBAccess> Entries for DBRawIteratorWithThreadMode<'_, D> {
    fn entries(mut self) -> Model {
        let mut entries = Model::new();
        self.seek_to_first();
        while let Some((key, value)) = self.item() {
            entries.insert(key.to_vec(), value.to_vec());
            self.next();
        }
        self.status().unwrap();
        entries
    }
}

macro_rules! iterators {
    (|$on:ident, $cf:ident| $($method:ident($($argument:expr),*),)*) => {
        &[$((
            stringify!($method),
            |$on, $cf| Entries::entries($on.$method($($argument),*)),
        ),)*]
    };
}

const START: IteratorMode<'_> = IteratorMode::Start;

type OfDb = fn(&SieveDb, &Handle<'_>) -> Model;

const ITERATORS: &[(&str, OfDb)] = iterators! {|db, cf|
    iterator_cf(cf, START),
    iterator_cf_opt(cf, ReadOptions::default(), START),
    full_iterator_cf(cf, START),
    prefix_iterator_cf(cf, ""),
    raw_iterator_cf(cf),
    raw_iterator_cf_opt(cf, ReadOptions::default()),
};

type OfSnapshot = fn(&Snapshot<'_>, &Handle<'_>) -> Model;

/// All by `create_iterator_cf` of the trait that snapshots read through.
const SNAPSHOT_ITERATORS: &[(&str, OfSnapshot)] = iterators! {|snapshot, cf|
    iterator_cf(cf, START),
    iterator_cf_opt(cf, ReadOptions::default(), START),
    raw_iterator_cf(cf),
    raw_iterator_cf_opt(cf, ReadOptions::default()),
};

type OfTransaction = fn(&Transaction<'_>, &Handle<'_>) -> Model;

const TRANSACTION_ITERATORS: &[(&str, OfTransaction)] = iterators! {|transaction, cf|
    iterator_cf(cf, START),
    iterator_cf_opt(cf, ReadOptions::default(), START),
    full_iterator_cf(cf, START),
    prefix_iterator_cf(cf, ""),
    raw_iterator_cf(cf),
    raw_iterator_cf_opt(cf, ReadOptions::default()),
};

pub(super) fn names() -> Vec<String> {
    let of_db = ITERATORS.iter().map(|(name, _)| format!("SieveDb::{name}"));
    let of_transaction = TRANSACTION_ITERATORS.iter();
    let of_transaction = of_transaction.map(|(name, _)| format!("Transaction::{name}"));
    let of_trait = "DBAccess::create_iterator_cf".to_owned();
    of_db.chain(of_transaction).chain([of_trait]).collect()
}

#[test]
fn iterators_cover_their_cf() {
    let mut variants = 0;
    for kind in KINDS {
        let world = World::new(kind);
        let cf = world.handle(OTHER);
        for (name, iterate) in ITERATORS {
            assert_eq!(iterate(&world.db, &cf), world.other, "{name}");
        }
        let snapshot = world.db.snapshot();
        for (name, iterate) in SNAPSHOT_ITERATORS {
            assert_eq!(iterate(&snapshot, &cf), world.other, "{name} of a snapshot");
        }
        variants += ITERATORS.len() + SNAPSHOT_ITERATORS.len();
        if kind != Kind::Plain {
            variants += over_own_writes(&world, &cf);
        }
    }
    report("iterators", names().len(), variants);
}

/// Returns the number of iterators.
fn over_own_writes(world: &World, cf: &Handle<'_>) -> usize {
    let transaction = world.db.transaction().unwrap();
    transaction.put("of the default family", "value").unwrap();
    transaction.put_cf(cf, "its own", "value").unwrap();
    let mut expected = world.other.clone();
    expected.insert(b"its own".to_vec(), b"value".to_vec());
    for (name, iterate) in TRANSACTION_ITERATORS {
        assert_eq!(
            iterate(&transaction, cf),
            expected,
            "{name} of {:?}",
            world.kind
        );
    }
    TRANSACTION_ITERATORS.len()
}
