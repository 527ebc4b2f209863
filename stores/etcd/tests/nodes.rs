//! Three nodes of etcd on 127.0.0.1, which each test starts and ends.
//!
//! The program is `etcd`, or what `LSM_SIEVE_ETCD_PROGRAM` names.

use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use lsm_sieve_etcd::etcd_client::{Client, ConnectOptions, Error};
use tokio::time::{Instant, sleep};

pub(crate) const NODES: usize = 3;

pub(crate) struct Nodes {
    folder: tempfile::TempDir,
    clients: [u16; NODES],
    peers: [u16; NODES],
    children: Vec<Child>,
}

/// Without load an answer takes a millisecond.
pub(crate) async fn connect(endpoints: &[String]) -> Result<Client, Error> {
    let options = ConnectOptions::new()
        .with_connect_timeout(Duration::from_millis(500))
        .with_timeout(Duration::from_secs(2));
    Client::connect(endpoints, Some(options)).await
}

impl Nodes {
    pub(crate) async fn start() -> Self {
        let ports = free_ports::<{ 2 * NODES }>();
        let mut nodes = Self {
            folder: tempfile::tempdir().unwrap(),
            clients: std::array::from_fn(|node| ports[node]),
            peers: std::array::from_fn(|node| ports[NODES + node]),
            children: Vec::new(),
        };
        nodes.children = (0..NODES).map(|node| nodes.spawn(node)).collect();
        nodes.are_up().await;
        nodes
    }

    pub(crate) fn endpoints(&self) -> Vec<String> {
        self.clients.iter().copied().map(url).collect()
    }

    pub(crate) fn ports(&self) -> [u16; NODES] {
        self.clients
    }

    /// Ends a node at once (`SIGKILL`).
    pub(crate) fn kill(&mut self, node: usize) {
        self.children[node].kill().unwrap();
        self.children[node].wait().unwrap();
    }

    /// Starts a node again that was ended.
    pub(crate) fn restart(&mut self, node: usize) {
        self.children[node] = self.spawn(node);
    }

    /// Stops a node (`STOP`), or lets it go on (`CONT`).
    pub(crate) fn signal(&self, node: usize, signal: &str) {
        let pid = self.children[node].id().to_string();
        let status = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(status.unwrap().success());
    }

    /// The node that leads.
    pub(crate) async fn leader(&self) -> Option<usize> {
        for node in 0..NODES {
            let Ok(mut client) = connect(&self.endpoints()[node..=node]).await else {
                continue;
            };
            if let Ok(status) = client.status().await
                && status.header().unwrap().member_id() == status.leader()
            {
                return Some(node);
            }
        }
        None
    }

    /// Waits until each node answers a linearizable read.
    pub(crate) async fn are_up(&self) {
        let began = Instant::now();
        for (node, endpoint) in self.endpoints().iter().enumerate() {
            loop {
                let client = connect(std::slice::from_ref(endpoint)).await;
                if let Ok(mut client) = client
                    && client.get("up", None).await.is_ok()
                {
                    break;
                }
                assert!(
                    began.elapsed() < Duration::from_secs(90),
                    "{}",
                    self.log(node)
                );
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// What a node has logged.
    pub(crate) fn log(&self, node: usize) -> String {
        let path = self.folder.path().join(format!("{node}.log"));
        std::fs::read_to_string(path).unwrap_or_default()
    }

    fn spawn(&self, node: usize) -> Child {
        let name = |node: usize| format!("node{node}");
        let all = (0..NODES).map(|node| format!("{}={}", name(node), url(self.peers[node])));
        let (client, peer) = (url(self.clients[node]), url(self.peers[node]));
        let program = std::env::var("LSM_SIEVE_ETCD_PROGRAM");
        let program = program.unwrap_or_else(|_| "etcd".to_owned());
        let mut log = std::fs::OpenOptions::new();
        let log = log.create(true).append(true);
        let log = log.open(self.folder.path().join(format!("{node}.log")));
        Command::new(&program)
            .args(["--name", &name(node)])
            .arg("--data-dir")
            .arg(self.folder.path().join(name(node)))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args(["--initial-cluster", &all.collect::<Vec<_>>().join(",")])
            .args(["--initial-cluster-token", &self.peers[0].to_string()])
            // Snapshots of raft, which move watches back, come often.
            .args(["--snapshot-count", "500"])
            // Version 3.4 refuses to run there otherwise.
            .env("ETCD_UNSUPPORTED_ARCH", "arm64")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log.unwrap())
            .spawn()
            .unwrap_or_else(|error| panic!("{program} (see LSM_SIEVE_ETCD_PROGRAM): {error}"))
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

fn free_ports<const N: usize>() -> [u16; N] {
    // All held until each is known, so that they differ.
    let held: [TcpListener; N] =
        std::array::from_fn(|_| TcpListener::bind(("127.0.0.1", 0)).unwrap());
    std::array::from_fn(|at| held[at].local_addr().unwrap().port())
}
