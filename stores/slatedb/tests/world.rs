//! A database with a writer, and what most tests need of it.

use crate::faulty::Faulty;
pub(crate) use crate::numbers::key;
use lsm_sieve_slatedb::slatedb::bytes::Bytes;
use lsm_sieve_slatedb::slatedb::config::{
    CheckpointOptions, CheckpointScope, CompactorOptions, DbReaderOptions, FlushOptions, FlushType,
    Settings, WriteOptions,
};
use lsm_sieve_slatedb::slatedb::object_store::{ObjectStore, ObjectStoreExt, path::Path};
use lsm_sieve_slatedb::slatedb::{CheckpointCreateResult, Db, FilterPolicy, WriteBatch};
use lsm_sieve_slatedb::{Bucket, Options, Publisher, SieveReader};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub(crate) const ROOT: &str = "some/db";

/// Small SSTs, so that there are many.
pub(crate) fn settings(compact: bool) -> Settings {
    Settings {
        l0_sst_size_bytes: 64 << 10,
        l0_max_ssts: 64,
        l0_max_ssts_per_key: 64,
        flush_interval: Some(Duration::from_millis(5)),
        manifest_poll_interval: Duration::from_millis(50),
        compactor_options: compact.then(|| CompactorOptions {
            poll_interval: Duration::from_millis(50),
            ..CompactorOptions::default()
        }),
        garbage_collector_options: None,
        min_filter_keys: 0,
        ..Settings::default()
    }
}

/// Options whose reads fail soon if the store does.
pub(crate) fn options() -> Options {
    Options::default().with_engine(DbReaderOptions {
        object_store_max_retries: Some(1),
        ..DbReaderOptions::default()
    })
}

pub(crate) async fn open_db(
    store: Arc<dyn ObjectStore>,
    settings: Settings,
    policies: Vec<Arc<dyn FilterPolicy>>,
) -> Db {
    let builder = Db::builder(ROOT, store).with_settings(settings);
    builder
        .with_filter_policies(policies)
        .build()
        .await
        .unwrap()
}

pub(crate) async fn put_keys(db: &Db, keys: Range<u64>) {
    let keys: Vec<u64> = keys.collect();
    for keys in keys.chunks(500) {
        let mut batch = WriteBatch::new();
        keys.iter().for_each(|&i| batch.put(key(i), value(i)));
        let options = WriteOptions::default();
        db.write_with_options(batch, &options).await.unwrap();
    }
}

pub(crate) fn value(number: u64) -> Bytes {
    let mut value = number.to_be_bytes().to_vec();
    value.resize(100, 1);
    value.into()
}

pub(crate) async fn flush(db: &Db) {
    let flush_type = FlushType::MemTable;
    db.flush_with_options(FlushOptions { flush_type })
        .await
        .unwrap();
}

pub(crate) async fn checkpoint(db: &Db) -> CheckpointCreateResult {
    let options = CheckpointOptions::default();
    db.create_checkpoint(CheckpointScope::All, &options)
        .await
        .unwrap()
}

/// A database of some keys, with a publisher in the writer's process.
pub(crate) struct World {
    pub(crate) store: Arc<Faulty>,
    pub(crate) bucket: Bucket,
    pub(crate) publisher: Publisher,
    pub(crate) db: Db,
}

impl World {
    /// An empty database with our filters in its SSTs.
    pub(crate) async fn new() -> Self {
        Self::with(settings(false), |publisher| {
            vec![Arc::new(publisher.policy())]
        })
        .await
    }

    pub(crate) async fn with(
        settings: Settings,
        policies: impl FnOnce(&Publisher) -> Vec<Arc<dyn FilterPolicy>>,
    ) -> Self {
        let store = Faulty::new();
        let bucket = Bucket::create(ROOT, store.clone()).await.unwrap();
        let publisher = Publisher::new(bucket.clone(), options());
        let db = open_db(store.clone(), settings, policies(&publisher)).await;
        Self {
            store,
            bucket,
            publisher,
            db,
        }
    }

    /// Writes these keys into SSTs of their own.
    pub(crate) async fn fill(&self, keys: Range<u64>) {
        put_keys(&self.db, keys).await;
        flush(&self.db).await;
    }

    pub(crate) async fn publish(&self) -> u64 {
        let published = self.publisher.publish(&checkpoint(&self.db).await).await;
        published.unwrap().manifest
    }

    pub(crate) async fn reader(&self) -> SieveReader {
        self.reader_with(options()).await
    }

    pub(crate) async fn reader_with(&self, options: Options) -> SieveReader {
        // Not the writer's bucket: another process would read the identity.
        let bucket = Bucket::open(ROOT, self.store.clone()).await.unwrap();
        SieveReader::open(bucket, options).await.unwrap()
    }

    /// Makes `sieve/current` name a checkpoint, as of a manifest that it need not be of.
    pub(crate) async fn point_current_at(&self, manifest: u64, of: &CheckpointCreateResult) {
        let at = self.object("current");
        let mut bytes = self.bytes(&at).await.to_vec();
        bytes[40..48].copy_from_slice(&manifest.to_le_bytes());
        bytes[48..64].copy_from_slice(of.id.as_bytes());
        let crc = crc32fast::hash(&bytes[..64]).to_le_bytes();
        bytes[64..].copy_from_slice(&crc);
        self.overwrite(&at, bytes).await;
    }

    pub(crate) fn object(&self, name: &str) -> Path {
        Path::from(format!("{ROOT}/sieve/{name}"))
    }

    pub(crate) fn summary(&self, manifest: u64) -> Path {
        self.object(&format!("{manifest:020}.sieve"))
    }

    pub(crate) async fn bytes(&self, path: &Path) -> Bytes {
        self.store.get(path).await.unwrap().bytes().await.unwrap()
    }

    pub(crate) async fn overwrite(&self, path: &Path, bytes: impl Into<Bytes>) {
        self.store.put(path, bytes.into().into()).await.unwrap();
    }

    pub(crate) async fn remove(&self, path: &Path) {
        self.store.delete(path).await.unwrap();
    }
}

/// Every key of `present` is found, and of many absent keys as many are denied as the filters
/// promise: a summary passes 0.1 %, each SST outside it 1 %.
pub(crate) async fn assert_exact_and_denying(reader: &SieveReader, present: Range<u64>) {
    assert_no_key_lost(reader, present).await;
    let ssts = i32::try_from(reader.stats().resident_filters).unwrap();
    let expected = 0.999 * 0.99_f64.powi(ssts);
    let absent = 1_000_000..1_020_000;
    let denied = absent
        .clone()
        .filter(|&i| reader.answer(&key(i)).is_absent());
    let denied = denied.count() as f64 / absent.count() as f64;
    assert!(denied >= expected - 0.008, "{denied} of {expected}");
    assert!(ssts > 0 || denied >= 0.99);
}

pub(crate) async fn assert_no_key_lost(reader: &SieveReader, present: Range<u64>) {
    for i in present {
        assert!(!reader.answer(&key(i)).is_absent(), "{i} is denied");
        assert_eq!(reader.get(&key(i)).await.unwrap(), Some(value(i)), "{i}");
    }
}
