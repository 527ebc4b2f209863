//! The law suite over fjall. `LSM_SIEVE_HISTORIES` makes a long run of the histories with files that
//! are put back.

use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions};
use lsm_sieve_fjall::FjallKeyspace;
use lsm_sieve_stores::kv::Recovery;
use lsm_sieve_stores::laws::{BoxError, Suite};

fn open(folder: &Path) -> Result<FjallKeyspace, BoxError> {
    let db = Database::builder(folder.join("db")).open()?;
    Ok(FjallKeyspace::open(
        &db,
        "keys",
        KeyspaceCreateOptions::default,
    )?)
}

const RECOVERIES: [Recovery; 3] = [Recovery::Scan, Recovery::Position, Recovery::Journal];

#[test]
fn fjall_keeps_the_rules_and_its_mutants_are_found() {
    for recovery in RECOVERIES {
        let suite = Suite::store(open, recovery).histories(4);
        println!("{recovery:?}: {}", suite.run());
    }
}

/// Files that are put back, crashes within external writes, and another recovery at each open.
#[test]
fn fjall_keeps_the_rules_when_it_goes_back_to_earlier_states() {
    let histories = std::env::var("LSM_SIEVE_HISTORIES");
    let histories = histories.map_or(8, |histories| histories.parse().expect("a number"));
    let suite = Suite::store_with(open, &RECOVERIES).histories(histories);
    println!("{}", suite.steps(40).run());
}
