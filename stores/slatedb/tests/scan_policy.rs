//! Filters for scans inside SSTs.

use crate::faulty::Faulty;
use crate::world::{ROOT, flush, settings};
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::db_cache::SplitCache;
use lsm_sieve_slatedb::slatedb::db_cache::foyer::FoyerCache;
use lsm_sieve_slatedb::slatedb::object_store::{ObjectStore, memory::InMemory};
use lsm_sieve_slatedb::slatedb::{
    Db, FilterPolicy, FilterQuery, PrefixExtractor, PrefixTarget, RowEntry, ValueDeletable,
    WriteBatch,
};
use lsm_sieve_slatedb::{Bucket, RangeError, ScanPolicy};
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::sync::Arc;

/// The first bytes, or all up to a slash.
enum Extractor {
    Fixed(usize),
    Directory,
}

impl PrefixExtractor for Extractor {
    fn name(&self) -> &str {
        match self {
            Self::Fixed(1) => "fixed.1",
            Self::Fixed(_) => "fixed",
            Self::Directory => "directory",
        }
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        match self {
            Self::Fixed(length) => (bytes.len() >= *length).then_some(*length),
            Self::Directory => Some(bytes.iter().position(|&byte| byte == b'/')? + 1),
        }
    }
}

async fn bucket() -> Bucket {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    Bucket::create("db", store).await.unwrap()
}

fn policy(bucket: &Bucket, extractor: Extractor) -> ScanPolicy {
    let policy = ScanPolicy::new(bucket, Arc::new(extractor));
    policy.with_ranges(16).unwrap()
}

fn row(key: &[u8]) -> RowEntry {
    RowEntry {
        key: Bytes::copy_from_slice(key),
        value: ValueDeletable::Tombstone,
        seq: 1,
        create_ts: None,
        expire_ts: None,
    }
}

fn encoded<'k>(policy: &ScanPolicy, keys: impl IntoIterator<Item = &'k [u8]>) -> Vec<u8> {
    let mut builder = policy.builder();
    for key in keys {
        builder.add_entry(&row(key));
    }
    let mut bytes = Vec::new();
    builder.build().encode(&mut bytes);
    bytes
}

/// All strings of up to three of these letters.
fn universe() -> Vec<Vec<u8>> {
    let mut keys = vec![Vec::new()];
    let mut at = 0;
    while keys[at].len() < 3 {
        let longer = [b'/', b'a', b'b', 0].map(|byte| [&keys[at][..], &[byte]].concat());
        keys.extend(longer);
        at += 1;
    }
    keys.sort();
    keys
}

#[tokio::test]
async fn no_scan_that_finds_a_row_is_skipped() {
    let bucket = bucket().await;
    let universe = universe();
    let mut random = StdRng::seed_from_u64(6);
    let (mut skipped, mut empty) = (0_u32, 0_u32);
    for round in 0..60 {
        let policy = match round % 3 {
            0 => policy(&bucket, Extractor::Fixed(1)),
            1 => policy(&bucket, Extractor::Directory),
            _ => ScanPolicy::new(&bucket, Arc::new(Extractor::Fixed(2))),
        };
        let count = random.random_range(0..=6);
        let keys = (0..count).map(|_| &universe[random.random_range(0..universe.len())]);
        let keys: BTreeSet<&Vec<u8>> = keys.collect();
        let filter = policy.decode(&encoded(&policy, keys.iter().map(|key| &key[..])));
        let mut check = |query: FilterQuery, holds: bool| {
            let may_match = filter.might_match(&query);
            assert!(may_match || !holds, "{keys:?} {query:?}");
            empty += u32::from(!holds);
            skipped += u32::from(!may_match);
        };
        for first in &universe {
            let start = Bytes::copy_from_slice(first);
            let holds = keys.iter().any(|key| key.starts_with(first));
            check(FilterQuery::prefix(start.clone()), holds);
            assert!(filter.might_match(&FilterQuery::point(start.clone())));
            for last in universe.iter().filter(|last| *last >= first) {
                let end = Bytes::copy_from_slice(last);
                for lower in [
                    Bound::Included(start.clone()),
                    Bound::Excluded(start.clone()),
                ] {
                    for upper in [
                        Bound::Included(end.clone()),
                        Bound::Excluded(end.clone()),
                        Bound::Unbounded,
                    ] {
                        let is_above = |key: &Vec<u8>| match lower {
                            Bound::Included(_) => key >= first,
                            _ => key > first,
                        };
                        let is_below = |key: &Vec<u8>| match upper {
                            Bound::Included(_) => key <= last,
                            Bound::Excluded(_) => key < last,
                            Bound::Unbounded => true,
                        };
                        let holds = keys.iter().any(|key| is_above(key) && is_below(key));
                        check(FilterQuery::range(lower.clone(), upper), holds);
                    }
                }
            }
        }
    }
    assert!(
        skipped > 20_000 && skipped * 30 > empty,
        "{skipped} of {empty}"
    );
}

