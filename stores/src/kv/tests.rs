//! What a stored filter may be trusted for, after closes, crashes and lost commits.

use std::collections::{BTreeMap, HashSet};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

mod external_writes;

use super::recovery::{Commits, State};
use super::*;
use crate::disk::{Disk, MemoryDisk, NewFile, Opened};
use crate::math::Items;
use lsm_sieve_front::filter_options::FilterOptions;

const LIMIT: Duration = Duration::from_secs(30);

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// A store in memory. What was committed is there at once.
#[derive(Clone, Default)]
pub(super) struct Memory(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Keys, and records.
    state: Mutex<(Map, Map)>,
    scans: AtomicU64,
    /// The next commit is done, and fails.
    fails_after: AtomicBool,
    /// The next commit is not done, and fails.
    fails_before: AtomicBool,
    /// The next commit is not done, and panics.
    panics: AtomicBool,
    /// No record can be read.
    fails_records: AtomicBool,
    /// What is left after a power cut.
    synced: Mutex<(Map, Map)>,
}

#[derive(Debug, thiserror::Error)]
#[error("it fails, for a test")]
pub(super) struct Failed;

impl Memory {
    /// A store of its own in the same state.
    fn copy(&self) -> Self {
        let copy = Self::default();
        *copy.0.state.lock().unwrap() = self.0.state.lock().unwrap().clone();
        copy
    }

    fn scans(&self) -> u64 {
        self.0.scans.load(Ordering::SeqCst)
    }

    pub(super) fn entries(&self) -> usize {
        let state = self.0.state.lock().unwrap();
        state.1.keys().filter(|key| key[0] == b'j').count()
    }

    fn put_unseen(&self, key: &[u8]) {
        let mut state = self.0.state.lock().unwrap();
        state.0.insert(key.to_vec(), Vec::new());
    }

    /// As a savepoint.
    fn save(&self) -> (Map, Map) {
        self.0.state.lock().unwrap().clone()
    }

    fn restore(&self, saved: (Map, Map)) {
        *self.0.state.lock().unwrap() = saved;
    }
}

impl Store for Memory {
    type Batch = Vec<Vec<u8>>;
    type Value = Vec<u8>;
    type Error = Failed;

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
        Ok(self.0.state.lock().unwrap().0.get(key).cloned())
    }

    fn keys_of(&self, batch: &Vec<Vec<u8>>, each: &mut dyn FnMut(&[u8])) {
        batch.iter().for_each(|key| each(key));
    }

    fn commit(&self, batch: Vec<Vec<u8>>, records: &[Record]) -> Result<(), Failed> {
        if self.0.fails_before.swap(false, Ordering::SeqCst) {
            return Err(Failed);
        }
        assert!(
            !self.0.panics.swap(false, Ordering::SeqCst),
            "it panics, for a test"
        );
        let mut state = self.0.state.lock().unwrap();
        state
            .0
            .extend(batch.into_iter().map(|key| (key, Vec::new())));
        for record in records.iter().cloned() {
            match record {
                Record::Put { key, value } => _ = state.1.insert(key, value),
                Record::Delete { key } => _ = state.1.remove(&key),
            }
        }
        match self.0.fails_after.swap(false, Ordering::SeqCst) {
            true => Err(Failed),
            false => Ok(()),
        }
    }

    fn sync(&self) -> Result<(), Failed> {
        *self.0.synced.lock().unwrap() = self.save();
        Ok(())
    }

    fn scan(&self, each: &mut dyn FnMut(&[u8]) -> bool) -> Result<(), Failed> {
        self.0.scans.fetch_add(1, Ordering::SeqCst);
        let keys: Vec<_> = self.0.state.lock().unwrap().0.keys().cloned().collect();
        keys.iter().all(|key| each(key));
        Ok(())
    }

    fn record(&self, key: &[u8]) -> Result<Option<Vec<u8>>, Failed> {
        if self.0.fails_records.load(Ordering::SeqCst) {
            return Err(Failed);
        }
        Ok(self.0.state.lock().unwrap().1.get(key).cloned())
    }
}

