//! Faults from below: calls that fail, power that goes, disks that fill, memory that runs out.
//!
//! `steps` says what is done, `work` does it, `model` knows what may have come of it, and `judge`
//! holds the folder against the truth afterwards. `traced` runs the work under strace, which lets its
//! calls fail (`calls`) or records them (`recorded`) for a `machine` that loses its power (`power`).

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

/// The other half of the harness: does nothing unless told by its parent.
#[test]
fn child() {
    if let Ok(task) = std::env::var(traced::CHILD) {
        traced::child(&task).unwrap();
    }
}
