//! `bench prefix`: is there a key with this prefix? RocksDB's own best way and the filters, in one
//! process.

use std::hint::black_box;
use std::time::Instant;

use lsm_sieve::SieveDb;
use lsm_sieve_cli::workload::Watch as _;
use lsm_sieve_cli::workload::miss::median;
use lsm_sieve_cli::workload::random::{Random, scramble};
use lsm_sieve_lab::workload::report::{PrefixReport, PrefixTimes};
use rocksdb::{DB, DBAccess, DBRawIteratorWithThreadMode, Options, ReadOptions, SliceTransform};

use crate::bench::miss::shape;
use crate::database_folder::DatabaseFolder;
use crate::engine::{self, Blocks, Native, Setting, Shape};
use crate::outcome::Stop;
use crate::output::Output;
use crate::progress::Progress;

const AFTER_HELP: &str = "Examples:
  lsm-sieve-lab bench prefix --runs 8
  lsm-sieve-lab bench prefix --runs leveled --json

The keys have 16 bytes, of which 8 are the prefix. Both databases have a `prefix_extractor` and whole
caches, are open at the same time, and are asked in turn. RocksDB alone has Bloom filters of 10 bits
per key and prefix, and is asked by an iterator that is held open. Figures are medians over the
rounds.";

/// Ask whether there are keys with a prefix, of RocksDB alone and with lsm-sieve.
#[derive(clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Arguments {
    /// Number of keys to load, in random order.
    #[arg(long, value_name = "N", default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..=engine::KEYS_MAX))]
    keys: u64,
    /// Number of prefixes that they share.
    #[arg(long, value_name = "N", default_value_t = 400_000, value_parser = clap::value_parser!(u64).range(1..))]
    prefixes: u64,
    /// Number of sorted runs, each over the whole key range, or `leveled` for RocksDB's default
    /// levels.
    #[arg(long, value_name = "R|leveled", default_value = "4", value_parser = shape)]
    runs: Shape,
    /// Number of rounds. The figures are medians over them.
    #[arg(long, value_name = "N", default_value_t = 7, value_parser = clap::value_parser!(u16).range(1..))]
    rounds: u16,
    /// Questions per round, of each kind.
    #[arg(long, value_name = "N", default_value_t = 200_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    questions: u32,
}

const PREFIX_BYTES: usize = 8;
/// Prefixes of one batch.
const BATCH: usize = 64;

type Prefix = [u8; PREFIX_BYTES];

fn prefix(number: u64) -> Prefix {
    scramble(number).to_be_bytes()
}

impl Arguments {
    fn options(&self) -> Options {
        let setting = Setting {
            keys: self.keys,
            shape: self.runs,
            native: Native::Bloom,
            bits_per_key: super::NATIVE_BITS_PER_KEY,
            blocks: Blocks::Cached,
        };
        let mut options = setting.options();
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(PREFIX_BYTES));
        options
    }

    fn key(&self, number: u64) -> [u8; 16] {
        let mut key = [0; 16];
        let (start, rest) = key.split_at_mut(PREFIX_BYTES);
        start.copy_from_slice(&prefix(number % self.prefixes));
        rest.copy_from_slice(&(number / self.prefixes).to_be_bytes());
        key
    }

    /// Loads both in turn; returns the seconds of each.
    fn fill(&self, native: &DB, sieve: &SieveDb) -> Result<[f64; 2], Stop> {
        const CHUNK: u64 = 10_000;
        let run = match self.runs {
            Shape::Runs(runs) => self.keys.div_ceil(runs),
            Shape::Leveled => self.keys,
        };
        let mut progress = Progress::new("loading both", self.keys);
        let mut seconds = [0.0; 2];
        let mut from = 0;
        while from < self.keys {
            let to = (from + CHUNK).min((from / run + 1) * run).min(self.keys);
            let keys: Vec<_> = (from..to).map(|number| self.key(number)).collect();
            let ends_run = to.is_multiple_of(run) || to == self.keys;
            let value = [b'v'; 32];
            let began = Instant::now();
            keys.iter().try_for_each(|key| native.put(key, value))?;
            if ends_run {
                native.flush()?;
            }
            seconds[0] += began.elapsed().as_secs_f64();
            let began = Instant::now();
            keys.iter().try_for_each(|key| sieve.put(key, value))?;
            if ends_run {
                sieve.flush()?;
            }
            seconds[1] += began.elapsed().as_secs_f64();
            progress.advance(to - from)?;
            from = to;
        }
        Ok(seconds)
    }
}