fn key(number: u32) -> Vec<u8> {
    number.to_be_bytes().to_vec()
}

/// A disk that counts the files that are created. Once it is told to, it says that one is to be
/// created and waits.
#[derive(Clone, Debug)]
struct Watched {
    disk: MemoryDisk,
    gate: Gate,
    files: Arc<AtomicU64>,
}

type Gate = Arc<Mutex<Option<(Sender<()>, Receiver<()>)>>>;

impl Disk for Watched {
    fn open(&self, path: &Path) -> io::Result<Opened> {
        self.disk.open(path)
    }

    fn create_new(&self, path: &Path) -> io::Result<Box<dyn NewFile>> {
        self.files.fetch_add(1, Ordering::SeqCst);
        let gate = self.gate.lock().unwrap().take();
        if let Some((reached, go_on)) = gate {
            reached.send(()).unwrap();
            go_on.recv().unwrap();
        }
        self.disk.create_new(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn list(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.disk.list(folder)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.create_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        self.disk.sync_folder(path)
    }
}

fn open(disk: &MemoryDisk, store: &Memory, recovery: Recovery) -> FilteredStore<Memory> {
    open_on(Arc::new(disk.clone()), store, recovery)
}

fn open_on(disk: Arc<dyn Disk>, store: &Memory, recovery: Recovery) -> FilteredStore<Memory> {
    let (folder, options) = (Path::new("/filter"), FilterOptions::default());
    let opened = FilteredStore::open_on(disk, store.clone(), folder, &options, recovery, None);
    opened.unwrap()
}

fn write(store: &FilteredStore<Memory>, numbers: std::ops::Range<u32>) {
    numbers.for_each(|number| store.commit(vec![key(number)]).unwrap());
}

/// Checks that no key of the store is denied, and that nearly all others are.
fn check(store: &FilteredStore<Memory>) {
    assert!(store.wait_until_complete(LIMIT));
    let keys = store.store().0.state.lock().unwrap().0.clone();
    for key in keys.keys() {
        assert!(!store.answer(key).is_absent(), "{key:?}");
        assert!(store.get(key).unwrap().is_some());
    }
    let absent = (1 << 30..(1 << 30) + 2_000_u32).map(key);
    let denied = absent.filter(|key| store.answer(key).is_absent());
    assert!(denied.count() > 1_950);
}

/// What a crash leaves: the filters' disk after a power cut, and the store as it is.
fn crashed(disk: &MemoryDisk, store: &Memory) -> (MemoryDisk, Memory) {
    let left = disk.after_power_cut(1).next().unwrap();
    (left, store.copy())
}

/// A store of 100 keys that was closed, so that its filter is stored, and opened again.
fn reopened(recovery: Recovery) -> (MemoryDisk, Memory, FilteredStore<Memory>) {
    let (disk, memory) = (MemoryDisk::new(), Memory::default());
    let store = open(&disk, &memory, recovery);
    write(&store, 0..100);
    // What is not complete is not stored.
    check(&store);
    drop(store);
    let store = open(&disk, &memory, recovery);
    (disk, memory, store)
}

#[test]
fn closed_store_is_trusted_without_a_scan() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (disk, memory) = (MemoryDisk::new(), Memory::default());
        let store = open(&disk, &memory, recovery);
        write(&store, 0..500);
        check(&store);
        drop(store);
        let before = memory.scans();
        let store = open(&disk, &memory, recovery);
        check(&store);
        assert_eq!(memory.scans(), before, "{recovery:?}");
    }
}

#[test]
fn store_without_records_is_read_at_each_open() {
    let (disk, memory) = (MemoryDisk::new(), Memory::default());
    for scans in 1..4 {
        let store = open(&disk, &memory, Recovery::Scan);
        write(&store, 0..500);
        check(&store);
        assert_eq!(memory.scans(), scans);
    }
}

