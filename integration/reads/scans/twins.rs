//! A plain database and a filtered one with the same options and the same operations, whose
//! iterators are compared row by row.
//!
//! Without a filter policy, or with one that builds no filter, plain RocksDB never asks a filter. So
//! its rows depend on the entries alone, and the filtered database must show the same, also where
//! RocksDB's documentation leaves them open: beyond the prefix of a seek, and at a change of
//! direction in one prefix. With a policy, open rows depend on which SSTs a filter lets a seek skip.
//! There, the filters of both databases have so many bits per key that none has a false positive.
//! They have the same keys and prefixes, and the SSTs are the same. So again all rows must be.
//!
//! Our filters may have the prefixes of other functions too, and then skip fewer SSTs than RocksDB's
//! own: not where open rows depend on it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::path::Path;

use lsm_sieve::{FilterSize, Items, Prefix, SieveDb, SieveOptions};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rocksdb::{
    BlockBasedOptions, DB, DEFAULT_COLUMN_FAMILY_NAME as DEFAULT, Options, SingleThreaded,
    SliceTransform, SstFileWriter, WriteBatch,
};
use tempfile::TempDir;

use super::scan::{How, Mode, Scan, Shown, Step};
use crate::support::binding::{given, options_by_text};
use crate::support::model_db;

pub(super) type Filtered = SieveDb<SingleThreaded>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extractor {
    None,
    Fixed,
    Capped,
    /// All up to a slash, which is included.
    Custom,
    /// All before a slash: a prefix has none itself, which RocksDB does not forbid.
    NotIdempotent,
    /// Of a name that no filter can have.
    Unnamed,
}