pub(crate) fn run(arguments: &Arguments, output: Output) -> Result<(), Stop> {
    if arguments.prefixes > arguments.keys {
        return Err(Stop::input(
            "more prefixes than keys; each has at least one key",
        ));
    }
    let (native_home, sieve_home) = (DatabaseFolder::temporary()?, DatabaseFolder::temporary()?);
    let options = arguments.options();
    let native = DB::open(&options, native_home.path())?;
    let sieve = SieveDb::builder(sieve_home.path())
        .options(&options)
        .open()?;
    let [fill_native, fill_sieve] = arguments.fill(&native, &sieve)?;
    let mut settling = Progress::unbounded("settling");
    if arguments.runs == Shape::Leveled {
        // How many SSTs are left in level 0 would be chance, and a present prefix reads each.
        let empties_level_0 = [("level0_file_num_compaction_trigger", "1")];
        native.flush()?;
        sieve.flush()?;
        native.set_options(&empties_level_0)?;
        sieve.set_options(&empties_level_0)?;
        engine::settle(|name| native.property_int_value(name), &mut settling)?;
        engine::settle(|name| sieve.property_int_value(name), &mut settling)?;
    }
    engine::cover(&sieve, &mut settling)?;
    sieve.filters().consolidate()?;
    drop(settling);

    let mut measured = Measured::default();
    let mut progress = Progress::new("asking", u64::from(arguments.rounds) + 1);
    let mut random = Random::new(1);
    for round in 0..=arguments.rounds {
        let mut draw = |from: u64, count: u64| -> Vec<Prefix> {
            let numbers = (0..arguments.questions).map(|_| from + random.below(count));
            numbers.map(prefix).collect()
        };
        let absent = draw(arguments.prefixes, 1 << 40);
        let present = draw(0, arguments.prefixes);
        let is_timed = round > 0;
        measured.round(is_timed, &native, &sieve, &absent, &present)?;
        progress.advance(1)?;
    }
    drop(progress);
    let inspection = sieve.filters().inspect()?;
    let cf = &inspection.cfs[0];
    let mut bits = cf.summary.bits as f64;
    let share = |hashes: u64, keys: u64| hashes.saturating_sub(keys) as f64 / hashes.max(1) as f64;
    let mut of_prefixes = bits * share(cf.summary.keys, arguments.keys);
    for segment in &cf.segments {
        if let Some(filter) = &segment.filter {
            bits += filter.bits as f64;
            of_prefixes += filter.bits as f64 * share(filter.keys, segment.entries);
        }
    }
    let empty = measured.empty.medians();
    let empty_batch = measured.empty_batch.medians();
    let present = measured.present.medians();
    let iterator = |times: PrefixTimes| times.iterator_ns.unwrap_or(f64::NAN);
    let report = PrefixReport {
        keys: arguments.keys,
        prefixes: arguments.prefixes,
        runs: match arguments.runs {
            Shape::Runs(runs) => runs.to_string(),
            Shape::Leveled => "leveled".to_owned(),
        },
        ratio_empty: empty.native_ns / empty.exists_ns,
        ratio_empty_iterator: empty.native_ns / iterator(empty),
        ratio_empty_batch: empty_batch.native_ns / empty_batch.exists_ns,
        ratio_present: iterator(present) / present.native_ns,
        ratio_fill: fill_sieve / fill_native,
        bits_per_prefix: of_prefixes / arguments.prefixes as f64,
        bits_per_key: bits / arguments.keys as f64,
        observed_rate: measured.passed as f64 / measured.absent.max(1) as f64,
        promised_rate: cf.summary.promised_rate,
        false_negatives: measured.lost,
        empty,
        empty_batch,
        present,
    };
    let outcome = match measured.lost {
        0 => Ok(()),
        lost => Err(Stop::Finding(format!(
            "{lost} prefixes that are there were answered absent: do not use these filters, and \
             report this"
        ))),
    };
    output.conclude(&report, outcome)
}