#[test]
fn journal_completes_the_filter_after_a_crash() {
    let (disk, memory, store) = reopened(Recovery::Journal);
    write(&store, 500..800);
    let (disk, memory) = crashed(&disk, &memory);
    let again = open(&disk, &memory, Recovery::Journal);
    check(&again);
    assert_eq!(memory.scans(), 0);
}

#[test]
fn position_of_a_crashed_store_is_another() {
    let (disk, memory, store) = reopened(Recovery::Position);
    write(&store, 500..800);
    let (disk, memory) = crashed(&disk, &memory);
    let again = open(&disk, &memory, Recovery::Position);
    check(&again);
    assert_eq!(memory.scans(), 1);
}

/// After a crash the store lacks commits that the stored filter has, and then makes as many others.
#[test]
fn filter_of_lost_commits_is_not_taken_for_that_of_others() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (disk, memory) = (MemoryDisk::new(), Memory::default());
        let store = open(&disk, &memory, recovery);
        write(&store, 0..100);
        check(&store);
        let lost = memory.copy();
        write(&store, 100..110);
        drop(store);
        // Ten commits again, of other keys and without a filter that knows of them.
        let without = open(&MemoryDisk::new(), &lost, recovery);
        write(&without, 900..910);
        let (_, lost) = crashed(&MemoryDisk::new(), &lost);
        drop(without);
        check(&open(&disk, &lost, recovery));
    }
}

#[test]
fn journal_with_a_gap_is_not_used() {
    let (disk, memory) = (MemoryDisk::new(), Memory::default());
    drop(open(&disk, &memory, Recovery::Journal));
    let store = open(&disk, &memory, Recovery::Journal);
    write(&store, 0..100);
    assert!(store.consolidate().is_ok());
    write(&store, 100..200);
    let (disk, memory) = crashed(&disk, &memory);
    {
        let mut state = memory.0.state.lock().unwrap();
        let entries: Vec<_> = state
            .1
            .keys()
            .filter(|key| key[0] == b'j')
            .cloned()
            .collect();
        state.1.remove(&entries[entries.len() - 50]);
    }
    check(&open(&disk, &memory, Recovery::Journal));
    assert!(memory.scans() > 0);
}

/// The folder of the filter was restored from an older copy than the store.
#[test]
fn older_filter_is_not_completed_by_a_journal_that_begins_later() {
    let (disk, memory) = (MemoryDisk::new(), Memory::default());
    let store = open(&disk, &memory, Recovery::Journal);
    write(&store, 0..100);
    drop(store);
    let (old, _) = crashed(&disk, &memory);
    for round in 1..4 {
        let store = open(&disk, &memory, Recovery::Journal);
        write(&store, round * 100..round * 100 + 100);
        drop(store);
    }
    // The base moves with the first commit after a save.
    let store = open(&disk, &memory, Recovery::Journal);
    write(&store, 400..500);
    let (_, memory) = crashed(&disk, &memory);
    check(&open(&old, &memory, Recovery::Journal));
}

#[test]
fn journal_is_cut_when_the_filter_is_stored() {
    let (disk, memory) = (MemoryDisk::new(), Memory::default());
    let store = open(&disk, &memory, Recovery::Journal);
    check(&store);
    write(&store, 0..70_000);
    assert!(store.wait_for_maintenance(LIMIT));
    assert!(store.wait_for_maintenance(LIMIT));
    write(&store, 0..2_000);
    assert!(memory.entries() < 10_000, "{}", memory.entries());
    let (disk, memory) = crashed(&disk, &memory);
    check(&open(&disk, &memory, Recovery::Journal));
    assert_eq!(memory.scans(), 0);
}

