//! Every kind of filter, into a sidecar and back.

use super::*;
use crate::filter::{
    Chain, Composite, CounterWidth, Counting, Growing, Growth, HashCoding, Kind, Membership,
    MinimalIncrease, RecurringMinimum, Shape, Sliding, SlidingOptions, Spectral, Stage, Turn,
};
use crate::hash::{HashId, Imprint, KeyHash};
use crate::id::SegmentId;
use crate::math::{Bits, Items, Probes, Rate};

const IMPRINT: Imprint = Imprint {
    hash: HashId::Xxh3,
    seed_id: 1,
    known_answer: 2,
};

fn keys() -> impl Iterator<Item = KeyHash> {
    (1_u64..=500).map(|i| KeyHash::new(i.wrapping_mul(0xd134_2543_de82_ef95)))
}

/// Keys and strangers.
fn asked() -> impl Iterator<Item = KeyHash> {
    const ASKED: u64 = if cfg!(miri) { 600 } else { 10_000 };
    (1_u64..=ASKED).map(|i| KeyHash::new(i.wrapping_mul(0xd134_2543_de82_ef95)))
}

fn record(shape: Shape, items: Items, words: &[u64]) -> StageRecord {
    StageRecord {
        role: Role::Members,
        shape,
        items,
        words: words.to_vec(),
    }
}

fn of_stage(role: Role, stage: &Stage) -> StageRecord {
    StageRecord {
        role,
        shape: stage.shape(),
        items: stage.items(),
        words: stage.words().collect(),
    }
}

fn stage_of(record: &StageRecord) -> Stage {
    Stage::from_words(record.shape, record.items, record.words.clone()).unwrap()
}

fn bytes_of(stages: Vec<StageRecord>) -> Vec<u8> {
    let sidecar = Sidecar {
        store: StoreId::from_bytes([7; 16]),
        imprint: IMPRINT,
        subject: Subject::Segment(SegmentId::from_bytes([9; 16])),
        source: Source::RawKeys,
        entries: 500,
        rate: Rate::ONE_PERCENT,
        stages,
    };
    encode(&sidecar).unwrap()
}

/// Through the bytes of a file; the version it states comes with it.
fn through_a_file(stages: Vec<StageRecord>) -> (u8, Vec<StageRecord>) {
    let bytes = bytes_of(stages);
    (bytes[8], decode(&bytes).unwrap().stages)
}

fn the_only<const N: usize>(stages: Vec<StageRecord>) -> [StageRecord; N] {
    stages.try_into().unwrap()
}

const ITEMS: Items = Items::new(500);
const WIDTH: CounterWidth = CounterWidth::Eight;

#[test]
fn stages_of_every_layout_come_back() {
    for (kind, version) in [
        (Kind::Standard, 1),
        (Kind::Partitioned, 1),
        (Kind::Blocked, 1),
        (Kind::Classic, 2),
        (Kind::Ribbon, 3),
    ] {
        let stage = match kind {
            Kind::Ribbon => Stage::ribbon(keys().collect(), Rate::ONE_PERCENT).unwrap(),
            _ => Stage::with_rate(kind, ITEMS, Rate::ONE_PERCENT).unwrap(),
        };
        keys().for_each(|hash| _ = stage.insert(hash));
        let (stated, stages) = through_a_file(vec![of_stage(Role::Members, &stage)]);
        let again = stage_of(&stages[0]);
        assert_eq!(stated, version);
        assert_eq!(
            (again.shape(), again.items()),
            (stage.shape(), stage.items())
        );
        assert!(again.words().eq(stage.words()));
    }
}

#[test]
fn counting_filters_come_back_and_go_on() {
    let mut filter = Counting::with_rate(ITEMS, Rate::ONE_PERCENT).unwrap();
    keys().for_each(|hash| _ = filter.insert(hash));
    let stored = record(filter.shape(), filter.items(), filter.words());
    let (version, stages) = through_a_file(vec![stored]);
    let [stage] = the_only(stages);
    let mut again = Counting::from_words(stage.shape, stage.items, stage.words).unwrap();
    assert_eq!((version, &again), (2, &filter));
    keys().for_each(|hash| again.remove(hash).unwrap());
    assert!(again.words().iter().all(|&word| word == 0));
}

