//! `advise front`: says whether filters in front of this database would pay.
//!
//! The share of misses among the lookups and the number of writes decide. They come from the first
//! available source:
//!
//! 1. counts on the command line;
//! 2. a file of keys, which are looked up;
//! 3. RocksDB's statistics, from a file or from the database's own LOG.
//!
//! The latencies of a miss, a hit and the filters are measured on the database (see `database`).
//! RocksDB is warm for this: its filters, its indexes and a block cache are in memory. A database
//! that is short of memory gains more.

mod database;

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use lsm_sieve::{FilterSize, SieveOptions};
use lsm_sieve_cli::advise::front::{Measured, Verdict};
use lsm_sieve_cli::advise::statistics::{Counts, Seeks};
use lsm_sieve_cli::workload::report::{Tabular, number, percent};
use lsm_sieve_filter::math::{Bits, Rate};
use serde::Serialize;

use self::database::{Database, Times};
use crate::engine;
use crate::outcome::Stop;
use crate::output::Output;

const AFTER_HELP: &str = "Examples:
  lsm-sieve advise front /var/lib/service/db
  lsm-sieve advise front /var/lib/service/db --key-file asked.txt
  lsm-sieve advise front /var/lib/service/db --reads 90000 --misses 12000 --json

The counts come from the command line, from a file of keys, or from RocksDB's statistics: those in the
LOG of a database that was opened with statistics, or the text that its options print. The
database is opened read-only, and may be in use.";

/// Say whether filters in front of a database pay, and what they cost.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The folder of the database.
    #[arg(value_name = "DB")]
    path: PathBuf,
    /// Lookups of the running database.
    #[arg(long, value_name = "N", requires = "misses", value_parser = clap::value_parser!(u64).range(1..))]
    reads: Option<u64>,
    /// Of these lookups, the misses.
    #[arg(long, value_name = "N", requires = "reads")]
    misses: Option<u64>,
    /// Keys that were written in the same time.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        conflicts_with = "statistics"
    )]
    writes: u64,
    /// File of keys as the application looks them up, one per line.
    #[arg(long, value_name = "FILE", conflicts_with = "reads")]
    key_file: Option<PathBuf>,
    /// File of RocksDB's statistics, as its options or its LOG print them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reads", "key_file"])]
    statistics: Option<PathBuf>,
    /// The column family.
    #[arg(long, value_name = "NAME", default_value = "default")]
    column_family: String,
    /// False-positive rate of the filters.
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = engine::parse_front_rate)]
    rate: Rate,
    /// Lookups to time, of each kind: of present keys and of absent keys.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    lookups: u64,
    /// Size of the block cache during the measurement.
    #[arg(long, value_name = "MIB", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    cache_mib: u64,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let counted = arguments.counted()?;
    let (path, family) = (&arguments.path, &arguments.column_family);
    let database = Database::open(path, family, arguments.cache_mib)?;
    let counted = match &arguments.key_file {
        Some(file) => {
            let lookups = database.look_up_lines(&read(file)?)?;
            let writes = arguments.writes;
            let counts = Counts { writes, ..lookups };
            Some(Counted::new(counts, "from the file of keys")?)
        }
        None => counted,
    };
    let times = database.times(arguments.lookups, arguments.rate)?;
    let size = FilterSize::rate(arguments.rate.get())?;
    let options = SieveOptions::default().filter_size(size);
    let filters = options.memory_for(database.keys);
    let fast = options.speed_over_memory(true).memory_for(database.keys);
    let engine_filter_bytes = database.filter_bytes()?;
    let last_level_share = database.last_level_share()?;
    let above_last_level = (1.0 - last_level_share) / ABOVE_LAST_LEVEL;
    let summary = filters.summary.get();
    let segments = (filters.segments.get() as f64 * above_last_level) as u64;
    let counts = counted.as_ref().map(|counted| counted.counts);
    let counts = counts.unwrap_or_default();
    let measured = Measured {
        reads: counts.reads,
        misses: counts.misses,
        writes: counts.writes,
        miss_ns: times.miss_ns,
        hit_ns: times.hit_ns,
        front_ns: times.front_ns,
        write_ns: times.write_ns,
        rate: arguments.rate,
        memory: Some(Bits::new(summary.saturating_add(segments))),
    };
    let verdict = measured.verdict();
    output.print(&Report {
        seeks: arguments.seeks(),
        column_family: family.clone(),
        keys: database.keys.get(),
        engine_filter_bytes,
        summary_bytes: summary.div_ceil(8),
        segment_bytes: segments.div_ceil(8),
        last_level_share,
        speed_bytes: (fast.summary + fast.segments).to_bytes(),
        times,
        break_even_share: verdict.break_even_share,
        verdict: counted.is_some().then_some(verdict),
        counted,
    })
}

