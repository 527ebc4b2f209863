//! `bench miss`: compares the latency of lookups with and without the filters, in one process.

use lsm_sieve::{FilterSize, FilterSizeError, SieveOptions};
use lsm_sieve_cli::workload::miss::{self, Plan};
use lsm_sieve_cli::workload::replay::Counts;
use lsm_sieve_cli::workload::store::{self, Plain, Sieve, Space};
use lsm_sieve_filter::math::Rate;
use lsm_sieve_lab::workload::report::{Case, MissReport, SplitReport, Weights};

use crate::database_folder::DatabaseFolder;
use crate::engine::{self, Blocks, MIB, Native, Setting, Shape};
use crate::outcome::{Stop, lost};
use crate::output::Output;
use crate::progress::Progress;
use crate::weight::weight;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab bench miss --keys 4000000 --runs 8
  lsm-sieve-lab bench miss --keys 4000000 --runs leveled --native ribbon --json
  lsm-sieve-lab bench miss --keys 1000000 --runs 4 --mix 0.01,0.1,0.5
  lsm-sieve-lab bench miss --keys 1000000 --runs 4 --split 12
  lsm-sieve-lab bench miss --keys 50000000 --runs leveled --cache-mib 256 --lookups 20000

Both databases are open at the same time and are read in turn. The figures are medians over the
rounds. Without `--cache-mib` both databases are cached whole. Their files are in temporary folders and
take about 130 bytes per key in all.";

/// Look up absent and present keys in a RocksDB with its own filter, and in one with lsm-sieve.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Number of keys to load, 16 bytes each, in random order.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=engine::KEYS_MAX))]
    keys: u64,
    /// Number of sorted runs, each over the whole key range, or `leveled` for RocksDB's default
    /// levels.
    #[arg(long, value_name = "R|leveled", default_value = "4", value_parser = shape)]
    runs: Shape,
    /// RocksDB's own filter.
    #[arg(long, default_value = "bloom")]
    native: Native,
    /// Bits per key of RocksDB's own filter.
    #[arg(long, value_name = "B", default_value_t = 10.0, value_parser = bits)]
    bits_per_key: f64,
    /// Use a block cache of MIB MiB, read other blocks with direct I/O, and count them. Filters and
    /// indexes stay in memory.
    #[arg(long = "cache-mib", alias = "cache", value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=CACHE_MAX))]
    cache: Option<u64>,
    /// Number of rounds. The figures are medians over them.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Lookups per round, of each kind.
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u32).range(1..=LOOKUPS_MAX))]
    lookups: u32,
    /// Also look up mixes of absent and present keys, with these shares of absent ones.
    #[arg(long, value_name = "SHARE,...", value_delimiter = ',', value_parser = share)]
    mix: Vec<f64>,
    /// False-positive rate of the filters.
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = engine::parse_front_rate)]
    rate: Rate,
    /// Bits per key of the summary filter, instead of those that the rate needs.
    #[arg(long = "summary-bits", alias = "front-bits", value_name = "B", value_parser = filter_bits)]
    front_bits: Option<f64>,
    /// Bits per key of the segment filters, instead of those that the rate needs.
    #[arg(long, value_name = "B", value_parser = filter_bits)]
    segment_bits: Option<f64>,
    /// Speed before memory: a blocked summary filter, and segment filters on all levels.
    #[arg(long = "speed")]
    speed_over_memory: bool,
    /// Split B bits per key between the summary filter and the segment filters in several ways, and
    /// report the best.
    #[arg(long, value_name = "B", value_parser = split_bits, conflicts_with_all = ["front_bits", "segment_bits"])]
    split: Option<f64>,
}

pub(super) fn shape(text: &str) -> Result<Shape, String> {
    match text.parse() {
        _ if text == "leveled" => Ok(Shape::Leveled),
        Ok(runs @ 1..) => Ok(Shape::Runs(runs)),
        _ => Err("must be a number of sorted runs, at least 1, or `leveled`".to_owned()),
    }
}

fn share(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(share) if (0.0..=1.0).contains(&share) => Ok(share),
        _ => Err("a share is between 0 and 1".to_owned()),
    }
}

fn bits(text: &str) -> Result<f64, String> {
    bits_from(0.5, text)
}

fn filter_bits(text: &str) -> Result<f64, String> {
    bits_from(FILTER_BITS_MIN, text)
}

fn split_bits(text: &str) -> Result<f64, String> {
    bits_from(SPLIT_BITS_MIN, text)
}

fn bits_from(least: f64, text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(bits) if (least..=64.0).contains(&bits) => Ok(bits),
        _ => Err(format!("bits per key are between {least} and 64")),
    }
}

/// The most MiB whose bytes fit in a `u64`.
const CACHE_MAX: u64 = u64::MAX / MIB;

/// Keys are generated before the clock starts, 16 bytes each; this bounds their memory.
const LOOKUPS_MAX: i64 = 100_000_000;

/// With fewer bits per key, `math::blocked` finds no filter.
const FILTER_BITS_MIN: f64 = 1.0;

/// The tenths of the total that the summary filter gets. They are whole, so that no part is rounded
/// below one bit. With all ten tenths, SSTs have no filter.
const SPLITS: [f64; 6] = [4.0, 5.0, 6.0, 7.0, 8.0, 10.0];

