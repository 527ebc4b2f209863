//! The law suite over LMDB and sled.

use std::path::Path;
use std::thread;
use std::time::Duration;

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
        let config = sled::Config::new()
            .path(folder.join("db"))
            .flush_every_ms(Some(5));
        // A thread of sled releases the lock some time after the last handle is dropped.
        let mut opened = config.open();
        for _ in 0..500 {
            match opened {
                Ok(_) => break,
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
            opened = config.open();
        }
        Ok(SledTree::open(&opened?)?)
    });
}
