//! The filters in front of an engine: safe code that knows no engine by name.
//!
//! One column family has a `cf_filter::CfFilter`: its summary filter and its segment filters. The
//! engine's hooks feed it, lookups read it, and the maintenance thread rebuilds it from the memtables
//! and segments that [`engine::Engine`] shows.
//!
//! # Map
//!
//! The modules are in order of dependency: each uses only those above it.
//!
//! | module | contents |
//! |---|---|
//! | `key_range`, `sorted_runs` | the key range of a segment; segments in sorted runs, searched by key |
//! | `engine` | what is asked of the engine |
//! | `wakeup` | how the maintenance thread is woken, and waited for |
//! | `view` | what a lookup reads, and the proof that a key is *absent* |
//! | `options` | the sizes that follow from the settings |
//! | `instance_ids` | ids for segments without one, valid while the database is open |
//! | `filter_store` | the folder of sidecars |
//! | `audit` | reads of the engine for a sample of the *absent* answers: their rate, and the reaction to a false negative |
//! | `key_log` | the hashes of all keys in SSTs, for the next summary filter |
//! | `segment_filter_build` | the segment filter of a segment while the engine writes it |
//! | `intake` | the summary filters that writes feed |
//! | `cf_filter` | the filters of one column family; `cf_filter/lookup.rs` is the code of a lookup |
//! | `filter_options` | the settings that a user gives |
//! | `health` | cheap figures of one column family's filters |
//! | `metrics` | these figures for the crate `metrics`, with its feature |
//! | `cf_filters` | the filters of all column families |
//! | `opening` | identity, folder and stored filters while a database opens |
//! | `maintenance` | the background work: load, cover, rebuild, consolidate, budget, scrub, sweep |
//! | `filters` | all filters of a database, and who maintains them |

pub(crate) mod audit;
pub(crate) mod cf_filter;
pub(crate) mod cf_filters;
pub(crate) mod engine;
pub(crate) mod filter_options;
pub(crate) mod filter_store;
pub(crate) mod filters;
pub(crate) mod health;
pub(crate) mod instance_ids;
pub(crate) mod intake;
#[cfg(all(test, interleave = "shuttle"))]
mod interleavings;
pub(crate) mod key_log;
pub(crate) mod key_range;
pub(crate) mod maintenance;
#[cfg(feature = "metrics")]
pub(crate) mod metrics;
pub(crate) mod opening;
pub(crate) mod options;
pub(crate) mod segment_filter_build;
pub(crate) mod sorted_runs;
#[cfg(test)]
#[cfg(not(interleave))]
mod tests;
pub(crate) mod view;
pub(crate) mod wakeup;
