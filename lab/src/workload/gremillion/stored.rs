//! The experiment on a [`DifferentialStore`]: the same transactions, with the reads counted by
//! RocksDB itself.
//!
//! Without a filter, a read looks up the record in the differential file and, if it is not there,
//! in the main file: one lookup or two. The lookups that RocksDB did not count were avoided. Their
//! number must equal that of the filter's negative answers, which are counted beside every read.
//!
//! The store *without a filter* has a filter of one word. It is full after its first few hundred
//! keys and then always answers *maybe*.
//!
//! Reads are timed with the main file and the differential file in SSTs. In a memtable, an
//! unnecessary search costs next to nothing, so a filter could save no more than that. The stores
//! are timed in turn, so that both run under the same conditions. The SSTs have no filters of
//! RocksDB, and fit in its block cache.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rocksdb::Options;
use rocksdb::statistics::Ticker;
use serde::Serialize;

use crate::math::{Bits, Probes};
use lsm_sieve::SieveOptions;
use lsm_sieve_cli::workload::keys::scattered_key;
use lsm_sieve_cli::workload::report::{Tabular, number};
use lsm_sieve_differential::{
    DifferentialError, DifferentialOptions, DifferentialStore, FilterChoice, OpenDifferentialError,
};

use super::published::Printed;
use super::run::Trial;
use super::{Access, Scale, Script, Start, Target};

/// A filter of one word, which is soon full and then always answers *maybe*.
const NO_FILTER: FilterChoice = FilterChoice::Fixed {
    bits: Bits::new(64),
    probes: Probes::new(1),
};

const MAIN: [u8; 64] = [0; 64];
const NEWER: [u8; 64] = [1; 64];

/// How long maintenance may take to cover a new database.
const COVER_PATIENCE: Duration = Duration::from_secs(60);

/// Timed passes over a script. The first one loads the SSTs into the cache; the median discards its
/// time.
const PASSES: usize = 3;

/// Reads per pass: the first ones of the script.
const TIMED: usize = 25_000;

/// Why a store failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// The store could not be opened.
    #[error(transparent)]
    Open(#[from] OpenDifferentialError),
    /// A read or a write failed.
    #[error(transparent)]
    Store(#[from] DifferentialError),
    /// Its filters were not ready in time.
    #[error(
        "the filters of a new store were not ready in {COVER_PATIENCE:?}; run it on a less busy machine"
    )]
    Uncovered,
}

/// A store, with a model of its contents and counters.
struct Stored {
    store: DifferentialStore,
    engine: Options,
    newer: HashSet<Vec<u8>>,
    avoided: u64,
    stale: u64,
}

impl Stored {
    /// Creates a store at `path` with the whole universe in its main file.
    fn open(filter: FilterChoice, universe: u64, path: &Path) -> Result<Self, StoredError> {
        let mut engine = Options::default();
        engine.create_if_missing(true);
        engine.enable_statistics();
        let options = DifferentialOptions {
            filter,
            // An audit would search in spite of the filter's answer, and searches are counted here.
            filters: SieveOptions::default().audit(0),
            ..DifferentialOptions::default()
        };
        let store = DifferentialStore::open(&engine, &options, path)?;
        store.load((0..universe).map(|id| (scattered_key(id), MAIN)))?;
        let stored = Self {
            store,
            engine,
            newer: HashSet::new(),
            avoided: 0,
            stale: 0,
        };
        stored.covered()?;
        Ok(stored)
    }

    fn engine_reads(&self) -> u64 {
        self.engine.get_ticker_count(Ticker::NumberKeysRead)
    }

    /// Flushes all memtables and waits until coverage is complete.
    fn settle(&self) -> Result<(), StoredError> {
        self.store.flush()?;
        self.covered()
    }

    fn covered(&self) -> Result<(), StoredError> {
        if self
            .store
            .db()
            .filters()
            .wait_until_complete(COVER_PATIENCE)
        {
            Ok(())
        } else {
            Err(StoredError::Uncovered)
        }
    }

    /// Times one pass, without counting anything.
    fn time(&self, script: &Script) -> Result<Duration, StoredError> {
        let begun = Instant::now();
        for transaction in script.transactions().iter().take(TIMED) {
            std::hint::black_box(self.store.get(transaction.key)?);
        }
        Ok(begun.elapsed())
    }
}

impl Target for Stored {
    type Error = StoredError;

    fn update(&mut self, key: &[u8]) -> Result<(), StoredError> {
        self.store.put(key, NEWER)?;
        self.newer.insert(key.to_owned());
        Ok(())
    }

    fn read(&mut self, key: &[u8]) -> Result<bool, StoredError> {
        let searched = self.store.may_be_modified(key);
        self.avoided += u64::from(!searched);
        let newest = if self.newer.contains(key) {
            NEWER
        } else {
            MAIN
        };
        let stale = self.store.get(key)?.as_deref() != Some(&newest[..]);
        self.stale += u64::from(stale);
        Ok(searched)
    }
}

/// One filter on the store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredCell {
    /// `uniform`, or `zipf` and its exponent.
    pub access: String,
    /// The filter's size in bits.
    pub bits: u64,
    /// Its number of hash functions.
    pub probes: u32,
    /// The answers of the store.
    #[serde(flatten)]
    pub trial: Trial,
    /// Reads that did not return the newest version: must be 0.
    pub stale: u64,
    /// Searches of the differential file that the filter avoided by its own answer.
    pub avoided_by_filter: u64,
    /// Lookups that RocksDB would have counted without a filter and did not count: must be equal.
    pub avoided_in_engine: u64,
    /// Unnecessary searches per read of an unmodified record.
    pub rate: f64,
    /// Seconds of the first reads of the script.
    pub seconds: f64,
    /// Seconds of the same reads on the store without a filter.
    pub seconds_unfiltered: f64,
    /// The second over the first; the filter pays if it is above 1.
    pub speedup: f64,
}

