//! Databases that go back in time, as a whole or in part, and copies of databases.
//!
//! A store may travel in time; the trust in its filters must not come along, and must not hold up
//! what is published afterwards.

use crate::world::{
    ROOT, World, assert_exact_and_denying, assert_no_key_lost, checkpoint, flush, key, open_db,
    options, put_keys, settings,
};
use futures::TryStreamExt;
use lsm_sieve_slatedb::slatedb::admin::AdminBuilder;
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::object_store::{ObjectStore, ObjectStoreExt, path::Path};
use lsm_sieve_slatedb::slatedb::{CloneSourceSpec, Db, FilterPolicy};
use lsm_sieve_slatedb::{Bucket, OpenError, PublishError, Publisher, SieveReader};
use std::ops::Range;
use std::sync::Arc;

/// Written before the backup, after it, and after the restore.
const BEFORE: Range<u64> = 0..300;
const LOST: Range<u64> = 300..600;
const AGAIN: Range<u64> = 1_000..1_300;

type Objects = Vec<(Path, Bytes)>;

async fn objects(store: &dyn ObjectStore, folder: &str) -> Objects {
    let all: Vec<_> = store
        .list(Some(&folder.into()))
        .try_collect()
        .await
        .unwrap();
    let mut objects = Objects::new();
    for object in all {
        let bytes = store.get(&object.location).await.unwrap().bytes().await;
        objects.push((object.location, bytes.unwrap()));
    }
    objects
}

/// Puts a backup in the place of all objects but those that are left as they are.
async fn restore(store: &dyn ObjectStore, backup: &Objects, is_left: fn(&str) -> bool) {
    for (path, _) in objects(store, ROOT).await {
        if !is_left(path.as_ref()) {
            store.delete(&path).await.unwrap();
        }
    }
    for (path, bytes) in backup {
        if !is_left(path.as_ref()) {
            store.put(path, bytes.clone().into()).await.unwrap();
        }
    }
}

/// A writer and a publisher of another process.
async fn process(store: Arc<dyn ObjectStore>) -> (Db, Publisher) {
    let bucket = Bucket::create(ROOT, store.clone()).await.unwrap();
    let publisher = Publisher::new(bucket, options());
    let policies: Vec<Arc<dyn FilterPolicy>> = vec![Arc::new(publisher.policy())];
    (open_db(store, settings(false), policies).await, publisher)
}

async fn write(db: &Db, keys: Range<u64>) {
    put_keys(db, keys).await;
    flush(db).await;
}

type IsLeft = fn(&str) -> bool;

/// What the restore leaves as it was before it.
const LEFT: [(&str, IsLeft); 5] = [
    ("nothing", |_| false),
    ("sieve/", |path| path.contains("/sieve/")),
    ("sieve/current", |path| path.ends_with("/sieve/current")),
    ("all of sieve/ but current", |path| {
        path.contains("/sieve/") && !path.ends_with("/current")
    }),
    // Not those of the log, which would be replayed.
    ("SSTs", |path| path.contains("/compacted/")),
];

