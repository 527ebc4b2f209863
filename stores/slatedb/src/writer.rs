//! The writer's own database behind filters.
//!
//! The filters are those of a checkpoint, and one that grows with each write since. A write is fed to
//! the growing filter before SlateDB gets it. When a checkpoint is published, its filters take the
//! place of both:
//!
//! ```text
//! 1. wait for the writes that run; from now on feed the old filter and a new one
//! 2. create a checkpoint: it has every write that was fed to the old filter only
//! 3. publish it, and open its filters
//! 4. put in both the checkpoint's filters and the new one at once; feed the new one only
//! ```
//!
//! A write whose outcome is unknown, because it failed or its future was dropped, may still take
//! place after step 2. Its keys are fed to each new filter.

use crate::answer::Answer;
use crate::binding::Binding;
use crate::bucket::Bucket;
use crate::current::Publication;
use crate::error::{OpenError, WriteError};
use crate::options::Options;
use crate::pinned::PinnedReader;
use crate::publisher::Publisher;
use bytes::Bytes;
use lsm_sieve_filter::filter::{Scalable, ScalableOptions};
use lsm_sieve_filter::hash::KeyHash;
use lsm_sieve_filter::math::Items;
use slatedb::config::{CheckpointOptions, CheckpointScope};
use slatedb::object_store::path::Path;
use slatedb::{Db, DbBuilder, DbSnapshot, DbStatus, WriteBatch, WriteHandle};
use std::collections::HashSet;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Duration;
use tokio::sync::watch;

/// Kept while its filters are read.
const FIRST_CHECKPOINT: Duration = Duration::from_secs(3_600);

/// A `Db` that answers absent keys from memory. It owns the `Db`, because a write that goes past it
/// would be in no filter. Transactions are therefore not offered.
pub struct SieveWriter {
    db: Db,
    status: watch::Receiver<DbStatus>,
    bucket: Bucket,
    options: Options,
    publisher: Publisher,
    view: RwLock<Arc<View>>,
    /// Held for reading by each write, from before it is fed until SlateDB has it.
    writes: tokio::sync::RwLock<()>,
    /// Keys of writes whose outcome is unknown.
    in_doubt: Mutex<HashSet<KeyHash>>,
    publishing: tokio::sync::Mutex<()>,
}

/// The filters that are probed, and those that are fed.
struct View {
    /// Only its filters are used.
    checkpoint: Arc<PinnedReader>,
    recent: Arc<Scalable>,
    /// The filter that will follow `recent`.
    next: Option<Arc<Scalable>>,
}

/// Several writes that are committed at once, as `slatedb::WriteBatch`.
#[derive(Debug)]
pub struct SieveBatch {
    binding: Binding,
    batch: WriteBatch,
    hashes: Vec<KeyHash>,
}

impl SieveWriter {
    /// Opens the database, and the filters of what it holds. The replayed log is flushed first, so
    /// that it is in SSTs.
    ///
    /// Give the builder [`Publisher::policy`], or the SSTs are read once each.
    ///
    /// # Errors
    /// If SlateDB cannot open the database or create a checkpoint.
    pub async fn open(
        builder: DbBuilder<Path>,
        bucket: Bucket,
        options: Options,
        publisher: Publisher,
    ) -> Result<Self, WriteError> {
        let db = builder.build().await?;
        let kept = CheckpointOptions {
            lifetime: Some(FIRST_CHECKPOINT),
            ..CheckpointOptions::default()
        };
        let created = db.create_checkpoint(CheckpointScope::All, &kept).await?;
        let publication = Publication {
            epoch: db.manifest().writer_epoch(),
            manifest: created.manifest_id,
            checkpoint: created.id,
        };
        // All of it is in SSTs.
        let options = Options {
            log: None,
            ..options
        };
        let checkpoint = PinnedReader::open(&bucket, &options, publication, None).await;
        let view = View {
            checkpoint: Arc::new(checkpoint.map_err(engine_error)?),
            recent: Arc::new(growing(bucket.binding())),
            next: None,
        };
        Ok(Self {
            status: db.subscribe(),
            db,
            bucket,
            options,
            publisher,
            view: RwLock::new(Arc::new(view)),
            writes: tokio::sync::RwLock::new(()),
            in_doubt: Mutex::default(),
            publishing: tokio::sync::Mutex::new(()),
        })
    }

