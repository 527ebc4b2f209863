//! Filters of `lsm-sieve` before stores that are not RocksDB.
//!
//! | you have | module |
//! |---|---|
//! | a key-value store: redb, fjall, LMDB, your own | [`kv`] |
//! | an LSM store of your own, whose segments can be read | [`lsm`] |
//! | a store that others write to, with a change feed | [`feed`] |
//!
//! A key that is in the store is never answered absent. Filters are derived from the data and stored beside it:
//! damage to them costs time, never an answer. `laws` is a test suite for a store
//! behind filters, with the feature of that name.
//!
//! # Map
//!
//! Each module uses only what stands before it: `lsm` -> `kv` -> `feed` -> `laws`.

// docs.rs builds with nightly and shows which items need a feature.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod feed;
pub mod kv;
#[cfg(feature = "laws")]
#[cfg_attr(docsrs, doc(cfg(feature = "laws")))]
pub mod laws;
pub mod lsm;

pub use hash::HashId;
use lsm_sieve_filter::{filter, hash, math};
pub use lsm_sieve_format::format::PrefixId;
pub use lsm_sieve_format::segment::{IdentityError, SegmentId, SidecarError};
use lsm_sieve_format::{disk, format};
pub use lsm_sieve_front::audit::FalseNegative;
pub use lsm_sieve_front::filter_options::FilterOptions;
pub use lsm_sieve_front::filters::{Filters, MaintenanceError};
pub use lsm_sieve_front::health::{CfHealth, FilterMemory, Health, PrefixHealth};
pub use lsm_sieve_front::maintenance::scrub::Scrubbed;
pub use lsm_sieve_front::opening::FilterFolderError;
pub use lsm_sieve_front::options::{FilterSize, FilterSizeError};
pub use lsm_sieve_front::prefix::{Prefix, PrefixNameError};
pub use lsm_sieve_front::stats::Stats;
pub use lsm_sieve_front::view::{AbsenceProof, Answer};
use lsm_sieve_support::{fault, reach, sync};
pub use math::{Bits, Items, Probes, Rate, RateError};
