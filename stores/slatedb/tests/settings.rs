//! Databases with settings that change where keys lie or how blocks are stored.

use crate::world::{
    ROOT, assert_exact_and_denying, checkpoint, key, options, put_keys, settings, value,
};
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::object_store::{ObjectStore, memory::InMemory, path::Path};
use lsm_sieve_slatedb::slatedb::{
    BlockTransformer, Db, DbBuilder, Error, MergeOperator, MergeOperatorError, PrefixExtractor,
    PrefixTarget,
};
use lsm_sieve_slatedb::{Bucket, Options, Publisher, SieveReader};
use std::sync::Arc;

/// Publishes with a summary, from SSTs that this publisher reads, and without one; opens a reader
/// each time.
async fn assert_works(configure: impl Fn(DbBuilder<Path>) -> DbBuilder<Path>, options: Options) {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let bucket = Bucket::create(ROOT, store.clone()).await.unwrap();
    let here = Publisher::new(bucket.clone(), options.clone());
    let builder = Db::builder(Path::from(ROOT), store).with_settings(settings(false));
    let builder = builder.with_filter_policies(vec![Arc::new(here.policy())]);
    let db = configure(builder).build().await.unwrap();
    put_keys(&db, 0..2_500).await;
    let elsewhere = Publisher::new(bucket.clone(), options.clone());
    let without = Publisher::new(bucket.clone(), options.clone().with_max_summary_keys(0));
    for (publisher, more) in [(here, 2_500), (elsewhere, 2_600), (without, 2_700)] {
        put_keys(&db, more..more + 100).await;
        publisher.publish(&checkpoint(&db).await).await.unwrap();
        let reader = SieveReader::open(bucket.clone(), options.clone())
            .await
            .unwrap();
        assert!(reader.stats().is_covered);
        assert_exact_and_denying(&reader, 0..more + 100).await;
    }
    db.close().await.unwrap();
}

/// Stores blocks with other bytes, as encryption does.
struct Inverted;

#[async_trait::async_trait]
impl BlockTransformer for Inverted {
    async fn encode(&self, data: Bytes) -> Result<Bytes, Error> {
        Ok(data.iter().map(|byte| !byte).collect())
    }

    async fn decode(&self, data: Bytes) -> Result<Bytes, Error> {
        Ok(data.iter().map(|byte| !byte).collect())
    }
}

#[tokio::test]
async fn blocks_may_be_transformed() {
    let transformer = Arc::new(Inverted);
    let options = options().with_block_transformer(transformer.clone());
    let configure = |builder: DbBuilder<Path>| builder.with_block_transformer(transformer.clone());
    assert_works(configure, options).await;
}

/// Trees by the first four bits of a key.
struct FirstByte;

impl PrefixExtractor for FirstByte {
    fn name(&self) -> &str {
        "first-byte"
    }

    fn prefix_len(&self, target: &PrefixTarget) -> Option<usize> {
        let (PrefixTarget::Point(bytes) | PrefixTarget::Prefix(bytes)) = target;
        (!bytes.is_empty()).then_some(1)
    }
}

#[tokio::test]
async fn keys_may_lie_in_many_trees() {
    let options =
        options().with_builder(|builder| builder.with_segment_extractor(Arc::new(FirstByte)));
    let configure = |builder: DbBuilder<Path>| builder.with_segment_extractor(Arc::new(FirstByte));
    assert_works(configure, options).await;
}

/// The last operand is the value.
struct Last;

impl MergeOperator for Last {
    fn merge(
        &self,
        _: &Bytes,
        _: Option<Bytes>,
        operand: Bytes,
    ) -> Result<Bytes, MergeOperatorError> {
        Ok(operand)
    }
}

/// A key that has nothing but a merge operand is there.
#[tokio::test]
async fn merge_operands_are_keys() {
    let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let bucket = Bucket::create(ROOT, store.clone()).await.unwrap();
    let publisher = Publisher::new(bucket.clone(), options());
    let builder = Db::builder(Path::from(ROOT), store)
        .with_settings(settings(false))
        .with_merge_operator(Arc::new(Last))
        .with_filter_policies(vec![Arc::new(publisher.policy())]);
    let db = builder.build().await.unwrap();
    for number in 0..500 {
        db.merge(key(number), value(number)).await.unwrap();
    }
    publisher.publish(&checkpoint(&db).await).await.unwrap();
    let options = options().with_builder(|builder| builder.with_merge_operator(Arc::new(Last)));
    let reader = SieveReader::open(bucket, options).await.unwrap();
    assert_exact_and_denying(&reader, 0..500).await;
}
