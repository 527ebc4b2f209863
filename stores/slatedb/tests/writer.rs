//! The writer's own database behind filters.

use crate::faulty::{Fault, Faulty, Verb};
use crate::world::{ROOT, key, open_db, options, put_keys, settings, value};
use lsm_sieve_slatedb::slatedb::Db;
use lsm_sieve_slatedb::slatedb::config::{CheckpointOptions, Settings};
use lsm_sieve_slatedb::slatedb::object_store::path::Path;
use lsm_sieve_slatedb::{Bucket, Publisher, SieveReader, SieveWriter};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

async fn opened(store: Arc<Faulty>, settings: Settings) -> SieveWriter {
    let bucket = Bucket::create(ROOT, store.clone()).await.unwrap();
    let publisher = Publisher::new(bucket.clone(), options());
    let builder = Db::builder(Path::from(ROOT), store)
        .with_settings(settings)
        .with_filter_policies(vec![Arc::new(publisher.policy())]);
    SieveWriter::open(builder, bucket, options(), publisher)
        .await
        .unwrap()
}

async fn assert_exact(writer: &SieveWriter, present: Range<u64>) {
    for number in present {
        assert!(!writer.answer(&key(number)).is_absent(), "{number}");
        assert_eq!(writer.get(&key(number)).await.unwrap(), Some(value(number)));
    }
    let denied = (1_000_000..1_005_000).filter(|&i| writer.answer(&key(i)).is_absent());
    assert!(denied.count() >= 4_850);
}

async fn put(writer: &SieveWriter, numbers: Range<u64>) {
    for number in numbers {
        writer.put(&key(number), value(number)).await.unwrap();
    }
}

/// Rows that a writer left in the log only are found by its successor.
#[tokio::test]
async fn the_log_is_replayed_before_anything_is_denied() {
    let store = Faulty::new();
    let bucket = Bucket::create(ROOT, store.clone()).await.unwrap();
    let publisher = Publisher::new(bucket, options());
    let db = open_db(
        store.clone(),
        settings(false),
        vec![Arc::new(publisher.policy())],
    )
    .await;
    put_keys(&db, 0..700).await;
    crate::world::flush(&db).await;
    put_keys(&db, 700..1_000).await;
    db.flush().await.unwrap();
    // Not closed, as after a crash.
    std::mem::forget(db);
    let writer = opened(store, settings(false)).await;
    assert_exact(&writer, 0..1_000).await;
    put(&writer, 1_000..1_100).await;
    assert_exact(&writer, 0..1_100).await;
    writer.close().await.unwrap();
}

#[tokio::test]
async fn every_way_to_write_is_fed() {
    let writer = opened(Faulty::new(), settings(false)).await;
    put(&writer, 0..10).await;
    let mut batch = writer.batch();
    batch.put(&key(10), value(10));
    batch.put(&key(11), value(11));
    batch.delete(&key(0));
    writer.write(batch).await.unwrap();
    writer.delete(&key(1)).await.unwrap();
    assert_exact(&writer, 2..12).await;
    assert_eq!(writer.get(&key(0)).await.unwrap(), None);
    assert_eq!(writer.get(&key(1)).await.unwrap(), None);
    writer.close().await.unwrap();
}

/// Writes go on while checkpoints are published and filters replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_beside_publications_are_never_denied() {
    let store = Faulty::new();
    let writer = Arc::new(opened(store.clone(), settings(true)).await);
    let mut tasks = tokio::task::JoinSet::new();
    for part in 0..3_u64 {
        let writer = writer.clone();
        tasks.spawn(async move {
            for number in (0..6_000).map(|i| i * 3 + part) {
                writer.put(&key(number), value(number)).await.unwrap();
                assert!(!writer.answer(&key(number)).is_absent(), "{number}");
                // An older one, perhaps of before the last publication.
                let older = number - number % 97 % (number + 1) / 3 * 3;
                assert!(!writer.answer(&key(older)).is_absent(), "{older}");
            }
        });
    }
    let (mut publications, mut ended) = (0, 0);
    while ended < 3 {
        writer.publish(&CheckpointOptions::default()).await.unwrap();
        publications += 1;
        // Also ends the test if a task has failed.
        while let Some(task) = tasks.try_join_next() {
            task.unwrap();
            ended += 1;
        }
    }
    assert!(publications >= 2, "{publications}");
    writer.publish(&CheckpointOptions::default()).await.unwrap();
    assert_exact(&writer, 0..18_000).await;
    let bucket = Bucket::open(ROOT, store).await.unwrap();
    let reader = SieveReader::open(bucket, options()).await.unwrap();
    crate::world::assert_exact_and_denying(&reader, 0..18_000).await;
    writer.close().await.unwrap();
}

/// A publication that fails leaves the writer's filters as they were.
#[tokio::test]
async fn a_failed_publication_changes_nothing() {
    let store = Faulty::new();
    let writer = opened(store.clone(), settings(false)).await;
    put(&writer, 0..300).await;
    for name in [".sieve", "current"] {
        store.set(move |verb, path| {
            (verb == Verb::Put && path.ends_with(name)).then_some(Fault::Fail)
        });
        assert!(writer.publish(&CheckpointOptions::default()).await.is_err());
        store.heal();
        put(&writer, 300..400).await;
        assert_exact(&writer, 0..400).await;
    }
    writer.publish(&CheckpointOptions::default()).await.unwrap();
    assert_exact(&writer, 0..400).await;
    writer.close().await.unwrap();
}

/// A write whose future is dropped may take place all the same, even after a publication.
#[tokio::test]
async fn a_write_that_was_given_up_is_not_denied() {
    let writer = opened(Faulty::new(), settings(false)).await;
    for number in 0..200 {
        let key = key(number);
        let write = writer.put(&key, value(number));
        // Polled once or twice, then dropped.
        let _ = tokio::time::timeout(Duration::from_nanos(1), write).await;
    }
    writer.publish(&CheckpointOptions::default()).await.unwrap();
    for number in 0..200 {
        let key = key(number);
        let is_there = writer
            .snapshot()
            .unwrap()
            .get(&key)
            .await
            .unwrap()
            .is_some();
        assert!(!(is_there && writer.answer(&key).is_absent()), "{number}");
    }
    writer.close().await.unwrap();
}

/// Another writer has taken over: this one does not answer from memory once it learns of it.
#[tokio::test]
async fn a_fenced_writer_denies_nothing() {
    let store = Faulty::new();
    let fenced = opened(store.clone(), settings(false)).await;
    put(&fenced, 0..100).await;
    fenced.flush().await.unwrap();
    let writer = opened(store, settings(false)).await;
    put(&writer, 100..200).await;
    let mut tries = 0;
    while fenced.put(&key(9_000), value(9_000)).await.is_ok() {
        tries += 1;
        assert!(tries < 100, "the fenced writer goes on to write");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    for number in (0..200).chain([9_001]) {
        assert!(!fenced.answer(&key(number)).is_absent(), "{number}");
        assert!(fenced.get(&key(number)).await.is_err());
    }
    assert_exact(&writer, 0..200).await;
    writer.close().await.unwrap();
}

#[tokio::test]
async fn a_closed_writer_denies_nothing() {
    let writer = opened(Faulty::new(), settings(false)).await;
    put(&writer, 0..100).await;
    assert!(writer.answer(&key(9_000)).is_absent());
    writer.close().await.unwrap();
    assert!(!writer.answer(&key(9_000)).is_absent());
    assert!(writer.get(&key(9_000)).await.is_err());
}
