//! The RocksDB plugin: RocksDB as the engine behind `front`, and [`SieveDb`].
//!
//! # Map
//!
//! Each module uses only what stands before it.
//!
//! | module | contents |
//! |---|---|
//! | `binding` | the database type of `rocksdb`; options of instances that only read |
//! | `options` | [`SieveOptions`]: every setting |
//! | `error` | errors of open, maintenance and reports |
//! | `hooks` | the hooks inside RocksDB and behind its handle, and their self-check; with `db/access`, the only unsafe code |
//! | `engine` | RocksDB as `front` asks it |
//! | `db` | [`SieveDb`]: open, its own reads, transactions |
//! | `report` | health, inspect, verify: cheap, in full, and checked against all keys |
//! | `tests` | tests that need a whole database: blocked flushes, power cuts |

mod binding;
mod db;
mod engine;
mod error;
pub(crate) mod hooks;
mod options;
mod report;
#[cfg(test)]
pub(crate) mod tests;

pub use binding::Engine;
#[doc(hidden)]
pub use binding::read_only;
#[doc(hidden)]
pub use db::CfReader;
pub use db::{Builder, SieveDb, Snapshot, Transaction, TransactionSettings};
pub use error::{InspectError, OpenError};
pub use hooks::RawDb;
#[doc(hidden)]
pub use hooks::drops_entries;
pub use hooks::sieve::Sieve;
pub use options::{FilterMemory, Isolation, SieveOptions};
pub use report::{
    CfReport, FilterReport, Health, Inspection, LostKey, SegmentReport, VerifyReport,
};
