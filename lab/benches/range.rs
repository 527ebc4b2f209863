//! Is there a key between two others? The events of a stream between two times, asked of RocksDB by
//! its best way and of a [`SieveDb`] with `SieveOptions::ranges`.
//!
//! ```text
//! key      stream, 8 bytes; second, 8 bytes; 100 events of each stream within 30 days
//! native   RocksDB with Bloom filters for keys and streams: one seek of an iterator that is held open;
//!          for a range that holds an event, also an iterator with bounds that is opened for it
//! exists   `range_exists`
//! bounds   an iterator with bounds, opened on each
//! ```
//!
//! Prints lines of JSON. Times are nanoseconds, medians over the rounds, in which all take turns.
//!
//! ```sh
//! cargo bench --bench range -- 4000000          # all cached: 1, 4 and 8 sorted runs, and leveled
//! cargo bench --bench range -- 20000000 disk    # leveled, a block cache of 128 MiB, direct reads
//! cargo bench --bench range -- 1000000 job      # events that are stored unless one is near
//! cargo bench --bench range -- 1000000 rates    # the filter alone; also traces in LSM_SIEVE_DATA
//! ```

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

#[expect(dead_code, reason = "each bench uses what it needs of it")]
#[path = "../../benches/common/mod.rs"]
mod common;

use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::Range;
use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use common::{keys_asked_for, median};
use lsm_sieve::{Prefix, SieveDb, SieveOptions};
use lsm_sieve_cli::engine::{self, Blocks, MIB, Native, Setting, Shape};
use lsm_sieve_cli::outcome::Stop;
use lsm_sieve_cli::workload::random::{Random, scramble};
use lsm_sieve_cli::workload::trace::{Format, Trace};
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};
use lsm_sieve_filter::range::RangeBuilder;
use rocksdb::statistics::Ticker;
use rocksdb::{DB, DBWithThreadMode, Options, ReadOptions, SliceTransform, ThreadMode};

type Outcome<T> = Result<T, Stop>;

const ROUNDS: usize = 5;
const QUESTIONS: usize = 20_000;
const EVENTS: usize = 100;
const SECONDS: u64 = 30 * 24 * 3_600;
const BEGIN: u64 = 1_790_000_000;
const BITS: u32 = 16;

/// A stream and a second.
type Event = (u64, u64);

fn key((number, second): Event) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&scramble(number).to_be_bytes());
    key[8..].copy_from_slice(&second.to_be_bytes());
    key
}

fn from((number, second): Event, width: u64) -> Range<[u8; 16]> {
    key((number, second))..key((number, second + width))
}

fn events(keys: usize, random: &mut Random) -> Vec<Event> {
    let streams = (keys / EVENTS) as u64;
    let event = |_| (random.below(streams), BEGIN + random.below(SECONDS));
    (0..keys).map(event).collect()
}

/// Where ranges of this width begin that hold no event.
fn empty_ranges(
    sorted: &BTreeSet<Event>,
    events: &[Event],
    width: u64,
    near: bool,
    random: &mut Random,
) -> Vec<Event> {
    let mut empty = Vec::new();
    while empty.len() < QUESTIONS {
        let &(number, second) = random.pick(events);
        let first = match near {
            true => second + 1,
            false => BEGIN + random.below(SECONDS),
        };
        let mut within = sorted.range((number, first)..(number, first + width));
        if within.next().is_none() {
            empty.push((number, first));
        }
    }
    empty
}

/// Both databases, with the same options.
struct Both {
    options: [Options; 2],
    native: DB,
    sieve: SieveDb,
    load_seconds: [f64; 2],
}

impl Both {
    fn load(events: &[Event], shape: Shape, blocks: Blocks, home: &Path) -> Outcome<Self> {
        let setting = Setting {
            keys: events.len() as u64,
            shape,
            native: Native::Bloom,
            bits_per_key: 10.0,
            blocks,
        };
        let options = [(); 2].map(|()| {
            let mut options = setting.options();
            options.set_prefix_extractor(SliceTransform::create_fixed_prefix(8));
            options.enable_statistics();
            options
        });
        let ranges = SieveOptions::default().ranges("default", Prefix::fixed(8), BITS);
        let native = DB::open(&options[0], home.join("native"))?;
        let sieve = SieveDb::open(&options[1], &ranges, home.join("sieve"))?;
        let run = match shape {
            Shape::Runs(runs) => events.len().div_ceil(runs as usize),
            Shape::Leveled => events.len(),
        };
        let mut load_seconds = [0.0; 2];
        for run in events.chunks(run) {
            for chunk in run.chunks(10_000) {
                let seconds = [fill(&native, chunk)?, fill(&sieve, chunk)?];
                load_seconds = [0, 1].map(|side| load_seconds[side] + seconds[side]);
            }
            let began = Instant::now();
            native.flush()?;
            load_seconds[0] += began.elapsed().as_secs_f64();
            let began = Instant::now();
            sieve.flush()?;
            load_seconds[1] += began.elapsed().as_secs_f64();
        }
        if shape == Shape::Leveled {
            // How many SSTs are left in level 0 would be chance.
            let empties_level_0 = [("level0_file_num_compaction_trigger", "1")];
            native.set_options(&empties_level_0)?;
            sieve.set_options(&empties_level_0)?;
            engine::settle(|name| native.property_int_value(name), &mut ())?;
            engine::settle(|name| sieve.property_int_value(name), &mut ())?;
        }
        engine::cover(&sieve, &mut ())?;
        sieve.filters().consolidate()?;
        Ok(Self {
            options,
            native,
            sieve,
            load_seconds,
        })
    }

