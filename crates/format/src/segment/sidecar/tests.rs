//! What the folder stores, refuses, and leaves as it is.

use super::*;
use crate::disk::{Fault, MemoryDisk, RealDisk};
use crate::filter::{Kind, Shape};
use crate::format::{self, Source, StageRecord, Subject};
use crate::hash::{HashId, KeyHash, KeyHasher, Seed};
use crate::math::{Bits, Items, Probes, Rate};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const STORE: StoreId = StoreId::from_bytes([1; 16]);
const ONE: SegmentId = SegmentId::from_bytes([0xa1; 16]);
const TWO: SegmentId = SegmentId::from_bytes([0xb2; 16]);
const FIRST: SidecarName = SidecarName::Segment(ONE);
const SECOND: SidecarName = SidecarName::Segment(TWO);
const SUMMARY: SidecarName = SidecarName::Summary(7);

fn imprint(seed: u8) -> Imprint {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([seed; 16])).imprint()
}

fn folder_of(disk: &MemoryDisk, store: StoreId, seed: u8) -> SidecarFolder {
    folder_with(disk, store, imprint(seed))
}

/// As opened by a release whose hash gives another value for one of the fixed keys.
fn folder_after_drift(disk: &MemoryDisk) -> SidecarFolder {
    let known_answer = imprint(1).known_answer ^ 1;
    let drifted = Imprint {
        known_answer,
        ..imprint(1)
    };
    folder_with(disk, STORE, drifted)
}

fn folder_with(disk: &MemoryDisk, store: StoreId, imprint: Imprint) -> SidecarFolder {
    let disk = Arc::new(disk.clone());
    let folder = SidecarFolder::new(disk, "/sieve".into(), store, imprint);
    folder.prepare().unwrap();
    folder
}

fn folder(disk: &MemoryDisk) -> SidecarFolder {
    folder_of(disk, STORE, 1)
}

fn with_stages<S>(subject: Subject, stages: Vec<S>) -> Sidecar<S> {
    let imprint = match subject {
        Subject::Segment { .. } => imprint(1),
        Subject::Summary { .. } => imprint(1).for_summary(),
    };
    Sidecar {
        store: STORE,
        imprint,
        subject,
        source: Source::RawKeys,
        entries: 3,
        rate: Rate::ONE_PERCENT,
        prefixes: Vec::new(),
        stages,
    }
}

fn sidecar(subject: Subject, word: u64) -> Sidecar {
    let stage = StageRecord {
        shape: Shape {
            kind: Kind::Blocked,
            bits: Bits::new(512),
            probes: Probes::new(8),
            groups: 2,
        },
        items: Items::new(3),
        words: vec![word; 8],
    };
    with_stages(subject, vec![stage])
}

fn of_segment(id: SegmentId, word: u64) -> Sidecar {
    sidecar(Subject::Segment(id), word)
}

fn put(disk: &MemoryDisk, name: &str, bytes: &[u8]) {
    let path = Path::new("/sieve").join(name);
    drop(disk.remove(&path));
    let mut file = disk.create_new(&path).unwrap();
    io::Write::write_all(&mut *file, bytes).unwrap();
}

fn bytes_of(disk: &MemoryDisk, id: SegmentId) -> Vec<u8> {
    let path = PathBuf::from(format!("/sieve/{id}.sieve"));
    disk::read_file(disk, &path, MAX_SIDECAR_BYTES).unwrap()
}

/// A sidecar's bytes as a later version of the library might write them.
fn newer() -> Vec<u8> {
    let mut bytes = format::encode(&of_segment(ONE, 0)).unwrap();
    let end = 148 - 4;
    bytes[8] = u8::MAX;
    let crc = crc32fast::hash(&bytes[..end]);
    bytes[end..148].copy_from_slice(&crc.to_le_bytes());
    bytes
}