#[test]
fn multiplicities_come_back() {
    let mut spectral = Spectral::with_rate(ITEMS, Rate::ONE_PERCENT, WIDTH).unwrap();
    let mut minimal = MinimalIncrease::with_rate(ITEMS, Rate::ONE_PERCENT, WIDTH).unwrap();
    for (i, hash) in keys().enumerate() {
        (0..i % 7).for_each(|_| _ = spectral.insert(hash));
        (0..i % 7).for_each(|_| _ = minimal.insert(hash));
    }
    let (_, stages) = through_a_file(vec![
        record(spectral.shape(), spectral.items(), spectral.words()),
        record(minimal.shape(), minimal.items(), minimal.words()),
    ]);
    let [first, second] = the_only(stages);
    let again = Spectral::from_words(first.shape, first.items, first.words);
    assert_eq!(again, Ok(spectral));
    let again = MinimalIncrease::from_words(second.shape, second.items, second.words);
    assert_eq!(again, Ok(minimal));
}

#[test]
fn a_recurring_minimum_keeps_its_two_parts_apart() {
    let mut filter = RecurringMinimum::with_rate(ITEMS, Rate::ONE_PERCENT, WIDTH).unwrap();
    keys()
        .chain(keys())
        .for_each(|hash| _ = filter.insert(hash));
    let [primary, secondary] = [filter.primary(), filter.secondary()];
    let mut second = record(secondary.shape(), secondary.items(), secondary.words());
    second.role = Role::Recounted;
    let first = record(primary.shape(), primary.items(), primary.words());
    let (_, stages) = through_a_file(vec![first, second]);
    let [first, second] = the_only(stages);
    assert_eq!((first.role, second.role), (Role::Members, Role::Recounted));
    let read =
        |part: StageRecord| Spectral::from_words(part.shape, part.items, part.words).unwrap();
    assert_eq!(
        RecurringMinimum::from_parts(read(first), read(second)),
        filter
    );
}

/// Even a composite of first-version layouts needs the second: a reader that knows no roles would
/// take the removed keys for members.
#[test]
fn a_composite_keeps_removals_apart() {
    let half = (ITEMS, Rate::ONE_PERCENT);
    let set = Composite::with_rates(Kind::Blocked, half, half).unwrap();
    keys().for_each(|hash| set.insert(hash).unwrap());
    keys().step_by(5).for_each(|hash| set.remove(hash));
    let (version, stages) = through_a_file(vec![
        of_stage(Role::Members, set.added()),
        of_stage(Role::Removed, set.removed()),
    ]);
    assert_eq!((version, stages[1].role), (2, Role::Removed));
    let again = Composite::from_parts(stage_of(&stages[0]), stage_of(&stages[1]));
    assert_eq!(
        again.membership(keys().next().unwrap()),
        Membership::ProbablyOut
    );
    assert!(asked().all(|hash| again.membership(hash) == set.membership(hash)));
}

#[test]
fn a_window_comes_back_generation_by_generation() {
    let options = SlidingOptions {
        kind: Kind::Blocked,
        rate: Rate::ONE_PERCENT,
        items: Items::new(100),
        generations: 3,
        turn: Turn::Count,
    };
    let mut window = Sliding::new(options).unwrap();
    keys().for_each(|hash| _ = window.insert(hash));
    let stored = window
        .generations()
        .map(|stage| of_stage(Role::Members, stage));
    let (version, stages) = through_a_file(stored.collect());
    let chain = Chain::new(IMPRINT, stages.iter().map(stage_of).collect());
    let again = Sliding::from_chain(options, chain, IMPRINT).unwrap();
    assert_eq!(version, 1);
    assert!(asked().all(|hash| again.is_recent(hash) == window.is_recent(hash)));
}

