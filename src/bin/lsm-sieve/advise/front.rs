//! `advise front`: would a front pay on this database? Counted and timed on the database itself.
//!
//! What decides is the share of look-ups that find nothing. It is taken from the first of these that
//! there is: counts on the command line; a file of keys, which are looked up; RocksDB's statistics,
//! in a file or in the database's own LOG. What a miss, a hit and the front cost is measured, turn
//! and turn about, on keys of the database and on others beside them, with all that a warm RocksDB
//! can have in memory: its filters, its indexes and a block cache. A database that is short of memory
//! gains more.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Instant;

use lsm_sieve::SieveOptions;
use lsm_sieve::advise::front::{Measured, Verdict};
use lsm_sieve::advise::statistics::Lookups;
use lsm_sieve::filter::{Kind, Stage};
use lsm_sieve::hash::{HashId, KeyHasher, Seed};
use lsm_sieve::math::{Bits, Items, Rate};
use lsm_sieve::workload::Watch as _;
use lsm_sieve::workload::report::{Tabular, number, percent};
use lsm_sieve::workload::store::column_families;
use rocksdb::properties::{AGGREGATED_TABLE_PROPERTIES, ESTIMATE_NUM_KEYS};
use rocksdb::{BlockBasedOptions, Cache, ColumnFamily, DB, Options};
use serde::Serialize;

use super::filter::worth;
use crate::engine;
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve advise front /var/lib/service/db
  lsm-sieve advise front /var/lib/service/db --keys asked.txt
  lsm-sieve advise front /var/lib/service/db --reads 90000 --misses 12000 --json

Which look-ups find nothing is told by counts, by a file of keys, or by RocksDB's statistics: those
in the LOG of a database that was opened with them, or the text that its options give. The database
is opened to read only, and may be in use.";

/// Say whether a front pays on a database, and what it takes.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// The folder of the database.
    #[arg(value_name = "DB")]
    path: PathBuf,
    /// Look-ups of the running database.
    #[arg(long, value_name = "N", requires = "misses")]
    reads: Option<u64>,
    /// Of these, look-ups that found nothing.
    #[arg(long, value_name = "N", requires = "reads")]
    misses: Option<u64>,
    /// Keys as they are asked for, one a line.
    #[arg(long, value_name = "FILE", conflicts_with = "reads")]
    keys: Option<PathBuf>,
    /// RocksDB's statistics, as its options or its LOG give them.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["reads", "keys"])]
    statistics: Option<PathBuf>,
    /// The column family.
    #[arg(long, value_name = "NAME", default_value = "default")]
    column_family: String,
    /// The rate of the front.
    #[arg(long, value_name = "P", default_value = "0.01", value_parser = engine::parse_rate)]
    rate: Rate,
    /// Keys to time, of each kind.
    #[arg(long, value_name = "N", default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
    samples: u64,
    /// The block cache to time with.
    #[arg(long, value_name = "MIB", default_value_t = 1_024, value_parser = clap::value_parser!(u64).range(1..1 << 20))]
    cache_mib: u64,
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    let counted = arguments.counted()?;
    let database = Database::open(arguments)?;
    let counted = match &arguments.keys {
        Some(file) => Some(Counted {
            lookups: database.look_up_all(file)?,
            source: "of the file",
        }),
        None => counted,
    };
    let times = database.times(arguments)?;
    let filters = SieveOptions::default()
        .rate(arguments.rate)
        .memory_for(database.keys);
    let (summary, segments) = (filters.summary.get(), filters.segments.get());
    let verdict = |lookups: Lookups| {
        let measured = Measured {
            reads: lookups.reads,
            misses: lookups.misses,
            miss_ns: times.miss_ns,
            hit_ns: times.hit_ns,
            front_ns: times.front_ns,
            rate: arguments.rate,
            memory: Some(Bits::new(summary.saturating_add(segments))),
        };
        measured.verdict()
    };
    output.print(&Report {
        column_family: arguments.column_family.clone(),
        keys: database.keys.get(),
        engine_filter_bytes: database.filter_bytes()?,
        summary_bytes: summary.div_ceil(8),
        segment_bytes: segments.div_ceil(8),
        times,
        break_even_share: verdict(Lookups::default()).break_even_share,
        verdict: counted.as_ref().map(|counted| verdict(counted.lookups)),
        counted,
    })
}

