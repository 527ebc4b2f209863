//! A reader of all keys, by every way to read.

use std::ops::Range;

use lsm_sieve_cli::workload::random::Random;
use rocksdb::{IteratorMode, ReadOptions};

use super::super::check::{Checked, Tally, Violation};
use super::super::checker::{Checker, Handle, everything};
use super::Shared;
use super::versions::{check_version, violation};

/// Keys that are read together.
const TOGETHER: usize = 16;

pub(super) struct Reader<'a> {
    pub(super) shared: &'a Shared<'a>,
    pub(super) checker: Checker<'a>,
    pub(super) random: Random,
    pub(super) tally: Tally,
}

impl<'a> Reader<'a> {
    pub(super) fn step(&mut self) -> Checked {
        let family = self.random.index(self.shared.families);
        let Some(handle) = self.checker.handle(family).cloned() else {
            return Err(Violation::lost("a family is gone that no thread drops"));
        };
        let from = self.random.index(self.checker.keys.len());
        let to = (from + TOGETHER).min(self.checker.keys.len());
        match self.random.below(100) {
            0..=1 => self.snapshot(family, &handle, from..to),
            2 => self.scan(family, &handle, from..to),
            3..=20 => self.many(family, &handle, from..to),
            _ => (from..to).try_for_each(|rank| self.one(family, &handle, rank)),
        }
    }

    fn key(&self, rank: usize) -> &'a [u8] {
        self.checker.keys.get(rank).unwrap_or_default()
    }

    fn low(&self, family: usize, rank: usize) -> u64 {
        self.shared.versions.low(family, rank)
    }

    fn high(&self, family: usize, rank: usize) -> u64 {
        self.shared.versions.high(family, rank)
    }

    fn lows(&self, family: usize, ranks: Range<usize>) -> Vec<u64> {
        ranks.map(|rank| self.low(family, rank)).collect()
    }

    /// Checks the result of a read of a key that has just ended.
    fn check_version(
        &mut self,
        api: &str,
        (family, rank): (usize, usize),
        found: Option<&[u8]>,
        low: u64,
    ) -> Checked {
        let high = self.high(family, rank);
        self.check_version_within(api, (family, rank), found, (low, high))
    }

    fn check_version_within(
        &mut self,
        api: &str,
        (family, rank): (usize, usize),
        found: Option<&[u8]>,
        (low, high): (u64, u64),
    ) -> Checked {
        let certainty = check_version(found, low, high)
            .map_err(|what| violation(api, family, rank, found.is_none(), &what))?;
        self.tally.read(certainty);
        Ok(())
    }

    fn one(&mut self, family: usize, handle: &Handle<'a>, rank: usize) -> Checked {
        let (db, key, at) = (self.checker.db, self.key(rank), (family, rank));
        let low = self.low(family, rank);
        match self.random.below(8) {
            0 => {
                let found = db.get_pinned_cf(handle, key)?;
                self.check_version("get_pinned", at, found.as_deref(), low)
            }
            1 => {
                let found = db.get_unfiltered_cf(handle, key)?;
                self.check_version("the engine", at, found.as_deref(), low)
            }
            2 if family == 0 && !db.key_may_exist(key) => {
                self.check_version("key_may_exist", at, None, low)
            }
            3..=4 if db.filters().answer_cf(handle, key).is_absent() => {
                self.check_version("filter_answer", at, None, low)?;
                let found = db.get_unfiltered_cf(handle, key)?;
                self.check_version("the engine behind a negative", at, found.as_deref(), low)?;
                self.tally.checked_negatives += 1;
                Ok(())
            }
            5 if family == 0 => {
                let found = db.get(key)?;
                self.check_version("get", at, found.as_deref(), low)
            }
            _ => {
                let found = db.get_cf(handle, key)?;
                self.check_version("get_cf", at, found.as_deref(), low)
            }
        }
    }

    fn many(&mut self, family: usize, handle: &Handle<'a>, ranks: Range<usize>) -> Checked {
        let lows = self.lows(family, ranks.clone());
        let keys: Vec<&[u8]> = ranks.clone().map(|rank| self.key(rank)).collect();
        let found = if family == 0 {
            self.checker.db.multi_get(&keys)
        } else {
            let keys = keys.iter().map(|key| (handle, key));
            self.checker.db.multi_get_cf(keys)
        };
        for ((rank, found), low) in ranks.zip(found).zip(lows) {
            self.check_version("multi_get", (family, rank), found?.as_deref(), low)?;
        }
        Ok(())
    }

    /// A snapshot shows the versions of its sequence number, and does not change.
    fn snapshot(&mut self, family: usize, handle: &Handle<'a>, ranks: Range<usize>) -> Checked {
        let lows = self.lows(family, ranks.clone());
        let snapshot = self.checker.db.snapshot();
        // If snapshots change, later writes may be visible too.
        let highs = ranks.clone().map(|rank| match self.shared.snapshots_stay {
            true => self.high(family, rank),
            false => u64::MAX,
        });
        let highs: Vec<u64> = highs.collect();
        let mut options = ReadOptions::default();
        options.set_snapshot(&snapshot);
        for ((rank, low), high) in ranks.zip(lows).zip(highs) {
            let read = || self.checker.db.get_cf_opt(handle, self.key(rank), &options);
            let (first, second) = (read()?, read()?);
            if first != second && self.shared.snapshots_stay {
                let what = "two reads at one snapshot differ";
                return Err(violation("get", family, rank, second.is_none(), what));
            }
            let (at, found) = ((family, rank), second.as_deref());
            self.check_version_within("get at a snapshot", at, found, (low, high))?;
        }
        Ok(())
    }

    fn scan(&mut self, family: usize, handle: &Handle<'a>, ranks: Range<usize>) -> Checked {
        let lows = self.lows(family, ranks.clone());
        let reversed = self.checker.settings.is_reversed(family);
        let first = if reversed { ranks.end - 1 } else { ranks.start };
        let mode = IteratorMode::From(self.key(first), rocksdb::Direction::Forward);
        let snapshot = self.checker.db.snapshot();
        let found = snapshot.iterator_cf_opt(handle, everything(), mode);
        let found = found.take(ranks.len()).collect::<Result<Vec<_>, _>>()?;
        for (rank, low) in ranks.zip(lows) {
            let key = self.key(rank);
            let record = found.iter().find(|(found, _)| &**found == key);
            let value = record.map(|(_, value)| &**value);
            self.check_version("an iterator", (family, rank), value, low)?;
        }
        Ok(())
    }
}
