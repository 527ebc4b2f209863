//! A summary filter that grows beside writers, and the log of keys that it is rebuilt from.
//!
//! Maintenance runs on the thread of the test, right after writes, and so takes the writers for
//! busy.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{RngExt as _, SeedableRng as _};

use super::memory_lsm::{Scan, Store, Stored};
use crate::audit::Distrust as _;
use crate::cf_filter::prefix_lookup;
use crate::filter::Scalable;
use crate::hash::KeyHash;
use crate::math::Items;
use crate::options::FrontOptions;
use crate::prefix::{Prefix, Prefixes};

const LIMIT: Duration = Duration::from_secs(60);

/// Quiet databases keep logs of this many hashes.
const LOGGED_AGAIN: u64 = 1 << 20;

/// A summary filter of more stages is rebuilt, whatever it takes.
const STAGES: usize = 6;

fn key(number: u32) -> [u8; 4] {
    number.to_be_bytes()
}

fn expecting(keys: u64) -> FrontOptions {
    FrontOptions {
        expected_keys: Some(Items::new(keys)),
        ..FrontOptions::default()
    }
}

/// A store, and the keys that were written to it.
struct Grown {
    store: Store,
    keys: BTreeSet<u32>,
    next: u32,
}

impl Grown {
    /// A new store whose log began with it.
    fn new(expected: u64) -> Self {
        Self::with(&expecting(expected))
    }

    /// A new store whose log began with it, with these settings.
    fn with(options: &FrontOptions) -> Self {
        let grown = Self::open(Stored::new(), options);
        assert!(grown.has_log(), "from the start");
        grown
    }

    fn open(stored: Stored, options: &FrontOptions) -> Self {
        let store = Store::open_without_thread(stored, options);
        store.look();
        Self {
            store,
            keys: BTreeSet::new(),
            next: 0,
        }
    }

    /// The same store after a restart: it has SSTs, and no log.
    fn reopened(self, expected: u64) -> Self {
        let reopened = Self {
            keys: self.keys,
            next: self.next,
            ..Self::open(self.store.close(), &expecting(expected))
        };
        assert!(!reopened.has_log(), "there are SSTs");
        reopened
    }

    fn has_log(&self) -> bool {
        self.store.cf_filter().key_log().is_whole()
    }

    fn summary(&self) -> Arc<Scalable> {
        self.store.cf_filter().view().summary
    }

    fn write(&mut self, count: u32) {
        for number in self.next..self.next + count {
            self.store.put(&key(number), b"value");
            self.keys.insert(number);
        }
        self.next += count;
    }

    fn ingested(&mut self, count: u32) -> Vec<(Vec<u8>, Vec<u8>)> {
        let numbers = self.next..self.next + count;
        self.keys.extend(numbers.clone());
        self.next += count;
        numbers
            .map(|number| (key(number).to_vec(), b"ingested".to_vec()))
            .collect()
    }

    /// A run that also tries again what failed.
    fn look(&self) {
        self.store.filters.wakeup.request(|requests| {
            requests.list = true;
            requests.retry = true;
        });
        self.store.turn();
    }

    /// Writes until the summary filter is rebuilt because it has grown.
    fn write_until_rebuilt(&mut self) {
        let before = self.summary();
        while Arc::ptr_eq(&before, &self.summary()) {
            assert!(self.next < 1 << 20, "it never happens");
            self.write(200);
            self.look();
        }
    }

    /// Writes until it is rebuilt from a log.
    fn write_until_rebuilt_from_log(&mut self) {
        assert!(self.has_log());
        let scans = self.store.scans();
        self.write_until_rebuilt();
        assert_eq!(self.store.scans(), scans, "no SST is read");
        assert!(self.has_log());
    }

    #[track_caller]
    fn check(&self) {
        let denied =
            |&&number: &&u32| self.store.rules_out(&key(number)) && self.store.has(&key(number));
        let denied: Vec<&u32> = self.keys.iter().filter(denied).collect();
        assert!(denied.is_empty(), "{} keys: {denied:?}", denied.len());
    }
}

