//! Filters inside SSTs.

use crate::world::{World, key, settings};
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::object_store::{ObjectStore, memory::InMemory};
use lsm_sieve_slatedb::slatedb::{
    BloomFilterPolicy, Filter, FilterPolicy, FilterQuery, RowEntry, ValueDeletable,
};
use lsm_sieve_slatedb::{Bucket, Rate, SievePolicy};
use std::sync::Arc;

async fn bucket() -> Bucket {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    Bucket::create("db", store).await.unwrap()
}

fn built(policy: &dyn FilterPolicy, keys: std::ops::Range<u64>) -> Arc<dyn Filter> {
    let mut builder = policy.builder();
    for i in keys {
        builder.add_entry(&row(i));
    }
    builder.build()
}

fn row(number: u64) -> RowEntry {
    RowEntry {
        key: Bytes::copy_from_slice(&key(number)),
        value: ValueDeletable::Value(Bytes::from_static(b"value")),
        seq: number,
        create_ts: None,
        expire_ts: None,
    }
}

fn encoded(filter: &dyn Filter) -> Vec<u8> {
    let mut bytes = Vec::new();
    filter.encode(&mut bytes);
    bytes
}

fn matches(filter: &dyn Filter, number: u64) -> bool {
    filter.might_match(&FilterQuery::point(Bytes::copy_from_slice(&key(number))))
}

/// A third fewer bits than SlateDB's 10 at the same rate, from the first to the last byte.
#[tokio::test]
async fn every_key_is_found_and_one_percent_takes_seven_bits() {
    let policy = SievePolicy::new(&bucket().await);
    let bytes = encoded(built(&policy, 0..100_000).as_ref());
    let filter = policy.decode(&bytes);
    assert!((0..100_000).all(|i| matches(filter.as_ref(), i)));
    let wrong = (100_000..200_000).filter(|&i| matches(filter.as_ref(), i));
    assert!(wrong.count() < 1_150);
    assert!(
        bytes.len() as f64 * 8.0 / 100_000.0 < 7.2,
        "{}",
        bytes.len()
    );
    let estimate = policy.estimate_size(100_000);
    assert!((0.95..1.1).contains(&(estimate as f64 / bytes.len() as f64)));
    assert_eq!(encoded(filter.clamp_allocated_size().as_ref()), bytes);
}

#[tokio::test]
async fn prefixes_and_ranges_are_maybe() {
    let policy = SievePolicy::new(&bucket().await);
    let filter = built(&policy, 0..1_000);
    assert!(!policy.supports_prefix_queries() && !policy.supports_range_queries());
    assert!(filter.might_match(&FilterQuery::prefix(Bytes::from_static(b"absent"))));
    let (from, to) = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    assert!(filter.might_match(&FilterQuery::range(from, to)));
}

/// Every bit of a small filter is flipped, and every truncation tried: *maybe* each time.
#[tokio::test]
async fn a_damaged_filter_is_maybe() {
    let policy = SievePolicy::new(&bucket().await);
    let bytes = encoded(built(&policy, 0..300).as_ref());
    let is_maybe = |bytes: &[u8]| {
        let filter = policy.decode(bytes);
        (0..600).all(|i| matches(filter.as_ref(), i))
    };
    assert!(!is_maybe(&bytes));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(is_maybe(&damaged), "byte {at}, bit {bit}");
        }
        assert!(is_maybe(&bytes[..at]), "{at} bytes");
    }
    assert!(is_maybe(&[]) && is_maybe(&[bytes, vec![0]].concat()));
}

/// The lengths in a header may be false. None of them is allocated.
#[tokio::test]
async fn a_filter_that_claims_to_be_huge_is_maybe() {
    let policy = SievePolicy::new(&bucket().await);
    let mut bytes = encoded(built(&policy, 0..300).as_ref());
    // The bits of the first stage, then the header's checksum made right again.
    bytes[128..136].copy_from_slice(&(1_u64 << 47).to_le_bytes());
    let crc = crc32fast::hash(&bytes[..144]).to_le_bytes();
    bytes[144..148].copy_from_slice(&crc);
    let filter = policy.decode(&bytes);
    assert!((0..600).all(|i| matches(filter.as_ref(), i)));
    assert_eq!(filter.size(), 0);
}

#[tokio::test]
async fn a_filter_of_another_store_or_seed_is_maybe() {
    let (one, other) = (bucket().await, bucket().await);
    let bytes = encoded(built(&SievePolicy::new(&one), 0..1_000).as_ref());
    let filter = SievePolicy::new(&other).decode(&bytes);
    assert!((0..2_000).all(|i| matches(filter.as_ref(), i)));
}

#[tokio::test]
async fn filters_of_every_rate_are_read() {
    let bucket = bucket().await;
    for rate in [0.3, 0.01, 1e-4, 1e-8, 1e-12] {
        let policy = SievePolicy::new(&bucket).with_rate(Rate::new(rate).unwrap());
        let bytes = encoded(built(&policy, 0..2_000).as_ref());
        let filter = SievePolicy::new(&bucket).decode(&bytes);
        assert!((0..2_000).all(|i| matches(filter.as_ref(), i)), "{rate}");
        let wrong = (10_000..20_000).filter(|&i| matches(filter.as_ref(), i));
        assert!(
            wrong.count() as f64 <= 10_000.0 * rate * 1.3 + 5.0,
            "{rate}"
        );
    }
}

/// A database that goes from SlateDB's filters to ours has both for a while.
#[tokio::test]
async fn both_filters_stand_side_by_side() {
    let world = World::with(settings(false), |publisher| {
        let own: Arc<dyn FilterPolicy> = Arc::new(publisher.policy());
        vec![own, Arc::new(BloomFilterPolicy::new(10))]
    })
    .await;
    world.fill(0..3_000).await;
    for i in 0..3_000 {
        assert!(world.db.get(key(i)).await.unwrap().is_some());
    }
    assert!(world.db.get(key(9_000)).await.unwrap().is_none());
}
