//! A test suite for a store behind filters: does it keep the rules by which *absent* is exact?
//!
//! The rules are in [`lsm`](crate::lsm) and [`kv`](crate::kv). A store that breaks one loses reads,
//! perhaps only after a crash. The suite runs random histories over a small key space: writes,
//! deletes, flushes, merges, ingestion, rebuilt filters, reopened stores, crashes, and damaged,
//! missing and swapped filter files; for a key-value store also restored savepoints, older files that
//! are put back, crashes within external writes, power cuts. After each it compares the filters with the store itself, and
//! readers do so meanwhile.
//!
//! A suite that only shows that nothing is lost would pass without any filter. So it also checks
//! that absent keys are denied, and again after a reopen. And a suite that cannot fail proves
//! nothing, so it runs [mutants](Mutant) of the store as well, and fails unless it finds each.
//!
//! ```no_run
//! # use lsm_sieve_stores::laws::{BoxError, Subject, Suite};
//! # struct MyStore;
//! # impl MyStore {
//! #     fn open(_: &std::path::Path, _: &lsm_sieve_stores::FilterOptions) -> Result<Self, BoxError> {
//! #         Ok(Self)
//! #     }
//! # }
//! # impl Subject for MyStore {
//! #     fn write(&self, _: &[(Vec<u8>, bool)]) -> Result<(), BoxError> { Ok(()) }
//! #     fn contains(&self, _: &[u8]) -> Result<bool, BoxError> { Ok(false) }
//! #     fn contains_past_filters(&self, _: &[u8]) -> Result<bool, BoxError> { Ok(false) }
//! #     fn is_denied(&self, _: &[u8]) -> bool { true }
//! #     fn settle(&self) -> bool { true }
//! # }
//! let report = Suite::new(MyStore::open).histories(200).run();
//! println!("{report}");
//! ```
//!
//! # Map
//!
//! `random` -> `mutant_store` -> `subject` -> `damage` -> `history` -> `suite`

mod damage;
mod history;
mod mutant_store;
mod random;
mod subject;
mod suite;

pub use lsm_sieve_front::mutant::Mutant;
pub use subject::{BoxError, StoreSubject, Subject, TestStore, batch};
pub use suite::{Report, Suite};
