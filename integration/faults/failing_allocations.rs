//! Memory runs out while filters are built, stored or loaded: an error or *maybe*, never the end of
//! the process.
//!
//! Rust ends the process when an ordinary allocation fails, so every allocation whose size depends
//! on a file or on the number of keys must be fallible. With this many keys, all allocations of
//! [`LARGE`] bytes are of that kind. The n-th of these fails, for every n, once and for ever. A
//! child does the work: if it dies, the parent says in which case.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use lsm_sieve::{Bits, HashId, Items, Rate, SieveDb, SieveOptions};
use lsm_sieve_filter::filter::{Kind, Shape, Stage};
use lsm_sieve_filter::math::Probes;
use lsm_sieve_format::disk::{self, Disk as _, RealDisk};
use lsm_sieve_format::format::{self, Identity, Sidecar, Source, StageRecord, Subject};
use lsm_sieve_format::segment::{
    MAX_SIDECAR_BYTES, SegmentId, SidecarError, SidecarFolder, SidecarName,
};
use rocksdb::WriteBatch;

use super::worker::{engine, sieve};
use super::workload::key;
use crate::support::failing_allocator::{LARGE, Shortage, during, exhaust};
use crate::support::history::Failed;
use crate::support::history::child::command;

const CHILD: &str = "LSM_SIEVE_MEMORY_CHILD";

const SEGMENT: SegmentId = SegmentId::from_bytes([7; 16]);
const KEY_SPACE: u32 = 7;

/// Keys of the database that is opened. Its filters are larger than [`LARGE`].
const KEYS: u32 = 120_000;

#[test]
fn no_failing_allocation_ends_the_process_or_loses_a_key() {
    let began = Instant::now();
    let output = command("faults::failing_allocations::child")
        .unwrap()
        .env(CHILD, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}\n{stderr}");
    let cases: Vec<&str> = said
        .lines()
        .filter_map(|line| line.strip_prefix("@"))
        .collect();
    let sum = |at: usize| -> u64 {
        let numbers = cases.iter().filter_map(|case| case.split(' ').nth(at));
        numbers.map(|number| number.parse::<u64>().unwrap()).sum()
    };
    let (runs, failed) = (sum(0), sum(1));
    println!(
        r#"{{"part":"failing allocations","cases":{},"runs":{runs},"allocations_failed":{failed},"aborts":0,"lost":0,"seconds":{:.1}}}"#,
        cases.len(),
        began.elapsed().as_secs_f64()
    );
    assert!(cases.len() == 12 && failed > 100, "{said}");
}

/// The child half. Does nothing unless its parent started it.
#[test]
fn child() {
    if std::env::var_os(CHILD).is_some() {
        let home = tempfile::tempdir().unwrap();
        files(&home.path().join("files")).unwrap();
        far_too_long(&home.path().join("long")).unwrap();
        stored_without_a_copy(&home.path().join("copy")).unwrap();
        database(&home.path().join("database")).unwrap();
        let in_parts = sieve().build_memory(8 * 50_000);
        for (name, sieve) in [
            ("write a database", sieve()),
            ("write static filters in parts", in_parts),
            ("write filters for speed", sieve().speed_over_memory(true)),
        ] {
            written(home.path(), name, &sieve).unwrap();
        }
    }
}

fn sidecar(identity: &Identity, subject: Subject) -> Sidecar {
    let imprint = identity.hasher().imprint();
    let shape = Shape {
        kind: Kind::Blocked,
        bits: Bits::new(512 * 2_000),
        probes: Probes::new(8),
        groups: 2,
    };
    let stage = StageRecord {
        shape,
        items: Items::new(100_000),
        words: (0..16_000).map(|word| word * 0x9e37_79b9).collect(),
    };
    Sidecar {
        store: identity.store,
        imprint: match subject {
            Subject::Segment(_) => imprint,
            Subject::Summary { .. } => imprint.for_summary(),
        },
        subject,
        source: Source::RawKeys,
        entries: 100_000,
        rate: Rate::ONE_PERCENT,
        prefixes: Vec::new(),
        stages: vec![stage.clone(), stage],
    }
}

fn many_segments() -> impl Iterator<Item = SegmentId> {
    (0..20_000_u128).map(|number| SegmentId::from_bytes(number.to_le_bytes()))
}