/// One access pattern: its transactions, and the store without a filter with which all others are
/// compared.
pub struct Contest {
    access: Access,
    universe: u64,
    script: Script,
    unfiltered: Stored,
}

impl Contest {
    /// Draws the transactions, and creates the store without a filter in `home`, a new folder.
    ///
    /// # Errors
    /// [`StoredError`].
    pub fn new(access: Access, scale: &Scale, seed: u64, home: &Path) -> Result<Self, StoredError> {
        let universe = access.universe(scale);
        let script = Script::draw(access, universe, scale, seed);
        let mut unfiltered = Stored::open(NO_FILTER, universe, home)?;
        script
            .modified()
            .try_for_each(|key| unfiltered.update(&key))?;
        unfiltered.settle()?;
        Ok(Self {
            access,
            universe,
            script,
            unfiltered,
        })
    }

    /// Runs the transactions on a store in `home`, a new folder, with the filter of this cell,
    /// which has all keys from the start.
    ///
    /// # Errors
    /// [`StoredError`].
    pub fn run(&self, cell: &Printed, home: &Path) -> Result<StoredCell, StoredError> {
        let filter = FilterChoice::Fixed {
            bits: cell.bits,
            probes: cell.probes,
        };
        let mut filtered = Stored::open(filter, self.universe, home)?;
        let before = filtered.engine_reads();
        let trial = Trial::of(&self.script, Start::Preloaded, &mut filtered)?;
        let engine_reads = filtered.engine_reads() - before;
        let found = trial.reads - trial.unmodified;
        let unfiltered_reads = 2 * trial.reads - found;

        filtered.settle()?;
        let [seconds, seconds_unfiltered] = self.race(&filtered)?;
        Ok(StoredCell {
            access: self.access.name(),
            bits: cell.bits.get(),
            probes: cell.probes.get(),
            trial,
            stale: filtered.stale,
            avoided_by_filter: filtered.avoided,
            avoided_in_engine: unfiltered_reads.saturating_sub(engine_reads),
            rate: trial.rate(),
            seconds,
            seconds_unfiltered,
            speedup: seconds_unfiltered / seconds,
        })
    }

    /// Seconds of the reads with the filter and without: medians over passes. The stores take
    /// turns, and the one that begins alternates.
    fn race(&self, filtered: &Stored) -> Result<[f64; 2], StoredError> {
        let stores = [filtered, &self.unfiltered];
        let mut times = [const { Vec::new() }; 2];
        for pass in 0..PASSES {
            for turn in 0..stores.len() {
                let at = (pass + turn) % stores.len();
                times[at].push(stores[at].time(&self.script)?);
            }
        }
        Ok(times.map(|mut times| {
            times.sort_unstable();
            times[PASSES / 2].as_secs_f64()
        }))
    }
}

/// All cells on the store.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct StoredReport {
    /// By access, then size, then functions.
    pub cells: Vec<StoredCell>,
}

impl StoredReport {
    /// Describes the first cell with a result that must not happen.
    pub fn finding(&self) -> Option<String> {
        let bad = |cell: &&StoredCell| {
            cell.trial.false_negatives + cell.stale > 0
                || cell.avoided_by_filter != cell.avoided_in_engine
        };
        self.cells.iter().find(bad).map(|cell| {
            format!(
                "{} bits and {} hash functions, {}: {} modified records answered unmodified, \
                 {} stale reads, {} searches avoided by the filter and {} in RocksDB; report this",
                cell.bits,
                cell.probes,
                cell.access,
                cell.trial.false_negatives,
                cell.stale,
                cell.avoided_by_filter,
                cell.avoided_in_engine
            )
        })
    }
}

impl Tabular for StoredReport {
    fn head(&self) -> Vec<String> {
        [
            "access",
            "bits",
            "k",
            "reads",
            "avoided, filter",
            "avoided, RocksDB",
            "rate",
            "lost",
            "stale",
            "seconds",
            "without filter",
            "ratio",
        ]
        .map(str::to_owned)
        .to_vec()
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let row = |cell: &StoredCell| {
            vec![
                cell.access.clone(),
                number(cell.bits),
                cell.probes.to_string(),
                number(cell.trial.reads),
                number(cell.avoided_by_filter),
                number(cell.avoided_in_engine),
                format!("{:.4}", cell.rate),
                number(cell.trial.false_negatives),
                number(cell.stale),
                format!("{:.3}", cell.seconds),
                format!("{:.3}", cell.seconds_unfiltered),
                format!("{:.2}", cell.speedup),
            ]
        };
        self.cells.iter().map(row).collect()
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "access",
                "how records are chosen: all alike, or by Zipf's law",
            ),
            ("bits", "size of the filter of the differential file"),
            ("k", "hash functions"),
            ("reads", "reads of records"),
            (
                "avoided, filter",
                "searches of the differential file that the filter avoided",
            ),
            (
                "avoided, RocksDB",
                "the same by RocksDB's count of its reads",
            ),
            (
                "rate",
                "unnecessary searches per read of an unmodified record",
            ),
            (
                "lost",
                "modified records that were answered unmodified; must be 0",
            ),
            ("stale", "reads that returned an old value; must be 0"),
            ("seconds", "of the run with the filter"),
            ("without filter", "seconds of the run without it"),
            ("ratio", "seconds without over seconds with the filter"),
        ]
    }
}