/// A restored database has the numbers of the lost manifests again, with other keys. Readers that
/// were open stayed at the lost ones, and nothing could be published where `sieve/current` was of
/// a later time.
#[tokio::test]
async fn a_restored_database_is_published_and_read() {
    for (name, is_left) in LEFT {
        // The writer that was lost may have had a later epoch than the one after it.
        for (lost_opens, again_writes) in [(1, 1), (3, 1), (3, 20)] {
            let case = format!("{name} left, {lost_opens} writers, {again_writes} writes");
            let world = World::new().await;
            world.fill(BEFORE).await;
            world.publish().await;
            world.db.close().await.unwrap();
            let backup = objects(&*world.store, ROOT).await;
            for number in 0..lost_opens {
                let (db, publisher) = process(world.store.clone()).await;
                let part = (LOST.end - LOST.start) / lost_opens;
                let from = LOST.start + part * number;
                write(&db, from..from + part).await;
                publisher.publish(&checkpoint(&db).await).await.unwrap();
                db.close().await.unwrap();
            }
            let (open, beside) = (
                world.reader().await,
                world.reader_with(options().with_max_beside(5)).await,
            );
            assert_exact_and_denying(&open, 0..LOST.end).await;

            restore(&*world.store, &backup, is_left).await;
            let (db, publisher) = process(world.store.clone()).await;
            let part = (AGAIN.end - AGAIN.start) / again_writes;
            for number in 0..again_writes {
                let from = AGAIN.start + part * number;
                write(&db, from..from + part).await;
            }
            let published = publisher.publish(&checkpoint(&db).await).await;
            let published = published.unwrap_or_else(|error| panic!("{case}: {error}"));
            for reader in [open, beside] {
                assert!(reader.refresh().await.unwrap(), "{case}");
                assert_eq!(reader.stats().manifest, published.manifest, "{case}");
                assert_restored(&reader, &case).await;
            }
            let new = world.reader().await;
            let stats = new.stats();
            assert!(
                stats.summary_bytes > 0 && stats.resident_filters == 0,
                "{case}"
            );
            assert_restored(&new, &case).await;
            publisher.clean().await.unwrap();
            assert!(world.reader().await.stats().summary_bytes > 0, "{case}");
            db.close().await.unwrap();
        }
    }
}

async fn assert_restored(reader: &SieveReader, case: &str) {
    assert_no_key_lost(reader, BEFORE).await;
    assert_exact_and_denying(reader, AGAIN).await;
    for number in LOST {
        let found = reader.get(&key(number)).await.unwrap();
        assert_eq!(found, None, "{number}, {case}");
    }
}

/// Until something is published again, a `sieve/current` of a later time is an error.
#[tokio::test]
async fn a_current_of_a_later_time_than_the_database_is_an_error() {
    let world = World::new().await;
    world.fill(BEFORE).await;
    world.publish().await;
    let backup = objects(&*world.store, ROOT).await;
    world.fill(LOST).await;
    world.publish().await;
    world.db.close().await.unwrap();
    restore(&*world.store, &backup, |path| path.contains("/sieve/")).await;
    let bucket = Bucket::open(ROOT, world.store.clone()).await.unwrap();
    let refused = SieveReader::open(bucket, options()).await.unwrap_err();
    assert!(matches!(refused, OpenError::Engine { .. }), "{refused}");
}

/// `sieve/current` alone is put back: a reader that opens is at the checkpoint of then, which is
/// whole; one that is open stays; what is older still cannot be published; the next is.
#[tokio::test]
async fn a_current_of_an_earlier_time_than_the_database_is_followed_by_new_readers_only() {
    let world = World::new().await;
    world.fill(0..100).await;
    let oldest = checkpoint(&world.db).await;
    world.fill(100..300).await;
    world.publish().await;
    let backup = world.bytes(&world.object("current")).await;
    world.fill(300..600).await;
    let newest = world.publish().await;
    let open = world.reader().await;
    world.overwrite(&world.object("current"), backup).await;
    assert!(!open.refresh().await.unwrap());
    assert_eq!(open.stats().manifest, newest);
    assert_exact_and_denying(&open, 0..600).await;
    assert_exact_and_denying(&world.reader().await, 0..300).await;
    let refused = world.publisher.publish(&oldest).await.unwrap_err();
    assert!(
        matches!(refused, PublishError::Superseded { .. }),
        "{refused}"
    );
    world.fill(600..700).await;
    world.publish().await;
    assert!(open.refresh().await.unwrap());
    assert_exact_and_denying(&open, 0..700).await;
}

