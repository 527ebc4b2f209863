//! Faults from below: calls that fail, power that goes, disks that fill, memory that runs out.
//!
//! `work` is what they befall, `judge` how its folder is judged afterwards.

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
mod power;
mod recorded;
mod rot;
mod traced;
mod work;

/// The other half of the harness: does nothing unless told by its parent.
#[test]
fn child() {
    if let Ok(task) = std::env::var(traced::CHILD) {
        traced::child(&task).unwrap();
    }
}