impl Arguments {
    /// What is known of the look-ups without looking any up.
    fn counted(&self) -> Result<Option<Counted>, Stop> {
        if let (Some(reads), Some(misses)) = (self.reads, self.misses) {
            return given(reads, misses).map(Some);
        }
        if let Some(file) = &self.statistics {
            return told(file).map(Some);
        }
        // A LOG that is missing or silent says nothing.
        let log = tail(&self.path.join("LOG")).unwrap_or_default();
        let lookups = Lookups::from_statistics(&log).filter(|lookups| lookups.reads > 0);
        let source = "of the statistics in its LOG";
        Ok(lookups.map(|lookups| Counted { lookups, source }))
    }
}

fn given(reads: u64, misses: u64) -> Result<Counted, Stop> {
    if misses > reads {
        return Err(Stop::input(
            "more misses than reads; misses are counted among the reads",
        ));
    }
    let (lookups, source) = (Lookups { reads, misses }, "given");
    Ok(Counted { lookups, source })
}

fn told(file: &Path) -> Result<Counted, Stop> {
    let text = tail(file).map_err(|error| unreadable(file, &error))?;
    let lookups = Lookups::from_statistics(&text).ok_or_else(|| {
        let file = file.display();
        Stop::input(format!(
            "{file} has no statistics of RocksDB; give what its options print"
        ))
    })?;
    let source = "of the statistics";
    Ok(Counted { lookups, source })
}

fn unreadable(file: &Path, error: &io::Error) -> Stop {
    let file = file.display();
    Stop::input(format!(
        "cannot read {file}: {error}; name a file that can be read"
    ))
}

