//! What there is: the state of every filter, and whether it is right.

use std::collections::HashSet;

use super::SieveDb;
use super::audit::Refutation;
use super::column::Column;
use super::error::InspectError;
use super::ffi::{self, LiveTable};
use super::planning::{self, Limits};
use super::scrub::Scrubbed;
use crate::filter::Chain;
use crate::format::Source;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate};
use crate::segment::{Decision, SealedFilter, SegmentId, SidecarError};

/// Random hashes that a filter is asked for its observed rate.
const SAMPLE: u64 = 100_000;

/// The state of all filters of a database.
#[derive(Clone, Debug)]
pub struct Inspection {
    /// One report a column family.
    pub columns: Vec<ColumnReport>,
    /// What ended the trust in the filters, if an audit did since the database was opened.
    pub refutation: Option<Refutation>,
    /// Runs that ended in a refutation: each left an `identity.void-` file beside the filters.
    pub refuted_runs: usize,
    /// What scrubbing has read and found since then.
    pub scrubbed: Scrubbed,
}

/// The state of one column family's filters.
#[derive(Clone, Debug)]
pub struct ColumnReport {
    /// Its name.
    pub name: String,
    /// The filter over all its keys.
    pub summary: FilterReport,
    /// Live tables that the summary does not speak for; `None`: not known yet.
    pub uncovered: Option<usize>,
    /// Its live tables.
    pub segments: Vec<SegmentReport>,
}

/// The state of one table's filter.
#[derive(Clone, Debug)]
pub struct SegmentReport {
    /// The identity that binds filter and table; `None` for tables older than RocksDB 6.24.
    pub id: Option<SegmentId>,
    /// The table's file.
    pub file: String,
    /// Its level; `None` when it was compacted away meanwhile.
    pub level: Option<u32>,
    /// Raw entries of the table.
    pub entries: u64,
    /// Whether the summary speaks for the table.
    pub covered: bool,
    /// Whether RocksDB itself asks this filter: the table was built with the plugin.
    pub consulted: bool,
    /// Whether its sidecar is on disk.
    pub saved: bool,
    /// The filter, if there is one; without, every key may be in the table.
    pub filter: Option<FilterReport>,
    /// What the merge planner says of it, and why; `None` where no filter is wanted.
    pub decision: Option<Decision>,
}

/// The state of one filter.
#[derive(Clone, Debug)]
pub struct FilterReport {
    /// Distinct keys.
    pub keys: u64,
    /// Stages.
    pub stages: usize,
    /// Bits of all stages.
    pub bits: u64,
    /// Bits a key.
    pub bits_per_key: f64,
    /// Share of bits that are set.
    pub fill: f64,
    /// Rate computed from the keys.
    pub predicted_rate: f64,
    /// Rate measured with random hashes.
    pub observed_rate: f64,
    /// Rate asked for.
    pub promised_rate: f64,
    /// Where the keys came from.
    pub source: String,
}

impl std::fmt::Display for LostKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{} in {} denied by {}",
            self.key.escape_ascii(),
            self.file,
            self.filter
        )
    }
}

/// What a verification found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Sidecars of live tables read and checked.
    pub sidecars_checked: u64,
    /// Sidecars, of tables or of a summary, that cannot be used, with the reason and the remedy.
    pub damaged: Vec<String>,
    /// Live tables without a sidecar: they are asked, until upkeep has built one.
    pub missing: Vec<String>,
    /// Raw entries asked of their table's filter and of the front; 0 unless asked for.
    pub entries_checked: u64,
    /// Keys that a filter denies though they are there. There must be none.
    pub lost: Vec<LostKey>,
}

impl VerifyReport {
    fn add(&mut self, other: Self) {
        self.sidecars_checked += other.sidecars_checked;
        self.damaged.extend(other.damaged);
        self.missing.extend(other.missing);
        self.entries_checked += other.entries_checked;
        self.lost.extend(other.lost);
    }
}

