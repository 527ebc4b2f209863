use std::collections::BTreeSet;

use super::*;
use crate::filter::naive::hashes;
use crate::hash::{HashId, Seed};

fn hasher() -> KeyHasher {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes(*b"ranges of prefix"))
}

fn build<'k>(keys: impl Iterator<Item = (&'k [u8], &'k [u8])>, bits: u32) -> RangeFilter {
    let mut builder = RangeBuilder::new(hasher());
    keys.for_each(|(prefix, rest)| builder.insert(prefix, rest));
    builder.finish(bits).unwrap()
}

/// Of keys with numbers behind their prefix.
fn of_numbers(keys: &BTreeSet<(u64, u64)>, bits: u32) -> RangeFilter {
    let bytes: Vec<_> = keys
        .iter()
        .map(|(prefix, number)| (prefix.to_be_bytes(), number.to_be_bytes()))
        .collect();
    build(
        bytes.iter().map(|(prefix, rest)| (&prefix[..], &rest[..])),
        bits,
    )
}

struct Random(Box<dyn Iterator<Item = KeyHash>>);

impl Random {
    fn new(seed: u64) -> Self {
        Self(Box::new(hashes(seed)))
    }

    fn word(&mut self) -> u64 {
        self.0.next().unwrap().get()
    }

    fn below(&mut self, end: u64) -> u64 {
        self.word() % end
    }
}

fn holds(keys: &BTreeSet<(u64, u64)>, prefix: u64, first: u64, last: u64) -> bool {
    keys.range((prefix, first)..=(prefix, last))
        .next()
        .is_some()
}

/// All ranges of bytes between strings of a small universe, over all subsets of up to two keys and
/// many of up to six.
#[test]
fn no_range_of_bytes_that_holds_a_key_is_denied() {
    let mut universe = vec![Vec::new()];
    for length in 1..=2 {
        let shorter: Vec<Vec<u8>> = universe
            .iter()
            .filter(|rest| rest.len() + 1 == length)
            .cloned()
            .collect();
        for rest in shorter {
            universe.extend([0, 1, 255].map(|byte| [&rest[..], &[byte]].concat()));
        }
    }
    // Around the eighth byte.
    for tail in [&[][..], &[0], &[1], &[0, 0]] {
        universe.push([&[1, 0, 0, 0, 0, 0, 0][..], tail].concat());
        universe.push([&[1, 0, 0, 0, 0, 0, 0, 0][..], tail].concat());
    }
    universe.sort();
    universe.dedup();
    let mut random = Random::new(3);
    let mut subsets: Vec<Vec<&Vec<u8>>> = vec![Vec::new()];
    for (at, one) in universe.iter().enumerate() {
        subsets.extend(universe[at..].iter().map(|other| vec![one, other]));
    }
    for _ in 0..300 {
        let size = 3 + random.below(4);
        let mut pick = || &universe[random.below(universe.len() as u64) as usize];
        subsets.push((0..size).map(|_| pick()).collect());
    }
    let (mut denied, mut empty) = (0, 0);
    for keys in subsets {
        let filter = build(keys.iter().map(|rest| (&b"p"[..], &rest[..])), 12);
        for (at, first) in universe.iter().enumerate() {
            for end in &universe[at + 1..] {
                let last = last_before(end).unwrap();
                let may = filter.may_contain(b"p", number(first), last);
                let is_there = keys.iter().any(|&key| key >= first && key < end);
                assert!(may || !is_there, "{keys:?} from {first:?} before {end:?}");
                empty += u32::from(!is_there);
                denied += u32::from(!may);
            }
        }
    }
    assert!(denied * 8 > empty, "{denied} of {empty}");
}