/// The end of a text, where the last statistics are; a LOG can be longer than memory.
fn tail(path: &Path) -> io::Result<String> {
    const TAIL_BYTES: u64 = 64 << 20;
    let mut file = File::open(path)?;
    let len = file.metadata()?.len();
    file.seek(SeekFrom::Start(len.saturating_sub(TAIL_BYTES)))?;
    let mut bytes = Vec::new();
    file.take(TAIL_BYTES).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// A database without a front, open to read only.
struct Database {
    engine: DB,
    family: String,
    keys: Items,
}

/// What reads a database whatever its own options: those in its folder do not name filters that were
/// asked for through RocksDB's C interface, and a miss would be timed without them.
fn options(cache_mib: u64) -> Options {
    const BLOCK_BASED: bool = false;
    let mut table = BlockBasedOptions::default();
    // Any of RocksDB's filters can read all of them.
    table.set_bloom_filter(10.0, BLOCK_BASED);
    let cache = usize::try_from(cache_mib << 20).unwrap_or(usize::MAX);
    table.set_block_cache(&Cache::new_lru_cache(cache));
    table.set_cache_index_and_filter_blocks(false);
    let mut options = Options::default();
    options.set_block_based_table_factory(&table);
    // What operands merge to is not asked, only whether there are any.
    options.set_merge_operator_associative("any", |_, _, _| Some(Vec::new()));
    options
}

/// Mean nanoseconds of a look-up.
#[derive(Clone, Copy, Serialize)]
struct Times {
    miss_ns: f64,
    hit_ns: f64,
    front_ns: f64,
}

type Key = Box<[u8]>;

/// The first round of a measurement fills the caches and does not count; the median of these does.
const ROUNDS: usize = 5;

impl Database {
    fn open(arguments: &Arguments) -> Result<Self, Stop> {
        let path = &arguments.path;
        let (family, families) = (arguments.column_family.clone(), column_families(path)?);
        if !families.contains(&family) {
            let families = families.join(", ");
            return Err(Stop::input(format!(
                "there is no column family {family}; there are {families}"
            )));
        }
        if path.join("sieve").is_dir() {
            let path = path.display();
            return Err(Stop::input(format!(
                "{path} has a front already; `lsm-sieve inspect {path}` shows what it takes"
            )));
        }
        let options = || options(arguments.cache_mib);
        let opened = [(&family, options())];
        let engine = DB::open_cf_with_opts_for_read_only(&options(), path, opened, false)?;
        let mut database = Self {
            engine,
            family,
            keys: Items::new(0),
        };
        let keys = database
            .engine
            .property_int_value_cf(database.family()?, ESTIMATE_NUM_KEYS)?;
        database.keys = Items::new(keys.unwrap_or(0));
        Ok(database)
    }

    fn family(&self) -> Result<&ColumnFamily, Stop> {
        let family = self.engine.cf_handle(&self.family);
        family.ok_or_else(|| Stop::input("the column family is gone; open the database anew"))
    }

    fn has(&self, key: &[u8]) -> Result<bool, Stop> {
        Ok(self.engine.get_pinned_cf(self.family()?, key)?.is_some())
    }

    /// Bytes of the engine's own filters.
    fn filter_bytes(&self) -> Result<u64, Stop> {
        let properties = self
            .engine
            .property_value_cf(self.family()?, AGGREGATED_TABLE_PROPERTIES)?;
        let bytes = engine::aggregated(&properties.unwrap_or_default(), "filter block size");
        Ok(bytes.map_or(0, |bytes| bytes as u64))
    }

    /// Looks up every line of a file.
    fn look_up_all(&self, file: &Path) -> Result<Lookups, Stop> {
        let text = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
        let mut lookups = Lookups::default();
        for key in text
            .split(|&byte| byte == b'\n')
            .filter(|key| !key.is_empty())
        {
            lookups.reads += 1;
            lookups.misses += u64::from(!self.has(key)?);
        }
        Ok(lookups)
    }

    fn times(&self, arguments: &Arguments) -> Result<Times, Stop> {
        let loaded = self.sample(arguments.samples)?;
        let mut absent = Vec::new();
        for key in &loaded {
            // Right after a key that is there, so that the same SSTs are asked.
            let beside: Key = [key, &[0][..]].concat().into();
            if !self.has(&beside)? {
                absent.push(beside);
            }
        }
        if absent.is_empty() {
            let family = &self.family;
            return Err(Stop::input(format!(
                "column family {family} has no key to time; name one that has"
            )));
        }
        let (hasher, front) = self.front(arguments.rate)?;
        let mut rounds = Vec::new();
        let mut progress = Progress::new("looking up", ROUNDS as u64 + 1);
        for _ in 0..=ROUNDS {
            let miss = mean_ns(&absent, |key| self.has(key))?;
            let hit = mean_ns(&loaded, |key| self.has(key))?;
            let front = mean_ns(&absent, |key| Ok(front.may_contain(hasher.hash(key))))?;
            rounds.push([miss, hit, front]);
            progress.advance(1)?;
        }
        let [miss_ns, hit_ns, front_ns] = medians(&rounds[1..]);
        Ok(Times {
            miss_ns,
            hit_ns,
            front_ns,
        })
    }

    /// Keys found at random places between the first and the last.
    fn sample(&self, samples: u64) -> Result<Vec<Key>, Stop> {
        let mut iterator = self.engine.raw_iterator_cf(self.family()?);
        iterator.seek_to_last();
        let last: Key = iterator.key().unwrap_or_default().into();
        iterator.seek_to_first();
        let first: Key = iterator.key().unwrap_or_default().into();
        let places = Places::between(&first, &last);
        let mut keys = Vec::new();
        for draw in 0..samples {
            iterator.seek(places.draw(draw));
            keys.extend(iterator.key().map(Key::from));
        }
        iterator.status()?;
        Ok(keys)
    }

    /// A filter as large as the front's summary, full.
    fn front(&self, rate: Rate) -> Result<(KeyHasher, Stage), Stop> {
        let hasher = random();
        let front = Stage::with_rate(Kind::Blocked, self.keys, rate)?;
        for key in 0..self.keys.get() {
            front.insert(hasher.hash(&key.to_be_bytes()));
        }
        Ok((hasher, front))
    }
}

/// Numbers that look random, the same in every run.
fn random() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"would it pay off"))
}

