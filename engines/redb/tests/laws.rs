//! The law suite over redb. `LSM_SIEVE_HISTORIES=2000` makes a long run of the histories with
//! restored savepoints.

use std::path::Path;
use std::sync::Arc;

use lsm_sieve::kv::Recovery;
use lsm_sieve::laws::{BoxError, Suite};
use lsm_sieve_redb::RedbTable;
use redb::Database;

fn open(folder: &Path) -> Result<RedbTable, BoxError> {
    std::fs::create_dir_all(folder)?;
    let db = Database::create(folder.join("table.redb"))?;
    Ok(RedbTable::new(Arc::new(db), "table"))
}

#[test]
fn redb_keeps_the_rules_and_its_mutants_are_found() {
    for recovery in [Recovery::Scan, Recovery::Position, Recovery::Journal] {
        let suite = Suite::store(open, recovery).histories(4);
        println!("{recovery:?}: {}", suite.run());
    }
}

/// Savepoints that are restored, files that are put back, crashes within external writes, and
/// another recovery at each open.
#[test]
fn redb_keeps_the_rules_when_it_goes_back_to_earlier_states() {
    let histories = std::env::var("LSM_SIEVE_HISTORIES");
    let histories = histories.map_or(100, |histories| histories.parse().expect("a number"));
    let recoveries = [Recovery::Scan, Recovery::Position, Recovery::Journal];
    let suite = Suite::store_with(open, &recoveries).histories(histories);
    println!("{}", suite.steps(40).run());
}
