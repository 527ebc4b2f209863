//! Publishers: races, faults of the store, older writers, and what is read for a summary.

use crate::faulty::{Fault, Faulty, Requests, Verb};
use crate::world::{
    ROOT, World, assert_exact_and_denying, checkpoint, key, open_db, options, put_keys, settings,
};
use lsm_sieve_slatedb::slatedb::{CheckpointCreateResult, WriteBatch};
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
                // What is not published whole is not published, unless only the reply was lost.
                let is_published = reader.stats().manifest == of.manifest_id;
                assert!(!is_published || reader.stats().summary_bytes > 0);
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

/// A publisher whose requests are its own.
async fn publisher_apart(world: &World) -> (Arc<Publisher>, Arc<Faulty>) {
    let store = Faulty::over(world.store.clone());
    let bucket = Bucket::open(ROOT, store.clone()).await.unwrap();
    (Arc::new(Publisher::new(bucket, options())), store)
}

/// The next checkpoint has these keys more.
fn keys_of(round: u64) -> std::ops::Range<u64> {
    100 * round..100 * (round + 1)
}

async fn next_checkpoint(world: &World, round: u64) -> CheckpointCreateResult {
    world.fill(keys_of(round)).await;
    checkpoint(&world.db).await
}

/// A cleaner that removed what was stored and not yet named by `sieve/current` left each new
/// reader without a summary. It may run at any moment of a publication.
#[tokio::test]
async fn cleaning_at_any_request_of_a_publication_leaves_its_summary() {
    let world = World::new().await;
    let first = next_checkpoint(&world, 0).await;
    let (publisher, store) = publisher_apart(&world).await;
    publisher.publish(&first).await.unwrap();
    for round in 1.. {
        let of = next_checkpoint(&world, round).await;
        store.hold_after(round - 1, Fault::Hold, |_, _| true);
        let publishing = tokio::spawn({
            let publisher = publisher.clone();
            async move { publisher.publish(&of).await }
        });
        let is_held = store.holds(&publishing).await;
        world.publisher.clean().await.unwrap();
        if !is_held {
            assert!(round > 5, "{round}");
            break;
        }
        store.release();
        let published = publishing.await.unwrap().unwrap();
        assert_summary(&world, published.manifest, keys_of(round).end).await;
    }
}

/// The other way round: a publication at any moment of a cleaning, of a checkpoint that is made
/// meanwhile or was made before.
#[tokio::test]
async fn a_publication_at_any_request_of_a_cleaning_keeps_its_summary() {
    let world = World::new().await;
    let mut last = next_checkpoint(&world, 0).await;
    world.publisher.publish(&last).await.unwrap();
    let admin = lsm_sieve_slatedb::slatedb::admin::AdminBuilder::new(ROOT, world.store.clone());
    let admin = admin.build();
    let (cleaner, store) = publisher_apart(&world).await;
    for round in 1.. {
        // Something to remove, so that there are requests for it.
        let left = world.object("01J00000000000000000000000.sieve");
        world.overwrite(&left, "old").await;
        let before = match round % 2 {
            0 => None,
            _ => Some(next_checkpoint(&world, round).await),
        };
        store.hold_after(round - 1, Fault::Hold, |_, _| true);
        let cleaning = tokio::spawn({
            let cleaner = cleaner.clone();
            async move { cleaner.clean().await }
        });
        if !store.holds(&cleaning).await {
            assert!(round > 5, "{round}");
            break;
        }
        let of = match before {
            Some(of) => of,
            None => next_checkpoint(&world, round).await,
        };
        let published = world.publisher.publish(&of).await.unwrap();
        store.release();
        assert_eq!(cleaning.await.unwrap().unwrap().segments, 1);
        assert_summary(&world, published.manifest, keys_of(round).end).await;
        admin.delete_checkpoint(last.id).await.unwrap();
        last = of;
    }
}

async fn assert_summary(world: &World, manifest: u64, keys: u64) {
    let reader = world.reader().await;
    let stats = reader.stats();
    assert_eq!((stats.manifest, stats.resident_filters), (manifest, 0));
    assert!(stats.summary_bytes > 0);
    assert_exact_and_denying(&reader, 0..keys).await;
}

/// A publisher that remembered the keys of SSTs that are gone made ever larger summaries. After
/// many compactions its summary is as large as that of a publisher that knows nothing else.
#[tokio::test]
async fn a_summary_does_not_grow_with_ssts_that_are_gone() {
    let world = World::with(settings(true), |publisher| {
        vec![Arc::new(publisher.policy())]
    })
    .await;
    let keys_of = |round: u64| 500 * round..500 * (round + 1);
    for round in 0.. {
        assert!(
            round < 400,
            "the keys that were deleted are not compacted away"
        );
        world.fill(keys_of(round)).await;
        if let Some(old) = round.checked_sub(4) {
            let mut batch = WriteBatch::new();
            keys_of(old).for_each(|number| batch.delete(key(number)));
            world.db.write(batch).await.unwrap();
        }
        // The compactor keeps up.
        while world.db.manifest().l0().len() > 6 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let of = checkpoint(&world.db).await;
        world.publisher.publish(&of).await.unwrap();
        if round % 5 != 4 {
            continue;
        }
        let at = world.summary(of.manifest_id);
        let here = world.bytes(&at).await.len();
        world.remove(&at).await;
        elsewhere(&world).await.publish(&of).await.unwrap();
        let there = world.bytes(&at).await.len();
        assert!(here.abs_diff(there) * 20 <= there, "{here} {there}");
        // Of each key that ever was, there would be ten bits.
        let of_all = keys_of(round).end * 10 / 8;
        if round >= 19 && 2 * there as u64 <= of_all {
            let present = keys_of(round - 3).start..keys_of(round).end;
            return assert_exact_and_denying(&world.reader().await, present).await;
        }
    }
}

fn cleaned(summaries: u64, segments: u64) -> lsm_sieve_slatedb::Cleaned {
    lsm_sieve_slatedb::Cleaned {
        summaries,
        segments,
    }
}