/// Where keys lie: behind what the first and the last one have in common, as numbers.
struct Places {
    common: Key,
    first: u64,
    last: u64,
}

impl Places {
    fn between(first: &[u8], last: &[u8]) -> Self {
        let common = first.iter().zip(last).take_while(|(a, b)| a == b).count();
        let number = |key: &[u8]| {
            let mut bytes = [0; 8];
            bytes
                .iter_mut()
                .zip(&key[common..])
                .for_each(|(to, from)| *to = *from);
            u64::from_be_bytes(bytes)
        };
        Self {
            common: first[..common].into(),
            first: number(first),
            last: number(last),
        }
    }

    /// A place from the first key to the last.
    fn draw(&self, draw: u64) -> Vec<u8> {
        let span = self.last.saturating_sub(self.first).saturating_add(1);
        let place = self.first + random().hash(&draw.to_be_bytes()).get() % span;
        [&self.common[..], &place.to_be_bytes()].concat()
    }
}

fn mean_ns(keys: &[Key], ask: impl Fn(&[u8]) -> Result<bool, Stop>) -> Result<f64, Stop> {
    let start = Instant::now();
    for key in keys {
        std::hint::black_box(ask(std::hint::black_box(key))?);
    }
    Ok(start.elapsed().as_nanos() as f64 / keys.len() as f64)
}

fn medians(rounds: &[[f64; 3]]) -> [f64; 3] {
    std::array::from_fn(|column| {
        let mut values: Vec<f64> = rounds.iter().map(|round| round[column]).collect();
        values.sort_unstable_by(f64::total_cmp);
        values[values.len() / 2]
    })
}

#[derive(Serialize)]
struct Report {
    column_family: String,
    /// As RocksDB estimates them.
    keys: u64,
    engine_filter_bytes: u64,
    summary_bytes: u64,
    segment_bytes: u64,
    #[serde(flatten)]
    times: Times,
    break_even_share: f64,
    counted: Option<Counted>,
    verdict: Option<Verdict>,
}

/// Look-ups, and who says so.
#[derive(Serialize)]
struct Counted {
    #[serde(flatten)]
    lookups: Lookups,
    source: &'static str,
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
        } = self.times;
        let row = |name: &str, value| vec![name.to_owned(), value];
        let ns = |ns: f64| format!("{ns:.0} ns");
        let mut rows = vec![
            row("a look-up that finds nothing", ns(miss_ns)),
            row("one that finds its key", ns(hit_ns)),
            row("a look-up in the front", ns(front_ns)),
            row(
                "the front pays from so many misses on",
                percent(self.break_even_share),
            ),
            row("bytes of its summary", number(self.summary_bytes)),
            row("bytes of its filters a SST", number(self.segment_bytes)),
            row(
                "bytes of RocksDB's own filters",
                number(self.engine_filter_bytes),
            ),
        ];
        if let Some(counted) = &self.counted {
            rows.push(row("look-ups", number(counted.lookups.reads)));
            rows.push(row(
                "of these, found nothing",
                number(counted.lookups.misses),
            ));
        }
        rows
    }

    fn notes(&self) -> Vec<String> {
        let Some((verdict, counted)) = self.verdict.as_ref().zip(self.counted.as_ref()) else {
            return vec![
                "How many look-ups find nothing is not known: open the database with statistics, or \
                 name --keys, --statistics, or --reads and --misses."
                    .to_owned(),
            ];
        };
        let source = format!("The look-ups are those {}.", counted.source);
        worth(verdict).into_iter().chain([source]).collect()
    }
}