/// Dense numbers, sparse ones, both ends of the numbers, and ranges over a border of blocks.
#[test]
fn no_range_of_numbers_that_holds_a_key_is_denied() {
    let mut random = Random::new(9);
    for dense in [false, true] {
        let mut keys = BTreeSet::from([(7, 0), (7, u64::MAX), (8, 0xffff), (8, 0x1_0000)]);
        for number in 0..20_000 {
            keys.insert(match dense {
                true => (3, 1 << 33 | number),
                false => (random.below(50), random.word() >> random.below(64)),
            });
        }
        for bits in [10, 16, 34] {
            let filter = of_numbers(&keys, bits);
            for &(prefix, number) in &keys {
                let width = random.below(1 << 16);
                for (first, last) in [
                    (number, number),
                    (number.saturating_sub(width), number),
                    (number, number.saturating_add(width)),
                    (number.saturating_sub(width), number.saturating_add(3)),
                    (0, number),
                    (number, u64::MAX),
                ] {
                    let may = filter.may_contain(&prefix.to_be_bytes(), first, last);
                    assert!(may, "{prefix} {first}..={last} at {bits} bits");
                }
            }
        }
    }
}

/// 1.15 times the bound is the most that is allowed: the sets are not infinite.
#[test]
fn empty_ranges_pass_no_more_often_than_the_bound() {
    let mut random = Random::new(1);
    let one_prefix: BTreeSet<_> = (0..60_000).map(|_| (7, random.word())).collect();
    let mut at = [0; 500];
    let streams: BTreeSet<_> = (0..60_000_usize)
        .map(|event| {
            let stream = event % at.len();
            at[stream] += 2_500 + random.below(5_000);
            (stream as u64, at[stream])
        })
        .collect();
    for keys in [one_prefix, streams] {
        let all: Vec<_> = keys.iter().copied().collect();
        for (bits, widths) in [(12, [10, 100]), (16, [100, 1_000])] {
            let filter = of_numbers(&keys, bits);
            let (shape, ..) = filter.parts();
            let bits_per_key = filter.size().get() as f64 / keys.len() as f64;
            assert!(bits_per_key < f64::from(bits) + 1.2, "{bits_per_key}");
            for width in widths {
                for near in [true, false] {
                    let (mut asked, mut passed) = (0, 0);
                    while asked < 40_000 {
                        let (prefix, number) = all[random.below(all.len() as u64) as usize];
                        let first = match near {
                            true => number.saturating_add(1),
                            false => random.below(number.max(1)),
                        };
                        let last = first.saturating_add(width - 1);
                        if !holds(&keys, prefix, first, last) {
                            asked += 1;
                            let prefix = prefix.to_be_bytes();
                            passed += u32::from(filter.may_contain(&prefix, first, last));
                        }
                    }
                    let rate = f64::from(passed) / f64::from(asked);
                    let most = 1.15 * shape.bound(width);
                    assert!(
                        rate <= most,
                        "{rate} of {most} at {bits} bits, {width}, near: {near}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_wide_or_reversed_range_is_decided_without_a_probe() {
    let keys = (0..10_000).map(|number| (5, number << 20)).collect();
    let filter = of_numbers(&keys, 16);
    let prefix = 6_u64.to_be_bytes();
    assert!(filter.may_contain(&prefix, 0, 1 << 16));
    assert!(!filter.may_contain(&prefix, 9, 8));
    assert!(!filter.may_contain(&5_u64.to_be_bytes(), 1, 0));
}

#[test]
fn a_filter_of_no_key_denies_narrow_ranges() {
    let filter = build([].into_iter(), 16);
    assert!((0..1_000_u64).all(|n| !filter.may_contain(&n.to_be_bytes(), n, n + 1_000)));
}

/// Stored filters are probed in other processes and releases, so these bits are frozen.
#[test]
fn the_bytes_of_a_filter_are_frozen() {
    let keys = (0..1_000).map(|n| (n % 7, n * n)).collect();
    let filter = of_numbers(&keys, 14);
    let (shape, starts, bytes) = filter.parts();
    let mut sum = crc32fast::Hasher::new();
    starts
        .iter()
        .for_each(|start| sum.update(&start.to_le_bytes()));
    sum.update(bytes);
    assert_eq!((shape.groups, shape.low_bits), (32, 12));
    assert_eq!((bytes.len(), sum.finalize()), GOLDEN);
}

const GOLDEN: (usize, u32) = (1_765, 3_557_993_429);

#[test]
fn a_filter_of_its_parts_answers_the_same() {
    let keys: BTreeSet<_> = (0..5_000).map(|n| (n % 9, n * 977)).collect();
    let filter = of_numbers(&keys, 16);
    let (shape, starts, bytes) = filter.parts();
    let again = RangeFilter::from_parts(hasher(), shape, starts.into(), bytes.to_vec()).unwrap();
    let mut random = Random::new(4);
    for _ in 0..20_000 {
        let (prefix, first) = (random.below(10).to_be_bytes(), random.below(6_000_000));
        let last = first + random.below(2_000);
        let [one, other] = [&filter, &again].map(|filter| filter.may_contain(&prefix, first, last));
        assert_eq!(one, other);
    }
    assert_eq!(again.size(), filter.size());
}

/// Every flipped bit, every cut and every changed start: refused, or another filter of which each
/// probe ends.
#[test]
fn damage_is_refused_or_harmless() {
    let keys = (0..200).map(|n| (n % 3, n * 1_000)).collect();
    let filter = of_numbers(&keys, 10);
    let (shape, starts, bytes) = filter.parts();
    let mut refused = 0;
    let mut try_parts = |starts: Vec<u32>, bytes: Vec<u8>| {
        let damaged = RangeFilter::from_parts(hasher(), shape, starts.into(), bytes);
        refused += u32::from(damaged.is_err());
        if let Ok(damaged) = damaged {
            for number in (0..400_000).step_by(7_919) {
                damaged.may_contain(&1_u64.to_be_bytes(), number, number + 60_000);
            }
        }
    };
    for bit in 0..8 * bytes.len() {
        let mut bytes = bytes.to_vec();
        bytes[bit / 8] ^= 1 << (bit % 8);
        try_parts(starts.to_vec(), bytes);
    }
    for length in 0..bytes.len() {
        try_parts(starts.to_vec(), bytes[..length].to_vec());
    }
    for at in 0..starts.len() {
        for value in [0, 1, starts[at] + 1, starts[at].wrapping_sub(1), u32::MAX] {
            let mut starts = starts.to_vec();
            starts[at] = value;
            try_parts(starts, bytes.to_vec());
        }
        try_parts(starts[..at].to_vec(), bytes.to_vec());
    }
    assert!(refused > bytes.len() as u32, "{refused}");
    for (groups, low_bits) in [
        (0, 8),
        (7, 8),
        (shape.groups, 0),
        (shape.groups, 9),
        (1, 33),
        (u32::MAX, 32),
    ] {
        let other = RangeShape { groups, low_bits };
        let damaged = RangeFilter::from_parts(hasher(), other, starts.into(), bytes.to_vec());
        assert!(damaged.is_err(), "{other:?}");
    }
    let longer = [bytes, &[0]].concat();
    let damaged = RangeFilter::from_parts(hasher(), shape, starts.into(), longer);
    assert!(matches!(damaged, Err(RangeError::Damaged(_))));
}

#[test]
fn impossible_shapes_are_refused() {
    assert_eq!(RangeShape::new(1, 9), Err(RangeError::Bits(9)));
    assert_eq!(RangeShape::new(1, 0), Err(RangeError::Bits(0)));
    assert_eq!(RangeShape::new(1, 35), Err(RangeError::Bits(35)));
    let most = RangeShape::MOST_KEYS;
    assert!(RangeShape::new(most, 34).is_ok());
    assert_eq!(
        RangeShape::new(most + 1, 16),
        Err(RangeError::Keys(most + 1))
    );
    let text = RangeError::Keys(most + 1).to_string();
    assert!(text.contains("1073741824"), "{text}");
}

/// Short ones are hashed on the stack.
#[test]
fn prefixes_of_all_lengths_keep_their_keys_and_deny_others() {
    for length in 0..=200 {
        let prefix = vec![b'p'; length];
        let rest = |number: u64| number.to_be_bytes();
        let filter = build([(&prefix[..], &rest(1 << 20)[..])].into_iter(), 16);
        let has = |number| filter.may_contain(&prefix, number, number);
        assert!(has(1 << 20), "{length}");
        let passed = (0..100).filter(|&block| has(block << 16)).count();
        assert!(passed <= 2, "{length}: {passed}");
    }
}
