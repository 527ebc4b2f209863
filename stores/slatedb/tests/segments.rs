//! Readers that hold the filters of single SSTs.

use crate::faulty::{Fault, Verb};
use crate::world::{
    ROOT, World, assert_exact_and_denying, assert_no_key_lost, checkpoint, key, open_db, options,
    put_keys, settings,
};
use lsm_sieve_slatedb::slatedb::object_store::ObjectStore;
use lsm_sieve_slatedb::slatedb::{BloomFilterPolicy, Db, FilterPolicy, WriteBatch};
use lsm_sieve_slatedb::{Bucket, Options, Publisher};
use std::sync::Arc;
use std::time::Duration;

/// A publisher that makes no summaries.
fn without_summaries(world: &World) -> Publisher {
    let options = Options::default().with_max_summary_keys(0);
    Publisher::new(world.bucket.clone(), options)
}

fn bloom(_: &Publisher) -> Vec<Arc<dyn FilterPolicy>> {
    vec![Arc::new(BloomFilterPolicy::new(10))]
}

async fn stored_filters(world: &World) -> usize {
    use futures::TryStreamExt;
    let folder = format!("{ROOT}/sieve").into();
    let all: Vec<_> = world.store.list(Some(&folder)).try_collect().await.unwrap();
    let is_segment = |name: &str| name.len() == "01J00000000000000000000000.sieve".len();
    let names = all.iter().filter_map(|object| object.location.filename());
    names.filter(|name| is_segment(name)).count()
}

/// One request for each SST, and after the next checkpoint one for each new SST.
#[tokio::test]
async fn each_new_sst_takes_one_request() {
    let world = World::new().await;
    for part in 0..20 {
        world.fill(part * 100..(part + 1) * 100).await;
    }
    let publisher = without_summaries(&world);
    publisher
        .publish(&checkpoint(&world.db).await)
        .await
        .unwrap();
    world.store.take();
    let reader = world.reader().await;
    let opened = world.store.take();
    assert_eq!(reader.stats().resident_filters, 20);
    assert!(opened.gets <= 20 + 15 && opened.puts == 0, "{opened:?}");
    assert_exact_and_denying(&reader, 0..2_000).await;

    world.fill(2_000..2_100).await;
    publisher
        .publish(&checkpoint(&world.db).await)
        .await
        .unwrap();
    world.store.take();
    assert!(reader.refresh().await.unwrap());
    let moved = world.store.take();
    assert!(moved.gets <= 1 + 15, "{moved:?}");
    assert_exact_and_denying(&reader, 0..2_100).await;
}

/// A reader that keeps its summary fetches no other one, as long as few SSTs are new.
#[tokio::test]
async fn a_kept_summary_is_completed_by_filters_of_new_ssts() {
    let world = World::new().await;
    world.fill(0..5_000).await;
    world.publish().await;
    let reader = world.reader_with(options().with_max_beside(3)).await;
    let summary = reader.stats().summary_bytes;
    for part in 0..3 {
        world.fill(5_000 + part * 100..5_100 + part * 100).await;
        world.publish().await;
        world.store.take();
        assert!(reader.refresh().await.unwrap());
        assert!(world.store.take().gets <= 1 + 15);
        let stats = reader.stats();
        assert_eq!(
            (stats.summary_bytes, stats.resident_filters),
            (summary, part + 1)
        );
        assert_exact_and_denying(&reader, 0..5_100 + part * 100).await;
    }
    // One more is too many.
    world.fill(5_300..5_400).await;
    let manifest = world.publish().await;
    assert!(reader.refresh().await.unwrap());
    assert!(reader.stats().summary_bytes > summary && reader.stats().resident_filters == 0);
    assert_exact_and_denying(&reader, 0..5_400).await;
    // A filter that cannot be had: the summary is fetched after all.
    world.fill(5_400..5_500).await;
    world.publish().await;
    world
        .store
        .set(|verb, path| (verb == Verb::Get && path.ends_with(".sst")).then_some(Fault::Fail));
    assert!(reader.refresh().await.unwrap());
    world.store.heal();
    assert!(reader.stats().is_covered && reader.stats().manifest > manifest);
    assert_exact_and_denying(&reader, 0..5_500).await;
}

