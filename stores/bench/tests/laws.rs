//! The law suite over LMDB and sled. `LSM_SIEVE_HISTORIES` makes a long run of it.

#![expect(clippy::print_stdout, reason = "tests say what they tried")]

use std::path::Path;
use std::thread;
use std::time::Duration;

use lsm_sieve_stores::kv::Recovery;
use lsm_sieve_stores::laws::{BoxError, Suite, TestStore};
use lsm_sieve_stores_bench::heed::LmdbTable;
use lsm_sieve_stores_bench::sled::SledTree;

const RECOVERIES: [Recovery; 3] = [Recovery::Scan, Recovery::Position, Recovery::Journal];

fn run<S: TestStore>(open: fn(&Path) -> Result<S, BoxError>) {
    for recovery in RECOVERIES {
        let suite = Suite::store(open, recovery).histories(4);
        println!("{recovery:?}: {}", suite.run());
    }
    // Files that are put back, crashes within external writes, another recovery at each open.
    let histories = std::env::var("LSM_SIEVE_HISTORIES");
    let histories = histories.map_or(8, |histories| histories.parse().expect("a number"));
    let suite = Suite::store_with(open, &RECOVERIES).histories(histories);
    println!("{}", suite.steps(40).run());
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
