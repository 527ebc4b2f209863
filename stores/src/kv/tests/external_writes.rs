//! Keys that come to the store past the filter: restored savepoints, files that are put back, ends
//! of the process meanwhile, stores and writers that fail.

use std::io;
use std::sync::mpsc::channel;

use super::*;
use crate::disk::Fault;

const ALL: [Recovery; 3] = [Recovery::Scan, Recovery::Position, Recovery::Journal];
const WITH_RECORDS: [Recovery; 2] = [Recovery::Position, Recovery::Journal];

/// Checks what a crash now leaves, with each recovery, whatever is left of the filter's disk.
fn check_after_crash(disk: &MemoryDisk, memory: &Memory) {
    for left in disk.after_power_cut(1) {
        for recovery in WITH_RECORDS {
            // Each open changes the disk and the store.
            let left = left.after_power_cut(1).next().unwrap();
            check(&open(&left, &memory.copy(), recovery));
        }
    }
}

/// A key was answered absent: a run stored its filter, and a later one restored a savepoint with
/// the records of the first, by which that filter was trusted again. Only a record in the store said
/// that it was not. Now the stored filter is removed before external writes begin.
#[test]
fn restored_records_make_no_earlier_filter_trusted() {
    for first in WITH_RECORDS {
        for second in ALL {
            let (disk, memory, store) = reopened(first);
            write(&store, 200..203);
            let saved = memory.save();
            drop(store);
            let store = open(&disk, &memory, second);
            write(&store, 300..303);
            let announced = store.external_writes().unwrap();
            check_after_crash(&disk, &memory);
            memory.restore(saved.clone());
            check_after_crash(&disk, &memory);
            memory.put_unseen(b"unseen");
            check_after_crash(&disk, &memory);
            write(&store, 400..403);
            memory.put_unseen(b"unseen as well");
            check_after_crash(&disk, &memory);
            // Once more within the same external writes.
            memory.restore(saved.clone());
            memory.put_unseen(b"unseen after the second");
            check_after_crash(&disk, &memory);
            drop(announced);
            check_after_crash(&disk, &memory);
            write(&store, 500..503);
            check_after_crash(&disk, &memory);
            check(&store);
            drop(store);
            check_after_crash(&disk, &memory);
            // And after a filter was stored again.
            let store = open(&disk, &memory, second);
            write(&store, 600..603);
            let announced = store.external_writes().unwrap();
            memory.restore(saved);
            memory.put_unseen(b"unseen at last");
            check_after_crash(&disk, &memory);
            drop(announced);
            write(&store, 700..703);
            drop(store);
            check_after_crash(&disk, &memory);
        }
    }
}

/// A filter without the new key was bound to the name that the copy has.
#[test]
fn copy_from_within_external_writes_may_be_put_back() {
    for recovery in WITH_RECORDS {
        for fails in [false, true] {
            let (disk, memory, store) = reopened(recovery);
            let before = memory.copy();
            let announced = store.external_writes().unwrap();
            memory.restore(before.save());
            memory.put_unseen(b"unseen");
            let (disk, within) = crashed(&disk, &memory);
            drop(announced);
            // The open may fail to give it another name. Its filter is stored when it closes.
            before.0.fails_before.store(fails, Ordering::SeqCst);
            check(&open(&disk, &before, recovery));
            check(&open(&disk, &within, recovery));
        }
    }
}

#[test]
fn files_of_the_store_may_be_put_back() {
    for recovery in WITH_RECORDS {
        for between in ALL {
            let (disk, memory) = (MemoryDisk::new(), Memory::default());
            let mut kept = vec![memory.copy()];
            for round in 0..12 {
                let store = open(&disk, &memory, [recovery, between][round as usize % 2]);
                write(&store, round * 10..round * 10 + 5);
                check(&store);
                if round % 3 == 2 {
                    let announced = store.external_writes().unwrap();
                    memory.restore(kept[round as usize / 2].save());
                    memory.put_unseen(&key(5_000 + round));
                    kept.push(memory.copy());
                    drop(announced);
                }
                drop(store);
                kept.push(memory.copy());
                memory.restore(kept[(round as usize * 5) % kept.len()].save());
            }
            for memory in kept {
                check(&open(&disk, &memory, recovery));
            }
        }
    }
}

/// In another folder of filters, or a copy of this one, only the store can say so.
#[test]
fn record_of_the_store_says_durably_that_keys_come_past_the_filter() {
    for recovery in WITH_RECORDS {
        let (disk, memory, store) = reopened(recovery);
        memory.sync().unwrap();
        let folder = crashed(&disk, &memory).0;
        let after_power_cut = || {
            let left = Memory::default();
            left.restore(memory.0.synced.lock().unwrap().clone());
            // A file that was ingested is durable by itself.
            left.put_unseen(b"ingested");
            left
        };
        let announced = store.external_writes().unwrap();
        let copy = folder.after_power_cut(1).next().unwrap();
        check(&open(&copy, &after_power_cut(), recovery));
        // Commits beside them name states.
        write(&store, 200..203);
        memory.sync().unwrap();
        drop(announced);
        let left = after_power_cut();
        assert!(State::read(&left).unwrap().is_none());
        check(&open(&folder, &left, recovery));
    }
}