    /// The value of a key.
    ///
    /// # Errors
    /// SlateDB's, if the filters do not rule the key out.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, slatedb::Error> {
        match self.answer(key) {
            Answer::Absent => Ok(None),
            Answer::Maybe => self.db.get(key).await,
        }
    }

    /// The filters' answer. *Maybe* once the database is closed or fenced, so that SlateDB reports
    /// it.
    pub fn answer(&self, key: &[u8]) -> Answer {
        if self.is_closed() {
            return Answer::Maybe;
        }
        let view = self.view();
        let hash = self.bucket.binding().hash(key);
        match view.recent.may_contain(hash) {
            true => Answer::Maybe,
            false => view.checkpoint.answer(key),
        }
    }

    fn is_closed(&self) -> bool {
        self.status.borrow().close_reason.is_some()
    }

    /// Writes a value.
    ///
    /// # Errors
    /// SlateDB's.
    pub async fn put(
        &self,
        key: &[u8],
        value: impl AsRef<[u8]>,
    ) -> Result<WriteHandle, slatedb::Error> {
        let hashes = [self.bucket.binding().hash(key)];
        self.feed(&hashes, self.db.put(key, value)).await
    }

    /// Deletes a key.
    ///
    /// # Errors
    /// SlateDB's.
    pub async fn delete(&self, key: &[u8]) -> Result<WriteHandle, slatedb::Error> {
        let hashes = [self.bucket.binding().hash(key)];
        self.feed(&hashes, self.db.delete(key)).await
    }

    /// Writes a merge operand.
    ///
    /// # Errors
    /// SlateDB's.
    pub async fn merge(
        &self,
        key: &[u8],
        operand: impl AsRef<[u8]>,
    ) -> Result<WriteHandle, slatedb::Error> {
        let hashes = [self.bucket.binding().hash(key)];
        self.feed(&hashes, self.db.merge(key, operand)).await
    }

    /// An empty batch for [`SieveWriter::write`].
    pub fn batch(&self) -> SieveBatch {
        SieveBatch {
            binding: *self.bucket.binding(),
            batch: WriteBatch::new(),
            hashes: Vec::new(),
        }
    }

    /// Commits a batch.
    ///
    /// # Errors
    /// SlateDB's.
    pub async fn write(&self, batch: SieveBatch) -> Result<WriteHandle, slatedb::Error> {
        let SieveBatch { batch, hashes, .. } = batch;
        self.feed(&hashes, self.db.write(batch)).await
    }

    /// Feeds these keys, then writes.
    async fn feed<T>(
        &self,
        hashes: &[KeyHash],
        write: impl Future<Output = Result<T, slatedb::Error>>,
    ) -> Result<T, slatedb::Error> {
        let running = self.writes.read().await;
        let view = self.view();
        for &hash in hashes {
            view.recent.append(hash);
            if let Some(next) = &view.next {
                next.append(hash);
            }
        }
        let mut doubt = Doubt {
            hashes: Some(hashes),
            in_doubt: &self.in_doubt,
        };
        let written = write.await;
        // Once it is closed, nothing is denied any more.
        if written.is_ok() || self.is_closed() {
            doubt.hashes = None;
        }
        drop(doubt);
        drop(running);
        written
    }

    /// Creates a checkpoint of everything that was written, publishes it for readers, and takes its
    /// filters for this writer.
    ///
    /// # Errors
    /// SlateDB's and the publisher's. The writer keeps its filters; publish again.
    pub async fn publish(&self, options: &CheckpointOptions) -> Result<Publication, WriteError> {
        let _one_at_a_time = self.publishing.lock().await;
        let next = Arc::new(growing(self.bucket.binding()));
        self.begin_next(&next).await;
        let published = self.publish_checkpoint(options).await;
        let view = self.view();
        let (checkpoint, recent) = match &published {
            Ok((_, opened)) if opened.is_covered() => (opened.clone(), next),
            _ => (view.checkpoint.clone(), view.recent.clone()),
        };
        // Writes that run hold the view before, which feeds both filters.
        self.set_view(View {
            checkpoint,
            recent,
            next: None,
        });
        published.map(|(publication, _)| publication)
    }

    async fn begin_next(&self, next: &Arc<Scalable>) {
        let _no_writes = self.writes.write().await;
        let in_doubt = self.in_doubt.lock();
        let in_doubt = in_doubt.unwrap_or_else(PoisonError::into_inner);
        in_doubt.iter().for_each(|&hash| next.append(hash));
        let view = self.view();
        self.set_view(View {
            checkpoint: view.checkpoint.clone(),
            recent: view.recent.clone(),
            next: Some(next.clone()),
        });
    }

    async fn publish_checkpoint(
        &self,
        options: &CheckpointOptions,
    ) -> Result<(Publication, Arc<PinnedReader>), WriteError> {
        let scope = CheckpointScope::All;
        let created = self.db.create_checkpoint(scope, options).await?;
        let publication = self.publisher.publish(&created).await?;
        let before = self.view().checkpoint.clone();
        let opened =
            PinnedReader::open(&self.bucket, &self.options, publication, Some(&before)).await;
        Ok((publication, Arc::new(opened.map_err(engine_error)?)))
    }

    /// SlateDB's view of everything that was committed, for scans and repeatable reads.
    ///
    /// # Errors
    /// If the database is closed.
    pub fn snapshot(&self) -> Result<Arc<DbSnapshot>, slatedb::Error> {
        self.db.snapshot()
    }

    /// Makes every write durable that was committed before.
    ///
    /// # Errors
    /// SlateDB's.
    pub async fn flush(&self) -> Result<(), slatedb::Error> {
        self.db.flush().await
    }

    /// The publisher.
    pub fn publisher(&self) -> &Publisher {
        &self.publisher
    }

    /// Flushes and closes the database.
    ///
    /// # Errors
    /// SlateDB's.
    pub async fn close(&self) -> Result<(), slatedb::Error> {
        self.db.close().await
    }

    fn view(&self) -> Arc<View> {
        let view = self.view.read().unwrap_or_else(PoisonError::into_inner);
        view.clone()
    }

    fn set_view(&self, view: View) {
        *self.view.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(view);
    }
}

