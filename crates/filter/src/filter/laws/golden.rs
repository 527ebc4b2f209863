//! Bits and false positives that must never change.
//!
//! A filter composed of several (`Scalable`, `Growing`, `RecurringMinimum`, `Composite`, `Sliding`)
//! has no bytes of its own. It is stored as the stages or counters that it consists of, each in a
//! layout that is frozen here. The part that a key goes to may change from one version to the next,
//! because a reader probes all parts. That the parts are read back unchanged is a law in
//! `merging.rs`.

use super::{insert_all, words};
use crate::filter::naive::hashes;
use crate::filter::{Kind, Shape, Stage};
use crate::hash::KeyHash;
use crate::math::{Bits, Probes};

/// Some keys in a small stage of each kind, computed by a second program from the pictures in the
/// files of the layouts. Released files contain such words. A layout that gives other words is a
/// new layout and needs a new number.
#[test]
fn layouts_are_frozen() {
    are_frozen(&goldens());
}

/// The law of the layouts.
pub fn are_frozen(goldens: &[Golden]) {
    for golden in goldens {
        let filter = Stage::new(golden.shape).unwrap();
        insert_all(&filter, hashes(0).take(golden.keys));
        assert_eq!(words(&filter), golden.words, "{:?}", golden.shape);
        let maybe = false_positives(|hash| filter.may_contain(hash));
        assert_eq!(maybe, golden.false_positives);
    }
}

pub fn shape(kind: Kind, bits: u64, probes: u32, groups: u32) -> Shape {
    Shape {
        kind,
        bits: Bits::new(bits),
        probes: Probes::new(probes),
        groups,
    }
}

/// The indexes of the first three false positives among 10,000 absent keys.
pub fn false_positives(maybe: impl Fn(KeyHash) -> bool) -> [usize; 3] {
    let asked = hashes(1).take(10_000).enumerate();
    let mut hits = asked.filter(|(_, hash)| maybe(*hash)).map(|(i, _)| i);
    std::array::from_fn(|_| hits.next().unwrap_or(usize::MAX))
}

/// The words of a stage after `keys` keys, and the first three false positives.
pub struct Golden {
    pub shape: Shape,
    pub keys: usize,
    pub words: Vec<u64>,
    pub false_positives: [usize; 3],
}

fn goldens() -> [Golden; 3] {
    [
        Golden {
            shape: shape(Kind::Blocked, 1024, 6, 2),
            keys: 64,
            words: vec![
                0x6d72_a0a5_e9a7_e49c,
                0x818c_1200_82d0_c712,
                0x400b_0c24_1201_0009,
                0x00c1_7d68_a1a4_1880,
                0xe906_0470_1080_0860,
                0xc508_8621_cd30_e2c0,
                0x1b44_09a4_2884_b3c0,
                0xa330_8002_1cc6_0160,
                0xa463_0800_0988_000a,
                0x218f_15a3_c544_d916,
                0x001b_1524_804b_d901,
                0xc530_0ce2_18b5_6251,
                0x4468_8144_0a11_00e0,
                0xb056_04c2_0040_0607,
                0xa091_32e2_a106_7000,
                0x0c15_2ab4_c06f_6769,
            ],
            false_positives: [1138, 2099, 3071],
        },
        Golden {
            shape: shape(Kind::Blocked, 1024, 8, 4),
            keys: 64,
            words: vec![
                0x8011_9fb2_bc4e_f187,
                0x086c_5448_0324_db03,
                0x0906_4500_48ec_ec90,
                0xe0cf_f16e_50e8_5682,
                0x149c_0794_e201_2800,
                0xa134_f8c8_f304_e27c,
                0xdb40_8781_4013_7d80,
                0xf227_2c2e_14f0_3077,
                0xe335_8a81_4d40_b852,
                0x952a_2b95_0715_8169,
                0xe797_3c68_540d_9c10,
                0x4aeb_86c0_3f71_8150,
                0xeb0b_aa62_cd99_c10c,
                0x4244_85a1_812c_111d,
                0x000a_a710_053a_8c62,
                0x2822_53ac_09cb_b6ad,
            ],
            false_positives: [605, 4082, 5632],
        },
        Golden {
            shape: shape(Kind::Blocked, 512, 10, 2),
            keys: 32,
            words: vec![
                0x6c01_e82c_4bb7_c412,
                0x618f_75e3_d750_f590,
                0x487b_1f8c_126f_9b01,
                0x4780_7fa8_db2f_33d1,
                0x3904_d20a_da5f_ee20,
                0xbd24_e31a_389a_b3ae,
                0xf1d0_d33c_1463_3bf4,
                0xb2cc_a630_4996_6ce3,
            ],
            false_positives: [395, 2487, 4853],
        },
    ]
}
