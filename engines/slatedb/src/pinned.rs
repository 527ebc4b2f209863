//! A reader of one checkpoint and the filters of exactly its SSTs, as one value.

use crate::answer::Answer;
use crate::binding::{Binding, SegmentFilter, Summary, Unusable};
use crate::bucket::Bucket;
use crate::coverage::{Coverage, Residents, uncovered};
use crate::current::Publication;
use crate::error::{BucketError, OpenError};
use crate::keys::KeyHashes;
use crate::log::FilteredLog;
use crate::options::Options;
use crate::policy::{SievePolicy, catching};
use crate::ssts::{IndexCache, Sst, SstError, read_keys};
use bytes::Bytes;
use futures::stream::{self, StreamExt};
use lsm_sieve_filter::filter::Scalable;
use lsm_sieve_format::format::Source;
use slatedb::config::DbReaderOptions;
use slatedb::object_store::path::Path;
use slatedb::{
    CacheTarget, DbCacheManagerOps, DbReader, DbReaderBuilder, DbReaderMode, FilterPolicy,
    VersionedManifest,
};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A `DbReader` that is pinned to a checkpoint, and filters that were checked against its manifest.
pub struct PinnedReader {
    reader: DbReader,
    publication: Publication,
    /// `None`: some SST has no filter, and every answer is *maybe*.
    coverage: Option<Coverage>,
    residents: Residents,
    /// Whether a scrub has found that a filter changed in memory.
    is_distrusted: AtomicBool,
}

impl PinnedReader {
    /// Opens a checkpoint. Filters of SSTs that `before` has are taken over.
    ///
    /// A filter that cannot be had is no error; the answers are *maybe* then.
    pub(crate) async fn open(
        bucket: &Bucket,
        options: &Options,
        publication: Publication,
        before: Option<&Self>,
    ) -> Result<Self, OpenError> {
        let before = before.filter(|before| !before.is_distrusted());
        let log = options.log.clone();
        let log = log.map(|log| Arc::new(FilteredLog::new(log, *bucket.binding())));
        let kept = before.and_then(|before| before.summary_to_keep(options));
        let fetches_beside = kept.is_none();
        let (reader, fetched) = tokio::join!(
            open_engine(bucket, options, publication, log.clone()),
            async {
                match fetches_beside {
                    true => fetch_summary(bucket, options, publication).await,
                    false => None,
                }
            }
        );
        let reader = reader?;
        let manifest = reader.manifest();
        let cover = Cover {
            source: SegmentSource::new(bucket, options, publication, &manifest),
            ssts: Sst::of_manifest(&manifest),
            log: log.map(|log| log.filter()),
            before,
        };
        let is_near = |kept: &Arc<Summary>| cover.missing(Some(kept)).count() <= options.max_beside;
        let (mut coverage, mut residents) = match kept.filter(is_near) {
            Some(kept) => cover.with(Some(kept)).await,
            None => (None, Residents::new()),
        };
        if coverage.is_none() {
            let fetched = match fetches_beside {
                true => fetched,
                false => fetch_summary(bucket, options, publication).await,
            };
            (coverage, residents) = cover.with(fetched).await;
        }
        if coverage.is_none() {
            tracing::warn!(%publication, "some SST has no filter; every answer is maybe");
        }
        Ok(Self {
            reader,
            publication,
            coverage,
            residents,
            is_distrusted: AtomicBool::new(false),
        })
    }

    /// The summary, if the reader after this one may do with it and with filters of new SSTs.
    fn summary_to_keep(&self, options: &Options) -> Option<Arc<Summary>> {
        let coverage = self.coverage.as_ref()?;
        coverage
            .summary()
            .filter(|_| options.max_beside > 0 && options.segment_filters)
    }

    /// What is read: the checkpoint, its manifest and the epoch of its writer.
    pub fn publication(&self) -> Publication {
        self.publication
    }

