//! Every kind of damage, and the bytes that must never change.

use super::*;
use crate::filter::{Kind, Shape, Stage};
use crate::hash::{HashId, Imprint, KeyHash, Seed};
use crate::id::SegmentId;
use crate::math::{Bits, Items, Probes, Rate};

struct Random(u64);

impl Random {
    /// Xorshift64* (Vigna, 2016): the same numbers on every machine.
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn stage(kind: Kind, bits: u64, probes: u32, random: &mut Random) -> StageRecord {
    let groups = if kind == Kind::Blocked { 2 } else { 0 };
    StageRecord {
        shape: Shape {
            kind,
            bits: Bits::new(bits),
            probes: Probes::new(probes),
            groups,
        },
        items: Items::new(bits / 10),
        words: (0..bits.div_ceil(64)).map(|_| random.next()).collect(),
    }
}

fn sidecar(subject: Subject, stages: Vec<StageRecord>) -> Sidecar {
    Sidecar {
        store: StoreId::from_bytes(*b"the store's name"),
        imprint: Imprint {
            hash: HashId::Xxh3,
            seed_id: 0x1122_3344_5566_7788,
            known_answer: 0x99aa_bbcc_ddee_ff00,
        },
        subject,
        source: Source::TableCapture,
        entries: 1000,
        rate: Rate::ONE_PERCENT,
        prefixes: Vec::new(),
        stages,
    }
}

fn segment(random: &mut Random) -> Sidecar {
    let subject = Subject::Segment(SegmentId::from_bytes(*b"0123456789abcdef"));
    sidecar(subject, vec![stage(Kind::Blocked, 512 * 170, 8, random)])
}

fn summary(random: &mut Random) -> Sidecar {
    let covered = (0..100).map(|i| SegmentId::from_bytes([i; 16])).collect();
    let subject = Subject::Summary {
        key_space: 7,
        covered,
    };
    let stages = vec![
        stage(Kind::Standard, 5001, 7, random),
        stage(Kind::Partitioned, 11 * 999, 11, random),
        stage(Kind::Blocked, 512 * 32, 8, random),
    ];
    sidecar(subject, stages)
}

/// A summary filter whose first stage is static.
fn begins_static(random: &mut Random) -> Sidecar {
    let covered = (0..100).map(|i| SegmentId::from_bytes([i; 16])).collect();
    let subject = Subject::Summary {
        key_space: 7,
        covered,
    };
    let mut first = stage(Kind::Ribbon, 64 * 600, 8, random);
    first.shape.groups = 14;
    sidecar(subject, vec![first, stage(Kind::Blocked, 512, 8, random)])
}

/// A segment's keys and their prefixes.
fn with_prefixes(random: &mut Random) -> Sidecar {
    let ids = [("fixed 8", 0), ("users of a tenant", 3)];
    Sidecar {
        prefixes: ids
            .map(|(name, version)| PrefixId::new(name, version).unwrap())
            .into(),
        ..segment(random)
    }
}

fn files() -> [Vec<u8>; 4] {
    let mut random = Random(42);
    let sidecars = [
        segment(&mut random),
        summary(&mut random),
        begins_static(&mut random),
        with_prefixes(&mut random),
    ];
    sidecars.map(|sidecar| {
        let bytes = encode(&sidecar).unwrap();
        assert!(bytes.len() > 4096);
        bytes
    })
}

/// Recomputes the header's CRC-32, so that the checks behind it are reached.
fn mend_header(bytes: &mut [u8]) {
    let length = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    if length < 4 || length > bytes.len() {
        return;
    }
    let crc = crc32fast::hash(&bytes[..length - 4]);
    bytes[length - 4..length].copy_from_slice(&crc.to_le_bytes());
}

/// Recomputes the trailer for the current blocks and length.
fn mend_trailer(bytes: &mut [u8]) {
    let header = u32::from_le_bytes(bytes[12..16].try_into().unwrap()) as usize;
    let trailer = bytes.len() - 20;
    let total = (bytes.len() as u64).to_le_bytes();
    let mut check = bytes[header - 4..header].to_vec();
    for block in bytes[header..trailer].chunks(4096) {
        check.extend_from_slice(&block[block.len() - 4..]);
    }
    check.extend_from_slice(&total);
    bytes[trailer..trailer + 8].copy_from_slice(&total);
    bytes[trailer + 8..trailer + 12].copy_from_slice(&crc32fast::hash(&check).to_le_bytes());
}

fn assert_damaged(bytes: &[u8], what: &str) {
    match decode(bytes) {
        Ok(_) => panic!("{what}: accepted"),
        Err(error) => assert!(!error.is_newer(), "{what}: taken for a newer version"),
    }
}

/// The bytes that version 1 writes. If this test fails, files of earlier releases have become
/// unreadable: raise the version instead.
#[test]
fn golden_bytes() {
    let subject = Subject::Segment(SegmentId::from_bytes(*b"0123456789abcdef"));
    let stage = StageRecord {
        shape: Shape {
            kind: Kind::Standard,
            bits: Bits::new(64),
            probes: Probes::new(7),
            groups: 0,
        },
        items: Items::new(6),
        words: vec![0x0102_0304_0506_0708],
    };
    let bytes = encode(&sidecar(subject, vec![stage])).unwrap();
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, GOLDEN.concat());
}

