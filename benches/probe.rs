//! The cost of one operation on a blocked stage, at 10 and 12 bits per key.
//!
//! ```sh
//! cargo bench --no-default-features --bench probe [-- KEYS]
//! ```
//!
//! Lookups are independent, as in a server under load. `many` is an insertion through
//! `Stage::insert_many`, and `batch` a miss through `Chain::contains_many`. `line` accesses as much
//! memory in the same order, with one load and no filter: the limit of the machine.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

#[expect(dead_code, reason = "each bench uses what it needs of it")]
mod common;

use common::{hashes, keys_asked_for, median, time};
use lsm_sieve_filter::filter::{Chain, Kind, Shape, Stage};
use lsm_sieve_filter::hash::{HashId, Imprint, KeyHash};
use lsm_sieve_filter::math::{Bits, Probes};
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: usize = 7;
const LOOK_UPS: usize = 4_000_000;
const IMPRINT: Imprint = Imprint {
    hash: HashId::Xxh3,
    seed_id: 0,
    known_answer: 0,
};

fn main() {
    let sizes = match keys_asked_for(0) {
        0 => vec![4_000_000, 10_000_000],
        keys => vec![keys],
    };
    println!(
        "keys       bits  pattern  insert  many   miss   hit    batch  line   rate      predicted"
    );
    for keys in sizes {
        for (bits_a_key, probes, groups) in [(10, 6, 2), (10, 8, 4), (12, 6, 2), (12, 8, 4)] {
            let bits = (keys * bits_a_key) as u64 / 512 * 512;
            let shape = Shape {
                kind: Kind::Blocked,
                bits: Bits::new(bits),
                probes: Probes::new(probes),
                groups,
            };
            let row = measure(shape, keys);
            println!(
                "{keys:<10} {bits_a_key:<5} {groups}x{:<5}  {row}",
                probes / groups
            );
        }
    }
}

fn measure(shape: Shape, keys: usize) -> String {
    let members: Vec<_> = hashes(1).take(keys).collect();
    let strangers: Vec<_> = hashes(2).take(LOOK_UPS.min(keys)).collect();
    let mut many = Vec::new();
    let (mut inserts, mut misses, mut hits) = (Vec::new(), Vec::new(), Vec::new());
    let (mut batches, mut lines) = (Vec::new(), Vec::new());
    let (mut rate, mut predicted) = (0.0, 0.0);
    let array = black_box(vec![1u64; (shape.bits.get() / 64) as usize]);
    for _ in 0..ROUNDS {
        let stage = Stage::new(shape).expect("the shape is valid");
        inserts.push(time(&members, |hash| stage.insert(hash)).0);
        many.push(insert_many(shape, &members));
        let (ns, maybe) = time(&strangers, |hash| stage.may_contain(hash));
        misses.push(ns);
        rate = maybe as f64 / strangers.len() as f64;
        predicted = stage.predicted_rate();
        hits.push(time(&members[..strangers.len()], |hash| stage.may_contain(hash)).0);
        batches.push(batch(&Chain::new(IMPRINT, vec![stage]), &strangers));
        lines.push(time(&strangers, |hash| one_load(&array, hash)).0);
    }
    let [insert, many, miss] = [inserts, many, misses].map(median);
    let [hit, batch, line] = [hits, batches, lines].map(median);
    format!(
        "{insert:<6.1}  {many:<5.1}  {miss:<5.1}  {hit:<5.1}  {batch:<5.1}  {line:<5.1}  {:<6.3} %  {:.3} %",
        rate * 100.0,
        predicted * 100.0
    )
}

fn insert_many(shape: Shape, hashes: &[KeyHash]) -> f64 {
    let mut stage = Stage::new(shape).expect("the shape is valid");
    let start = Instant::now();
    stage.insert_many(hashes);
    start.elapsed().as_nanos() as f64 / hashes.len() as f64
}

fn batch(chain: &Chain, hashes: &[KeyHash]) -> f64 {
    let mut answers = vec![false; hashes.len()];
    let start = Instant::now();
    chain.contains_many(hashes, &mut answers);
    start.elapsed().as_nanos() as f64 / hashes.len() as f64
}

fn one_load(array: &[u64], hash: KeyHash) -> bool {
    let product = u128::from(hash.get()) * array.len() as u128;
    array[(product >> 64) as usize] == 0
}
