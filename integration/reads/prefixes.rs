//! Prefixes: the filters, iterators and exact questions agree with a model, whatever happened to the
//! keys before.
//!
//! `LSM_SIEVE_PREFIX_OPERATIONS` sets how many operations the random test checks.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeMap;
use std::path::Path;

use lsm_sieve::{FilterSize, Prefix, SieveDb, SieveOptions};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use rocksdb::{
    DBRawIteratorWithThreadMode, MultiThreaded, PrefixRange, ReadOptions, SliceTransform,
    WriteBatch,
};

use crate::support::binding::options_by_text;
use crate::support::environment::number_from;
use crate::support::model_db::{cover, ingest, options, settle, sieve};

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;
type RawIterator<'db> = DBRawIteratorWithThreadMode<'db, rocksdb::DBWithThreadMode<MultiThreaded>>;

/// The keys are `<two letters>/<three letters><number>`: some have no delimiter, some are short.
fn key(random: &mut StdRng) -> Vec<u8> {
    let letter = |random: &mut StdRng| b'a' + random.random_range(0..5_u8);
    let mut key: Vec<u8> = (0..2).map(|_| letter(random)).collect();
    key.push(if random.random_ratio(9, 10) {
        b'/'
    } else {
        0xff
    });
    key.extend((0..3).map(|_| letter(random)));
    key.extend(format!("{}", random.random_range(0..4)).bytes());
    if random.random_ratio(1, 20) {
        key.truncate(random.random_range(0..key.len()));
    }
    key
}

fn functions() -> [Prefix; 4] {
    let third = |key: &[u8]| {
        (key.get(2) == Some(&b'/'))
            .then_some(4)
            .filter(|&n| n <= key.len())
    };
    [
        Prefix::until(b'/'),
        Prefix::fixed(5),
        Prefix::capped(6),
        Prefix::custom("letter behind the slash", 1, third).unwrap(),
    ]
}

fn has_prefix(keys: &Keys, start: &[u8]) -> bool {
    let mut from = keys.range(start.to_vec()..);
    from.next().is_some_and(|(key, _)| key.starts_with(start))
}

fn end_of(prefix: &[u8]) -> Option<Vec<u8>> {
    let at = prefix.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut end = prefix[..=at].to_vec();
    end[at] += 1;
    Some(end)
}

/// How an iterator is limited.
#[derive(Clone, Debug)]
enum Limit {
    SamePrefix,
    Upper(Vec<u8>),
    Lower(Vec<u8>),
    Both(Vec<u8>, Vec<u8>),
}

impl Limit {
    fn random(random: &mut StdRng) -> Self {
        let (one, other) = (key(random), key(random));
        match random.random_range(0..6) {
            0 | 1 => Self::SamePrefix,
            2 => Self::Upper(one),
            3 => match end_of(&one[..one.len().min(3)]) {
                Some(end) => Self::Upper(end),
                None => Self::SamePrefix,
            },
            4 => Self::Lower(one[..one.len().min(5)].to_vec()),
            _ if one <= other => Self::Both(one, other),
            _ => {
                let start = &one[..one.len().min(3)];
                end_of(start).map_or(Self::SamePrefix, |end| Self::Both(start.to_vec(), end))
            }
        }
    }

    fn options(&self) -> ReadOptions {
        let mut options = ReadOptions::default();
        match self {
            Self::SamePrefix => options.set_prefix_same_as_start(true),
            Self::Upper(end) => options.set_iterate_upper_bound(end.clone()),
            Self::Lower(first) => options.set_iterate_lower_bound(first.clone()),
            Self::Both(first, end) => {
                options.set_iterate_lower_bound(first.clone());
                options.set_iterate_upper_bound(end.clone());
            }
        }
        if !matches!(self, Self::SamePrefix) {
            options.set_total_order_seek(true);
        }
        options
    }

