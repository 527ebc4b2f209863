//! Power cuts under a differential store, see [`power_cuts`](super::power_cuts).

use super::power_cuts::cut_all;
use super::target::Target;

#[test]
fn no_power_cut_under_a_differential_store_loses_a_record() {
    cut_all(Target::Differential);
}

/// A new log begins every few records. A note in one log must not survive the records of the log
/// before that it describes.
#[test]
fn no_power_cut_during_moves_across_logs_loses_a_record() {
    cut_all(Target::Moves);
}
