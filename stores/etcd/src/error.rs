//! Errors of the follower.

use etcd_client::Error;
use lsm_sieve_stores::FilterFolderError;
use lsm_sieve_stores::feed::FeedError;

/// No follower was opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No endpoint was given.
    #[error("no endpoint of the cluster is given")]
    NoEndpoint,
    /// No endpoint answered, so the cluster is not known.
    #[error("no endpoint answers; the last, {endpoint}, does not: {source}")]
    Unreachable {
        /// The endpoint that was tried last.
        endpoint: String,
        /// Why it did not answer.
        source: FollowError,
    },
    /// The folder of the filter cannot be used.
    #[error(transparent)]
    Folder(#[from] FilterFolderError),
}

/// Why the follower left an endpoint. It goes on with the next by itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FollowError {
    /// etcd or the connection failed.
    #[error(transparent)]
    Etcd(#[from] Error),
    /// The server ended the watch.
    #[error("the watch ended: {0}")]
    Ended(String),
    /// The store went on, but the watch has no events of it.
    #[error("the store is at revision {newest}, but the watch is silent since {position}")]
    Silent {
        /// The newest revision of the store.
        newest: u64,
        /// How far the follower is.
        position: u64,
    },
    /// The endpoint is of another cluster.
    #[error("the endpoint is of cluster {found:x}, not of {expected:x}; correct the endpoints")]
    OtherCluster {
        /// The cluster of the endpoint.
        found: u64,
        /// The cluster that is followed.
        expected: u64,
    },
    /// Responses break etcd's interface. The follower takes a new snapshot.
    #[error("etcd's responses make no sense: {0}")]
    Malformed(&'static str),
    /// The revisions to watch were compacted. The follower takes a new snapshot.
    #[error("the store was compacted up to revision {0}, which was not followed yet")]
    Compacted(u64),
    /// Changes are missing. The follower takes a new snapshot.
    #[error(transparent)]
    Hole(#[from] FeedError),
    /// The store was restored from a backup. The follower takes a new snapshot.
    #[error("the store is at revision {newest}, but was followed to {position}: it was restored")]
    WentBack {
        /// The newest revision of the store.
        newest: u64,
        /// How far the follower was.
        position: u64,
    },
}

impl FollowError {
    /// Whether the changes after the follower's position can no longer be had.
    pub(crate) fn is_loss(&self) -> bool {
        match self {
            Self::Malformed(_) | Self::Compacted(_) | Self::Hole(_) | Self::WentBack { .. } => true,
            // The revision was compacted, or a message is larger than this client accepts: it would
            // be again.
            Self::Etcd(Error::GRpcStatus(status)) => status.code() == OUT_OF_RANGE.into(),
            _ => false,
        }
    }
}

/// The status code of gRPC; etcd's client does not export its type.
const OUT_OF_RANGE: i32 = 11;
