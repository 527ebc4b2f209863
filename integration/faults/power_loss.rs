//! Power cuts under a whole database, see [`power_cuts`](super::power_cuts).

use super::power_cuts::cut_all;
use super::target::Target;

#[test]
fn no_power_cut_under_a_database_loses_a_key() {
    cut_all(Target::SieveDb);
}