fn event(stream: u64, number: u64) -> [u8; 16] {
    let mut key = [0; 16];
    key[..8].copy_from_slice(&stream.to_be_bytes());
    key[8..].copy_from_slice(&number.to_be_bytes());
    key
}

/// Right behind the events of a stream, at 16 bits: 0.6 % of a hundred, 6 % of a thousand numbers.
#[tokio::test]
async fn empty_ranges_behind_a_key_pass_as_rarely_as_promised() {
    let policy = policy(&bucket().await, Extractor::Fixed(8));
    let events: Vec<_> = (0..40_000)
        .map(|n| event(n % 400, n / 400 * 5_000))
        .collect();
    let bytes = encoded(&policy, events.iter().map(|event| &event[..]));
    let bits = bytes.len() as f64 * 8.0 / events.len() as f64;
    assert!(bits < 17.5, "{bits} bits per key");
    let estimate = policy.estimate_size(events.len());
    assert!(
        estimate >= bytes.len() && estimate < bytes.len() * 2,
        "{estimate}"
    );
    let filter = policy.decode(&bytes);
    assert!(filter.size() < bytes.len() + 100);
    for (width, most) in [(100, 0.0061), (1_000, 0.061)] {
        let passed = (0..40_000).filter(|n| {
            let (stream, number) = (n % 400, n / 400 * 5_000 + 1);
            let [first, end] = [number, number + width].map(|n| event(stream, n));
            let bound = |key: [u8; 16]| Bytes::copy_from_slice(&key);
            let query =
                FilterQuery::range(Bound::Included(bound(first)), Bound::Excluded(bound(end)));
            filter.might_match(&query)
        });
        let rate = passed.count() as f64 / 40_000.0;
        // Each database has another seed, and ranges of one block pass together: the share varies.
        assert!(rate < most * 2.0, "{rate} of {most}");
    }
}

