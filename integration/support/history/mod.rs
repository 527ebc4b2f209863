//! One harness for histories against a model, under kills and faults.
//!
//! ```text
//!   seed --> Step --> World (a database)     it is killed, its calls fail, or its power is cut
//!     \----> Step --> Model                  what each key may hold
//!                       \--- Check           the folder: with filters, and without
//! ```
//!
//! | module | what it holds |
//! |---|---|
//! | `model` | what each key may hold: writes that were acknowledged, and those that were only begun |
//! | `check` | the answers of the filters, compared with a RocksDB that does not use them |
//! | `child` | this test binary as a child that reports to its parent |
//! | `world` | what a child works on: it opens, works and closes until it is killed |
//! | `kills` | the parent: starts children, kills them, and checks what they leave |

pub(crate) mod check;
pub(crate) mod child;
pub(crate) mod kills;
pub(crate) mod model;
pub(crate) mod world;

pub(crate) type Failed = Box<dyn std::error::Error + Send + Sync>;
