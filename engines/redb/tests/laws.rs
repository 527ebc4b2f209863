//! The law suite over redb.

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
