//! The outcome of reads, and what the filters alone answer.

use std::collections::BTreeSet;
use std::iter::Sum;
use std::ops::{Add, Sub};

use lsm_sieve::SieveDb;
use rocksdb::{ErrorKind, ReadOptions};

use crate::structure::public_methods;
use crate::support::reads::{self, Found, Handle};

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

/// The tally of these values. A read may fail only because it may not read an SST.
pub(super) fn tally_of(values: Vec<Found>) -> Tally {
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

/// Whether a key may exist.
type May = fn(&SieveDb, &Handle<'_>, &[u8]) -> bool;

pub(super) const ANSWERS: [(&str, May); 6] = [
    ("answer", |db, _, key| !db.filters().answer(key).is_absent()),
    ("answer_cf", |db, cf, key| {
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
    let of_db = reads::of_db::<Handle<'_>>()
        .into_iter()
        .map(|read| read.name);
    let unfiltered = reads::unfiltered::<Handle<'_>>();
    let of_db = of_db.chain(unfiltered.into_iter().map(|read| read.name));
    let of_db = of_db.map(|name| format!("SieveDb::{name}"));
    let of_filters = ANSWERS.iter().map(|(name, _)| format!("Sieve::{name}"));
    let of_transaction = reads::of_transaction::<Handle<'_>>().into_iter();
    let of_transaction = of_transaction.map(|read| format!("Transaction::{}", read.name));
    let table: BTreeSet<_> = of_db.chain(of_filters).chain(of_transaction).collect();
    let mut there = public_methods::methods_that(is_a_read);
    // Snapshots read by methods of the same names.
    there.retain(|method| !method.starts_with("DBAccess::"));
    // The other rows are of `rocksdb`'s database, to which ours dereferences.
    let missing: Vec<_> = there.difference(&table).collect();
    assert!(missing.is_empty(), "without a row: {missing:?}");
}
