//! Faults from below: system calls that fail, power cuts, full disks, memory that runs out.
//!
//! `target` is what the faults happen to, and lists its steps. `worker` carries them out. The model
//! of the possible results and the check afterwards are in [`history`](crate::support::history).
//! `strace` runs the worker under strace, which makes calls fail (`failing_calls`) or records them
//! (`strace_log`) for a `simulated_disk` that loses its power (`power_cuts`).

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(clippy::print_stdout, reason = "long runs say what they found")]

mod failing_allocations;
mod failing_calls;
mod full_disk;
mod power_cuts;
mod power_loss;
mod simulated_disk;
mod strace;
mod strace_log;
mod system_calls;
mod target;
mod unreadable_ssts;
mod worker;
mod workload;

/// The child half of the harness. Does nothing unless its parent started it.
#[test]
fn child() {
    if let Ok(task) = std::env::var(strace::CHILD) {
        strace::child(&task).unwrap();
    }
}