/// A database that was written without us: the first reader reads each SST once and stores its
/// filter; the next one fetches those.
#[tokio::test]
async fn ssts_without_our_filter_are_read_once() {
    let world = World::with(settings(false), bloom).await;
    for part in 0..5 {
        world.fill(part * 300..(part + 1) * 300).await;
    }
    let publisher = without_summaries(&world);
    publisher
        .publish(&checkpoint(&world.db).await)
        .await
        .unwrap();
    let reader = world.reader().await;
    assert_exact_and_denying(&reader, 0..1_500).await;
    assert_eq!(stored_filters(&world).await, 5);
    // The second reader needs no SST.
    world.store.set(|_, path| {
        path.ends_with(".sst")
            .then_some(Fault::Delay(Duration::ZERO))
    });
    let second = world
        .reader_with(options().with_read_uncovered(false))
        .await;
    assert!(second.stats().is_covered);
    assert_exact_and_denying(&second, 0..1_500).await;
}

/// SlateDB gives an SST of few rows no filter at all.
#[tokio::test]
async fn ssts_of_few_rows_get_their_filter_beside_them() {
    let few = lsm_sieve_slatedb::slatedb::config::Settings {
        min_filter_keys: 1_000,
        ..settings(false)
    };
    let world = World::with(few, |publisher| vec![Arc::new(publisher.policy())]).await;
    world.fill(0..50).await;
    let publisher = without_summaries(&world);
    publisher
        .publish(&checkpoint(&world.db).await)
        .await
        .unwrap();
    assert_exact_and_denying(&world.reader().await, 0..50).await;
    assert_eq!(stored_filters(&world).await, 1);
}

/// Each fault leaves the reader right; one that may not write keeps its filters to itself.
#[tokio::test]
async fn filters_that_cannot_be_had_deny_nothing() {
    let world = World::with(settings(false), bloom).await;
    world.fill(0..300).await;
    let publisher = without_summaries(&world);
    publisher
        .publish(&checkpoint(&world.db).await)
        .await
        .unwrap();

    world
        .store
        .set(|verb, _| (verb == Verb::Put).then_some(Fault::Fail));
    assert_exact_and_denying(&world.reader().await, 0..300).await;
    assert_eq!(stored_filters(&world).await, 0);

    world.store.heal();
    let reader = world
        .reader_with(options().with_read_uncovered(false))
        .await;
    assert!(!reader.stats().is_covered);
    assert_no_key_lost(&reader, 0..300).await;
}

/// A stored filter that is damaged, or of another SST, is made anew.
#[tokio::test]
async fn a_stored_filter_that_is_of_no_use_is_replaced() {
    let world = World::with(settings(false), bloom).await;
    world.fill(0..300).await;
    world.fill(300..600).await;
    let publisher = without_summaries(&world);
    publisher
        .publish(&checkpoint(&world.db).await)
        .await
        .unwrap();
    world.reader().await;
    let names: Vec<String> = {
        let manifest = world.db.manifest();
        let ssts = manifest.all_sst_views();
        ssts.map(|view| format!("{}.sieve", view.sst.id.value()))
            .collect()
    };
    let (one, other) = (world.object(&names[0]), world.object(&names[1]));
    let (right, swapped) = (world.bytes(&one).await, world.bytes(&other).await);
    for wrong in [swapped.to_vec(), right[..40].to_vec(), b"nonsense".to_vec()] {
        world.overwrite(&one, wrong).await;
        assert_exact_and_denying(&world.reader().await, 0..600).await;
        assert_eq!(world.bytes(&one).await, right);
    }
    for byte in 0..right.len() {
        let mut damaged = right.to_vec();
        damaged[byte] ^= 1;
        world.overwrite(&one, damaged).await;
        let reader = world
            .reader_with(options().with_read_uncovered(false))
            .await;
        assert!(!reader.stats().is_covered, "byte {byte}");
    }
}

