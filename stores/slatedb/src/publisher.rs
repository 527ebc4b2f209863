//! Publishes checkpoints with their summaries.
//!
//! What is published is a function of the manifest, which SlateDB writes under its own fencing: an
//! older writer can commit no manifest, so a publisher of it can only publish an old one again, with
//! the same keys, and `sieve/current` takes no older one.

use crate::bucket::{self, Bucket};
use crate::current::{Publication, advance};
use crate::error::{BucketError, PublishError};
use crate::keys::{RecentKeys, stage_of};
use crate::options::Options;
use crate::policy::SievePolicy;
use crate::source::{SegmentSource, inside};
use crate::ssts::{Sst, SstError};
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use lsm_sieve_filter::SegmentId;
use lsm_sieve_filter::hash::KeyHash;
use lsm_sieve_filter::math::Items;
use lsm_sieve_support::fault::fault;
use slatedb::admin::{Admin, AdminBuilder};
use slatedb::object_store::path::Path;
use slatedb::{CheckpointCreateResult, DbReader, VersionedManifest};
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use tokio::sync::Mutex;

/// Hashes of SSTs that were written and not published yet: 512 MiB of them.
const MOST_RECENT_KEYS: usize = 64 << 20;

/// Makes the summary of each checkpoint and publishes both.
///
/// One publisher per database is enough; a second one does no harm. It may run in the writer's
/// process, where it need not read the SSTs, or anywhere else.
pub struct Publisher {
    bucket: Bucket,
    options: Options,
    recent: Arc<RecentKeys>,
    /// The keys of the SSTs of the last checkpoint, 8 bytes each, so that each SST is read once.
    known: Mutex<HashMap<SegmentId, Arc<[KeyHash]>>>,
}

/// The objects that [`Publisher::clean`] removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Summaries of manifests that no checkpoint keeps.
    pub summaries: u64,
    /// Filters of SSTs that are in no manifest of a checkpoint.
    pub segments: u64,
}

impl Publisher {
    /// A publisher for this database.
    pub fn new(bucket: Bucket, options: Options) -> Self {
        Self {
            bucket,
            options,
            recent: Arc::new(RecentKeys::new(MOST_RECENT_KEYS)),
            known: Mutex::default(),
        }
    }

    /// A policy for the writer and the compactor in this process. It leaves the keys of each SST to
    /// this publisher, which otherwise reads each SST once.
    pub fn policy(&self) -> SievePolicy {
        SievePolicy::new(&self.bucket).recording(self.recent.clone())
    }

    /// Stores the summary of a checkpoint, then makes the checkpoint the current one.
    ///
    /// # Errors
    /// If a newer checkpoint is published, or if the store fails. Publish the same checkpoint or a
    /// later one again; nothing is left half done that a reader would trust.
    pub async fn publish(
        &self,
        checkpoint: &CheckpointCreateResult,
    ) -> Result<Publication, PublishError> {
        let manifest = self.manifest(checkpoint.manifest_id).await?;
        let publication = Publication {
            epoch: manifest.writer_epoch(),
            manifest: manifest.id(),
            checkpoint: checkpoint.id,
        };
        let ssts = Sst::of_manifest(&manifest);
        if !ssts.is_empty() && !self.has_summary(&publication, &ssts).await? {
            self.make_summary(publication, &manifest, &ssts).await?;
        }
        advance(&self.bucket, publication).await?;
        Ok(publication)
    }

    fn admin(&self) -> Admin {
        let (path, store) = (self.bucket.path().clone(), self.bucket.store().clone());
        AdminBuilder::new(path, store).build()
    }

    async fn manifest(&self, id: u64) -> Result<VersionedManifest, PublishError> {
        let manifest = self.admin().read_manifest(Some(id)).await?;
        manifest.ok_or(PublishError::NoManifest(id))
    }