/// A key that a filter denies though it is there: a fault of lsm-sieve or of the machine.
#[derive(Clone, Debug)]
pub struct LostKey {
    /// The key.
    pub key: Vec<u8>,
    /// The table that holds it.
    pub file: String,
    /// The filter that denies it.
    pub filter: &'static str,
}

impl SieveDb {
    /// The state of every filter.
    ///
    /// # Errors
    /// When RocksDB cannot list its tables.
    pub fn inspect(&self) -> Result<Inspection, InspectError> {
        let columns = self.columns().all();
        let columns = columns
            .iter()
            .map(|column| self.report(column))
            .collect::<Result<_, _>>()?;
        Ok(Inspection {
            columns,
            refutation: self.refutation(),
            refuted_runs: self.shelf().disowned(),
            scrubbed: self.scrubbed(),
        })
    }

    fn report(&self, column: &Column) -> Result<ColumnReport, InspectError> {
        let view = column.view();
        let covers = column.covers();
        let chain = view.summary.to_chain();
        let promised = self.columns().summary_rate();
        let tables = self.tables(column)?;
        let segments = tables
            .iter()
            .map(|table| self.report_table(column, table, &covers))
            .collect();
        Ok(ColumnReport {
            name: column.name().to_owned(),
            summary: FilterReport::of(&chain, promised, Source::Snapshot),
            uncovered: view.uncovered(),
            segments,
        })
    }

    fn report_table(
        &self,
        column: &Column,
        table: &LiveTable,
        covers: &HashSet<SegmentId>,
    ) -> SegmentReport {
        let id = table.id();
        let segment = id.and_then(|id| self.registry().get(id));
        let filter = segment.as_ref().and_then(|segment| segment.filter());
        SegmentReport {
            id,
            file: table.path.clone(),
            level: table.level,
            entries: table.entries,
            covered: id.is_some_and(|id| covers.contains(&id)),
            consulted: table.captured.is_some(),
            saved: segment.is_some_and(|segment| segment.is_saved()),
            decision: self.decision(column, table, filter.as_deref()),
            filter: filter
                .map(|filter| FilterReport::of(&filter.chain, filter.rate, filter.source)),
        }
    }

    fn decision(
        &self,
        column: &Column,
        table: &LiveTable,
        filter: Option<&SealedFilter>,
    ) -> Option<Decision> {
        let rate = column.segment_rate()?;
        let chain = filter.map(|filter| &filter.chain);
        let limits = Limits {
            rate,
            room: self.room(chain.map_or(Bits::new(0), Chain::size)),
        };
        let imprint = column.hasher().imprint();
        let entries = Items::new(table.entries);
        Some(planning::decide(
            table.id()?,
            chain,
            imprint,
            entries,
            limits,
        ))
    }

    /// Checks the summaries and the sidecars of all live tables; with `full` also asks every filter, on disk and in
    /// memory, for every raw key of its table, and the front for every key that is not a tombstone.
    ///
    /// # Errors
    /// When RocksDB cannot list or read its tables.
    pub fn verify(&self, full: bool) -> Result<VerifyReport, InspectError> {
        let mut report = VerifyReport::default();
        for column in self.columns().all() {
            if let Err(error) = self.shelf().check_summary(column.name()) {
                report.damaged.push(full_text(&error));
            }
            self.verify_tables(&column, full, &mut report)?;
        }
        Ok(report)
    }

    /// A table that is compacted away meanwhile hands its keys to others: what was found in it is void, and the
    /// tables that are new since are checked as well.
    fn verify_tables(
        &self,
        column: &Column,
        full: bool,
        report: &mut VerifyReport,
    ) -> Result<(), InspectError> {
        let mut verified: HashSet<String> = HashSet::new();
        loop {
            let mut fresh = self.tables(column)?;
            fresh.retain(|table| !verified.contains(&table.path));
            let found: Vec<_> = fresh
                .into_iter()
                .map(|table| (self.verify_table(column, &table, full), table.path))
                .collect();
            let live = self.tables(column)?;
            let is_live = |path: &String| live.iter().any(|table| &table.path == path);
            let mut gone = false;
            for (found, path) in found {
                if is_live(&path) {
                    report.add(found?);
                    verified.insert(path);
                } else {
                    gone = true;
                }
            }
            if !gone {
                return Ok(());
            }
        }
    }