/// The functions that read files, one by one.
fn files(folder: &Path) -> Result<(), Failed> {
    RealDisk.create_folder(folder)?;
    let identity = Identity::random(HashId::Xxh3)?;
    let imprint = identity.hasher().imprint();
    let sidecars = SidecarFolder::new(Arc::new(RealDisk), folder.into(), identity.store, imprint);
    let summary = Subject::Summary {
        key_space: KEY_SPACE,
        covered: many_segments().collect(),
    };
    let segment = sidecar(&identity, Subject::Segment(SEGMENT));
    let summary = sidecar(&identity, summary);
    for one in [&segment, &summary] {
        sidecars.store(one)?;
        let bytes = format::encode(one)?;
        exhaust("decode", || match format::decode(&bytes) {
            Ok(found) if found != *one => Err("another filter was decoded".into()),
            _ => Ok(()),
        })?;
    }
    let path = folder.join(format!("{SEGMENT}.sieve"));
    let bytes = disk::read_file(&RealDisk, &path, MAX_SIDECAR_BYTES)?;
    exhaust("read a file", || {
        match disk::read_file(&RealDisk, &path, MAX_SIDECAR_BYTES) {
            Ok(found) if found != bytes => Err("other bytes were read".into()),
            _ => Ok(()),
        }
    })?;
    exhaust("load a sidecar", || {
        match sidecars.load(SidecarName::Segment(SEGMENT)) {
            Ok(found) if found.as_ref() != Some(&segment) => Err("another was loaded".into()),
            _ => Ok(()),
        }
    })?;
    exhaust("load a filter", || {
        let Ok(Some(found)) = sidecars.load_stages(SidecarName::Segment(SEGMENT)) else {
            return Ok(());
        };
        let mut pairs = found.stages.iter().zip(&segment.stages);
        let same = |(stage, record): (&Stage, &StageRecord)| {
            stage.words().eq(record.words.iter().copied())
        };
        if found.stages.len() == segment.stages.len() && pairs.all(same) {
            Ok(())
        } else {
            Err("another filter was loaded".into())
        }
    })?;
    exhaust("load a summary", || {
        match sidecars.load(SidecarName::Summary(KEY_SPACE)) {
            Ok(found) if found.as_ref() != Some(&summary) => Err("another was loaded".into()),
            _ => Ok(()),
        }
    })?;
    exhaust("make a stage", || {
        let StageRecord { shape, items, .. } = segment.stages[0];
        // The words are an allocation of the case itself, which may fail as well.
        let mut words = Vec::new();
        if words
            .try_reserve_exact(segment.stages[0].words.len())
            .is_err()
        {
            return Ok(());
        }
        words.extend_from_slice(&segment.stages[0].words);
        match Stage::from_words(shape, items, words) {
            Ok(stage) if !stage.words().eq(segment.stages[0].words.iter().copied()) => {
                Err("a stage of other words was made".into())
            }
            _ => Ok(()),
        }
    })
}

/// A filter in memory is written without a copy, and a verified one is not kept: storing a summary
/// of gigabytes must not take as much memory again.
fn stored_without_a_copy(folder: &Path) -> Result<(), Failed> {
    RealDisk.create_folder(folder)?;
    let identity = Identity::random(HashId::Xxh3)?;
    let imprint = identity.hasher().imprint();
    let sidecars = SidecarFolder::new(Arc::new(RealDisk), folder.into(), identity.store, imprint);
    let segment = sidecar(&identity, Subject::Segment(SEGMENT));
    let none = Shortage {
        least_bytes: LARGE,
        nth: 0,
        for_ever: true,
    };
    let (stored, now_failed) = during(none, || sidecars.store(&segment));
    let (verified, failed_again) = during(none, || sidecars.verify(SidecarName::Segment(SEGMENT)));
    match (stored, verified) {
        (Ok(_), Ok(Some(_))) if now_failed + failed_again == 0 => Ok(()),
        failed => Err(format!("{now_failed} and {failed_again} allocations: {failed:?}").into()),
    }
}