/// Each time, the whole filter is written.
#[test]
fn filter_is_stored_again_only_when_the_journal_is_long_again() {
    let memory = Memory::default();
    let watched = Watched {
        disk: MemoryDisk::new(),
        gate: Gate::default(),
        files: Arc::default(),
    };
    let files = Arc::clone(&watched.files);
    let store = open_on(Arc::new(watched), &memory, Recovery::Journal);
    check(&store);
    write(&store, 0..70_000);
    // At its right size, which pauses of the writer do not change.
    store.consolidate().unwrap();
    let before = files.load(Ordering::SeqCst);
    for number in 100_000..100_010 {
        write(&store, number..number + 1);
        assert!(store.wait_for_maintenance(LIMIT));
    }
    assert_eq!(files.load(Ordering::SeqCst), before);
    write(&store, 200_000..270_000);
    assert!(store.wait_for_maintenance(LIMIT));
    assert!(files.load(Ordering::SeqCst) > before);
}

/// They would stay for ever.
#[test]
fn entries_of_an_earlier_run_are_removed_when_its_filter_was_stored() {
    let (disk, memory) = (MemoryDisk::new(), Memory::default());
    let store = open(&disk, &memory, Recovery::Journal);
    check(&store);
    write(&store, 0..500);
    drop(store);
    let before = memory.scans();
    for run in 0..3 {
        let store = open(&disk, &memory, Recovery::Journal);
        write(&store, 1_000 + run * 20..1_020 + run * 20);
        check(&store);
        assert!(memory.entries() <= 20, "{}", memory.entries());
    }
    assert_eq!(memory.scans(), before);
}

/// The first may have been committed, so the second name no state; the next open reads all keys.
#[test]
fn records_that_are_asked_for_twice_lose_no_key() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (disk, memory, store) = reopened(recovery);
        let committed = store.write(|write| {
            write.insert(b"first");
            write.records();
            write.insert(b"second");
            let keys = vec![b"first".to_vec(), b"second".to_vec()];
            store.store().commit(keys, &write.records())
        });
        committed.unwrap();
        let (left, copy) = crashed(&disk, &memory);
        check(&open(&left, &copy, recovery));
        write(&store, 200..203);
        let (left, copy) = crashed(&disk, &memory);
        check(&open(&left, &copy, recovery));
    }
}

/// The store does not say how many keys it has, but the filter knows after one scan.
#[test]
fn rebuilt_filter_has_room_for_the_keys_of_the_one_before() {
    let memory = Memory::default();
    memory.0.state.lock().unwrap().0 = (0..600_000)
        .map(|number| (key(number), Vec::new()))
        .collect();
    let store = open(&MemoryDisk::new(), &memory, Recovery::Scan);
    assert!(store.wait_until_complete(LIMIT));
    store.consolidate().unwrap();
    assert_eq!(store.health().cfs[0].stages, 1);
}

#[test]
fn commit_that_fails_may_have_been_done_or_not() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (disk, memory, store) = reopened(recovery);
        for round in 0..20 {
            let flag = [&memory.0.fails_after, &memory.0.fails_before][round as usize % 2];
            flag.store(true, Ordering::SeqCst);
            assert!(store.commit(vec![key(1_000 + round)]).is_err());
            write(&store, 2_000 + round..2_001 + round);
        }
        let (disk, memory) = crashed(&disk, &memory);
        check(&open(&disk, &memory, recovery));
    }
}

/// Its number would be given again, and its entry be replaced.
#[test]
fn commit_in_doubt_stays_in_doubt_while_records_cannot_be_read() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (disk, memory, store) = reopened(recovery);
        memory.0.fails_after.store(true, Ordering::SeqCst);
        assert!(store.commit(vec![key(1_000)]).is_err());
        memory.0.fails_records.store(true, Ordering::SeqCst);
        write(&store, 2_000..2_003);
        memory.0.fails_records.store(false, Ordering::SeqCst);
        let (left, copy) = crashed(&disk, &memory);
        check(&open(&left, &copy, recovery));
        write(&store, 3_000..3_003);
        let (left, copy) = crashed(&disk, &memory);
        check(&open(&left, &copy, recovery));
    }
}

#[test]
fn store_whose_first_commit_fails_has_a_position_later() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (disk, memory) = (MemoryDisk::new(), Memory::default());
        let store = open(&disk, &memory, recovery);
        memory.0.fails_before.store(true, Ordering::SeqCst);
        assert!(store.commit(vec![key(0)]).is_err());
        write(&store, 1..100);
        check(&store);
        drop(store);
        let before = memory.scans();
        check(&open(&disk, &memory, recovery));
        assert_eq!(memory.scans(), before);
    }
}

