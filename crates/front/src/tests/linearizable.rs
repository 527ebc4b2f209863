//! What threads see of the LSM in memory, beside maintenance, is linearizable.
//! `LSM_SIEVE_LINEARIZABLE=100000` makes a long run.

use lsm_sieve_histories::Hunt;

use super::memory_door::MemoryDoor;

#[test]
fn histories_of_threads_beside_maintenance_are_linearizable() {
    Hunt::new("memory LSM", 500).run(|choice| MemoryDoor::open(choice, true));
}
