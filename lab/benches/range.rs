//! Is there a key between two others? The events of a stream between two times, asked of RocksDB by
//! its best way and of a range filter.
//!
//! ```text
//! key      stream, 8 bytes; second, 8 bytes; 100 events of each stream within 30 days
//! native   a held iterator over Bloom filters for keys and streams: one seek
//! filter   `RangeFilter` alone, at 16 bits per key
//! ```
//!
//! Prints one line of JSON for each number of sorted runs, width in seconds and place of the empty
//! ranges: anywhere, or right behind an event. Times are nanoseconds, medians over the rounds, in which
//! both take turns; `passed` is the share of empty ranges that the filter does not deny. Run with
//! `cargo bench --bench range`; `-- 1000000` for another number of keys.

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

#[expect(dead_code, reason = "each bench uses what it needs of it")]
#[path = "../../benches/common/mod.rs"]
mod common;
#[path = "../../benches/common/database.rs"]
mod database;

use std::collections::BTreeSet;
use std::error::Error;
use std::hint::black_box;
use std::time::Instant;

use common::{keys_asked_for, median};
use lsm_sieve_cli::workload::random::{Random, scramble};
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};
use lsm_sieve_filter::range::{RangeBuilder, RangeFilter};
use rocksdb::{DB, ReadOptions, SliceTransform};

const ROUNDS: usize = 5;
const QUESTIONS: usize = 50_000;
const EVENTS: usize = 100;
const SECONDS: u64 = 30 * 24 * 3_600;
const BEGIN: u64 = 1_790_000_000;
const BITS: u32 = 16;

/// A stream and a second.
type Event = (u64, u64);

fn stream(number: u64) -> [u8; 8] {
    scramble(number).to_be_bytes()
}

fn key((number, second): Event) -> Vec<u8> {
    [stream(number), second.to_be_bytes()].concat()
}

fn events(keys: usize, random: &mut Random) -> Vec<Event> {
    let streams = (keys / EVENTS) as u64;
    let event = |_| (random.below(streams), BEGIN + random.below(SECONDS));
    (0..keys).map(event).collect()
}

fn database(events: &[Event], runs: usize, home: &std::path::Path) -> Result<DB, Box<dyn Error>> {
    let mut options = database::options();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(8));
    let db = DB::open(&options, home)?;
    for run in events.chunks(events.len().div_ceil(runs)) {
        for &event in run {
            db.put(key(event), [b'v'; 32])?;
        }
        db.flush()?;
    }
    Ok(db)
}

fn filter(events: &[Event]) -> Result<(RangeFilter, f64), Box<dyn Error>> {
    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([3; 16]));
    let start = Instant::now();
    let mut builder = RangeBuilder::new(hasher);
    for &(number, second) in events {
        builder.insert(&stream(number), &second.to_be_bytes());
    }
    let filter = builder.finish(BITS)?;
    let build_ns = start.elapsed().as_nanos() as f64 / events.len() as f64;
    Ok((filter, build_ns))
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

/// Nanoseconds per range, and how many are not denied.
fn ns_each(ranges: &[Event], mut may_hold: impl FnMut(Event) -> bool) -> (f64, usize) {
    let start = Instant::now();
    let maybe = ranges
        .iter()
        .filter(|&&range| may_hold(black_box(range)))
        .count();
    (
        start.elapsed().as_nanos() as f64 / ranges.len() as f64,
        maybe,
    )
}

fn main() -> Result<(), Box<dyn Error>> {
    let keys = keys_asked_for(4_000_000);
    let mut random = Random::new(1);
    let events = events(keys, &mut random);
    let sorted: BTreeSet<_> = events.iter().copied().collect();
    let (filter, build_ns) = filter(&events)?;
    let (shape, ..) = filter.parts();
    for &(number, second) in &events {
        assert!(
            filter.may_contain(&stream(number), second, second),
            "no event is denied"
        );
    }
    for runs in [1, 4, 8] {
        let home = tempfile::tempdir()?;
        let db = database(&events, runs, home.path())?;
        for width in [10, 100, 1_000, 3_600] {
            for near in [false, true] {
                let ranges = empty_ranges(&sorted, &events, width, near, &mut random);
                let mut same_stream = ReadOptions::default();
                same_stream.set_prefix_same_as_start(true);
                let mut held = db.raw_iterator_opt(same_stream);
                let (mut native, mut ours, mut passed) = (Vec::new(), Vec::new(), 0);
                for _ in 0..ROUNDS {
                    let (ns, found) = ns_each(&ranges, |(number, first)| {
                        held.seek(key((number, first)));
                        held.key()
                            .is_some_and(|found| *found < key((number, first + width))[..])
                    });
                    assert_eq!(found, 0, "they are empty");
                    native.push(ns);
                    let (ns, maybe) = ns_each(&ranges, |(number, first)| {
                        filter.may_contain(&stream(number), first, first + width - 1)
                    });
                    ours.push(ns);
                    passed = maybe;
                }
                let (native_ns, filter_ns) = (median(native), median(ours));
                let line = serde_json::json!({
                    "runs": runs,
                    "width": width,
                    "near": near,
                    "native_ns": native_ns,
                    "filter_ns": filter_ns,
                    "ratio": native_ns / filter_ns,
                    "passed": passed as f64 / ranges.len() as f64,
                    "bound": shape.bound(width),
                    "bits_per_key": filter.size().get() as f64 / sorted.len() as f64,
                    "build_ns": build_ns,
                });
                println!("{line}");
            }
        }
    }
    Ok(())
}