    fn verify_table(
        &self,
        column: &Column,
        table: &LiveTable,
        full: bool,
    ) -> Result<VerifyReport, InspectError> {
        let mut report = VerifyReport::default();
        let stored = self.verify_sidecar(table, &mut report);
        if full {
            self.verify_keys(column, table, stored.as_ref(), &mut report)?;
        }
        Ok(report)
    }

    fn verify_sidecar(&self, table: &LiveTable, report: &mut VerifyReport) -> Option<Chain> {
        let loaded = table.id().map(|id| self.shelf().load_checked(id));
        match loaded {
            Some(Ok(Some(filter))) => {
                report.sidecars_checked += 1;
                return Some(filter.chain);
            }
            Some(Err(error)) => report.damaged.push(full_text(&error)),
            None | Some(Ok(None)) => report.missing.push(table.path.clone()),
        }
        None
    }

    fn verify_keys(
        &self,
        column: &Column,
        table: &LiveTable,
        stored: Option<&Chain>,
        report: &mut VerifyReport,
    ) -> Result<(), InspectError> {
        let hasher = column.hasher();
        let view = column.view();
        let segment = table.id().and_then(|id| self.registry().get(id));
        let Some(handle) = self.engine().cf_handle(column.name()) else {
            return Ok(());
        };
        ffi::raw_keys(&handle, &table.path, |key, deletion| {
            let hash = hasher.hash(key);
            let resident = segment.as_ref().and_then(|segment| segment.answer(hash));
            let denials = [
                (
                    "the sidecar",
                    stored.is_some_and(|chain| !chain.may_contain(hash)),
                ),
                ("the resident filter", resident == Some(false)),
                ("the front", !deletion && view.answer(hash, key).is_absent()),
            ];
            for (filter, _) in denials.iter().filter(|(_, denied)| *denied) {
                report.lost.push(LostKey {
                    key: key.to_vec(),
                    file: table.path.clone(),
                    filter,
                });
            }
            report.entries_checked += 1;
            true
        })
        .map_err(|reason| InspectError::Read {
            path: table.path.clone(),
            reason,
        })
    }

    fn tables(&self, column: &Column) -> Result<Vec<LiveTable>, InspectError> {
        match self.engine().cf_handle(column.name()) {
            Some(handle) => ffi::live_tables(&handle).map_err(|reason| InspectError::List {
                column: column.name().to_owned(),
                reason,
            }),
            None => Ok(Vec::new()),
        }
    }
}

impl FilterReport {
    fn of(chain: &Chain, promised: Rate, source: Source) -> Self {
        Self {
            keys: chain.items().get(),
            stages: chain.stages().len(),
            bits: chain.size().get(),
            bits_per_key: chain.size().per_key(chain.items()),
            fill: fill_of(chain),
            predicted_rate: chain.predicted_rate(),
            observed_rate: observed_rate(chain),
            promised_rate: promised.get(),
            source: source.to_string(),
        }
    }
}

fn full_text(error: &SidecarError) -> String {
    let mut text = error.to_string();
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The share of random hashes that a filter does not rule out. A hash is uniform, so a random one
/// stands for an absent key.
fn observed_rate(chain: &Chain) -> f64 {
    // The golden-ratio sequence: evenly spread and the same in each run.
    let hash = |i: u64| KeyHash::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i.rotate_left(32));
    let matches = (1..=SAMPLE).filter(|&i| chain.may_contain(hash(i))).count();
    matches as f64 / SAMPLE as f64
}

fn fill_of(chain: &Chain) -> f64 {
    let bits: f64 = chain.size().get() as f64;
    let set: f64 = chain
        .stages()
        .iter()
        .map(|stage| stage.fill() * stage.size().get() as f64)
        .sum();
    if bits == 0.0 { 0.0 } else { set / bits }
}
