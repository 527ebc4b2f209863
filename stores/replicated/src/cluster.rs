//! Three nodes, and what happens to them.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use openraft::{EmptyNode, LogIdOptionExt as _};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::{Client, Failure, Network, Node, NodeId, crash};

const IDS: [NodeId; 3] = [1, 2, 3];
/// Longer than any wait here.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(10);

/// Three nodes in folders of their own, which are removed at the end.
pub struct Cluster {
    home: TempDir,
    network: Network,
    nodes: BTreeMap<NodeId, Node>,
    /// Where the next start of each node finds its files.
    folders: BTreeMap<NodeId, PathBuf>,
    kills: u64,
}

impl Cluster {
    /// Starts three new nodes.
    ///
    /// # Errors
    /// If one cannot be opened.
    pub async fn start() -> Result<Self, Failure> {
        let home = TempDir::new()?;
        let folder = |id| (id, home.path().join(format!("node-{id}")));
        let mut cluster = Self {
            folders: IDS.map(folder).into(),
            home,
            network: Network::default(),
            nodes: BTreeMap::new(),
            kills: 0,
        };
        for id in IDS {
            cluster.restart(id, true).await?;
        }
        let members: BTreeMap<NodeId, EmptyNode> = IDS.map(|id| (id, EmptyNode {})).into();
        cluster.node(IDS[0])?.raft().initialize(members).await?;
        cluster.leader().await?;
        Ok(cluster)
    }

    /// A client.
    pub fn client(&self) -> Client {
        Client::new(self.network.clone())
    }

    /// A node that runs.
    ///
    /// # Errors
    /// If it does not run.
    pub fn node(&self, id: NodeId) -> Result<&Node, Failure> {
        self.nodes.get(&id).ok_or_else(|| not_running(id))
    }

    /// The nodes that run.
    pub fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.nodes.values()
    }

    /// The leader, as soon as there is one.
    ///
    /// # Errors
    /// If there is none for long.
    pub async fn leader(&self) -> Result<NodeId, Failure> {
        wait_for("leader", || self.network.leader().map(|(id, _)| id)).await
    }

    /// A node that is not the leader.
    ///
    /// # Errors
    /// If there is no leader for long.
    pub async fn follower(&self) -> Result<NodeId, Failure> {
        let leader = self.leader().await?;
        let follower = self.nodes.keys().find(|&&id| id != leader);
        follower.copied().ok_or_else(|| not_running(leader))
    }

    /// Closes a node.
    ///
    /// # Errors
    /// If the node does not run, or does not stop.
    pub async fn stop(&mut self, id: NodeId) -> Result<(), Failure> {
        let node = self.nodes.remove(&id).ok_or_else(|| not_running(id))?;
        node.connect(false);
        node.stop().await
    }

    /// Ends a node as `kill -9` would, whatever it does. Its next start finds what it left.
    ///
    /// # Errors
    /// If it does not run or its folder cannot be copied.
    pub async fn kill(&mut self, id: NodeId) -> Result<(), Failure> {
        let node = self.node(id)?;
        // What it does from here on may be missing in the copy, so nobody may hear of it.
        node.connect(false);
        self.kills += 1;
        let left = format!("node-{id}-killed-{}", self.kills);
        let left = self.home.path().join(left);
        crash::copy(&self.folders[&id], &left)?;
        self.folders.insert(id, left);
        self.stop(id).await
    }

    /// Starts a node that was stopped or killed, connected to the others or cut off.
    ///
    /// # Errors
    /// If it cannot be opened.
    pub async fn restart(&mut self, id: NodeId, connected: bool) -> Result<(), Failure> {
        let node = Node::open(id, &self.folders[&id], &self.network, connected).await?;
        self.nodes.insert(id, node);
        Ok(())
    }

    /// Lets each node that runs build a snapshot and purge the log that it covers.
    ///
    /// # Errors
    /// If a node does not.
    pub async fn purge(&self) -> Result<(), Failure> {
        for node in self.nodes() {
            let raft = node.raft();
            let applied = raft.metrics().borrow().last_applied;
            raft.trigger().snapshot().await?;
            wait_for("snapshot", || {
                (raft.metrics().borrow().snapshot >= applied).then_some(())
            })
            .await?;
            let upto = applied.map_or(0, |last| last.index);
            // A leader does not purge entries while it sends them, and does not retry by itself.
            let purged = async {
                while raft.metrics().borrow().purged < applied {
                    raft.trigger().purge_log(upto).await?;
                    sleep(PAUSE).await;
                }
                Ok::<(), Failure>(())
            };
            timeout(PATIENCE, purged).await??;
        }
        Ok(())
    }

    /// Waits until all nodes have applied the whole log, and compares what they have.
    ///
    /// # Errors
    /// If they do not get there, or differ.
    pub async fn agree(&self) -> Result<(), Failure> {
        wait_for("agreement", || {
            let leader = self.network.leader()?.1.raft.metrics().borrow().clone();
            let is_there = |node: &Node| {
                let last = node.raft().metrics().borrow().last_applied;
                last.index() == leader.last_log_index && last == leader.last_applied
            };
            self.nodes().all(is_there).then_some(())
        })
        .await?;
        let contents = self.nodes().map(|node| node.store().contents());
        let contents = contents.collect::<Result<Vec<_>, _>>()?;
        match contents.windows(2).all(|two| two[0] == two[1]) {
            true => Ok(()),
            false => Err("the nodes differ".into()),
        }
    }
}

fn not_running(id: NodeId) -> Failure {
    format!("node {id} does not run").into()
}

async fn wait_for<T>(what: &str, mut found: impl FnMut() -> Option<T>) -> Result<T, Failure> {
    let begun = Instant::now();
    loop {
        match found() {
            Some(found) => return Ok(found),
            None if begun.elapsed() > PATIENCE => return Err(format!("no {what}").into()),
            None => sleep(PAUSE).await,
        }
    }
}
