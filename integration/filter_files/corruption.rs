//! A corrupted sidecar is refused, for every kind of corruption that can be enumerated.
//!
//! Of a segment filter's sidecar and of a summary's: every bit flipped, every byte 00 and FF, every
//! wrong length, every sector zeroed, filled, doubled, swapped and removed, every joint with
//! another intact sidecar, and random flips of many bits. Then every intact sidecar in every wrong
//! place. What an open database does about it is in `damage`.
//!
//! `LSM_SIEVE_ROT_BYTES=1048576` takes larger files, `LSM_SIEVE_ROT_RANDOM=10000000` more random
//! damage. `LSM_SIEVE_SEED=n` repeats it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use lsm_sieve::{Bits, HashId, Items, Rate};
use lsm_sieve_filter::filter::{Kind, Shape};
use lsm_sieve_filter::math::Probes;
use lsm_sieve_format::disk::{self, Disk as _, MemoryDisk};
use lsm_sieve_format::format::{self, Identity, Sidecar, Source, StageRecord, Subject};
use lsm_sieve_format::segment::{SegmentId, SidecarFolder};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use crate::support::environment::number_from;

/// Approximate size of the sidecars of an ordinary run.
const BYTES: u64 = 24 << 10;

/// Random damage of an ordinary run.
const RANDOM: u64 = 100_000;

const SECTORS: [usize; 3] = [64, 512, 4096];

/// A sidecar of an SST, of about this many bytes, with random words.
fn of_segment(identity: &Identity, number: u8, bytes: u64, random: &mut StdRng) -> Sidecar {
    let subject = Subject::Segment(SegmentId::from_bytes([number; 16]));
    sidecar(identity, subject, bytes, random)
}

fn of_summary(identity: &Identity, key_space: u32, bytes: u64, random: &mut StdRng) -> Sidecar {
    let covered = (0..bytes / 64).map(|_| SegmentId::from_bytes(random.random()));
    let covered = covered.collect();
    let subject = Subject::Summary { key_space, covered };
    sidecar(identity, subject, bytes * 3 / 4, random)
}

fn sidecar(identity: &Identity, subject: Subject, bytes: u64, random: &mut StdRng) -> Sidecar {
    let imprint = identity.hasher().imprint();
    let mut stage = |lines: u64| StageRecord {
        shape: Shape {
            kind: Kind::Blocked,
            bits: Bits::new(512 * lines),
            probes: Probes::new(8),
            groups: 2,
        },
        items: Items::new(lines * 40),
        words: (0..lines * 8).map(|_| random.random()).collect(),
    };
    let lines = (bytes / 64).max(3);
    Sidecar {
        store: identity.store,
        imprint: match subject {
            Subject::Segment(_) => imprint,
            Subject::Summary { .. } => imprint.for_summary(),
        },
        subject,
        source: Source::RawKeys,
        entries: 1_000,
        rate: Rate::ONE_PERCENT,
        prefixes: Vec::new(),
        stages: vec![stage(lines / 3), stage(lines - lines / 3)],
    }
}

