//! Faults from below: system calls that fail, power cuts, full disks, memory that runs out.
//!
//! `steps` lists the steps, `work` carries them out, `model` knows the possible results, and
//! `judge` compares the folder with the truth afterwards. `traced` runs the work under strace,
//! which makes calls fail (`calls`) or records them (`recorded`) for a `machine` that loses its
//! power (`power`).

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(clippy::print_stdout, reason = "long runs say what they found")]

mod calls;
mod full;
mod judge;
mod machine;
mod memory;
mod model;
mod power;
mod recorded;
mod rot;
mod steps;
mod traced;
mod work;

/// The child half of the harness. Does nothing unless its parent started it.
#[test]
fn child() {
    if let Ok(task) = std::env::var(traced::CHILD) {
        traced::child(&task).unwrap();
    }
}