/// Few, so that stages are soon many.
const FEW: u64 = 50;

/// From this many keys on, a second stage is enough for a rebuild from the log.
const ONE_STAGE: u64 = 1 << 16;

#[test]
fn summary_is_rebuilt_from_the_log_without_reading_an_sst() {
    for expected in [FEW, ONE_STAGE] {
        let mut grown = Grown::new(expected);
        for _ in 0..4 {
            grown.write_until_rebuilt_from_log();
            grown.check();
            grown.store.flush();
        }
        assert!(u64::from(grown.next) > expected);
        let absent = 1 << 24..(1 << 24) + 1_000_u32;
        let denied = absent.filter(|&number| grown.store.rules_out(&key(number)));
        assert!(denied.count() > 900);
    }
}

/// Once written, a prefix is only in the log, in memtables, and in segments that are not read.
#[test]
fn prefixes_of_all_keys_are_in_a_summary_that_is_rebuilt_from_the_log() {
    let prefixes = Prefixes::new([Prefix::fixed(3)]).unwrap();
    let mut grown = Grown::with(&FrontOptions {
        prefixes: Arc::new(prefixes),
        ..expecting(ONE_STAGE)
    });
    let before = grown.summary();
    while Arc::ptr_eq(&before, &grown.summary()) {
        assert!(grown.next < 1 << 20, "it never happens");
        grown.write(1_000);
        if grown.next.is_multiple_of(16_000) {
            grown.store.flush();
        }
        grown.look();
    }
    assert!(grown.has_log());
    assert_eq!(grown.store.scans(), 0, "no segment is read");
    let cf_filter = grown.store.cf_filter();
    let in_summary = |prefix: &[u8]| {
        let hash = cf_filter.hasher().hash(prefix).for_summary();
        cf_filter.view().summary.may_contain(hash)
    };
    for number in (0..grown.next).step_by(1 << 8) {
        let prefix = &key(number)[..3];
        assert!(in_summary(prefix), "{prefix:?}");
        assert!(prefix_lookup::may_exist(&**cf_filter, prefix), "{prefix:?}");
    }
    let beyond = (grown.next >> 8) + 1;
    let absent = |number: &u32| !in_summary(&key(number << 8)[..3]);
    assert!((beyond..beyond + 1_000).filter(absent).count() > 900);
}

/// Its keys are read in the memtable.
#[test]
fn summary_that_grows_causes_no_flush() {
    let mut grown = Grown::new(ONE_STAGE);
    for _ in 0..8 {
        grown.write(ONE_STAGE as u32 / 2);
        grown.look();
    }
    assert!(grown.store.segments().is_empty());
    assert!(grown.summary().stages() <= STAGES);
    grown.check();
}

/// Each rebuild reads all keys. Without the room, there were 39 of them instead of 5.
#[test]
fn rebuilds_are_as_few_as_their_room_allows() {
    let mut grown = Grown::new(ONE_STAGE);
    let (mut rebuilds, mut summary) = (0, grown.summary());
    while grown.keys.len() < 4 << 16 {
        grown.write(1_000);
        if grown.next.is_multiple_of(16_000) {
            grown.store.flush();
        }
        grown.look();
        if !Arc::ptr_eq(&summary, &grown.summary()) {
            summary = grown.summary();
            rebuilds += 1;
        }
    }
    // By a quarter each: 4 < 1.25 ^ 7.
    assert!((4..=7).contains(&rebuilds), "{rebuilds}");
    assert_eq!(grown.store.scans(), 0);
    grown.check();
}

/// Each stage costs a miss one cache line.
#[test]
fn summary_of_many_stages_is_rebuilt_beside_writers() {
    let mut grown = Grown::new(FEW);
    let before = grown.summary();
    while Arc::ptr_eq(&before, &grown.summary()) {
        assert!(before.stages() <= STAGES + 1);
        grown.write(20);
        grown.look();
    }
    grown.check();
}

