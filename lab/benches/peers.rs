//! This crate's filters compared with other libraries: false-positive rate, bits per key, and
//! nanoseconds per operation.
//!
//! ```sh
//! cargo bench --no-default-features --bench peers [-- KEYS]
//! ```
//!
//! All get the same precomputed hashes and are sized for 1 %. Libraries that take only keys hash
//! the eight bytes again, with their own hash. Each filter is also checked: if one answers *absent*
//! for an inserted key, the run ends. Filling is timed once; lookups are the median of three.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]

#[expect(dead_code, reason = "each bench uses what it needs of it")]
#[path = "../../benches/common/mod.rs"]
mod common;

use common::{hashes, keys_asked_for, median, time};
use fastbloom::AtomicBloomFilter;
use growable_bloom_filter::GrowableBloom;
use lsm_sieve_classics::filter::{
    CounterWidth, Counting, Growing, Growth, HashCoding, Kind, MinimalIncrease, Scalable,
    ScalableOptions, Spectral, Stage,
};
use lsm_sieve_filter::filter::Stage as StoreStage;
use lsm_sieve_filter::hash::{HashId, Imprint, KeyHash};
use lsm_sieve_filter::math::{Items, Rate};
use scalable_cuckoo_filter::ScalableCuckooFilter;
use std::time::Instant;
use xorf::{BinaryFuse8, Filter as _};

const ROUNDS: usize = 3;
const RATE: Rate = Rate::ONE_PERCENT;
const IMPRINT: Imprint = Imprint {
    hash: HashId::Xxh3,
    seed_id: 0,
    known_answer: 0,
};

fn main() {
    let keys = keys_asked_for(1_000_000);
    let set = Set {
        members: hashes(1).take(keys).collect(),
        strangers: hashes(2).take(keys.max(100_000)).collect(),
    };
    println!("{keys} keys, false-positive rate 1 %");
    println!("filter                        rate      bits/key  insert   miss     hit");
    ours(&set);
    with_removal(&set);
    theirs(&set);
}

struct Set {
    members: Vec<KeyHash>,
    strangers: Vec<KeyHash>,
}

impl Set {
    fn items(&self) -> Items {
        Items::new(self.members.len() as u64)
    }

    /// Fills a filter and prints its line; `bits` returns `None` if the library does not report it.
    fn measure<F>(
        &self,
        name: &str,
        fill: impl FnOnce(&[KeyHash]) -> F,
        contains: impl Fn(&F, KeyHash) -> bool,
        bits: impl Fn(&F) -> Option<u64>,
    ) {
        let count = self.members.len() as f64;
        let start = Instant::now();
        let filter = fill(&self.members);
        let insert = start.elapsed().as_nanos() as f64 / count;
        let look_up = |keys: &[KeyHash]| {
            let rounds = [(); ROUNDS].map(|()| time(keys, |hash| contains(&filter, hash)));
            let ns = rounds.iter().map(|(ns, _)| *ns).collect();
            (median(ns), rounds[0].1)
        };
        let (miss, maybe) = look_up(&self.strangers);
        let (hit, found) = look_up(&self.members);
        assert_eq!(
            found,
            self.members.len(),
            "{name}: a key was answered absent"
        );
        let rate = 100.0 * maybe as f64 / self.strangers.len() as f64;
        let bits = bits(&filter).map_or("-".into(), |bits| format!("{:.1}", bits as f64 / count));
        println!("{name:<28}  {rate:<6.4} %  {bits:<8}  {insert:<7.1}  {miss:<7.1}  {hit:<7.1}");
    }
}

fn ours(set: &Set) {
    for kind in [
        Kind::Standard,
        Kind::Classic,
        Kind::Partitioned,
        Kind::Blocked,
    ] {
        let stage = Stage::with_rate(kind, set.items(), RATE).expect("there is memory");
        let fill = |keys: &[KeyHash]| {
            keys.iter().for_each(|&hash| _ = stage.insert(hash));
            stage
        };
        let bits = |stage: &Stage| Some(stage.size().get());
        set.measure(&format!("{kind:?}"), fill, Stage::may_contain, bits);
    }
    let fill = |keys: &[KeyHash]| {
        let stage = StoreStage::ribbon(keys.to_vec(), RATE);
        stage.expect("there is memory")
    };
    let bits = |stage: &StoreStage| Some(stage.size().get());
    set.measure("Ribbon", fill, StoreStage::may_contain, bits);
    let fill = |keys: &[KeyHash]| {
        let filter = Scalable::new(IMPRINT, ScalableOptions::default());
        keys.iter().for_each(|&hash| _ = filter.insert(hash));
        filter
    };
    let bits = |filter: &Scalable| Some(filter.size().get());
    set.measure("Scalable, from 1,000", fill, Scalable::may_contain, bits);
}