#[test]
fn filter_is_stored_again_after_external_writes() {
    for recovery in WITH_RECORDS {
        for fails in [false, true] {
            let (disk, memory, store) = reopened(recovery);
            check(&store);
            memory.0.fails_before.store(fails, Ordering::SeqCst);
            assert_eq!(store.external_writes().is_err(), fails);
            if !fails {
                // The state has no name before.
                write(&store, 200..201);
            }
            check(&store);
            drop(store);
            let before = memory.scans();
            check(&open(&disk, &memory, recovery));
            assert_eq!(memory.scans(), before, "{recovery:?}, {fails}");
        }
    }
}

/// They would stay for ever, once for each external write.
#[test]
fn journal_entries_from_before_external_writes_are_removed() {
    let (disk, memory) = (MemoryDisk::new(), Memory::default());
    let store = open(&disk, &memory, Recovery::Journal);
    check(&store);
    write(&store, 0..500);
    drop(store.external_writes().unwrap());
    write(&store, 500..520);
    assert!(memory.entries() <= 20, "{}", memory.entries());
    check(&store);
    check_after_crash(&disk, &memory);
}

#[test]
fn store_without_a_trusted_filter_is_read_once() {
    for recovery in WITH_RECORDS {
        let (_, memory, store) = reopened(recovery);
        drop(store);
        let (new, before) = (MemoryDisk::new(), memory.scans());
        (0..3).for_each(|_| check(&open(&new, &memory, recovery)));
        assert_eq!(memory.scans(), before + 1, "{recovery:?}");
    }
}

#[test]
fn external_writes_are_refused_if_the_stored_filter_cannot_be_removed() {
    for recovery in ALL {
        let (disk, memory, store) = reopened(recovery);
        check(&store);
        for after in 0..2 {
            disk.fail(after, Fault::Forever(io::ErrorKind::PermissionDenied));
            let refused = store.external_writes();
            assert!(matches!(refused, Err(DistrustError::Folder(_))), "{after}");
            check(&store);
        }
        let (disk, memory) = crashed(&disk, &memory);
        check(&open(&disk, &memory, recovery));
    }
}

/// Keys that came after the store was read would be denied.
#[test]
fn external_writes_whose_end_fails_deny_no_key() {
    for recovery in WITH_RECORDS {
        let (disk, memory, store) = reopened(recovery);
        let (saved, before) = (memory.save(), memory.scans());
        let announced = store.external_writes().unwrap();
        while memory.scans() == before {
            assert!(store.wait_for_maintenance(LIMIT));
        }
        memory.restore(saved);
        memory.put_unseen(b"unseen");
        memory.0.fails_before.store(true, Ordering::SeqCst);
        drop(announced);
        assert!(store.wait_for_maintenance(LIMIT));
        assert!(!store.answer(b"unseen").is_absent());
        drop(store);
        check_after_crash(&disk, &memory);
    }
}

/// The process ended: the store's `commit` panicked, and was called again on the way out.
#[test]
fn store_that_panics_as_external_writes_begin_or_end_does_not_end_the_process() {
    for recovery in WITH_RECORDS {
        let (disk, memory, store) = reopened(recovery);
        let panics = || memory.0.panics.store(true, Ordering::SeqCst);
        let begin = || {
            panics();
            store.external_writes().map(drop)
        };
        assert!(catch_unwind(AssertUnwindSafe(begin)).is_err());
        write(&store, 200..203);
        check_after_crash(&disk, &memory);
        let end = || {
            let _announced = store.external_writes().unwrap();
            memory.put_unseen(b"unseen");
            panics();
            panic!("for a test");
        };
        assert!(catch_unwind(AssertUnwindSafe(end)).is_err());
        assert!(!store.answer(b"unseen").is_absent());
        check_after_crash(&disk, &memory);
    }
}

/// A key was answered absent: its writer committed it without the records of its write, and then
/// panicked past what makes the next open read all keys.
#[test]
fn writer_that_panics_after_keys_without_records_leaves_no_filter_trusted() {
    for recovery in WITH_RECORDS {
        for asks_first in [false, true] {
            let (disk, memory, store) = reopened(recovery);
            let panics = || {
                store.write(|write| -> Result<(), Failed> {
                    if asks_first {
                        write.records();
                    }
                    write.insert(b"unseen");
                    store.store().commit(vec![b"unseen".to_vec()], &[])?;
                    panic!("for a test");
                })
            };
            assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
            check_after_crash(&disk, &memory);
            write(&store, 200..203);
            check_after_crash(&disk, &memory);
            check(&store);
            drop(store);
            check_after_crash(&disk, &memory);
        }
    }
}

#[test]
fn filter_that_is_being_stored_as_external_writes_begin_is_not_published() {
    for recovery in WITH_RECORDS {
        let (disk, memory, gate) = (MemoryDisk::new(), Memory::default(), Gate::default());
        let watched = Watched {
            disk: disk.clone(),
            gate: Arc::clone(&gate),
            files: Arc::default(),
        };
        let store = open_on(Arc::new(watched), &memory, recovery);
        write(&store, 0..100);
        check(&store);
        let saved = memory.save();
        let ((reached, is_reached), (go_on, waits)) = (channel(), channel());
        *gate.lock().unwrap() = Some((reached, waits));
        thread::scope(|scope| {
            let consolidation = scope.spawn(|| store.consolidate());
            is_reached.recv().unwrap();
            let announced = store.external_writes().unwrap();
            go_on.send(()).unwrap();
            _ = consolidation.join().unwrap();
            memory.restore(saved);
            memory.put_unseen(b"unseen");
            check_after_crash(&disk, &memory);
            drop(announced);
        });
        check(&store);
        drop(store);
        check_after_crash(&disk, &memory);
    }
}