/// Its keys went by while there was no log, and its SST is listed when the log is whole.
#[test]
fn log_that_begins_beside_a_flush_has_its_keys() {
    let mut grown = Grown::new(FEW);
    grown.write(100);
    let mut grown = grown.reopened(FEW);
    let before = grown.summary();
    while before.stages() <= STAGES {
        grown.write(20);
    }
    grown.store.begin_flush();
    grown.look();
    assert!(grown.has_log() && !Arc::ptr_eq(&before, &grown.summary()));
    grown.store.end_flush();
    grown.write_until_rebuilt_from_log();
    grown.check();
}

#[test]
fn log_goes_on_after_a_compaction() {
    let mut grown = Grown::new(FEW);
    for _ in 0..3 {
        grown.write(100);
        grown.store.flush();
    }
    grown.store.compact();
    assert!(grown.has_log(), "it brings no key");
    grown.write_until_rebuilt_from_log();
    grown.check();
}

/// RocksDB without `whole_key_filtering` makes such SSTs: their keys are not in the log.
#[test]
fn sst_of_unknown_origin_ends_the_log() {
    let mut grown = Grown::new(FEW);
    grown.write(100);
    grown.store.flush_as_unknown();
    assert!(!grown.has_log());
    grown.write_until_rebuilt();
    grown.check();
    grown.write_until_rebuilt_from_log();
    grown.check();
}

/// A read that panicked left the log that was being filled, and the next rebuild took it for whole:
/// its summary filter denied the keys of all SSTs that had not been read. Now nothing is read from a
/// log before it is whole.
#[test]
fn rebuild_that_fails_leaves_no_log() {
    let failures = [0, 1, 300].map(|keys| [Scan::FailsAfter(keys), Scan::PanicsAfter(keys)]);
    for failure in failures.into_iter().flatten() {
        let mut grown = Grown::new(FEW);
        for _ in 0..4 {
            grown.write(300);
            grown.store.flush();
        }
        let mut grown = grown.reopened(FEW);
        let before = grown.summary();
        let scans = grown.store.scans();
        while grown.store.scans() == scans {
            grown.write(200);
            grown.store.set_next_scans([Scan::Whole, failure]);
            grown.look();
        }
        assert!(Arc::ptr_eq(&before, &grown.summary()), "{failure:?}");
        assert!(!grown.has_log(), "{failure:?}: it lacks keys");
        grown.check();
        grown.store.set_next_scans([]);
        for _ in 0..3 {
            grown.write_until_rebuilt();
            grown.check();
        }
        assert!(grown.has_log(), "{failure:?}");
    }
}

/// A rebuild that panicked left it. It would take the hashes of each flush, and never be read.
#[test]
fn log_that_is_not_whole_ends_in_the_next_run() {
    let mut grown = Grown::new(FEW);
    grown.write(40);
    grown.store.flush();
    let log = grown.store.cf_filter().key_log();
    assert!(log.begin(std::path::Path::new("/tmp")));
    grown.store.put(&key(0), b"value");
    grown.look();
    assert_eq!(grown.store.cf_filter().key_log().hashes(), None);
}

/// The keys of its SST are in no log, and the SST is not listed yet.
#[test]
fn no_log_begins_beside_a_flush() {
    let mut grown = Grown::new(FEW);
    grown.write(100);
    drop(grown.store.cf_filter().begin_external_writes());
    grown.store.begin_flush();
    grown.look();
    grown.store.end_flush();
    assert!(!grown.has_log());
    grown.write_until_rebuilt();
    grown.check();
}

/// Its flush may be under way: past the log, and not yet in the list of segments.
#[test]
fn no_log_begins_beside_a_memtable_with_keys() {
    let mut grown = Grown::new(FEW);
    grown.store.cf_filter().key_log().end();
    grown.look();
    assert!(grown.has_log(), "an empty store");
    grown.store.cf_filter().key_log().end();
    grown.write(1);
    grown.look();
    assert!(!grown.has_log());
}

