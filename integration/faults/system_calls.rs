//! Failing system calls under a whole database, see [`failing_calls`](super::failing_calls).

use super::failing_calls::try_all;
use super::target::Target;

#[test]
fn no_failing_call_loses_a_key() {
    try_all(Target::SieveDb);
}
