//! What the adapter promises, over a disk whose power fails between any two operations of redb and
//! whose reads fail: a commit and its records are all or nothing, a sync makes them durable, and a
//! scan that could not read on is an error.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use lsm_sieve_redb::RedbTable;
use lsm_sieve_stores::kv::{Batch, Record, Store};
use redb::{Database, StorageBackend};

/// A disk in memory that keeps all that was done to it.
#[derive(Clone, Debug, Default)]
struct Disk(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    bytes: Mutex<Vec<u8>>,
    done: Mutex<Vec<Done>>,
    reads: AtomicU64,
    /// The number of the read that fails.
    failing: AtomicU64,
}

#[derive(Clone, Debug)]
enum Done {
    Write(u64, Vec<u8>),
    Length(u64),
    Sync,
}

impl Done {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Self::Write(offset, new) => {
                let (start, end) = (*offset as usize, *offset as usize + new.len());
                bytes.resize(bytes.len().max(end), 0);
                bytes[start..end].copy_from_slice(new);
            }
            Self::Length(length) => bytes.resize(*length as usize, 0),
            Self::Sync => {}
        }
    }
}

impl Disk {
    fn holding(bytes: Vec<u8>) -> Self {
        let disk = Self::default();
        *disk.0.bytes.lock().unwrap() = bytes;
        disk.0.failing.store(u64::MAX, Ordering::SeqCst);
        disk
    }

    fn change(&self, done: Done) {
        done.apply(&mut self.0.bytes.lock().unwrap());
        self.0.done.lock().unwrap().push(done);
    }

    fn done(&self) -> usize {
        self.0.done.lock().unwrap().len()
    }

    /// What a power cut after this many operations leaves: without what was not synced, or with it.
    fn after(&self, operations: usize) -> [Self; 2] {
        let done = self.0.done.lock().unwrap();
        let done = &done[..operations];
        let synced = done.iter().rposition(|done| matches!(done, Done::Sync));
        [synced.unwrap_or(0), operations].map(|until| {
            let mut bytes = Vec::new();
            done[..until].iter().for_each(|done| done.apply(&mut bytes));
            Self::holding(bytes)
        })
    }

    fn table(&self) -> RedbTable {
        let mut builder = Database::builder();
        builder.set_cache_size(0);
        let db = builder.create_with_backend(self.clone()).unwrap();
        RedbTable::new(Arc::new(db), "table")
    }
}

impl StorageBackend for Disk {
    fn len(&self) -> Result<u64, io::Error> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> Result<(), io::Error> {
        let number = self.0.reads.fetch_add(1, Ordering::SeqCst);
        if number == self.0.failing.load(Ordering::SeqCst) {
            return Err(io::Error::other("it fails, for a test"));
        }
        let start = offset as usize;
        out.copy_from_slice(&self.0.bytes.lock().unwrap()[start..start + out.len()]);
        Ok(())
    }

    fn set_len(&self, len: u64) -> Result<(), io::Error> {
        self.change(Done::Length(len));
        Ok(())
    }

    fn sync_data(&self) -> Result<(), io::Error> {
        self.change(Done::Sync);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> Result<(), io::Error> {
        self.change(Done::Write(offset, data.to_vec()));
        Ok(())
    }
}

/// The commit of this number: a key and a record.
fn commit(table: &RedbTable, number: u8) {
    let batch = Batch::default().insert([b'k', number], [0; 200]);
    let record = Record::Put {
        key: b"position".to_vec(),
        value: vec![number],
    };
    table.commit(batch, &[record]).unwrap();
}

/// The number of the last commit, by its key and by its record.
fn last(table: &RedbTable) -> (Option<u8>, Option<u8>) {
    let mut last = None;
    let mut each = |key: &[u8]| {
        last = Some(key[1]);
        true
    };
    table.scan(&mut each).unwrap();
    let record = table.record(b"position").unwrap();
    (last, record.map(|record| record[0]))
}

#[test]
fn commit_and_its_records_are_all_or_nothing_wherever_the_power_fails() {
    let disk = Disk::holding(Vec::new());
    let table = disk.table();
    // Operations that were done when each commit was synced.
    let ends: Vec<usize> = (0..6)
        .map(|number| {
            commit(&table, number);
            table.sync().unwrap();
            disk.done()
        })
        .collect();
    drop(table);
    for operations in ends[0]..=disk.done() {
        let durable = ends.iter().rposition(|&end| end <= operations).unwrap() as u8;
        for left in disk.after(operations) {
            let (key, record) = last(&left.table());
            assert_eq!(key, record, "after {operations} operations");
            assert!(key.is_some_and(|key| key >= durable), "{key:?}, {durable}");
        }
    }
}

#[test]
fn scan_whose_reads_fail_is_an_error() {
    let disk = Disk::holding(Vec::new());
    let table = disk.table();
    (0..200).for_each(|number| commit(&table, number));
    drop(table);
    let bytes = disk.0.bytes.lock().unwrap().clone();
    let mut failed = 0;
    for after in 0.. {
        let disk = Disk::holding(bytes.clone());
        let table = disk.table();
        let failing = disk.0.reads.load(Ordering::SeqCst) + after;
        disk.0.failing.store(failing, Ordering::SeqCst);
        let mut keys = 0;
        let scanned = table.scan(&mut |_| {
            keys += 1;
            true
        });
        match scanned {
            Ok(()) => assert_eq!(keys, 200, "after {after} reads"),
            Err(_) => failed += 1,
        }
        if disk.0.reads.load(Ordering::SeqCst) <= failing {
            break;
        }
    }
    assert!(failed > 10, "only {failed} scans failed");
}

/// The filter has room for as many. The records are no keys.
#[test]
fn length_is_the_number_of_keys() {
    let table = Disk::holding(Vec::new()).table();
    assert_eq!(table.approximate_len(), 0);
    (0..50).for_each(|number| commit(&table, number));
    assert_eq!(table.approximate_len(), 50);
    let removed = Batch::default().remove([b'k', 7]);
    table.commit(removed, &[]).unwrap();
    assert_eq!(table.approximate_len(), 49);
}