#[tokio::test]
async fn a_damaged_or_foreign_filter_is_maybe() {
    let here = bucket().await;
    let policy = policy(&here, Extractor::Fixed(8));
    let events: Vec<_> = (0..100).map(|n| event(n, n)).collect();
    let bytes = encoded(&policy, events.iter().map(|event| &event[..]));
    let is_maybe = |policy: &ScanPolicy, bytes: &[u8]| {
        let filter = policy.decode(bytes);
        (1_000..1_200_u64).all(|stream| {
            filter.might_match(&FilterQuery::prefix(Bytes::copy_from_slice(
                &stream.to_be_bytes(),
            )))
        })
    };
    assert!(!is_maybe(&policy, &bytes));
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 1 << (at % 8);
        assert!(is_maybe(&policy, &damaged), "byte {at}");
        assert!(is_maybe(&policy, &bytes[..at]), "{at} bytes");
    }
    // Lengths that are not those of the bytes, with the right sum.
    for (at, value) in [(0, u32::MAX), (0, 3), (0, 0)] {
        let mut damaged = bytes[..bytes.len() - 4].to_vec();
        damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let sum = crc32fast::hash(&damaged);
        damaged.extend(sum.to_le_bytes());
        assert!(is_maybe(&policy, &damaged), "{value} at {at}");
    }
    let ranges = 4 + u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
    for (at, value) in [
        (ranges, u32::MAX),
        (ranges, 0),
        (ranges + 4, 0),
        (ranges + 4, 33),
        (ranges + 8, 1),
    ] {
        let mut damaged = bytes[..bytes.len() - 4].to_vec();
        damaged[at..at + 4].copy_from_slice(&value.to_le_bytes());
        let sum = crc32fast::hash(&damaged);
        damaged.extend(sum.to_le_bytes());
        assert!(is_maybe(&policy, &damaged), "{value} at {at}");
    }
    let other = ScanPolicy::new(&bucket().await, Arc::new(Extractor::Fixed(8)));
    assert!(is_maybe(&other, &bytes));
    // One that writes no ranges reads them.
    let reader = ScanPolicy::new(&here, Arc::new(Extractor::Fixed(8)));
    assert!(!is_maybe(&reader, &bytes) && !reader.supports_range_queries());
    assert!(policy.supports_range_queries() && policy.supports_prefix_queries());
    assert_eq!(policy.name(), "lsm-sieve-scan:p=fixed");
    let refused = reader.with_ranges(9).unwrap_err();
    assert_eq!(refused, RangeError::Bits(9));
}

/// Events of 40 streams, each in all of eight SSTs.
async fn database(is_filtered: bool) -> (Arc<Faulty>, Db) {
    let store = Faulty::new();
    let bucket = Bucket::create(ROOT, store.clone()).await.unwrap();
    let policies: Vec<Arc<dyn FilterPolicy>> = match is_filtered {
        true => vec![Arc::new(policy(&bucket, Extractor::Fixed(8)))],
        false => Vec::new(),
    };
    // Indexes and filters are in memory, and blocks are not.
    let cache = SplitCache::new().with_meta_cache(Some(Arc::new(FoyerCache::new())));
    let db = Db::builder(ROOT, store.clone())
        .with_settings(settings(false))
        .with_filter_policies(policies)
        .with_db_cache(Arc::new(cache.build()), 0)
        .build()
        .await
        .unwrap();
    for sst in 0..8 {
        let mut batch = WriteBatch::new();
        for n in 0..400 {
            batch.put(event(n % 40, (n / 40 * 8 + sst) * 1_000), [7; 100]);
        }
        db.write(batch).await.unwrap();
        flush(&db).await;
    }
    (store, db)
}

/// Each scan of nothing would read a block of each SST whose keys lie around it.
#[tokio::test]
async fn scans_of_nothing_ask_for_no_block() {
    let mut gets = Vec::new();
    for is_filtered in [false, true] {
        let (store, db) = database(is_filtered).await;
        let scan = async |first: [u8; 16], end: [u8; 16]| {
            let mut rows = db.scan(first..end).await.unwrap();
            let mut keys = Vec::new();
            while let Some(row) = rows.next().await.unwrap() {
                keys.push(row.key);
            }
            keys
        };
        // The footers, indexes and filters are read once.
        assert!(scan(event(3, 1), event(3, 9)).await.is_empty());
        store.take();
        let mut empty = 0;
        for stream in 0..40 {
            for number in (0..80_000).step_by(1_000) {
                empty += scan(event(stream, number + 1), event(stream, number + 90))
                    .await
                    .len();
            }
        }
        assert_eq!(empty, 0);
        gets.push(store.take().gets);
        for stream in 0..40 {
            let all = scan(event(stream, 0), event(stream, u64::MAX)).await;
            assert_eq!(all.len(), 80);
            for number in (0..80_000).step_by(1_000) {
                let found = scan(event(stream, number), event(stream, number + 1)).await;
                assert_eq!(found, [&event(stream, number)[..]]);
            }
        }
        let mut rows = db.scan_prefix(99_u64.to_be_bytes(), ..).await.unwrap();
        assert!(rows.next().await.unwrap().is_none());
    }
    assert!(gets[1] * 10 < gets[0], "{gets:?} requests without and with");
}