/// Header (five lines), stage table and header CRC, the one block, trailer.
const GOLDEN: [&str; 8] = [
    "8953494556450d0a0100000094000000b400000000000000",
    "7468652073746f72652773206e616d65",
    "0101010100000000887766554433221100ffeeddccbbaa99",
    "30313233343536373839616263646566",
    "0000000000000000e80300000000000006000000000000007b14ae47e17a843f0800000000000000",
    "0100070000000000400000000000000006000000000000003d8078f6",
    "080706050403020125edcca5",
    "b400000000000000f0241ccb5349455645454e44",
];

#[test]
fn golden_checksums_of_longer_files() {
    assert_eq!(
        files().map(|bytes| crc32fast::hash(&bytes)),
        [258_624_065, 4_260_036_111, 3_934_283_312, 494_280_975]
    );
}

#[test]
fn encoded_sidecar_is_decoded_unchanged() {
    let mut random = Random(1);
    // The payload fills exactly two blocks.
    let mut whole_blocks = segment(&mut random);
    whole_blocks.stages = vec![stage(Kind::Standard, 2 * 4092 * 8, 7, &mut random)];
    let mut both = summary(&mut random);
    both.prefixes = with_prefixes(&mut random).prefixes;
    for sidecar in [
        segment(&mut random),
        summary(&mut random),
        with_prefixes(&mut random),
        both,
        whole_blocks,
    ] {
        let bytes = encode(&sidecar).unwrap();
        assert_eq!(decode(&bytes), Ok(sidecar.clone()));
        let header = verify(&bytes).unwrap();
        assert_eq!(
            decode_header(&bytes[..MAX_HEADER_BYTES]),
            Ok(header.clone())
        );
        assert_eq!(header.subject, HeaderSubject::from(&sidecar.subject));
        assert_eq!(header.total_bytes, bytes.len() as u64);
    }
}

/// One filled stage of each layout of a store is encoded and decoded.
#[test]
fn stages_of_every_layout_are_decoded_unchanged() {
    let keys = || (1_u64..=500).map(|i| KeyHash::new(i.wrapping_mul(0xd134_2543_de82_ef95)));
    for kind in [Kind::Blocked, Kind::Ribbon] {
        let stage = match kind {
            Kind::Ribbon => Stage::ribbon(keys().collect(), Rate::ONE_PERCENT).unwrap(),
            _ => Stage::with_rate(kind, Items::new(500), Rate::ONE_PERCENT).unwrap(),
        };
        keys().for_each(|hash| _ = stage.insert(hash));
        let subject = Subject::Segment(SegmentId::from_bytes([9; 16]));
        let record = StageRecord {
            shape: stage.shape(),
            items: stage.items(),
            words: stage.words().collect(),
        };
        let bytes = encode(&sidecar(subject, vec![record])).unwrap();
        let [record] = <[_; 1]>::try_from(decode(&bytes).unwrap().stages).unwrap();
        let again = Stage::from_words(record.shape, record.items, record.words).unwrap();
        assert_eq!(
            (again.shape(), again.items()),
            (stage.shape(), stage.items())
        );
        assert!(again.words().eq(stage.words()));
    }
}

/// Their numbers stay taken. A store rebuilds such a filter.
#[test]
fn stages_of_the_literature_are_not_restored() {
    for kind in [Kind::Standard, Kind::Partitioned, Kind::Classic] {
        let mut sidecar = segment(&mut Random(9));
        sidecar.stages = vec![stage(kind, 64 * 8, 8, &mut Random(9))];
        let bytes = encode(&sidecar).unwrap();
        assert_eq!(decode(&bytes), Ok(sidecar));
        let reader = Reader::begin(&bytes[..], bytes.len() as u64).unwrap();
        let refusal = reader.read::<Stage>().unwrap_err().to_string();
        assert!(refusal.contains(&format!("a {kind:?} filter")), "{refusal}");
    }
}

