//! Inspection: reads every filter and reports its state.

use std::collections::HashSet;

use rocksdb::ThreadMode;

use crate::filter::{Chain, Stage};
use crate::format::Source;
use crate::front::audit::FalseNegative;
use crate::front::cf_filter::CfFilter;
use crate::front::engine::LiveSegment;
use crate::front::maintenance::planning::FilterPlan;
use crate::front::maintenance::scrub::Scrubbed;
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Rate, growth};
use crate::rocks::db::SieveDb;
use crate::rocks::engine::with_cf_of;
use crate::rocks::error::InspectError;
use crate::rocks::hooks;
use crate::rocks::hooks::sieve::Sieve;
use crate::segment::{SealedFilter, SegmentId};

/// Random hashes that a filter is probed with to measure its rate.
const SAMPLE: u64 = 100_000;

/// The state of all filters of a database.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// One report per column family.
    pub cfs: Vec<CfReport>,
    /// The false negative that an audit found since the open, if any; it ended the trust in the
    /// filters.
    pub false_negative: Option<FalseNegative>,
    /// Runs that ended with a false negative: each left an `identity.void-` file beside the
    /// filters.
    pub distrusted_runs: usize,
    /// What scrubbing has read and found since the open.
    pub scrubbed: Scrubbed,
}

/// The state of one column family's filters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CfReport {
    /// The column family's name.
    pub name: String,
    /// The summary filter.
    pub summary: FilterReport,
    /// Live SSTs that the summary filter does not cover; `None` if not known yet.
    pub uncovered: Option<usize>,
    /// Its live SSTs.
    pub segments: Vec<SegmentReport>,
}

/// The state of one SST's segment filter.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct SegmentReport {
    /// The id that binds filter and SST. `None` for SSTs older than RocksDB 6.24, whose filters are
    /// not stored.
    pub id: Option<SegmentId>,
    /// The SST's file.
    pub file: String,
    /// The SST's level; `None` if it was compacted away meanwhile.
    pub level: Option<u32>,
    /// Raw entries of the SST.
    pub entries: u64,
    /// Whether the summary filter covers the SST.
    pub covered: bool,
    /// Whether RocksDB itself probes this filter, because the SST was written with the plugin.
    pub consulted: bool,
    /// Whether the filter was loaded from a sidecar, or stored in one.
    pub saved: bool,
    /// The filter, if there is one. Without it, any key may be in the SST.
    pub filter: Option<FilterReport>,
    /// What maintenance will do with it; `None` if no segment filter is wanted.
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
    /// Bits per key.
    pub bits_per_key: f64,
    /// The fill ratio: share of bits that are set.
    pub fill: f64,
    /// The false-positive rate computed from the keys.
    pub predicted_rate: f64,
    /// The false-positive rate measured with random hashes.
    pub observed_rate: f64,
    /// The configured false-positive rate.
    pub promised_rate: f64,
    /// Where its keys came from.
    pub source: String,
}

impl<T: ThreadMode> SieveDb<T> {
    /// Reads and reports the state of every filter.
    ///
    /// # Errors
    /// If RocksDB cannot list its SSTs.
    pub fn inspect(&self) -> Result<Inspection, InspectError> {
        self.sieve().inspect()
    }
}

impl Sieve {
    /// As [`SieveDb::inspect`].
    ///
    /// # Errors
    /// As there.
    pub fn inspect(&self) -> Result<Inspection, InspectError> {
        let cfs = self.filters.cf_filters.all();
        let cfs = cfs
            .iter()
            .map(|cf_filter| self.report(cf_filter))
            .collect::<Result<_, _>>()?;
        Ok(Inspection {
            cfs,
            false_negative: self.filters.false_negative().cloned(),
            distrusted_runs: self.filters.filter_store.distrusted_runs(),
            scrubbed: self.filters.scrubbed(),
        })
    }

