//! The cost of growth: a filter grown from 1,000 keys, one of the right size, and another library.
//!
//! ```sh
//! cargo bench --no-default-features --bench growth [-- KEYS]
//! ```
//!
//! All filters get the same precomputed hashes and are made for a false-positive rate of 1 %.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

#[expect(dead_code, reason = "each bench uses what it needs of it")]
#[path = "../../benches/common/mod.rs"]
mod common;

use common::{hashes, keys_asked_for, median, time};
use fastbloom::AtomicBloomFilter;
use lsm_sieve_classics::filter::{Kind, Scalable, ScalableOptions, Stage};
use lsm_sieve_filter::hash::{HashId, Imprint, KeyHash};
use lsm_sieve_filter::math::{Items, Rate};

const ROUNDS: usize = 3;
const LOOK_UPS: usize = 2_000_000;
const IMPRINT: Imprint = Imprint {
    hash: HashId::Xxh3,
    seed_id: 0,
    known_answer: 0,
};

fn main() {
    let keys = keys_asked_for(10_000_000);
    let members: Vec<_> = hashes(1).take(keys).collect();
    let strangers: Vec<_> = hashes(2).take(LOOK_UPS.min(keys)).collect();
    let contestants = contestants(keys as u64);
    let mut rows: Vec<Vec<Row>> = contestants.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for ((_, build), row) in contestants.iter().zip(&mut rows) {
            row.push(run(build().as_ref(), &members, &strangers));
        }
    }
    println!("{keys} keys, false-positive rate 1 %");
    println!("filter                       stages  bits/key  rate     insert  miss   hit");
    for ((name, _), row) in contestants.iter().zip(rows) {
        println!("{name:<27}  {}", summary(&row));
    }
}

type Build = Box<dyn Fn() -> Box<dyn Contestant>>;

fn contestants(keys: u64) -> Vec<(String, Build)> {
    let mut all: Vec<(String, Build)> = Vec::new();
    for kind in [Kind::Blocked, Kind::Partitioned] {
        for growth in [2, 4] {
            let options = ScalableOptions {
                kind,
                growth,
                ..ScalableOptions::default()
            };
            let build = move || Box::new(Scalable::new(IMPRINT, options)) as _;
            all.push((format!("{kind:?}, grown x{growth}"), Box::new(build)));
        }
        let sized = move || Stage::with_rate(kind, Items::new(keys), Rate::ONE_PERCENT);
        let build = move || Box::new(sized().expect("there is memory")) as _;
        all.push((format!("{kind:?}, right size"), Box::new(build)));
    }
    let filter = AtomicBloomFilter::with_false_pos(0.01).seed(&1);
    let build = move || Box::new(filter.clone().expected_items(keys as usize)) as _;
    all.push(("fastbloom, right size".to_string(), Box::new(build)));
    all
}

/// The operations that the benchmark needs of a filter.
trait Contestant {
    fn insert(&self, hashes: &[KeyHash]) -> f64;
    fn look_up(&self, hashes: &[KeyHash]) -> (f64, usize);
    fn stages(&self) -> usize;
    fn bits(&self) -> u64;
}

impl Contestant for Scalable {
    fn insert(&self, hashes: &[KeyHash]) -> f64 {
        time(hashes, |hash| self.insert(hash)).0
    }

    fn look_up(&self, hashes: &[KeyHash]) -> (f64, usize) {
        time(hashes, |hash| self.may_contain(hash))
    }

    fn stages(&self) -> usize {
        self.stages()
    }

    fn bits(&self) -> u64 {
        self.size().get()
    }
}

impl Contestant for Stage {
    fn insert(&self, hashes: &[KeyHash]) -> f64 {
        time(hashes, |hash| self.insert(hash)).0
    }

    fn look_up(&self, hashes: &[KeyHash]) -> (f64, usize) {
        time(hashes, |hash| self.may_contain(hash))
    }

    fn stages(&self) -> usize {
        1
    }

    fn bits(&self) -> u64 {
        self.size().get()
    }
}

impl Contestant for AtomicBloomFilter {
    fn insert(&self, hashes: &[KeyHash]) -> f64 {
        time(hashes, |hash| self.insert_hash(hash.get())).0
    }

    fn look_up(&self, hashes: &[KeyHash]) -> (f64, usize) {
        time(hashes, |hash| self.contains_hash(hash.get()))
    }

    fn stages(&self) -> usize {
        1
    }

    fn bits(&self) -> u64 {
        self.num_bits() as u64
    }
}

struct Row {
    stages: usize,
    bits_a_key: f64,
    rate: f64,
    insert: f64,
    miss: f64,
    hit: f64,
}

fn run(filter: &dyn Contestant, members: &[KeyHash], strangers: &[KeyHash]) -> Row {
    let insert = filter.insert(members);
    let (miss, maybe) = filter.look_up(strangers);
    // Keys from all stages are looked up in turn.
    let step = members.len() / strangers.len();
    let sample: Vec<_> = members.iter().copied().step_by(step).collect();
    let (hit, found) = filter.look_up(&sample);
    assert_eq!(found, sample.len(), "a key was answered absent");
    Row {
        stages: filter.stages(),
        bits_a_key: filter.bits() as f64 / members.len() as f64,
        rate: maybe as f64 / strangers.len() as f64,
        insert,
        miss,
        hit,
    }
}

fn summary(rows: &[Row]) -> String {
    let of = |field: fn(&Row) -> f64| median(rows.iter().map(field).collect());
    format!(
        "{:<6}  {:<8.1}  {:<5.3} %  {:<6.1}  {:<5.1}  {:<5.1}",
        rows[0].stages,
        of(|row| row.bits_a_key),
        of(|row| row.rate) * 100.0,
        of(|row| row.insert),
        of(|row| row.miss),
        of(|row| row.hit),
    )
}