impl Extractor {
    pub(super) const ALL: [Self; 6] = [
        Self::None,
        Self::Fixed,
        Self::Capped,
        Self::Custom,
        Self::NotIdempotent,
        Self::Unnamed,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Policy {
    None,
    /// So few bits per key that RocksDB builds no filter.
    Unbuilt,
    Bloom,
    Ribbon,
}

impl Policy {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Unbuilt, Self::Bloom, Self::Ribbon];

    /// Whether RocksDB's own SSTs have filters.
    pub(super) fn builds(self) -> bool {
        matches!(self, Self::Bloom | Self::Ribbon)
    }
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Setting {
    pub(super) extractor: Extractor,
    pub(super) policy: Policy,
}

impl Setting {
    pub(super) fn sieve(self) -> SieveOptions {
        if self.policy.builds() {
            return sieve();
        }
        sieve().prefixes("default", [Prefix::until(b'/'), Prefix::fixed(2)])
    }

    pub(super) fn options(self) -> Options {
        let mut options = model_db::options();
        let mut blocks = BlockBasedOptions::default();
        match self.policy {
            Policy::None => {}
            Policy::Unbuilt => blocks.set_bloom_filter(0.2, false),
            Policy::Bloom => blocks.set_bloom_filter(100.0, false),
            Policy::Ribbon => blocks.set_ribbon_filter(60.0),
        }
        // A few keys each.
        blocks.set_block_size(64);
        options.set_block_based_table_factory(&blocks);
        options.set_disable_auto_compactions(true);
        let has_slash = |key: &[u8]| key.contains(&b'/');
        let custom = |name: &str, of| SliceTransform::create(name, of, Some(has_slash));
        match self.extractor {
            Extractor::None => {}
            Extractor::Fixed => {
                options.set_prefix_extractor(SliceTransform::create_fixed_prefix(3));
            }
            // The binding has no function for it.
            Extractor::Capped => {
                let capped = "prefix_extractor=rocksdb.CappedPrefix.3";
                options = options_by_text(&options, capped).unwrap();
            }
            Extractor::Custom => options.set_prefix_extractor(custom("until a slash", until)),
            Extractor::NotIdempotent => {
                options.set_prefix_extractor(custom("before a slash", before));
            }
            Extractor::Unnamed => {
                options.set_prefix_extractor(custom(&"u".repeat(300), until));
            }
        }
        options
    }
}

fn before(key: &[u8]) -> &[u8] {
    key.split(|&byte| byte == b'/').next().unwrap_or(key)
}

fn until(key: &[u8]) -> &[u8] {
    key.split_inclusive(|&byte| byte == b'/')
        .next()
        .unwrap_or(key)
}

/// No false positives, and no audits, which would hide a lost row.
pub(super) fn sieve() -> SieveOptions {
    SieveOptions::default()
        .adaptive_hits(false)
        .expected_keys(Items::new(20_000))
        .filter_size(FilterSize::rate(1e-8).unwrap())
        .audit(0)
}

/// Shorter than a prefix, as long, or longer; with a slash or none.
pub(super) fn key(random: &mut StdRng) -> Vec<u8> {
    let length = *[1, 2, 3, 3, 4, 4, 5, 5, 6].choose(random).unwrap();
    let mut letter = || *b"aabbccd/".choose(random).unwrap();
    (0..length).map(|_| letter()).collect()
}

pub(super) struct Twins {
    pub(super) home: TempDir,
    pub(super) setting: Setting,
    pub(super) plain: DB,
    pub(super) filtered: Filtered,
}

/// RocksDB alone, opened with a handle of the default column family.
pub(super) fn plain(options: &Options, path: &Path) -> DB {
    DB::open_cf_with_opts(options, path, [(DEFAULT, options.clone())]).unwrap()
}

impl Twins {
    pub(super) fn new(setting: Setting) -> Self {
        let home = tempfile::tempdir().unwrap();
        let [of_plain, filtered] = ["plain", "filtered"].map(|name| home.path().join(name));
        let plain = plain(&setting.options(), &of_plain);
        let filtered = open_filtered(setting, &filtered);
        Self {
            home,
            setting,
            plain,
            filtered,
        }
    }

    /// Both were written by plain RocksDB.
    pub(super) fn adopted(setting: Setting, random: &mut StdRng) -> Self {
        let home = tempfile::tempdir().unwrap();
        let paths = ["plain", "filtered"].map(|name| home.path().join(name));
        let seed = random.random();
        for path in &paths {
            let db = DB::open(&setting.options(), path).unwrap();
            let mut random = StdRng::seed_from_u64(seed);
            for _ in 0..3 {
                (0..40).for_each(|_| Write::random(&mut random).apply(&db));
                db.flush().unwrap();
            }
        }
        let plain = plain(&setting.options(), &paths[0]);
        let filtered = open_filtered(setting, &paths[1]);
        Self {
            home,
            setting,
            plain,
            filtered,
        }
    }

    /// Closes both, and opens them with this setting.
    pub(super) fn reopened(self, setting: Setting) -> Self {
        let sieve = match self.setting.policy.builds() {
            true => sieve(),
            false => setting.sieve(),
        };
        let home = self.closed();
        Self {
            plain: plain(&setting.options(), &home.path().join("plain")),
            filtered: opened(&setting.options(), &sieve, &home.path().join("filtered")),
            home,
            setting,
        }
    }

    pub(super) fn closed(self) -> TempDir {
        self.home
    }

    pub(super) fn both(&self, act: impl Fn(&DB)) {
        act(&self.plain);
        act(&self.filtered);
    }

    pub(super) fn write(&self, random: &mut StdRng) {
        let write = Write::random(random);
        self.both(|db| write.apply(db));
    }

    pub(super) fn flush(&self) {
        self.both(|db| db.flush().unwrap());
        self.settle();
    }

    pub(super) fn compact(&self) {
        self.both(|db| db.compact_range(None::<&[u8]>, None::<&[u8]>));
        self.settle();
    }

    /// An SST with a filter of RocksDB's own, whatever the databases have.
    pub(super) fn ingest(&self, random: &mut StdRng) {
        let keys: BTreeSet<_> = (0..10).map(|_| key(random)).collect();
        let setting = Setting {
            policy: Policy::Bloom,
            ..self.setting
        };
        let options = setting.options();
        for name in ["for plain", "for filtered"] {
            let path = self.home.path().join(name);
            let mut writer = SstFileWriter::create(&options);
            writer.open(&path).unwrap();
            keys.iter()
                .for_each(|key| writer.put(key, b"ingested").unwrap());
            writer.finish().unwrap();
            let files = vec![path];
            match name {
                "for plain" => self.plain.ingest_external_file(files).unwrap(),
                _ => self.filtered.ingest_external_file(files).unwrap(),
            }
        }
        self.settle();
    }

    /// Three SSTs and a memtable.
    pub(super) fn fill(&self, random: &mut StdRng) {
        for _ in 0..3 {
            (0..40).for_each(|_| self.write(random));
            self.flush();
        }
        self.ingest(random);
        (0..15).for_each(|_| self.write(random));
    }

    /// All filters are in memory then, and the SSTs of both are the same.
    pub(super) fn settle(&self) {
        assert!(
            self.filtered
                .filters()
                .wait_until_complete(model_db::PATIENCE)
        );
        assert!(
            self.filtered
                .filters()
                .wait_for_maintenance(model_db::PATIENCE)
        );
        assert_eq!(
            ssts(&self.plain),
            ssts(&self.filtered),
            "{:?}",
            self.setting
        );
    }

    pub(super) fn scan(&self, how: How) -> Scans<'_> {
        self.pair().scan(how)
    }

    pub(super) fn pair(&self) -> Pair<'_> {
        Pair {
            setting: self.setting,
            plain: &self.plain,
            filtered: &self.filtered,
        }
    }
}