/// Keeps the keys of a write until it is known to have succeeded.
struct Doubt<'w> {
    hashes: Option<&'w [KeyHash]>,
    in_doubt: &'w Mutex<HashSet<KeyHash>>,
}

/// Adds the keys to those in doubt. Runs also if the future of a write is dropped, and before the
/// write's lock is released.
impl Drop for Doubt<'_> {
    fn drop(&mut self) {
        if let Some(hashes) = self.hashes {
            let in_doubt = self.in_doubt.lock();
            let mut in_doubt = in_doubt.unwrap_or_else(PoisonError::into_inner);
            in_doubt.extend(hashes);
        }
    }
}

impl SieveBatch {
    /// Writes a value.
    pub fn put(&mut self, key: &[u8], value: impl AsRef<[u8]>) {
        self.hashes.push(self.binding.hash(key));
        self.batch.put(key, value);
    }

    /// Deletes a key.
    pub fn delete(&mut self, key: &[u8]) {
        self.hashes.push(self.binding.hash(key));
        self.batch.delete(key);
    }

    /// Writes a merge operand.
    pub fn merge(&mut self, key: &[u8], operand: impl AsRef<[u8]>) {
        self.hashes.push(self.binding.hash(key));
        self.batch.merge(key, operand);
    }
}

/// An empty filter. Its first stage takes about 100 KiB, so that it seldom opens another before the
/// next publication.
fn growing(binding: &Binding) -> Scalable {
    let options = ScalableOptions {
        first: Items::new(1 << 16),
        ..ScalableOptions::default()
    };
    Scalable::new(binding.imprint(), options)
}

fn engine_error(error: OpenError) -> slatedb::Error {
    match error {
        OpenError::Engine { source, .. } => source,
        other => slatedb::Error::unavailable(other.to_string()),
    }
}

impl fmt::Debug for SieveWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SieveWriter")
            .field("bucket", &self.bucket)
            .field("publisher", &self.publisher)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use slatedb::object_store::memory::InMemory;

    async fn writer() -> SieveWriter {
        let store = Arc::new(InMemory::new());
        let bucket = Bucket::create("db", store.clone()).await.unwrap();
        let publisher = Publisher::new(bucket.clone(), Options::default());
        let builder = Db::builder(Path::from("db"), store);
        let opened = SieveWriter::open(builder, bucket, Options::default(), publisher).await;
        opened.unwrap()
    }

    /// SlateDB may commit such a write after the checkpoint that replaces the filter it was fed to.
    #[tokio::test]
    async fn keys_of_writes_in_doubt_go_to_each_new_filter() {
        let writer = writer().await;
        let hash = |key: &[u8]| [writer.bucket.binding().hash(key)];
        let (dropped, failed, done) = (hash(b"dropped"), hash(b"failed"), hash(b"done"));
        let never = writer.feed(&dropped, std::future::pending::<Result<(), _>>());
        assert!(futures::FutureExt::now_or_never(never).is_none());
        let error = async { Err::<(), _>(slatedb::Error::unavailable("lost".to_owned())) };
        assert!(writer.feed(&failed, error).await.is_err());
        writer.feed(&done, async { Ok(()) }).await.unwrap();
        for _ in 0..3 {
            let options = CheckpointOptions::default();
            writer.publish(&options).await.unwrap();
            assert_eq!(writer.answer(b"dropped"), Answer::Maybe);
            assert_eq!(writer.answer(b"failed"), Answer::Maybe);
            // It was said to be in the checkpoint, so the new filter does without.
            assert_eq!(writer.answer(b"done"), Answer::Absent);
        }
    }

    /// A filter that replaces another waits for the writes that were fed to the other alone.
    #[tokio::test]
    async fn a_new_filter_waits_for_writes_that_run() {
        let writer = Arc::new(writer().await);
        let (release, released) = tokio::sync::oneshot::channel::<()>();
        let (started, running) = tokio::sync::oneshot::channel::<()>();
        let write = tokio::spawn({
            let writer = writer.clone();
            async move {
                let hashes = [writer.bucket.binding().hash(b"key")];
                let write = async {
                    started.send(()).unwrap();
                    released.await.unwrap();
                    writer.db.put(b"key", b"value").await
                };
                writer.feed(&hashes, write).await.unwrap();
            }
        });
        running.await.unwrap();
        let publish = tokio::spawn({
            let writer = writer.clone();
            async move { writer.publish(&CheckpointOptions::default()).await.unwrap() }
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!publish.is_finished());
        release.send(()).unwrap();
        write.await.unwrap();
        publish.await.unwrap();
        assert_eq!(writer.answer(b"key"), Answer::Maybe);
        assert_eq!(writer.get(b"key").await.unwrap().unwrap(), "value");
    }
}
