//! A filter folder on a disk in memory: the steps that work on it, and what must be found in it.

use std::collections::HashSet;
use std::error::Error;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use crate::disk::{self, Disk as _, Fault, Lost, MemoryDisk, PowerCut, Tear};
use crate::filter::Scalable;
use crate::format::Source;
use crate::hash::{HashId, KeyHasher};
use crate::math::{Bits, Items, Rate};
use lsm_sieve_front::opening::Opening;
use lsm_sieve_front::options::FrontOptions;
use lsm_sieve_front::segment::{SealedFilter, SegmentBuilder, SegmentId};

const FOLDER: &str = "/sieve";
const FAMILY: &str = "default";

/// The keys of the SSTs. The filter of the first fits into one block of a sidecar, that of the
/// second takes two.
const TABLES: [Range<u32>; 2] = [0..60, 60..3_600];

#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    /// Store a segment filter, of one of two rates.
    Save(usize, bool),
    Remove(usize),
    /// Store a summary filter of these SSTs.
    Summarize(&'static [usize]),
    Forget,
    /// Close and open; another hash means another secret seed.
    Reopen(HashId),
}

pub(super) const STEPS: [Step; 9] = [
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
    let options = FrontOptions::default().summary(room, Bits::new(0));
    let summary = Scalable::new(hasher.imprint().for_summary(), options);
    keys().for_each(|key| _ = summary.insert(hasher.hash(&key).for_summary()));
    summary
}

/// Opens the folder as the plugin does, in the same order.
fn open(disk: &MemoryDisk, hash: HashId) -> Result<Opening, Box<dyn Error>> {
    let options = FrontOptions::default();
    let disk = Arc::new(disk.clone());
    let (opening, identity) = Opening::prepare(disk, Path::new(FOLDER), &options, hash)?;
    opening.prepare_folder()?;
    opening.keep(&identity)?;
    Ok(opening)
}

/// The usable contents of a folder.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Kept {
    pub(super) tables: [bool; TABLES.len()],
    pub(super) summary: bool,
}

impl Kept {
    fn of(opening: &Opening) -> Result<Self, Box<dyn Error>> {
        let mut kept = Self::default();
        for (table, kept) in kept.tables.iter_mut().enumerate() {
            if let Some(filter) = opening.filter_store.load(id(table)) {
                let has = |key: [u8; 4]| filter.chain.may_contain(opening.hasher.hash(&key));
                if !keys(table).all(has) {
                    return Err(format!("the filter of table {table} LOST a key").into());
                }
                *kept = true;
            }
        }
        if let Some(stored) = opening
            .filter_store
            .load_summary(FAMILY, Bits::new(u64::MAX))
        {
            let has = |key: [u8; 4]| {
                stored
                    .chain
                    .may_contain(opening.hasher.hash(&key).for_summary())
            };
            for table in (0..TABLES.len()).filter(|&table| stored.covered.contains(&id(table))) {
                if !keys(table).all(has) {
                    return Err(format!("the summary LOST a key of table {table}").into());
                }
            }
            kept.summary = true;
        }
        Ok(kept)
    }

    /// The first filter that must be stored and is not.
    fn missing_in(&self, found: &Self) -> Option<String> {
        let tables = self.tables.iter().zip(found.tables);
        let table = tables.enumerate().find(|(_, (must, is))| **must && !is);
        match table {
            Some((table, _)) => Some(format!("the filter of table {table}")),
            None => (self.summary && !found.summary).then(|| "the summary".to_owned()),
        }
    }
}

/// A database's filter folder, and what must be found in it.
pub(super) struct World {
    pub(super) disk: MemoryDisk,
    hash: HashId,
    open: Option<Opening>,
    pub(super) must: Kept,
    /// Whether that is known: not with a disk that fails or lies.
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

    pub(super) fn empty() -> Self {
        Self::new(MemoryDisk::new(), HashId::Xxh3).unwrap()
    }

    pub(super) fn after(mut self, steps: &[Step]) -> Self {
        steps.iter().for_each(|step| self.step(*step));
        self
    }

    /// From now on the disk stores nothing and reports success.
    pub(super) fn lying(mut self) -> Self {
        self.disk.lie();
        self.sure = false;
        self
    }

    /// The disk fails from this operation on, or only in it.
    pub(super) fn failing(mut self, after: u64, fault: Fault) -> Self {
        self.disk.fail(after, fault);
        self.sure = fault == Fault::PowerCut;
        self
    }

    pub(super) fn repaired(self) -> Self {
        self.disk.fail(u64::MAX, Fault::PowerCut);
        self
    }

    /// Runs a step, as far as the power allows.
    pub(super) fn step(&mut self, step: Step) {
        let opened = self.open.as_ref();
        let opened = opened.map(|open| (Arc::clone(&open.filter_store), open.hasher));
        match (step, opened) {
            (Step::Reopen(hash), _) => self.reopen(hash),
            (Step::Save(table, loose), Some((filter_store, hasher))) => {
                self.must.tables[table] |=
                    filter_store.save(id(table), &filter(hasher, table, loose));
            }
            (Step::Remove(table), Some((filter_store, _))) => {
                self.must.tables[table] = false;
                filter_store.remove(id(table));
            }
            (Step::Summarize(tables), Some((filter_store, hasher))) => {
                let covered: HashSet<SegmentId> = tables.iter().map(|&table| id(table)).collect();
                let summary = summary(hasher, tables);
                filter_store.save_summary(FAMILY, &summary, &covered, Vec::new(), || true);
                self.must.summary |= self.is_on();
            }
            (Step::Forget, Some((filter_store, _))) => {
                self.must.summary = false;
                filter_store.remove_summary(FAMILY);
            }
            (_, None) => {}
        }
    }

    fn reopen(&mut self, hash: HashId) {
        if hash != self.hash {
            self.must = Kept::default();
        }
        self.hash = hash;
        self.open = open(&self.disk, hash).ok();
    }

    pub(super) fn is_on(&self) -> bool {
        self.disk.list(Path::new("/")).is_ok()
    }

    /// Opens an image that the cut may have left; returns the world that continues from it.
    pub(super) fn wake(&self, image: MemoryDisk) -> Result<Self, Box<dyn Error>> {
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

    /// The cuts that have different outcomes here.
    pub(super) fn cuts(&self, seed: u64, samples: usize) -> Vec<PowerCut> {
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
