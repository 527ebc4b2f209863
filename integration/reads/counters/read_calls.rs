//! Every read, and its outcome.

use std::collections::BTreeSet;
use std::iter::Sum;
use std::ops::{Add, Sub};
use std::sync::Arc;

use lsm_sieve::{SieveDb, Snapshot, Transaction};
use rocksdb::{BoundColumnFamily, Error, ErrorKind, ReadOptions};

use crate::structure::public_methods;

type Handle<'db> = Arc<BoundColumnFamily<'db>>;

/// The outcomes of reads of several keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) found: u64,
    pub(super) missing: u64,
    pub(super) failed: u64,
}

impl Add for Tally {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            found: self.found + other.found,
            missing: self.missing + other.missing,
            failed: self.failed + other.failed,
        }
    }
}

impl Sub for Tally {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            found: self.found - other.found,
            missing: self.missing - other.missing,
            failed: self.failed - other.failed,
        }
    }
}

impl Sum for Tally {
    fn sum<I: Iterator<Item = Self>>(tallies: I) -> Self {
        tallies.fold(Self::default(), Add::add)
    }
}

fn of<V>(values: impl IntoIterator<Item = Result<Option<V>, Error>>) -> Tally {
    let mut tally = Tally::default();
    for value in values {
        match value {
            Ok(Some(_)) => tally.found += 1,
            Ok(None) => tally.missing += 1,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Incomplete, "{error}");
                tally.failed += 1;
            }
        }
    }
    tally
}

/// A table of reads of one key, called once per key, and of reads of several keys, called once for
/// all.
macro_rules! reads {
    (
        |$on:ident, $cf:ident, $options:ident|
        one $key:ident { $($one:ident($($of_one:expr),*),)* }
        several $keys:ident { $($several:ident($($of_several:expr),*),)* }
    ) => {
        &[
            $((stringify!($one), |$on, $cf, keys, $options| {
                _ = ($cf, $options);
                of(keys.iter().map(|$key| $on.$one($($of_one),*)))
            }),)*
            $((stringify!($several), |$on, $cf, $keys, $options| {
                _ = ($cf, $options);
                of($on.$several($($of_several),*))
            }),)*
        ]
    };
}

type ReadOptionsOf = fn() -> ReadOptions;

type OfDb = fn(&SieveDb, &Handle<'_>, &[Vec<u8>], ReadOptionsOf) -> Tally;

pub(super) const READS: &[(&str, OfDb)] = reads! {|db, cf, options|
    one key {
        get(key),
        get_opt(key, &options()),
        get_cf(cf, key),
        get_cf_opt(cf, key, &options()),
        get_pinned(key),
        get_pinned_opt(key, &options()),
        get_pinned_cf(cf, key),
        get_pinned_cf_opt(cf, key, &options()),
    }
    several keys {
        multi_get(keys),
        multi_get_opt(keys, &options()),
        multi_get_cf(keys.iter().map(|key| (cf, key))),
        multi_get_cf_opt(keys.iter().map(|key| (cf, key)), &options()),
        batched_multi_get_cf(cf, keys, false),
        batched_multi_get_cf_opt(cf, keys, false, &options()),
    }
};

type OfSnapshot = fn(&Snapshot<'_>, &Handle<'_>, &[Vec<u8>], ReadOptionsOf) -> Tally;

pub(super) const SNAPSHOT_READS: &[(&str, OfSnapshot)] = reads! {|snapshot, cf, options|
    one key {
        get(key),
        get_opt(key, options()),
        get_cf(cf, key),
        get_cf_opt(cf, key, options()),
        get_pinned(key),
        get_pinned_opt(key, options()),
        get_pinned_cf(cf, key),
        get_pinned_cf_opt(cf, key, options()),
    }
    several keys {
        multi_get(keys),
        multi_get_opt(keys, options()),
        multi_get_cf(keys.iter().map(|key| (cf, key))),
        multi_get_cf_opt(keys.iter().map(|key| (cf, key)), options()),
    }
};

type OfTransaction = fn(&Transaction<'_>, &Handle<'_>, &[Vec<u8>], ReadOptionsOf) -> Tally;

pub(super) const TRANSACTION_READS: &[(&str, OfTransaction)] = reads! {|transaction, cf, options|
    one key {
        get(key),
        get_opt(key, &options()),
        get_cf(cf, key),
        get_cf_opt(cf, key, &options()),
        get_pinned(key),
        get_pinned_opt(key, &options()),
        get_pinned_cf(cf, key),
        get_pinned_cf_opt(cf, key, &options()),
        get_for_update(key, true),
        get_for_update_opt(key, true, &options()),
        get_for_update_cf(cf, key, true),
        get_for_update_cf_opt(cf, key, true, &options()),
        get_pinned_for_update(key, true),
        get_pinned_for_update_opt(key, true, &options()),
        get_pinned_for_update_cf(cf, key, true),
        get_pinned_for_update_cf_opt(cf, key, true, &options()),
    }
    several keys {
        multi_get(keys),
        multi_get_opt(keys, &options()),
        multi_get_cf(keys.iter().map(|key| (cf, key))),
        multi_get_cf_opt(keys.iter().map(|key| (cf, key)), &options()),
    }
};

/// Whether a key may exist.
type May = fn(&SieveDb, &Handle<'_>, &[u8]) -> bool;

pub(super) const ANSWERS: [(&str, May); 6] = [
    ("filter_answer", |db, _, key| {
        !db.filters().answer(key).is_absent()
    }),
    ("filter_answer_cf", |db, cf, key| {
        !db.filters().answer_cf(cf, key).is_absent()
    }),
    ("key_may_exist", |db, _, key| db.key_may_exist(key)),
    ("key_may_exist_opt", |db, _, key| {
        db.key_may_exist_opt(key, &ReadOptions::default())
    }),
    ("key_may_exist_cf", |db, cf, key| {
        db.key_may_exist_cf(cf, key)
    }),
    ("key_may_exist_cf_opt", |db, cf, key| {
        db.key_may_exist_cf_opt(cf, key, &ReadOptions::default())
    }),
];

/// Reads past the filters, which are not counted.
const UNCOUNTED: [&str; 2] = ["SieveDb::get_unfiltered", "SieveDb::get_unfiltered_cf"];

fn is_a_read(name: &str, signature: &str) -> bool {
    let gives = [
        "Option<Vec<u8>>",
        "Option<DBPinnableSlice<'_>>",
        "Values<",
        "-> Answer",
    ];
    gives.iter().any(|value| signature.contains(value)) || name.starts_with("key_may_exist")
}

#[test]
fn every_read_has_a_row() {
    let of_db = READS.iter().map(|(name, _)| *name);
    let of_db = of_db.chain(ANSWERS.iter().map(|(name, _)| *name));
    let of_db = of_db.map(|name| format!("SieveDb::{name}"));
    let of_transaction = TRANSACTION_READS.iter().map(|(name, _)| *name);
    let of_transaction = of_transaction.map(|name| format!("Transaction::{name}"));
    let uncounted = UNCOUNTED.iter().map(ToString::to_string);
    let table: BTreeSet<_> = of_db.chain(of_transaction).chain(uncounted).collect();
    let mut there = public_methods::methods_that(is_a_read);
    // Snapshots read by methods of the same names.
    there.retain(|method| !method.starts_with("DBAccess::"));
    // The other rows are of `rocksdb`'s database, to which ours dereferences.
    let missing: Vec<_> = there.difference(&table).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
}
