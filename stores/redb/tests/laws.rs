//! The law suite over redb. `LSM_SIEVE_HISTORIES=2000` makes a long run of the histories with
//! restored savepoints.

use std::fs::OpenOptions;
use std::io;
use std::path::Path;
use std::sync::Arc;

use lsm_sieve_redb::RedbTable;
use lsm_sieve_stores::kv::Recovery;
use lsm_sieve_stores::laws::{BoxError, Suite};
use redb::backends::FileBackend;
use redb::{Database, StorageBackend};

fn open(folder: &Path) -> Result<RedbTable, BoxError> {
    std::fs::create_dir_all(folder)?;
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    let file = FileBackend::new(options.open(folder.join("table.redb"))?)?;
    let db = Database::builder().create_with_backend(Unsynced(file))?;
    Ok(RedbTable::new(Arc::new(db), "table"))
}

/// A file that is not synced. A crash here is the end of a process; `power` cuts the power.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
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
