//! Objects of `sieve/` that are damaged, missing, foreign or of another version.

use crate::faulty::{Fault, Verb};
use crate::world::{
    ROOT, World, assert_exact_and_denying, assert_no_key_lost, key, options, value,
};
use lsm_sieve_slatedb::slatedb::admin::AdminBuilder;
use lsm_sieve_slatedb::slatedb::config::CheckpointOptions;
use lsm_sieve_slatedb::slatedb::object_store::ObjectStoreExt;
use lsm_sieve_slatedb::{Bucket, BucketError, OpenError, Options, SieveReader};
use std::time::Duration;

const KEYS: u64 = 400;

/// Readers that have nothing but the summary.
fn summary_only() -> Options {
    options().with_segment_filters(false)
}

async fn published() -> (World, u64) {
    let world = World::new().await;
    world.fill(0..KEYS).await;
    let manifest = world.publish().await;
    (world, manifest)
}

async fn assert_nothing_denied(world: &World) {
    let reader = world.reader_with(summary_only()).await;
    assert!(!reader.stats().is_covered);
    for i in (0..KEYS).chain(10_000..10_100) {
        assert!(!reader.answer(&key(i)).is_absent());
    }
    assert_eq!(reader.get(&key(3)).await.unwrap(), Some(value(3)));
    assert_eq!(reader.get(&key(10_000)).await.unwrap(), None);
}

/// Each byte of a small summary with one bit flipped: never a reader that denies a key.
#[tokio::test]
async fn every_flipped_byte_of_a_summary_is_found() {
    let (world, manifest) = published().await;
    let at = world.summary(manifest);
    let whole = world.bytes(&at).await;
    for byte in 0..whole.len() {
        let mut damaged = whole.to_vec();
        damaged[byte] ^= 1 << (byte % 8);
        world.overwrite(&at, damaged).await;
        let reader = world.reader_with(summary_only()).await;
        assert!(!reader.stats().is_covered, "byte {byte}");
        assert!(!reader.answer(&key(10_000)).is_absent(), "byte {byte}");
    }
    world.overwrite(&at, whole).await;
    assert_exact_and_denying(&world.reader_with(summary_only()).await, 0..KEYS).await;
}

#[tokio::test]
async fn a_truncated_missing_or_empty_summary_denies_nothing() {
    let (world, manifest) = published().await;
    let at = world.summary(manifest);
    let whole = world.bytes(&at).await;
    for length in [0, 1, 7, 100, whole.len() / 2, whole.len() - 1] {
        world.overwrite(&at, whole.slice(..length)).await;
        assert_nothing_denied(&world).await;
    }
    world.overwrite(&at, [&whole[..], &[0]].concat()).await;
    assert_nothing_denied(&world).await;
    world.remove(&at).await;
    assert_nothing_denied(&world).await;
}

/// The filters inside the SSTs take the place of a summary that is of no use.
#[tokio::test]
async fn without_a_summary_the_filters_of_the_ssts_deny() {
    let (world, manifest) = published().await;
    world.remove(&world.summary(manifest)).await;
    let reader = world.reader().await;
    assert_eq!(reader.stats().summary_bytes, 0);
    assert!(reader.stats().resident_filters > 0);
    assert_exact_and_denying(&reader, 0..KEYS).await;
}

/// A summary that is larger than the reader allows is not even fetched.
#[tokio::test]
async fn a_summary_that_is_too_large_is_not_read() {
    let (world, _) = published().await;
    let options = summary_only().with_max_filter_bytes(100);
    let reader = world.reader_with(options).await;
    assert!(!reader.stats().is_covered);
}

/// Somebody copies the summary of an older manifest over a newer one's.
#[tokio::test]
async fn a_summary_of_an_older_manifest_covers_only_its_own_ssts() {
    let (world, old) = published().await;
    world.fill(KEYS..2 * KEYS).await;
    let new = world.publish().await;
    let stale = world.bytes(&world.summary(old)).await;
    world.overwrite(&world.summary(new), stale).await;
    let reader = world.reader_with(summary_only()).await;
    assert!(!reader.stats().is_covered);
    assert_no_key_lost(&reader, 0..2 * KEYS).await;
    // With filters of the SSTs, only the new one needs its own.
    let reader = world.reader().await;
    let stats = reader.stats();
    assert!(stats.is_covered && stats.resident_filters > 0 && stats.summary_bytes > 0);
    assert_exact_and_denying(&reader, 0..2 * KEYS).await;
}

/// A database is deleted and made anew at the same path: manifests get the same numbers again.
#[tokio::test]
async fn a_summary_of_a_database_that_was_deleted_does_not_count() {
    let (world, manifest) = published().await;
    let (summary, identity) = (
        world.bytes(&world.summary(manifest)).await,
        world.bytes(&world.object("identity")).await,
    );
    world.db.close().await.unwrap();
    let admin = AdminBuilder::new(ROOT, world.store.clone()).build();
    admin.delete_db(true).await.unwrap();
    // The worst case: the identity was restored, so store and seed agree.
    world.overwrite(&world.object("identity"), identity).await;
    let bucket = Bucket::open(ROOT, world.store.clone()).await.unwrap();
    let db = crate::world::open_db(
        world.store.clone(),
        crate::world::settings(false),
        vec![std::sync::Arc::new(lsm_sieve_slatedb::SievePolicy::new(
            &bucket,
        ))],
    )
    .await;
    crate::world::put_keys(&db, 5_000..5_400).await;
    let publisher = lsm_sieve_slatedb::Publisher::new(bucket.clone(), options());
    let checkpoint = crate::world::checkpoint(&db).await;
    publisher.publish(&checkpoint).await.unwrap();
    world
        .overwrite(&world.summary(checkpoint.manifest_id), summary)
        .await;
    let reader = SieveReader::open(bucket, summary_only()).await.unwrap();
    assert!(!reader.stats().is_covered);
    assert_no_key_lost(&reader, 5_000..5_400).await;
}