    /// Whether an iterator shows this key after a seek of `target`. `extractor` is RocksDB's.
    fn shows(&self, key: &[u8], target: &[u8], extractor: Option<&Prefix>) -> bool {
        match self {
            Self::SamePrefix => match extractor.and_then(|own| Some((own, own.of(target)?))) {
                Some((own, prefix)) => own.of(key) == Some(prefix),
                None => true,
            },
            Self::Upper(end) => key < &end[..],
            Self::Lower(first) => key >= &first[..],
            Self::Both(first, end) => key >= &first[..] && key < &end[..],
        }
    }
}

/// An iterator that was opened when the database had these keys.
struct Held<'db> {
    iterator: RawIterator<'db>,
    limit: Limit,
    keys: Keys,
}

impl Held<'_> {
    fn check(&mut self, target: &[u8], extractor: Option<&Prefix>) {
        // What prefix mode shows of other prefixes is not defined.
        let is_defined = !matches!(self.limit, Limit::SamePrefix)
            || extractor.is_none_or(|own| own.of(target).is_some());
        if !is_defined {
            return;
        }
        let shown = |key: &&Vec<u8>| self.limit.shows(key, target, extractor);
        self.iterator.seek(target);
        let expected = self.keys.range(target.to_vec()..).map(|(key, _)| key);
        let expected = expected.take_while(shown).next();
        let in_bounds = self
            .keys
            .keys()
            .filter(shown)
            .find(|key| &key[..] >= target);
        let expected = match self.limit {
            Limit::SamePrefix => expected,
            _ => in_bounds,
        };
        self.is_at(expected, target);
        self.iterator.seek_for_prev(target);
        // RocksDB 10 may show a key that its extractor has no prefix for.
        let is_outside = |key| extractor.is_some_and(|own| own.of(key).is_none());
        if cfg!(rocksdb_10) && self.iterator.key().is_some_and(is_outside) {
            return;
        }
        let mut before = self
            .keys
            .range(..=target.to_vec())
            .rev()
            .map(|(key, _)| key);
        let expected = match self.limit {
            Limit::SamePrefix => before.take_while(shown).next(),
            _ => before.find(shown),
        };
        self.is_at(expected, target);
    }

    fn is_at(&self, expected: Option<&Vec<u8>>, target: &[u8]) {
        self.iterator.status().unwrap();
        assert_eq!(
            self.iterator.key(),
            expected.map(Vec::as_slice),
            "{:?} {target:?}",
            self.limit
        );
    }
}

struct World {
    keys: Keys,
    random: StdRng,
    extractor: Option<Prefix>,
    /// Answers of the filters, and those that were right to say *absent*.
    absent: u64,
    operations: u64,
}

impl World {
    fn write(&mut self, db: &SieveDb) {
        let key = key(&mut self.random);
        match self.random.random_range(0..10) {
            0..=5 => {
                db.put(&key, b"value").unwrap();
                self.keys.insert(key, b"value".to_vec());
            }
            6 => {
                db.merge(&key, b"more").unwrap();
                self.keys.entry(key).or_default().extend(b"more");
            }
            7 | 8 => {
                // Mostly keys that exist.
                let next = self
                    .keys
                    .range(key.clone()..)
                    .next()
                    .map(|(key, _)| key.clone());
                let key = next.unwrap_or(key);
                db.delete(&key).unwrap();
                self.keys.remove(&key);
            }
            _ => {
                let start = key[..key.len().min(4)].to_vec();
                let Some(end) = end_of(&start) else { return };
                let mut batch = WriteBatch::default();
                batch.delete_range(&start, &end);
                db.write(batch).unwrap();
                self.keys.retain(|key, _| !key.starts_with(&start));
            }
        }
    }

    fn rearrange(&mut self, db: &SieveDb, home: &Path) {
        match self.random.random_range(0..7) {
            0..=2 => db.flush().unwrap(),
            3 => db.compact_range(None::<&[u8]>, None::<&[u8]>),
            4 => db.filters().consolidate().unwrap(),
            5 => settle(db),
            _ => {
                let new = (0..5).map(|_| key(&mut self.random)).collect();
                ingest(db, &home.join("ingested.sst"), &new, b"ingested");
                let new = new.into_iter().map(|key| (key, b"ingested".to_vec()));
                self.keys.extend(new);
            }
        }
    }

