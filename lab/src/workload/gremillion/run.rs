//! Runs all cells over many seeds, on all processors, and compares their means with the exact
//! rates.
//!
//! The rate is measured in two ways: unnecessary searches per read, as Gremillion seems to have
//! done, and unnecessary searches per read of an *unmodified* record. The exact rate is about the
//! second. The expectation for a filling filter depends on when records were read. So each run is
//! compared with the expectation for its own script, and the difference is due only to the random
//! choice of the hash functions.

use std::num::NonZero;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use crate::filter::StageError;
use crate::math::{Items, differential};
use lsm_sieve_cli::workload::{Interrupted, Watch};

use super::interval::Interval;
use super::published::{self, Printed};
use super::target::Filtered;
use super::{Access, Hashing, Scale, Script, Start, Target, error_floor};

/// The answers of a target in one run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Trial {
    /// Reads, one per transaction.
    pub reads: u64,
    /// Of these, reads of records that were not in the differential file.
    pub unmodified: u64,
    /// Of these, reads that searched the differential file unnecessarily.
    pub unnecessary: u64,
    /// Reads of records in the differential file that did not search it: must be 0.
    pub false_negatives: u64,
}

impl Trial {
    /// Runs a script on a target.
    ///
    /// # Errors
    /// If the target fails.
    pub fn of<S: Target>(script: &Script, start: Start, target: &mut S) -> Result<Self, S::Error> {
        if start == Start::Preloaded {
            script.modified().try_for_each(|key| target.update(&key))?;
        }
        let mut trial = Self::default();
        for transaction in script.transactions() {
            let searched = target.read(&transaction.key)?;
            let modified = start.holds(transaction);
            trial.reads += 1;
            trial.unmodified += u64::from(!modified);
            trial.unnecessary += u64::from(!modified && searched);
            trial.false_negatives += u64::from(modified && !searched);
            if transaction.updates {
                target.update(&transaction.key)?;
            }
        }
        Ok(trial)
    }

    /// Unnecessary searches per read of an unmodified record.
    pub fn rate(&self) -> f64 {
        self.unnecessary as f64 / self.unmodified.max(1) as f64
    }

    /// Unnecessary searches per read.
    pub fn rate_an_access(&self) -> f64 {
        self.unnecessary as f64 / self.reads.max(1) as f64
    }
}

/// The parameters of an experiment.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The numbers of transactions and records.
    pub scale: Scale,
    /// The access patterns, each run in full.
    pub accesses: Vec<Access>,
    /// The hash functions of the filters.
    pub hashing: Hashing,
    /// Runs per cell, at least 2.
    pub seeds: usize,
    /// The seed of the first run; the others have the following seeds.
    pub first_seed: u64,
    /// Joint confidence of all intervals, between 0 and 1.
    pub confidence: f64,
}

/// Gremillion's scale, both access patterns, thirty seeds.
impl Default for Experiment {
    fn default() -> Self {
        Self {
            scale: Scale::default(),
            accesses: vec![Access::Uniform, Access::Zipf { exponent: 0.99 }],
            hashing: Hashing::Strong,
            seeds: 30,
            first_seed: 1,
            confidence: 0.95,
        }
    }
}

/// One filter with one access pattern and one start, over all seeds.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The filter and its printed rates.
    pub printed: Printed,
    /// The access pattern.
    pub access: Access,
    /// The keys in the filter at the start.
    pub start: Start,
    /// The exact rate per read of an unmodified record; for a filling filter, the mean over the
    /// seeds.
    pub exact: f64,
    /// The measured rate per read of an unmodified record.
    pub rate: Interval,
    /// The measured rate per read.
    pub rate_an_access: Interval,
    /// The measured rates of the seeds minus their expected rates.
    pub excess: Interval,
    /// Modified records that were not searched for, over all seeds: must be 0.
    pub false_negatives: u64,
}

