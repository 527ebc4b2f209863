//! The follower: opens a filter, keeps it up to date in a task, and answers lookups.

use std::path::Path;
use std::sync::{Arc, Mutex};

use etcd_client::{Client, Error, KeyValue};
use lsm_sieve_stores::feed::{FeedFilter, Follower};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::connection::Connection;
use crate::error::OpenError;
use crate::options::Options;
use crate::stats::{Stats, lock};
use crate::task::Task;

/// Follows an etcd cluster in a task, and keeps a filter of all its keys. [The module](crate) says
/// what its answers mean.
#[derive(Debug)]
pub struct EtcdFollower {
    filter: FeedFilter,
    stats: Arc<Mutex<Stats>>,
    position: watch::Receiver<u64>,
    /// The task ends when this is dropped.
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl EtcdFollower {
    /// Asks an endpoint for the cluster, opens the folder of the filter, which is created if it does
    /// not exist, and follows the cluster in a task of the present runtime. A filter that was saved
    /// there is used at once; otherwise no key is answered absent until a snapshot is complete.
    ///
    /// # Errors
    /// If no endpoint answers, or the folder cannot be used. Later errors are not returned: the
    /// follower goes on with the next endpoint, and [`EtcdFollower::stats`] has the last error.
    pub async fn open(
        endpoints: impl IntoIterator<Item = impl Into<String>>,
        folder: &Path,
        options: Options,
    ) -> Result<Self, OpenError> {
        let endpoints: Vec<String> = endpoints.into_iter().map(Into::into).collect();
        let (cluster, newest) = ask_first(&endpoints, &options).await?;
        let feed = cluster.wrapping_add(options.restores.into());
        let mut follower = Follower::open(folder, feed, &options.filter)?;
        if follower.position() > Some(newest) {
            // The store was restored. The task would notice too, but later than the first lookup.
            follower.distrust();
        }
        let filter = follower.filter();
        let stats = Arc::default();
        let (sender, position) = watch::channel(filter.position().unwrap_or(0));
        let (stop, stopped) = oneshot::channel();
        let task = Task {
            endpoints,
            cluster,
            options,
            follower: Arc::new(Mutex::new(follower)),
            filter: filter.clone(),
            stats: Arc::clone(&stats),
            position: sender,
            saved: filter.position(),
            count: 0,
        };
        let task = tokio::spawn(task.run(stopped));
        Ok(Self {
            filter,
            stats,
            position,
            stop,
            task,
        })
    }

    /// Whether the key certainly did not exist at some revision that is not before `at_least`; 0
    /// accepts any revision.
    pub fn is_absent(&self, key: &[u8], at_least: i64) -> bool {
        self.filter.is_absent(key, unsigned(at_least))
    }

    /// The entry of a key: `None` if [`EtcdFollower::is_absent`], else what etcd has.
    ///
    /// # Errors
    /// The client's.
    pub async fn get(
        &self,
        client: &mut Client,
        key: &[u8],
        at_least: i64,
    ) -> Result<Option<KeyValue>, Error> {
        if self.is_absent(key, at_least) {
            return Ok(None);
        }
        Ok(client.get(key, None).await?.take_kvs().pop())
    }

    /// Waits until the follower is at this revision. If it cannot reach the cluster, that takes
    /// until it can.
    pub async fn wait_for(&self, revision: i64) {
        let mut position = self.position.clone();
        // An error means that the task has panicked: every answer of a later revision is *maybe*.
        let _ = position
            .wait_for(|&position| position >= unsigned(revision))
            .await;
    }

    /// The filter, for lookups on any thread. Once the follower is closed, it answers no key absent.
    pub fn filter(&self) -> FeedFilter {
        self.filter.clone()
    }

    /// The state of the filter, and what the follower did.
    pub fn stats(&self) -> Stats {
        Stats {
            filter: self.filter.stats(),
            ..lock(&self.stats).clone()
        }
    }

    /// Saves the filter, and returns when the folder is free. If the follower is dropped instead,
    /// its task does the same a little later.
    pub async fn close(self) {
        drop(self.stop);
        if let Err(error) = self.task.await {
            tracing::error!("the task of the follower has failed: {error}");
        }
    }
}

/// The cluster of the first endpoint that answers, and its newest revision.
async fn ask_first(endpoints: &[String], options: &Options) -> Result<(u64, u64), OpenError> {
    let mut unreachable = OpenError::NoEndpoint;
    for endpoint in endpoints {
        match Connection::open(endpoint, options, None).await {
            Ok(connection) => return Ok((connection.cluster, connection.newest)),
            Err(source) => {
                let endpoint = endpoint.clone();
                unreachable = OpenError::Unreachable { endpoint, source };
            }
        }
    }
    Err(unreachable)
}

fn unsigned(revision: i64) -> u64 {
    u64::try_from(revision).unwrap_or(0)
}