/// The times of one kind in each round: RocksDB, the filters, an iterator with filters.
#[derive(Default)]
struct Times {
    native: Vec<f64>,
    exists: Vec<f64>,
    iterator: Vec<f64>,
}

impl Times {
    fn medians(&self) -> PrefixTimes {
        PrefixTimes {
            native_ns: median(self.native.clone()),
            exists_ns: median(self.exists.clone()),
            iterator_ns: (!self.iterator.is_empty()).then(|| median(self.iterator.clone())),
        }
    }
}

#[derive(Default)]
struct Measured {
    empty: Times,
    empty_batch: Times,
    present: Times,
    absent: u64,
    passed: u64,
    lost: u64,
}

impl Measured {
    fn round(
        &mut self,
        is_timed: bool,
        native: &DB,
        sieve: &SieveDb,
        absent: &[Prefix],
        present: &[Prefix],
    ) -> Result<(), Stop> {
        let mut by_native = native.raw_iterator_opt(same_prefix());
        let mut by_sieve = sieve.raw_iterator_opt(same_prefix());
        let one = |prefixes: &[Prefix]| -> Result<usize, rocksdb::Error> {
            let mut found = 0;
            for prefix in prefixes {
                found += usize::from(sieve.prefix_exists(black_box(prefix))?);
            }
            Ok(found)
        };
        let many = |prefixes: &[Prefix]| -> Result<usize, rocksdb::Error> {
            let mut found = 0;
            for batch in prefixes.chunks(BATCH) {
                for exists in sieve.prefixes_exist(black_box(batch)) {
                    found += usize::from(exists?);
                }
            }
            Ok(found)
        };
        let kinds = [
            (&mut self.empty, absent, 0),
            (&mut self.present, present, present.len()),
        ];
        for (times, prefixes, expected) in kinds {
            let native = timed(prefixes, |prefixes| Ok(seek(&mut by_native, prefixes)))?;
            let exists = timed(prefixes, one)?;
            let iterator = timed(prefixes, |prefixes| Ok(seek(&mut by_sieve, prefixes)))?;
            if is_timed {
                times.native.push(native.0);
                times.exists.push(exists.0);
                times.iterator.push(iterator.0);
            }
            for found in [exists.1, iterator.1] {
                self.lost += expected.saturating_sub(found) as u64;
            }
        }
        let batched = timed(absent, |prefixes| Ok(seek(&mut by_native, prefixes)))?;
        let exists = timed(absent, many)?;
        if is_timed {
            self.empty_batch.native.push(batched.0);
            self.empty_batch.exists.push(exists.0);
        }
        let maybe = sieve.filters().prefixes_may_exist(absent);
        self.passed += maybe.iter().filter(|&&maybe| maybe).count() as u64;
        self.absent += absent.len() as u64;
        let maybe = sieve.filters().prefixes_may_exist(present);
        self.lost += maybe.iter().filter(|&&maybe| !maybe).count() as u64;
        Ok(())
    }
}

fn same_prefix() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_prefix_same_as_start(true);
    options
}

fn seek<D: DBAccess>(
    iterator: &mut DBRawIteratorWithThreadMode<'_, D>,
    prefixes: &[Prefix],
) -> usize {
    let mut found = 0;
    for prefix in prefixes {
        iterator.seek(black_box(prefix));
        found += usize::from(iterator.valid());
    }
    found
}

/// Nanoseconds per prefix of the second half, which finds warm caches; and how many of all were
/// found.
fn timed(
    prefixes: &[Prefix],
    mut ask: impl FnMut(&[Prefix]) -> Result<usize, rocksdb::Error>,
) -> Result<(f64, usize), Stop> {
    let (warming, rest) = prefixes.split_at(prefixes.len() / 2);
    let mut found = ask(warming)?;
    let began = Instant::now();
    found += ask(rest)?;
    let nanoseconds = began.elapsed().as_nanos() as f64;
    Ok((nanoseconds / rest.len().max(1) as f64, found))
}
