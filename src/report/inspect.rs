//! Inspection: reads every filter and reports its state.

use std::collections::HashSet;

use crate::engine::with_cf_of;
use crate::error::InspectError;
use crate::filter::{Chain, Stage};
use crate::format::Source;
use crate::hash::KeyHash;
use crate::hooks;
use crate::hooks::sieve::Sieve;
use crate::math::{Bits, Items, Rate, growth};
use lsm_sieve_front::audit::FalseNegative;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::engine::LiveSegment;
use lsm_sieve_front::maintenance::scrub::Scrubbed;
use lsm_sieve_front::maintenance::segment_plan::FilterPlan;
use lsm_sieve_front::segment::{SealedFilter, SegmentId};

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
    /// Whether the first stage is static.
    pub is_static: bool,
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

impl Sieve {
    /// Reads and reports the state of every filter.
    ///
    /// # Errors
    /// If RocksDB cannot list its SSTs.
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
        let covered = cf_filter.coverage().covered();
        // Not a copy: a summary filter may be large.
        let saturated = Chain::saturated(view.summary.imprint());
        let stages = view.summary.all_stages();
        let stages = stages.unwrap_or_else(|| saturated.stages().iter().collect());
        let rates = self.filters.cf_filters.summary_rates();
        let is_at_rest = view.summary.begins_static() && stages.len() == 1;
        let at_rest = rates.at_rest.filter(|_| is_at_rest);
        let promised = at_rest.unwrap_or(rates.growing);
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
        let (rate, _) = cf_filter.intake().segments().rate().zip(table.id())?;
        let own = filter.map(|filter| filter.chain.size());
        let room = || self.filters.room(own.unwrap_or_default());
        Some(FilterPlan::of_segment(cf_filter, table, filter, rate, room))
    }

    /// The live SSTs of a column family; none if it is gone.
    pub(super) fn tables(&self, cf_filter: &CfFilter) -> Result<Vec<LiveSegment>, InspectError> {
        match with_cf_of(cf_filter.key_space(), &self.engine, hooks::live_tables) {
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
            is_static: stages.first().is_some_and(|stage| stage.is_static()),
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
    use std::fs;
    use std::time::Duration;

    use rocksdb::{DB, Options};

    use super::*;
    use crate::filter::Kind;
    use crate::{SieveDb, SieveOptions};

    const LIMIT: Duration = Duration::from_secs(60);

    /// Each figure is compared with one that is computed apart from it, and no two are equal.
    #[test]
    fn filter_report_says_of_each_figure_its_own_value() {
        let stage = |room: u64, keys: std::ops::Range<u64>| {
            let stage = Stage::with_rate(Kind::Blocked, Items::new(room), Rate::ONE_PERCENT);
            let stage = stage.unwrap();
            let hash = |key: u64| KeyHash::new(key.wrapping_mul(0xa076_1d64_78bd_642f));
            keys.for_each(|key| _ = stage.insert(hash(key)));
            stage
        };
        let stages = [stage(3_000, 0..3_000), stage(1_000, 3_000..3_400)];
        let [one, other] = &stages;
        let promised = Rate::new(0.03).unwrap();
        let report = FilterReport::of(&[one, other], promised, Source::RawKeys);
        let bits = one.size().get() + other.size().get();
        // A key that sets no new bit is not counted.
        let keys = one.items().get() + other.items().get();
        assert!((3_300..=3_400).contains(&keys));
        assert_eq!((report.keys, report.stages, report.bits), (keys, 2, bits));
        assert_eq!(report.bits_per_key, bits as f64 / keys as f64);
        let set = one.fill() * one.size().get() as f64 + other.fill() * other.size().get() as f64;
        assert!((report.fill - set / bits as f64).abs() < 1e-9);
        let [a, b] = [one, other].map(Stage::predicted_rate);
        assert!((report.predicted_rate - (a + b - a * b)).abs() < 1e-9);
        let off = report.observed_rate / report.predicted_rate;
        assert!((0.5..2.0).contains(&off) && off != 1.0, "{report:?}");
        assert_eq!(report.promised_rate, 0.03);
        assert_eq!(report.source, Source::RawKeys.to_string());
    }

    /// Whether an SST is covered, its filter asked by RocksDB, and stored, were all true wherever a
    /// test looked.
    #[test]
    fn segment_report_tells_covered_from_consulted_and_saved() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_disable_auto_compactions(true);
        let open = |reads: bool| {
            let builder = SieveDb::builder(home.path()).options(&options);
            let builder = if reads {
                builder.read_only(false)
            } else {
                builder
            };
            let db = builder.open().unwrap();
            assert!(reads || db.filters().wait_until_complete(LIMIT));
            assert!(db.filters().wait_for_maintenance(LIMIT));
            db
        };
        let plain = DB::open(&options, home.path()).unwrap();
        (0..30_u32).for_each(|key| plain.put(key.to_be_bytes(), "plain").unwrap());
        plain.flush().unwrap();
        drop(plain);
        let flags = |db: &SieveDb| {
            let report = db.filters().inspect().unwrap().cfs.remove(0);
            let mut segments = report.segments;
            segments.sort_unstable_by_key(|segment| segment.entries);
            let flags = segments.iter().map(|segment| {
                let flags = [segment.covered, segment.consulted, segment.saved];
                (
                    segment.entries,
                    segment.level,
                    flags,
                    segment.filter.is_some(),
                )
            });
            (report.uncovered, flags.collect::<Vec<_>>())
        };
        let of_plain = |flags, has_filter| (30, Some(0), flags, has_filter);
        assert_eq!(
            flags(&open(true)),
            (Some(1), vec![of_plain([false; 3], false)])
        );
        let db = open(false);
        (0..40_u32).for_each(|key| db.put((key + 100).to_be_bytes(), "own").unwrap());
        db.flush().unwrap();
        assert!(
            db.filters().wait_until_complete(LIMIT) && db.filters().wait_for_maintenance(LIMIT)
        );
        let own = |covered| (40, Some(0), [covered, true, true], true);
        let adopted = |covered| of_plain([covered, false, true], true);
        assert_eq!(flags(&db), (Some(0), vec![adopted(true), own(true)]));
        assert!(
            db.filters().inspect().unwrap().cfs[0]
                .segments
                .iter()
                .all(|segment| {
                    segment.decision == Some(FilterPlan::Keep) && segment.file.ends_with(".sst")
                })
        );
        drop(db);
        let files = fs::read_dir(home.path().join(SieveOptions::FOLDER)).unwrap();
        let files = files.map(|file| file.unwrap().path());
        for file in files.filter(|file| file.to_string_lossy().contains("summary-")) {
            crate::disk::Disk::remove(&crate::disk::RealDisk, &file).unwrap();
        }
        assert_eq!(
            flags(&open(true)),
            (Some(2), vec![adopted(false), own(false)])
        );
    }

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
        assert_eq!(db.filters().tables(cf_filter).unwrap().len(), 1);
        db.drop_cf("again").unwrap();
        db.create_cf("again", &options).unwrap();
        write();
        assert!(db.filters().tables(cf_filter).unwrap().is_empty());
    }
}
