//! The RocksDB plugin.
//!
//! | file | what it holds |
//! |---|---|
//! | `shim.cc`, `ffi` | the hooks inside RocksDB; with `db/access`, the only unsafe code |
//! | `options` | what a front may be told |
//! | `coverage` | what a reader consults, and when it may say *absent* |
//! | `column`, `columns` | the front of one column family: readers, memtables, tables; all of them |
//! | `memtables` | what memtables feed |
//! | `inventory` | the second look: the filters of the tables and of the latest memtables |
//! | `range`, `runs` | what a table spans; of many tables' filters, those that a key concerns |
//! | `bound` | the family that a front is bound to |
//! | `instance_ids` | what binds an SST that carries no id, while the database is open |
//! | `audit`, `pace`, `trust` | negatives that are checked now and then, and what follows from a false one |
//! | `table` | the filter of an SST while it is written |
//! | `listener` | what hears of flushes, compactions and ingestions |
//! | `bell`, `upkeep`, `shelf` | the background thread and the folder of filters |
//! | `setback` | what failed, and when it is tried again |
//! | `scrub` | whether the filters in memory are what they were |
//! | `planning` | what becomes of the filters of tables |
//! | `probe` | the proof, before a database is opened, that the hooks fire |
//! | `db` | [`SieveDb`] |
//! | `family` | a column family that is looked up once |
//! | `health`, `inspect`, `verify` | what there is, at a glance and in full, and whether it is right |
//! | `error` | what can go wrong while a database is opened or looked at |

mod audit;
mod bell;
mod bound;
mod column;
mod columns;
mod coverage;
mod db;
mod error;
mod family;
mod ffi;
mod health;
#[cfg(test)]
mod held;
mod inspect;
mod instance_ids;
#[cfg(all(test, interleave = "shuttle"))]
mod interleavings;
mod inventory;
mod listener;
mod memtables;
mod options;
mod pace;
mod planning;
#[cfg(test)]
mod power;
mod probe;
mod range;
mod runs;
mod scrub;
mod setback;
mod shelf;
mod table;
mod trust;
mod upkeep;
mod verify;

pub use audit::Refutation;
pub(crate) use audit::Sample;
pub use coverage::{Answer, Proof};
pub use db::{ColumnFamilyMetaData, SieveDb, Snapshot, Transaction, TransactionSettings};
pub use error::{InspectError, OpenError, UpkeepFailed};
pub(crate) use family::Family;
pub(crate) use ffi::drops_entries;
pub use health::{FamilyHealth, Health};
pub use inspect::{ColumnReport, FilterReport, Inspection, SegmentReport};
pub use options::{FilterMemory, SieveOptions};
pub(crate) use pace::Pace;
pub use planning::FilterPlan;
pub use scrub::Scrubbed;
pub use verify::{LostKey, VerifyReport};

/// The wrapped engine: a RocksDB whose column families may be created and dropped while shared.
pub type Engine = rocksdb::DBWithThreadMode<rocksdb::MultiThreaded>;

/// These options, to open an engine to read only.
///
/// Where the manifest lists logs and the options do not, RocksDB 11.8.1 strikes them from it; its
/// read-only instance, which cannot, follows a null pointer.
pub(crate) fn read_only(options: &rocksdb::Options) -> rocksdb::Options {
    let mut options = options.clone();
    options.set_track_and_verify_wals_in_manifest(true);
    options
}

/// These options, to open an engine as a secondary.
///
/// RocksDB 11.8.1 knows a table by its number, which may come back as another one unless all are kept open;
/// its secondary archives and removes the writer's logs by these settings; and it crashes where it flushes a
/// log of its own by hand.
pub(crate) fn secondary(options: &rocksdb::Options) -> rocksdb::Options {
    const NEVER: u64 = 1 << 62;
    let mut options = options.clone();
    options.set_max_open_files(-1);
    options.set_wal_ttl_seconds(0);
    options.set_wal_size_limit_mb(0);
    options.set_delete_obsolete_files_period_micros(NEVER);
    options.set_manual_wal_flush(false);
    options
}
