//! Transactions that insert a key if it is absent, compared with those of RocksDB alone: an
//! `OptimisticTransactionDB`, then a `TransactionDB`, with a Bloom filter of 10 bits per key, all
//! of it cached.
//!
//! ```text
//! look      begin; get_for_update of an absent key; drop
//! make      begin; get_for_update of an absent key; put; commit
//! there     begin; get_for_update of a present key; drop
//! ```
//!
//! The two databases take turns, round by round; times are medians over the rounds. Run with `cargo
//! bench --bench transactions`; `-- 1000000` for another number of keys.

#[expect(dead_code, reason = "each bench uses what it needs of it")]
mod common;
#[path = "common/database.rs"]
mod database;

use std::hint::black_box;
use std::ops::Range;
use std::time::Instant;

use common::{key, keys_asked_for, median};
use database::options;
use lsm_sieve::{Isolation, SieveDb, SieveOptions, TransactionSettings};
use rocksdb::{
    Error, IteratorMode, MultiThreaded, OptimisticTransactionDB, TransactionDB,
    TransactionDBOptions, WriteOptions,
};

const ROUNDS: u64 = 9;
const LOOKS: u64 = 100_000;

/// Too few to fill a memtable, so that nothing is flushed meanwhile.
const MADE: u64 = 20_000;

/// Sorted runs.
const RUNS: u64 = 4;

/// The first id of absent keys.
const ABSENT: u64 = 1 << 40;

/// One of the two databases.
trait Subject {
    fn add(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;
    fn end_run(&self) -> Result<(), Error>;
    /// Reads every key, so that all is cached; returns their number.
    fn count(&self) -> usize;
    /// Whether the key is present, in a transaction that does nothing else.
    fn look(&self, key: &[u8]) -> Result<bool, Error>;
    fn make(&self, key: &[u8], value: &[u8]) -> Result<(), Error>;
}

macro_rules! subject {
    ($type:ty, $settings:expr, $($question_mark:tt)?) => {
        impl Subject for $type {
            fn add(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
                self.put(key, value)
            }

            fn end_run(&self) -> Result<(), Error> {
                self.flush()
            }

            fn count(&self) -> usize {
                self.iterator(IteratorMode::Start).count()
            }

            fn look(&self, key: &[u8]) -> Result<bool, Error> {
                let transaction = self.transaction()$($question_mark)?;
                let found = transaction.get_pinned_for_update(key, true)?;
                Ok(found.is_some())
            }

            fn make(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
                let mut unlogged = WriteOptions::default();
                unlogged.disable_wal(true);
                let transaction = self.transaction_opt(&unlogged, $settings)$($question_mark)?;
                if transaction.get_pinned_for_update(key, true)?.is_none() {
                    transaction.put(key, value)?;
                }
                transaction.commit()
            }
        }
    };
}
subject!(OptimisticTransactionDB<MultiThreaded>, &<_>::default(),);
subject!(TransactionDB<MultiThreaded>, &<_>::default(),);
subject!(SieveDb, TransactionSettings::Default, ?);

fn fill(subject: &impl Subject, keys: u64) -> Result<(), Error> {
    for run in 0..RUNS {
        for id in (run..keys).step_by(RUNS as usize) {
            subject.add(&key(id), &[b'v'; 100])?;
        }
        subject.end_run()?;
    }
    assert_eq!(subject.count() as u64, keys, "every key is read");
    Ok(())
}

/// Nanoseconds per key.
fn ns_each(
    ids: Range<u64>,
    mut work: impl FnMut(&[u8]) -> Result<(), Error>,
) -> Result<f64, Error> {
    let keys: Vec<[u8; 16]> = ids.map(key).collect();
    let start = Instant::now();
    keys.iter().try_for_each(|key| work(key))?;
    Ok(start.elapsed().as_nanos() as f64 / keys.len() as f64)
}

/// One round of one database.
type Round<'a> = &'a dyn Fn(u64) -> Result<f64, Error>;

#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn compare(what: &str, native: Round<'_>, sieve: Round<'_>) -> Result<(), Error> {
    let (mut natives, mut sieves) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        natives.push(native(round)?);
        sieves.push(sieve(round)?);
    }
    let (native, sieve) = (median(natives), median(sieves));
    let ratio = native / sieve;
    println!("{what:<8} RocksDB {native:>7.0} ns, front {sieve:>7.0} ns: {ratio:.2} times as fast");
    Ok(())
}

/// The times of transactions of both kinds, with RocksDB alone and with the filters.
fn compare_all(
    native: &impl Subject,
    sieve: &SieveDb,
    keys: u64,
) -> Result<(), Box<dyn std::error::Error>> {
    fill(native, keys)?;
    fill(sieve, keys)?;
    sieve.filters().consolidate()?;

    let absent = |round| ABSENT + round * LOOKS..ABSENT + (round + 1) * LOOKS;
    let look = |subject: &dyn Subject, ids| {
        ns_each(ids, |key| {
            black_box(subject.look(key)?);
            Ok(())
        })
    };
    compare("look", &|round| look(native, absent(round)), &|round| {
        look(sieve, absent(round))
    })?;
    let there = |round: u64| {
        let first = round * LOOKS % keys;
        first..(first + LOOKS).min(keys)
    };
    compare("there", &|round| look(native, there(round)), &|round| {
        look(sieve, there(round))
    })?;
    let fresh = |round| 2 * ABSENT + round * MADE..2 * ABSENT + (round + 1) * MADE;
    let make = |subject: &dyn Subject, ids| ns_each(ids, |key| subject.make(key, &[b'v'; 100]));
    compare("make", &|round| make(native, fresh(round)), &|round| {
        make(sieve, fresh(round))
    })?;
    Ok(())
}

#[expect(clippy::print_stdout, reason = "a bench reports on standard output")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let keys = keys_asked_for(4_000_000) as u64;
    let optimistic = SieveOptions::default().transactions(Isolation::Optimistic);
    let locking = TransactionDBOptions::default();
    let of_locks =
        SieveOptions::default().transactions(Isolation::locks(TransactionDBOptions::default()));

    println!("optimistic");
    let home = tempfile::tempdir()?;
    let native = home.path().join("native");
    let native = OptimisticTransactionDB::<MultiThreaded>::open(&options(), native)?;
    let sieve = SieveDb::open(&options(), &optimistic, home.path().join("sieve"))?;
    compare_all(&native, &sieve, keys)?;
    drop((native, sieve, home));

    println!("with locks");
    let home = tempfile::tempdir()?;
    let native = home.path().join("native");
    let native = TransactionDB::<MultiThreaded>::open(&options(), &locking, native)?;
    let sieve = SieveDb::open(&options(), &of_locks, home.path().join("sieve"))?;
    compare_all(&native, &sieve, keys)
}
