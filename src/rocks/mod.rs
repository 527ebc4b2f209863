//! The RocksDB plugin: RocksDB as the engine behind `front`, and [`SieveDb`].
//!
//! # Map
//!
//! Each module uses only what stands before it.
//!
//! | module | contents |
//! |---|---|
//! | `options` | [`SieveOptions`]: every setting |
//! | `error` | errors of open, maintenance and reports |
//! | `hooks` | the hooks inside RocksDB and their self-check; with `db/access`, the only unsafe code |
//! | `engine` | RocksDB as `front` asks it |
//! | `db` | [`SieveDb`]: open, reads, writes, transactions, column families |
//! | `report` | health, inspect, verify: cheap, in full, and checked against all keys |
//! | `tests` | tests that need a whole database: blocked flushes, power cuts |

mod db;
mod engine;
mod error;
pub(crate) mod hooks;
mod options;
mod report;
#[cfg(test)]
pub(crate) mod tests;

pub(crate) use db::CfReader;
pub use db::{Builder, ColumnFamilyMetaData, SieveDb, Snapshot, Transaction, TransactionSettings};
pub use error::{InspectError, MaintenanceError, OpenError};
pub(crate) use hooks::drops_entries;
pub use options::{FilterMemory, Isolation, SieveOptions};
pub use report::{
    CfHealth, CfReport, FilterReport, Health, Inspection, LostKey, SegmentReport, VerifyReport,
};

/// The wrapped engine: a RocksDB whose column families may be created and dropped while it is
/// shared.
pub type Engine = rocksdb::DBWithThreadMode<rocksdb::MultiThreaded>;

/// These options, changed for an engine that is opened to read only.
///
/// If the manifest tracks WALs and the options do not, RocksDB 11.8.1 removes them from the
/// manifest. Its read-only instance cannot, and dereferences a null pointer.
pub(crate) fn read_only(options: &rocksdb::Options) -> rocksdb::Options {
    let mut options = options.clone();
    options.set_track_and_verify_wals_in_manifest(true);
    options
}

/// These options, changed for an engine that is opened as a secondary.
///
/// RocksDB 11.8.1 identifies an SST by its file number, and the number may come back as another SST
/// unless all files are kept open. Its secondary archives and deletes the writer's WALs by the
/// settings below. It crashes when it flushes a WAL of its own manually.
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
