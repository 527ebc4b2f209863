//! What several targets need: filters and their sidecars, built from the fuzzer's bytes.

use arbitrary::{Result, Unstructured};
use lsm_sieve_filter::filter::Stage;
use lsm_sieve_filter::hash::{HashId, Imprint, KeyHash, KeyHasher, Seed};
use lsm_sieve_filter::math::Rate;
use lsm_sieve_filter::math::growth::Tightening;
use lsm_sieve_format::format::{StageRecord, StoreId};

pub const STORE: StoreId = StoreId::from_bytes(*b"the store's name");

pub fn imprint() -> Imprint {
    KeyHasher::new(HashId::Xxh3, Seed::from_bytes([7; 16])).imprint()
}

/// One of few keys, so that steps collide; sometimes any hash.
pub fn key(input: &mut Unstructured<'_>) -> Result<KeyHash> {
    match input.arbitrary()? {
        255_u8 => Ok(KeyHash::new(input.arbitrary()?)),
        few => Ok(spread(few.into())),
    }
}

/// Distinct hashes over the whole range: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub fn spread(number: u64) -> KeyHash {
    let z = number.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    KeyHash::new(z ^ (z >> 31))
}

/// A rate, most often a usual one, and never so strict that a filter of few keys takes all memory.
pub fn rate(input: &mut Unstructured<'_>) -> Result<Rate> {
    let usual = [0.5, 0.1, 0.01, 0.001, 1e-6];
    let rate = match input.int_in_range(0..=7_usize)? {
        index @ 0..=4 => usual[index],
        _ => f64::from_bits(input.arbitrary()?),
    };
    let wide = Rate::new(rate).ok().filter(|rate| rate.get() > 1e-9);
    Ok(wide.unwrap_or(Rate::ONE_PERCENT))
}

pub fn record(stage: &Stage) -> StageRecord {
    StageRecord {
        shape: stage.shape(),
        items: stage.items(),
        words: stage.words().collect(),
    }
}

pub fn stage(record: &StageRecord) -> Stage {
    let StageRecord {
        shape,
        items,
        words,
        ..
    } = record.clone();
    Stage::from_words(shape, items, words).expect("a stage that was written can be read")
}

/// Any way to share a rate among stages, including senseless ones.
pub fn tightening(input: &mut Unstructured<'_>) -> Result<Tightening> {
    let r = f64::from_bits(input.arbitrary()?);
    Ok(match input.int_in_range(0..=3)? {
        0 => Tightening::Polynomial,
        1 => Tightening::Bounded {
            r,
            stages: input.int_in_range(0..=8)?,
        },
        _ => Tightening::Geometric(r),
    })
}
