//! The power goes at any moment of any work on the folder of filters; then it is opened again.
//!
//! ```text
//!   steps: save, remove, summarize, forget, reopen   on a `MemoryDisk`
//!     cut after every disk operation of the last step; or it fails, or the disk lies
//!       every subset of what was not synced, torn at 1 B, 512 B, 4 KiB, over zeros or stale blocks
//!         open as the plugin does, judge
//! ```
//!
//! First comes every sequence of one step, of two, of three, of four, as far as the number of images
//! reaches: nearly all crash bugs of file systems need no more than three (Mohan et al., "Finding
//! Crash-Consistency Bugs with Bounded Black-Box Crash Testing", OSDI 2018). Then come long random
//! ones that go on after each cut. An image is judged by what a reader relies on:
//!
//! - a filter that is accepted has every key of its table, a summary those of all that it covers;
//! - what was stored before the cut is found;
//! - nothing unfinished stays.
//!
//! Of a disk that failed, or lied about its syncs, only the first is asked: a liar's torn files have
//! good names, and checksums are all that stands between them and a reader.
//!
//! `LSM_SIEVE_IMAGES=1000000` makes a long run, `LSM_SIEVE_SEED=n` repeats another.

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::SieveOptions;
use super::db::Opening;
use crate::disk::{self, Disk as _, Fault, Lost, MemoryDisk, PowerCut, Tear};
use crate::filter::Scalable;
use crate::format::Source;
use crate::hash::{HashId, KeyHasher};
use crate::math::{Items, Rate};
use crate::segment::{SealedFilter, SegmentBuilder, SegmentId};

/// Images of an ordinary run.
const IMAGES: u64 = 20_000;

/// Of the images, so many in four are of the short sequences.
const SHORT_IN_FOUR: u64 = 3;

const FOLDER: &str = "/sieve";
const FAMILY: &str = "default";

/// The keys of the tables: the filter of the first fits into one block of a sidecar, that of the
/// second takes two.
const TABLES: [Range<u32>; 2] = [0..60, 60..3_600];

#[derive(Clone, Copy, Debug)]
enum Step {
    /// Store a table's filter, of one of two rates.
    Save(usize, bool),
    Remove(usize),
    /// Store a summary of these tables.
    Summarize(&'static [usize]),
    Forget,
    /// Close and open; another hash makes another secret.
    Reopen(HashId),
}

const STEPS: [Step; 9] = [
    Step::Save(0, false),
    Step::Save(1, false),
    Step::Save(1, true),
    Step::Remove(1),
    Step::Summarize(&[1]),
    Step::Summarize(&[0, 1]),
    Step::Forget,
    Step::Reopen(HashId::Xxh3),
    Step::Reopen(HashId::SipHash13),
];

const TEARS: [Tear; 4] = [
    Tear::Quarters,
    Tear::Bytes(1),
    Tear::Bytes(512),
    Tear::Bytes(4096),
];

/// What a disk operation may come to, beside the end of the power.
const FAILURES: [Fault; 3] = [
    Fault::Once(io::ErrorKind::Other),
    Fault::Forever(io::ErrorKind::StorageFull),
    Fault::CorruptWrite,
];

const LONGEST_SHORT: u32 = 4;

fn id(table: usize) -> SegmentId {
    SegmentId::from_bytes([u8::try_from(table).unwrap() + 1; 16])
}

fn keys(table: usize) -> impl Iterator<Item = [u8; 4]> {
    TABLES[table].clone().map(u32::to_le_bytes)
}

fn filter(hasher: KeyHasher, table: usize, loose: bool) -> SealedFilter {
    let rate = Rate::new(if loose { 0.05 } else { 0.01 }).unwrap();
    let mut builder = SegmentBuilder::new(id(table), hasher, rate);
    keys(table).for_each(|key| builder.add(&key));
    builder
        .seal(keys(table).count() as u64, Source::RawKeys)
        .unwrap()
}

fn summary(hasher: KeyHasher, tables: &[usize]) -> Scalable {
    let keys = || tables.iter().copied().flat_map(keys);
    let room = Items::new(keys().count() as u64);
    let options = SieveOptions::default().summary(room);
    let summary = Scalable::new(hasher.imprint().remixed(), options);
    keys().for_each(|key| _ = summary.insert(hasher.hash(&key).remixed()));
    summary
}

/// The folder as the plugin opens it, in the same order.
fn open(disk: &MemoryDisk, hash: HashId) -> Result<Opening, Box<dyn Error>> {
    let sieve = SieveOptions::default().hash(hash);
    let (opening, identity) = Opening::prepare(Arc::new(disk.clone()), Path::new(FOLDER), &sieve)?;
    opening.keep(&identity)?;
    Ok(opening)
}

/// What a folder holds that can be used.
#[derive(Clone, Copy, Debug, Default)]
struct Kept {
    tables: [bool; TABLES.len()],
    summary: bool,
}

impl Kept {
    fn of(opening: &Opening) -> Result<Self, Box<dyn Error>> {
        let mut kept = Self::default();
        for (table, kept) in kept.tables.iter_mut().enumerate() {
            if let Some(filter) = opening.shelf.load(id(table)) {
                let has = |key: [u8; 4]| filter.chain.may_contain(opening.hasher.hash(&key));
                if !keys(table).all(has) {
                    return Err(format!("the filter of table {table} LOST a key").into());
                }
                *kept = true;
            }
        }
        if let Some((chain, covers)) = opening.shelf.load_summary(FAMILY) {
            let has = |key: [u8; 4]| chain.may_contain(opening.hasher.hash(&key).remixed());
            for table in (0..TABLES.len()).filter(|&table| covers.contains(&id(table))) {
                if !keys(table).all(has) {
                    return Err(format!("the summary LOST a key of table {table}").into());
                }
            }
            kept.summary = true;
        }
        Ok(kept)
    }

