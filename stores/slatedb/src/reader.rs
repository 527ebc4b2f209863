//! A reader that moves from one published checkpoint to the next.

use crate::answer::Answer;
use crate::bucket::Bucket;
use crate::current::{Current, Publication, Seen, is_undone, look};
use crate::error::OpenError;
use crate::options::Options;
use crate::pinned::PinnedReader;
use bytes::Bytes;
use futures::stream::{self, StreamExt, TryStreamExt};
use lsm_sieve_support::fault::fault;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// Reads a database from another process than its writer's, on this machine or any other.
///
/// Between two calls of [`SieveReader::refresh`] it reads one checkpoint. The store is asked for a
/// key only if the filters do not rule it out.
pub struct SieveReader {
    bucket: Bucket,
    options: Options,
    pinned: RwLock<Arc<PinnedReader>>,
    /// What was published when it was last read. Held while a newer checkpoint is opened.
    current: Mutex<Current>,
    opened: Instant,
    /// When the last successful look at `sieve/current` began, in milliseconds since `opened`.
    confirmed: AtomicU64,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Counters {
    absent: AtomicU64,
    maybe: AtomicU64,
    stale: AtomicU64,
    moves: AtomicU64,
    failures: AtomicU64,
}

/// What a reader has done since it was opened, and where it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stats {
    /// Keys that the filters answered absent, without a request.
    pub absent: u64,
    /// Keys that were read from the store.
    pub maybe: u64,
    /// Of these, those that were not probed, because the reader was too stale.
    pub stale: u64,
    /// Newer checkpoints that were opened.
    pub moves: u64,
    /// Calls of [`SieveReader::refresh`] that failed.
    pub failures: u64,
    /// The manifest that is read.
    pub manifest: u64,
    /// Whether all its SSTs are covered. If not, no key is denied.
    pub is_covered: bool,
    /// Bytes of the summary; 0 without one.
    pub summary_bytes: u64,
    /// SSTs whose filters are in memory, beside the summary.
    pub resident_filters: u64,
}

impl SieveReader {
    /// Opens the checkpoint that is published.
    ///
    /// # Errors
    /// If nothing is published, if the checkpoint has expired, or if the store fails. Missing and
    /// damaged filters are no error.
    pub async fn open(bucket: Bucket, options: Options) -> Result<Self, OpenError> {
        let opened = Instant::now();
        let Seen::Other(current) = look(&bucket, None).await? else {
            return Err(OpenError::NotPublished(bucket.current_path()));
        };
        let pinned = PinnedReader::open(&bucket, &options, current.publication, None).await?;
        Ok(Self {
            bucket,
            options,
            pinned: RwLock::new(Arc::new(pinned)),
            current: Mutex::new(current),
            opened,
            confirmed: AtomicU64::new(0),
            counters: Counters::default(),
        })
    }

    /// The value of a key in the checkpoint that is read.
    ///
    /// # Errors
    /// SlateDB's, if the filters do not rule the key out.
    pub async fn get(&self, key: &[u8]) -> Result<Option<Bytes>, slatedb::Error> {
        let pinned = self.pinned();
        match self.answer_of(&pinned, key) {
            Answer::Absent => Ok(None),
            Answer::Maybe => pinned.engine().get(key).await,
        }
    }

