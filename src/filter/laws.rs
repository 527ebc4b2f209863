//! What every filter must keep, whatever its layout.

use super::naive::{Naive, hashes, imprint};
use super::{Chain, Filter, Kind, Scalable, ScalableOptions, Shape, Stage, StageError};
use crate::hash::KeyHash;
use crate::math::{Bits, Items, Probes, Rate};

const KINDS: [Kind; 4] = [
    Kind::Standard,
    Kind::Partitioned,
    Kind::Blocked,
    Kind::Classic,
];

fn stage(kind: Kind, items: u64, rate: f64) -> Stage {
    Stage::with_rate(kind, Items::new(items), Rate::new(rate).unwrap()).unwrap()
}

fn scalable(kind: Kind) -> Scalable {
    let first = Items::new(100);
    Scalable::new(
        imprint(1),
        ScalableOptions {
            kind,
            first,
            ..ScalableOptions::default()
        },
    )
}

/// Every filter there is, sized for 1,000 keys at 1 %.
fn all() -> Vec<Box<dyn Filter + Sync>> {
    let stages = KINDS.map(|kind| Box::new(stage(kind, 1_000, 0.01)) as Box<dyn Filter + Sync>);
    let scalable = KINDS.map(|kind| Box::new(scalable(kind)) as Box<dyn Filter + Sync>);
    stages
        .into_iter()
        .chain(scalable)
        .chain([Box::<Naive>::default() as _])
        .collect()
}

fn insert_all(filter: &(impl Filter + ?Sized), keys: impl IntoIterator<Item = KeyHash>) {
    keys.into_iter().for_each(|hash| _ = filter.insert(hash));
}

fn words(stage: &Stage) -> Vec<u64> {
    stage.words().collect()
}

/// The promise. Thirty times the keys asked for, so that overfull filters are held to it as well.
#[test]
fn no_key_is_answered_absent() {
    for filter in all() {
        for hash in hashes(1).take(30_000) {
            filter.insert(hash);
            assert!(
                filter.may_contain(hash),
                "absent right after it was inserted"
            );
        }
        assert!(hashes(1).take(30_000).all(|hash| filter.may_contain(hash)));
    }
}

/// `insert` says *new* exactly when the filter said *absent*; what the oracle calls old never is.
#[test]
fn insertion_tells_what_a_look_up_would() {
    for filter in all() {
        let oracle = Naive::default();
        let repeated = hashes(1).take(500).chain(hashes(1).take(1_000));
        for hash in repeated {
            let absent = !filter.may_contain(hash);
            let inserted = filter.insert(hash);
            assert_eq!(inserted, absent);
            assert!(oracle.insert(hash) || !inserted);
        }
        assert!(filter.items() <= oracle.items());
        assert!(filter.items().get() > 980);
    }
}

#[test]
fn an_empty_filter_holds_nothing() {
    for filter in all() {
        assert!(!hashes(1).take(1_000).any(|hash| filter.may_contain(hash)));
        assert_eq!(filter.predicted_rate(), 0.0);
        assert_eq!(filter.items().get(), 0);
    }
}

#[test]
fn the_order_of_insertion_leaves_no_trace() {
    let keys: Vec<_> = hashes(1).take(1_000).collect();
    for kind in KINDS {
        let (forward, backward) = (stage(kind, 1_000, 0.01), stage(kind, 1_000, 0.01));
        insert_all(&forward, keys.iter().copied());
        insert_all(&backward, keys.iter().rev().copied());
        assert_eq!(words(&forward), words(&backward));
    }
}

#[test]
fn batches_insert_what_single_calls_do() {
    let keys: Vec<_> = hashes(1).take(1_001).collect();
    for kind in KINDS {
        let (single, batched) = (stage(kind, 1_000, 0.01), stage(kind, 1_000, 0.01));
        insert_all(&single, keys.iter().copied());
        batched.insert_many(&keys);
        assert_eq!(words(&single), words(&batched));
        assert_eq!(single.items(), batched.items());

        let (single, batched) = (scalable(kind), scalable(kind));
        insert_all(&single, keys.iter().copied());
        batched.insert_many(&keys);
        assert_eq!(
            (single.items(), single.stages()),
            (batched.items(), batched.stages())
        );
        assert!(keys.iter().all(|&hash| batched.may_contain(hash)));
    }
}

#[test]
fn a_union_is_what_inserting_both_makes() {
    for kind in KINDS {
        let [left, right, both] = [(); 3].map(|()| stage(kind, 1_000, 0.01));
        insert_all(&left, hashes(1).take(700));
        insert_all(&right, hashes(1).skip(300).take(700));
        insert_all(&both, hashes(1).take(1_000));
        left.or_with(&right).unwrap();
        assert_eq!(words(&left), words(&both));
        assert!(left.items() >= both.items());
    }
}

