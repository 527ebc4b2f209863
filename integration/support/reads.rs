//! Every call that reads values by key: one table for each type that has such calls.
//!
//! | table | reads of |
//! |---|---|
//! | [`of_db`] | a `SieveDb`: its own, and those of `rocksdb`'s database, to which it dereferences |
//! | [`of_handle`] | `rocksdb`'s own database, with the filters behind its handle |
//! | [`by_trait`] | any of `rocksdb`'s databases, by the trait that its snapshots read through |
//! | [`of_snapshot`] | a snapshot of a database or of a transaction |
//! | [`of_transaction`] | a transaction, for update or not |
//! | [`unfiltered`] | a `SieveDb`, past the filters |
//!
//! A call with `_cf` in its name reads the column family that it is given, another one the default
//! column family. `reads::counters::read_calls` compares the tables with the methods that exist.

use std::sync::Arc;

use lsm_sieve::{SieveDb, Transaction};
use rocksdb::perf::{PerfContext, PerfMetric, PerfStatsLevel, set_perf_stats};
use rocksdb::{
    AsColumnFamilyRef, BoundColumnFamily, DBAccess, DBWithThreadMode, Error, ReadOptions,
    SnapshotWithThreadMode, ThreadMode,
};

pub(crate) type Handle<'db> = Arc<BoundColumnFamily<'db>>;

/// What a read found.
pub(crate) type Found = Result<Option<Vec<u8>>, Error>;

/// Makes the read options of a call that takes some.
type OptionsOf<'o> = &'o dyn Fn() -> ReadOptions;

/// A key that does not exist.
pub(crate) const NOWHERE: &[u8] = b"nowhere";

type Call<On, C> = fn(&On, &C, &[&[u8]], OptionsOf<'_>) -> Vec<Found>;

/// A call that reads values of `On`, from a column family with a handle of type `C`.
pub(crate) struct Read<On, C> {
    pub(crate) name: &'static str,
    /// Whether one call reads several keys.
    is_batch: bool,
    call: Call<On, C>,
}

impl<On, C> Read<On, C> {
    /// The values of these keys, by one call for each or by one for all.
    pub(crate) fn values(
        &self,
        on: &On,
        cf: &C,
        keys: &[impl AsRef<[u8]>],
        options: OptionsOf<'_>,
    ) -> Vec<Found> {
        let keys: Vec<_> = keys.iter().map(AsRef::as_ref).collect();
        let values = (self.call)(on, cf, &keys, options);
        assert_eq!(values.len(), keys.len(), "{}", self.name);
        values
    }

    /// The value of one key. A batch has a second key, which does not exist.
    pub(crate) fn value(&self, on: &On, cf: &C, key: &[u8]) -> Found {
        let keys = [key, NOWHERE];
        let keys = if self.is_batch { &keys[..] } else { &keys[..1] };
        let mut values = self.values(on, cf, keys, &ReadOptions::default);
        if self.is_batch {
            assert_eq!(values.pop(), Some(Ok(None)), "{}", self.name);
        }
        values.remove(0)
    }

    /// The keys that [`Read::value`] reads.
    pub(crate) fn keys_a_call(&self) -> u64 {
        if self.is_batch { 2 } else { 1 }
    }

    pub(crate) fn names_a_cf(&self) -> bool {
        self.name.contains("_cf")
    }

    pub(crate) fn takes_options(&self) -> bool {
        self.name.ends_with("_opt")
    }
}

fn copied<V: AsRef<[u8]>>(found: Result<Option<V>, Error>) -> Found {
    found.map(|value| value.map(|value| value.as_ref().to_vec()))
}

/// A table of calls for one key and of calls for several.
macro_rules! table {
    (
        |$on:ident, $cf:ident, $options:ident|
        one $key:ident { $($one:ident($($of_one:expr),*),)* }
        several $keys:ident { $($several:ident($($of_several:expr),*),)* }
    ) => {
        vec![
            $(Read {
                name: stringify!($one),
                is_batch: false,
                call: |$on, $cf, keys, $options| {
                    _ = ($cf, $options);
                    keys.iter().map(|$key| copied($on.$one($($of_one),*))).collect()
                },
            },)*
            $(Read {
                name: stringify!($several),
                is_batch: true,
                call: |$on, $cf, $keys, $options| {
                    _ = ($cf, $options);
                    $on.$several($($of_several),*).into_iter().map(copied).collect()
                },
            },)*
        ]
    };
}

/// The calls that every type has; `$given` is how it takes its read options.
macro_rules! common {
    (|$options:ident| $given:expr) => {
        table! {|on, cf, $options|
            one key {
                get(key),
                get_opt(key, $given),
                get_cf(cf, key),
                get_cf_opt(cf, key, $given),
                get_pinned(key),
                get_pinned_opt(key, $given),
                get_pinned_cf(cf, key),
                get_pinned_cf_opt(cf, key, $given),
            }
            several keys {
                multi_get(keys),
                multi_get_opt(keys, $given),
                multi_get_cf(keys.iter().map(|key| (cf, key))),
                multi_get_cf_opt(keys.iter().map(|key| (cf, key)), $given),
            }
        }
    };
}

/// The calls that only databases have.
macro_rules! batched {
    () => {
        table! {|db, cf, options|
            one key {}
            several keys {
                batched_multi_get_cf(cf, keys, false),
                batched_multi_get_cf_opt(cf, keys, false, &options()),
            }
        }
    };
}

pub(crate) fn of_db<C: AsColumnFamilyRef>() -> Vec<Read<SieveDb, C>> {
    let tables: [Vec<Read<SieveDb, C>>; 2] = [common!(|options| &options()), batched!()];
    tables.into_iter().flatten().collect()
}

pub(crate) fn of_handle<T: ThreadMode, C: AsColumnFamilyRef>() -> Vec<Read<DBWithThreadMode<T>, C>>
{
    let tables: [Vec<Read<DBWithThreadMode<T>, C>>; 2] =
        [common!(|options| &options()), batched!()];
    tables.into_iter().flatten().collect()
}

pub(crate) fn unfiltered<C: AsColumnFamilyRef>() -> Vec<Read<SieveDb, C>> {
    table! {|db, cf, options|
        one key {
            get_unfiltered(key),
            get_unfiltered_cf(cf, key),
        }
        several keys {}
    }
}

pub(crate) fn by_trait<D: DBAccess, C: AsColumnFamilyRef>() -> Vec<Read<D, C>> {
    table! {|db, cf, options|
        one key {
            get_opt(key, &options()),
            get_cf_opt(cf, key, &options()),
            get_pinned_opt(key, &options()),
            get_pinned_cf_opt(cf, key, &options()),
        }
        several keys {
            multi_get_opt(keys, &options()),
            multi_get_cf_opt(keys.iter().map(|key| (cf, key)), &options()),
        }
    }
}

pub(crate) fn of_snapshot<'db, D: DBAccess, C: AsColumnFamilyRef>()
-> Vec<Read<SnapshotWithThreadMode<'db, D>, C>> {
    common!(|options| options())
}