/// Commits without records would leave the store in a state that a stored filter was saved for.
#[test]
fn records_of_an_earlier_run_are_removed_before_commits_without_any() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (disk, memory) = (MemoryDisk::new(), Memory::default());
        let store = open(&disk, &memory, recovery);
        write(&store, 0..100);
        check(&store);
        drop(store);
        write(&open(&disk, &memory, Recovery::Scan), 100..200);
        check(&open(&disk, &memory, recovery));
    }
}

/// Two folders of filters have different seeds, and one lacks the commits of the other's time.
#[test]
fn folders_that_take_turns_lose_no_key() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (one, other, memory) = (MemoryDisk::new(), MemoryDisk::new(), Memory::default());
        for round in 0..6 {
            let disk = if round % 2 == 0 { &one } else { &other };
            let store = open(disk, &memory, recovery);
            check(&store);
            write(&store, round * 10..round * 10 + 5);
        }
    }
}

/// The other folder's hashes say nothing to the filter that its journal begins after.
#[test]
fn journal_of_another_folder_completes_no_filter() {
    // Maintenance may store the other filter first, and then the journal begins after that.
    for _ in 0..10 {
        let (disk, memory, store) = reopened(Recovery::Journal);
        write(&store, 200..203);
        let (disk, memory) = crashed(&disk, &memory);
        let other = open(&MemoryDisk::new(), &memory, Recovery::Journal);
        write(&other, 300..303);
        check(&open(&disk, &memory.copy(), Recovery::Journal));
    }
}

/// Entries of an earlier journal must not fill the gap that commits without entries leave.
#[test]
fn recoveries_that_take_turns_lose_no_key() {
    let turns = [
        [
            Recovery::Journal,
            Recovery::Scan,
            Recovery::Journal,
            Recovery::Position,
        ],
        [
            Recovery::Journal,
            Recovery::Position,
            Recovery::Journal,
            Recovery::Scan,
        ],
    ];
    for turns in turns {
        for crashes in [false, true] {
            let (mut disk, mut memory) = (MemoryDisk::new(), Memory::default());
            let mut keys = 0..;
            for recovery in turns.into_iter().cycle().take(12) {
                let store = open(&disk, &memory, recovery);
                check(&store);
                for _ in 0..7 {
                    store.commit(vec![key(keys.next().unwrap())]).unwrap();
                }
                if crashes {
                    (disk, memory) = crashed(&disk, &memory);
                }
            }
            check(&open(&disk, &memory, Recovery::Journal));
        }
    }
}