#[test]
fn words_make_the_stage_they_came_from() {
    for kind in KINDS {
        let original = stage(kind, 1_000, 0.01);
        insert_all(&original, hashes(1).take(1_000));
        let copy = Stage::from_words(original.shape(), original.items(), words(&original)).unwrap();
        assert_eq!(words(&copy), words(&original));
        assert_eq!(
            (copy.shape(), copy.items()),
            (original.shape(), original.items())
        );
        for hash in hashes(2).take(10_000) {
            assert_eq!(copy.may_contain(hash), original.may_contain(hash));
        }
    }
}

/// Shapes come from files. Every one is either refused or works; none panics or divides by zero.
#[test]
fn no_shape_is_dangerous() {
    let numbers = [
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
    for kind in KINDS {
        for bits in numbers {
            for probes in [0, 1, 2, 4, 6, 7, 8, 10, 12, 64, 65, u32::MAX] {
                for groups in [0, 1, 2, 4, 8, u32::MAX] {
                    let probes = Probes::new(probes);
                    let shape = Shape {
                        kind,
                        bits: Bits::new(bits),
                        probes,
                        groups,
                    };
                    exercise(shape);
                }
            }
        }
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
fn what_cannot_be_had_is_an_error() {
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

#[test]
fn four_threads_lose_nothing() {
    const EACH: usize = 20_000;
    for filter in all() {
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let filter = &filter;
                // Each thread shares half of its keys with the next one.
                let keys = hashes(1).skip(thread * EACH / 2).take(EACH);
                scope.spawn(move || insert_all(filter.as_ref(), keys));
            }
        });
        let inserted = EACH / 2 * 5;
        assert!(
            hashes(1)
                .take(inserted)
                .all(|hash| filter.may_contain(hash))
        );
        // One key from two threads at once may count twice, and nothing counts more often.
        assert!(filter.items().get() <= 4 * EACH as u64);
    }
}

/// Keys sealed while others are being inserted: what came before the call is in the copy.
#[test]
fn a_copy_taken_amid_insertions_has_what_came_before() {
    let filter = scalable(Kind::Blocked);
    insert_all(&filter, hashes(1).take(5_000));
    std::thread::scope(|scope| {
        scope.spawn(|| insert_all(&filter, hashes(2).take(50_000)));
        for _ in 0..20 {
            let chain = filter.to_chain();
            assert!(hashes(1).take(5_000).all(|hash| chain.may_contain(hash)));
        }
    });
}

/// 99.9 % of a normal distribution lie within this many standard deviations.
const SIGMAS: f64 = 3.29;

/// Asserts that `hits` among `trials` are what `rate` would give, to either side.
fn assert_binomial(hits: usize, trials: usize, rate: f64, what: &str) {
    let (hits, trials) = (hits as f64, trials as f64);
    let slack = SIGMAS * (trials * rate * (1.0 - rate)).sqrt() + 1.0;
    let off = (hits - trials * rate).abs();
    assert!(off <= slack, "{what}: {} instead of {rate}", hits / trials);
}

/// Many small filters rather than one: a single one is as lucky as its keys.
fn measure(kind: Kind, items: u64, rate: f64) -> (usize, usize) {
    let asked = usize::try_from(items / 10).unwrap();
    let filters = 1_000_000 / items;
    let mut hits = 0;
    for seed in 0..filters {
        let filter = stage(kind, items, rate);
        let mut keys = hashes(seed + (items << 32));
        insert_all(&filter, keys.by_ref().take(10 * asked));
        hits += keys
            .take(asked)
            .filter(|&hash| filter.may_contain(hash))
            .count();
    }
    (hits, asked * usize::try_from(filters).unwrap())
}

#[test]
fn measured_rates_are_the_predicted_ones() {
    for kind in KINDS {
        for rate in [1e-1, 1e-2, 1e-3, 1e-4] {
            for items in [10, 1_000, 100_000] {
                let (hits, trials) = measure(kind, items, rate);
                let predicted = stage(kind, items, rate).layout().rate(Items::new(items));
                assert!(predicted <= rate * (1.0 + 1e-9));
                let what = format!("{kind:?}, {items} keys at {rate}");
                assert_binomial(hits, trials, predicted, &what);
            }
        }
    }
}

/// Double hashing answers 0.5 % here: among 89 keys and slices of 128 bits, one pair of positions in
/// 184 is taken, and two keys that share a pair share all 21 probes. One multiplier a probe has
/// no such floor, and gives the theory's 5e-7.
#[test]
fn small_slices_keep_a_strict_rate() {
    let shape = Shape {
        kind: Kind::Partitioned,
        bits: Bits::new(128 * 21),
        probes: Probes::new(21),
        groups: 0,
    };
    let mut hits = 0;
    for seed in 0..50 {
        let filter = Stage::new(shape).unwrap();
        let mut keys = hashes(seed);
        insert_all(&filter, keys.by_ref().take(89));
        hits += keys
            .take(40_000)
            .filter(|&hash| filter.may_contain(hash))
            .count();
    }
    // One is expected in two million; double hashing gave ten thousand.
    assert!(hits <= 8, "{hits} in 2,000,000");
}

#[test]
fn the_bits_tell_how_many_keys_and_at_what_rate() {
    for kind in KINDS {
        let filter = stage(kind, 100_000, 0.01);
        insert_all(&filter, hashes(1).take(100_000));
        let estimate = filter.estimated_items().get() as f64;
        assert!(
            (estimate / 100_000.0 - 1.0).abs() < 0.01,
            "{kind:?}: {estimate}"
        );
        let rates = filter.observed_rate() / filter.predicted_rate();
        assert!((rates - 1.0).abs() < 0.05, "{kind:?}: {rates}");
        let capacity = filter.capacity(Rate::ONE_PERCENT).get() as f64;
        assert!(
            (capacity / 100_000.0 - 1.0).abs() < 0.01,
            "{kind:?}: {capacity}"
        );
    }
}

/// A thousandfold growth, ten stages: all of them together keep the one rate that was promised.
#[test]
fn growth_keeps_the_compound_rate() {
    const TRIALS: usize = 400_000;
    for kind in KINDS {
        let options = ScalableOptions {
            kind,
            ..ScalableOptions::default()
        };
        let filter = Scalable::new(imprint(1), options);
        insert_all(&filter, hashes(1).take(1_000_000));
        let asked: Vec<_> = hashes(2).take(TRIALS).collect();
        let mut answers = vec![false; TRIALS];
        filter.contains_many(&asked, &mut answers);
        let hits = answers.iter().filter(|&&maybe| maybe).count();

        assert!(filter.predicted_rate() <= 0.01);
        assert_binomial(hits, TRIALS, filter.predicted_rate(), &format!("{kind:?}"));
        assert_eq!(filter.stages(), 10);
        assert!(
            hashes(1)
                .take(1_000_000)
                .all(|hash| filter.may_contain(hash))
        );
    }
}

/// Some keys in a small stage of each kind, computed by a second program from the pictures in the
/// files of the layouts. These words are in files out there: a layout that gives others is another
/// layout, and needs another number.
#[test]
fn layouts_are_frozen() {
    for golden in goldens() {
        let filter = Stage::new(golden.shape).unwrap();
        insert_all(&filter, hashes(0).take(golden.keys));
        assert_eq!(words(&filter), golden.words, "{:?}", golden.shape);
        let asked = hashes(1).take(10_000).enumerate();
        let maybe = asked
            .filter(|(_, hash)| filter.may_contain(*hash))
            .map(|(i, _)| i);
        assert_eq!(maybe.take(3).collect::<Vec<_>>(), golden.false_positives);
    }
}

/// What `keys` keys leave in a stage, and the first three absent keys that it takes for members.
struct Golden {
    shape: Shape,
    keys: usize,
    words: Vec<u64>,
    false_positives: [usize; 3],
}

fn goldens() -> [Golden; 5] {
    let shape = |kind, bits, probes, groups| Shape {
        kind,
        bits: Bits::new(bits),
        probes: Probes::new(probes),
        groups,
    };
    [
        Golden {
            shape: shape(Kind::Standard, 128, 3, 0),
            keys: 8,
            words: vec![0x2000_0281_3880_4000, 0x8803_0248_4610_2c00],
            false_positives: [70, 331, 438],
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

#[test]
fn sealing_and_loading_keeps_every_key() {
    for kind in KINDS {
        let filter = scalable(kind);
        insert_all(&filter, hashes(1).take(10_000));
        let sealed = filter.to_chain();
        let load = |s: &Stage| Stage::from_words(s.shape(), s.items(), words(s)).unwrap();
        let loaded = Chain::new(sealed.imprint(), sealed.stages().iter().map(load).collect());
        assert!(hashes(1).take(10_000).all(|hash| loaded.may_contain(hash)));
        assert_eq!(loaded.predicted_rate(), sealed.predicted_rate());
    }
}