impl Cell {
    /// Whether the interval of the mean contains the exact rate.
    pub fn is_within(&self) -> bool {
        self.excess.contains(0.0)
    }
}

/// The results of an experiment.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// By access, then start, then size, then functions.
    pub cells: Vec<Cell>,
    /// Means over the scripts, by access.
    pub scripts: Vec<(Access, ScriptMeans)>,
}

/// Means over the scripts of one access pattern.
#[derive(Clone, Copy, Debug, PartialEq, serde::Serialize)]
pub struct ScriptMeans {
    /// All records.
    pub universe: u64,
    /// Records read.
    pub accessed: f64,
    /// Transactions that update.
    pub updates: f64,
    /// The share of reads of records that are updated at any time in the run.
    pub modified: f64,
}

const STARTS: [Start; 2] = [Start::Preloaded, Start::Empty];

impl Start {
    /// Whether the differential file holds the record that is read.
    const fn holds(self, transaction: &super::transactions::Transaction) -> bool {
        match self {
            Self::Preloaded => transaction.modified_ever,
            Self::Empty => transaction.modified_before,
        }
    }

    /// For each n, the number of reads of unmodified records while the filter had n keys.
    fn reads_by_keys(self, script: &Script, updated: Items) -> Vec<u64> {
        let most = usize::try_from(updated.get()).unwrap_or(usize::MAX);
        let mut reads = vec![0; most + 1];
        let unmodified = |t: &&super::transactions::Transaction| !self.holds(t);
        for transaction in script.transactions().iter().filter(unmodified) {
            let keys = match self {
                Self::Preloaded => most,
                Self::Empty => transaction.updated_before as usize,
            };
            reads[keys] += 1;
        }
        reads
    }
}

/// The results of one script on all cells.
struct Run {
    access: usize,
    means: ScriptMeans,
    /// By start, then cell: the measured and the expected rate.
    trials: Vec<(Trial, f64)>,
}

impl Experiment {
    /// Number of intervals that are compared with the exact rate: all cells, accesses and starts.
    pub fn intervals(&self) -> usize {
        published::cells().count() * STARTS.len() * self.accesses.len()
    }

