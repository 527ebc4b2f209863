//! The tests of the command `lsm-sieve`, and of what its crate brings along; those of the library are
//! a level higher, with `twin`, `copy` and `skip`, which both stand on.

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

/// What is tested.
const COMMAND: &str = env!("CARGO_BIN_EXE_lsm-sieve");