/// Damage that was refused, by its kind.
#[derive(Debug, Default)]
struct Totals(BTreeMap<&'static str, u64>);

impl Totals {
    /// Checks that damaged bytes are refused. Bytes equal to the intact ones are skipped.
    fn refuse(&mut self, what: &'static str, bytes: &[u8], good: &[u8]) {
        if bytes == good {
            return;
        }
        match format::verify(bytes) {
            Ok(_) => panic!("{what}: accepted"),
            Err(error) => assert!(!error.is_newer(), "{what}: taken for a newer version"),
        }
        *self.0.entry(what).or_default() += 1;
    }

    fn bits_and_bytes(&mut self, good: &[u8]) {
        let mut bytes = good.to_vec();
        for at in 0..good.len() {
            for bit in 0..8 {
                bytes[at] = good[at] ^ 1 << bit;
                self.refuse("bit flipped", &bytes, good);
            }
            for value in [0, u8::MAX] {
                bytes[at] = value;
                self.refuse("byte 00 or FF", &bytes, good);
            }
            bytes[at] = good[at];
        }
    }

    fn lengths(&mut self, good: &[u8]) {
        for length in 0..good.len() {
            self.refuse("truncated", &good[..length], good);
        }
        for filler in [0, u8::MAX] {
            let mut longer = good.to_vec();
            for _ in 0..5_000 {
                longer.push(filler);
                self.refuse("extended", &longer, good);
            }
        }
    }

    fn sectors(&mut self, good: &[u8], sector: usize) {
        let starts = (0..good.len().saturating_sub(sector)).step_by(sector);
        for start in starts {
            let here = start..start + sector;
            let next = here.end..good.len().min(here.end + sector);
            let whole = next.len() == sector;
            let mut bytes = good.to_vec();
            bytes[here.clone()].fill(0);
            self.refuse("sector zeroed", &bytes, good);
            bytes[here.clone()].fill(u8::MAX);
            self.refuse("sector filled", &bytes, good);
            bytes[here.clone()].copy_from_slice(&good[here.clone()]);
            if whole {
                bytes[next.clone()].copy_from_slice(&good[here.clone()]);
                self.refuse("sector doubled", &bytes, good);
                bytes[here.clone()].copy_from_slice(&good[next]);
                self.refuse("sectors swapped", &bytes, good);
            }
            let mut shorter = good.to_vec();
            shorter.drain(here.clone());
            self.refuse("sector removed", &shorter, good);
            shorter.splice(
                start..start,
                good[here.clone()].iter().chain(&good[here]).copied(),
            );
            self.refuse("sector inserted", &shorter, good);
        }
    }

    /// The start of one sidecar and the rest of another. Both are intact, in their own places.
    fn joints(&mut self, good: &[u8], other: &[u8]) {
        let most = good.len().min(other.len());
        for at in 1..most {
            let joined = [&good[..at], &other[at..]].concat();
            if joined != other {
                self.refuse("joined to another", &joined, good);
            }
        }
    }

    fn random(&mut self, good: &[u8], times: u64, random: &mut StdRng) {
        let mut bytes = good.to_vec();
        for _ in 0..times {
            let flips: Vec<usize> = (0..random.random_range(2..64))
                .map(|_| random.random_range(0..good.len() * 8))
                .collect();
            flips
                .iter()
                .for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
            self.refuse("many bits flipped", &bytes, good);
            flips
                .iter()
                .for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
        }
    }
}

#[test]
fn every_kind_of_corruption_is_refused() {
    let size = number_from("LSM_SIEVE_ROT_BYTES").unwrap_or(BYTES);
    let times = number_from("LSM_SIEVE_ROT_RANDOM").unwrap_or(RANDOM);
    let seed = number_from("LSM_SIEVE_SEED").unwrap_or_else(rand::random);
    println!("LSM_SIEVE_SEED={seed}");
    let (began, mut random) = (Instant::now(), StdRng::seed_from_u64(seed));
    let [ours, theirs] = [(); 2].map(|()| Identity::random(HashId::Xxh3).unwrap());
    let mut totals = Totals::default();
    // The filter of the same SST rebuilt, that of another SST, and that of another database: all of
    // one length.
    let segments = [(&ours, 1), (&ours, 1), (&ours, 2), (&theirs, 1)]
        .map(|(identity, number)| of_segment(identity, number, size, &mut random));
    let summaries = [(&ours, 1), (&ours, 1), (&ours, 2), (&theirs, 1)]
        .map(|(identity, number)| of_summary(identity, number, size, &mut random));
    for sidecars in [segments, summaries] {
        let [good, others @ ..] = sidecars.map(|sidecar| format::encode(&sidecar).unwrap());
        totals.bits_and_bytes(&good);
        totals.lengths(&good);
        SECTORS
            .iter()
            .for_each(|&sector| totals.sectors(&good, sector));
        // A joint at every byte takes time quadratic in the length: only a part of the longest
        // files is tried.
        let part = good.len().min(16 << 10);
        let ends = good.len() - part..;
        for other in &others {
            if part == good.len() {
                totals.joints(&good, other);
            } else {
                let joined = [&good[..ends.start], &other[ends.clone()]].concat();
                totals.refuse("joined to another", &joined, &good);
            }
        }
        totals.random(&good, times / 2, &mut random);
        format::decode(&good).unwrap();
    }
    println!("{totals:#?}");
    let refused: u64 = totals.0.values().sum();
    println!(
        r#"{{"part":"damage","seed":{seed},"file_bytes":{size},"damages":{refused},"accepted":0,"seconds":{:.1}}}"#,
        began.elapsed().as_secs_f64()
    );
    assert_eq!(totals.0.len(), 12, "{totals:?}");
}

/// A folder of filters, and the sidecars stored in it.
struct FilterFolder {
    folder: SidecarFolder,
    sidecars: Vec<Sidecar>,
}

/// Every file under every name of every database: it is accepted only in its own place.
#[test]
fn intact_sidecar_in_a_wrong_place_is_refused() {
    let mut random = StdRng::seed_from_u64(1);
    let disk = MemoryDisk::new();
    let ours = Identity::random(HashId::Xxh3).unwrap();
    let rehashed = Identity {
        hash: HashId::SipHash13,
        ..ours
    };
    let reseeded = Identity {
        store: ours.store,
        ..Identity::random(HashId::Xxh3).unwrap()
    };
    let theirs = Identity::random(HashId::Xxh3).unwrap();
    let folders: Vec<FilterFolder> = [ours, rehashed, reseeded, theirs]
        .into_iter()
        .enumerate()
        .map(|(number, identity)| {
            let path = format!("/{number}");
            let folder = SidecarFolder::new(
                Arc::new(disk.clone()),
                path.into(),
                identity.store,
                identity.hasher().imprint(),
            );
            folder.prepare().unwrap();
            let sidecars = vec![
                of_segment(&identity, 1, 500, &mut random),
                of_segment(&identity, 2, 500, &mut random),
                of_summary(&identity, 1, 500, &mut random),
                of_summary(&identity, 2, 500, &mut random),
            ];
            FilterFolder { folder, sidecars }
        })
        .collect();
    let mut refused = 0;
    for (from, owner) in folders.iter().enumerate() {
        for sidecar in &owner.sidecars {
            let bytes = format::encode(sidecar).unwrap();
            for (to, other) in folders.iter().enumerate() {
                for place in &other.sidecars {
                    disk::publish(&disk, other.folder.path(), &name(place), &bytes).unwrap();
                    let home = from == to && place.subject == sidecar.subject;
                    match other.folder.load((&place.subject).into()) {
                        Ok(Some(found)) => assert!(home && found == *sidecar, "taken"),
                        Ok(None) => panic!("not found"),
                        Err(_) => {
                            assert!(!home, "refused at home");
                            refused += 1;
                        }
                    }
                }
            }
        }
    }
    assert_eq!(refused, 16 * 15);
    assert_eq!(disk.list("/0".as_ref()).unwrap().len(), 4);
}

fn name(sidecar: &Sidecar) -> String {
    match &sidecar.subject {
        Subject::Segment(id) => format!("{id}.sieve"),
        Subject::Summary { key_space, .. } => format!("summary-{key_space:08x}.sieve"),
    }
}