/// Another identity at the same place: none of the old filters counts.
#[tokio::test]
async fn filters_of_another_seed_or_store_do_not_count() {
    let (world, _) = published().await;
    world.remove(&world.object("identity")).await;
    let other = Bucket::create(ROOT, world.store.clone()).await.unwrap();
    let refused = SieveReader::open(other, options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Foreign(_)), "{refused}");
}

#[tokio::test]
async fn a_damaged_identity_or_current_is_an_error_and_no_answer() {
    let (world, _) = published().await;
    for name in ["identity", "current"] {
        let at = world.object(name);
        let whole = world.bytes(&at).await;
        for byte in 0..whole.len() {
            let mut damaged = whole.to_vec();
            damaged[byte] ^= 0x20;
            world.overwrite(&at, damaged).await;
            assert!(opened(&world).await.is_err(), "{name}, byte {byte}");
        }
        world.remove(&at).await;
        assert!(opened(&world).await.is_err(), "{name}");
        world.overwrite(&at, whole).await;
    }
    opened(&world).await.unwrap();
}

async fn opened(world: &World) -> Result<SieveReader, OpenError> {
    let bucket = Bucket::open(ROOT, world.store.clone()).await?;
    SieveReader::open(bucket, options()).await
}

/// A newer version is neither used nor replaced.
#[tokio::test]
async fn objects_of_a_newer_version_are_left_alone() {
    let (world, manifest) = published().await;
    let (summary, current) = (world.summary(manifest), world.object("current"));
    let newer_summary = newer(&world.bytes(&summary).await, 12);
    world.overwrite(&summary, newer_summary.clone()).await;
    assert_nothing_denied(&world).await;
    let again = world
        .publisher
        .publish(&crate::world::checkpoint(&world.db).await)
        .await;
    again.unwrap();
    assert_eq!(world.bytes(&summary).await, newer_summary);

    let newer_current = newer(&world.bytes(&current).await, 12);
    world.overwrite(&current, newer_current.clone()).await;
    let checkpoint = crate::world::checkpoint(&world.db).await;
    assert!(world.publisher.publish(&checkpoint).await.is_err());
    assert_eq!(world.bytes(&current).await, newer_current);
    assert!(opened(&world).await.is_err());
}

/// The same bytes with another version, and the checksum of the header made right.
fn newer(bytes: &[u8], at_length: usize) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    bytes[8] = 200;
    let length: [u8; 4] = bytes[at_length..at_length + 4].try_into().unwrap();
    let end = u32::from_le_bytes(length) as usize - 4;
    let crc = crc32fast::hash(&bytes[..end]).to_le_bytes();
    bytes[end..end + 4].copy_from_slice(&crc);
    bytes
}

/// Damage on the way from the store is as good as damage in it.
#[tokio::test]
async fn torn_and_flipped_reads_deny_no_key() {
    let (world, _) = published().await;
    let faults = [Fault::Tear, Fault::Flip(40), Fault::Flip(300), Fault::Fail];
    for fault in faults {
        world.store.set(move |verb, path| {
            (verb == Verb::Get && path.ends_with(".sieve")).then_some(fault)
        });
        let reader = world.reader_with(summary_only()).await;
        assert!(!reader.stats().is_covered, "{fault:?}");
        assert_no_key_lost(&reader, 0..20).await;
        world.store.heal();
    }
}

/// An expired checkpoint is an error when it is opened, and when its SSTs are gone. The filters
/// never turn it into an absence.
#[tokio::test]
async fn an_expired_checkpoint_is_an_error() {
    let world = World::new().await;
    world.fill(0..KEYS).await;
    let lifetime = Some(Duration::from_secs(3_600));
    let options = CheckpointOptions {
        lifetime,
        ..CheckpointOptions::default()
    };
    let admin = AdminBuilder::new(ROOT, world.store.clone()).build();
    let checkpoint = admin.create_detached_checkpoint(&options).await.unwrap();
    world.publisher.publish(&checkpoint).await.unwrap();
    let reader = world.reader().await;
    // As garbage collection does once the checkpoint has expired.
    admin.delete_checkpoint(checkpoint.id).await.unwrap();
    let ssts: Vec<_> = {
        use futures::TryStreamExt;
        use lsm_sieve_slatedb::slatedb::object_store::ObjectStore;
        let folder = format!("{ROOT}/compacted").into();
        world.store.list(Some(&folder)).try_collect().await.unwrap()
    };
    for sst in ssts {
        world.store.delete(&sst.location).await.unwrap();
    }
    for i in 0..20 {
        assert!(reader.get(&key(i)).await.is_err());
    }
    let refused = opened(&world).await.unwrap_err();
    assert!(matches!(refused, OpenError::Engine { .. }), "{refused}");
}

#[tokio::test]
async fn a_bucket_without_identity_says_what_to_do() {
    let world = World::new().await;
    world.remove(&world.object("identity")).await;
    let refused = Bucket::open(ROOT, world.store.clone()).await.unwrap_err();
    assert!(matches!(refused, BucketError::NoIdentity(_)));
    assert!(refused.to_string().contains("attach"));
}
