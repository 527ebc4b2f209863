//! Readers that also replay the log.

use crate::world::{ROOT, World, assert_exact_and_denying, key, options, put_keys, value};
use lsm_sieve_slatedb::slatedb::config::{CheckpointOptions, CheckpointScope};
use lsm_sieve_slatedb::slatedb::wal::SlateDbWalReaderBuilder;
use lsm_sieve_slatedb::{Options, SieveReader};
use std::sync::Arc;

fn with_log(world: &World) -> Options {
    let log = SlateDbWalReaderBuilder::new()
        .with_path(ROOT.into())
        .with_object_store(world.store.clone());
    options().with_log(Arc::new(log.build().unwrap()))
}

async fn durable_checkpoint(world: &World) {
    world.db.flush().await.unwrap();
    let (scope, options) = (CheckpointScope::Durable, CheckpointOptions::default());
    let created = world.db.create_checkpoint(scope, &options).await.unwrap();
    world.publisher.publish(&created).await.unwrap();
}

async fn opened(world: &World, options: Options) -> SieveReader {
    SieveReader::open(world.bucket.clone(), options)
        .await
        .unwrap()
}

/// Rows that are in the log only are found by a reader with the log. One without does not have
/// them, in its filters or elsewhere.
#[tokio::test]
async fn rows_of_the_log_are_in_the_filters() {
    let world = World::new().await;
    world.fill(0..500).await;
    put_keys(&world.db, 500..900).await;
    durable_checkpoint(&world).await;
    let reader = opened(&world, with_log(&world)).await;
    let found = reader.get(&key(700)).await.unwrap();
    assert_eq!(
        found,
        Some(value(700)),
        "the checkpoint ends before the log does"
    );
    assert_exact_and_denying(&reader, 0..900).await;
    let without = opened(&world, options()).await;
    assert_exact_and_denying(&without, 0..500).await;
    for number in 500..900 {
        assert_eq!(without.get(&key(number)).await.unwrap(), None);
        assert_eq!(
            without.pinned().engine().get(key(number)).await.unwrap(),
            None
        );
    }
}

/// The log goes on after the checkpoint; the pinned reader does not.
#[tokio::test]
async fn the_filters_of_the_log_end_where_the_reader_ends() {
    let world = World::new().await;
    put_keys(&world.db, 0..400).await;
    durable_checkpoint(&world).await;
    let reader = opened(&world, with_log(&world)).await;
    put_keys(&world.db, 400..800).await;
    world.db.flush().await.unwrap();
    let store = reader.pinned();
    for number in 0..800 {
        let in_store = store.engine().get(key(number)).await.unwrap();
        let denied = reader.answer(&key(number)).is_absent();
        assert!(!(denied && in_store.is_some()), "{number}");
        assert_eq!(reader.get(&key(number)).await.unwrap(), in_store);
    }
    durable_checkpoint(&world).await;
    assert!(reader.refresh().await.unwrap());
    assert_exact_and_denying(&reader, 0..800).await;
}
