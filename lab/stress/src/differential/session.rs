//! A store from one open to the next: steps on it, on its model, and their comparison.

use std::ops::{Bound, ControlFlow, Range};
use std::path::Path;

use lsm_sieve::Items;
use lsm_sieve_differential::{Batch, DifferentialStore, Scan, Snapshot, Trigger};

use super::Differential;
use super::model::Model;
use super::step::{Api, Run, Step};
use lsm_sieve_stress::check::{Certainty, Checked, Tally, Violation};
use lsm_sieve_stress::keys::KeySpace;
use lsm_sieve_stress::model::{Contents, number, value};
use lsm_sieve_stress::session::PATIENCE;

pub(super) struct Session<'a> {
    pub(super) target: &'a Differential,
    pub(super) store: &'a DifferentialStore,
    pub(super) keys: &'a KeySpace,
    pub(super) model: &'a mut Model,
    pub(super) tally: &'a mut Tally,
    pub(super) home: &'a Path,
    pub(super) moment: Option<(Snapshot<'a>, Model)>,
}

impl Session<'_> {
    /// Carries out one step on the store and on its model. Its reads must be right.
    pub(super) fn apply(&mut self, step: &Step) -> Checked {
        match step {
            Step::Put { key, number } => self.write(&[(*key, Some(*number))])?,
            Step::Delete { key } => self.write(&[(*key, None)])?,
            Step::Batch(updates) => self.write_batch(updates)?,
            Step::Load { keys, number } => self.load(keys, *number)?,
            Step::Read { keys, api } => self.read(keys, *api)?,
            Step::Scan { keys, now } => self.scan(keys, *now)?,
            Step::Snapshot => self.moment = Some((self.store.snapshot(), self.model.clone())),
            Step::Freeze => {
                self.store.freeze()?;
                self.model.freeze();
            }
            Step::Reorganize { stop_after } => self.reorganize(*stop_after)?,
            Step::IfDue { records } => {
                if self.store.is_due(Trigger::Records(Items::new(*records)))? {
                    self.reorganize(None)?;
                }
            }
            Step::Flush => self.store.flush()?,
            Step::Consolidate => self.store.db().filters().consolidate()?,
            Step::Cover => {
                if !self.store.db().filters().wait_until_complete(PATIENCE) {
                    return Err(Violation::other("the filters of a store do not cover"));
                }
            }
            Step::Checkpoint => self.checkpoint()?,
            Step::Reopen => {}
            Step::LoseWrite { key } => self.model.write(*key, Some(0)),
        }
        Ok(())
    }

    // -------------------------------------------------------------- writes

    fn write(&mut self, updates: &[(usize, Option<u64>)]) -> Checked {
        for &(rank, number) in updates {
            let Some(key) = self.keys.get(rank) else {
                continue;
            };
            match number {
                Some(number) => self.store.put(key, value(number))?,
                None => self.store.delete(key)?,
            }
            self.model.write(rank, number);
            self.tally.wrote(1);
        }
        Ok(())
    }

    fn write_batch(&mut self, updates: &[(usize, Option<u64>)]) -> Checked {
        let mut batch = Batch::default();
        for &(rank, number) in updates {
            let Some(key) = self.keys.get(rank) else {
                continue;
            };
            match number {
                Some(number) => batch.put(key, value(number)),
                None => batch.delete(key),
            }
            self.model.write(rank, number);
        }
        self.tally.wrote(batch.len());
        Ok(self.store.write(&batch)?)
    }

    fn load(&mut self, keys: &Run, number: u64) -> Checked {
        let ranks = self.ranks(keys).filter(|rank| rank.is_multiple_of(2));
        let records: Vec<_> = ranks.map(|rank| (rank, number ^ rank as u64)).collect();
        let spelt = records
            .iter()
            .map(|&(rank, number)| (self.keys.get(rank).unwrap_or_default(), value(number)));
        self.store.load(spelt)?;
        self.tally.wrote(records.len());
        records
            .iter()
            .for_each(|&(rank, number)| self.model.load(rank, number));
        Ok(())
    }

    fn reorganize(&mut self, stop_after: Option<u64>) -> Checked {
        let mut left = stop_after;
        let done = self.store.reorganize(|_| match &mut left {
            None => ControlFlow::Continue(()),
            Some(0) => ControlFlow::Break(()),
            Some(left) => {
                *left -= 1;
                ControlFlow::Continue(())
            }
        })?;
        self.model.freeze();
        self.model.dropped(done.generations);
        if stop_after.is_none() && !done.finished {
            return Err(Violation::other("a reorganisation stopped by itself"));
        }
        Ok(())
    }

    // -------------------------------------------------------------- reads

    fn ranks(&self, keys: &Run) -> Range<usize> {
        let end = keys.from.saturating_add(keys.count).min(self.keys.len());
        keys.from.min(end)..end
    }

    fn read(&mut self, run: &Run, api: Api) -> Checked {
        let ranks = self.ranks(run);
        let keys: Vec<&[u8]> = ranks
            .clone()
            .filter_map(|rank| self.keys.get(rank))
            .collect();
        let store = self.store;
        let found: Vec<_> = match (api, &self.moment) {
            (Api::Modified, _) => return ranks.into_iter().try_for_each(|rank| self.ask(rank)),
            (Api::Multi, _) => store.multi_get(&keys),
            (Api::Unfiltered, _) => keys.iter().map(|key| store.get_unfiltered(key)).collect(),
            (Api::Snapshot, Some((moment, _))) => keys.iter().map(|key| moment.get(key)).collect(),
            (Api::SnapshotMulti, Some((moment, _))) => moment.multi_get(&keys),
            _ => keys.iter().map(|key| store.get(key)).collect(),
        };
        let model = match (api, &self.moment) {
            (Api::Snapshot | Api::SnapshotMulti, Some((_, model))) => model,
            _ => &*self.model,
        };
        for (rank, found) in ranks.clone().zip(found) {
            let (found, expected) = (found?, model.contents.get(rank));
            self.tally.read(Certainty::of(expected));
            if found.is_some() != expected.is_some()
                || found.as_deref().and_then(number) != expected
            {
                let found = found.as_deref().map(number);
                return Err(Violation {
                    lost: found.is_none(),
                    what: format!("{api:?} of key {rank}: {found:?}, where {expected:?} is right"),
                });
            }
        }
        ranks.into_iter().try_for_each(|rank| self.ask(rank))
    }

    /// Checks the filters' answers for the differential file and for an absent key.
    fn ask(&mut self, rank: usize) -> Checked {
        let Some(key) = self.keys.get(rank) else {
            return Ok(());
        };
        let (may_be, expected) = (
            self.store.may_be_modified(key),
            self.model.is_modified(rank),
        );
        if expected && !may_be {
            return Err(Violation::lost(format!(
                "key {rank} is modified and not in the filters"
            )));
        }
        if self.store.is_modified(key)? != expected {
            return Err(Violation::lost(format!(
                "is_modified of key {rank} is not {expected}"
            )));
        }
        if may_be {
            self.tally.false_positives += u64::from(!expected);
        } else {
            self.tally.checked_negatives += 1;
        }
        Ok(())
    }

    fn scan(&mut self, run: &Run, now: bool) -> Checked {
        let ranks = self.ranks(run);
        let Some(from) = self.keys.get(ranks.start) else {
            return Ok(());
        };
        let end = self
            .keys
            .get(ranks.end)
            .map_or(Bound::Unbounded, Bound::Excluded);
        let range = (Bound::Included(from), end);
        let (found, model) = match &self.moment {
            Some((moment, model)) if !now => (moment.scan::<&[u8]>(range), model),
            _ => (self.store.scan::<&[u8]>(range), &*self.model),
        };
        let records = same(found, self.keys, &model.contents, ranks)?;
        (0..records).for_each(|_| self.tally.read(Certainty::MustExist));
        Ok(())
    }

    /// Compares every key with the model.
    pub(super) fn agree(&mut self) -> Checked {
        let all = Run {
            from: 0,
            count: self.keys.len(),
        };
        self.read(&all, Api::Multi)?;
        self.scan(&all, true)
    }

    fn checkpoint(&mut self) -> Checked {
        let path = self.home.join("copy");
        self.store.checkpoint(&path)?;
        let copy = self.target.open(&path)?;
        self.tally.opened += 1;
        let mut session = Session {
            target: self.target,
            store: &copy,
            keys: self.keys,
            model: self.model,
            tally: self.tally,
            home: self.home,
            moment: None,
        };
        session.agree()?;
        drop(session);
        copy.close()?;
        Ok(std::fs::remove_dir_all(&path)?)
    }
}

/// The number of records that a scan returned, each checked.
fn same(
    scan: Scan<'_>,
    keys: &KeySpace,
    contents: &Contents,
    ranks: Range<usize>,
) -> Result<usize, Violation> {
    let mut expected = contents.held(ranks);
    let mut records = 0;
    for record in scan {
        let (key, value) = record?;
        let right = expected.next().is_some_and(|(rank, right)| {
            keys.get(rank) == Some(&key) && number(&value) == Some(right)
        });
        if !right {
            let key = key.escape_ascii();
            return Err(Violation::other(format!(
                "a scan stands at {key}, out of turn"
            )));
        }
        records += 1;
    }
    match expected.next() {
        None => Ok(records),
        Some((rank, _)) => Err(Violation::lost(format!("a scan passes over key {rank}"))),
    }
}
