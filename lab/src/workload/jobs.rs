//! Whole jobs: what a program does with a store from beginning to end.
//!
//! Steps are made in chunks before the clock starts, so only the store is timed. All keys have 16
//! bytes and lie far apart in the sort order.

use lsm_sieve_cli::workload::Watch;
use lsm_sieve_cli::workload::keys::{absent_key, scattered_key};
use lsm_sieve_cli::workload::random::Random;
use lsm_sieve_cli::workload::replay::ReplayError;
use lsm_sieve_cli::workload::stopwatch::Spent;
use lsm_sieve_cli::workload::store::{Space, Store, VALUE};
use lsm_sieve_cli::workload::zipf::Zipf;

/// Steps made at a time.
const CHUNK: u64 = 1 << 14;

type Key = [u8; 16];

/// A job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Job {
    /// A bulk load with a unique key: each key is looked up, and put if it is absent.
    Load {
        /// The share of keys that came before.
        duplicates: f64,
    },
    /// Creation of records that must not exist yet, each in a transaction; half of them do.
    Create,
    /// Execution of a ledger's blocks over a state of as many slots: reads, 35% of them of empty
    /// slots, and a batch of writes at the end of each block, a fifth of them to new slots.
    Ledger,
    /// Reads of keys that are all there.
    Hits,
    /// Writes of new keys.
    Writes,
}

/// Reads and writes of one block of a ledger.
const BLOCK_READS: u64 = 2_000;
const BLOCK_WRITES: u64 = 400;
const EMPTY_SLOTS: f64 = 0.35;
const NEW_SLOTS: f64 = 0.2;
/// How unequal the slots of a block are.
const SKEW: f64 = 0.8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Creates the key unless it is there: in a transaction, if the store has them.
    Create(Key),
    Read(Key),
    Put(Key),
    /// Puts the key in the next batch.
    Collect(Key),
    /// Writes the batch.
    Commit,
}

impl Job {
    /// All jobs.
    pub const ALL: [Self; 7] = [
        Self::Load { duplicates: 0.0 },
        Self::Load { duplicates: 0.5 },
        Self::Load { duplicates: 0.95 },
        Self::Create,
        Self::Ledger,
        Self::Hits,
        Self::Writes,
    ];

    /// The name of the job in reports and on the command line.
    pub fn name(self) -> String {
        match self {
            Self::Load { duplicates } => format!("load-{:.0}", duplicates * 100.0),
            Self::Create => "create".to_owned(),
            Self::Ledger => "ledger".to_owned(),
            Self::Hits => "hits".to_owned(),
            Self::Writes => "writes".to_owned(),
        }
    }

    /// How many keys are there before the job begins.
    pub const fn loaded(self, keys: u64) -> u64 {
        match self {
            Self::Ledger | Self::Hits => keys,
            Self::Load { .. } | Self::Create | Self::Writes => 0,
        }
    }

    /// Loads what is there before the job begins.
    ///
    /// # Errors
    /// [`ReplayError`].
    pub fn prepare<S: Store>(
        self,
        keys: u64,
        store: &mut S,
        watch: &mut impl Watch,
    ) -> Result<(), ReplayError<S::Error>> {
        for from in (0..self.loaded(keys)).step_by(CHUNK as usize) {
            let to = (from + CHUNK).min(keys);
            for id in from..to {
                let put = store.write(Space::Default, &scattered_key(id), &VALUE);
                put.map_err(ReplayError::Store)?;
            }
            watch.advance(to - from)?;
        }
        store.flush().map_err(ReplayError::Store)
    }

    /// Does the job, of as many steps as there are keys. Returns the time, and how many lookups found
    /// their key: a job finds the same on every store.
    ///
    /// # Errors
    /// [`ReplayError`]; the store then holds what was written so far.
    pub fn run<S: Store>(
        self,
        keys: u64,
        store: &mut S,
        watch: &mut impl Watch,
    ) -> Result<(Spent, u64), ReplayError<S::Error>> {
        let mut steps = Steps::new(self, keys);
        let mut spent = Spent::default();
        let (mut left, mut found) = (keys, 0);
        let mut batch = Vec::new();
        while left > 0 {
            let chunk: Vec<Step> = steps.by_ref().take(CHUNK.min(left) as usize).collect();
            let (done, time) = Spent::on(|| {
                let mut steps = chunk.iter();
                steps.try_fold(0, |found, &step| {
                    Ok(found + u64::from(take(step, &mut batch, store)?))
                })
            });
            found += done.map_err(ReplayError::Store)?;
            spent += time;
            left -= chunk.len() as u64;
            watch.advance(chunk.len() as u64)?;
        }
        Ok((spent, found))
    }
}

/// Takes a step; returns whether it looked a key up and found it.
fn take<S: Store>(step: Step, batch: &mut Vec<Key>, store: &mut S) -> Result<bool, S::Error> {
    match step {
        Step::Create(key) => return Ok(!store.create(&key, &VALUE)?),
        Step::Read(key) => return store.read(Space::Default, &key),
        Step::Put(key) => store.write(Space::Default, &key, &VALUE)?,
        Step::Collect(key) => batch.push(key),
        Step::Commit => {
            store.write_many(batch, &VALUE)?;
            batch.clear();
        }
    }
    Ok(false)
}

/// The endless steps of a job.
struct Steps {
    job: Job,
    /// Keys that were created so far, or that are there.
    created: u64,
    random: Random,
    slots: Zipf,
    /// The next step within a block.
    at: u64,
}