/// Two databases of the same rows.
#[derive(Clone, Copy)]
pub(super) struct Pair<'db> {
    pub(super) setting: Setting,
    pub(super) plain: &'db DB,
    pub(super) filtered: &'db DB,
}

impl<'db> Pair<'db> {
    pub(super) fn scan(self, how: How) -> Scans<'db> {
        Scans {
            setting: self.setting,
            plain: Scan::new(self.plain, &how),
            filtered: Scan::new(self.filtered, &how),
            how,
            steps: Vec::new(),
        }
    }
}

fn open_filtered(setting: Setting, path: &Path) -> Filtered {
    opened(&setting.options(), &setting.sieve(), path)
}

pub(super) fn opened(options: &Options, sieve: &SieveOptions, path: &Path) -> Filtered {
    let filtered = SieveDb::builder(path)
        .options(options)
        .filters(sieve)
        .open_as()
        .unwrap();
    assert!(filtered.filters().wait_until_complete(model_db::PATIENCE));
    assert!(filtered.filters().wait_for_maintenance(model_db::PATIENCE));
    filtered
}

type Level = i32;
type Bound = Option<Vec<u8>>;
type Entries = u64;

/// The levels, ends and numbers of entries of all SSTs.
fn ssts(db: &DB) -> Vec<(Level, Bound, Bound, Entries)> {
    let files = db.live_files().unwrap().into_iter();
    let files = files.map(|file| (file.level, file.start_key, file.end_key, file.num_entries));
    let mut files: Vec<_> = files.collect();
    files.sort();
    files
}

/// One write, which is the same for both databases.
enum Write {
    Put(Vec<u8>),
    Merge(Vec<u8>),
    Delete(Vec<u8>),
    DeleteRange(Vec<u8>, Vec<u8>),
}

impl Write {
    fn random(random: &mut StdRng) -> Self {
        let key = key(random);
        match random.random_range(0..20) {
            0..14 => Self::Put(key),
            14..16 => Self::Merge(key),
            16..19 => Self::Delete(key),
            _ => {
                let end = [&key[..], b"b"].concat();
                Self::DeleteRange(key, end)
            }
        }
    }

    fn apply(&self, db: &DB) {
        match self {
            Self::Put(key) => db.put(key, b"value").unwrap(),
            Self::Merge(key) => db.merge(key, b"more").unwrap(),
            Self::Delete(key) => db.delete(key).unwrap(),
            Self::DeleteRange(start, end) => {
                let mut batch = WriteBatch::default();
                batch.delete_range(start, end);
                db.write(given(&mut batch)).unwrap();
            }
        }
    }
}

thread_local! {
    static COMPARED: Cell<u64> = const { Cell::new(0) };
}

/// The number of rows that this thread compared since it asked last.
pub(super) fn compared() -> u64 {
    COMPARED.take()
}