    /// The first thing that must be there and is not.
    fn missing_in(&self, found: &Self) -> Option<String> {
        let tables = self.tables.iter().zip(found.tables);
        let table = tables.enumerate().find(|(_, (must, is))| **must && !is);
        match table {
            Some((table, _)) => Some(format!("the filter of table {table}")),
            None => (self.summary && !found.summary).then(|| "the summary".to_owned()),
        }
    }
}

/// A database's folder of filters, and what must be found in it.
struct World {
    disk: MemoryDisk,
    hash: HashId,
    open: Option<Opening>,
    must: Kept,
    /// Whether that is known: not of a disk that fails or lies.
    sure: bool,
}

impl World {
    fn new(disk: MemoryDisk, hash: HashId) -> Result<Self, Box<dyn Error>> {
        let opening = open(&disk, hash)?;
        let must = Kept::of(&opening)?;
        Ok(Self {
            disk,
            hash,
            open: Some(opening),
            must,
            sure: true,
        })
    }

    fn empty() -> Self {
        Self::new(MemoryDisk::new(), HashId::Xxh3).unwrap()
    }

    fn after(mut self, steps: &[Step]) -> Self {
        steps.iter().for_each(|step| self.step(*step));
        self
    }

    /// The disk stores nothing from now on.
    fn lying(mut self) -> Self {
        self.disk.lie();
        self.sure = false;
        self
    }

    /// The disk fails from this operation on, or in it alone.
    fn failing(mut self, after: u64, fault: Fault) -> Self {
        self.disk.fail(after, fault);
        self.sure = fault == Fault::PowerCut;
        self
    }

    fn repaired(self) -> Self {
        self.disk.fail(u64::MAX, Fault::PowerCut);
        self
    }

    /// Carries a step out, as far as the power lets it.
    fn step(&mut self, step: Step) {
        if let Step::Reopen(hash) = step {
            return self.reopen(hash);
        }
        let Some(Opening { shelf, hasher, .. }) = &self.open else {
            return;
        };
        match step {
            Step::Save(table, loose) => {
                self.must.tables[table] |= shelf.save(id(table), &filter(*hasher, table, loose));
            }
            Step::Remove(table) => {
                self.must.tables[table] = false;
                shelf.remove(id(table));
            }
            Step::Summarize(tables) => {
                let covers: HashSet<SegmentId> = tables.iter().map(|&table| id(table)).collect();
                shelf.save_summary(FAMILY, &summary(*hasher, tables), covers);
                self.must.summary |= self.is_on();
            }
            Step::Forget => {
                self.must.summary = false;
                shelf.remove_summary(FAMILY);
            }
            Step::Reopen(_) => {}
        }
    }

    fn reopen(&mut self, hash: HashId) {
        if hash != self.hash {
            self.must = Kept::default();
        }
        self.hash = hash;
        self.open = open(&self.disk, hash).ok();
    }

    fn is_on(&self) -> bool {
        self.disk.list(Path::new("/")).is_ok()
    }

    /// Opens a disk that the cut may have left; the world that goes on from there.
    fn wake(&self, image: MemoryDisk) -> Result<Self, Box<dyn Error>> {
        let world = Self::new(image, self.hash)?;
        if !self.sure {
            return Ok(world);
        }
        if let Some(missing) = self.must.missing_in(&world.must) {
            return Err(format!("{missing} was stored and is gone").into());
        }
        let names = world.disk.list(Path::new(FOLDER))?;
        match names.iter().find(|name| disk::is_temporary(name)) {
            Some(name) => Err(format!("{name} stays").into()),
            None => Ok(world),
        }
    }

    /// The cuts that differ here.
    fn cuts(&self, seed: u64, samples: usize) -> Vec<PowerCut> {
        let cut = |lost| {
            move |tear| PowerCut {
                tear,
                lost,
                samples,
                ..PowerCut::new(seed)
            }
        };
        match self.disk.unsynced_bytes() {
            0 => vec![cut(Lost::Zeroed)(Tear::Quarters)],
            _ => [Lost::Zeroed, Lost::Stale]
                .into_iter()
                .flat_map(|lost| TEARS.map(cut(lost)))
                .collect(),
        }
    }
}

/// What was tried.
#[derive(Debug, Default)]
struct Census {
    images: u64,
    sequences: u64,
    /// Up to this length, all of them.
    complete: u32,
    /// Operations that failed, the power staying on.
    failures: u64,
    /// Cuts in the midst of long sequences.
    long: u64,
    /// Filters that were found and judged, of tables and of families.
    accepted: u64,
    /// Images by what could be used in them.
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

    /// Every sequence of so many steps, as long as there are images left; false when there are not.
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

    /// Cuts the power after every disk operation of the last step, lets the operation fail, and
    /// lets all be lost by a liar.
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

    /// Random steps, cut and woken again and again.
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

fn number_from(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
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
