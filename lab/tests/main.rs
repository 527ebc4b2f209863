//! The tests of the command `lsm-sieve-lab`, of its crate and of the examples. What they share with
//! those of `lsm-sieve` is in the folder `integration` of the plugin.

mod advise;
mod bench;
mod command_line;
mod examples;
mod figures;
#[path = "../../integration/cli/fuzz.rs"]
mod fuzz;
#[expect(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "a library: its other users are the fuzzer's programs"
)]
#[path = "../../fuzz/src/lib.rs"]
mod fuzz_all;
mod fuzz_targets {
    pub(crate) use super::fuzz_all::LAB as TARGETS;
}
mod gremillion;
mod module_order;
mod reorganize;
mod replay;
#[path = "../../integration/cli/replays.rs"]
mod replays;
mod report_page;
#[path = "../../integration/cli/runner.rs"]
mod runner;
#[path = "../../integration/support"]
mod support {
    pub(crate) mod environment;
    pub(crate) mod example;
    #[expect(dead_code, reason = "the tests of the plugin need all of it")]
    pub(crate) mod model_db;
    pub(crate) mod module_order;
    #[expect(dead_code, reason = "the tests of the plugin need all of it")]
    pub(crate) mod reads;
    pub(crate) mod requirements;
    pub(crate) mod traces;
}

/// The command under test.
const COMMAND: &str = env!("CARGO_BIN_EXE_lsm-sieve-lab");