    fn start(&mut self) -> Vec<u8> {
        let mut start = key(&mut self.random);
        start.truncate(self.random.random_range(0..=start.len()));
        start
    }

    fn ask(&mut self, db: &SieveDb) {
        let start = self.start();
        let exists = has_prefix(&self.keys, &start);
        let may_exist = db.filters().prefix_may_exist(&start);
        assert!(may_exist || !exists, "{start:?} is denied");
        self.absent += u64::from(!may_exist);
        self.operations += 1;
    }

    fn ask_exactly(&mut self, db: &SieveDb) {
        let starts: Vec<_> = (0..self.random.random_range(1..100))
            .map(|_| self.start())
            .collect();
        let exist = starts.iter().map(|start| has_prefix(&self.keys, start));
        let exist: Vec<bool> = exist.collect();
        let may_exist = db.filters().prefixes_may_exist(&starts);
        let answers = db.prefixes_exist(&starts);
        for (at, start) in starts.iter().enumerate() {
            assert!(may_exist[at] || !exist[at], "{start:?} is denied");
            assert_eq!(answers[at].as_ref().unwrap(), &exist[at], "{start:?}");
            assert_eq!(db.prefix_exists(start).unwrap(), exist[at], "{start:?}");
        }
        self.operations += starts.len() as u64;
    }

    /// Operations on an open database; iterators are held meanwhile.
    fn live(&mut self, db: &SieveDb, home: &Path, operations: u64) {
        let mut held: Vec<Held<'_>> = Vec::new();
        let until = self.operations + operations;
        while self.operations < until {
            match self.random.random_range(0..5_000) {
                0..=1 => self.rearrange(db, home),
                2..=300 => self.write(db),
                301..=310 => {
                    let limit = Limit::random(&mut self.random);
                    let iterator = db.raw_iterator_opt(limit.options());
                    if held.len() >= 8 {
                        held.swap_remove(self.random.random_range(0..8));
                    }
                    let keys = self.keys.clone();
                    held.push(Held {
                        iterator,
                        limit,
                        keys,
                    });
                }
                311..=1_000 if !held.is_empty() => {
                    let at = self.random.random_range(0..held.len());
                    let target = self.start();
                    held[at].check(&target, self.extractor.as_ref());
                    self.operations += 1;
                }
                1_001..=1_020 => self.ask_exactly(db),
                _ => self.ask(db),
            }
        }
    }
}

fn open(home: &Path, extractor: Option<usize>, sieve: &SieveOptions) -> SieveDb {
    let mut options = options();
    if let Some(length) = extractor {
        options.set_prefix_extractor(SliceTransform::create_fixed_prefix(length));
    }
    SieveDb::open(&options, sieve, home.join("db")).unwrap()
}

#[test]
fn random_prefix_operations_match_their_model() {
    let operations = number_from("LSM_SIEVE_PREFIX_OPERATIONS").unwrap_or(200_000);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("LSM_SIEVE_SEED={seed}");
    let home = tempfile::tempdir().unwrap();
    let mut world = World {
        keys: Keys::new(),
        random: StdRng::seed_from_u64(seed),
        extractor: None,
        absent: 0,
        operations: 0,
    };
    let rounds = 12;
    for _ in 0..rounds {
        // Each open with other functions: what is stored has others.
        let mut functions = functions().to_vec();
        functions.retain(|_| world.random.random_bool(0.6));
        let length = world
            .random
            .random_bool(0.6)
            .then(|| world.random.random_range(1..6));
        world.extractor = length.map(Prefix::fixed);
        let mut settings = sieve().prefixes("default", functions);
        if world.random.random_bool(0.2) {
            settings = settings.segment_filters(None);
        }
        if world.random.random_bool(0.2) {
            settings = settings.speed_over_memory(true);
        }
        let db = open(home.path(), length, &settings);
        world.live(&db, home.path(), operations / rounds);
        assert_eq!(db.filters().stats().false_negatives, 0);
        assert!(db.filters().false_negative().is_none());
        cover(&db);
        let lost = db.filters().verify(true).unwrap().lost;
        assert!(lost.is_empty(), "{lost:?}");
    }
    println!(
        "{{\"operations\":{},\"absent\":{},\"false_negatives\":0}}",
        world.operations, world.absent
    );
    assert!(world.absent > world.operations / 20, "{}", world.absent);
}