/// The part of the keys whose SSTs [`SieveOptions::memory_for`] counts.
const ABOVE_LAST_LEVEL: f64 = 0.1;

/// Below these, a share of misses says little.
const FEW_LOOKUPS: u64 = 1_000;

impl Arguments {
    /// The seeks in RocksDB's statistics, if there are any.
    fn seeks(&self) -> Option<Seeks> {
        let log = self.path.join("LOG");
        let text = tail(self.statistics.as_deref().unwrap_or(&log)).ok()?;
        Seeks::from_statistics(&text).filter(|seeks| seeks.seeks > 0)
    }

    /// The counts that are known without a lookup.
    fn counted(&self) -> Result<Option<Counted>, Stop> {
        if let (Some(reads), Some(misses)) = (self.reads, self.misses) {
            return given(reads, misses, self.writes).map(Some);
        }
        if let Some(file) = &self.statistics {
            return read_counts(file).map(Some);
        }
        // A LOG that is missing or has no statistics is not an error.
        let log = tail(&self.path.join("LOG")).unwrap_or_default();
        let counts = Counts::from_statistics(&log).filter(|counts| counts.reads > 0);
        let source = "from the statistics in its LOG";
        Ok(counts.map(|counts| Counted { counts, source }))
    }
}

fn given(reads: u64, misses: u64, writes: u64) -> Result<Counted, Stop> {
    if misses > reads {
        return Err(Stop::input(
            "more misses than reads; misses are counted among the reads",
        ));
    }
    let counts = Counts {
        reads,
        misses,
        writes,
    };
    Counted::new(counts, "from the command line")
}

fn read_counts(file: &Path) -> Result<Counted, Stop> {
    let text = tail(file).map_err(|error| unreadable(file, &error))?;
    let counts = Counts::from_statistics(&text).ok_or_else(|| {
        let file = file.display();
        Stop::input(format!(
            "{file} has no statistics of RocksDB; name a file of what its options print"
        ))
    })?;
    Counted::new(counts, "from the statistics")
}

fn read(file: &Path) -> Result<Vec<u8>, Stop> {
    std::fs::read(file).map_err(|error| unreadable(file, &error))
}

fn unreadable(file: &Path, error: &io::Error) -> Stop {
    let file = file.display();
    Stop::input(format!(
        "cannot read {file}: {error}; name a file that can be read"
    ))
}

