//! The RocksDB plugin.
//!
//! | file | what it holds |
//! |---|---|
//! | `shim.cc`, `ffi` | the hooks inside RocksDB; the only unsafe code |
//! | `options` | what a front may be told |
//! | `coverage` | what a reader consults, and when it may say *absent* |
//! | `column` | the front of one column family: readers, memtables, tables |
//! | `table` | the filter of an SST while it is written |
//! | `bell`, `upkeep`, `shelf` | the background thread and the folder of filters |
//! | `planning` | the merge planner's word on a table's filter |
//! | `probe` | the proof, before a database is opened, that the hooks fire |
//! | `db` | [`SieveDb`] |
//! | `family` | a column family that is looked up once |
//! | `inspect` | what there is, and whether it is right |

mod bell;
mod column;
mod columns;
mod coverage;
mod db;
mod error;
mod family;
mod ffi;
mod inspect;
#[cfg(all(test, interleave = "shuttle"))]
mod interleavings;
mod inventory;
mod options;
mod planning;
mod probe;
mod shelf;
mod table;
mod upkeep;

pub use coverage::{Answer, Proof};
pub use db::SieveDb;
pub use error::{InspectError, OpenError, UpkeepFailed};
pub(crate) use family::Family;
pub use inspect::{ColumnReport, FilterReport, Inspection, LostKey, SegmentReport, VerifyReport};
pub use options::SieveOptions;

/// The wrapped engine: a RocksDB whose column families may be created and dropped while shared.
pub type Engine = rocksdb::DBWithThreadMode<rocksdb::MultiThreaded>;
