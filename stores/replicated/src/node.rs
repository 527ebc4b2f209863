//! A node: its store, its consensus, and its link to the others.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use tokio::time::{Instant, sleep};

use crate::network::{Link, Network, Peer};
use crate::{Failure, NodeId, Raft, Store};

/// Snapshots are taken on request, and are sent in many chunks.
fn config() -> Config {
    Config {
        heartbeat_interval: 100,
        election_timeout_min: 500,
        election_timeout_max: 1_000,
        install_snapshot_timeout: 10_000,
        snapshot_policy: SnapshotPolicy::Never,
        snapshot_max_chunk_size: 16 << 10,
        max_in_snapshot_log_to_keep: 0,
        ..Config::default()
    }
}

/// A node that runs.
pub struct Node {
    store: Store,
    raft: Raft,
    link: Link,
}

impl Node {
    /// Opens the node in this folder, connected to the others or cut off.
    ///
    /// # Errors
    /// If its store cannot be opened or read.
    pub async fn open(
        id: NodeId,
        folder: &Path,
        network: &Network,
        connected: bool,
    ) -> Result<Self, Failure> {
        let store = Store::open(id, folder)?;
        let link = Link::new(connected);
        let raft = Raft::new(
            id,
            Arc::new(config().validate()?),
            network.sender(link.clone()),
            store.clone(),
            store.clone(),
        )
        .await?;
        let peer = Peer {
            raft: raft.clone(),
            link: link.clone(),
        };
        network.join(id, peer);
        Ok(Self { store, raft, link })
    }

    /// What it stores.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Its consensus.
    pub fn raft(&self) -> &Raft {
        &self.raft
    }

    /// Connects it to the others, or cuts it off.
    pub fn connect(&self, connected: bool) {
        self.link.set(connected);
    }

    /// Ends the node and closes its database.
    ///
    /// # Errors
    /// If it does not end.
    pub async fn stop(self) -> Result<(), Failure> {
        self.raft.shutdown().await?;
        let begun = Instant::now();
        // Tasks of openraft hold the database a little longer.
        while Arc::strong_count(self.store.db()) > 1 {
            if begun.elapsed() > Duration::from_secs(10) {
                return Err("the database is still in use".into());
            }
            sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}
