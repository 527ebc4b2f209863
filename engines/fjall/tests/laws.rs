//! The law suite over fjall.

use std::path::Path;

use fjall::{Database, KeyspaceCreateOptions};
use lsm_sieve::kv::Recovery;
use lsm_sieve::laws::{BoxError, Suite};
use lsm_sieve_fjall::FjallKeyspace;

fn open(folder: &Path) -> Result<FjallKeyspace, BoxError> {
    let db = Database::builder(folder.join("db")).open()?;
    Ok(FjallKeyspace::open(
        &db,
        "keys",
        KeyspaceCreateOptions::default,
    )?)
}

#[test]
fn fjall_keeps_the_rules_and_its_mutants_are_found() {
    for recovery in [Recovery::Scan, Recovery::Position, Recovery::Journal] {
        let suite = Suite::store(open, recovery).histories(4);
        println!("{recovery:?}: {}", suite.run());
    }
}