impl Steps {
    fn new(job: Job, keys: u64) -> Self {
        Self {
            job,
            created: job.loaded(keys),
            random: Random::new(1),
            slots: Zipf::new(keys.max(1), SKEW),
            at: 0,
        }
    }

    /// A new key, or, with this probability, one that was created before.
    fn new_or_old(&mut self, old: f64) -> Key {
        if self.created > 0 && self.random.unit() < old {
            return scattered_key(self.random.below(self.created));
        }
        self.created += 1;
        scattered_key(self.created - 1)
    }

    fn slot(&mut self) -> Key {
        scattered_key(self.slots.draw(&mut self.random))
    }
}

impl Iterator for Steps {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        Some(match self.job {
            Job::Load { duplicates } => Step::Create(self.new_or_old(duplicates)),
            Job::Create => Step::Create(self.new_or_old(0.5)),
            Job::Hits => Step::Read(scattered_key(self.random.below(self.created))),
            Job::Writes => Step::Put(self.new_or_old(0.0)),
            Job::Ledger => {
                let at = self.at;
                self.at = (at + 1) % (BLOCK_READS + BLOCK_WRITES + 1);
                match at {
                    _ if at < BLOCK_READS && self.random.unit() < EMPTY_SLOTS => {
                        Step::Read(absent_key(&mut self.random))
                    }
                    _ if at < BLOCK_READS => Step::Read(self.slot()),
                    _ if at < BLOCK_READS + BLOCK_WRITES => {
                        let is_new = self.random.unit() < NEW_SLOTS;
                        Step::Collect(if is_new {
                            self.new_or_old(0.0)
                        } else {
                            self.slot()
                        })
                    }
                    _ => Step::Commit,
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::store::map::Map;
    use super::*;

    const KEYS: u64 = 40_000;

    fn run(job: Job) -> Map {
        let mut store = Map::default();
        job.prepare(KEYS, &mut store, &mut ()).unwrap();
        assert_eq!(store.len(Space::Default) as u64, job.loaded(KEYS));
        let (spent, found) = job.run(KEYS, &mut store, &mut ()).unwrap();
        assert!(!spent.wall.is_zero());
        let created = store.len(Space::Default) as u64 - job.loaded(KEYS);
        match job {
            Job::Load { .. } | Job::Create => assert_eq!(found, KEYS - created),
            Job::Hits => assert_eq!(found, KEYS),
            Job::Writes => assert_eq!(found, 0),
            Job::Ledger => assert!((KEYS / 2..KEYS * 2 / 3).contains(&found)),
        }
        store
    }

    #[test]
    fn a_load_creates_what_is_no_duplicate() {
        for (duplicates, least, most) in [
            (0.0, KEYS, KEYS),
            (0.5, KEYS * 49 / 100, KEYS * 51 / 100),
            (0.95, KEYS * 45 / 1_000, KEYS * 55 / 1_000),
        ] {
            let created = run(Job::Load { duplicates }).len(Space::Default) as u64;
            assert!((least..=most).contains(&created), "{created}");
        }
        let created = run(Job::Create).len(Space::Default) as u64;
        assert!((KEYS * 49 / 100..KEYS * 51 / 100).contains(&created));
    }

    #[test]
    fn a_third_of_the_reads_of_a_ledger_are_of_empty_slots() {
        let mut model: std::collections::HashSet<Key> = (0..KEYS).map(scattered_key).collect();
        let (mut reads, mut absent, mut commits) = (0, 0, 0);
        for step in Steps::new(Job::Ledger, KEYS).take(KEYS as usize) {
            match step {
                Step::Read(key) => {
                    reads += 1;
                    absent += u32::from(!model.contains(&key));
                }
                Step::Collect(key) => _ = model.insert(key),
                _ => commits += 1,
            }
        }
        assert_eq!(commits, 16);
        assert!((0.34..0.36).contains(&(f64::from(absent) / f64::from(reads))));
        let ledger = run(Job::Ledger);
        assert_eq!(ledger.len(Space::Default), model.len());
    }

    /// A store of nothing that counts the keys of its batches.
    #[derive(Default)]
    struct Batches(Vec<usize>);

    impl Store for Batches {
        type Error = std::convert::Infallible;

        fn read(&self, _: Space, _: &[u8]) -> Result<bool, Self::Error> {
            Ok(false)
        }

        fn read_many(&self, _: &[&[u8]]) -> Result<usize, Self::Error> {
            Ok(0)
        }

        fn write(&mut self, _: Space, _: &[u8], _: &[u8]) -> Result<(), Self::Error> {
            Ok(())
        }

        fn write_many(&mut self, keys: &[Key], _: &[u8]) -> Result<(), Self::Error> {
            self.0.push(keys.len());
            Ok(())
        }

        fn flush(&mut self) -> Result<(), Self::Error> {
            Ok(())
        }
    }

    #[test]
    fn each_block_of_a_ledger_is_written_in_a_batch_of_its_own() {
        let mut store = Batches::default();
        Job::Ledger.run(KEYS, &mut store, &mut ()).unwrap();
        assert_eq!(store.0, [BLOCK_WRITES as usize; 16]);
    }

    #[test]
    fn hits_create_nothing_and_writes_all() {
        assert_eq!(run(Job::Hits).len(Space::Default) as u64, KEYS);
        assert_eq!(run(Job::Writes).len(Space::Default) as u64, KEYS);
    }

    #[test]
    fn jobs_have_names_of_their_own() {
        let names = Job::ALL.map(Job::name);
        let distinct: std::collections::BTreeSet<_> = names.iter().collect();
        assert_eq!(distinct.len(), Job::ALL.len());
    }
}