    /// Runs the experiment on all processors; `watch` advances with every finished run.
    ///
    /// # Errors
    /// [`ExperimentError`] if it was interrupted, or a filter cannot be allocated.
    ///
    /// # Panics
    /// If the scale or an exponent is one that [`Access::universe`] refuses.
    pub fn run(&self, watch: &mut impl Watch) -> Result<Outcome, ExperimentError> {
        let universes: Vec<u64> = self
            .accesses
            .iter()
            .map(|access| access.universe(&self.scale))
            .collect();
        let rates = self.rates();
        let jobs = self.accesses.len() * self.seeds;
        let (next, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
        let (sender, receiver) = mpsc::channel();
        let work = |sender: mpsc::Sender<Finished>| {
            let (universes, rates, next, stop) = (&universes, &rates, &next, &stop);
            move || {
                while !stop.load(Ordering::Relaxed) {
                    let job = next.fetch_add(1, Ordering::Relaxed);
                    if job >= jobs {
                        break;
                    }
                    let run = self.one(job % self.accesses.len(), job, universes, rates);
                    // This fails only if the receiver is gone, because the result is not needed.
                    let _ = sender.send((job, run));
                }
            }
        };
        let mut runs = thread::scope(|scope| {
            let workers = thread::available_parallelism().map_or(1, NonZero::get);
            for _ in 0..workers {
                scope.spawn(work(sender.clone()));
            }
            // Only the workers hold senders now, so the receiver ends when all of them have ended.
            drop(sender);
            let collected = collect(&receiver, jobs, watch);
            stop.store(true, Ordering::Relaxed);
            collected
        })?;
        // Runs finish in any order, and sums of f64 depend on the order.
        runs.sort_by_key(|&(job, _)| job);
        let runs: Vec<Run> = runs.into_iter().map(|(_, run)| run).collect();
        Ok(self.outcome(&runs))
    }

    /// For each cell, the exact rates with 0, 1, 2, ... keys, up to all updated records.
    fn rates(&self) -> Vec<Vec<f64>> {
        let rate = |cell: &Printed, keys| match self.hashing {
            Hashing::Strong => differential::preloaded(cell.bits, cell.probes, Items::new(keys)),
            Hashing::Weak => {
                differential::folded(error_floor::RANGE, cell.bits, cell.probes, Items::new(keys))
            }
        };
        let keys = 0..=self.scale.updated.get();
        published::cells()
            .map(|cell| keys.clone().map(|keys| rate(&cell, keys)).collect())
            .collect()
    }

    /// Runs the script of one seed on every cell, with both starts.
    fn one(
        &self,
        access: usize,
        job: usize,
        universes: &[u64],
        rates: &[Vec<f64>],
    ) -> Result<Run, StageError> {
        let seed = self
            .first_seed
            .wrapping_add((job / self.accesses.len()) as u64);
        let universe = universes[access];
        let script = Script::draw(self.accesses[access], universe, &self.scale, seed);
        let mut trials = Vec::with_capacity(STARTS.len() * rates.len());
        for start in STARTS {
            let reads = start.reads_by_keys(&script, self.scale.updated);
            for (cell, rates) in published::cells().zip(rates) {
                let mut filter = Filtered::new(cell.bits, cell.probes, self.hashing, seed)?;
                let trial = Trial::of(&script, start, &mut filter)?;
                trials.push((trial, differential::filling(&reads, rates)));
            }
        }
        Ok(Run {
            access,
            means: ScriptMeans::of(&script, universe),
            trials,
        })
    }

    fn outcome(&self, runs: &[Run]) -> Outcome {
        let mut outcome = Outcome {
            cells: Vec::with_capacity(self.intervals()),
            scripts: Vec::with_capacity(self.accesses.len()),
        };
        for (index, &access) in self.accesses.iter().enumerate() {
            let runs: Vec<&Run> = runs.iter().filter(|run| run.access == index).collect();
            outcome.scripts.push((access, ScriptMeans::over(&runs)));
            let places = STARTS
                .into_iter()
                .flat_map(|start| published::cells().map(move |cell| (start, cell)));
            for (place, (start, printed)) in places.enumerate() {
                let trials: Vec<(Trial, f64)> = runs.iter().map(|run| run.trials[place]).collect();
                outcome
                    .cells
                    .push(self.cell(&trials, printed, access, start));
            }
        }
        outcome
    }

    fn cell(
        &self,
        trials: &[(Trial, f64)],
        printed: Printed,
        access: Access,
        start: Start,
    ) -> Cell {
        let interval = |of: &dyn Fn(&(Trial, f64)) -> f64| {
            let samples: Vec<f64> = trials.iter().map(of).collect();
            Interval::of(&samples, self.confidence, self.intervals())
        };
        Cell {
            printed,
            access,
            start,
            exact: trials.iter().map(|(_, expected)| expected).sum::<f64>() / trials.len() as f64,
            rate: interval(&|(trial, _)| trial.rate()),
            rate_an_access: interval(&|(trial, _)| trial.rate_an_access()),
            excess: interval(&|(trial, expected)| trial.rate() - expected),
            false_negatives: trials.iter().map(|(trial, _)| trial.false_negatives).sum(),
        }
    }
}

impl ScriptMeans {
    fn of(script: &Script, universe: u64) -> Self {
        let share = |holds: fn(&super::transactions::Transaction) -> bool| {
            script.transactions().iter().filter(|t| holds(t)).count() as f64
        };
        Self {
            universe,
            accessed: script.accessed().get() as f64,
            updates: share(|t| t.updates),
            modified: share(|t| t.modified_ever) / script.transactions().len() as f64,
        }
    }

