//! Whether a key did not exist in an etcd cluster at revision R or later, answered from memory. The
//! answer is causal, **not linearizable**: a key that another client put a moment ago may be
//! answered absent, unless the caller asks for the revision of that put.
//!
//! [`EtcdFollower`] reads all keys of the cluster once and then watches the whole key space. A caller
//! passes the newest revision that it knows of: of its own last write, or of the message that made
//! it ask. If the follower is not that far yet, the answer is *maybe*, and etcd is read.
//!
//! ```no_run
//! use lsm_sieve_etcd::etcd_client::Client;
//! use lsm_sieve_etcd::{EtcdFollower, Options};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoints = ["http://10.0.0.1:2379", "http://10.0.0.2:2379", "http://10.0.0.3:2379"];
//! let folder = "/var/lib/users/filter".as_ref();
//! let follower = EtcdFollower::open(endpoints, folder, Options::default()).await?;
//!
//! let mut client = Client::connect(endpoints, None).await?;
//! let put = client.put("ada", "1815", None).await?;
//! let revision = put.header().map_or(0, |header| header.revision());
//! assert!(!follower.is_absent(b"ada", revision));
//! // Almost never a request, once the follower is at that revision.
//! assert!(follower.get(&mut client, b"charles", revision).await?.is_none());
//! follower.close().await;
//! # Ok(())
//! # }
//! ```
//!
//! # When *absent* is exact
//!
//! 1. **A snapshot has every key**: its pages are linearizable reads at one revision, and their keys
//!    are counted against the count of the first page.
//! 2. **A revision is applied whole.** etcd promises that the events of one revision are in one
//!    response, unless the watch allows fragments. This one does, because a response after an outage
//!    may hold a thousand revisions; a revision waits for its last fragment.
//! 3. **No hole.** In the whole key space each revision has an event. If one is missing, changes were
//!    lost (etcd before 3.4.31 and 3.5.13 may skip some after a compaction), and the filter is
//!    dropped until the next snapshot. So it is if the revisions to watch were compacted, and if the
//!    store's newest revision is before that of the filter.
//! 4. **No progress notifications.** Before etcd 3.4.25 and 3.5.8 they may run ahead of the events.
//!    Only events move the filter's revision, never the revision of a header.
//! 5. **The cluster id names the feed.** Responses of another cluster are refused, and a filter that
//!    was saved for another cluster is not used.
//!
//! etcd keeps the cluster id if a backup is restored with the token of the old cluster, or with
//! `--force-new-cluster`. That is noticed if the restored store is at an older revision than the
//! filter when the follower reads it next, or if it was restored with `--mark-compacted`. Otherwise
//! name another [`Options::with_restores`], as etcd asks that caches be dropped.
//!
//! # Needs
//!
//! With authentication, the user needs to read the whole key space. For TLS, depend on `etcd-client`
//! too and enable its feature; [`Options::with_connect`] takes the connection's options.
//!
//! # Map
//!
//! `error` -> `revisions`, `options`, `stats` -> `connection` -> `task` -> `follower`

mod connection;
mod error;
mod follower;
mod options;
mod revisions;
mod stats;
mod task;

pub use error::{FollowError, OpenError};
pub use etcd_client;
pub use follower::EtcdFollower;
pub use options::Options;
pub use stats::Stats;