/// A damaged filter inside an SST: its keys are read instead.
#[tokio::test]
async fn a_damaged_filter_inside_an_sst_denies_no_key() {
    struct Damaged(Arc<dyn FilterPolicy>);
    impl FilterPolicy for Damaged {
        fn name(&self) -> &str {
            self.0.name()
        }
        fn builder(&self) -> Box<dyn lsm_sieve_slatedb::slatedb::FilterBuilder> {
            Box::new(DamagedBuilder(self.0.builder()))
        }
        fn decode(&self, data: &[u8]) -> Arc<dyn lsm_sieve_slatedb::slatedb::Filter> {
            self.0.decode(data)
        }
        fn estimate_size(&self, keys: usize) -> usize {
            self.0.estimate_size(keys)
        }
    }
    struct DamagedBuilder(Box<dyn lsm_sieve_slatedb::slatedb::FilterBuilder>);
    impl lsm_sieve_slatedb::slatedb::FilterBuilder for DamagedBuilder {
        fn add_entry(&mut self, entry: &lsm_sieve_slatedb::slatedb::RowEntry) {
            self.0.add_entry(entry);
        }
        fn build(&mut self) -> Arc<dyn lsm_sieve_slatedb::slatedb::Filter> {
            Arc::new(DamagedFilter(self.0.build()))
        }
    }
    struct DamagedFilter(Arc<dyn lsm_sieve_slatedb::slatedb::Filter>);
    impl lsm_sieve_slatedb::slatedb::Filter for DamagedFilter {
        fn might_match(&self, query: &lsm_sieve_slatedb::slatedb::FilterQuery) -> bool {
            self.0.might_match(query)
        }
        fn encode(&self, writer: &mut dyn bytes::BufMut) {
            let mut bytes = Vec::new();
            self.0.encode(&mut bytes);
            let middle = bytes.len() / 2;
            bytes[middle] ^= 4;
            writer.put_slice(&bytes);
        }
        fn size(&self) -> usize {
            self.0.size()
        }
        fn clamp_allocated_size(&self) -> Arc<dyn lsm_sieve_slatedb::slatedb::Filter> {
            self.0.clamp_allocated_size()
        }
    }
    let world = World::with(settings(false), |publisher| {
        vec![Arc::new(Damaged(Arc::new(publisher.policy())))]
    })
    .await;
    world.fill(0..2_000).await;
    without_summaries(&world)
        .publish(&checkpoint(&world.db).await)
        .await
        .unwrap();
    assert_exact_and_denying(&world.reader().await, 0..2_000).await;
    assert!(stored_filters(&world).await > 0);
}

/// A clone reads SSTs of its parent, which have filters of the parent's seed and lie elsewhere.
#[tokio::test]
async fn a_clone_reads_the_ssts_of_its_parent() {
    let world = World::new().await;
    world.fill(0..1_000).await;
    let store: Arc<dyn ObjectStore> = world.store.clone();
    let admin = lsm_sieve_slatedb::slatedb::admin::AdminBuilder::new("clone", store.clone());
    let parent = lsm_sieve_slatedb::slatedb::CloneSourceSpec::new(ROOT);
    let clone = admin.build().create_clone_builder_from_source(parent);
    clone.build().await.unwrap();
    let bucket = Bucket::create("clone", store.clone()).await.unwrap();
    let publisher = Publisher::new(bucket.clone(), options());
    let db = Db::builder("clone", store).with_settings(settings(false));
    let db = db.with_filter_policies(vec![Arc::new(publisher.policy())]);
    let db = db.build().await.unwrap();
    put_keys(&db, 1_000..1_500).await;
    publisher.publish(&checkpoint(&db).await).await.unwrap();
    let open = |options| lsm_sieve_slatedb::SieveReader::open(bucket.clone(), options);
    assert_exact_and_denying(&open(options()).await.unwrap(), 0..1_500).await;
    let manifest = checkpoint(&db).await;
    Publisher::new(bucket.clone(), Options::default().with_max_summary_keys(0))
        .publish(&manifest)
        .await
        .unwrap();
    assert_exact_and_denying(&open(options()).await.unwrap(), 0..1_500).await;
}

/// Tombstones and merge operands are rows; their keys are never denied.
#[tokio::test]
async fn deleted_keys_are_absent_in_the_store_and_maybe_in_the_filters() {
    let world = World::new().await;
    world.fill(0..1_000).await;
    let mut batch = WriteBatch::new();
    (0..1_000).step_by(3).for_each(|i| batch.delete(key(i)));
    world.db.write(batch).await.unwrap();
    world.publish().await;
    let reader = world.reader().await;
    for i in 0..1_000 {
        let found = reader.get(&key(i)).await.unwrap();
        assert_eq!(found.is_none(), i % 3 == 0, "{i}");
    }
}

/// Databases with a policy of another process: the same identity from the bucket.
#[tokio::test]
async fn writers_of_two_processes_share_the_identity() {
    let world = World::new().await;
    world.fill(0..500).await;
    world.db.close().await.unwrap();
    let bucket = Bucket::create(ROOT, world.store.clone()).await.unwrap();
    let publisher = Publisher::new(bucket, options());
    let policies: Vec<Arc<dyn FilterPolicy>> = vec![Arc::new(publisher.policy())];
    let db = open_db(world.store.clone(), settings(false), policies).await;
    put_keys(&db, 500..1_000).await;
    without_summaries(&world)
        .publish(&checkpoint(&db).await)
        .await
        .unwrap();
    let reader = world
        .reader_with(options().with_read_uncovered(false))
        .await;
    assert!(reader.stats().is_covered);
    assert_exact_and_denying(&reader, 0..1_000).await;
}