/// The header of a sidecar with this many bits, and the length of its file.
fn header_of(bits: u64) -> (Vec<u8>, u64) {
    let mut bytes = format::encode(&of_segment(ONE, 0)).unwrap();
    bytes.truncate(148);
    let payload = bits / 8;
    let total = 148 + payload + 4 * payload.div_ceil(4_092) + 20;
    bytes[16..24].copy_from_slice(&total.to_le_bytes());
    bytes[112..120].copy_from_slice(&payload.to_le_bytes());
    bytes[128..136].copy_from_slice(&bits.to_le_bytes());
    let crc = crc32fast::hash(&bytes[..144]);
    bytes[144..].copy_from_slice(&crc.to_le_bytes());
    (bytes, total)
}

#[test]
fn stored_sidecar_is_found_and_listed_until_removed() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    assert_eq!(folder.load(FIRST).unwrap(), None);
    let length = folder.store(&of_segment(ONE, 5)).unwrap();
    assert_eq!(length, bytes_of(&disk, ONE).len() as u64);
    folder.store(&of_segment(ONE, 6)).unwrap();
    let summary = sidecar(
        Subject::Summary {
            key_space: 7,
            covered: vec![ONE],
        },
        8,
    );
    folder.store(&summary).unwrap();
    assert_eq!(folder.load(FIRST).unwrap(), Some(of_segment(ONE, 6)));
    assert_eq!(folder.load(SUMMARY).unwrap(), Some(summary));
    assert_eq!(folder.load(SidecarName::Summary(8)).unwrap(), None);
    assert_eq!(folder.list().unwrap(), [ONE]);
    folder.remove(FIRST).unwrap();
    folder.remove(FIRST).unwrap();
    folder.remove(SUMMARY).unwrap();
    assert!(folder.list().unwrap().is_empty());
    assert_eq!(folder.load(SUMMARY).unwrap(), None);
}

#[test]
fn sidecar_of_another_subject_store_or_hash_is_refused() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    folder.store(&of_segment(ONE, 5)).unwrap();
    put(&disk, &format!("{TWO}.sieve"), &bytes_of(&disk, ONE));
    put(&disk, "summary-00000000.sieve", &bytes_of(&disk, ONE));
    let other_store = folder_of(&disk, StoreId::from_bytes([2; 16]), 1);
    let other_seed = folder_of(&disk, STORE, 2);
    let drifted = folder_after_drift(&disk);
    for (refused, expected) in [
        (folder.load(SECOND), "subject"),
        (folder.load(SidecarName::Summary(0)), "subject"),
        (other_store.load(FIRST), "database"),
        (other_seed.load(FIRST), "hash or seed"),
        (drifted.load(FIRST), "hash or seed"),
        (
            other_seed.store(&of_segment(ONE, 5)).map(|_| None),
            "hash or seed",
        ),
    ] {
        match refused {
            Err(SidecarError::Mismatch { what, .. }) => assert_eq!(what, expected),
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn a_damaged_sidecar_is_reported_and_replaced() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    folder.store(&of_segment(ONE, 5)).unwrap();
    for damaged in [bytes_of(&disk, ONE).split_off(1), Vec::new()] {
        put(&disk, &format!("{ONE}.sieve"), &damaged);
        let error = folder.load(FIRST).unwrap_err();
        assert!(matches!(error, SidecarError::Damaged { .. }), "{error}");
        assert!(error.to_string().contains("it will be rebuilt"));
        folder.store(&of_segment(ONE, 5)).unwrap();
        assert!(folder.load(FIRST).unwrap().is_some());
    }
}

/// So that no memory is allocated before its size is known.
#[test]
fn a_header_is_read_without_the_rest_of_the_file() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    assert_eq!(folder.header(FIRST).unwrap(), None);
    folder.store(&of_segment(ONE, 5)).unwrap();
    let mut bytes = bytes_of(&disk, ONE);
    bytes.truncate(148);
    put(&disk, &format!("{ONE}.sieve"), &bytes);
    let header = folder.header(FIRST).unwrap().unwrap();
    assert_eq!(header.size(), Bits::new(512));
    folder.load(FIRST).unwrap_err();
    bytes[40] ^= 1;
    put(&disk, &format!("{ONE}.sieve"), &bytes);
    let error = folder.header(FIRST).unwrap_err();
    assert!(matches!(error, SidecarError::Damaged { .. }), "{error}");
}

