//! RocksDB with filters, for C and for all that calls C.
//!
//! The functions are declared in `include/lsm_sieve.h`, which cbindgen makes from this file; those of
//! C++ are in `open.cc`. An open returns a `rocksdb_t*`, whose calls all go through the filters. A
//! program links one library: it has RocksDB and its C API too.
//!
//! `install` also makes a file that stands for RocksDB's own, whose opens are those of `rocksdb`. They
//! ask the `environment` whether there are to be filters.
//!
//! A panic crosses no boundary: it becomes an error text, or the answer that means "no".

#![expect(unsafe_code, reason = "every function here is called from C")]
#![expect(
    non_camel_case_types,
    reason = "the types have the names that C has for them"
)]
#![expect(
    clippy::missing_safety_doc,
    reason = "the contracts are those of the header, whose text is written for C"
)]

mod call;
mod environment;
mod filters;
/// cbindgen:ignore
mod kind;
mod open;
/// cbindgen:ignore
mod rocksdb;
mod settings;

pub use self::filters::*;
pub use self::open::*;
pub use self::settings::*;