    /// The filters' answer, without a request. It holds for this checkpoint, however old it is.
    #[inline]
    pub fn answer(&self, key: &[u8]) -> Answer {
        match &self.coverage {
            Some(coverage) if !self.is_distrusted() => coverage.answer(key),
            _ => Answer::Maybe,
        }
    }

    /// The value of a key in this checkpoint.
    ///
    /// # Errors
    /// SlateDB's, if the filters do not rule the key out.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, slatedb::Error> {
        if self.answer(key).is_absent() {
            return Ok(None);
        }
        self.reader.get(key).await
    }

    /// SlateDB's reader of this checkpoint, for scans and options.
    pub fn engine(&self) -> &DbReader {
        &self.reader
    }

    /// Whether all SSTs are covered, so that keys can be denied.
    pub fn is_covered(&self) -> bool {
        self.coverage.is_some() && !self.is_distrusted()
    }

    /// Verifies the checksums of the filters in memory, which reads all of them; false if a bit has
    /// changed. Every answer is *maybe* from then on.
    pub fn scrub(&self) -> bool {
        let is_intact = self.coverage.as_ref().is_none_or(Coverage::is_intact);
        if !is_intact {
            self.is_distrusted.store(true, Ordering::Relaxed);
        }
        is_intact
    }

    /// Clears a bit of the summary, as a memory fault would.
    #[cfg(test)]
    pub(crate) fn clear_one_bit(&self) {
        let coverage = self.coverage.as_ref();
        coverage.unwrap().clear_one_bit();
    }

    #[inline]
    pub(crate) fn is_distrusted(&self) -> bool {
        self.is_distrusted.load(Ordering::Relaxed)
    }

    /// Bytes of the summary; 0 without one.
    pub fn summary_bytes(&self) -> u64 {
        self.coverage.as_ref().map_or(0, Coverage::summary_bytes)
    }

    /// SSTs outside the summary whose filters are in memory.
    pub fn resident_filters(&self) -> usize {
        self.coverage.as_ref().map_or(0, Coverage::resident_filters)
    }
}

impl fmt::Debug for PinnedReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PinnedReader")
            .field("publication", &self.publication)
            .field("is_covered", &self.is_covered())
            .finish_non_exhaustive()
    }
}

/// What covers the SSTs of a reader that is being opened.
struct Cover<'s> {
    source: SegmentSource<'s>,
    ssts: Vec<Sst>,
    log: Option<Arc<Scalable>>,
    before: Option<&'s PinnedReader>,
}

impl Cover<'_> {
    /// The SSTs that need a filter beside the summary.
    fn missing<'s>(&'s self, summary: Option<&'s Arc<Summary>>) -> impl Iterator<Item = &'s Sst> {
        uncovered(&self.ssts, summary.map(Arc::as_ref))
    }

    /// Covers the SSTs with this summary, and with filters of those that it does not name.
    async fn with(&self, summary: Option<Arc<Summary>>) -> (Option<Coverage>, Residents) {
        let mut residents = Residents::new();
        if self.source.options.segment_filters {
            let missing = self.missing(summary.as_ref()).cloned().collect();
            residents = self.source.load(missing, self.before).await;
        }
        let binding = *self.source.bucket.binding();
        let log = self.log.clone();
        let coverage = Coverage::complete(binding, &self.ssts, summary, &residents, log);
        (coverage, residents)
    }
}

async fn open_engine(
    bucket: &Bucket,
    options: &Options,
    publication: Publication,
    log: Option<Arc<FilteredLog>>,
) -> Result<DbReader, OpenError> {
    let mut policies = options.policies.clone();
    policies.insert(0, Arc::new(SievePolicy::new(bucket)));
    // A reader without our log must not replay it: its rows would be in no filter.
    let engine = DbReaderOptions {
        skip_wal_replay: log.is_none(),
        ..options.engine.clone()
    };
    let builder = configured(bucket, options, publication, policies).with_options(engine);
    let builder = match log {
        Some(log) => builder.with_wal_reader(log),
        None => builder,
    };
    builder.build().await.map_err(|source| OpenError::Engine {
        checkpoint: publication.checkpoint,
        source,
    })
}