/// A checkpoint that keeps a manifest longer is another one with the same keys.
#[tokio::test]
async fn another_checkpoint_of_the_same_manifest_is_moved_to() {
    let world = World::new().await;
    world.fill(BEFORE).await;
    let manifest = world.publish().await;
    let reader = world.reader().await;
    let other = checkpoint(&world.db).await;
    world.point_current_at(manifest, &other).await;
    assert!(reader.refresh().await.unwrap());
    assert_eq!(reader.pinned().publication().checkpoint, other.id);
    assert_exact_and_denying(&reader, BEFORE).await;
}

/// Copies the objects of a folder into another.
async fn copy(store: &dyn ObjectStore, from: &str, to: &str) {
    for (path, bytes) in objects(store, from).await {
        let rest = path.as_ref().strip_prefix(from).unwrap();
        let path = Path::from(format!("{to}{rest}"));
        store.put(&path, bytes.into()).await.unwrap();
    }
}

/// Two databases of one identity have diverged; each gets the `sieve/` of the other. Both number
/// their manifests alike, and share SSTs.
async fn assert_that_copies_keep_apart(world: &World, copied: &str) {
    let store: Arc<dyn ObjectStore> = world.store.clone();
    let bucket = Bucket::create(copied, store.clone()).await.unwrap();
    let publisher = Publisher::new(bucket.clone(), options());
    let db = Db::builder(copied, store.clone()).with_settings(settings(false));
    let db = db.with_filter_policies(vec![Arc::new(publisher.policy())]);
    let db = db.build().await.unwrap();
    for round in 0..4 {
        let (here, there) = (300 + 50 * round, 1_000 + 50 * round);
        world.fill(here..here + 50).await;
        world.publish().await;
        write(&db, there..there + 50).await;
        publisher.publish(&checkpoint(&db).await).await.unwrap();
    }
    let sieve = |root: &str| format!("{root}/sieve");
    copy(&*store, &sieve(copied), "aside").await;
    copy(&*store, &sieve(ROOT), &sieve(copied)).await;
    copy(&*store, "aside", &sieve(ROOT)).await;
    // The checkpoints that are named now are those of the other.
    world.fill(500..550).await;
    write(&db, 1_200..1_250).await;
    let published = [
        (world.bucket.clone(), &world.publisher, &world.db, 300..550),
        (bucket, &publisher, &db, 1_000..1_250),
    ];
    for (bucket, publisher, db, keys) in published {
        let of = checkpoint(db).await;
        if let Err(error) = publisher.publish(&of).await {
            // The other is further. Its publication has to go.
            assert!(matches!(error, PublishError::Superseded { .. }), "{error}");
            let current = bucket.path().clone().join("sieve").join("current");
            store.delete(&current).await.unwrap();
            publisher.publish(&of).await.unwrap();
        }
        for options in [options(), options().with_segment_filters(false)] {
            let reader = SieveReader::open(bucket.clone(), options).await.unwrap();
            assert_no_key_lost(&reader, BEFORE).await;
            assert_exact_and_denying(&reader, keys.clone()).await;
        }
    }
    db.close().await.unwrap();
}

#[tokio::test]
async fn a_bucket_that_was_copied_does_not_trust_the_filters_of_the_other() {
    let world = World::new().await;
    world.fill(BEFORE).await;
    world.publish().await;
    copy(&*world.store, ROOT, "copied").await;
    assert_that_copies_keep_apart(&world, "copied").await;
}

/// A clone that was given the identity of its parent, so that it can use the filters in the SSTs.
#[tokio::test]
async fn a_clone_of_the_same_identity_does_not_trust_the_filters_of_its_parent() {
    let world = World::new().await;
    world.fill(BEFORE).await;
    world.publish().await;
    let admin = AdminBuilder::new("clone", world.store.clone()).build();
    let clone = admin.create_clone_builder_from_source(CloneSourceSpec::new(ROOT));
    clone.build().await.unwrap();
    let sieve = format!("{ROOT}/sieve");
    copy(&*world.store, &sieve, "clone/sieve").await;
    assert_that_copies_keep_apart(&world, "clone").await;
}