/// Even if a header agrees with its file in every length, that much memory is not allocated.
#[test]
fn only_the_header_of_an_oversized_sidecar_is_read() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sieve");
    let folder = SidecarFolder::new(Arc::new(RealDisk), path, STORE, imprint(1));
    folder.prepare().unwrap();
    let file = folder.path().join(FIRST.to_string());
    let (header, length) = header_of(8 * MAX_SIDECAR_BYTES);
    let mut written = RealDisk.create_new(&file).unwrap();
    io::Write::write_all(&mut *written, &header).unwrap();
    // A sparse file: it takes no space on the disk.
    let file = std::fs::File::options().write(true).open(&file).unwrap();
    file.set_len(length).unwrap();
    assert_eq!(
        folder.header(FIRST).unwrap().unwrap().total_bytes,
        length,
        "nothing else is wrong with it"
    );
    match folder.load(FIRST) {
        Err(SidecarError::TooLong { length: found, .. }) => assert_eq!(found, length),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_newer_sidecar_is_neither_read_nor_replaced_nor_removed() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    put(&disk, &format!("{ONE}.sieve"), &newer());
    for refused in [
        folder.load(FIRST).map(|_| ()),
        folder.store(&of_segment(ONE, 5)).map(|_| ()),
        folder.remove(FIRST),
    ] {
        let error = refused.unwrap_err();
        assert!(matches!(error, SidecarError::Newer { .. }), "{error}");
    }
    assert_eq!(bytes_of(&disk, ONE), newer());
}

#[test]
fn newer_sidecar_that_must_not_be_trusted_is_removed_durably() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    put(&disk, &format!("{ONE}.sieve"), &newer());
    folder.remove_durably(FIRST).unwrap();
    folder.remove_durably(FIRST).unwrap();
    for left in disk.after_power_cut(1) {
        assert!(left.list(folder.path()).unwrap().is_empty());
    }
}

#[test]
fn prepare_removes_own_temporary_files_only() {
    let disk = MemoryDisk::new();
    let ours = [
        format!("{ONE}.sieve.0123456789abcdef.tmp"),
        format!("{IDENTITY_FILE}.0123456789abcdef.tmp"),
    ];
    let foreign = ["000012.sst", "x.0123456789abcdef.tmp", "LOCK"];
    folder(&disk);
    for name in foreign.into_iter().chain(ours.iter().map(String::as_str)) {
        put(&disk, name, b"x");
    }
    let folder = folder(&disk);
    let mut expected = foreign.to_vec();
    expected.sort_unstable();
    assert_eq!(disk.list(Path::new("/sieve")).unwrap(), expected);
    assert!(folder.list().unwrap().is_empty());
}