/// A builder of a reader that is pinned to the checkpoint, whatever the caller configured.
fn configured(
    bucket: &Bucket,
    options: &Options,
    publication: Publication,
    policies: Vec<Arc<dyn FilterPolicy>>,
) -> DbReaderBuilder<Path> {
    let builder = DbReader::builder(bucket.path().clone(), bucket.store().clone());
    let builder = match &options.configure {
        Some(configure) => configure(builder),
        None => builder,
    };
    let builder = match &options.transformer {
        Some(transformer) => builder.with_block_transformer(transformer.clone()),
        None => builder,
    };
    builder
        .with_reader_mode(DbReaderMode::Checkpoint(publication.checkpoint))
        .with_filter_policies(policies)
}

/// The summary of a manifest, if there is a usable one.
async fn fetch_summary(
    bucket: &Bucket,
    options: &Options,
    publication: Publication,
) -> Option<Arc<Summary>> {
    let at = bucket.summary_path(publication.manifest);
    let summary = read_filter(bucket, options, &at, |binding, bytes| {
        binding.decode_summary(bytes)
    });
    summary.await.map(Arc::new)
}

/// Reads and decodes a filter; `None` if it is missing or of no use.
async fn read_filter<T: Send + 'static>(
    bucket: &Bucket,
    options: &Options,
    at: &Path,
    decode: impl FnOnce(Binding, &[u8]) -> Result<T, Unusable> + Send + 'static,
) -> Option<T> {
    let bytes = match bucket.get(at, options.max_filter_bytes).await {
        Ok(bytes) => bytes?,
        Err(reason) => {
            tracing::warn!(%reason, "a filter cannot be read");
            return None;
        }
    };
    let binding = *bucket.binding();
    // Decoding a large filter takes a while, during which this thread is to serve others.
    let decoded = tokio::task::spawn_blocking(move || decode(binding, &bytes)).await;
    match decoded.ok()? {
        Ok(filter) => Some(filter),
        Err(reason) => {
            tracing::warn!(%reason, path = %at, "a filter is of no use");
            None
        }
    }
}

/// Where the filters of single SSTs come from, in this order: the reader before, the SST itself, the
/// object beside it, the keys of the SST.
pub(crate) struct SegmentSource<'s> {
    bucket: &'s Bucket,
    options: &'s Options,
    publication: Publication,
    manifest: &'s VersionedManifest,
}

impl<'s> SegmentSource<'s> {
    pub(crate) fn new(
        bucket: &'s Bucket,
        options: &'s Options,
        publication: Publication,
        manifest: &'s VersionedManifest,
    ) -> Self {
        Self {
            bucket,
            options,
            publication,
            manifest,
        }
    }

    /// The filters of these SSTs, as far as they can be had.
    async fn load(&self, ssts: Vec<Sst>, before: Option<&PinnedReader>) -> Residents {
        let mut residents = Residents::new();
        let mut missing = Vec::new();
        for sst in ssts {
            match before.and_then(|before| before.residents.get(&sst.id())) {
                Some(filter) => _ = residents.insert(sst.id(), filter.clone()),
                None => missing.push(sst),
            }
        }
        let loader = self.loader(&missing).await;
        let loads = missing.into_iter().map(|sst| {
            let loader = loader.as_ref();
            async move {
                let filter = self.filter_of(&sst, loader).await?;
                Some((sst.id(), filter))
            }
        });
        let loaded = stream::iter(loads).buffer_unordered(self.options.parallel);
        let loaded: Vec<_> = loaded.collect().await;
        residents.extend(loaded.into_iter().flatten());
        residents
    }

