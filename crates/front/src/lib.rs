//! The filters in front of an engine, whatever the engine: safe code that knows no engine by name.
//!
//! One column family has a [`cf_filter::CfFilter`]: its summary filter and its segment filters. The
//! engine's hooks feed it, lookups read it, and the maintenance thread rebuilds it from the memtables
//! and segments that [`engine::Engine`] shows.
//!
//! The API serves the doors of this project, which are in the crate `lsm-sieve`. It is not stable.
//!
//! # Map
//!
//! The modules are in order of dependency: each uses only those above it.
//!
//! | module | contents |
//! |---|---|
//! | `threads`, `rcu` | values that many threads read without a locked instruction and few replace |
//! | `prefix` | functions from keys to prefixes |
//! | `ranges` | which ranges the filters of a column family answer for |
//! | `segment` | segment filters from the first key to the sidecar, and the registry of all of them |
//! | `predictor`, `stats` | what a thread's last lookups say of the next one; counters |
//! | `mutant` | the rules that a store may break, for the suite that must find it: with the feature `laws` |
//! | `key_range`, `sorted_runs` | the key range of a segment; segments in sorted runs, searched by key |
//! | `engine` | the functions of the engine that the filters need |
//! | `wakeup` | how the maintenance thread is woken, and waited for |
//! | `view` | what a lookup reads, and the proof that a key is *absent* |
//! | `options` | `FrontOptions`: the rates and sizes that follow from the settings |
//! | `instance_ids` | ids for segments without one, valid while the database is open |
//! | `filter_store` | loads and stores sidecars |
//! | `audit` | reads of the engine for a sample of the *absent* answers: their rate, and the reaction to a false negative |
//! | `intake` | what writes feed: the summary filters, the log of keys, the filters of segments that are being written |
//! | `cf_filter` | the filters of one column family; `cf_filter/lookup.rs` is the code of a lookup |
//! | `filter_options` | `FilterOptions`: the settings that a user gives |
//! | `health` | the state of filters in cheap figures |
//! | `metrics` | these figures for the crate `metrics`, with its feature |
//! | `cf_filters` | the filters of all column families, by id |
//! | `opening` | identity, folder and stored filters while a database opens |
//! | `maintenance` | the background work: load, cover, rebuild, consolidate, budget, scrub, sweep |
//! | `filters` | `Filters`: all of a database, and who maintains them |

#![expect(
    missing_docs,
    reason = "its readers are the doors of this project, not users"
)]

pub mod audit;
pub mod cf_filter;
pub mod cf_filters;
pub mod engine;
pub mod filter_options;
pub mod filter_store;
pub mod filters;
pub mod health;
mod instance_ids;
pub mod intake;
#[cfg(all(any(test, feature = "testing"), interleave))]
pub mod interleavings;
pub mod key_range;
pub mod maintenance;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "laws")]
pub mod mutant;
pub mod opening;
pub mod options;
mod predictor;
pub mod prefix;
pub mod ranges;
pub mod rcu;
pub mod segment;
mod sorted_runs;
pub mod stats;
#[cfg(test)]
#[cfg(not(interleave))]
mod tests;
mod threads;
pub mod view;
pub mod wakeup;

use lsm_sieve_filter::{filter, hash, math};
use lsm_sieve_format::{disk, format};
use lsm_sieve_support::{fault, reach, sync};
