//! What several tests use.
//!
//! | module | what it holds |
//! |---|---|
//! | `binding` | what the supported bindings of RocksDB do differently |
//! | `crash_image` | a copy of an open database's folder, as a crash leaves it |
//! | `damage` | files that are damaged, or wrong with right checksums |
//! | `database_files` | the files of a database: copies, sidecars, what changed |
//! | `environment` | variables that the tests read |
//! | `failing_allocator` | allocations that fail on request |
//! | `history` | one harness for histories against a model, under kills and faults |
//! | `model_db` | a database beside its model |
//! | `module_order` | whether modules use only what stands before them |
//! | `reads` | every call that reads values, in tables |
//! | `requirements` | tests that cannot run here |

pub(crate) mod binding;
pub(crate) mod crash_image;
pub(crate) mod damage;
pub(crate) mod database_files;
pub(crate) mod environment;
pub(crate) mod failing_allocator;
pub(crate) mod history;
pub(crate) mod model_db;
pub(crate) mod module_order;
pub(crate) mod reads;
pub(crate) mod requirements;
