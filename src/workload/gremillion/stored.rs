//! The experiment on a [`DifferentialStore`]: the same transactions, with RocksDB's reads counted by
//! RocksDB itself.
//!
//! Without a filter a read asks the engine for the differential file and then, unless it was found,
//! for the main file: two look-ups, or one. What RocksDB counted less is what was avoided, and it
//! must be what the filter, asked beside every read, said.
//!
//! The store *without a filter* is one whose filter is a single word: full after its first few
//! hundred keys, it always says *maybe*.

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

use super::published::Printed;
use super::run::Trial;
use super::{Script, Start, Subject};

/// A full word: always *maybe*.
const NO_FILTER: FilterChoice = FilterChoice::Fixed {
    bits: Bits::new(64),
    probes: Probes::new(1),
};

const MAIN: [u8; 64] = [0; 64];
const NEWER: [u8; 64] = [1; 64];

/// How long upkeep may take to look through a new database.
const COVER_PATIENCE: Duration = Duration::from_secs(60);

/// Timed passes over a script; the median is taken.
const PASSES: usize = 3;

/// Why a store did not answer.
#[derive(Debug, thiserror::Error)]
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
            ..DifferentialOptions::default()
        };
        let store = DifferentialStore::open(&engine, &options, path)?;
        store.load((0..universe).map(|id| (scattered_key(id), MAIN)))?;
        if !store.front().wait_until_covered(COVER_PATIENCE) {
            return Err(StoredError::Uncovered);
        }
        Ok(Self {
            store,
            engine,
            newer: HashSet::new(),
            avoided: 0,
            stale: 0,
        })
    }

    fn engine_reads(&self) -> u64 {
        self.engine.get_ticker_count(Ticker::NumberKeysRead)
    }

    /// The time that one pass over the script takes, nothing counted.
    fn time(&self, script: &Script) -> Result<Duration, StoredError> {
        let begun = Instant::now();
        for transaction in script.transactions() {
            std::hint::black_box(self.store.get(transaction.key)?);
            if transaction.updates {
                self.store.put(transaction.key, NEWER)?;
            }
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
    /// Seconds of a pass over the script.
    pub seconds: f64,
    /// Seconds of a pass over the same store without a filter.
    pub seconds_unfiltered: f64,
    /// The second over the first: above 1 the filter pays.
    pub speedup: f64,
}

/// Runs one script on two stores below `home`, a new and empty folder: with the cell's filter, full
/// from the start, and without.
///
/// # Errors
/// [`StoredError`].
pub fn run(
    cell: &Printed,
    access: &super::Access,
    universe: u64,
    script: &Script,
    home: &Path,
) -> Result<StoredCell, StoredError> {
    let filter = FilterChoice::Fixed {
        bits: cell.bits,
        probes: cell.probes,
    };
    let mut with = Stored::open(filter, universe, &home.join("with"))?;
    let before = with.engine_reads();
    let trial = Trial::of(script, Start::Preloaded, &mut with)?;
    let engine_reads = with.engine_reads() - before;
    let found = trial.reads - trial.unmodified;
    let unfiltered_reads = 2 * trial.reads - found;

    let mut without = Stored::open(NO_FILTER, universe, &home.join("without"))?;
    script.modified().try_for_each(|key| without.update(&key))?;
    let mut times = [Vec::with_capacity(PASSES), Vec::with_capacity(PASSES)];
    for _ in 0..PASSES {
        for (times, store) in times.iter_mut().zip([&with, &without]) {
            times.push(store.time(script)?);
        }
    }
    let [seconds, seconds_unfiltered] = times.map(|mut times| {
        times.sort_unstable();
        times[PASSES / 2].as_secs_f64()
    });
    Ok(StoredCell {
        access: access.name(),
        bits: cell.bits.get(),
        probes: cell.probes.get(),
        trial,
        stale: with.stale,
        avoided_by_filter: with.avoided,
        avoided_in_engine: unfiltered_reads.saturating_sub(engine_reads),
        rate: trial.rate(),
        seconds,
        seconds_unfiltered,
        speedup: seconds_unfiltered / seconds,
    })
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