    /// Blocks of data that both read from disk until now.
    fn blocks(&self) -> [u64; 2] {
        let blocks = |options: &Options| options.get_ticker_count(Ticker::BlockCacheDataMiss);
        [blocks(&self.options[0]), blocks(&self.options[1])]
    }
}

fn fill<T: ThreadMode>(db: &DBWithThreadMode<T>, events: &[Event]) -> Outcome<f64> {
    let began = Instant::now();
    for &event in events {
        db.put(key(event), [b'v'; 32])?;
    }
    Ok(began.elapsed().as_secs_f64())
}

/// Whether an iterator that is opened for this range shows a key.
fn shows<T: ThreadMode>(db: &DBWithThreadMode<T>, range: Range<[u8; 16]>) -> bool {
    let mut options = ReadOptions::default();
    options.set_iterate_range(range.start.to_vec()..range.end.to_vec());
    let mut iterator = db.raw_iterator_opt(options);
    iterator.seek_to_first();
    iterator.valid()
}

/// Nanoseconds per range, and how many are not denied.
fn ns_each(ranges: &[Event], mut may_hold: impl FnMut(Event) -> bool) -> (f64, usize) {
    let start = Instant::now();
    let held = ranges.iter().filter(|&&range| may_hold(black_box(range)));
    let held = held.count();
    let ns = start.elapsed().as_nanos() as f64 / ranges.len() as f64;
    (ns, held)
}

/// The times of four ways for ranges of this width, which hold an event or do not.
fn ask(both: &Both, ranges: &[Event], width: u64, holds: bool) -> Outcome<serde_json::Value> {
    let mut same_stream = ReadOptions::default();
    same_stream.set_prefix_same_as_start(true);
    let mut held = both.native.raw_iterator_opt(same_stream);
    let mut times: [Vec<f64>; 4] = Default::default();
    let before = both.sieve.filters().stats();
    let mut blocks = [0; 2];
    for _ in 0..ROUNDS {
        let start = both.blocks();
        let by_seek = ns_each(ranges, |event| {
            held.seek(key(event));
            let end = from(event, width).end;
            held.key().is_some_and(|found| *found < end[..])
        });
        let exists = |event| both.sieve.range_exists(from(event, width)).unwrap_or(true);
        let by_exists = ns_each(ranges, exists);
        let end = both.blocks();
        blocks = [0, 1].map(|side| blocks[side] + end[side] - start[side]);
        let by_native_bounds = ns_each(ranges, |event| shows(&both.native, from(event, width)));
        let by_bounds = ns_each(ranges, |event| shows(&both.sieve, from(event, width)));
        let all = [by_seek, by_exists, by_native_bounds, by_bounds];
        for (times, (ns, found)) in times.iter_mut().zip(all) {
            assert_eq!(found, if holds { ranges.len() } else { 0 });
            times.push(ns);
        }
    }
    let [seek, exists, native_bounds, bounds] = times.map(median);
    let stats = both.sieve.filters().stats();
    let passed = stats.prefix_false_positives - before.prefix_false_positives;
    let asked = (ROUNDS * ranges.len()) as f64;
    Ok(serde_json::json!({
        "width": width, "holds": holds,
        "native_seek_ns": seek, "exists_ns": exists, "ratio": seek / exists,
        "native_bounds_ns": native_bounds, "bounds_ns": bounds, "ratio_bounds": native_bounds / bounds,
        "passed": if holds { 0.0 } else { passed as f64 / asked },
        "native_blocks": blocks[0] as f64 / asked, "blocks": blocks[1] as f64 / asked,
    }))
}

fn in_front(keys: usize, shapes: &[Shape], blocks: Blocks) -> Outcome<()> {
    let mut random = Random::new(1);
    let events = events(keys, &mut random);
    let sorted: BTreeSet<_> = events.iter().copied().collect();
    for &shape in shapes {
        let home = tempfile::tempdir()?;
        let both = Both::load(&events, shape, blocks, home.path())?;
        let health = both.sieve.filters().health();
        let cf = &health.cfs[0];
        let bits = [cf.memory.get() - cf.ranges.get(), cf.ranges.get()];
        let [native, sieve] = both.load_seconds;
        println!(
            "{}",
            serde_json::json!({
                "shape": format!("{shape:?}"), "keys": sorted.len(), "load_ratio": sieve / native,
                "summary_bits": bits[0] as f64 / sorted.len() as f64,
                "range_bits": bits[1] as f64 / sorted.len() as f64,
            })
        );
        for width in [10, 100, 1_000] {
            for near in [false, true] {
                let ranges = empty_ranges(&sorted, &events, width, near, &mut random);
                println!("near: {near} {}", ask(&both, &ranges, width, false)?);
            }
            let holding: Vec<_> = (0..QUESTIONS).map(|_| *random.pick(&events)).collect();
            println!("{}", ask(&both, &holding, width, true)?);
        }
    }
    Ok(())
}

