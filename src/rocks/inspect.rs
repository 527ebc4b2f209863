//! What there is: the state of every filter.

use std::collections::HashSet;

use super::SieveDb;
use super::audit::Refutation;
use super::bound;
use super::column::Column;
use super::error::InspectError;
use super::ffi::{self, LiveTable};
use super::planning::FilterPlan;
use super::scrub::Scrubbed;
use crate::filter::{Chain, Stage};
use crate::format::Source;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate, growth};
use crate::segment::{SealedFilter, SegmentId};

/// Random hashes that a filter is asked for its observed rate.
const SAMPLE: u64 = 100_000;

/// The state of all filters of a database.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
#[non_exhaustive]
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
#[non_exhaustive]
pub struct SegmentReport {
    /// The identity that binds filter and table; `None` for tables older than RocksDB 6.24, whose filters are
    /// not stored.
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
    /// What upkeep makes of it; `None` where no filter is wanted.
    pub decision: Option<FilterPlan>,
}

/// The state of one filter.
#[derive(Clone, Debug)]
#[non_exhaustive]
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
        // Not a copy: a summary may be large.
        let saturated = Chain::saturated(view.summary.imprint());
        let stages = view.summary.complete_stages();
        let stages = stages.unwrap_or_else(|| saturated.stages().iter().collect());
        let promised = self.columns().summary_rate();
        let tables = self.tables(column)?;
        let segments = tables
            .iter()
            .map(|table| self.report_table(column, table, &covers))
            .collect();
        Ok(ColumnReport {
            name: column.name().to_owned(),
            summary: FilterReport::of(&stages, promised, Source::Snapshot),
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
            id: table.lasting_id(),
            file: table.path.clone(),
            level: table.level,
            entries: table.entries,
            covered: id.is_some_and(|id| covers.contains(&id)),
            consulted: table.captured.is_some(),
            saved: segment.is_some_and(|segment| segment.is_saved()),
            decision: self.decision(column, table, filter.as_deref()),
            filter: filter.map(|filter| {
                let stages: Vec<&Stage> = filter.chain.stages().iter().collect();
                FilterReport::of(&stages, filter.rate, filter.source)
            }),
        }
    }

    fn decision(
        &self,
        column: &Column,
        table: &LiveTable,
        filter: Option<&SealedFilter>,
    ) -> Option<FilterPlan> {
        let (rate, _) = column.segment_rate().zip(table.id())?;
        let own = filter.map(|filter| filter.chain.size());
        let needed = self.segment_size(Items::new(table.entries), rate);
        let room = || self.room(own.unwrap_or_default());
        Some(FilterPlan::of(filter, rate, needed, room))
    }

    /// The live tables of a front's family; none when that is gone.
    pub(super) fn tables(&self, column: &Column) -> Result<Vec<LiveTable>, InspectError> {
        match bound::family(column, self.engine()) {
            Some(handle) => {
                let listed = ffi::live_tables(&handle).map_err(|reason| InspectError::List {
                    column: column.name().to_owned(),
                    reason,
                });
                let mut tables = listed?;
                column.instance_ids().recall(&mut tables);
                Ok(tables)
            }
            None => Ok(Vec::new()),
        }
    }
}

impl FilterReport {
    fn of(stages: &[&Stage], promised: Rate, source: Source) -> Self {
        let keys: Items = stages.iter().map(|stage| stage.items()).sum();
        let bits: Bits = stages.iter().map(|stage| stage.size()).sum();
        let rates = stages.iter().map(|stage| stage.predicted_rate());
        let may_contain = |hash| stages.iter().any(|stage| stage.may_contain(hash));
        Self {
            keys: keys.get(),
            stages: stages.len(),
            bits: bits.get(),
            bits_per_key: bits.per_key(keys),
            fill: fill_of(stages),
            predicted_rate: growth::compound(rates),
            observed_rate: observed_rate(may_contain),
            promised_rate: promised.get(),
            source: source.to_string(),
        }
    }
}

/// The share of random hashes that a filter does not rule out. A hash is uniform, so a random one
/// stands for an absent key.
fn observed_rate(may_contain: impl Fn(KeyHash) -> bool) -> f64 {
    // The golden-ratio sequence: evenly spread and the same in each run.
    let hash = |i: u64| KeyHash::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i.rotate_left(32));
    let matches = (1..=SAMPLE).filter(|&i| may_contain(hash(i))).count();
    matches as f64 / SAMPLE as f64
}

/// The share of set bits; none are in no stage.
fn fill_of(stages: &[&Stage]) -> f64 {
    let bits_of = |stage: &Stage| stage.size().get() as f64;
    let set: f64 = stages
        .iter()
        .map(|stage| stage.fill() * bits_of(stage))
        .sum();
    let bits: f64 = stages.iter().map(|stage| bits_of(stage)).sum();
    if bits == 0.0 { 0.0 } else { set / bits }
}

#[cfg(test)]
mod tests {
    use rocksdb::Options;

    use super::*;
    use crate::SieveOptions;

    /// Tables were looked up by the family's name alone: until upkeep had noticed, those of the new
    /// family were listed and checked as the old one's.
    #[test]
    fn the_tables_of_a_family_made_again_behind_our_back_are_not_the_old_ones() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let sieve = SieveOptions::default();
        let db = SieveDb::open_cf(&options, &sieve, home.path(), ["again"]).unwrap();
        let fronts = db.columns().all();
        let front = fronts.iter().find(|front| front.name() == "again").unwrap();
        let write = || {
            let family = db.cf_handle("again").unwrap();
            db.put_cf(&family, b"key", b"value").unwrap();
            db.flush_cf(&family).unwrap();
        };
        write();
        assert_eq!(db.tables(front).unwrap().len(), 1);
        db.with_engine(|engine| {
            engine.drop_cf("again").unwrap();
            engine.create_cf("again", &options).unwrap();
        });
        write();
        assert!(db.tables(front).unwrap().is_empty());
    }
}