/// An iterator of each database with the same options and steps.
pub(super) struct Scans<'db> {
    setting: Setting,
    pub(super) how: How,
    steps: Vec<Step>,
    plain: Scan<'db>,
    filtered: Scan<'db>,
}

impl Scans<'_> {
    /// What both show; panics if they differ.
    pub(super) fn step(&mut self, step: Step) -> Shown {
        let (plain, filtered) = (self.plain.step(&step), self.filtered.step(&step));
        self.steps.push(step);
        COMPARED.set(COMPARED.get() + 1);
        if self.is_undefined() {
            return filtered;
        }
        assert_eq!(
            filtered,
            plain,
            "{:?} {:?} after {:?}",
            self.setting,
            self.how,
            &self.steps[self.steps.len().saturating_sub(20)..]
        );
        plain
    }

    /// RocksDB 10 cuts a fixed prefix from bytes behind a key that is shorter. Which rows it shows then
    /// depends on what was in memory before.
    fn is_undefined(&self) -> bool {
        let in_prefix = [Mode::SamePrefix, Mode::SamePrefixInTotalOrder].contains(&self.how.mode);
        cfg!(rocksdb_10) && in_prefix && self.setting.extractor == Extractor::Fixed
    }

    /// A seek and some steps.
    pub(super) fn walk(&mut self, random: &mut StdRng) {
        use Step::{First, Last, Next, Prev, Seek, SeekForPrev};
        // Tailing iterators go forwards.
        let directions = if self.how.is_tailing { 3 } else { 10 };
        let target = self.target(random);
        let (seek, steps): (Step, &[Step]) = match random.random_range(0..directions) {
            0 | 1 => (Seek(target), &[Next, Next, Next, Next, Next, Next]),
            2 => (First, &[Next, Next, Next]),
            3 | 4 => (SeekForPrev(target), &[Prev, Prev, Prev, Prev, Prev]),
            5 => (Last, &[Prev, Prev, Next, Next]),
            6 => (Seek(target), &[Prev, Next, Next, Prev, Prev, Next]),
            7 | 8 => (SeekForPrev(target), &[Next, Next, Prev, Prev, Next]),
            _ => (First, &[Next, Prev, Next, Next, Prev]),
        };
        self.step(seek);
        for step in steps {
            self.step(step.clone());
        }
    }

    pub(super) fn refresh(&mut self) {
        self.step(Step::Refresh);
    }

    /// Other bounds where there are some. RocksDB reads them at the next seek.
    pub(super) fn move_bounds(&mut self, random: &mut StdRng) {
        let has = [&self.how.lower, &self.how.upper].map(Option::is_some);
        self.how = How {
            is_tailing: self.how.is_tailing,
            ..with_bounds(self.how.mode, has[0], has[1], random)
        };
        let how = &self.how;
        self.step(Step::Bounds(how.lower.clone(), how.upper.clone()));
    }

    /// A key, a bound, or the key right behind all that begin with a bound.
    fn target(&self, random: &mut StdRng) -> Vec<u8> {
        let bounds = [&self.how.lower, &self.how.upper];
        let bound = bounds[random.random_range(0..2)].clone();
        let mut bound = bound.filter(|_| random.random_bool(0.5));
        if let Some(last) = bound.iter_mut().flat_map(|bound| bound.last_mut()).next()
            && random.random_bool(0.5)
        {
            *last += 1;
        }
        bound.unwrap_or_else(|| key(random))
    }
}

/// Random bounds of these kinds: wide, or those of one prefix.
pub(super) fn with_bounds(
    mode: Mode,
    has_lower: bool,
    has_upper: bool,
    random: &mut StdRng,
) -> How {
    let (mut lower, mut upper) = (key(random), key(random));
    if random.random_bool(0.5) {
        lower.truncate(3);
        upper = lower.clone();
        *upper.last_mut().unwrap() += 1;
    }
    if lower > upper {
        std::mem::swap(&mut lower, &mut upper);
    }
    How {
        lower: has_lower.then_some(lower),
        upper: has_upper.then_some(upper),
        ..How::unbounded(mode)
    }
}
