//! The task that follows the cluster.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use lsm_sieve_stores::Items;
use lsm_sieve_stores::feed::{FeedFilter, Follower};
use tokio::sync::{oneshot, watch};
use tokio::time::{Duration, Instant, sleep, timeout};

use crate::connection::Connection;
use crate::error::FollowError;
use crate::options::Options;
use crate::revisions::Revisions;
use crate::stats::{Stats, lock};

const SHORTEST_BACKOFF: Duration = Duration::from_millis(50);
const LONGEST_BACKOFF: Duration = Duration::from_secs(5);

/// Up to twice as many keys a new filter would take no less memory.
const LEAST_KEYS: u64 = 1 << 17;

/// The most keys that a snapshot sizes the filter for, whatever count etcd reports. With more keys,
/// the filter grows.
const MOST_KEYS: u64 = 1 << 26;

pub(crate) struct Task {
    pub(crate) endpoints: Vec<String>,
    pub(crate) cluster: u64,
    pub(crate) options: Options,
    /// Used by this task only. Saving blocks, so it runs on another thread.
    pub(crate) follower: Arc<Mutex<Follower>>,
    pub(crate) filter: FeedFilter,
    pub(crate) stats: Arc<Mutex<Stats>>,
    /// How far the filter is, for those who wait; 0 while nothing is known.
    pub(crate) position: watch::Sender<u64>,
    /// The position of the filter that is saved.
    pub(crate) saved: Option<u64>,
    /// Keys of the store when it was asked last.
    pub(crate) count: u64,
}

impl Task {
    /// Follows the cluster until the other end of `stop` is dropped; saves the filter then.
    pub(crate) async fn run(mut self, stop: oneshot::Receiver<()>) {
        tokio::select! {
            _ = stop => {}
            _ = self.follow() => {}
        }
        self.save().await;
    }

    async fn follow(&mut self) -> Infallible {
        let mut backoff = SHORTEST_BACKOFF;
        let mut next = 0;
        loop {
            let (began, before) = (Instant::now(), self.filter.position());
            let endpoint = self.endpoints[next % self.endpoints.len()].clone();
            let Err(error) = self.follow_endpoint(&endpoint).await;
            tracing::warn!("{endpoint} is left: {error}");
            if error.is_loss() {
                lock(&self.follower).distrust();
            }
            let has_moved = self.filter.position() != before;
            self.publish_position();
            lock(&self.stats).count(error);
            if has_moved || began.elapsed() > LONGEST_BACKOFF {
                backoff = SHORTEST_BACKOFF;
            }
            sleep(backoff).await;
            backoff = LONGEST_BACKOFF.min(backoff * 2);
            next += 1;
        }
    }

    async fn follow_endpoint(&mut self, endpoint: &str) -> Result<Infallible, FollowError> {
        let cluster = Some(self.cluster);
        let mut connection = Connection::open(endpoint, &self.options, cluster).await?;
        loop {
            let position = match self.filter.position() {
                Some(position) => position,
                None => self.take_snapshot(&mut connection).await?,
            };
            self.watch(&mut connection, position).await?;
            self.take_snapshot(&mut connection).await?;
        }
    }

    /// Replaces the filter, which answers until then.
    async fn take_snapshot(&mut self, connection: &mut Connection) -> Result<u64, FollowError> {
        self.count = connection.count().await?;
        let keys = Items::new(self.count.min(MOST_KEYS));
        let snapshot = lock(&self.follower).snapshot(keys);
        let (revision, count) = connection.keys(|key| snapshot.insert(key)).await?;
        lock(&self.follower).install(snapshot, revision);
        lock(&self.stats).snapshots += 1;
        self.count = count;
        self.publish_position();
        Ok(revision)
    }

    /// Applies what comes after a position. Returns when a new snapshot is needed.
    async fn watch(
        &mut self,
        connection: &mut Connection,
        mut position: u64,
    ) -> Result<(), FollowError> {
        check_newest(connection, position)?;
        let mut stream = connection.watch(position + 1).await?;
        let mut revisions = Revisions::new(self.cluster);
        let mut due = Instant::now() + self.options.save_every;
        loop {
            let seen = connection.newest;
            match timeout(self.options.timeout, stream.message()).await {
                Ok(message) => {
                    let ended = || FollowError::Ended("by the server".to_owned());
                    for revision in revisions.push(message?.ok_or_else(ended)?)? {
                        let (after, number) = (revision.after(), revision.number);
                        lock(&self.follower).apply(after, number, revision.keys)?;
                        position = position.max(number);
                    }
                    self.publish_position();
                }
                Err(_) if position < seen => {
                    let newest = seen;
                    return Err(FollowError::Silent { newest, position });
                }
                Err(_) => {
                    connection.ask_for_newest().await?;
                    check_newest(connection, position)?;
                }
            }
            if Instant::now() >= due {
                self.save().await;
                if self.needs_snapshot(connection).await? {
                    return Ok(());
                }
                due = Instant::now() + self.options.save_every;
            }
        }
    }

    /// Whether the filter was distrusted, or holds more than twice the keys that the store has.
    async fn needs_snapshot(&mut self, connection: &mut Connection) -> Result<bool, FollowError> {
        let Some(stats) = self.filter.stats() else {
            return Ok(true);
        };
        let is_large = |count: u64| stats.keys.get() / 2 > count.max(LEAST_KEYS);
        if is_large(self.count) {
            self.count = connection.count().await?;
        }
        Ok(is_large(self.count))
    }

    async fn save(&mut self) {
        let position = self.filter.position();
        if position.is_none() || position == self.saved {
            return;
        }
        let follower = Arc::clone(&self.follower);
        let saved = tokio::task::spawn_blocking(move || lock(&follower).save()).await;
        match matches!(saved, Ok(true)) {
            true => self.saved = position,
            false => tracing::warn!("the filter of cluster {:x} is not saved", self.cluster),
        }
    }

    fn publish_position(&self) {
        let position = self.filter.position().unwrap_or(0);
        self.position.send_replace(position);
    }
}

/// A linearizable read is never older than an event, unless the store was restored.
fn check_newest(connection: &Connection, position: u64) -> Result<(), FollowError> {
    let newest = connection.newest;
    match newest < position {
        true => Err(FollowError::WentBack { newest, position }),
        false => Ok(()),
    }
}
