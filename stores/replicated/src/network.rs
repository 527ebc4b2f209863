//! The network: calls between nodes of one process, and links that can be cut.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use openraft::error::{
    InstallSnapshotError, NetworkError, RPCError, RaftError, RemoteError, Unreachable,
};
use openraft::network::{Backoff, RPCOption, RaftNetwork, RaftNetworkFactory};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, InstallSnapshotRequest, InstallSnapshotResponse,
    VoteRequest, VoteResponse,
};
use openraft::{EmptyNode, ServerState};

use crate::{NodeId, Raft, TypeConfig};

type Answer<T, E = openraft::error::Infallible> =
    Result<T, RPCError<NodeId, EmptyNode, RaftError<NodeId, E>>>;

/// A node's link to all others.
#[derive(Clone, Debug)]
pub(crate) struct Link(Arc<AtomicBool>);

impl Link {
    pub(crate) fn new(up: bool) -> Self {
        Self(Arc::new(AtomicBool::new(up)))
    }

    pub(crate) fn set(&self, up: bool) {
        self.0.store(up, Ordering::SeqCst);
    }

    pub(crate) fn is_up(&self) -> bool {
        self.0.load(Ordering::SeqCst)
    }
}

/// A node as others reach it.
#[derive(Clone)]
pub(crate) struct Peer {
    pub(crate) raft: Raft,
    pub(crate) link: Link,
}

/// The nodes that run.
#[derive(Clone, Default)]
pub struct Network {
    peers: Arc<RwLock<BTreeMap<NodeId, Peer>>>,
}

impl Network {
    /// Adds a node, or another run of it.
    pub(crate) fn join(&self, node: NodeId, peer: Peer) {
        let mut peers = self.peers.write().unwrap_or_else(PoisonError::into_inner);
        peers.insert(node, peer);
    }

    /// What a node with this link sends through.
    pub(crate) fn sender(&self, link: Link) -> Sender {
        Sender {
            network: self.clone(),
            link,
        }
    }

    /// The node with the highest term that takes itself for the leader and can be reached.
    pub(crate) fn leader(&self) -> Option<(NodeId, Peer)> {
        let peers = self.peers.read().unwrap_or_else(PoisonError::into_inner);
        let reached = peers.iter().filter(|(_, peer)| peer.link.is_up());
        let leaders = reached.filter_map(|(&node, peer)| {
            let metrics = peer.raft.metrics().borrow().clone();
            let leads = metrics.running_state.is_ok() && metrics.state == ServerState::Leader;
            leads.then(|| (metrics.current_term, node, peer.clone()))
        });
        let newest = leaders.max_by_key(|(term, ..)| *term);
        newest.map(|(_, node, peer)| (node, peer))
    }
}

/// Makes the connections of one node.
pub(crate) struct Sender {
    network: Network,
    link: Link,
}

impl RaftNetworkFactory<TypeConfig> for Sender {
    type Network = Connection;

    async fn new_client(&mut self, target: NodeId, _: &EmptyNode) -> Connection {
        Connection {
            network: self.network.clone(),
            own: self.link.clone(),
            target,
        }
    }
}

/// A connection from one node to another.
pub(crate) struct Connection {
    network: Network,
    own: Link,
    target: NodeId,
}

impl Connection {
    /// Calls the other node. If a link is cut meanwhile, the answer is lost.
    async fn call<T, E, F>(&self, send: impl FnOnce(Raft) -> F) -> Answer<T, E>
    where
        E: std::error::Error,
        F: Future<Output = Result<T, RaftError<NodeId, E>>>,
    {
        let unreachable = || Unreachable::new(&io::Error::from(io::ErrorKind::NotConnected));
        let peer = {
            let peers = self.network.peers.read();
            let peers = peers.unwrap_or_else(PoisonError::into_inner);
            peers.get(&self.target).cloned()
        };
        let peer = peer.filter(|peer| self.own.is_up() && peer.link.is_up());
        let Peer { raft, link } = peer.ok_or_else(unreachable)?;
        let answer = send(raft).await;
        if !(self.own.is_up() && link.is_up()) {
            let lost = io::Error::from(io::ErrorKind::ConnectionReset);
            return Err(NetworkError::new(&lost).into());
        }
        answer.map_err(|error| RemoteError::new(self.target, error).into())
    }
}

impl RaftNetwork<TypeConfig> for Connection {
    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        _: RPCOption,
    ) -> Answer<AppendEntriesResponse<NodeId>> {
        self.call(|raft| async move { raft.append_entries(request).await })
            .await
    }

    async fn install_snapshot(
        &mut self,
        request: InstallSnapshotRequest<TypeConfig>,
        _: RPCOption,
    ) -> Answer<InstallSnapshotResponse<NodeId>, InstallSnapshotError> {
        self.call(|raft| async move { raft.install_snapshot(request).await })
            .await
    }

    async fn vote(
        &mut self,
        request: VoteRequest<NodeId>,
        _: RPCOption,
    ) -> Answer<VoteResponse<NodeId>> {
        self.call(|raft| async move { raft.vote(request).await })
            .await
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(std::iter::repeat(Duration::from_millis(50)))
    }
}