    /// A reader of its own, which decodes filters for us: one request for each SST. `None` if no SST
    /// has a filter inside, or if the checkpoint is gone.
    pub(crate) async fn loader(&self, ssts: &[Sst]) -> Option<DbReader> {
        if !ssts.iter().any(Sst::has_filter) {
            return None;
        }
        let policy: Arc<dyn FilterPolicy> = Arc::new(SievePolicy::new(self.bucket));
        let engine = DbReaderOptions {
            skip_wal_replay: true,
            ..self.options.engine.clone()
        };
        let builder = configured(self.bucket, self.options, self.publication, vec![policy]);
        let builder = builder
            .with_options(engine)
            .with_db_cache(Arc::new(IndexCache::default()), 0);
        match builder.build().await {
            Ok(reader) => Some(reader),
            Err(reason) => {
                tracing::warn!(%reason, "the filters in the SSTs cannot be read");
                None
            }
        }
    }

    async fn filter_of(&self, sst: &Sst, loader: Option<&DbReader>) -> Option<Arc<SegmentFilter>> {
        if let Some(filter) = inside(sst, loader).await {
            return Some(filter);
        }
        if let Some(filter) = self.beside(sst).await {
            return Some(Arc::new(filter));
        }
        if !self.options.read_uncovered {
            return None;
        }
        self.build(sst).await.map(Arc::new)
    }

    /// The filter of the object beside the SST.
    async fn beside(&self, sst: &Sst) -> Option<SegmentFilter> {
        let (at, id) = (self.bucket.segment_path(&sst.name()), sst.id());
        let filter = read_filter(self.bucket, self.options, &at, move |binding, bytes| {
            let filter = binding.decode_segment(bytes)?;
            match filter.id == id {
                true => Ok(filter),
                false => Err(Unusable::OtherSubject),
            }
        });
        filter.await
    }

    /// A filter made of the SST's keys, which is stored for others.
    async fn build(&self, sst: &Sst) -> Option<SegmentFilter> {
        let keys = match self.keys_of(sst).await {
            Ok(keys) => keys,
            Err(reason) => {
                tracing::warn!(%reason, sst = %sst.name(), "the keys of an SST cannot be read");
                return None;
            }
        };
        let (id, rate) = (sst.id(), self.options.segment_rate);
        let sealed = tokio::task::spawn_blocking(move || keys.seal(id, rate)).await;
        let filter = sealed.ok().flatten()?;
        if self.options.store_filters
            && let Err(reason) = self.store(sst, &filter).await
        {
            tracing::debug!(%reason, "a filter is not stored");
        }
        Some(filter)
    }

    pub(crate) async fn keys_of(&self, sst: &Sst) -> Result<KeyHashes, SstError> {
        let transformer = self.options.transformer.clone();
        read_keys(self.bucket, self.manifest, sst, transformer).await
    }

    /// Stores a filter in the place of one that is missing or damaged.
    async fn store(&self, sst: &Sst, filter: &SegmentFilter) -> Result<(), BucketError> {
        let at = self.bucket.segment_path(&sst.name());
        let encoded = self
            .bucket
            .binding()
            .encode_segment(filter, Source::RawKeys);
        let bytes: Bytes = match encoded {
            Ok(bytes) => bytes.into(),
            Err(source) => return Err(BucketError::Format { path: at, source }),
        };
        self.bucket.put_filter(&at, bytes).await
    }
}

/// The filter inside the SST, with one request.
pub(crate) async fn inside(sst: &Sst, loader: Option<&DbReader>) -> Option<Arc<SegmentFilter>> {
    let loader = loader.filter(|_| sst.has_filter())?;
    let warm = loader.warm_sst(sst.engine_id(), &[CacheTarget::Filters]);
    match catching(warm).await {
        (Ok(()), filter) => filter,
        (Err(reason), _) => {
            tracing::warn!(%reason, sst = %sst.name(), "the filter in an SST cannot be read");
            None
        }
    }
}