/// A file whose length differs from its header, or of an unknown version, is not read, so no memory
/// of the file's size is allocated.
fn far_too_long(folder: &Path) -> Result<(), Failed> {
    RealDisk.create_folder(folder)?;
    let identity = Identity::random(HashId::Xxh3)?;
    let imprint = identity.hasher().imprint();
    let sidecars = SidecarFolder::new(Arc::new(RealDisk), folder.into(), identity.store, imprint);
    let path = folder.join(format!("{SEGMENT}.sieve"));
    for newer in [false, true] {
        let mut bytes = format::encode(&sidecar(&identity, Subject::Segment(SEGMENT)))?;
        if newer {
            let header = bytes[12..16].try_into()?;
            let end = u32::from_le_bytes(header) as usize - 4;
            bytes[8] = u8::MAX;
            let crc = crc32fast::hash(&bytes[..end]).to_le_bytes();
            bytes[end..end + 4].copy_from_slice(&crc);
        }
        let mut options = File::options();
        options.create(true).truncate(true).write(true).mode(0o600);
        let mut file = options.open(&path)?;
        file.write_all(&bytes)?;
        // A hole: it takes no space on the disk.
        file.set_len(MAX_SIDECAR_BYTES)?;
        let any = Shortage {
            least_bytes: LARGE,
            nth: 0,
            for_ever: true,
        };
        let (loaded, now_failed) = during(any, || sidecars.load(SidecarName::Segment(SEGMENT)));
        let refused = match loaded {
            Err(SidecarError::Damaged { .. }) => !newer,
            Err(SidecarError::Newer { .. }) => newer,
            _ => false,
        };
        if !refused || now_failed > 0 {
            return Err(format!("{now_failed} allocations for a file too long: {loaded:?}").into());
        }
    }
    Ok(())
}

fn fill(db: &SieveDb) -> Result<(), Failed> {
    for first in (0..KEYS).step_by(1_000) {
        let mut batch = WriteBatch::default();
        (first..first + 1_000).for_each(|index| batch.put(key(index), b"here"));
        db.write(batch)?;
    }
    Ok(())
}

fn check(db: &SieveDb) -> Result<(), Failed> {
    for index in (0..KEYS).step_by(997) {
        if db.get(key(index))?.is_none() {
            return Err(format!("LOST key {index}: {:?}", db.filters().answer(key(index))).into());
        }
    }
    Ok(())
}

/// Fills a database. Its filters are built, stored and rebuilt.
fn written(home: &Path, name: &str, sieve: &SieveOptions) -> Result<(), Failed> {
    exhaust(name, || {
        let folder = tempfile::tempdir_in(home)?;
        let db = SieveDb::open(&engine(), sieve, folder.path())?;
        fill(&db)?;
        db.flush()?;
        check(&db)?;
        // Without memory for another summary, the old one stays in use.
        drop(db.filters().consolidate());
        check(&db)?;
        drop(db);
        check(&SieveDb::open(&engine(), sieve, folder.path())?)
    })
}

/// Opens a database whose filters do not fit into memory.
fn database(path: &Path) -> Result<(), Failed> {
    {
        let db = SieveDb::open(&engine(), &sieve(), path)?;
        fill(&db)?;
        db.flush()?;
        db.filters().consolidate()?;
    }
    let open = || -> Result<(), Failed> {
        let db = SieveDb::open(&engine(), &sieve().read_only_filters(true), path)?;
        _ = db
            .filters()
            .wait_for_maintenance(std::time::Duration::from_secs(60));
        check(&db)
    };
    exhaust("open a database", open)?;
    cover_many(&path.join("sieve"))?;
    exhaust("open a database of many tables", open)
}

/// Makes the summary claim to cover many more SSTs, none of which exists.
fn cover_many(folder: &Path) -> Result<(), Failed> {
    let identity = Identity::load(&RealDisk, folder)?.ok_or("no identity")?;
    let imprint = identity.hasher().imprint();
    let sidecars = SidecarFolder::new(Arc::new(RealDisk), folder.into(), identity.store, imprint);
    let names = RealDisk.list(folder)?;
    let number = names.iter().find_map(|name| {
        let digits = name.strip_prefix("summary-")?.strip_suffix(".sieve")?;
        u32::from_str_radix(digits, 16).ok()
    });
    let summary = sidecars.load(SidecarName::Summary(number.ok_or("no summary")?))?;
    let mut summary = summary.ok_or("no summary")?;
    let Subject::Summary { covered, .. } = &mut summary.subject else {
        return Err("a summary of a segment".into());
    };
    covered.extend(many_segments());
    sidecars.store(&summary)?;
    Ok(())
}
