//! The RocksDB plugin.
//!
//! One column family has a `cf_filter::CfFilter`: its summary filter, its memtable filters and
//! its segment filters. The hooks feed it, lookups read it, and the maintenance thread rebuilds it.
//!
//! | file | what it holds |
//! |---|---|
//! | `hooks/shim`, `ffi` | the hooks inside RocksDB; with `db/access`, the only unsafe code |
//! | `options` | [`SieveOptions`]: every setting and the sizes that follow from it |
//! | `range`, `runs` | the key range of an SST; SSTs in sorted runs, searched by key |
//! | `segment_filters` | the segment filters of all live SSTs, and the memtable filters |
//! | `coverage` | the view that a lookup reads, and the proof that a key is *absent* |
//! | `memtables` | the filters that each memtable feeds |
//! | `cf_filter`, `cf_filters` | the filters of one column family; those of all |
//! | `table` | the segment filter of an SST while RocksDB writes it |
//! | `audit`, `throttle`, `trust` | sampled negatives, read again; how often; false negatives |
//! | `bound` | finds the column family that a `CfFilter` belongs to |
//! | `instance_ids` | ids for SSTs without one, valid while the database is open |
//! | `listener` | flush, compaction and ingestion events |
//! | `planning` | which segment filters are kept, rebuilt or dropped |
//! | `filter_store` | the folder of sidecars |
//! | `wakeup`, `maintenance` | how the background thread is woken; its runs |
//! | `backoff` | failed work, and when it is tried again |
//! | `scrub` | verifies the checksums of the filters in memory |
//! | `probe` | the self-check of the hooks before the first open |
//! | `cf` | a column family whose handle and filters are looked up once |
//! | `db` | [`SieveDb`] |
//! | `health`, `inspect`, `verify` | reports: cheap, in full, and checked against all keys |
//! | `error` | errors of open, maintenance and reports |
//! | `held`, `interleavings`, `power` | tests: blocked flushes, interleavings, power cuts |

mod audit;
mod backoff;
mod bound;
mod cf;
mod cf_filter;
mod cf_filters;
mod coverage;
mod db;
mod error;
mod ffi;
mod filter_store;
mod health;
#[cfg(test)]
mod held;
mod inspect;
mod instance_ids;
#[cfg(all(test, interleave = "shuttle"))]
mod interleavings;
mod listener;
mod maintenance;
mod memtables;
mod options;
mod planning;
#[cfg(test)]
mod power;
mod probe;
mod range;
mod runs;
mod scrub;
mod segment_filters;
mod table;
mod throttle;
mod trust;
mod verify;
mod wakeup;

pub use audit::FalseNegative;
pub(crate) use audit::Sampler;
pub(crate) use cf::CfReader;
pub use coverage::{AbsenceProof, Answer};
pub use db::{ColumnFamilyMetaData, SieveDb, Snapshot, Transaction, TransactionSettings};
pub use error::{InspectError, MaintenanceError, OpenError};
pub(crate) use ffi::drops_entries;
pub use health::{CfHealth, Health};
pub use inspect::{CfReport, FilterReport, Inspection, SegmentReport};
pub use options::{FilterMemory, SieveOptions};
pub use planning::FilterPlan;
pub use scrub::Scrubbed;
pub(crate) use throttle::Throttle;
pub use verify::{LostKey, VerifyReport};

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
