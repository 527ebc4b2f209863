//! Power cuts at any point of any work on the filter folder, each followed by an open.
//!
//! ```text
//!   steps: save, remove, summarize, forget, reopen   on a `MemoryDisk`
//!     cut after every disk operation of the last step; or it fails, or the disk lies
//!       every subset of what was not synced, torn at 1 B, 512 B, 4 KiB, over zeros or stale blocks
//!         open as the plugin does, judge
//! ```
//!
//! First come all sequences of one step, of two, of three, of four, as far as the number of images
//! allows. Nearly all crash bugs of file systems need no more than three (Mohan et al., "Finding
//! Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI 2018). Then come long random
//! sequences that continue after each cut. An image is judged by what a reader relies on:
//!
//! - a filter that is accepted has every key of its SST, a summary filter those of all SSTs that it
//!   covers;
//! - what was stored before the cut is found;
//! - no unfinished file stays.
//!
//! On a disk that failed, or lied about its syncs, only the first is checked. The torn files of a
//! lying disk have valid names, so checksums are all that protects a reader from them.
//!
//! `LSM_SIEVE_IMAGES=1000000` makes a long run, `LSM_SIEVE_SEED=n` chooses another one.

mod world;

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::disk::{Fault, MemoryDisk};
use world::{STEPS, Step, World};

/// Images of a default run.
const IMAGES: u64 = 20_000;

/// Quarters of the images that go to the short sequences.
const SHORT_IN_FOUR: u64 = 3;

/// How a disk operation may fail, besides a power cut.
const FAILURES: [Fault; 3] = [
    Fault::Once(io::ErrorKind::Other),
    Fault::Forever(io::ErrorKind::StorageFull),
    Fault::CorruptWrite,
];

const LONGEST_SHORT: u32 = 4;

/// What was tried.
#[derive(Debug, Default)]
struct Census {
    images: u64,
    sequences: u64,
    /// All sequences up to this length were tried.
    complete: u32,
    /// Operations that failed without a power cut.
    failures: u64,
    /// Cuts within long sequences.
    long: u64,
    /// Segment and summary filters that were accepted and judged.
    accepted: u64,
    /// Images by the filters in them that could be used.
    found: BTreeMap<(usize, bool), u64>,
}

impl Census {
    fn judge(&mut self, world: &World, image: MemoryDisk, what: &dyn Fn() -> String) -> World {
        let woken = world.wake(image);
        let woken = woken.unwrap_or_else(|error| panic!("{error}; {}", what()));
        let tables = woken.must.tables.iter().filter(|kept| **kept).count();
        self.images += 1;
        self.accepted += tables as u64 + u64::from(woken.must.summary);
        *self.found.entry((tables, woken.must.summary)).or_default() += 1;
        woken
    }

    /// Every sequence of `length` steps, until `images` are reached; false if they are.
    fn short(&mut self, length: u32, images: u64) -> bool {
        for number in 0..STEPS.len().pow(length) {
            let at = |place| STEPS[number / STEPS.len().pow(place) % STEPS.len()];
            let steps: Vec<Step> = (0..length).map(at).collect();
            self.cut_last(&steps);
            self.sequences += 1;
            if self.images >= images {
                return false;
            }
        }
        self.complete = length;
        true
    }

    /// Cuts the power after every disk operation of the last step, makes that operation fail, and
    /// loses everything on a disk that lies about syncs.
    fn cut_last(&mut self, steps: &[Step]) {
        let liar = World::empty().lying().after(steps);
        self.judge_all(&liar, 0, &|| format!("{steps:?} on a disk that lies"));
        let (last, before) = steps.split_last().unwrap();
        for operations in 0.. {
            let what =
                |fault| move || format!("{steps:?}, {fault:?} after {operations} operations");
            let world = World::empty().after(before);
            let world = world.failing(operations, Fault::PowerCut).after(&[*last]);
            self.judge_all(&world, operations, &what(Fault::PowerCut));
            if world.is_on() {
                return;
            }
            for fault in FAILURES {
                let world = World::empty().after(before);
                let world = world.failing(operations, fault).after(&[*last]).repaired();
                self.judge_all(&world, operations, &what(fault));
                self.failures += 1;
            }
        }
    }

    fn judge_all(&mut self, world: &World, seed: u64, what: &dyn Fn() -> String) {
        for cut in world.cuts(seed, 32) {
            for image in world.disk.after(cut) {
                self.judge(world, image, &|| format!("{}, {cut:?}", what()));
            }
        }
    }

    /// Random steps, with repeated cuts and opens.
    fn long(&mut self, random: &mut StdRng) {
        let mut world = World::empty();
        let mut steps = Vec::new();
        for _ in 0..random.random_range(1..8) {
            if random.random_bool(0.3) {
                world = world.lying();
            }
            world
                .disk
                .fail(random.random_range(0..120), Fault::PowerCut);
            while world.is_on() && steps.len() < 200 {
                steps.push(STEPS[random.random_range(0..STEPS.len())]);
                world.step(steps[steps.len() - 1]);
            }
            let cuts = world.cuts(random.random(), 16);
            let cut = cuts[random.random_range(0..cuts.len())];
            let what = || format!("{steps:?}, {cut:?}");
            let images = world.disk.after(cut).take(1_024);
            let woken: Vec<World> = images
                .map(|image| self.judge(&world, image, &what))
                .collect();
            self.long += 1;
            let next = random.random_range(0..woken.len());
            world = woken.into_iter().nth(next).unwrap();
        }
    }
}

/// The number in an environment variable. A text that is no number must not count as unset.
fn number_from(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|error| panic!("{variable}={text}: {error}")))
}

#[test]
fn no_power_cut_makes_a_filter_lose_a_key() {
    let images = number_from("LSM_SIEVE_IMAGES").unwrap_or(IMAGES);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("{images} images, LSM_SIEVE_SEED={seed}");
    let (began, mut census) = (Instant::now(), Census::default());
    let short = images / 4 * SHORT_IN_FOUR;
    _ = (1..=LONGEST_SHORT).all(|length| census.short(length, short));
    let mut random = StdRng::seed_from_u64(seed);
    while census.images < images {
        census.long(&mut random);
    }
    println!("{census:#?}");
    println!(
        r#"{{"part":"power loss","of_a":"filter folder","seed":{seed},"images":{},"short_sequences":{},"complete_to":{},"failed_operations":{},"long_cuts":{},"filters_judged":{},"lost":0,"seconds":{:.1}}}"#,
        census.images,
        census.sequences,
        census.complete,
        census.failures,
        census.long,
        census.accepted,
        began.elapsed().as_secs_f64()
    );
    assert!(census.sequences > 0 && census.long > 0, "{census:?}");
    assert!(census.accepted > 0, "nothing was judged: {census:?}");
}