#[test]
fn store_with_segments_has_no_log_until_they_are_read() {
    // All stages together hold fewer keys than a log may have when the writer pauses.
    const FEW_KEYS: u64 = 1 << 12;
    let mut grown = Grown::new(FEW_KEYS);
    grown.write(1_000);
    let mut grown = grown.reopened(FEW_KEYS);
    assert!(grown.store.is_complete());
    // Not by the next rebuild if it is one of writers that are taken for quiet.
    while !grown.has_log() {
        assert!(grown.next < 1 << 20, "it never happens");
        grown.write(1_000);
        grown.look();
    }
    grown.write_until_rebuilt();
    grown.write_until_rebuilt();
    grown.check();
}

/// The next summary filter must have the ingested keys too.
#[test]
fn ingested_segment_ends_the_log() {
    let mut grown = Grown::new(FEW);
    let entries = grown.ingested(100);
    grown.store.ingest(&entries);
    assert!(!grown.has_log());
    grown.look();
    assert!(grown.store.is_complete());
    grown.write_until_rebuilt();
    grown.check();
}

/// Keys that are written again and again would fill the disk.
#[test]
fn log_of_the_same_keys_ends_beside_writers() {
    let mut grown = Grown::new(ONE_STAGE);
    grown.write(100);
    grown.store.flush();
    let hash = grown.store.cf_filter().hasher().hash(b"key");
    let again = (0..2 * LOGGED_AGAIN).map(|_| hash);
    grown.store.cf_filter().key_log().append(again);
    (0..100).for_each(|number| grown.store.put(&key(number), b"again"));
    grown.store.flush();
    grown.look();
    assert!(!grown.has_log());
}

/// The listing that is published with a filter must not be younger than its keys.
#[test]
fn sst_that_comes_after_the_log_was_read_is_read_itself() {
    let mut grown = Grown::new(FEW);
    grown.write(200);
    grown.store.flush();
    let more = grown.ingested(100);
    grown.store.ingest_after_next_replay(more);
    grown.write_until_rebuilt();
    assert!(grown.store.is_complete());
    assert_eq!(grown.store.scans(), 1, "the one that was ingested");
    assert!(!grown.has_log());
    grown.check();
}

#[test]
fn damaged_log_is_not_used() {
    let mut grown = Grown::new(FEW);
    grown.write(1_000);
    grown.store.flush();
    grown.store.cf_filter().key_log().damage(100);
    // If this thread is taken for a writer that pauses, the log is not read.
    while grown.has_log() {
        grown.write_until_rebuilt();
    }
    assert!(grown.store.scans() > 0);
    grown.check();
}

/// It has no keys for another rebuild, and would stay until the close.
#[test]
fn large_log_ends_when_the_writers_are_quiet() {
    let mut grown = Grown::new(ONE_STAGE);
    grown.write(2_000);
    grown.store.flush();
    let log = grown.store.cf_filter().key_log();
    let again = (0..LOGGED_AGAIN).map(|_| KeyHash::new(1));
    log.append(again);
    grown.store.put(b"busy", b"value");
    grown.look();
    assert!(grown.has_log(), "its writers are busy");
    let began = Instant::now();
    while grown.store.cf_filter().key_log().hashes().is_some() {
        assert!(began.elapsed() < LIMIT, "it is kept");
        thread::sleep(Duration::from_millis(20));
        grown.store.turn();
    }
    grown.check();
}

/// No rebuild read it any more, and each flush appended to it until the close.
#[test]
fn disabled_filters_have_no_log() {
    let mut grown = Grown::new(FEW);
    grown.write(100);
    grown.store.cf_filter().disable();
    grown.store.flush();
    grown.look();
    assert_eq!(grown.store.cf_filter().key_log().hashes(), None);
}

/// What the histories came by: a suite in which no log is used would pass.
#[derive(Debug, Default)]
struct Seen {
    from_log: u32,
    from_ssts: u32,
    failed: u32,
    ended: u32,
}