/// The smallest part of a split is two tenths.
const SPLIT_BITS_MIN: f64 = FILTER_BITS_MIN * 10.0 / 2.0;

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    if let Shape::Runs(runs) = arguments.runs
        && runs > arguments.keys
    {
        return Err(Stop::input(
            "more runs than keys; each run holds at least one key",
        ));
    }
    let Some(total_bits) = arguments.split else {
        let filters = arguments.filters(arguments.front_bits, arguments.segment_bits)?;
        let (report, counts) = measure(arguments, filters, arguments.native)?;
        return output.conclude(&report, lost(&counts));
    };
    let mut splits = Vec::with_capacity(SPLITS.len());
    let mut all = Counts::default();
    for tenths in SPLITS {
        let part = |tenths: f64| total_bits * tenths / 10.0;
        let (front, segment) = (Some(part(tenths)), part(10.0 - tenths));
        let (report, counts) = if segment > 0.0 {
            let filters = arguments.filters(front, Some(segment))?;
            measure(arguments, filters, arguments.native)?
        } else {
            let filters = arguments.filters(front, None)?.segment_filters(None);
            measure(arguments, filters, Native::None)?
        };
        splits.push(report);
        all.false_negatives += counts.false_negatives;
    }
    match SplitReport::new(total_bits, splits) {
        Some(report) => output.conclude(&report, lost(&all)),
        None => lost(&all),
    }
}

impl Arguments {
    /// The settings of the filters; sizes that are not given in bits follow from the rate.
    fn filters(
        &self,
        front_bits: Option<f64>,
        segment_bits: Option<f64>,
    ) -> Result<SieveOptions, FilterSizeError> {
        let by_rate = FilterSize::rate(self.rate.get())?;
        let options = SieveOptions::default()
            .filter_size(front_bits.map_or(Ok(by_rate), FilterSize::bits_per_key)?)
            .speed_over_memory(self.speed_over_memory);
        Ok(match segment_bits {
            Some(bits) => options.segment_filters(Some(FilterSize::bits_per_key(bits)?)),
            None => options,
        })
    }

    fn plan(&self) -> Plan {
        let runs = match self.runs {
            Shape::Runs(runs) => runs,
            // Otherwise the last memtable would be searched before any filter.
            Shape::Leveled => 1,
        };
        Plan {
            keys: self.keys,
            runs,
            rounds: self.rounds.into(),
            lookups: usize::try_from(self.lookups).unwrap_or(usize::MAX),
            seed: 1,
        }
    }

    fn setting(&self, native: Native) -> Setting {
        Setting {
            keys: self.keys,
            shape: self.runs,
            native,
            bits_per_key: self.bits_per_key,
            blocks: match self.cache {
                None => Blocks::Cached,
                Some(mib) => Blocks::OnDisk {
                    cache_bytes: mib * MIB,
                },
            },
        }
    }

    fn case(&self) -> Case {
        let runs = match self.runs {
            Shape::Runs(runs) => runs.to_string(),
            Shape::Leveled => "leveled".to_owned(),
        };
        Case {
            keys: self.keys,
            runs,
            native: match self.native {
                Native::None => self.native.name().to_owned(),
                _ => format!("{} {}", self.native.name(), self.bits_per_key),
            },
            cache_mib: self.cache,
            rounds: self.rounds.into(),
        }
    }
}

/// Measures one pair of databases. `own` is RocksDB's own filter in the database with lsm-sieve. It
/// is used only if lsm-sieve builds no segment filters.
fn measure(
    arguments: &Arguments,
    front: SieveOptions,
    own: Native,
) -> Result<(MissReport, Counts), Stop> {
    let plan = arguments.plan();
    arguments.setting(own).check_room()?;
    let (native_home, sieve_home) = (DatabaseFolder::temporary()?, DatabaseFolder::temporary()?);
    let options = |filter| arguments.setting(filter).options();
    let spaces = [Space::Default];
    let mut native = Plain::open(&options(arguments.native), native_home.path(), &spaces)?;
    let mut sieve = Sieve::open(&options(own), &front, sieve_home.path(), &spaces)?;

    let mut loading = Progress::new("loading both", plan.keys);
    let fill_us = miss::fill(&plan, &mut native, &mut sieve, &mut loading)?;
    drop(loading);
    settle(arguments.runs, &native, &sieve)?;
    if arguments.cache.is_some() {
        store::count_blocks();
    }
    let mut looking = Progress::new("looking up", plan.rounds as u64 + 1);
    let figures = miss::measure(&plan, &arguments.mix, &native, &sieve, &mut looking)?;
    drop(looking);

    let weight = weight(sieve.db(), Space::Default.name())?;
    let weights = Weights {
        front_bits_per_key: weight.summary_bits_per_key,
        segment_bits_per_key: weight.segment_bits_per_key,
        native_bits_per_key: engine::native_bits_per_key(native.engine())?,
        segment_observed_rate: weight.segment_observed_rate,
    };
    Ok((
        MissReport::new(&arguments.case(), fill_us, &figures, weights),
        figures.counts,
    ))
}

/// Waits until no compaction runs and every SST is covered; then consolidates the summary filter.
fn settle(shape: Shape, native: &Plain, sieve: &Sieve) -> Result<(), Stop> {
    let mut progress = Progress::unbounded("settling");
    // With compactions disabled, RocksDB reports a pending compaction forever.
    if shape == Shape::Leveled {
        engine::settle(
            |name| native.engine().property_int_value(name),
            &mut progress,
        )?;
        engine::settle(|name| sieve.db().property_int_value(name), &mut progress)?;
    }
    engine::cover(sieve.db(), &mut progress)?;
    sieve.db().filters().consolidate()?;
    Ok(())
}
