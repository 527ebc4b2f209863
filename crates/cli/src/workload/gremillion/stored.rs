//! The experiment on a [`DifferentialStore`]: the same transactions, with RocksDB's reads counted by
//! RocksDB itself.
//!
//! Without a filter a read asks the engine for the differential file and then, unless it was found,
//! for the main file: two look-ups, or one. What RocksDB counted less is what was avoided, and it
//! must be what the filter, asked beside every read, said.
//!
//! The store *without a filter* is one whose filter is a single word: full after its first few
//! hundred keys, it always says *maybe*.
//!
//! What is timed is reads, with main and differential file in tables: in a memtable a
//! search in vain costs next to nothing, and a filter could save no more. Both stores take turns, so
//! that neither has the warmer machine. The tables have no filters of RocksDB's own, and fit its
//! block cache.

use std::collections::HashSet;
use std::path::Path;
use std::time::{Duration, Instant};

use rocksdb::Options;
use rocksdb::statistics::Ticker;
use serde::Serialize;

use crate::differential::{
    DifferentialError, DifferentialOptions, DifferentialStore, FilterChoice, OpenDifferentialError,
};
use crate::math::{Bits, Probes};
use crate::workload::keys::scattered_key;
use crate::workload::report::{Tabular, number};
use lsm_sieve::SieveOptions;

use super::published::Printed;
use super::run::Trial;
use super::{Access, Scale, Script, Start, Subject};

/// A full word: always *maybe*.
const NO_FILTER: FilterChoice = FilterChoice::Fixed {
    bits: Bits::new(64),
    probes: Probes::new(1),
};

const MAIN: [u8; 64] = [0; 64];
const NEWER: [u8; 64] = [1; 64];

/// How long upkeep may take to look through a new database.
const COVER_PATIENCE: Duration = Duration::from_secs(60);

/// Timed passes over a script; the first brings the tables into the cache, and the median leaves it
/// out.
const PASSES: usize = 3;

/// Reads of a pass: the script's first ones.
const TIMED: usize = 25_000;

/// Why a store did not answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoredError {
    /// It could not be opened.
    #[error(transparent)]
    Open(#[from] OpenDifferentialError),
    /// It failed.
    #[error(transparent)]
    Store(#[from] DifferentialError),
    /// Its filters did not come.
    #[error(
        "the filters of a new store were not ready in {COVER_PATIENCE:?}; run it on a less busy machine"
    )]
    Uncovered,
}

/// A store, and what is known of it.
struct Stored {
    store: DifferentialStore,
    engine: Options,
    newer: HashSet<Vec<u8>>,
    avoided: u64,
    stale: u64,
}

impl Stored {
    /// A new store at `path`, its main file holding the whole universe.
    fn open(filter: FilterChoice, universe: u64, path: &Path) -> Result<Self, StoredError> {
        let mut engine = Options::default();
        engine.create_if_missing(true);
        engine.enable_statistics();
        let options = DifferentialOptions {
            filter,
            // An audit searches where the filter says that nothing is: here searches are counted.
            front: SieveOptions::default().audit(0),
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

    /// Brings all files into tables, and their filters to rest.
    fn settle(&self) -> Result<(), StoredError> {
        self.store.flush()?;
        self.covered()
    }

    fn covered(&self) -> Result<(), StoredError> {
        if self.store.front().wait_until_covered(COVER_PATIENCE) {
            Ok(())
        } else {
            Err(StoredError::Uncovered)
        }
    }

    /// The time that a pass takes, nothing counted.
    fn time(&self, script: &Script) -> Result<Duration, StoredError> {
        let begun = Instant::now();
        for transaction in script.transactions().iter().take(TIMED) {
            std::hint::black_box(self.store.get(transaction.key)?);
        }
        Ok(begun.elapsed())
    }
}

impl Subject for Stored {
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
    /// Its hash functions.
    pub probes: u32,
    /// What the store answered.
    #[serde(flatten)]
    pub trial: Trial,
    /// Reads that got another version than the newest: must be 0.
    pub stale: u64,
    /// Reads that the filter kept from the differential file, asked beside the store.
    pub avoided_by_filter: u64,
    /// Look-ups that RocksDB did not count, and would have without a filter: must be the same.
    pub avoided_in_engine: u64,
    /// Unnecessary searches a read of an unmodified record.
    pub rate: f64,
    /// Seconds that the script's first reads take.
    pub seconds: f64,
    /// Seconds that they take on the same store without a filter.
    pub seconds_unfiltered: f64,
    /// The second over the first: above 1 the filter pays.
    pub speedup: f64,
}

/// One way of access: its transactions, and the store without a filter that all others race.
pub struct Contest {
    access: Access,
    universe: u64,
    script: Script,
    unfiltered: Stored,
}

impl Contest {
    /// Draws the transactions, and makes the store without a filter in `home`, a new folder.
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

    /// Runs the transactions on a store in `home`, a new folder, with this filter, full from the
    /// start.
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

    /// Seconds that the reads take with the filter and without: medians of passes in turns, another
    /// store first each time.
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
    /// What must not be, of the first cell that has it.
    pub fn finding(&self) -> Option<String> {
        let bad = |cell: &&StoredCell| {
            cell.trial.false_negatives + cell.stale > 0
                || cell.avoided_by_filter != cell.avoided_in_engine
        };
        self.cells.iter().find(bad).map(|cell| {
            format!(
                "{} bits and {} functions, {}: {} modified records answered unmodified, {} stale \
                 reads, {} searches avoided by the filter and {} in RocksDB; report this",
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
}
