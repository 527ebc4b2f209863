//! The law suite over LMDB and sled.

use std::path::Path;

use lsm_sieve::kv::Recovery;
use lsm_sieve::laws::{BoxError, Suite, TestStore};
use lsm_sieve_engines_bench::heed::LmdbTable;
use lsm_sieve_engines_bench::sled::SledTree;

fn run<S: TestStore>(open: fn(&Path) -> Result<S, BoxError>) {
    for recovery in [Recovery::Scan, Recovery::Position, Recovery::Journal] {
        let suite = Suite::store(open, recovery).histories(4);
        println!("{recovery:?}: {}", suite.run());
    }
}

#[test]
fn lmdb_keeps_the_rules_and_its_mutants_are_found() {
    run(|folder| Ok(LmdbTable::open(&folder.join("db"), 1 << 26, false)?));
}

#[test]
fn sled_keeps_the_rules_and_its_mutants_are_found() {
    run(|folder| {
        let db = sled::Config::new().path(folder.join("db"));
        Ok(SledTree::open(&db.flush_every_ms(Some(5)).open()?)?)
    });
}
