//! The tests of the command `lsm-sieve` and of its crate. Those of the library are one level up,
//! with `support`, which both use.

mod advise;
mod command_line;
mod completions_and_man;
mod examples;
mod fuzz;
#[expect(
    dead_code,
    unreachable_pub,
    reason = "a library: its other users are the fuzzer's programs"
)]
#[path = "../../fuzz/src/plugin.rs"]
mod fuzz_targets;
mod gremillion;
mod inspect_and_verify;
mod published_traces;
mod read_only;
mod replay;
mod replays;
mod runner;
#[path = "../support"]
mod support {
    pub(crate) mod crash_image;
    #[expect(dead_code, reason = "the tests of the library need all of it")]
    pub(crate) mod database_files;
    pub(crate) mod environment;
    pub(crate) mod example;
    #[expect(dead_code, reason = "the tests of the library need all of it")]
    pub(crate) mod model_db;
    #[expect(dead_code, reason = "the tests of the library need all of it")]
    pub(crate) mod reads;
    pub(crate) mod requirements;
    pub(crate) mod traces;
}

/// The command under test.
const COMMAND: &str = env!("CARGO_BIN_EXE_lsm-sieve");
