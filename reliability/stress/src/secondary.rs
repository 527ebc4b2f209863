//! A secondary beside the writer: its filters must not hide a key that its engine has.
//!
//! Its contents need not be those of the model. RocksDB's secondary sees an unlogged write only
//! after a flush, and may return an entry of its memtable although an SST has a newer one. So its
//! engine, read past the filters, says which keys exist.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve::{OpenError, SieveDb, SieveOptions};

use super::check::{Certainty, Checked, Tally, Violation};
use super::closed_db;
use super::keys::KeySpace;
use super::model::{FAMILIES, Model};
use super::settings::Settings;

/// Errors are blamed on files that the writer removes during an open for at most this long.
const PATIENCE: Duration = Duration::from_secs(60);
const RETRY_PAUSE: Duration = Duration::from_millis(1);

pub struct Secondary(SieveDb);

impl Secondary {
    /// Opens a secondary of the database at `path` with its current families.
    pub fn open(
        settings: &Settings,
        sieve: &SieveOptions,
        path: &Path,
        messages: &Path,
        model: &Model,
    ) -> Result<Self, Violation> {
        let open = || -> Result<Result<SieveDb, OpenError>, rocksdb::Error> {
            let (database, families) = closed_db::options(settings, model)?;
            let secondary = SieveDb::builder(path).options(&database).filters(sieve);
            Ok(secondary.cfs_with_opts(families).secondary(messages).open())
        };
        let began = Instant::now();
        loop {
            match open()? {
                Err(_) if began.elapsed() < PATIENCE => thread::sleep(RETRY_PAUSE),
                opened => return Ok(Self(opened?)),
            }
        }
    }

    /// Catches up, and reads every key at once and again after maintenance has run. Returns whether
    /// it can go on: after some errors RocksDB's secondary never recovers.
    pub fn catch_up(&self, keys: &KeySpace, tally: &mut Tally) -> Result<bool, Violation> {
        let caught_up = self.0.try_catch_up_with_primary().is_ok();
        self.finds_engine_keys(keys, tally)?;
        let _ = self.0.filters().wait_for_maintenance(PATIENCE);
        self.finds_engine_keys(keys, tally)?;
        match self.0.filters().false_negative() {
            None => Ok(caught_up),
            Some(false_negative) => {
                let what = format!("a secondary refuted the filters of {:?}", false_negative.cf);
                Err(Violation::other(what))
            }
        }
    }

    fn finds_engine_keys(&self, keys: &KeySpace, tally: &mut Tally) -> Checked {
        let keys: Vec<&[u8]> = (0..keys.len()).filter_map(|rank| keys.get(rank)).collect();
        for name in FAMILIES {
            let Some(handle) = self.0.cf_handle(name) else {
                continue;
            };
            let many = self.0.multi_get_cf(keys.iter().map(|key| (&handle, key)));
            for (key, among_many) in keys.iter().zip(many) {
                let there = self.0.get_unfiltered_cf(&handle, key);
                let (Ok(there), Ok(found), Ok(among_many)) =
                    (there, self.0.get_cf(&handle, key), among_many)
                else {
                    // The writer has removed the blob file with the value.
                    continue;
                };
                tally.read(Certainty::of(there.as_ref().map(|_| 0)));
                let denied = self.0.filters().answer_cf(&handle, key).is_absent();
                let engine_disagrees = || self.reads_disagree(name, key, there.as_deref());
                let same = is_same(&there, &found, &among_many, engine_disagrees)?;
                if !same || (denied && there.is_some()) {
                    let key = key[..key.len().min(60)].escape_ascii();
                    let what = format!("a secondary answers wrongly for {key} of family {name:?}");
                    let lost = there.is_some();
                    return Err(Violation { lost, what });
                }
                tally.checked_negatives += u64::from(denied);
                tally.false_positives += u64::from(!denied && there.is_none());
            }
        }
        Ok(())
    }

    /// Whether the engine itself disagrees with its own batch read.
    fn reads_disagree(
        &self,
        name: &str,
        key: &[u8],
        there: Option<&[u8]>,
    ) -> Result<bool, rocksdb::Error> {
        self.0.with_engine_untracked(|engine| {
            let handle = engine.cf_handle(name);
            let keys = handle.iter().map(|handle| (handle, key));
            let mut many = engine.multi_get_cf(keys).into_iter();
            let among_many = many.next().transpose()?.flatten();
            Ok(among_many.as_deref() != there)
        })
    }
}

/// Whether both reads found what is there. The engine's own batch read may differ from it.
fn is_same<V: PartialEq, E>(
    there: &V,
    found: &V,
    among_many: &V,
    engine_disagrees: impl FnOnce() -> Result<bool, E>,
) -> Result<bool, E> {
    Ok(found == there && (among_many == there || engine_disagrees()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_read_of_a_secondary_must_find_what_is_there() {
        for (found, among_many, engine_disagrees, expected) in [
            (1, 1, false, true),
            (2, 1, false, false),
            (2, 1, true, false),
            (1, 2, false, false),
            (1, 2, true, true),
            (2, 2, false, false),
        ] {
            let same = is_same(&1, &found, &among_many, || Ok::<_, ()>(engine_disagrees));
            assert_eq!(
                same,
                Ok(expected),
                "{found} {among_many} {engine_disagrees}"
            );
        }
    }
}
