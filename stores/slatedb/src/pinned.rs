//! A reader of one checkpoint and the filters of exactly its SSTs, as one value.

use crate::answer::Answer;
use crate::binding::Summary;
use crate::bucket::Bucket;
use crate::coverage::{Coverage, Residents};
use crate::current::Publication;
use crate::error::OpenError;
use crate::log::FilteredLog;
use crate::options::Options;
use crate::policy::SievePolicy;
use crate::source::{Cover, SegmentSource, configured, fetch_summary};
use crate::ssts::Sst;
use bytes::Bytes;
use slatedb::DbReader;
use slatedb::config::DbReaderOptions;
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
        // Beside the open, so that it takes no time of its own.
        let fetch = async {
            match &kept {
                Some(_) => None,
                None => fetch_summary(bucket, options, publication).await,
            }
        };
        let open = open_engine(bucket, options, publication, log.clone());
        let (reader, fetched) = tokio::join!(open, fetch);
        let reader = reader?;
        let manifest = reader.manifest();
        let cover = Cover {
            source: SegmentSource::new(bucket, options, publication, &manifest),
            ssts: Sst::of_manifest(&manifest),
            log: log.map(|log| log.filter()),
            before: before.map(|before| &before.residents),
        };
        let (coverage, residents) = match kept {
            Some(kept) => cover.keeping(kept).await,
            None => cover.with(fetched).await,
        };
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

    /// Filters that are in memory, whether they are probed or not.
    #[cfg(test)]
    pub(crate) fn held_filters(&self) -> usize {
        self.residents.len()
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
