//! Publishers: races, faults of the store, older writers, and what is read for a summary.

use crate::faulty::{Fault, Requests, Verb};
use crate::world::{
    ROOT, World, assert_exact_and_denying, checkpoint, key, open_db, options, put_keys, settings,
};
use lsm_sieve_slatedb::slatedb::CheckpointCreateResult;
use lsm_sieve_slatedb::{Bucket, Options, PublishError, Publisher, SieveReader};
use std::sync::Arc;
use std::time::Duration;

/// A publisher in another process: it has to read the SSTs.
async fn elsewhere(world: &World) -> Publisher {
    let bucket = Bucket::create(ROOT, world.store.clone()).await.unwrap();
    Publisher::new(bucket, options())
}

/// The requests to SSTs that a publication takes.
async fn requests_of(
    world: &World,
    publisher: &Publisher,
    of: &CheckpointCreateResult,
) -> Requests {
    world.store.take();
    publisher.publish(of).await.unwrap();
    world.store.take()
}

/// The policy leaves the keys, and the filter inside each SST says which they are. Elsewhere each
/// SST is read with one request.
#[tokio::test]
async fn each_sst_takes_one_request_and_only_once() {
    let world = World::new().await;
    for part in 0..10 {
        world.fill(part * 300..(part + 1) * 300).await;
    }
    let ssts = world.db.manifest().all_sst_views().count() as u64;
    assert!(ssts >= 10);
    let first = checkpoint(&world.db).await;
    let here = requests_of(&world, &world.publisher, &first).await;
    let other = elsewhere(&world).await;
    let there = requests_of(&world, &other, &first).await;
    // Besides the SSTs: manifests, the summary, `current`.
    assert!(
        here.gets <= ssts + 10 && there.gets <= 4,
        "{here:?} {there:?}"
    );
    world.remove(&world.summary(first.manifest_id)).await;
    let there = requests_of(&world, &other, &first).await;
    assert!((ssts..ssts + 10).contains(&there.gets), "{there:?}");
    world.fill(3_000..3_300).await;
    let second = checkpoint(&world.db).await;
    for publisher in [&world.publisher, &other] {
        world.remove(&world.summary(first.manifest_id)).await;
        let later = requests_of(&world, publisher, &second).await;
        assert!(later.gets <= 12, "{later:?}");
    }
    assert_exact_and_denying(&world.reader().await, 0..3_300).await;
}

/// A whole reader is opened with one request more than SlateDB's own.
#[tokio::test]
async fn a_new_reader_needs_one_request_for_all_ssts() {
    let world = World::new().await;
    for part in 0..30 {
        world.fill(part * 100..(part + 1) * 100).await;
    }
    world.publish().await;
    world.store.take();
    let reader = world.reader().await;
    let opened = world.store.take();
    let denied = (50_000..51_000).filter(|&i| reader.answer(&key(i)).is_absent());
    assert!(denied.count() > 990);
    assert_eq!(world.store.take(), Requests::default());
    // Identity, `current`, summary, and what SlateDB needs to open.
    assert!(opened.gets <= 9 && opened.puts == 0, "{opened:?}");
    reader.refresh().await.unwrap();
    let idle = world.store.take();
    assert_eq!((idle.gets, idle.lists), (1, 0));
}

#[tokio::test]
async fn publishers_that_race_leave_the_newest() {
    let world = World::new().await;
    let mut checkpoints = Vec::new();
    for part in 0..6 {
        world.fill(part * 100..(part + 1) * 100).await;
        checkpoints.push(checkpoint(&world.db).await);
    }
    for round in 0..10_u64 {
        world.remove(&world.object("current")).await;
        // Each write of `current` takes another time.
        let turn = std::sync::atomic::AtomicU64::new(round);
        world.store.set(move |verb, path| {
            let turn = turn.fetch_add(7, std::sync::atomic::Ordering::SeqCst) % 13;
            (verb == Verb::Put && path.ends_with("current"))
                .then_some(Fault::Delay(Duration::from_millis(turn)))
        });
        let mut racing = tokio::task::JoinSet::new();
        for of in checkpoints.clone() {
            let publisher = elsewhere(&world).await;
            racing.spawn(async move { publisher.publish(&of).await });
        }
        let results = racing.join_all().await;
        let is_superseded = |error: &PublishError| matches!(error, PublishError::Superseded { .. });
        assert!(
            results
                .iter()
                .all(|result| result.as_ref().err().is_none_or(is_superseded))
        );
        world.store.heal();
        let newest = checkpoints.last().unwrap().manifest_id;
        assert_eq!(
            world.reader().await.stats().manifest,
            newest,
            "round {round}"
        );
    }
    assert_exact_and_denying(&world.reader().await, 0..600).await;
}