#[test]
fn counting_and_hash_coding_stages_are_not_encoded() {
    for kind in [
        Kind::Counting,
        Kind::Spectral,
        Kind::MinimalIncrease,
        Kind::HashCoding,
    ] {
        let mut sidecar = segment(&mut Random(9));
        sidecar.stages[0].shape.kind = kind;
        let error = encode(&sidecar).unwrap_err();
        assert!(error.to_string().contains("kind of stage"), "{error}");
    }
}

#[test]
fn a_summary_of_very_many_segments_reads_back() {
    const SEGMENTS: u128 = if cfg!(miri) { 1_000 } else { 100_000 };
    let mut random = Random(2);
    let covered = (0..SEGMENTS).map(|i| SegmentId::from_bytes(i.to_le_bytes()));
    let subject = Subject::Summary {
        key_space: 0,
        covered: covered.collect(),
    };
    let sidecar = sidecar(subject, vec![stage(Kind::Blocked, 512, 8, &mut random)]);
    assert_eq!(decode(&encode(&sidecar).unwrap()), Ok(sidecar));
}

/// Cassandra's filters have no checksum, and there a flipped bit loses reads.
#[test]
#[cfg_attr(miri, ignore = "very many files, one thread")]
fn every_flipped_bit_is_noticed() {
    for mut bytes in files() {
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            let error = verify(&bytes).expect_err("a flipped bit is accepted");
            assert!(!error.is_newer(), "bit {bit} is taken for a newer version");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        decode(&bytes).unwrap();
    }
}

#[test]
#[cfg_attr(miri, ignore = "very many files, one thread")]
fn every_truncation_and_every_extension_is_noticed() {
    for bytes in files() {
        for length in 0..bytes.len() {
            assert_damaged(&bytes[..length], "truncated");
        }
        let mut longer = bytes.clone();
        for _ in 0..5000 {
            longer.push(0);
            assert_damaged(&longer, "extended");
        }
        assert_damaged(&bytes.repeat(2), "doubled");
    }
}

#[test]
fn swapped_repeated_zeroed_or_foreign_block_is_refused() {
    let mut random = Random(3);
    let [one, other] = [(); 2].map(|()| encode(&segment(&mut random)).unwrap());
    let first = 148..148 + 4096;
    let second = first.end..first.end + 4096;
    type Mutation<'a> = (&'a str, &'a dyn Fn(&mut Vec<u8>));
    let mutations: [Mutation<'_>; 5] = [
        ("swapped", &|bytes| {
            bytes[first.clone()].copy_from_slice(&one[second.clone()]);
            bytes[second.clone()].copy_from_slice(&one[first.clone()]);
        }),
        ("repeated", &|bytes| {
            bytes.copy_within(first.clone(), second.start)
        }),
        ("zeroed", &|bytes| bytes[first.clone()].fill(0)),
        ("spliced", &|bytes| {
            bytes[first.clone()].copy_from_slice(&other[first.clone()])
        }),
        ("all of another", &|bytes| {
            let end = bytes.len() - 20;
            bytes[148..end].copy_from_slice(&other[148..end]);
        }),
    ];
    for (what, mutate) in mutations {
        let mut bytes = one.clone();
        mutate(&mut bytes);
        assert_ne!(bytes, one);
        let error = decode(&bytes).unwrap_err();
        assert!(
            matches!(error, FormatError::Checksum { .. }),
            "{what}: {error}"
        );
    }
}

#[test]
fn header_of_another_file_is_refused() {
    let mut random = Random(4);
    let one = segment(&mut random);
    let mut other = one.clone();
    other.subject = Subject::Segment(SegmentId::from_bytes([9; 16]));
    let mut bytes = encode(&one).unwrap();
    bytes[..148].copy_from_slice(&encode(&other).unwrap()[..148]);
    let error = decode(&bytes).unwrap_err();
    let trailer = matches!(
        error,
        FormatError::Checksum {
            part: Part::Trailer,
            ..
        }
    );
    assert!(trailer, "{error}");
}

#[test]
fn empty_file_and_sidecar_without_stages_are_refused() {
    assert!(decode(&[]).is_err());
    assert!(decode(&[0; 5]).is_err());
    assert!(decode(&vec![0; 1 << 16]).is_err());
    let mut empty = segment(&mut Random(5));
    empty.stages.clear();
    let error = encode(&empty).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("number of stages is 0; expected 1 to 32")
    );
}