    /// Whether a summary of these SSTs is stored already.
    async fn has_summary(
        &self,
        publication: &Publication,
        ssts: &[Sst],
    ) -> Result<bool, PublishError> {
        let at = self.bucket.summary_path(publication.manifest);
        let bytes = match self.bucket.get(&at, self.options.max_filter_bytes).await {
            Ok(Some(bytes)) => bytes,
            Ok(None) | Err(BucketError::TooLarge { .. }) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let decoded = self.bucket.binding().decode_summary(&bytes);
        Ok(decoded.is_ok_and(|summary| ssts.iter().all(|sst| summary.covered.contains(&sst.id()))))
    }

    /// Makes and stores the summary, unless the keys are too many for one.
    async fn make_summary(
        &self,
        publication: Publication,
        manifest: &VersionedManifest,
        ssts: &[Sst],
    ) -> Result<(), PublishError> {
        let keys = self.keys_of(publication, manifest, ssts).await?;
        let count: u64 = keys.iter().map(|keys| keys.len() as u64).sum();
        if count > self.options.max_summary_keys {
            tracing::warn!(count, "too many keys for a summary; none is published");
            return Ok(());
        }
        let covered: Vec<SegmentId> = ssts.iter().map(Sst::id).collect();
        let (binding, rate) = (*self.bucket.binding(), self.options.summary_rate);
        let making = tokio::task::spawn_blocking(move || {
            let stage = stage_of(summary_hashes(&keys)?, rate).ok()?;
            Some(binding.encode_summary(covered, &stage, count, rate))
        });
        let at = self.bucket.summary_path(publication.manifest);
        let encoded = making.await.ok().flatten();
        let encoded = encoded.ok_or(PublishError::Memory(Items::new(count)))?;
        let bytes = encoded.map_err(|source| BucketError::Format {
            path: at.clone(),
            source,
        })?;
        self.bucket.put_filter(&at, Bytes::from(bytes)).await?;
        Ok(())
    }

    /// The hashes of the keys of all SSTs. Hashes of SSTs that no longer exist are dropped.
    async fn keys_of(
        &self,
        publication: Publication,
        manifest: &VersionedManifest,
        ssts: &[Sst],
    ) -> Result<Vec<Arc<[KeyHash]>>, PublishError> {
        let mut known = self.known.lock().await;
        let mut live: HashSet<SegmentId> = ssts.iter().map(Sst::id).collect();
        fault!(GoneSstsRemembered, live.extend(known.keys()));
        known.retain(|id, _| live.contains(id));
        let new = ssts.iter().filter(|sst| !known.contains_key(&sst.id()));
        let new: Vec<Sst> = new.cloned().collect();
        let source = SegmentSource::new(&self.bucket, &self.options, publication, manifest);
        let loader = match self.recent.is_empty() {
            true => None,
            false => source.loader(&new).await,
        };
        let reads = new.into_iter().map(|sst| {
            let (source, loader) = (&source, loader.as_ref());
            async move {
                let hashes = self.hashes_of(&sst, source, loader).await?;
                Ok::<_, PublishError>((sst.id(), hashes))
            }
        });
        // Whole SSTs are in memory meanwhile.
        const AT_A_TIME: usize = 4;
        let reads: Vec<_> = reads.collect();
        let mut reads = stream::iter(reads).buffer_unordered(AT_A_TIME);
        while let Some((id, hashes)) = reads.try_next().await? {
            known.insert(id, hashes);
        }
        fault!(
            GoneSstsRemembered,
            return Ok(known.values().cloned().collect())
        );
        Ok(ssts
            .iter()
            .filter_map(|sst| known.get(&sst.id()).cloned())
            .collect())
    }

    /// The hashes of an SST's keys: those that the policy left, if the filter inside the SST says
    /// that they are its own; else read from the SST.
    async fn hashes_of(
        &self,
        sst: &Sst,
        source: &SegmentSource<'_>,
        loader: Option<&DbReader>,
    ) -> Result<Arc<[KeyHash]>, PublishError> {
        if let Some(filter) = inside(sst, loader).await
            && let Some(hashes) = self.recent.take(filter.id)
        {
            return Ok(hashes);
        }
        let keys = source.keys_of(sst).await?;
        let entries = Items::new(keys.entries());
        let hashes = keys.into_hashes().ok_or(PublishError::Memory(entries))?;
        Ok(hashes.into())
    }

    /// Removes summaries of manifests that no checkpoint keeps, and filters of SSTs that are in no
    /// such manifest. Always safe: who misses one answers *maybe*, or reads the SST.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn clean(&self) -> Result<Cleaned, PublishError> {
        let admin = self.admin();
        let checkpoints = admin.list_checkpoints(None).await?;
        let mut kept = HashSet::new();
        let manifests: HashSet<u64> = checkpoints.iter().map(|kept| kept.manifest_id).collect();
        // A checkpoint that was made since then has a newer manifest.
        let newest = manifests.iter().max().copied().unwrap_or(0);
        let newest = self.bucket.summary_path(newest);
        for id in manifests {
            kept.insert(self.bucket.summary_path(id));
            if let Some(manifest) = admin.read_manifest(Some(id)).await? {
                let ssts = Sst::of_manifest(&manifest);
                kept.extend(ssts.iter().map(|sst| self.bucket.segment_path(&sst.name())));
            }
        }
        let folder = self.bucket.folder();
        let listed: Vec<_> = self
            .bucket
            .store()
            .list(Some(&folder))
            .try_collect()
            .await
            .map_err(|source| bucket::failed("list", &folder, source))?;
        let mut cleaned = Cleaned::default();
        for object in listed {
            let Some(kind) = kind_of(&object.location) else {
                continue;
            };
            let mut is_newer = matches!(kind, Kind::Summary) && object.location > newest;
            fault!(NewSummaryCleaned, is_newer = false);
            if is_newer || kept.contains(&object.location) {
                continue;
            }
            bucket::delete(self.bucket.store(), &object.location).await?;
            match kind {
                Kind::Summary => cleaned.summaries += 1,
                Kind::Segment => cleaned.segments += 1,
            }
        }
        Ok(cleaned)
    }
}