/// Fills a filter that allows only one writer.
fn filled<F, T>(
    mut filter: F,
    insert: impl Fn(&mut F, KeyHash) -> T,
) -> impl FnOnce(&[KeyHash]) -> F {
    move |keys| {
        keys.iter().for_each(|&hash| _ = insert(&mut filter, hash));
        filter
    }
}

fn with_removal(set: &Set) {
    let (items, width) = (set.items(), CounterWidth::Eight);
    let counting = Counting::with_rate(items, RATE).expect("there is memory");
    set.measure(
        "Counting, 4 bits",
        filled(counting, Counting::insert),
        Counting::may_contain,
        |filter| Some(filter.size().get()),
    );
    let growing = Growing::counting(Growth::default()).expect("there is memory");
    set.measure(
        "Growing Counting, from 1,000",
        filled(growing, Growing::insert),
        Growing::may_contain,
        |filter| Some(filter.size().get()),
    );
    let spectral = Spectral::with_rate(items, RATE, width).expect("there is memory");
    set.measure(
        "Spectral, 8 bits",
        filled(spectral, Spectral::insert),
        Spectral::may_contain,
        |filter| Some(filter.size().get()),
    );
    let minimal = MinimalIncrease::with_rate(items, RATE, width).expect("there is memory");
    set.measure(
        "MinimalIncrease, 8 bits",
        filled(minimal, MinimalIncrease::insert),
        MinimalIncrease::may_contain,
        |filter| Some(filter.size().get()),
    );
    let codes = HashCoding::with_rate(items, RATE).expect("there is memory");
    set.measure(
        "HashCoding, half full",
        filled(codes, HashCoding::insert),
        HashCoding::may_contain,
        |table| Some(table.size().get()),
    );
}

fn theirs(set: &Set) {
    let (keys, rate) = (set.members.len(), RATE.get());
    let sized = AtomicBloomFilter::with_false_pos(rate).seed(&1);
    set.measure(
        "fastbloom",
        filled(sized.expected_items(keys), |filter, hash| {
            filter.insert_hash(hash.get())
        }),
        |filter, hash| filter.contains_hash(hash.get()),
        |filter| Some(filter.num_bits() as u64),
    );
    set.measure(
        "growable-bloom-filter",
        filled(GrowableBloom::new(rate, keys), |filter, hash| {
            filter.insert(hash.get())
        }),
        |filter, hash| filter.contains(hash.get()),
        |_| None,
    );
    let cuckoo: ScalableCuckooFilter<u64> = ScalableCuckooFilter::new(keys, rate);
    set.measure(
        "scalable_cuckoo_filter",
        filled(cuckoo, |filter, hash| filter.insert(&hash.get())),
        |filter, hash| filter.contains(&hash.get()),
        |filter| Some(filter.bits()),
    );
    let fingerprints = qfilter::Filter::new(keys as u64, rate).expect("there is memory");
    set.measure(
        "qfilter",
        filled(fingerprints, |filter, hash| {
            filter.insert_fingerprint(false, hash.get())
        }),
        |filter, hash| filter.contains_fingerprint(hash.get()),
        |filter| Some(filter.memory_usage() as u64 * 8),
    );
    // Bits per key are whole numbers; 11 is the lowest that reaches 1 %.
    set.measure(
        "sbbf-rs-safe, 11 bits",
        filled(sbbf_rs_safe::Filter::new(11, keys), |filter, hash| {
            filter.insert_hash(hash.get())
        }),
        |filter, hash| filter.contains_hash(hash.get()),
        |filter| Some(filter.as_bytes().len() as u64 * 8),
    );
    let fuse = |keys: &[KeyHash]| {
        let keys: Vec<u64> = keys.iter().map(|hash| hash.get()).collect();
        BinaryFuse8::try_from(&keys).expect("distinct keys make a fuse filter")
    };
    set.measure(
        "xorf BinaryFuse8, static",
        fuse,
        |filter, hash| filter.contains(&hash.get()),
        |filter| Some(filter.len() as u64 * 8),
    );
}