    fn over(runs: &[&Run]) -> Self {
        let mean = |of: fn(&Self) -> f64| {
            runs.iter().map(|run| of(&run.means)).sum::<f64>() / runs.len() as f64
        };
        Self {
            universe: runs.first().map_or(0, |run| run.means.universe),
            accessed: mean(|means| means.accessed),
            updates: mean(|means| means.updates),
            modified: mean(|means| means.modified),
        }
    }
}

/// Why an experiment has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExperimentError {
    /// It was stopped.
    #[error(transparent)]
    Interrupted(#[from] Interrupted),
    /// A filter could not be created.
    #[error(transparent)]
    Filter(#[from] StageError),
}

type Finished = (usize, Result<Run, StageError>);

fn collect(
    receiver: &mpsc::Receiver<Finished>,
    jobs: usize,
    watch: &mut impl Watch,
) -> Result<Vec<(usize, Run)>, ExperimentError> {
    let mut runs = Vec::with_capacity(jobs);
    for (job, run) in receiver.iter().take(jobs) {
        runs.push((job, run?));
        watch.advance(1)?;
    }
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stop;

    impl Watch for Stop {
        fn advance(&mut self, _steps: u64) -> Result<(), Interrupted> {
            Err(Interrupted)
        }
    }

    fn few(hashing: Hashing) -> Experiment {
        Experiment {
            hashing,
            seeds: 10,
            ..Experiment::default()
        }
    }

    #[test]
    fn every_cell_meets_the_exact_rate_whatever_the_access_the_start_and_the_hash() {
        for hashing in [Hashing::Strong, Hashing::Weak] {
            let outcome = few(hashing).run(&mut ()).unwrap();
            assert_eq!(outcome.cells.len(), 84);
            for cell in &outcome.cells {
                assert!(cell.is_within(), "{hashing:?} {cell:?}");
                assert!(cell.rate.half_width < 0.5 * cell.rate.mean, "{cell:?}");
                assert!(cell.rate_an_access.mean < cell.rate.mean);
                assert_eq!(cell.false_negatives, 0, "{cell:?}");
            }
        }
    }

    #[test]
    fn a_weak_hash_has_a_floor_and_a_strong_one_none() {
        let largest = |hashing| {
            let cells = few(hashing).run(&mut ()).unwrap().cells;
            let at = |cell: &&Cell| cell.printed.bits.get() == 65_536;
            let rates: Vec<f64> = cells.iter().filter(at).map(|c| c.rate.mean).collect();
            rates[..3].to_vec()
        };
        let (strong, weak) = (largest(Hashing::Strong), largest(Hashing::Weak));
        assert!(strong.iter().all(|&rate| rate < 0.016), "{strong:?}");
        assert!(weak.iter().all(|&rate| rate > 0.036), "{weak:?}");
    }

    #[test]
    fn an_experiment_can_be_interrupted_and_repeated() {
        let stopped = few(Hashing::Strong).run(&mut Stop);
        assert!(matches!(stopped, Err(ExperimentError::Interrupted(_))));
        let two = Experiment {
            seeds: 2,
            ..few(Hashing::Strong)
        };
        assert_eq!(two.run(&mut ()).unwrap(), two.run(&mut ()).unwrap());
    }

    /// Forgets every record, which must be reported as false negatives.
    struct Forgetful;

    impl Target for Forgetful {
        type Error = std::convert::Infallible;

        fn update(&mut self, _key: &[u8]) -> Result<(), Self::Error> {
            Ok(())
        }

        fn read(&mut self, _key: &[u8]) -> Result<bool, Self::Error> {
            Ok(false)
        }
    }

    #[test]
    fn a_subject_that_forgets_is_caught() {
        let scale = Scale::default();
        let script = Script::draw(Access::Uniform, 31_279, &scale, 1);
        let trial = Trial::of(&script, Start::Preloaded, &mut Forgetful).unwrap();
        assert_eq!(trial.false_negatives, trial.reads - trial.unmodified);
        assert!(trial.false_negatives > 7_000);
    }
}