/// Reads the end of a text, which has the last statistics. A LOG can be larger than memory.
fn tail(path: &Path) -> io::Result<String> {
    const TAIL_BYTES: u64 = 64 << 20;
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[derive(Serialize)]
struct Report {
    column_family: String,
    /// RocksDB's estimate.
    keys: u64,
    engine_filter_bytes: u64,
    summary_bytes: u64,
    segment_bytes: u64,
    last_level_share: f64,
    /// With `SieveOptions::speed_over_memory`.
    speed_bytes: u64,
    #[serde(flatten)]
    times: Times,
    break_even_share: f64,
    counted: Option<Counted>,
    /// Seeks of iterators. Prefixes in the filters may answer some of them.
    seeks: Option<Seeks>,
    verdict: Option<Verdict>,
}

/// Counts of lookups and writes, and their source.
#[derive(Serialize)]
struct Counted {
    #[serde(flatten)]
    counts: Counts,
    source: &'static str,
}

impl Counted {
    /// An error if there are no lookups: they have no share of misses to decide by.
    fn new(counts: Counts, source: &'static str) -> Result<Self, Stop> {
        if counts.reads == 0 {
            return Err(Stop::input(format!(
                "there are no lookups {source}; give at least one, or leave the option out"
            )));
        }
        Ok(Self { counts, source })
    }
}

impl Tabular for Report {
    fn head(&self) -> Vec<String> {
        let (family, keys) = (&self.column_family, number(self.keys));
        vec![
            format!("column family {family}, about {keys} keys"),
            String::new(),
        ]
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let Times {
            miss_ns,
            hit_ns,
            front_ns,
            write_ns,
        } = self.times;
        let row = |name: &str, value| vec![name.to_owned(), value];
        let ns = |ns: f64| format!("{ns:.0} ns");
        let mut rows = vec![
            row("a miss in RocksDB", ns(miss_ns)),
            row("a hit in RocksDB", ns(hit_ns)),
            row("a probe of the summary filter", ns(front_ns)),
            row("a write into the filters", ns(write_ns)),
            row("break-even share of misses", percent(self.break_even_share)),
            row("bytes of the summary filter", number(self.summary_bytes)),
            row("bytes of all segment filters", number(self.segment_bytes)),
            row(
                "bytes of RocksDB's own filters",
                number(self.engine_filter_bytes),
            ),
            row("keys in the last level", percent(self.last_level_share)),
            row("bytes of all filters, for speed", number(self.speed_bytes)),
        ];
        if let Some(counted) = &self.counted {
            rows.push(row("lookups", number(counted.counts.reads)));
            rows.push(row("misses", number(counted.counts.misses)));
            rows.push(row("writes", number(counted.counts.writes)));
        }
        if let Some(Seeks { seeks, empty }) = self.seeks {
            rows.push(row("seeks", number(seeks)));
            rows.push(row("empty seeks", number(empty)));
        }
        rows
    }

    fn legend(&self) -> Vec<(&str, &str)> {
        vec![
            (
                "a miss in RocksDB",
                "median time of a lookup of an absent key, with everything cached",
            ),
            ("a hit in RocksDB", "the same of a present key"),
            (
                "a probe of the summary filter",
                "the same of a filter of this size",
            ),
            (
                "a write into the filters",
                "what they add to a write: an insertion",
            ),
            (
                "break-even share of misses",
                "filters pay if more of the lookups miss; with as many writes, if they are known",
            ),
            (
                "bytes of the summary filter",
                "what it would take in memory; at least 0.4 MB, however few keys there are",
            ),
            (
                "bytes of all segment filters",
                "what they would take in memory, above the last level; RocksDB's own would go",
            ),
            ("bytes of RocksDB's own filters", "what they take now"),
            (
                "keys in the last level",
                "their share; with leveled compaction these SSTs get no filters",
            ),
            (
                "bytes of all filters, for speed",
                "what they would take with `speed_over_memory(true)`; a miss takes 5 ns less",
            ),
            ("lookups", "as counted by the application or by RocksDB"),
            ("misses", "of these lookups"),
            ("writes", "of keys, in the same time"),
            ("seeks", "of iterators, as counted by RocksDB"),
            (
                "empty seeks",
                "of these, those that found nothing; filters with prefixes answer those within one prefix",
            ),
        ]
    }

    fn notes(&self) -> Vec<String> {
        match self.verdict.as_ref().zip(self.counted.as_ref()) {
            None => vec![
                "The share of misses is not known: open the database with statistics, or give \
                 --key-file, --statistics, or --reads and --misses."
                    .to_owned(),
            ],
            Some((verdict, counted)) => {
                let mut source = format!("The counts of lookups are {}.", counted.source);
                if counted.counts.reads < FEW_LOOKUPS {
                    source += " These are too few to rely on.";
                }
                verdict.lines().into_iter().chain([source]).collect()
            }
        }
    }
}