enum Kind {
    Summary,
    Segment,
}

/// What an object of `sieve/` is by its name; `None` for all others, which are left alone.
fn kind_of(path: &Path) -> Option<Kind> {
    let name = path.filename()?.strip_suffix(".sieve")?;
    let all = |is: fn(&u8) -> bool| name.bytes().all(|byte| is(&byte));
    match name.len() {
        20 if all(u8::is_ascii_digit) => Some(Kind::Summary),
        26 if all(u8::is_ascii_alphanumeric) => Some(Kind::Segment),
        _ => None,
    }
}

/// All keys in one list, hashed for a summary. `None` if memory does not suffice.
fn summary_hashes(keys: &[Arc<[KeyHash]>]) -> Option<Vec<KeyHash>> {
    let mut all = Vec::new();
    all.try_reserve_exact(keys.iter().map(|keys| keys.len()).sum())
        .ok()?;
    all.extend(
        keys.iter()
            .flat_map(|keys| keys.iter())
            .map(|hash| hash.for_summary()),
    );
    Some(all)
}

impl From<SstError> for PublishError {
    fn from(error: SstError) -> Self {
        match error {
            SstError::Bucket(error) => error.into(),
            SstError::Engine(error) => error.into(),
            SstError::Incomplete { .. } => slatedb::Error::data(error.to_string()).into(),
        }
    }
}

impl fmt::Debug for Publisher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("bucket", &self.bucket)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::SieveReader;
    use slatedb::Db;
    use slatedb::config::{
        CheckpointOptions, CheckpointScope, CompactorOptions, FlushOptions, FlushType, Settings,
    };
    use slatedb::object_store::memory::InMemory;
    use std::time::Duration;

    /// A database whose SSTs are compacted soon.
    async fn database() -> (Db, Publisher) {
        let store = Arc::new(InMemory::new());
        let bucket = Bucket::create("db", store.clone()).await.unwrap();
        let publisher = Publisher::new(bucket, Options::default());
        let compactor = CompactorOptions {
            poll_interval: Duration::from_millis(20),
            ..CompactorOptions::default()
        };
        let settings = Settings {
            flush_interval: Some(Duration::from_millis(5)),
            manifest_poll_interval: Duration::from_millis(20),
            compactor_options: Some(compactor),
            garbage_collector_options: None,
            min_filter_keys: 0,
            ..Settings::default()
        };
        let db = Db::builder("db", store).with_settings(settings);
        let db = db.with_filter_policies(vec![Arc::new(publisher.policy())]);
        (db.build().await.unwrap(), publisher)
    }

    /// The keys of SSTs that are gone were remembered for ever, and summaries held them. So must
    /// readers forget their filters.
    #[tokio::test]
    async fn keys_of_ssts_that_are_gone_are_forgotten() {
        let (db, publisher) = database().await;
        let (mut seen, mut gone, mut reader) = (HashSet::new(), 0, None);
        for round in 0..1_000_u32 {
            for number in 0..50 {
                let key = ((round % 3) * 50 + number).to_be_bytes();
                db.put(key, b"value").await.unwrap();
            }
            let flush_type = FlushType::MemTable;
            let flushed = db.flush_with_options(FlushOptions { flush_type });
            flushed.await.unwrap();
            let (scope, options) = (CheckpointScope::All, CheckpointOptions::default());
            let checkpoint = db.create_checkpoint(scope, &options).await.unwrap();
            publisher.publish(&checkpoint).await.unwrap();

            let manifest = publisher.manifest(checkpoint.manifest_id).await.unwrap();
            let live: HashSet<_> = Sst::of_manifest(&manifest).iter().map(Sst::id).collect();
            let known = publisher.known.lock().await;
            assert_eq!(known.keys().copied().collect::<HashSet<_>>(), live);
            let keys: usize = known.values().map(|keys| keys.len()).sum();
            assert!(keys <= 150 * live.len());
            let bucket = &publisher.bucket;
            let at = bucket.summary_path(checkpoint.manifest_id);
            let bytes = bucket.get(&at, u64::MAX).await.unwrap().unwrap();
            let summary = bucket.binding().decode_summary(&bytes).unwrap();
            assert_eq!(summary.covered, live);
            if reader.is_none() {
                // It keeps its first summary.
                let beside = Options::default().with_max_beside(usize::MAX);
                let opened = SieveReader::open(bucket.clone(), beside).await;
                reader = Some(opened.unwrap());
            }
            let reader = reader.as_ref().unwrap();
            reader.refresh().await.unwrap();
            let pinned = reader.pinned();
            assert_eq!(pinned.publication().manifest, manifest.id());
            assert_eq!(pinned.held_filters(), pinned.resident_filters());
            assert!(pinned.resident_filters() <= live.len());
            seen.extend(live.iter().copied());
            gone = seen.len() - live.len();
            if gone >= 12 {
                break;
            }
        }
        assert!(gone >= 12, "{gone} SSTs were compacted away");
        db.close().await.unwrap();
    }
}
