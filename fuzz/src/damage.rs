//! A damaged file of ours: every error of up to three bits in a block, and every file of another
//! length, is detected. Damage with matching checksums is refused, or read as what it says.

use super::{mend, sidecar, store};
use arbitrary::{Result, Unstructured};
use lsm_sieve_filter::filter::{Kind, Shape};
use lsm_sieve_filter::hash::{HashId, Seed};
use lsm_sieve_filter::math::{Bits, Items, Probes};
use lsm_sieve_format::format::{self, Identity, Sidecar, Source, StageRecord, Subject};
use lsm_sieve_format::segment::SegmentId;

/// Builds a file, and damages it as the rest of the input says.
pub fn run(bytes: &[u8]) {
    _ = damage(&mut Unstructured::new(bytes));
}

fn damage(input: &mut Unstructured<'_>) -> Result<()> {
    let written = written(input)?;
    let Ok(good) = format::encode(&written) else {
        return Ok(());
    };
    assert_eq!(sidecar::read(&good).as_ref(), Ok(&written));
    let identity = identity(input)?;
    for _ in 0..input.int_in_range(1..=4)? {
        noticed(&spoilt(&good, input)?, &good, |bytes| {
            sidecar::read(bytes).is_err()
        });
        let small = spoilt(&identity, input)?;
        noticed(&small, &identity, |bytes| {
            format::decode_identity(bytes).is_err()
        });
        let mut mended = good.clone();
        for _ in 0..input.int_in_range(1..=8)? {
            let at = input.choose_index(mended.len())?;
            mended[at] = input.arbitrary()?;
        }
        _ = sidecar::read(&mend::sidecar(&mended));
    }
    Ok(())
}

fn noticed(spoilt: &[u8], good: &[u8], refused: impl Fn(&[u8]) -> bool) {
    assert!(spoilt == good || refused(spoilt), "damage was not noticed");
}

/// Up to three bits flipped close to each other, or another length.
fn spoilt(good: &[u8], input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    const REACH: usize = 64;
    let mut spoilt = good.to_vec();
    match input.int_in_range(0..=3)? {
        0 => spoilt.truncate(input.choose_index(good.len())?),
        1 => spoilt.extend(input.bytes(input.len().min(8))?),
        _ => {
            let first = input.choose_index(good.len())?;
            for _ in 0..input.int_in_range(1..=3)? {
                let at = first + input.int_in_range(0..=REACH)?;
                let bit = input.int_in_range(0..=7)?;
                spoilt[at.min(good.len() - 1)] ^= 1 << bit;
            }
        }
    }
    Ok(spoilt)
}

/// A sidecar of any kind, possibly with impossible values.
pub fn written(input: &mut Unstructured<'_>) -> Result<Sidecar> {
    let covered = input.int_in_range(0..=300_u32)?;
    let id = |number: u32| SegmentId::from_bytes(u128::from(number).to_le_bytes());
    let stages = 0..input.int_in_range(1..=5)?;
    let stages: Vec<StageRecord> = stages.map(|_| stage(input)).collect::<Result<_>>()?;
    let subject = if input.arbitrary()? {
        Subject::Segment(id(covered))
    } else {
        let covered: Vec<SegmentId> = (0..covered).map(id).collect();
        Subject::Summary {
            key_space: input.arbitrary()?,
            covered,
        }
    };
    Ok(Sidecar {
        store: store::STORE,
        imprint: store::imprint(),
        subject,
        source: *input.choose(&[
            Source::TableCapture,
            Source::RawKeys,
            Source::OrOfInputs,
            Source::Snapshot,
        ])?,
        entries: input.arbitrary()?,
        rate: store::rate(input)?,
        prefixes: Vec::new(),
        stages,
    })
}

fn stage(input: &mut Unstructured<'_>) -> Result<StageRecord> {
    let kind = *input.choose(&[
        Kind::Standard,
        Kind::Partitioned,
        Kind::Blocked,
        Kind::Classic,
        Kind::Ribbon,
    ])?;
    let probes = input.int_in_range(1..=32_u32)?;
    let groups = match kind {
        Kind::Blocked => *input.choose(&[2, 4])?,
        Kind::Ribbon => input.int_in_range(0..=15)?,
        _ => 0,
    };
    let unit = match kind {
        Kind::Partitioned => u64::from(probes),
        Kind::Blocked => 512,
        Kind::Classic | Kind::Ribbon => 64,
        _ => 1,
    };
    let bits = unit * input.int_in_range(1..=40_u64)?;
    let (seed, words) = (input.arbitrary::<u64>()?, bits.div_ceil(64));
    Ok(StageRecord {
        shape: Shape {
            kind,
            bits: Bits::new(bits),
            probes: Probes::new(probes),
            groups,
        },
        items: Items::new(input.arbitrary()?),
        words: (0..words)
            .map(|word| store::spread(seed ^ word).get())
            .collect(),
    })
}

fn identity(input: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let identity = Identity {
        store: store::STORE,
        hash: *input.choose(&[HashId::Xxh3, HashId::SipHash13])?,
        seed: Seed::from_bytes(input.arbitrary()?),
    };
    let bytes = format::encode_identity(&identity);
    assert_eq!(format::decode_identity(&bytes), Ok(identity));
    Ok(bytes)
}
