//! Counters, codes and false positives that must never change.

use crate::filter::laws_of_filters::golden::{Golden, are_frozen, false_positives, shape};
use crate::filter::naive::hashes;
use crate::filter::{Counting, HashCoding, Kind, MinimalIncrease, Spectral};

#[test]
fn layouts_of_the_literature_are_frozen() {
    are_frozen(&[
        Golden {
            shape: shape(Kind::Standard, 128, 3, 0),
            keys: 8,
            words: vec![0x2000_0281_3880_4000, 0x8803_0248_4610_2c00],
            false_positives: [70, 331, 438],
        },
        Golden {
            shape: shape(Kind::Classic, 128, 3, 0),
            keys: 8,
            words: vec![0x1000_0141_1880_4000, 0x4400_8228_4210_2900],
            false_positives: [510, 739, 1123],
        },
        Golden {
            shape: shape(Kind::Partitioned, 192, 3, 0),
            keys: 8,
            words: vec![
                0x0100_0020_4011_4880,
                0xa108_2040_0008_4000,
                0x0012_9420_0000_2800,
            ],
            false_positives: [994, 1136, 1406],
        },
    ]);
}

#[test]
fn counters_are_frozen() {
    let mut counting = Counting::new(shape(Kind::Counting, 512, 2, 4)).unwrap();
    hashes(0)
        .take(60)
        .for_each(|hash| _ = counting.insert(hash));
    let expected = [
        0x0100_1321_2001_1210,
        0x1101_3000_1001_1103,
        0x0010_2200_0031_3020,
        0x2111_0002_2121_2120,
        0x0310_1111_1001_3110,
        0x0022_0010_1321_2011,
        0x0010_0100_0200_0110,
        0x2221_0003_1311_3202,
    ];
    assert_eq!(counting.words(), expected);
    assert_eq!(
        false_positives(|hash| counting.may_contain(hash)),
        [0, 1, 10]
    );
}

#[test]
fn multiplicities_are_frozen() {
    let mut spectral = Spectral::new(shape(Kind::Spectral, 1024, 2, 8)).unwrap();
    (0..3).for_each(|_| {
        hashes(0)
            .take(20)
            .for_each(|hash| _ = spectral.insert(hash))
    });
    let expected = [
        0x0600_0000_0000_0000,
        0x0003_0000_0300_0000,
        0x0000_0003_0300_0003,
        0x0003_0000_0300_0000,
        0x0000_0300_0300_0000,
        0x0000_0000_0603_0000,
        0x0300_0300_0303_0300,
        0x0000_0000_0000_0003,
        0x0300_0000_0003_0000,
        0x0003_0000_0000_0000,
        0x0003_0300_0300_0000,
        0x0000_0000_0000_0000,
        0x0003_0000_0000_0300,
        0x0000_0300_0000_0000,
        0x0300_0000_0603_0003,
        0x0600_0300_0000_0009,
    ];
    assert_eq!(spectral.words(), expected);
    assert_eq!(
        false_positives(|hash| spectral.may_contain(hash)),
        [12, 13, 63]
    );
}

#[test]
fn minimal_increase_is_frozen() {
    let mut filter = MinimalIncrease::new(shape(Kind::MinimalIncrease, 1024, 2, 8)).unwrap();
    for hash in hashes(0).take(30) {
        (0..3).for_each(|_| _ = filter.insert(hash));
    }
    let expected = [
        0x0300_0000_0000_0300,
        0x0003_0000_0300_0603,
        0x0000_0003_0300_0003,
        0x0003_0000_0300_0000,
        0x0000_0300_0300_0000,
        0x0000_0300_0606_0000,
        0x0300_0300_0303_0300,
        0x0000_0000_0000_0003,
        0x0300_0003_0303_0000,
        0x0006_0000_0003_0000,
        0x0306_0303_0300_0000,
        0x0000_0000_0000_0300,
        0x0003_0000_0000_0300,
        0x0000_0300_0000_0000,
        0x0300_0000_0303_0003,
        0x0303_0300_0000_0006,
    ];
    assert_eq!(filter.words(), expected);
    assert_eq!(
        false_positives(|hash| filter.may_contain(hash)),
        [0, 12, 13]
    );
}

#[test]
fn codes_are_frozen() {
    let mut codes = HashCoding::new(shape(Kind::HashCoding, 256, 1, 8)).unwrap();
    hashes(0)
        .take(20)
        .for_each(|hash| _ = codes.insert(hash).unwrap());
    let expected = [
        0xf200_ecc0_008f_d800,
        0xed8b_88e0_0000_ab96,
        0x00aa_f5e2_0000_0000,
        0xd400_a500_af8d_b2c8,
    ];
    assert_eq!(codes.words(), expected);
    assert_eq!(
        false_positives(|hash| codes.may_contain(hash)),
        [50, 54, 130]
    );
}