/// `most` keys are written at once.
fn step(grown: &mut Grown, most: u32, random: &mut SmallRng) {
    match random.random_range(0..100) {
        0..50 => grown.write(random.random_range(1..most)),
        50..55 => {
            // Keys that the filters have already, and tombstones.
            for _ in 0..50 {
                let number = random.random_range(0..=grown.next);
                match random.random_bool(0.5) {
                    true => {
                        grown.store.put(&key(number), b"again");
                        grown.keys.insert(number);
                    }
                    false => {
                        grown.store.delete(&key(number));
                        grown.keys.remove(&number);
                    }
                }
            }
        }
        55..65 => grown.store.flush(),
        65..69 => grown.store.compact(),
        69..70 => grown.store.flush_as_unknown(),
        70..72 => {
            grown.store.flush();
            let more = grown.ingested(random.random_range(1..100));
            grown.store.ingest(&more);
        }
        72..76 => {
            let more = grown.ingested(random.random_range(1..100));
            grown.store.ingest_after_next_replay(more);
        }
        76..78 => {
            let log = grown.store.cf_filter().key_log();
            let length = log.hashes().unwrap_or_default();
            if length > 0 && random.random_bool(0.5) {
                log.damage(random.random_range(0..8 * length));
            }
        }
        78..86 => {
            let scans = (0..4).map(|_| match random.random_range(0..6) {
                0 => Scan::FailsAfter(random.random_range(0..200)),
                1 => Scan::PanicsAfter(random.random_range(0..200)),
                2 => Scan::FindsItReplaced,
                _ => Scan::Whole,
            });
            let scans: Vec<Scan> = scans.collect();
            grown.store.set_next_scans(scans);
        }
        86..88 => _ = grown.store.consolidate(),
        88..92 if grown.store.has_memtable() => {
            grown.store.begin_flush();
            grown.look();
            grown.store.end_flush();
        }
        _ => {}
    }
}

fn history(seed: u64, expected: u64, seen: &mut Seen) {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut grown = Grown::new(expected);
    grown.write(expected as u32);
    let most = 400.max(expected as u32 / 8);
    for _ in 0..60 {
        let (had_log, before) = (grown.has_log(), grown.summary());
        step(&mut grown, most, &mut random);
        let scans = grown.store.scans();
        grown.look();
        let is_rebuilt = !Arc::ptr_eq(&before, &grown.summary());
        seen.ended += u32::from(had_log && !grown.has_log());
        match grown.store.scans() == scans {
            true => seen.from_log += u32::from(is_rebuilt),
            false if is_rebuilt => seen.from_ssts += 1,
            false => seen.failed += 1,
        }
        if is_rebuilt {
            grown.check();
        }
    }
    grown.check();
    grown.store.set_next_scans([]);
    if grown.has_log() {
        grown.write_until_rebuilt();
        grown.check();
    }
}

/// Rebuilds from the log and from SSTs, beside flushes, compactions, SSTs of unknown origin,
/// ingestions, reads that fail or panic, and damage.
#[test]
fn random_histories_of_a_log_lose_no_key() {
    let mut seen = Seen::default();
    for seed in 0..30 {
        history(seed, FEW, &mut seen);
        history(seed, ONE_STAGE, &mut seen);
    }
    let each = [seen.from_log, seen.from_ssts, seen.failed, seen.ended];
    assert!(each.iter().all(|&times| times >= 20), "{seen:?}");
}

/// A log that began meanwhile would lack the keys of the external writes.
#[test]
fn log_that_begins_within_external_writes_is_not_whole() {
    let mut grown = Grown::new(FEW);
    let entries = grown.ingested(100);
    let announced = grown.store.cf_filter().begin_external_writes();
    grown.look();
    assert!(!grown.has_log());
    grown.store.ingest(&entries);
    drop(announced);
    grown.write_until_rebuilt();
    grown.check();
}
