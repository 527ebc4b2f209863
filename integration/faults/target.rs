//! What the faults happen to: here a [`SieveDb`]. A store on top of it has a module like this one,
//! and all else of this folder.

use std::path::Path;
use std::time::Duration;

use lsm_sieve::{RocksDb, SieveDb};
use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, WriteBatch, WriteOptions};

use super::worker::{engine, sieve};
use super::workload::Step;
use crate::support::history::Failed;
use crate::support::history::check::{self, CheckError, Entries, Tally, Truth};

/// The wait for maintenance: with a permanent fault it never ends.
const PATIENCE: Duration = Duration::from_millis(300);

/// What the steps work on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    SieveDb,
}

/// The steps of this kind of target alone.
#[derive(Clone, Copy, Debug)]
pub(super) enum OwnStep {
    Compact,
    Consolidate,
    /// Wait for a maintenance run.
    Settle,
}

impl Target {
    /// Its name in the recorded figures and on the command line of a child.
    pub(super) fn label(self) -> &'static str {
        "Front"
    }

    /// The target of a name.
    pub(super) fn labelled(label: &str) -> Option<Self> {
        (label == Self::SieveDb.label()).then_some(Self::SieveDb)
    }

    /// Bytes of a value beyond its version.
    pub(super) fn padding(self) -> usize {
        60
    }

    /// Whether its power is cut where one log depends on another.
    pub(super) fn is_cut_across_logs(self) -> bool {
        false
    }

    /// Whether it is responsible for what RocksDB loses. For a `SieveDb` that counts as the truth.
    pub(super) fn answers_for_its_data(self) -> bool {
        false
    }

    /// All steps, in order. Each writing step is one batch.
    pub(super) fn steps(self) -> Vec<Step> {
        use OwnStep::{Compact, Consolidate, Settle};
        use Step::{Delete, Flush, Read, Reopen};
        let write = |first| Step::Write {
            first,
            synced: first % 2 == 0,
        };
        let delete = |first| Delete { first };
        let [compact, consolidate, settle] = [Compact, Consolidate, Settle].map(Step::Own);
        [
            [write(0), write(1), Flush, write(50), Flush],
            [write(2), Flush, settle, Read, compact],
            [delete(3), write(90), Flush, consolidate, Read],
            [write(100), Reopen, Read, write(151), Flush],
            [delete(90), settle, Flush, compact, settle],
            [write(20), Read, Reopen, consolidate, Read],
        ]
        .concat()
    }
}

/// The open target.
pub(super) struct Store(SieveDb);

impl Store {
    pub(super) fn open(_: Target, path: &Path) -> Result<Self, Failed> {
        Ok(Self(SieveDb::open(&engine(), &sieve(), path)?))
    }

    /// One batch: puts of these values, or deletes.
    pub(super) fn write(
        &self,
        updates: impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)>,
        synced: bool,
    ) -> Result<(), Failed> {
        let mut batch = WriteBatch::default();
        updates.for_each(|(key, value)| match value {
            Some(value) => batch.put(key, value),
            None => batch.delete(key),
        });
        let mut how = WriteOptions::default();
        how.set_sync(synced);
        Ok(self.0.write_opt(batch, &how)?)
    }

    pub(super) fn flush(&self) -> Result<(), Failed> {
        Ok(self.0.flush()?)
    }

    pub(super) fn carry_out(&self, _: Target, step: OwnStep) -> Result<(), Failed> {
        match step {
            OwnStep::Compact => self.0.compact_range(None::<&[u8]>, None::<&[u8]>),
            OwnStep::Consolidate => self.0.filters().consolidate()?,
            OwnStep::Settle => _ = self.0.filters().wait_for_maintenance(PATIENCE),
        }
        Ok(())
    }

    /// The values of a key, by every way to read it that does not fail.
    pub(super) fn reads(&self, key: &[u8]) -> Vec<Option<Vec<u8>>> {
        let many = self.0.multi_get([key]).into_iter().map(Result::ok);
        many.chain([self.0.get(key).ok()]).flatten().collect()
    }
}

/// Checks a database, and returns its content.
pub(super) fn check(
    _: Target,
    path: &Path,
    read: impl Iterator<Item = Vec<u8>>,
) -> Result<(Entries, Tally), CheckError> {
    let truth = truth(path).map_err(CheckError::Engine)?;
    let tally = check_database(path, &truth, &read.collect::<Vec<_>>());
    let entries = truth.into_values().next().unwrap_or_default();
    Ok((entries, tally.map_err(CheckError::Wrong)?))
}

/// The truth; an error if RocksDB itself does not open the folder. Changes nothing.
pub(super) fn truth(path: &Path) -> Result<Truth, rocksdb::Error> {
    let default = [DEFAULT_COLUMN_FAMILY_NAME.to_owned()];
    if !path.join("CURRENT").exists() {
        return Ok(default.map(|name| (name, Entries::new())).into());
    }
    let db = RocksDb::open_cf_for_read_only(&engine(), path, &default, false)?;
    check::read(&db, &default)
}

/// Opens the database and checks every answer.
pub(super) fn check_database(
    path: &Path,
    truth: &Truth,
    read: &[Vec<u8>],
) -> Result<Tally, Failed> {
    let db = SieveDb::open(&engine(), &sieve(), path)?;
    check::check(&db, truth, read, 1)
}
