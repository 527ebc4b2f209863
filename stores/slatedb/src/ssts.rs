//! The SSTs of a manifest, and the keys of one SST.
//!
//! An SST is named by its ULID, 128 bits of which 80 are random. It is written once under that name
//! and never changed. A manifest may show only a part of an SST (in clones and projections); a
//! filter of the whole SST holds more keys than needed, which is safe.

use crate::bucket::{self, Bucket};
use crate::error::BucketError;
use crate::keys::KeyHashes;
use async_trait::async_trait;
use lsm_sieve_filter::SegmentId;
use slatedb::db_cache::{CacheFetch, CacheLoader, CachedEntry, CachedKey, DbCache};
use slatedb::manifest::{SsTableHandle, SsTableId};
use slatedb::object_store::{ObjectStore, ObjectStoreExt, memory::InMemory, path::Path};
use slatedb::{BlockTransformer, PathResolver, SstReader, VersionedManifest};
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};

/// Larger SSTs are not read. SlateDB makes them of 256 MiB by default.
const MOST_SST_BYTES: u64 = 8 << 30;

/// One SST of a manifest.
#[derive(Clone, Debug)]
pub(crate) struct Sst {
    handle: SsTableHandle,
}

impl Sst {
    /// The SSTs of a manifest, each once, in the manifest's order.
    pub(crate) fn of_manifest(manifest: &VersionedManifest) -> Vec<Self> {
        let mut seen = HashSet::new();
        let views = manifest.all_sst_views();
        let handles = views.map(|view| view.sst.clone());
        let new = handles.filter(|handle| seen.insert(handle.id.value().0));
        new.map(|handle| Self { handle }).collect()
    }

    pub(crate) fn id(&self) -> SegmentId {
        SegmentId::from_bytes(self.handle.id.value().0.to_be_bytes())
    }

    pub(crate) fn engine_id(&self) -> SsTableId {
        self.handle.id
    }

    /// The ULID, as in the name of the object.
    pub(crate) fn name(&self) -> String {
        self.handle.id.value().to_string()
    }

    /// No key is less than this one.
    pub(crate) fn first(&self) -> Option<&[u8]> {
        self.handle.info.first_entry.as_deref()
    }

    /// No key is greater than this one.
    pub(crate) fn last(&self) -> Option<&[u8]> {
        self.handle.info.last_entry.as_deref()
    }

    /// Whether some filter is inside.
    pub(crate) fn has_filter(&self) -> bool {
        self.handle.info.filter_len > 0
    }
}

/// Why the keys of an SST could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SstError {
    #[error(transparent)]
    Bucket(#[from] BucketError),
    #[error(transparent)]
    Engine(#[from] slatedb::Error),
    #[error("the SST has {stated} rows, of which {found} were read")]
    Incomplete { stated: u64, found: u64 },
}

/// The hashes of all keys of an SST.
pub(crate) async fn read_keys(
    bucket: &Bucket,
    manifest: &VersionedManifest,
    sst: &Sst,
    transformer: Option<Arc<dyn BlockTransformer>>,
) -> Result<KeyHashes, SstError> {
    let mut keys = KeyHashes::new(*bucket.binding());
    for_each_key(bucket, manifest, sst, transformer, |key| keys.add(key)).await?;
    Ok(keys)
}

/// Reads the key of each row of an SST, tombstones and merge operands included.
///
/// [`SstReader`] makes a request for each block, so the SST is fetched whole first, with one.
///
/// # Errors
/// Also if the SST's statistics tell of another number of rows; then not all were read.
pub(crate) async fn for_each_key(
    bucket: &Bucket,
    manifest: &VersionedManifest,
    sst: &Sst,
    transformer: Option<Arc<dyn BlockTransformer>>,
    mut take: impl FnMut(&[u8]),
) -> Result<(), SstError> {
    let at = PathResolver::new(bucket.path().clone(), manifest).sst_path(&sst.handle.id);
    let found = bucket.store().get(&at).await;
    let found = found.map_err(|source| bucket::failed("read", &at, source))?;
    let (bytes, _) = bucket::read(found, &at, MOST_SST_BYTES).await?;
    let local: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
    let root = Path::from("local");
    let own = root
        .clone()
        .join("compacted")
        .join(format!("{}.sst", sst.name()));
    let put = local.put(&own, bytes.into()).await;
    put.map_err(|source| bucket::failed("hold", &at, source))?;
    let cache: Arc<dyn DbCache> = Arc::new(IndexCache::default());
    let reader = SstReader::new(root, local, Some(cache), transformer);
    let file = reader.open_with_handle(sst.handle.clone())?;
    let mut found = 0;
    for block in 0..file.index().await?.len() {
        for row in file.read_block(block).await? {
            take(&row.key);
            found += 1;
        }
        tokio::task::coop::consume_budget().await;
    }
    // An SST of an old version has no statistics.
    if let Some(stats) = file.stats().await?
        && stats.num_rows() != found
    {
        let stated = stats.num_rows();
        return Err(SstError::Incomplete { stated, found });
    }
    Ok(())
}

/// Keeps indexes only. Without it, [`SstReader`] decodes the index of the SST again for each block.
/// It also runs loaders in the task that asks, as `policy::catching` needs it.
#[derive(Default)]
pub(crate) struct IndexCache {
    indexes: Mutex<HashMap<CachedKey, CachedEntry>>,
}

impl IndexCache {
    fn index(&self, key: &CachedKey) -> Option<CachedEntry> {
        let indexes = self.indexes.lock();
        let indexes = indexes.unwrap_or_else(PoisonError::into_inner);
        indexes.get(key).cloned()
    }

    fn keep(&self, key: CachedKey, index: CachedEntry) {
        let indexes = self.indexes.lock();
        let mut indexes = indexes.unwrap_or_else(PoisonError::into_inner);
        indexes.insert(key, index);
    }
}

type Found = Result<Option<CachedEntry>, slatedb::Error>;

#[async_trait]
impl DbCache for IndexCache {
    async fn get_block(&self, _: &CachedKey) -> Found {
        Ok(None)
    }

    async fn get_index(&self, key: &CachedKey) -> Found {
        Ok(self.index(key))
    }

    async fn get_filter(&self, _: &CachedKey) -> Found {
        Ok(None)
    }

    async fn get_stats(&self, _: &CachedKey) -> Found {
        Ok(None)
    }

    async fn insert(&self, _: CachedKey, _: CachedEntry) {}

    async fn remove(&self, _: &CachedKey) {}

    fn entry_count(&self) -> u64 {
        let indexes = self.indexes.lock();
        indexes.unwrap_or_else(PoisonError::into_inner).len() as u64
    }

    async fn fetch_index(
        &self,
        key: CachedKey,
        loader: CacheLoader,
    ) -> Result<CacheFetch, slatedb::Error> {
        if let Some(index) = self.index(&key) {
            return Ok(CacheFetch::hit(index));
        }
        let index = loader().await?;
        self.keep(key, index.clone());
        Ok(CacheFetch::miss(index))
    }
}