/// The reads of a transaction, also those for update.
pub(crate) fn of_transaction<'db, C: AsColumnFamilyRef>() -> Vec<Read<Transaction<'db>, C>> {
    let mut reads: Vec<Read<Transaction<'db>, C>> = common!(|options| &options());
    reads.extend(for_update(true));
    reads
}

/// The reads for update that lock a key for one transaction, or share the lock.
pub(crate) fn for_update<'db, C: AsColumnFamilyRef>(
    exclusive: bool,
) -> Vec<Read<Transaction<'db>, C>> {
    macro_rules! for_update {
        ($exclusive:expr) => {
            table! {|transaction, cf, options|
                one key {
                    get_for_update(key, $exclusive),
                    get_for_update_opt(key, $exclusive, &options()),
                    get_for_update_cf(cf, key, $exclusive),
                    get_for_update_cf_opt(cf, key, $exclusive, &options()),
                    get_pinned_for_update(key, $exclusive),
                    get_pinned_for_update_opt(key, $exclusive, &options()),
                    get_pinned_for_update_cf(cf, key, $exclusive),
                    get_pinned_for_update_cf_opt(cf, key, $exclusive, &options()),
                }
                several keys {}
            }
        };
    }
    if exclusive {
        for_update!(true)
    } else {
        for_update!(false)
    }
}

/// Each read for update twice: sharing the lock, and not.
pub(crate) fn for_update_either_way<'db, C: AsColumnFamilyRef>()
-> impl Iterator<Item = [Read<Transaction<'db>, C>; 2]> {
    let [shared, exclusive] = [false, true].map(for_update);
    shared
        .into_iter()
        .zip(exclusive)
        .map(|(shared, exclusive)| [shared, exclusive])
}

/// How many SSTs this read skipped by their filters.
pub(crate) fn skipped_ssts(read: impl FnOnce()) -> u64 {
    set_perf_stats(PerfStatsLevel::EnableCount);
    let mut counters = PerfContext::default();
    counters.reset();
    read();
    let skipped = counters.metric(PerfMetric::BloomSstMissCount);
    set_perf_stats(PerfStatsLevel::Disable);
    skipped
}