#[test]
fn growing_counters_come_back_stage_by_stage() {
    let growth = Growth {
        first: Items::new(50),
        ..Growth::default()
    };
    let mut filter = Growing::counting(growth).unwrap();
    keys().for_each(|hash| _ = filter.insert(hash));
    let stored = filter.stages().iter();
    let stored = stored.map(|stage| record(stage.shape(), stage.items(), stage.words()));
    let (_, stages) = through_a_file(stored.collect());
    let read = |s: StageRecord| Counting::from_words(s.shape, s.items, s.words).unwrap();
    let again = Growing::from_stages(growth, stages.into_iter().map(read).collect());
    assert_eq!(again.as_ref(), Some(&filter));
    assert!(filter.stages().len() > 2);
}

#[test]
fn codes_come_back() {
    let mut table = HashCoding::with_rate(ITEMS, Rate::ONE_PERCENT).unwrap();
    keys().for_each(|hash| _ = table.insert(hash).unwrap());
    let stored = record(table.shape(), table.items(), table.words());
    let [stage] = the_only(through_a_file(vec![stored]).1);
    assert_eq!(HashCoding::from_words(stage.shape, stage.words), Ok(table));
}

/// A higher version than needed is damage: one filter has one file.
#[test]
fn the_version_is_the_least_that_will_do() {
    let stage = Stage::with_rate(Kind::Blocked, ITEMS, Rate::ONE_PERCENT).unwrap();
    let mut bytes = bytes_of(vec![of_stage(Role::Members, &stage)]);
    bytes[8] = 2;
    let header = 120 + 24;
    let crc = crc32fast::hash(&bytes[..header]);
    bytes[header..header + 4].copy_from_slice(&crc.to_le_bytes());
    let error = decode_header(&bytes).unwrap_err();
    assert!(!error.is_newer());
    assert!(error.to_string().contains("version is 2"), "{error}");
}

/// What version 2 writes, byte by byte, from a second program that knows the picture only. If this
/// fails, files of earlier releases have become unreadable: raise the version instead.
#[test]
fn golden_bytes_of_version_2() {
    let part = |role, kind, groups, probes, items, words: Vec<u64>| StageRecord {
        role,
        shape: Shape {
            kind,
            bits: Bits::new(words.len() as u64 * 64),
            probes: Probes::new(probes),
            groups,
        },
        items: Items::new(items),
        words,
    };
    let sidecar = Sidecar {
        store: StoreId::from_bytes(*b"the store's name"),
        imprint: Imprint {
            hash: HashId::Xxh3,
            seed_id: 0x1122_3344_5566_7788,
            known_answer: 0x99aa_bbcc_ddee_ff00,
        },
        subject: Subject::Segment(SegmentId::from_bytes(*b"0123456789abcdef")),
        source: Source::TableCapture,
        entries: 1000,
        rate: Rate::ONE_PERCENT,
        stages: vec![
            part(
                Role::Members,
                Kind::Counting,
                4,
                1,
                6,
                vec![0x0102_0304_0506_0708, 1, 2, 3],
            ),
            part(
                Role::Removed,
                Kind::Classic,
                0,
                3,
                2,
                vec![0x8000_0000_0000_0001],
            ),
        ],
    };
    let bytes = encode(&sidecar).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN.concat());
    assert_eq!(decode(&bytes), Ok(sidecar));
}

/// Header (five lines), stage table (two), header CRC, the one block, trailer.
const GOLDEN: [&str; 10] = [
    "8953494556450d0a02000000ac000000ec00000000000000",
    "7468652073746f72652773206e616d65",
    "0101010200000000887766554433221100ffeeddccbbaa99",
    "30313233343536373839616263646566",
    "0000000000000000e80300000000000008000000000000007b14ae47e17a843f2800000000000000",
    "050401000000000000010000000000000600000000000000",
    "040003000100000040000000000000000200000000000000",
    "a912a7a5",
    "08070605040302010100000000000000020000000000000003000000000000000100000000000080c6636c38",
    "ec000000000000000426e54f5349455645454e44",
];