/// Two threads that prepare at once may remove the same file. A file that cannot be removed is an
/// error.
#[test]
fn removal_error_is_ignored_only_for_a_missing_file() {
    let gone = Err(io::ErrorKind::NotFound.into());
    assert!(ignore_missing(gone).is_ok());
    let stays = ignore_missing(Err(io::ErrorKind::PermissionDenied.into()));
    assert_eq!(stays.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

/// An error is never `None`: "no such file" may start a rebuild that replaces the file.
#[test]
fn disk_error_is_not_reported_as_a_missing_file() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    folder.store(&of_segment(ONE, 5)).unwrap();
    let before = disk.operations();
    folder.load(FIRST).unwrap();
    for n in 0..disk.operations() - before {
        disk.fail(n, Fault::Once(io::ErrorKind::PermissionDenied));
        let error = folder.load(FIRST).unwrap_err();
        assert!(matches!(error, SidecarError::Disk { .. }), "{error}");
    }
}

/// A file is written and read in pieces, and any transfer may be short.
#[test]
fn large_sidecar_is_stored_and_loaded_in_short_transfers() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    let mut large = of_segment(ONE, 5);
    let stage = large.stages.pop().unwrap();
    for words in [40, 4_000, 16_000] {
        let mut stage = stage.clone();
        stage.shape.bits = Bits::new(64 * words);
        stage.words = (0..words).map(|word| word * 0x9e37_79b9).collect();
        large.stages.push(stage);
    }
    for at_most in [usize::MAX, 1_000, 7] {
        disk.stutter(at_most);
        let length = folder.store(&large).unwrap();
        assert_eq!(length, bytes_of(&disk, ONE).len() as u64);
        assert_eq!(bytes_of(&disk, ONE), format::encode(&large).unwrap());
        assert_eq!(folder.load(FIRST).unwrap(), Some(large.clone()));
        let header = folder.verify(FIRST).unwrap();
        assert_eq!(header, folder.header(FIRST).unwrap());
        let filter = folder.load_stages(FIRST).unwrap().unwrap();
        for (stage, record) in filter.stages.iter().zip(&large.stages) {
            assert_eq!((stage.shape(), stage.items()), (record.shape, record.items));
            assert!(stage.words().eq(record.words.iter().copied()));
        }
        assert_eq!(filter.stages.len(), 3);
    }
    let bytes = bytes_of(&disk, ONE);
    for at in [150, bytes.len() / 2, bytes.len() - 1] {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1;
        put(&disk, &FIRST.to_string(), &damaged);
        for refused in [
            folder.load(FIRST).map(|_| ()),
            folder.load_stages(FIRST).map(|_| ()),
            folder.verify(FIRST).map(|_| ()),
        ] {
            let error = refused.unwrap_err();
            assert!(matches!(error, SidecarError::Damaged { .. }), "{error}");
        }
    }
}

/// A filter is stored while it takes keys: the file has all earlier keys, and its checksums match.
#[test]
fn filter_stored_during_insertions_has_all_earlier_keys() {
    const KEYS: u64 = 200_000;
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join("sieve");
    let folder = SidecarFolder::new(Arc::new(RealDisk), path, STORE, imprint(1));
    folder.prepare().unwrap();
    let hash = |key: u64| KeyHash::new(key.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let stage = Stage::with_rate(Kind::Blocked, Items::new(KEYS), Rate::ONE_PERCENT).unwrap();
    let (held, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for key in 0..KEYS {
                stage.insert(hash(key));
                held.store(key + 1, Ordering::Release);
            }
            ended.store(true, Ordering::Release);
        });
        loop {
            let last = ended.load(Ordering::Acquire);
            let held = held.load(Ordering::Acquire);
            let sidecar = with_stages(Subject::Segment(ONE), vec![&stage]);
            folder.store(&sidecar).unwrap();
            let found = folder.load_stages(FIRST).unwrap().unwrap();
            assert!((0..held).all(|key| found.stages[0].may_contain(hash(key))));
            if last {
                break;
            }
        }
    });
}

#[test]
fn stage_of_an_impossible_shape_is_reported_as_damage() {
    let disk = MemoryDisk::new();
    let folder = folder(&disk);
    let mut odd = of_segment(ONE, 5);
    // No blocked stage sets that many bits in two words.
    odd.stages[0].shape.probes = Probes::new(7);
    folder.store(&odd).unwrap();
    assert_eq!(folder.load(FIRST).unwrap(), Some(odd));
    let error = folder.load_stages(FIRST).unwrap_err();
    match &error {
        SidecarError::Damaged { source, .. } => {
            assert!(
                source.to_string().starts_with("stage 0 is of no use"),
                "{source}"
            );
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_power_cut_while_storing_leaves_the_old_or_the_new_sidecar() {
    let mut images = 0;
    for survivors in 0.. {
        let disk = MemoryDisk::new();
        let folder = folder(&disk);
        folder.store(&of_segment(ONE, 5)).unwrap();
        disk.fail(survivors, Fault::PowerCut);
        let stored = folder.store(&of_segment(ONE, 6));
        for image in disk.after_power_cut(survivors) {
            let found = self::folder(&image).load(FIRST).unwrap().unwrap();
            let new = found == of_segment(ONE, 6);
            assert!(new || (stored.is_err() && found == of_segment(ONE, 5)));
            images += 1;
        }
        if stored.is_ok() {
            break;
        }
    }
    assert!(images > 50);
}
