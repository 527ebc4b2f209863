//! The background work: on SSTs, on filters, on families.

use std::path::Path;

use lsm_sieve::FilterSize;
use lsm_sieve_cli::workload::random::Random;
use rocksdb::checkpoint::Checkpoint;

use super::super::check::{Certainty, Checked, Tally, Violation};
use super::super::checker::Checker;
use super::super::closed_db;
use super::super::model::{FAMILIES, Model, value};
use super::super::session::PATIENCE;
use super::super::settings::draw_rate;
use super::Shared;
use super::versions::{check_version, violation};

/// The family that is created and dropped.
const LATE: usize = FAMILIES.len() - 1;

pub(super) struct Background<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) checker: Checker<'a>,
    pub(super) random: Random,
    pub(super) home: &'a Path,
    pub(super) tally: Tally,
}

impl Background<'_> {
    pub(super) fn step(&mut self) -> Checked {
        let db = self.checker.db;
        let family = self.random.index(self.shared.families);
        let Some(handle) = self.checker.handle(family) else {
            return Err(Violation::lost("a family is gone that no thread drops"));
        };
        if self.shared.uses_bare_engine(&mut self.random, 10) {
            return if self.shared.unlogged || self.random.one_in(2) {
                Ok(db.with_engine_untracked(|engine| engine.flush_wal(false))?)
            } else {
                self.checkpoint()
            };
        }
        match self.random.below(28) {
            0..=7 => db.flush_cf(handle)?,
            8..=11 => db.compact_range_cf(handle, None::<&[u8]>, None::<&[u8]>),
            // Conditions that prevent its end, such as external writes, are no fault.
            12..=14 => _ = db.filters().consolidate(),
            15..=17 => _ = db.filters().wait_for_maintenance(PATIENCE),
            18..=20 => {
                _ = db
                    .filters()
                    .wait_until_complete(std::time::Duration::from_millis(20))
            }
            21..=23 => db
                .filters()
                .set_filter_size(FilterSize::rate(draw_rate(&mut self.random))?),
            24..=26 => self.create_and_drop_cf()?,
            _ => self.checker.verify(&mut self.tally)?,
        }
        Ok(())
    }

    /// Creates a family, writes and reads it, and drops it.
    fn create_and_drop_cf(&mut self) -> Checked {
        let db = self.checker.db;
        let options = self.checker.settings.family(LATE)?;
        db.create_cf(FAMILIES[LATE], &options)?;
        let Some(handle) = db.cf_handle(FAMILIES[LATE]) else {
            return Err(Violation::lost("a family that was made is not there"));
        };
        for rank in 0..self.checker.keys.len().min(50) {
            let key = self.checker.keys.get(rank).unwrap_or_default();
            if db.get_cf(&handle, key)?.is_some() {
                return Err(Violation::other(format!(
                    "key {rank} of an earlier family is there"
                )));
            }
            db.put_cf(&handle, key, value(rank as u64))?;
            if db.get_cf(&handle, key)? != Some(value(rank as u64)) {
                return Err(Violation::lost(format!("key {rank} of a new family")));
            }
            self.tally.wrote(1);
            self.tally.read(Certainty::MustNotExist);
            self.tally.read(Certainty::MustExist);
        }
        Ok(db.drop_cf(FAMILIES[LATE])?)
    }

    /// A checkpoint shows for each key a version between those before and after it was made.
    fn checkpoint(&mut self) -> Checked {
        let lows = self.shared.versions.lows();
        let copy = self.home.join("copy");
        let db = self.checker.db;
        let alone = self.shared.ingesting.write();
        db.with_engine_untracked(|engine| Checkpoint::new(engine)?.create_checkpoint(&copy))?;
        drop(alone);
        let highs = self.shared.versions.highs();
        let settings = self.checker.settings;
        let sieve = settings.filters.options().map_err(Violation::other)?;
        let model = Model::new(0);
        let copied = closed_db::open(settings, &sieve, &copy, &model)?;
        self.tally.opened += 1;
        for family in 0..self.shared.families {
            let Some(handle) = copied.cf_handle(FAMILIES[family]) else {
                return Err(Violation::lost("a family is not in a checkpoint"));
            };
            for rank in 0..self.checker.keys.len() {
                let key = self.checker.keys.get(rank).unwrap_or_default();
                let found = copied.get_cf(&handle, key)?;
                let (low, high) = (lows[family][rank], highs[family][rank]);
                let certainty = check_version(found.as_deref(), low, high).map_err(|what| {
                    violation("get in a checkpoint", family, rank, found.is_none(), &what)
                })?;
                self.tally.read(certainty);
            }
        }
        drop(copied);
        Ok(std::fs::remove_dir_all(&copy)?)
    }
}
