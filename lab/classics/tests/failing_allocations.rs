//! Memory runs out while counters are sealed as bits: an error, never a lost key. This test is alone
//! in its binary: no other may allocate meanwhile.

#[path = "../../../integration/support/failing_allocator.rs"]
mod failing_allocator;

use failing_allocator::exhaust;
use lsm_sieve_classics::filter::Counting;
use lsm_sieve_filter::hash::{HashId, KeyHasher, Seed};
use lsm_sieve_filter::math::{Items, Rate};

/// The bits of so many keys take more than [`failing_allocator::LARGE`] bytes.
const KEYS: u32 = 120_000;

#[test]
fn no_failing_allocation_loses_a_key_of_sealed_counters() {
    let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([7; 16]));
    let mut filter = Counting::with_rate(Items::new(KEYS.into()), Rate::ONE_PERCENT).unwrap();
    for index in 0..KEYS {
        filter.insert(hasher.hash(&index.to_le_bytes()));
    }
    exhaust("seal counters", || {
        let Ok(stage) = filter.to_stage() else {
            return Ok(());
        };
        let lost = (0..KEYS).find(|&index| !stage.may_contain(hasher.hash(&index.to_le_bytes())));
        lost.map_or(Ok(()), |index| Err(format!("LOST key {index}").into()))
    })
    .unwrap();
}
