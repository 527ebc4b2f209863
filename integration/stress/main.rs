//! The tests of the command `lsm-sieve-stress`, and of the script that measures it and other searches.

mod cases;
mod harness;
#[expect(dead_code, reason = "the tests of another command need all of it")]
#[path = "../cli/runner.rs"]
mod runner;
mod seeded;

/// The command under test.
const COMMAND: &str = env!("CARGO_BIN_EXE_lsm-sieve-stress");
