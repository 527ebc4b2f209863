//! Shapes come from files: each is either refused or works.

use super::hashes;
use super::subjects::KINDS;
use crate::filter::{Kind, Shape, ShapeError, Stage, StageError};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Probes, Rate};

const ALL_KINDS: [Kind; 9] = [
    Kind::Standard,
    Kind::Partitioned,
    Kind::Blocked,
    Kind::Classic,
    Kind::Counting,
    Kind::Spectral,
    Kind::MinimalIncrease,
    Kind::HashCoding,
    Kind::Ribbon,
];

/// Every kind with valid and invalid sizes.
pub fn shapes() -> impl Iterator<Item = Shape> {
    const SIZES: [u64; 17] = [
        0,
        1,
        2,
        3,
        4,
        6,
        8,
        10,
        63,
        64,
        65,
        448,
        512,
        576,
        1024,
        u64::MAX - 63,
        u64::MAX,
    ];
    const PROBES: [u32; 12] = [0, 1, 2, 4, 6, 7, 8, 10, 12, 64, 65, u32::MAX];
    const GROUPS: [u32; 9] = [0, 1, 2, 4, 8, 16, 32, 65, u32::MAX];
    let shape = |kind, bits, probes, groups| Shape {
        kind,
        bits: Bits::new(bits),
        probes: Probes::new(probes),
        groups,
    };
    let of_kind = move |kind| {
        let sizes = SIZES.into_iter();
        let probed = sizes.flat_map(move |bits| PROBES.map(|probes| (bits, probes)));
        probed
            .flat_map(move |(bits, probes)| GROUPS.map(|groups| shape(kind, bits, probes, groups)))
    };
    ALL_KINDS.into_iter().flat_map(of_kind)
}

/// No shape panics, divides by zero, or reads outside its words.
#[test]
fn no_shape_panics_or_reads_out_of_bounds() {
    for shape in shapes() {
        exercise(shape);
    }
}

/// A shape is read by at most one type, which is that of its kind.
#[test]
fn shape_is_accepted_by_at_most_one_type() {
    let mut stages = 0_usize;
    for shape in shapes().filter(|shape| shape.bits.get() <= 1024) {
        let stage = Stage::new(shape).is_ok();
        let kind = shape.kind;
        assert!(
            !stage || KINDS.contains(&kind) || kind.is_static(),
            "{shape:?}"
        );
        stages += usize::from(stage);
    }
    assert!(stages > 10 * KINDS.len().min(2), "{stages}");
}

/// No empty stage is made of counters, nor of cells that are solved from all keys at once. The
/// error says what to do.
#[test]
fn empty_stage_of_static_or_counting_kind_is_refused() {
    for kind in ALL_KINDS.into_iter().filter(|kind| !KINDS.contains(kind)) {
        let refusal = Stage::with_rate(kind, Items::new(9), Rate::ONE_PERCENT).unwrap_err();
        let expected = ShapeError::Kind {
            kind,
            wanted: "filter that takes keys one by one",
        };
        assert_eq!(refusal, StageError::Shape(expected));
    }
}

fn exercise(shape: Shape) {
    for count in [0, 1, 7, 8, 9, 16] {
        for word in [0, 0x5555, u64::MAX] {
            let offered = Stage::from_words(shape, Items::new(u64::MAX), vec![word; count]);
            let Ok(stage) = offered else { continue };
            assert_eq!(stage.shape(), shape);
            assert_eq!(stage.words().count(), count);
            for hash in [0, 1, u64::MAX].map(KeyHash::new) {
                stage.prefetch(hash);
                stage.insert(hash);
                assert!(stage.may_contain(hash));
            }
            assert!((0.0..=1.0).contains(&stage.predicted_rate()));
            assert!((0.0..=1.0).contains(&stage.observed_rate()));
            assert!((0.0..=1.0).contains(&stage.fill()));
            stage.estimated_items();
            stage.capacity(Rate::ONE_PERCENT);
        }
    }
}

#[test]
fn impossible_stage_size_is_an_error() {
    let most = Items::new(u64::MAX);
    for kind in KINDS {
        assert!(Stage::with_rate(kind, most, Rate::ONE_PERCENT).is_err());
        let beyond = Stage::with_rate(kind, Items::new(1 << 56), Rate::ONE_PERCENT);
        assert!(
            matches!(beyond, Err(StageError::Memory { .. })),
            "{beyond:?}"
        );
    }
}

/// More bits than a 32-bit number can index: a fifth of the keys' bits is beyond that.
#[test]
fn bits_beyond_32_bit_indexes_are_used() {
    const KEYS: usize = 10_000;
    const NUMBERED: u64 = 1 << 32;
    for kind in KINDS {
        let stage = Stage::with_rate(kind, Items::new(560_000_000), Rate::ONE_PERCENT).unwrap();
        hashes(1).take(KEYS).for_each(|hash| _ = stage.insert(hash));
        assert!(hashes(1).take(KEYS).all(|hash| stage.may_contain(hash)));
        assert!(!hashes(2).take(KEYS).any(|hash| stage.may_contain(hash)));

        let ones = |skipped: u64| -> u64 {
            let words = stage.words().skip((skipped / 64) as usize);
            words.map(|word| u64::from(word.count_ones())).sum()
        };
        let past = ones(NUMBERED) as f64 / ones(0) as f64;
        let bits = stage.size().get();
        let expected = (bits - NUMBERED) as f64 / bits as f64;
        assert!(
            (past - expected).abs() < 0.02,
            "{kind:?}: {past} of the ones"
        );
    }
}