/// Whether an iterator with these options shows a key when it seeks this one.
fn finds(db: &SieveDb, options: ReadOptions, target: &[u8]) -> bool {
    let mut iterator = db.raw_iterator_opt(options);
    iterator.seek(target);
    iterator.status().unwrap();
    iterator.valid()
}

fn same_prefix() -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_prefix_same_as_start(true);
    options
}

fn within(prefix: &[u8]) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.set_iterate_range(PrefixRange(prefix));
    options
}

/// RocksDB goes on to probe an SST for the prefixes of the extractor that it was written with.
#[test]
fn ssts_of_an_old_extractor_are_searched_for_its_prefixes() {
    const TENANTS: u32 = 500;
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), Some(7), &sieve());
    fill(&db, 0..TENANTS);
    db.flush().unwrap();
    cover(&db);
    let before = ssts(&db);
    drop(db);
    let db = open(home.path(), Some(3), &sieve());
    settle(&db);
    db.filters().consolidate().unwrap();
    assert!(db.filters().health().cfs[0].prefixes[0].in_summary);
    assert_eq!(ssts(&db), before);
    println!("with another extractor {before:?} stayed");
    drop(db);
    // RocksDB opens the SSTs again, and probes filters that lack the old prefixes.
    let db = open(home.path(), Some(3), &sieve());
    cover(&db);
    settle(&db);
    for number in 0..TENANTS {
        let prefix = tenant(number);
        assert!(finds(&db, within(&prefix), &prefix), "{number}");
        assert!(finds(&db, same_prefix(), &prefix), "{number}");
        assert!(db.get(format!("{number:06}/2")).unwrap().is_some());
        assert!(db.prefix_exists(&prefix).unwrap());
    }
}

/// With another extractor, the same prefix as the start is a shorter one.
#[test]
fn iterators_after_a_change_of_the_extractor_show_what_it_says() {
    let home = tempfile::tempdir().unwrap();
    let db = open(home.path(), Some(7), &sieve());
    fill(&db, 10..20);
    db.flush().unwrap();
    cover(&db);
    let mut before = db.raw_iterator_opt(same_prefix());
    assert!(!finds(&db, same_prefix(), b"000010.any"));
    db.set_options(&[("prefix_extractor", "fixed:5")]).unwrap();
    // 000011/0 has the same five bytes.
    assert!(finds(&db, same_prefix(), b"000010.any"));
    assert!(db.prefix_exists(b"000010/").unwrap());
    before.seek(b"000010.any");
    assert!(!before.valid());
}