#[test]
fn sidecar_that_would_not_decode_is_not_encoded() {
    let good = segment(&mut Random(6));
    let spoil: [fn(&mut Sidecar); 7] = [
        |s| s.stages[0].words.truncate(1),
        |s| s.stages[0].shape.probes = Probes::new(33),
        |s| s.stages[0].shape.probes = Probes::new(0),
        |s| s.stages[0].shape.groups = 3,
        |s| s.stages[0].shape.bits = Bits::new(0),
        |s| s.stages[0].shape.bits = Bits::new(u64::MAX),
        |s| s.stages = vec![s.stages[0].clone(); 33],
    ];
    for spoil in spoil {
        let mut bad = good.clone();
        spoil(&mut bad);
        assert!(encode(&bad).is_err(), "{:?}", bad.stages[0].shape);
    }
}

/// A hostile header has a right checksum and consistent lengths. Its claims are compared with the
/// actual bytes before any memory is allocated: the first would take 32 TiB.
#[test]
fn claimed_lengths_are_checked_before_allocation() {
    let [bytes, summary, ..] = files();
    let claim = |bytes: &[u8], changes: &[(usize, &[u8])]| {
        let mut hostile = bytes.to_vec();
        for (at, value) in changes {
            hostile[*at..at + value.len()].copy_from_slice(value);
        }
        mend_header(&mut hostile);
        decode(&hostile).unwrap_err()
    };
    let bits = 1_u64 << 48;
    let payload = bits / 8;
    let total = payload + payload.div_ceil(4092) * 4 + 148 + 20;
    let (bits, payload, total) = (
        bits.to_le_bytes(),
        payload.to_le_bytes(),
        total.to_le_bytes(),
    );
    let huge: &[(usize, &[u8])] = &[(128, &bits), (112, &payload), (16, &total)];
    let error = claim(&bytes, huge).to_string();
    assert!(error.contains("total length"), "{error}");
    let most = u64::MAX.to_le_bytes();
    for changes in [
        &huge[..1],
        &[(128, &most[..])],
        &[(128, &most[..]), (112, &most[..]), (16, &most[..])],
        &[(43, &[0])],
        &[(43, &[33])],
        &[(43, &[255])],
        &[(122, &[33, 0])],
        &[(122, &[0, 0])],
        &[(122, &[255, 255])],
    ] {
        let error = claim(&bytes, changes);
        assert!(!matches!(error, FormatError::Memory { .. }), "{error}");
    }
    let covered = claim(&summary, &[(80, &most[..])]);
    assert!(!matches!(covered, FormatError::Memory { .. }), "{covered}");
}

#[test]
fn intact_newer_version_is_distinguished_from_damage() {
    let [bytes, ..] = files();
    for (at, value) in [(8, 2), (9, 1), (10, 1), (10, 0x80)] {
        let mut newer = bytes.clone();
        newer[at] = value;
        assert_damaged(&newer, "not mended");
        mend_header(&mut newer);
        assert!(decode(&newer).unwrap_err().is_newer());
        assert!(decode_header(&newer).unwrap_err().is_newer());
    }
    let mut shorter = bytes[..16].to_vec();
    shorter[8] = 2;
    shorter[12] = 20;
    shorter.extend_from_slice(&crc32fast::hash(&shorter).to_le_bytes());
    assert!(decode(&shorter).unwrap_err().is_newer());

    let mut version_0 = bytes;
    version_0[8] = 0;
    mend_header(&mut version_0);
    assert_damaged(&version_0, "version 0");
}

/// In every later version, the header's length and its checksum stay two separate fields.
#[test]
fn a_header_whose_checksum_overlaps_its_length_is_damaged() {
    let [bytes, ..] = files();
    let mut found = (4..u16::MAX).filter_map(|version| {
        let mut header = bytes[..15].to_vec();
        header[8..10].copy_from_slice(&version.to_le_bytes());
        header[12..15].copy_from_slice(&[19, 0, 0]);
        let crc = crc32fast::hash(&header).to_le_bytes();
        header.extend_from_slice(&crc);
        // Then the byte that belongs to both has the right value for both.
        (crc[0] == 0).then_some(header)
    });
    let overlapping = found.next().expect("one of 256 fits");
    assert_damaged(&overlapping, "a header of 19 bytes");
}

