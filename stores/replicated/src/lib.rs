//! A small replicated key-value store: openraft over [`SieveDb`](lsm_sieve::SieveDb), three nodes in
//! one process.
//!
//! It tests lsm-sieve under replication and is no product: the network is a function call, and a
//! snapshot is held in memory.
//!
//! ```text
//! client -- create if absent --> leader -- append --> column family `log` of each node
//!                                                        |
//!                                                        v  once a majority has the entry
//!   column family `data` of each node: SieveDb::get_cf, where a miss is answered by a filter,
//!                                      then one write batch with the value and the state
//!
//! a node that lacks entries which the leader has purged:
//!   snapshot of the leader = one SST file -- in chunks --> ingest_external_file_cf
//! ```
//!
//! A module uses only those before it: `state`, `store`, `log`, `snapshot`, `state_machine`,
//! `network`, `node`, `client`, `history`, `crash`, `cluster`.
//!
//! # What a replicated state machine must do
//!
//! - **A snapshot is an external write.** Its keys go through no memtable of the node that installs
//!   it. `SieveDb` has methods that ingest files, and they announce the keys by themselves: use
//!   those. What is ingested through the bare engine is announced by
//!   `SieveDb::with_engine_untracked`.
//! - **Install in one step.** The file begins with the deletion of the whole range, which does not
//!   delete the file's own keys, and it contains the index of the last applied entry. A reader sees
//!   the state before or the state after, and so does the node after a crash. A range deletion and
//!   an ingestion in two calls would show readers an empty store in between, and leave one behind
//!   after a crash.
//! - **Apply in one batch.** The last applied index is in the batch of the entry.
//! - **Purge the log after the state machine.** openraft asks for the purge while the snapshot that
//!   covers the entries is still being installed. If the process is killed in between, a log that
//!   obeyed at once has lost entries that this node acknowledged.
//! - **Read one state through one snapshot.** Two reads without a [`View`] may see the states before
//!   and after an installation.
//! - **Reopen after files were exchanged.** To install a snapshot by swapping the database's
//!   folder, or to restore a checkpoint, close the `SieveDb` first and open another afterwards.
//!   Filters of SSTs that no longer exist are not used.
//! - **Exclude what is nearly always found.** The log and the votes take no filters.

mod client;
mod cluster;
#[path = "../../../integration/support/crash_image.rs"]
mod crash;
mod history;
mod log;
mod network;
mod node;
mod snapshot;
mod state;
mod state_machine;
mod store;

pub use client::{Client, Outcome};
pub use cluster::Cluster;
pub use history::{History, Tally};
pub use network::Network;
pub use node::Node;
pub use store::{Contents, Store, View};

use std::error::Error;
use std::fmt::Display;

use openraft::{AnyError, StorageIOError};
use serde::{Deserialize, Serialize};

openraft::declare_raft_types!(
    /// The types of this store.
    pub TypeConfig:
        D = Request,
        R = Response,
        NodeId = NodeId,
        Node = openraft::EmptyNode,
        SnapshotData = std::io::Cursor<Vec<u8>>,
);

/// Identifies a node.
pub type NodeId = u64;

/// A node's consensus.
pub type Raft = openraft::Raft<TypeConfig>;

/// The identity of an entry of the log.
pub type LogId = openraft::LogId<NodeId>;

/// An error of openraft's storage, which stops the node.
pub type StorageError = openraft::StorageError<NodeId>;

/// What went wrong, for a person to read.
pub type Failure = Box<dyn Error + Send + Sync>;

/// What a client asks for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Request {
    /// Writes the key unless it exists.
    Create {
        /// The key.
        key: String,
        /// Its value.
        value: String,
    },
    /// Removes the key.
    Delete {
        /// The key.
        key: String,
    },
}

/// The answer to a [`Request`].
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct Response {
    /// Whether the request changed anything.
    pub changed: bool,
}

fn cannot_read(error: impl Display) -> StorageError {
    StorageIOError::read(AnyError::error(error)).into()
}

fn cannot_write(error: impl Display) -> StorageError {
    StorageIOError::write(AnyError::error(error)).into()
}
