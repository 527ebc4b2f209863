//! The time and memory to store and load a large filter, compared with a plain file of the same
//! size.
//!
//! ```sh
//! cargo bench --no-default-features --bench sidecar [-- KEYS]
//! ```
//!
//! The time is that of the fastest of several rounds, since pages that a virtual machine has not
//! used for a while take several times longer. The memory is the peak of the process above its
//! memory before the step, from Linux.
#![expect(clippy::print_stdout, reason = "a benchmark prints its table")]
#![expect(
    clippy::disallowed_methods,
    reason = "plain files are what it compares with"
)]

#[expect(dead_code, reason = "each bench uses what it needs of it")]
mod common;

use common::{hashes, keys_asked_for};
use lsm_sieve_filter::filter::{Kind, Stage};
use lsm_sieve_filter::hash::{HashId, KeyHash};
use lsm_sieve_filter::math::{Items, Rate};
use lsm_sieve_format::disk::RealDisk;
use lsm_sieve_format::format::{Identity, Sidecar, Source, Subject};
use lsm_sieve_format::segment::{SegmentId, SidecarFolder, SidecarName};
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{Read as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

const ROUNDS: usize = 5;
const TOGETHER: usize = 1 << 16;
const SEGMENT: SegmentId = SegmentId::from_bytes([1; 16]);
const NAME: SidecarName = SidecarName::Segment(SEGMENT);

fn main() {
    let keys = keys_asked_for(500_000_000);
    let home = tempfile::tempdir().expect("there is a disk");
    let identity = Identity::random(HashId::Xxh3).expect("there is randomness");
    let imprint = identity.hasher().imprint();
    let path = home.path().join("filters");
    let folder = SidecarFolder::new(Arc::new(RealDisk), path, identity.store, imprint);
    folder.prepare().expect("there is a disk");

    let stage = filled(keys);
    let sidecar = Sidecar {
        store: identity.store,
        imprint,
        subject: Subject::Segment(SEGMENT),
        source: Source::RawKeys,
        entries: keys as u64,
        rate: Rate::ONE_PERCENT,
        prefixes: Vec::new(),
        stages: vec![&stage],
    };
    let bytes = folder.store(&sidecar).expect("there is room");
    let plain = home.path().join("plain");
    let steps: [(&str, &dyn Fn()); 5] = [
        ("store", &|| {
            _ = folder.store(&sidecar).expect("it is stored")
        }),
        ("write a plain file", &|| write(&plain, bytes)),
        ("load", &|| {
            let loaded = folder.load_stages(NAME).expect("it is whole");
            assert_eq!(loaded.map(|loaded| loaded.stages.len()), Some(1));
        }),
        ("read a plain file", &|| read(&plain, bytes)),
        ("verify", &|| {
            assert!(folder.verify(NAME).expect("it is whole").is_some());
        }),
    ];
    let mut rows = steps.map(|_| Vec::new());
    for _ in 0..ROUNDS {
        for ((_, step), row) in steps.iter().zip(&mut rows) {
            row.push(measured(step));
        }
    }
    println!("a filter of {keys} keys, {} MiB", bytes >> 20);
    println!("step                    ms     peak MiB");
    for ((name, _), row) in steps.iter().zip(rows) {
        let (ms, memory): (Vec<f64>, Vec<f64>) = row.into_iter().unzip();
        let fastest = ms.into_iter().fold(f64::INFINITY, f64::min);
        let most = memory.into_iter().fold(f64::NAN, f64::max);
        println!("{name:<19} {fastest:>6.0} {most:>12.0}");
    }
    let loaded = folder.load_stages(NAME).expect("it is whole");
    let loaded = loaded.expect("it was stored").stages;
    let lost = hashes(1)
        .take(keys)
        .filter(|&hash| !loaded[0].may_contain(hash));
    println!("{} keys are not in what was loaded", lost.count());
}

fn filled(keys: usize) -> Stage {
    let items = Items::new(keys as u64);
    let stage = Stage::with_rate(Kind::Blocked, items, Rate::ONE_PERCENT);
    let mut stage = stage.expect("there is memory");
    let mut hashes = hashes(1).take(keys);
    loop {
        let some: Vec<KeyHash> = hashes.by_ref().take(TOGETHER).collect();
        if some.is_empty() {
            return stage;
        }
        stage.insert_many(&some);
    }
}

/// Milliseconds of a step, and its peak memory.
fn measured(step: &dyn Fn()) -> (f64, f64) {
    // Resets the peak, so that it is that of the step.
    _ = fs::write("/proc/self/clear_refs", "5");
    let before = mebibytes("VmRSS:");
    let start = Instant::now();
    step();
    let ms = start.elapsed().as_secs_f64() * 1e3;
    (ms, mebibytes("VmHWM:") - before)
}

/// A figure of this process from Linux; NaN on other systems.
fn mebibytes(what: &str) -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(what));
    let kibibytes = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kibibytes.map_or(f64::NAN, |kibibytes| kibibytes / 1024.0)
}

/// Writes a file of this many bytes, and syncs it.
fn write(path: &Path, bytes: u64) {
    let mut file = File::create(path).expect("there is a disk");
    let piece = vec![0x5a; TOGETHER];
    let mut left = bytes as usize;
    while left > 0 {
        let now = left.min(piece.len());
        file.write_all(&piece[..now]).expect("there is room");
        left -= now;
    }
    file.sync_all().expect("it is durable");
}

fn read(path: &Path, bytes: u64) {
    let mut all = vec![0; bytes as usize];
    let mut file = File::open(path).expect("it was written");
    file.read_exact(&mut all).expect("it was written");
    black_box(all);
}