#[test]
fn size_of_zero_or_of_partial_lines_is_refused() {
    let shape = |bits| Shape {
        kind: Kind::Blocked,
        bits: Bits::new(bits),
        probes: Probes::new(8),
        groups: 2,
    };
    for bits in [512, 1 << 48] {
        assert_eq!(layout::check_shape(&shape(bits), 0), Ok(()));
    }
    for bits in [0, 513, (1 << 48) + 512] {
        let error = layout::check_shape(&shape(bits), 0).unwrap_err();
        assert!(error.to_string().contains("number of bits"), "{error}");
    }
}

#[test]
fn every_source_reads_back_and_has_a_name() {
    let mut sidecar = segment(&mut Random(8));
    for (source, name) in [
        (Source::TableCapture, "table capture"),
        (Source::RawKeys, "raw keys"),
        (Source::OrOfInputs, "or of inputs"),
        (Source::Snapshot, "snapshot"),
    ] {
        sidecar.source = source;
        assert_eq!(decode(&encode(&sidecar).unwrap()).unwrap().source, source);
        assert_eq!(source.to_string(), name);
    }
}

#[test]
fn store_id_is_printed_as_hex() {
    let store = StoreId::from_bytes(*b"the store's name");
    assert_eq!(store.to_string(), "7468652073746f72652773206e616d65");
    assert_eq!(format!("{store:?}"), format!("StoreId({store})"));
}

#[test]
fn error_names_the_part_and_its_offset() {
    let [mut bytes, ..] = files();
    bytes[148 + 4096 + 5] ^= 1;
    let text = decode(&bytes).unwrap_err().to_string();
    assert!(
        text.starts_with("byte 8336: the CRC-32 of the block 1 is "),
        "{text}"
    );
}

/// All checksums match, but a whole block is missing or too many: only the lengths reveal it.
#[test]
fn missing_or_extra_block_is_refused() {
    let [bytes, ..] = files();
    let first = 148..148 + 4096;
    let mut shorter = bytes.clone();
    shorter.drain(first.clone());
    let mut longer = bytes.clone();
    longer.splice(first.start..first.start, bytes[first].iter().copied());
    for mut bytes in [shorter, longer] {
        mend_trailer(&mut bytes);
        let error = decode(&bytes).unwrap_err();
        let total = matches!(error, FormatError::Length { offset: 16, .. });
        assert!(total, "{error}");
    }
}

/// Header fields take any value behind valid checksums. The result is an error, or a sidecar with
/// exactly the values in the bytes.
#[test]
#[cfg_attr(miri, ignore = "very many files, one thread")]
fn mutated_header_is_refused_or_decoded_exactly() {
    let mut random = Random(7);
    let mut understood = 0;
    for original in files() {
        for _ in 0..50_000 {
            let mut bytes = original.clone();
            for _ in 0..=random.below(2) {
                bytes[16 + random.below(200)] = random.next() as u8;
            }
            mend_header(&mut bytes);
            mend_trailer(&mut bytes);
            if let Ok(sidecar) = decode(&bytes) {
                understood += 1;
                assert_eq!(encode(&sidecar).unwrap(), bytes);
            }
        }
    }
    assert!(
        understood > 1000,
        "only {understood}: the checksums are not mended"
    );
}

#[test]
#[cfg_attr(miri, ignore = "very many files, one thread")]
fn mutated_bytes_are_an_error() {
    let mut random = Random(8);
    for original in files() {
        for _ in 0..20_000 {
            let mut bytes = original.clone();
            bytes.truncate(random.below(bytes.len()) + 1);
            for _ in 0..=random.below(8) {
                let at = random.below(bytes.len());
                bytes[at] = random.next() as u8;
            }
            assert!(decode(&bytes).is_err() || bytes == original);
        }
    }
}

const IDENTITY: Identity = Identity {
    store: StoreId::from_bytes([3; 16]),
    hash: HashId::SipHash13,
    seed: Seed::from_bytes([5; 16]),
};

#[test]
fn an_identity_reads_back_and_its_length_is_frozen() {
    let bytes = encode_identity(&IDENTITY);
    assert_eq!(bytes.len(), 60);
    assert_eq!(decode_identity(&bytes), Ok(IDENTITY));
}

#[test]
fn a_damaged_identity_is_noticed() {
    let bytes = encode_identity(&IDENTITY);
    for length in 0..bytes.len() {
        assert!(decode_identity(&bytes[..length]).is_err(), "{length} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        let error = decode_identity(&flipped).unwrap_err();
        assert!(
            !error.is_newer(),
            "bit {bit} takes damage for a newer version"
        );
    }
}
