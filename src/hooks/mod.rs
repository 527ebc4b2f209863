//! The C++ boundary: the only unsafe code of the plugin.
//!
//! # Map
//!
//! Each module uses only what stands before it. The C++ half is in the folder `shim`.
//!
//! | module | contents |
//! |---|---|
//! | `abi` | what crosses between C++ and Rust; the guard against panics |
//! | `pointers` | where the binding's types keep their pointers to RocksDB's objects |
//! | `options` | RocksDB's options: which are refused, and those that the filters need set |
//! | `bare_engine` | the engine past its filters |
//! | `cf_handle` | handles of column families |
//! | `proof` | whether reads pass through the filters, and reads that bypass them |
//! | `extractor` | RocksDB's prefix extractors |
//! | `listener` | flush, compaction and ingestion events |
//! | `seams` | fault points that replace a whole step |
//! | `sieve` | the Rust side of a database's handle |
//! | `latest` | the options that a database was last opened with |
//! | `tables` | the live SSTs, and the raw keys of one |
//! | `parameters` | what the hooks take, made of what C++ passes |
//! | `install` | puts the hooks into RocksDB's options |
//! | `callbacks` | the functions that RocksDB calls |
//! | `handle` | the handle of a database: found, filtered, and proved to be |
//! | `transactions` | transactions on a database that was opened without |
//! | `raw_db` | a database that was opened through RocksDB's C API |
//! | `self_check` | proves before the first open that the hooks fire |

#![expect(
    unsafe_code,
    reason = "the boundary to C++; every other file of the plugin is safe"
)]

mod abi;
mod bare_engine;
mod callbacks;
mod cf_handle;
mod extractor;
mod handle;
mod install;
mod latest;
pub(crate) mod listener;
mod options;
mod parameters;
mod pointers;
mod proof;
mod raw_db;
mod seams;
pub(crate) mod self_check;
pub(crate) mod sieve;
mod tables;
mod transactions;

pub(crate) use self::abi::error_of;
pub(crate) use self::bare_engine::{
    BareCf, BareEngine, DEFAULT_ID, begin_flush, contains_prefix, contains_range,
};
pub(crate) use self::bare_engine::{forget_freed_families, is_listened_to, is_secondary};
pub(crate) use self::callbacks::HOOKS;
#[cfg(test)]
pub(crate) use self::callbacks::silent::{WATCHED, before_each_key};
pub(crate) use self::cf_handle::{CfHandle, cf_id};
pub use self::handle::raw_handle;
pub(crate) use self::handle::{Handle, JustOpened};
#[cfg(test)]
pub(crate) use self::install::install;
pub(crate) use self::install::{install_listener, put_hooks};
pub(crate) use self::latest::latest_options;
pub use self::options::drops_entries;
pub(crate) use self::options::transactions_refusal;
pub(crate) use self::options::{allow_two_phases, open_ssts_first, writes_unordered};
pub use self::pointers::raw_options;
pub(crate) use self::proof::past_filters;
pub use self::raw_db::RawDb;
pub(crate) use self::tables::{live_tables, memtable_keys, raw_keys, tables_of_readers};
pub(crate) use self::transactions::{Locks, Optimism, has_written, watch, write};
use crate::fault::Fault;

/// Fault points in the shim, which reads the environment itself.
const _: &[Fault] = &[
    Fault::PrefixHintNotCaptured,
    Fault::BatchHintNotCaptured,
    Fault::ImmutableMemtablesUnread,
    Fault::ConcurrentInsertionsHidden,
    Fault::PrefixBlockHasSegmentId,
    Fault::PrefixBlockNamesNoExtractor,
    Fault::ScanAnsweredWithoutPolicy,
    Fault::SstsWithoutOwnFilterUnmarked,
    Fault::PointReadUnanswered,
    Fault::RefreshedIteratorAsksNothing,
    Fault::RefreshedBeforeItsView,
    Fault::CreatedBeforeItsView,
    Fault::RefusedRefreshCounts,
    Fault::OldErrorKept,
    Fault::PreparedScanAnswered,
    Fault::AnyPartIsPrefix,
    Fault::CompactionIsFlush,
    Fault::OneCfLocked,
    Fault::HandlesNotFreed,
    Fault::LastOfSpanLeftOut,
    Fault::ExtractorChangeUnnoticed,
    Fault::LayoutUnchecked,
    Fault::MempurgeAccepted,
    Fault::TableOptionsCorrected,
    Fault::CfOptionsNotLoaded,
    Fault::ReadErrorIsEnd,
    Fault::FreedCfsKept,
    Fault::NoWakeAfterFlush,
    Fault::NoWakeAfterCompaction,
    Fault::CommitValidatedInParallel,
    Fault::OwnWritesIgnored,
    Fault::AbsentKeyNotWatched,
    Fault::CatchUpUnannounced,
    Fault::DefaultHandleKept,
    Fault::EntityIsDeletion,
    Fault::RawEntityIsDeletion,
    Fault::CommitUnannounced,
    Fault::ManyIngestedUnannounced,
    Fault::ResultsNotCleared,
    Fault::WaitClosesEngine,
    Fault::AnyHandleTaken,
    Fault::TimestampsIgnored,
    Fault::CollapsedHistoryRead,
    Fault::TimestampAddedToMemtableKey,
    Fault::TimestampReadWithMemtableKey,
    Fault::TimestampAddedToSegmentKey,
    Fault::TimestampInKeyRange,
    Fault::DeletionTimeNotAdded,
    Fault::AnyComparatorTaken,
    Fault::AnyOrderIsBytewise,
    Fault::PartitionPrefixesAdded,
    Fault::LocksPassedBy,
    Fault::OldValueKept,
];
