//! Failing system calls under a differential store, see [`failing_calls`](super::failing_calls).

use super::failing_calls::{Fault, count, faults, inject_all, run_traced, try_all};
use super::target::Target;
use crate::support::requirements::skip;

/// Of all calls those that must not fail unnoticed: a write that is not durable must not be
/// acknowledged as synced.
#[test]
fn no_failing_sync_loses_a_record() {
    let home = tempfile::tempdir().unwrap();
    let Some((_, log)) = run_traced(Target::Differential, home.path(), None).unwrap() else {
        skip("there is no strace here, or it may not attach");
        return;
    };
    let calls = count(&log, |line| !line.contains(" resumed>"));
    let mut faults = faults(&calls);
    let is_tried = |fault: &Fault| fault.nth.is_power_of_two();
    faults.retain(|fault| fault.call == "fdatasync" && fault.error == "EIO" && is_tried(fault));
    println!("{} faults", faults.len());
    assert!(faults.len() > 4, "the log is synced again and again");
    let totals = inject_all(Target::Differential, faults);
    assert!(totals.violations.is_empty() && totals.engine_lost.is_empty());
    assert!(totals.calls_failed > 0 && totals.failed_steps > 0);
}

#[test]
fn no_failing_call_loses_a_record() {
    try_all(Target::Differential);
}
