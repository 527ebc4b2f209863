//! Faults from below, as the plugin's tests make them, under a differential store.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(clippy::print_stdout, reason = "long runs say what they found")]

#[path = "../../../../integration/faults/failing_calls.rs"]
mod failing_calls;
#[path = "../../../../integration/faults/power_cuts.rs"]
mod power_cuts;
mod power_loss;
#[path = "../../../../integration/faults/simulated_disk.rs"]
mod simulated_disk;
#[path = "../../../../integration/faults/strace.rs"]
mod strace;
#[path = "../../../../integration/faults/strace_log.rs"]
mod strace_log;
mod system_calls;
mod target;
#[path = "../../../../integration/faults/worker.rs"]
mod worker;
#[path = "../../../../integration/faults/workload.rs"]
mod workload;

/// The child half of the harness. Does nothing unless its parent started it.
#[test]
fn child() {
    if let Ok(task) = std::env::var(strace::CHILD) {
        strace::child(&task).unwrap();
    }
}
