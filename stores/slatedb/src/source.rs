//! Where the filters of a reader come from.
//!
//! A summary is one object. The filter of an SST outside the summary is taken from the first of these
//! that has it: the reader before, the SST itself, the object beside it, the keys of the SST.

use crate::binding::{Binding, SegmentFilter, Summary, Unusable};
use crate::bucket::Bucket;
use crate::coverage::{Coverage, Residents, uncovered};
use crate::current::Publication;
use crate::error::BucketError;
use crate::keys::KeyHashes;
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
use std::sync::Arc;

/// What covers the SSTs of a reader that is being opened.
pub(crate) struct Cover<'s> {
    pub(crate) source: SegmentSource<'s>,
    pub(crate) ssts: Vec<Sst>,
    pub(crate) log: Option<Arc<Scalable>>,
    /// Filters that the reader before has.
    pub(crate) before: Option<&'s Residents>,
}

impl Cover<'_> {
    /// Covers the SSTs with the summary of the reader before, if few SSTs are new; else with their
    /// own.
    pub(crate) async fn keeping(&self, kept: Arc<Summary>) -> (Option<Coverage>, Residents) {
        if self.missing(Some(&kept)).count() <= self.source.options.max_beside {
            let covered = self.with(Some(kept)).await;
            if covered.0.is_some() {
                return covered;
            }
        }
        let SegmentSource {
            bucket,
            options,
            publication,
            ..
        } = self.source;
        self.with(fetch_summary(bucket, options, publication).await)
            .await
    }

    /// Covers the SSTs with this summary, and with filters of those that it does not name.
    pub(crate) async fn with(
        &self,
        summary: Option<Arc<Summary>>,
    ) -> (Option<Coverage>, Residents) {
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

    /// The SSTs that need a filter beside the summary.
    fn missing<'s>(&'s self, summary: Option<&'s Arc<Summary>>) -> impl Iterator<Item = &'s Sst> {
        uncovered(&self.ssts, summary.map(Arc::as_ref))
    }
}

/// A builder of a reader that is pinned to the checkpoint, whatever the caller configured.
pub(crate) fn configured(
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
pub(crate) async fn fetch_summary(
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

/// Where the filters of single SSTs come from.
#[derive(Clone, Copy)]
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
    async fn load(&self, ssts: Vec<Sst>, before: Option<&Residents>) -> Residents {
        let mut residents = Residents::new();
        let mut missing = Vec::new();
        for sst in ssts {
            match before.and_then(|before| before.get(&sst.id())) {
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