#[test]
fn commit_whose_writer_panics_is_in_doubt() {
    let (disk, memory, store) = reopened(Recovery::Journal);
    check(&store);
    let panics = || {
        store.write(|write| -> Result<(), Failed> {
            write.insert(b"kept");
            store
                .store()
                .commit(vec![b"kept".to_vec()], &write.records())?;
            panic!("for a test");
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    write(&store, 100..101);
    let (disk, memory) = crashed(&disk, &memory);
    check(&open(&disk, &memory, Recovery::Journal));
}

/// As a savepoint or a backup does.
#[test]
fn records_that_external_writes_bring_back_are_not_trusted() {
    for recovery in [Recovery::Position, Recovery::Journal] {
        let (disk, memory, store) = reopened(recovery);
        check(&store);
        let saved = memory.0.state.lock().unwrap().clone();
        let announced = store.external_writes().unwrap();
        *memory.0.state.lock().unwrap() = saved;
        memory.put_unseen(b"unseen");
        drop(announced);
        let (disk, memory) = crashed(&disk, &memory);
        check(&open(&disk, &memory, recovery));
    }
}

/// A filter of a state from before external writes is stored late.
#[test]
fn base_is_no_state_from_before_external_writes() {
    let memory = Memory::default();
    let opened = Commits::open(&memory, Recovery::Journal, &HashSet::new()).unwrap();
    let mut commits = opened.commits;
    memory.commit(Vec::new(), &commits.next(&[])).unwrap();
    // Its outcome is unknown, and its state was listed.
    let state = State::read(&memory).unwrap().unwrap().id();
    memory.commit(Vec::new(), &commits.invalidate()).unwrap();
    commits.filter_stored(state);
    commits.resume(&memory);
    memory.commit(Vec::new(), &commits.next(&[])).unwrap();
    let covered = HashSet::from([state]);
    let opened = Commits::open(&memory, Recovery::Journal, &covered).unwrap();
    assert!(opened.trusted.is_none());
}

#[test]
fn keys_after_the_records_are_refused() {
    let store = open(&MemoryDisk::new(), &Memory::default(), Recovery::Journal);
    let late = || {
        store.write(|write| {
            let records = write.records();
            write.insert(b"late");
            store.store().commit(vec![b"late".to_vec()], &records)
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(late)).is_err());
}

#[test]
fn external_writes_are_read_even_after_a_crash() {
    for recovery in [Recovery::Scan, Recovery::Position, Recovery::Journal] {
        let (disk, memory, store) = reopened(recovery);
        check(&store);
        let announced = store.external_writes().unwrap();
        assert!(!store.answer(&key(1 << 29)).is_absent());
        memory.put_unseen(b"unseen");
        // A write of the usual way beside them names a state.
        write(&store, 500..501);
        memory.put_unseen(b"unseen as well");
        let left = crashed(&disk, &memory);
        drop(announced);
        check(&store);
        drop(store);
        check(&open(&disk, &memory, recovery));
        check(&open(&left.0, &left.1, recovery));
    }
}

#[test]
fn keys_without_their_records_are_refused_and_read_again() {
    let (disk, memory, store) = reopened(Recovery::Position);
    let without_records = || {
        store.write(|write| {
            write.insert(b"new");
            store.store().commit(vec![b"new".to_vec()], &[])
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(without_records)).is_err());
    let (disk, memory) = crashed(&disk, &memory);
    check(&open(&disk, &memory, Recovery::Position));
}

/// At a second pause too: more was written since the first.
#[test]
fn filter_that_outgrew_its_size_is_rebuilt_when_the_writers_pause() {
    let options = FilterOptions::default().expected_keys(Items::new(50));
    for recovery in [Recovery::Scan, Recovery::Position, Recovery::Journal] {
        let (disk, memory) = (Arc::new(MemoryDisk::new()), Memory::default());
        let folder = Path::new("/filter");
        let store = FilteredStore::open_on(disk, memory, folder, &options, recovery, None);
        let store = store.unwrap();
        let stages = || store.health().cfs[0].stages;
        assert!(store.wait_until_complete(LIMIT));
        for numbers in [0..1_000, 1_000..10_000] {
            write(&store, numbers);
            assert!(stages() > 2);
            let began = Instant::now();
            while stages() > 2 {
                assert!(began.elapsed() < LIMIT, "{} stages", stages());
                thread::sleep(Duration::from_millis(10));
            }
        }
        check(&store);
    }
}

#[test]
fn writers_and_rebuilds_lose_no_key() {
    for recovery in [Recovery::Scan, Recovery::Position, Recovery::Journal] {
        let (disk, memory) = (MemoryDisk::new(), Memory::default());
        let store = open(&disk, &memory, recovery);
        thread::scope(|scope| {
            for writer in 0..3_u32 {
                let store = &store;
                scope.spawn(move || {
                    for number in writer * 10_000..writer * 10_000 + 3_000 {
                        write(store, number..number + 1);
                        assert!(store.get(&key(number)).unwrap().is_some());
                    }
                });
            }
            (0..20).for_each(|_| _ = store.consolidate());
        });
        check(&store);
        let (disk, memory) = crashed(&disk, &memory);
        check(&open(&disk, &memory, recovery));
    }
}
