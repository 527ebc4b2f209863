//! The hashes are frozen: if any value here changed, every stored filter would answer for other
//! keys.

use super::*;

const SEED: Seed = Seed::from_bytes([7; 16]);

/// A seed whose halves differ.
const DISTINCT: Seed = Seed::from_bytes([
    0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18, 0x19, 0x1a, 0x1b, 0x1c, 0x1d, 0x1e, 0x1f,
]);

/// Under [`DISTINCT`], the hashes of the prefixes of [`KNOWN_BYTES`] with these lengths: XXH3 and
/// SipHash-1-3, and then both remixed. They were computed by other code than this: XXH3 by the
/// reference library in C (0.8.4, through Python's `xxhash` 4.1.0), SipHash by the C library in
/// Python's `siphash24` 1.9, the remixing in Python.
const GOLDEN: [(usize, [u64; 2], [u64; 2]); 12] = [
    (
        0,
        [0xebb4_123e_33d8_673d, 0x3f92_d1a0_03fc_ac19],
        [0x39c1_abae_f5b8_3e2b, 0x1e71_91c7_b713_57b1],
    ),
    (
        3,
        [0x5503_a0d6_3725_7239, 0x5a6e_0a4a_c039_6742],
        [0xc25a_c322_a99a_39b7, 0x8543_d62b_b8d5_f2c8],
    ),
    (
        4,
        [0x1058_19d0_ab2f_5f66, 0xca43_e5ef_a8f2_1d1f],
        [0x701f_f6fe_0d8a_e786, 0xe411_3933_7c0b_9570],
    ),
    (
        8,
        [0xfdf8_7cb0_81f5_e6c6, 0xda9f_db63_84ec_cd93],
        [0xe50d_71c2_4a18_2d46, 0x5477_777e_e270_4370],
    ),
    (
        9,
        [0xb039_9fa8_a782_b843, 0x31c2_13a4_104b_f696],
        [0x8a4d_84cf_d241_0fd3, 0xa022_6bc8_2f34_5b22],
    ),
    (
        16,
        [0x2667_f96b_6556_c713, 0x585c_60fb_82fa_e54c],
        [0xe7ac_4d67_5e57_7cb8, 0x31a1_0372_12ef_543f],
    ),
    (
        17,
        [0x1bfb_f07c_0b7e_0a7a, 0x00bf_9455_420f_7934],
        [0xf4f0_41a9_1ed1_0c56, 0xc8e0_2f1c_7c97_5019],
    ),
    (
        128,
        [0x6317_42bb_1aae_f6c2, 0x1388_ce5e_d324_c7fe],
        [0x0081_0d05_0d67_a871, 0x16d9_c839_336f_14a0],
    ),
    (
        129,
        [0xc2d5_78be_e426_2cea, 0x2e93_a271_8c73_6681],
        [0xd1c1_dbf6_1b17_14b4, 0x46d8_1abb_6a59_0170],
    ),
    (
        240,
        [0x1eec_bc20_33a2_9795, 0x4076_9cb9_9cd0_2d8a],
        [0x3899_713f_63ca_7ecd, 0xbe3a_dc3f_f664_acdb],
    ),
    (
        241,
        [0x8a44_e0c0_3f5e_abf7, 0x677e_f43e_838b_9b04],
        [0x1339_4053_6644_8dbf, 0xd492_f8b6_6984_42ea],
    ),
    (
        1_000,
        [0xb43c_a3d0_6303_ab90, 0x8022_6a55_50ff_22a5],
        [0xf307_0ec1_47ee_3640, 0xe936_7319_17e8_6570],
    ),
];

fn hashers() -> [KeyHasher; 2] {
    [HashId::Xxh3, HashId::SipHash13].map(|id| KeyHasher::new(id, DISTINCT))
}

#[test]
fn hashes_of_keys_of_any_length_are_frozen() {
    for (length, plain, for_summary) in GOLDEN {
        let hashes = hashers().map(|hasher| hasher.hash(&KNOWN_BYTES[..length]));
        assert_eq!(hashes.map(KeyHash::get), plain, "{length} bytes");
        let again = hashes.map(|hash| hash.for_summary().get());
        assert_eq!(again, for_summary, "{length} bytes, remixed");
    }
    let unseeded = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([0; 16]));
    assert_eq!(unseeded.hash(b"").get(), 0x2d06_8005_38d3_94c2);
}

/// Computed by the same code as [`GOLDEN`], from all fixed keys.
#[test]
fn stored_imprints_are_frozen() {
    let seed_id = 0x698b_4a94_63f9_a34b;
    let answers = [0x7984_9ed7_716d_1242, 0x9e35_96f6_5032_5435];
    for (hasher, known_answer) in hashers().into_iter().zip(answers) {
        let golden = Imprint {
            hash: hasher.id(),
            seed_id,
            known_answer,
        };
        assert_eq!(hasher.imprint(), golden);
    }
}

/// A hash that changes only for keys of `first` to `last` bytes.
#[test]
fn imprint_detects_hash_drift_at_any_key_length() {
    let ranges = [
        (0, 0),
        (1, 3),
        (4, 8),
        (9, 16),
        (17, 128),
        (129, 240),
        (241, 1_024),
        (1_025, usize::MAX),
    ];
    for hasher in hashers() {
        let known = hasher.imprint().known_answer;
        for (first, last) in ranges {
            let drifted = known_answer(|key| {
                let hash = hasher.hash(key).get();
                KeyHash::new(hash ^ u64::from((first..=last).contains(&key.len())))
            });
            assert_ne!(drifted, known, "{first} to {last} bytes");
        }
    }
}

#[test]
fn imprint_differs_by_hash_function_and_seed() {
    let a = KeyHasher::new(HashId::Xxh3, SEED).imprint();
    let b = KeyHasher::new(HashId::SipHash13, SEED).imprint();
    let c = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([8; 16])).imprint();
    assert_ne!(a, b);
    assert_ne!(a, c);
    assert_eq!(a, KeyHasher::new(HashId::Xxh3, SEED).imprint());
}

#[test]
fn remixing_is_bijective_and_frozen() {
    let golden = KeyHash::new(0x0123_4567_89ab_cdef).for_summary();
    assert_eq!(golden.get(), 0xe977_2764_45ec_5248);
    let hashes: std::collections::HashSet<_> = (0..10_000_u64)
        .map(|i| KeyHash::new(i << 30).for_summary())
        .collect();
    assert_eq!(hashes.len(), 10_000, "it is a bijection");
    let imprint = KeyHasher::new(HashId::Xxh3, SEED).imprint();
    assert_ne!(imprint.for_summary(), imprint);
}

#[test]
fn debug_output_hides_the_seed() {
    assert_eq!(format!("{SEED:?}"), "Seed(secret)");
    // A regression: the half of the seed that XXH3 takes was once printed with every struct that
    // holds a hasher.
    let hasher = format!("{:?}", KeyHasher::new(HashId::Xxh3, SEED));
    assert_eq!(hasher, "KeyHasher { id: Xxh3, seed: Seed(secret), .. }");
}