#[cfg(not(rocksdb_10))] // Its binding refreshes no iterator.
#[test]
fn a_held_iterator_shows_what_was_deleted_and_consolidated_away() {
    let home = tempfile::tempdir().unwrap();
    let db = open(
        home.path(),
        Some(7),
        &sieve().prefixes("default", functions()),
    );
    fill(&db, 0..20);
    db.flush().unwrap();
    cover(&db);
    let iterators = |number| {
        [same_prefix(), within(&tenant(number))].map(|options| db.raw_iterator_opt(options))
    };
    let (mut held, mut empty) = (iterators(7), iterators(30));
    for user in 0..4 {
        db.delete(format!("{:06}/{user}", 7)).unwrap();
    }
    fill(&db, 30..31);
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    db.filters().consolidate().unwrap();
    settle(&db);
    assert!(!db.prefix_exists(tenant(7)).unwrap());
    for iterator in &mut held {
        iterator.seek(tenant(7));
        assert_eq!(iterator.key(), Some(&b"000007/0"[..]));
        iterator.seek_for_prev(b"000007/9");
        assert_eq!(iterator.key(), Some(&b"000007/3"[..]));
        iterator.refresh().unwrap();
        iterator.seek(tenant(7));
        assert!(!iterator.valid());
        iterator.status().unwrap();
    }
    for iterator in &mut empty {
        iterator.seek(tenant(30));
        assert!(!iterator.valid(), "it was opened before");
        iterator.refresh().unwrap();
        iterator.seek(tenant(30));
        assert!(iterator.valid());
    }
}

/// RocksDB refreshes no iterator of a database with a time to live: it goes on to show its moment.
/// The filters of the moment of the refusal were asked from then on, and denied what it shows.
#[cfg(not(rocksdb_10))] // Its binding refreshes no iterator.
#[test]
fn a_refused_refresh_leaves_an_iterator_at_its_moment() {
    let home = tempfile::tempdir().unwrap();
    let mut options = options();
    options.set_prefix_extractor(SliceTransform::create_fixed_prefix(7));
    let db: SieveDb = SieveDb::builder(home.path())
        .options(&options)
        .filters(&sieve())
        .ttl(std::time::Duration::from_secs(3_600))
        .open()
        .unwrap();
    fill(&db, 0..20);
    db.flush().unwrap();
    cover(&db);
    let mut held = db.raw_iterator_opt(same_prefix());
    for user in 0..4 {
        db.delete(format!("{:06}/{user}", 7)).unwrap();
    }
    fill(&db, 30..31);
    db.compact_range(None::<&[u8]>, None::<&[u8]>);
    db.filters().consolidate().unwrap();
    settle(&db);
    for _ in 0..2 {
        held.seek(tenant(7));
        assert_eq!(held.key(), Some(&b"000007/0"[..]));
        held.seek(tenant(30));
        assert!(!held.valid());
        held.refresh().unwrap_err();
    }
    assert!(!db.prefix_exists(tenant(7)).unwrap());
    // It still asks, where nothing is newer.
    let mut fresh = db.raw_iterator_opt(same_prefix());
    fresh.refresh().unwrap_err();
    let before = db.filters().stats().prefixes_absent;
    fresh.seek(tenant(7));
    assert!(!fresh.valid());
    assert_eq!(db.filters().stats().prefixes_absent, before + 1);
}

/// Nothing is rebuilt then: what is stored has the prefixes of another function.
#[test]
fn read_only_filters_answer_for_the_prefixes_that_they_have() {
    const TENANTS: u32 = 300;
    let home = tempfile::tempdir().unwrap();
    let with = |prefix: Prefix| sieve().prefixes("default", [prefix]);
    let db = open(home.path(), None, &with(Prefix::until(b'/')));
    fill(&db, 0..TENANTS);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    drop(db);
    let denied = |prefix: Prefix| {
        let db = open(home.path(), None, &with(prefix).read_only_filters(true));
        settle(&db);
        assert!((0..TENANTS).all(|number| db.filters().prefix_may_exist(tenant(number))));
        let absent = (TENANTS..2 * TENANTS).map(tenant);
        absent
            .filter(|prefix| !db.filters().prefix_may_exist(prefix))
            .count()
    };
    assert!(denied(Prefix::until(b'/')) > 280);
    assert_eq!(denied(Prefix::fixed(6)), 0);
    let changed = Prefix::custom("until", 2, |key| key.iter().position(|&byte| byte == b'/'));
    assert_eq!(denied(changed.unwrap()), 0);
}