/// The writer that was fenced still has a publisher, and a checkpoint that it has not published.
#[tokio::test]
async fn a_zombie_cannot_move_current_back() {
    let world = World::new().await;
    world.fill(0..500).await;
    let old = checkpoint(&world.db).await;
    let second = elsewhere(&world).await;
    let policies: Vec<Arc<dyn lsm_sieve_slatedb::slatedb::FilterPolicy>> =
        vec![Arc::new(second.policy())];
    let successor = open_db(world.store.clone(), settings(false), policies).await;
    put_keys(&successor, 500..1_000).await;
    let new = second.publish(&checkpoint(&successor).await).await.unwrap();
    assert!(new.epoch > world.db.manifest().writer_epoch());

    let refused = world.publisher.publish(&old).await.unwrap_err();
    assert!(
        matches!(refused, PublishError::Superseded { .. }),
        "{refused}"
    );
    // It cannot make another checkpoint either: SlateDB has fenced it.
    assert!(
        world.db.put(b"key", b"value").await.is_err() || {
            let options = Default::default();
            let scope = lsm_sieve_slatedb::slatedb::config::CheckpointScope::All;
            world.db.create_checkpoint(scope, &options).await.is_err()
        }
    );
    let reader = world.reader().await;
    assert_eq!(reader.stats().manifest, new.manifest);
    assert_exact_and_denying(&reader, 0..1_000).await;
}

/// Also where a store moves `current` back, readers do not follow.
#[tokio::test]
async fn readers_go_forward_only() {
    let world = World::new().await;
    world.fill(0..300).await;
    world.publish().await;
    let back = world.bytes(&world.object("current")).await;
    world.fill(300..600).await;
    let newest = world.publish().await;
    let reader = world.reader().await;
    world.overwrite(&world.object("current"), back).await;
    assert!(!reader.refresh().await.unwrap());
    assert_eq!(reader.stats().manifest, newest);
    assert_exact_and_denying(&reader, 0..600).await;
}

/// Each write that a publisher makes fails, loses its reply or is torn once. Publishing again mends
/// it, and no reader loses a key meanwhile.
#[tokio::test]
async fn a_publication_that_fails_halfway_is_repeated() {
    for name in [".sieve", "current"] {
        for fault in [Fault::Fail, Fault::LoseReply, Fault::Tear] {
            let world = World::new().await;
            world.fill(0..300).await;
            world.publish().await;
            world.fill(300..600).await;
            let of = checkpoint(&world.db).await;
            world.store.set(move |verb, path| {
                (verb == Verb::Put && path.ends_with(name)).then_some(fault)
            });
            assert!(
                world.publisher.publish(&of).await.is_err(),
                "{name} {fault:?}"
            );
            world.store.heal();
            if let Ok(reader) = opened(&world).await {
                crate::world::assert_no_key_lost(&reader, 0..300).await;
            }
            world.publisher.publish(&of).await.unwrap();
            let reader = opened(&world).await.unwrap();
            assert_eq!(reader.stats().manifest, of.manifest_id);
            assert!(reader.stats().summary_bytes > 0, "{name} {fault:?}");
            assert_exact_and_denying(&reader, 0..600).await;
        }
    }
}

async fn opened(world: &World) -> Result<SieveReader, lsm_sieve_slatedb::OpenError> {
    SieveReader::open(world.bucket.clone(), options()).await
}

#[tokio::test]
async fn too_many_keys_are_published_without_a_summary() {
    let world = World::new().await;
    world.fill(0..500).await;
    let few = Options::default().with_max_summary_keys(499);
    let publisher = Publisher::new(world.bucket.clone(), few);
    publisher
        .publish(&checkpoint(&world.db).await)
        .await
        .unwrap();
    let reader = world.reader().await;
    assert_eq!(reader.stats().summary_bytes, 0);
    assert_exact_and_denying(&reader, 0..500).await;
}

#[tokio::test]
async fn an_empty_database_denies_everything() {
    let world = World::new().await;
    world.publish().await;
    let reader = world.reader().await;
    assert!(reader.answer(b"key").is_absent());
    assert_eq!(reader.get(b"key").await.unwrap(), None);
}

/// What no checkpoint keeps is removed, and nothing else.
#[tokio::test]
async fn cleaning_removes_what_no_checkpoint_keeps() {
    let world = World::new().await;
    let admin = lsm_sieve_slatedb::slatedb::admin::AdminBuilder::new(ROOT, world.store.clone());
    let admin = admin.build();
    let mut checkpoints = Vec::new();
    for part in 0..3 {
        world.fill(part * 300..(part + 1) * 300).await;
        let of = checkpoint(&world.db).await;
        world.publisher.publish(&of).await.unwrap();
        checkpoints.push(of);
    }
    world.overwrite(&world.object("notes.txt"), "mine").await;
    world
        .overwrite(&world.object("01J00000000000000000000000.sieve"), "old")
        .await;
    assert_eq!(world.publisher.clean().await.unwrap(), cleaned(0, 1));
    admin.delete_checkpoint(checkpoints[0].id).await.unwrap();
    assert_eq!(world.publisher.clean().await.unwrap(), cleaned(1, 0));
    assert_eq!(world.publisher.clean().await.unwrap(), cleaned(0, 0));
    assert_eq!(world.bytes(&world.object("notes.txt")).await, "mine");
    assert_exact_and_denying(&world.reader().await, 0..900).await;
}

fn cleaned(summaries: u64, segments: u64) -> lsm_sieve_slatedb::Cleaned {
    lsm_sieve_slatedb::Cleaned {
        summaries,
        segments,
    }
}