/// Events that come once or twice: each is stored unless one of its stream is within a minute.
fn job(events: usize) -> Outcome<()> {
    let mut random = Random::new(1);
    let first = self::events(events, &mut random);
    let home = tempfile::tempdir()?;
    let both = Both::load(&first, Shape::Leveled, Blocks::Cached, home.path())?;
    for round in 0..ROUNDS {
        let again = |_| {
            let (number, second) = match random.below(2) {
                0 => *random.pick(&first),
                _ => (
                    random.below((events / EVENTS) as u64),
                    BEGIN + random.below(SECONDS),
                ),
            };
            (number, second)
        };
        let new: Vec<Event> = (0..events / 4).map(again).collect();
        let near = |(number, second): Event| from((number, second - 60), 121);
        let native = ns_each(&new, |event| {
            let is_new = !shows(&both.native, near(event));
            is_new && both.native.put(key(event), [b'v'; 32]).is_ok()
        });
        let sieve = ns_each(&new, |event| {
            let is_new = !both.sieve.range_exists(near(event)).unwrap_or(true);
            is_new && both.sieve.put(key(event), [b'v'; 32]).is_ok()
        });
        assert_eq!(native.1, sieve.1);
        println!(
            "{}",
            serde_json::json!({
                "round": round, "events": new.len(), "stored": native.1,
                "native_s": native.0 * new.len() as f64 / 1e9, "sieve_s": sieve.0 * new.len() as f64 / 1e9,
                "ratio": native.0 / sieve.0,
            })
        );
    }
    Ok(())
}

/// How many empty ranges pass a filter of these numbers, as a part of the bound.
fn rates(what: &str, numbers: BTreeSet<u64>) -> Outcome<()> {
    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([3; 16]));
    let most = numbers.last().copied().unwrap_or_default();
    let listed: Vec<u64> = numbers.iter().copied().collect();
    let mut random = Random::new(2);
    for bits in [12, 16, 20] {
        let mut builder = RangeBuilder::new(hasher);
        for number in &numbers {
            builder.insert(b"", &number.to_be_bytes());
        }
        let filter = builder.finish(bits)?;
        let (shape, ..) = filter.parts();
        for width in [10, 100, 1_000] {
            for near in [false, true] {
                let (mut asked, mut passed) = (0_u64, 0_u64);
                // Where keys are dense, few ranges are empty.
                for _ in 0..4_000_000 {
                    let first = match near {
                        true => random.pick(&listed).wrapping_add(1),
                        false => random.below(most.max(1)),
                    };
                    let last = first.saturating_add(width - 1);
                    if numbers.range(first..=last).next().is_none() {
                        asked += 1;
                        passed += u64::from(filter.may_contain(b"", first, last));
                    }
                }
                let (rate, bound) = (passed as f64 / asked.max(1) as f64, shape.bound(width));
                println!(
                    "{}",
                    serde_json::json!({
                        "keys": what, "count": numbers.len(), "bits": bits, "width": width, "near": near,
                        "asked": asked, "rate": rate, "bound": bound, "ratio": rate / bound,
                    })
                );
            }
        }
    }
    Ok(())
}

fn all_rates(keys: usize) -> Outcome<()> {
    let mut random = Random::new(1);
    rates("random", (0..keys).map(|_| random.below(1 << 40)).collect())?;
    let Ok(folder) = std::env::var("LSM_SIEVE_DATA") else {
        println!("no traces: LSM_SIEVE_DATA is not set");
        return Ok(());
    };
    let traces = [
        ("orm-busy.trace.xz", Format::U32Be),
        ("corda-vaultservice.gz", Format::U64Be),
    ];
    for (name, format) in traces {
        let trace = Trace::open(&Path::new(&folder).join(name), format)?;
        rates(name, trace.collect::<Result<_, _>>()?)?;
    }
    Ok(())
}

fn main() -> ExitCode {
    run().map_or_else(Stop::report, |()| ExitCode::SUCCESS)
}

fn run() -> Outcome<()> {
    let keys = keys_asked_for(4_000_000);
    let has = |word: &str| std::env::args().any(|argument| argument == word);
    if has("rates") {
        return all_rates(keys);
    }
    if has("job") {
        return job(keys);
    }
    if has("disk") {
        let cache_bytes = 128 * MIB;
        return in_front(keys, &[Shape::Leveled], Blocks::OnDisk { cache_bytes });
    }
    let runs = [1, 4, 8].map(Shape::Runs);
    in_front(keys, &runs, Blocks::Cached)?;
    in_front(keys, &[Shape::Leveled], Blocks::Cached)
}