/// The engine is not entered for them.
#[test]
fn iterators_within_an_absent_prefix_are_answered_by_the_filters() {
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve().audit(0).prefixes("default", [Prefix::until(b'/')]);
    let db = open(home.path(), Some(7), &sieve);
    fill(&db, 0..50);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    let before = db.filters().stats().prefixes_absent;
    for prefix in (100..200).map(tenant) {
        assert!(!finds(&db, same_prefix(), &prefix));
        assert!(!finds(&db, within(&prefix), &prefix));
        assert!(db.prefix_iterator(&prefix).next().is_none());
    }
    let answered = db.filters().stats().prefixes_absent - before;
    assert!((280..=300).contains(&answered), "{answered} of 300");
    for prefix in (0..50).map(tenant) {
        assert_eq!(db.prefix_iterator(&prefix).count(), 4);
    }
}

/// Where nearly every seek finds something, the question is wasted time; until one finds nothing.
#[test]
fn an_iterator_that_found_much_asks_again_after_a_seek_that_found_nothing() {
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve().audit(0).adaptive_hits(true);
    let db = open(home.path(), Some(7), &sieve);
    fill(&db, 0..100);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    let mut iterator = db.raw_iterator_opt(same_prefix());
    let mut answered = |tenants: std::ops::Range<u32>, is_there: bool| {
        let before = db.filters().stats().prefixes_absent;
        for prefix in tenants.map(tenant) {
            iterator.seek(&prefix);
            assert_eq!(iterator.valid(), is_there);
        }
        db.filters().stats().prefixes_absent - before
    };
    for from in [1_000, 2_000] {
        assert_eq!(answered(0..100, true), 0);
        assert_eq!(answered(from..from + 1, false), 0, "it does not ask");
        let answered = answered(from + 1..from + 101, false);
        assert!((90..=100).contains(&answered), "{answered} of 100");
    }
}

/// Each negative is audited then: the engine has none of them.
#[test]
fn audits_of_prefixes_find_no_false_negative() {
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve().audit(1).prefixes("default", functions());
    let db = open(home.path(), Some(2), &sieve);
    fill(&db, 0..50);
    db.flush().unwrap();
    cover(&db);
    settle(&db);
    let starts: Vec<_> = (0..300).map(tenant).collect();
    let maybe = db.filters().prefixes_may_exist(&starts);
    let denied = maybe.iter().filter(|&&maybe| !maybe).count();
    let one_by_one = starts
        .iter()
        .filter(|start| !db.filters().prefix_may_exist(start));
    assert_eq!(one_by_one.count(), denied);
    assert!(denied > 240, "{denied}");
    assert_eq!(db.filters().stats().audited, 2 * denied as u64);
    assert_eq!(
        (
            db.filters().stats().false_negatives,
            db.filters().false_negative()
        ),
        (0, None)
    );
}

/// In another column family, which is created later, and in the reverse order.
#[test]
fn prefixes_of_a_reversed_family_are_found() {
    let home = tempfile::tempdir().unwrap();
    let sieve = sieve().prefixes("reversed", functions());
    let db = open(home.path(), None, &sieve);
    let reversed = "comparator=rocksdb.ReverseBytewiseComparator";
    let reversed = options_by_text(&options(), reversed).unwrap();
    db.create_cf("reversed", &reversed).unwrap();
    let cf = db.cf_handle("reversed").unwrap();
    for number in (0..100).step_by(2) {
        db.put_cf(&cf, format!("{number:06}/1"), "value").unwrap();
        if number == 50 {
            db.flush_cf(&cf).unwrap();
        }
    }
    cover(&db);
    let starts: Vec<_> = (0..100).map(tenant).collect();
    let exist: Vec<bool> = (0..100).map(|number| number % 2 == 0).collect();
    let answers = db.prefixes_exist_cf(&cf, &starts);
    let maybe = db.filters().prefixes_may_exist_cf(&cf, &starts);
    for (at, start) in starts.iter().enumerate() {
        assert_eq!(answers[at].as_ref().unwrap(), &exist[at]);
        assert_eq!(db.prefix_exists_cf(&cf, start).unwrap(), exist[at]);
        assert!(maybe[at] || !exist[at]);
        assert_eq!(db.filters().prefix_may_exist_cf(&cf, start), maybe[at]);
        // Downwards, from behind the last key with the prefix to before the first.
        let mut bounded = ReadOptions::default();
        bounded.set_iterate_upper_bound(format!("{at:06}.").into_bytes());
        let mut iterator = db.raw_iterator_cf_opt(&cf, bounded);
        iterator.seek(format!("{at:06}/9"));
        assert_eq!(iterator.valid(), exist[at], "{at}");
    }
    let denied = maybe.iter().filter(|&&maybe| !maybe).count();
    assert!(denied > 40, "{denied}");
    assert!(
        db.filters().prefix_may_exist(b"anything/"),
        "no function of this column family"
    );
}

