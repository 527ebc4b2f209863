//! The tests of the command `lsm-sieve` and of its crate. Those of the library are one level up,
//! with `twin`, `copy` and `skip`, which both use.

mod advise;
mod cli;
mod command;
#[expect(dead_code, reason = "the tests of the library need all of it")]
#[path = "../copy.rs"]
mod copy;
#[path = "../environment.rs"]
mod environment;
mod examples;
mod figures;
mod fuzz;
mod gremillion;
mod page;
mod read_only;
mod reorganize;
#[path = "../skip.rs"]
mod skip;
mod traces;
#[expect(dead_code, reason = "the tests of the library need all of it")]
#[path = "../twin.rs"]
mod twin;

/// The command under test.
const COMMAND: &str = env!("CARGO_BIN_EXE_lsm-sieve");