    /// The values of many keys, all in one checkpoint. Keys that may exist are read
    /// [`Options::with_parallel`] at a time.
    ///
    /// # Errors
    /// The first of SlateDB's.
    pub async fn get_many<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
    ) -> Result<Vec<Option<Bytes>>, slatedb::Error> {
        let pinned = &self.pinned();
        let reads = keys.iter().map(|key| {
            let key = key.as_ref();
            let answer = self.answer_of(pinned, key);
            async move {
                fault!(
                    BatchReadsNewest,
                    if !answer.is_absent() {
                        return self.pinned().engine().get(key).await;
                    }
                );
                match answer {
                    Answer::Absent => Ok(None),
                    Answer::Maybe => pinned.engine().get(key).await,
                }
            }
        });
        // Collected, or the futures would borrow the iterator.
        let reads: Vec<_> = reads.collect();
        let reads = stream::iter(reads).buffered(self.options.parallel);
        reads.try_collect().await
    }

    /// The filters' answer, without a request.
    pub fn answer(&self, key: &[u8]) -> Answer {
        let pinned = self.pinned();
        self.answer_of(&pinned, key)
    }

    fn answer_of(&self, pinned: &PinnedReader, key: &[u8]) -> Answer {
        let answer = if self.is_stale() {
            count(&self.counters.stale);
            Answer::Maybe
        } else {
            pinned.answer(key)
        };
        count(match answer {
            Answer::Absent => &self.counters.absent,
            Answer::Maybe => &self.counters.maybe,
        });
        answer
    }

    fn is_stale(&self) -> bool {
        let Some(limit) = self.options.max_staleness else {
            return false;
        };
        let confirmed = Duration::from_millis(self.confirmed.load(Ordering::Relaxed));
        self.opened.elapsed().saturating_sub(confirmed) > limit
    }

    /// The checkpoint that is read now, for several reads of one state. It stays readable until it
    /// expires, while this reader moves on. [`Options::with_max_staleness`] does not apply to it.
    pub fn pinned(&self) -> Arc<PinnedReader> {
        let pinned = self.pinned.read().unwrap_or_else(PoisonError::into_inner);
        pinned.clone()
    }

    /// Opens what is published now, if it is newer, or if the database was restored from before
    /// what is read. True if the reader moved. Otherwise this took one request, as a rule.
    ///
    /// # Errors
    /// The errors of [`SieveReader::open`]. The reader stays at its checkpoint.
    pub async fn refresh(&self) -> Result<bool, OpenError> {
        let mut current = self.current.lock().await;
        // The checkpoint that a refresh finds may be as old as the request for it.
        let mut began = self.opened.elapsed();
        let moved = self.advance(&mut current).await;
        fault!(FreshFromTheEnd, began = self.opened.elapsed());
        match &moved {
            Ok(_) => {
                let began = u64::try_from(began.as_millis()).unwrap_or(u64::MAX);
                self.confirmed.fetch_max(began, Ordering::Relaxed);
            }
            Err(_) => count(&self.counters.failures),
        }
        moved
    }

    async fn advance(&self, current: &mut Current) -> Result<bool, OpenError> {
        let before = self.pinned();
        let known = Some(&*current).filter(|_| !before.is_distrusted());
        let Seen::Other(seen) = look(&self.bucket, known).await? else {
            return Ok(false);
        };
        let (is, was) = (seen.publication, before.publication());
        let is_wanted = match is == was {
            true => before.is_distrusted(),
            false => is.order() >= was.order() || self.is_undone(was, is).await?,
        };
        if !is_wanted {
            *current = seen;
            return Ok(false);
        }
        let open = PinnedReader::open(&self.bucket, &self.options, seen.publication, Some(&before));
        let pinned = Arc::new(open.await?);
        *self.pinned.write().unwrap_or_else(PoisonError::into_inner) = pinned;
        *current = seen;
        count(&self.counters.moves);
        Ok(true)
    }

    /// Forward only, for an older writer may still have a publisher; unless the database itself went
    /// back.
    async fn is_undone(&self, was: Publication, is: Publication) -> Result<bool, OpenError> {
        let undone = is_undone(&self.bucket, was).await;
        undone.map_err(|source| OpenError::Engine {
            checkpoint: is.checkpoint,
            source,
        })
    }

    /// Verifies the checksums of the filters in memory; false if a bit has changed. Then nothing is
    /// denied until the next [`SieveReader::refresh`], which fetches the filters again. Call it once
    /// an hour, say, from a thread that may block.
    pub fn scrub(&self) -> bool {
        self.pinned().scrub()
    }

    /// Refreshes again and again, with a pause of `every` between. Never returns; spawn it, and
    /// abort it when the reader is done. Failures are logged and counted.
    pub async fn follow(&self, every: Duration) {
        loop {
            tokio::time::sleep(every).await;
            if let Err(reason) = self.refresh().await {
                tracing::warn!(%reason, "a reader cannot move on");
            }
        }
    }

    /// What this reader has done, and where it is.
    pub fn stats(&self) -> Stats {
        let pinned = self.pinned();
        let counters = &self.counters;
        Stats {
            absent: counters.absent.load(Ordering::Relaxed),
            maybe: counters.maybe.load(Ordering::Relaxed),
            stale: counters.stale.load(Ordering::Relaxed),
            moves: counters.moves.load(Ordering::Relaxed),
            failures: counters.failures.load(Ordering::Relaxed),
            manifest: pinned.publication().manifest,
            is_covered: pinned.is_covered(),
            summary_bytes: pinned.summary_bytes(),
            resident_filters: pinned.resident_filters() as u64,
        }
    }
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl fmt::Debug for SieveReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SieveReader")
            .field("bucket", &self.bucket)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::publisher::Publisher;
    use slatedb::Db;
    use slatedb::config::{CheckpointOptions, CheckpointScope};
    use slatedb::object_store::{ObjectStore, memory::InMemory};

    #[tokio::test]
    async fn filters_that_changed_in_memory_are_fetched_again() {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let bucket = Bucket::create("db", store.clone()).await.unwrap();
        let db = Db::open("db", store).await.unwrap();
        db.put(b"key", b"value").await.unwrap();
        let (scope, options) = (CheckpointScope::All, CheckpointOptions::default());
        let checkpoint = db.create_checkpoint(scope, &options).await.unwrap();
        let publisher = Publisher::new(bucket.clone(), Options::default());
        publisher.publish(&checkpoint).await.unwrap();
        let reader = SieveReader::open(bucket, Options::default()).await.unwrap();
        assert!(reader.scrub() && reader.answer(b"absent").is_absent());
        reader.pinned().clear_one_bit();
        assert!(!reader.scrub());
        assert_eq!(reader.answer(b"absent"), Answer::Maybe);
        assert_eq!(reader.get(b"key").await.unwrap().unwrap(), "value");
        assert!(reader.refresh().await.unwrap());
        assert!(reader.scrub() && reader.answer(b"absent").is_absent());
        assert_eq!(reader.get(b"key").await.unwrap().unwrap(), "value");
    }
}
