//! A summary that is stored and loaded: whatever happens to its folder, the loaded one is a stored
//! one, and the filter goes on with all of its keys.

use super::store;
use arbitrary::{Result, Unstructured};
use lsm_sieve_filter::filter::{Chain, Kind, Scalable, ScalableOptions};
use lsm_sieve_filter::hash::{Imprint, KeyHash};
use lsm_sieve_filter::math::{Bits, Items};
use lsm_sieve_format::disk::{Disk, Fault, MemoryDisk};
use lsm_sieve_format::format::{Sidecar, Source, Subject};
use lsm_sieve_format::segment::{SegmentId, SidecarFolder, SidecarName};
use std::io::{ErrorKind, Write as _};
use std::path::Path;
use std::sync::Arc;

const FOLDER: &str = "/sieve";
const KEY_SPACE: u32 = 3;

/// A long life takes long and shows little that is new.
const BYTES_MAX: usize = 600;

/// Grows a summary and stores it more than once, on a disk that fails, loses power and corrupts
/// data.
pub fn run(bytes: &[u8]) {
    _ = live(&mut Unstructured::new(&bytes[..bytes.len().min(BYTES_MAX)]));
}

fn live(input: &mut Unstructured<'_>) -> Result<()> {
    let imprint = store::imprint().for_summary();
    let options = options(input)?;
    let mut summary = Scalable::new(imprint, options);
    let mut keys = Vec::new();
    let mut stored = Vec::new();
    let mut disk = MemoryDisk::new();
    folder(&disk)
        .prepare()
        .expect("an empty disk takes a folder");
    while !input.is_empty() {
        match input.int_in_range(0..=9)? {
            0..=4 => insert(&summary, &mut keys, input)?,
            5 => {
                // Recorded whatever the result: the file may exist after an error, too.
                stored.push((snapshot(&summary), keys.clone()));
                _ = folder(&disk).store(&stored[stored.len() - 1].0);
            }
            6 => disk.fail(input.int_in_range(0..=30)?, fault(input)?),
            7 => disk = after_power_cut(&disk, input)?,
            8 => rot(&disk, input)?,
            _ => {
                if let Some((found, held)) = load(&disk, &stored) {
                    keys.clone_from(held);
                    summary = Scalable::starting_with(imprint, options, chain(found, imprint));
                    holds(&summary, &keys);
                }
            }
        }
    }
    holds(&summary, &keys);
    Ok(())
}

fn holds(summary: &Scalable, keys: &[KeyHash]) {
    let lost = keys.iter().find(|&&key| !summary.may_contain(key));
    assert_eq!(lost, None, "a key was lost");
}

fn folder(disk: &MemoryDisk) -> SidecarFolder {
    SidecarFolder::new(
        Arc::new(disk.clone()),
        FOLDER.into(),
        store::STORE,
        store::imprint(),
    )
}

fn options(input: &mut Unstructured<'_>) -> Result<ScalableOptions> {
    // Once chose a layout. Read all the same, so that older inputs mean what they meant.
    input.int_in_range(0..=3_usize)?;
    let rate = store::rate(input)?;
    let first = input.int_in_range(0..=64)?;
    let growth = input.int_in_range(0..=4)?;
    Ok(ScalableOptions {
        kind: Kind::Blocked,
        rate,
        first: Items::new(first),
        second: (growth == 2).then_some(Items::new(first / 4)),
        growth,
        tightening: store::tightening(input)?,
        budget: Some(Bits::new(input.int_in_range(0..=1 << 20)?)),
    })
}

fn insert(summary: &Scalable, keys: &mut Vec<KeyHash>, input: &mut Unstructured<'_>) -> Result<()> {
    let first = input.arbitrary::<u16>()?;
    let count = input.int_in_range(1..=100)?;
    let fresh: Vec<_> = (0..count)
        .map(|i| store::spread(u64::from(first) + i))
        .collect();
    match input.int_in_range(0..=2)? {
        0 => fresh.iter().for_each(|&key| _ = summary.insert(key)),
        1 => fresh.iter().for_each(|&key| summary.append(key)),
        _ => summary.insert_many(&fresh),
    }
    holds(summary, &fresh);
    keys.extend(fresh);
    Ok(())
}

fn snapshot(summary: &Scalable) -> Sidecar {
    let chain = summary.to_chain();
    Sidecar {
        store: store::STORE,
        imprint: chain.imprint(),
        subject: Subject::Summary {
            key_space: KEY_SPACE,
            covered: vec![SegmentId::from_bytes([5; 16])],
        },
        source: Source::Snapshot,
        entries: chain.items().get(),
        rate: summary.options().rate,
        prefixes: Vec::new(),
        stages: chain.stages().iter().map(store::record).collect(),
    }
}

fn chain(sidecar: &Sidecar, imprint: Imprint) -> Chain {
    Chain::new(imprint, sidecar.stages.iter().map(store::stage).collect())
}

/// A snapshot, and the keys that it covers.
type Stored = (Sidecar, Vec<KeyHash>);

/// The content of the folder, if it can be read: one of the stored snapshots, bit for bit.
fn load<'a>(disk: &MemoryDisk, stored: &'a [Stored]) -> Option<&'a Stored> {
    let found = folder(disk).load(SidecarName::Summary(KEY_SPACE)).ok()??;
    let known = stored.iter().find(|(sidecar, _)| *sidecar == found);
    Some(known.expect("what is read was written"))
}

fn fault(input: &mut Unstructured<'_>) -> Result<Fault> {
    Ok(match input.int_in_range(0..=3)? {
        0 => Fault::Once(ErrorKind::StorageFull),
        1 => Fault::Forever(ErrorKind::Other),
        2 => Fault::PowerCut,
        _ => Fault::CorruptWrite,
    })
}

fn after_power_cut(disk: &MemoryDisk, input: &mut Unstructured<'_>) -> Result<MemoryDisk> {
    let (seed, image) = (input.arbitrary()?, input.int_in_range(0..=7)?);
    let found = disk.after_power_cut(seed).take(image + 1).last();
    Ok(found.expect("there is a disk when the power comes back"))
}

/// Flips a bit in the summary's file, past the functions that write files whole.
fn rot(disk: &MemoryDisk, input: &mut Unstructured<'_>) -> Result<()> {
    let Ok(names) = disk.list(Path::new(FOLDER)) else {
        return Ok(());
    };
    let Some(name) = names.iter().find(|name| name.ends_with(".sieve")) else {
        return Ok(());
    };
    let path = Path::new(FOLDER).join(name);
    let Ok(mut bytes) = lsm_sieve_format::disk::read_file(disk, &path, 1 << 30) else {
        return Ok(());
    };
    if bytes.is_empty() {
        return Ok(());
    }
    let at = input.choose_index(bytes.len())?;
    bytes[at] ^= 1 << input.int_in_range(0..=7)?;
    let rewritten = disk.remove(&path).and_then(|()| disk.create_new(&path));
    if let Ok(mut file) = rewritten {
        _ = file.write_all(&bytes);
        _ = file.sync();
    }
    Ok(())
}