    fn report(&self, cf_filter: &CfFilter) -> Result<CfReport, InspectError> {
        let view = cf_filter.view();
        let covered = cf_filter.covered();
        // Not a copy: a summary filter may be large.
        let saturated = Chain::saturated(view.summary.imprint());
        let stages = view.summary.all_stages();
        let stages = stages.unwrap_or_else(|| saturated.stages().iter().collect());
        let promised = self.filters.cf_filters.summary_rate();
        let tables = self.tables(cf_filter)?;
        let segments = tables
            .iter()
            .map(|table| self.report_table(cf_filter, table, &covered))
            .collect();
        Ok(CfReport {
            name: cf_filter.name().to_owned(),
            summary: FilterReport::of(&stages, promised, Source::Snapshot),
            uncovered: view.uncovered(),
            segments,
        })
    }

    fn report_table(
        &self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
        covered: &HashSet<SegmentId>,
    ) -> SegmentReport {
        let id = table.id();
        let segment = id.and_then(|id| self.filters.registry.get(id));
        let filter = segment.as_ref().and_then(|segment| segment.filter());
        SegmentReport {
            id: table.lasting_id,
            file: table.path.clone(),
            level: table.level,
            entries: table.entries,
            covered: id.is_some_and(|id| covered.contains(&id)),
            consulted: table.is_checked_by_engine,
            saved: segment.is_some_and(|segment| segment.is_saved()),
            decision: self.decision(cf_filter, table, filter.as_deref()),
            filter: filter.map(|filter| {
                let stages: Vec<&Stage> = filter.chain.stages().iter().collect();
                FilterReport::of(&stages, filter.rate, filter.source)
            }),
        }
    }

    fn decision(
        &self,
        cf_filter: &CfFilter,
        table: &LiveSegment,
        filter: Option<&SealedFilter>,
    ) -> Option<FilterPlan> {
        let (rate, _) = cf_filter.segment_rate().zip(table.id())?;
        let own = filter.map(|filter| filter.chain.size());
        let needed = self
            .filters
            .options
            .segment_size(Items::new(table.entries), rate);
        let room = || self.filters.room(own.unwrap_or_default());
        let prefixes = cf_filter.prefixes();
        Some(FilterPlan::of(filter, rate, prefixes, needed, room))
    }

    /// The live SSTs of a column family; none if it is gone.
    pub(super) fn tables(&self, cf_filter: &CfFilter) -> Result<Vec<LiveSegment>, InspectError> {
        match with_cf_of(cf_filter.key_space(), &self.base, hooks::live_tables) {
            Some(listed) => {
                let listed = listed.map_err(|reason| InspectError::List {
                    cf: cf_filter.name().to_owned(),
                    reason,
                });
                let mut tables = listed?;
                cf_filter.instance_ids().recall(&mut tables);
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

/// The share of random hashes that pass a filter. Hashes are uniform, so a random one stands for an
/// absent key.
fn observed_rate(may_contain: impl Fn(KeyHash) -> bool) -> f64 {
    // The golden-ratio sequence: evenly spread and the same in each run.
    let hash = |i: u64| KeyHash::new(i.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ i.rotate_left(32));
    let matches = (1..=SAMPLE).filter(|&i| may_contain(hash(i))).count();
    matches as f64 / SAMPLE as f64
}

/// The share of set bits; 0 without stages.
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

    /// SSTs used to be looked up by the column family's name alone. Until maintenance noticed,
    /// those of a new column family were listed and checked as the old one's.
    #[test]
    fn the_tables_of_a_family_made_again_behind_our_back_are_not_the_old_ones() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let sieve = SieveOptions::default();
        let db = SieveDb::builder(home.path())
            .options(&options)
            .filters(&sieve)
            .cfs(["again"])
            .open()
            .unwrap();
        let filters = db.cf_filters().all();
        let cf_filter = filters
            .iter()
            .find(|cf_filter| cf_filter.name() == "again")
            .unwrap();
        let write = || {
            let cf = db.cf_handle("again").unwrap();
            db.put_cf(&cf, b"key", b"value").unwrap();
            db.flush_cf(&cf).unwrap();
        };
        write();
        assert_eq!(db.sieve().tables(cf_filter).unwrap().len(), 1);
        db.drop_cf("again").unwrap();
        db.create_cf("again", &options).unwrap();
        write();
        assert!(db.sieve().tables(cf_filter).unwrap().is_empty());
    }
}