fn fill(db: &SieveDb, tenants: std::ops::Range<u32>) {
    for tenant in tenants {
        for user in 0..4 {
            db.put(format!("{tenant:06}/{user}"), "value").unwrap();
        }
    }
}

fn tenant(number: u32) -> Vec<u8> {
    format!("{number:06}/").into_bytes()
}

/// The names of the SSTs, which RocksDB gives once.
fn ssts(db: &SieveDb) -> Vec<String> {
    let mut names: Vec<_> = db
        .live_files()
        .unwrap()
        .into_iter()
        .map(|file| file.name)
        .collect();
    names.sort();
    names
}

#[test]
fn another_function_or_rate_on_a_filled_database_rewrites_no_sst() {
    const TENANTS: u32 = 3_000;
    let home = tempfile::tempdir().unwrap();
    let settings = |prefixes: Vec<Prefix>| sieve().prefixes("default", prefixes);
    let db = open(home.path(), None, &settings(vec![]));
    (0..3).for_each(|part| {
        fill(&db, part * TENANTS / 3..(part + 1) * TENANTS / 3);
        db.flush().unwrap();
    });
    cover(&db);
    assert!(
        db.filters().prefix_may_exist(tenant(TENANTS + 1)),
        "no function was given"
    );
    let before = ssts(&db);
    drop(db);
    let denied = |db: &SieveDb| {
        let absent = (TENANTS..2 * TENANTS).filter(|&n| !db.filters().prefix_may_exist(tenant(n)));
        assert!((0..TENANTS).all(|n| db.filters().prefix_may_exist(tenant(n))));
        absent.count() as f64 / f64::from(TENANTS)
    };
    for prefix in [Prefix::until(b'/'), Prefix::fixed(7), Prefix::capped(5)] {
        let db = open(home.path(), None, &settings(vec![prefix.clone()]));
        assert!((0..TENANTS).all(|n| db.filters().prefix_may_exist(tenant(n))));
        settle(&db);
        settle(&db);
        let health = &db.filters().health().cfs[0];
        assert_eq!(health.prefixes.len(), 1);
        assert!(
            health.prefixes[0].in_summary && health.prefixes[0].in_segments,
            "{prefix:?}"
        );
        assert!(denied(&db) > 0.98, "{prefix:?}");
        assert_eq!(ssts(&db), before, "{prefix:?}");
        db.filters().set_filter_size(FilterSize::rate(0.2).unwrap());
        db.filters().consolidate().unwrap();
        assert!((0..TENANTS).all(|n| db.filters().prefix_may_exist(tenant(n))));
        assert_eq!(ssts(&db), before);
        println!("with {prefix:?} and another rate {before:?} stayed");
        // Stored, so that the next open with the same function reads nothing.
        drop(db);
        let db = open(home.path(), None, &settings(vec![prefix.clone()]));
        assert!((0..TENANTS).all(|n| db.filters().prefix_may_exist(tenant(n))));
        cover(&db);
        assert!(db.filters().health().cfs[0].prefixes[0].in_summary);
    }
}
