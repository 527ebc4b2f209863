//! Against SeaweedFS, with writer, compactor, publisher and readers as processes that are killed.
//! Runs if `LSM_SIEVE_S3=1` is set; takes some minutes. `LSM_SIEVE_ROUNDS` says how often the kills
//! of a test are repeated, half a minute each, or a minute and a half in a cluster.

use crate::processes::{Results, Role};
use crate::weed::{Weed, store};
use lsm_sieve_slatedb::slatedb::object_store::{
    ObjectStoreExt, PutMode, PutPayload, UpdateVersion, path::Path,
};
use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const READERS: u64 = 3;

fn is_asked_for() -> bool {
    std::env::var("LSM_SIEVE_S3").is_ok_and(|value| value == "1")
}

/// What the processes below run. As a test it does nothing.
#[test]
fn process() {
    if let Some(role) = Role::of_environment() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(role.run());
    }
}

/// All processes of a database, and the server.
struct Fleet {
    folder: tempfile::TempDir,
    port: u16,
    children: HashMap<String, (Role, Child)>,
}

impl Fleet {
    fn start(port: u16, reader_port: u16) -> Self {
        let mut fleet = Self {
            folder: tempfile::tempdir().unwrap(),
            port,
            children: HashMap::new(),
        };
        for name in ["writer", "compactor", "publisher"] {
            fleet.spawn(name, 0, port);
        }
        for number in 1..=READERS {
            let port = if number == 1 { reader_port } else { port };
            fleet.spawn("reader", number, port);
        }
        fleet
    }

    fn spawn(&mut self, name: &'static str, number: u64, port: u16) {
        let role = Role {
            name,
            port,
            folder: self.folder.path().to_owned(),
            number,
            readers: READERS,
        };
        let child = role.spawn(&["s3::process", "--exact", "--nocapture"]);
        self.children
            .insert(format!("{name}{number}"), (role, child));
    }

    /// Ends a process with `SIGKILL` and starts another in its place.
    fn kill(&mut self, name: &'static str) {
        let (_, mut child) = self.children.remove(&format!("{name}0")).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        self.spawn(name, 0, self.port);
    }

    fn end(mut self) -> Results {
        std::fs::write(self.folder.path().join("stop"), "").unwrap();
        for (name, (_, mut child)) in self.children.drain() {
            assert!(child.wait().unwrap().success(), "{name} failed");
        }
        let readers = Results::of(self.folder.path(), "reader");
        assert_eq!(readers.len() as u64, READERS);
        let found = Results::sum(&readers);
        eprintln!(
            "{} reads, {} absent, {} of {} never written denied, {} lost, {} torn, {} moves, \
             {} errors, {} requests",
            found.reads,
            found.absent,
            found.denied,
            found.never,
            found.lost,
            found.torn,
            found.moves,
            found.errors,
            found.requests
        );
        found
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        for (_, child) in self.children.values_mut() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn assert_exact(found: &Results) {
    assert_eq!((found.lost, found.torn), (0, 0));
    assert!(found.reads > 20_000 && found.moves >= READERS, "{found:?}");
    assert!(found.denied * 100 >= found.never * 97);
}

/// How often a test repeats its kills.
fn rounds(otherwise: usize) -> usize {
    let rounds = std::env::var("LSM_SIEVE_ROUNDS").ok();
    rounds.map_or(otherwise, |rounds| rounds.parse().expect("a number"))
}

fn pause(seconds: u64) {
    std::thread::sleep(Duration::from_secs(seconds));
}

/// Only one of many writers creates an object, and only one replaces a version of it. Publishing
/// rests on the second, SlateDB's fencing on the first.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditional_writes_have_one_winner() {
    if !is_asked_for() {
        return;
    }
    let weed = Weed::single();
    let store = store(weed.port());
    for round in 0..6 {
        let at = Path::from(format!("race/{round}"));
        assert_eq!(
            winners(&store, &at, PutMode::Create).await,
            1,
            "create {round}"
        );
        let meta = store.head(&at).await.unwrap();
        let version = UpdateVersion {
            e_tag: meta.e_tag,
            version: meta.version,
        };
        assert_eq!(
            winners(&store, &at, PutMode::Update(version)).await,
            1,
            "update {round}"
        );
    }
}

async fn winners(
    store: &Arc<dyn lsm_sieve_slatedb::slatedb::object_store::ObjectStore>,
    at: &Path,
    mode: PutMode,
) -> usize {
    let mut racing = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let (store, at, mode) = (store.clone(), at.clone(), mode.clone());
        let payload = PutPayload::from(format!("{mode:?} of writer {writer}").into_bytes());
        racing.spawn(async move { store.put_opts(&at, payload, mode.into()).await.is_ok() });
    }
    racing
        .join_all()
        .await
        .into_iter()
        .filter(|won| *won)
        .count()
}

/// Every process is killed, the server too, and one reader is cut off for a while.
#[test]
fn no_reader_loses_a_key_while_processes_are_killed() {
    if !is_asked_for() {
        return;
    }
    let mut weed = Weed::single();
    let gate = Gate::before(weed.port());
    let mut fleet = Fleet::start(weed.port(), gate.port);
    pause(15);
    for _ in 0..rounds(2) {
        for name in ["writer", "compactor", "publisher"] {
            fleet.kill(name);
            pause(5);
        }
        gate.shut(true);
        pause(4);
        weed.kill("server");
        pause(4);
        weed.restart("server");
        gate.shut(false);
        pause(12);
    }
    assert_exact(&fleet.end());
}

/// Three masters and three volume servers; the leading master and one volume server are killed.
#[test]
fn no_reader_loses_a_key_while_a_cluster_loses_nodes() {
    if !is_asked_for() {
        return;
    }
    let mut weed = Weed::cluster();
    let mut fleet = Fleet::start(weed.port(), weed.port());
    let parts = weed.parts();
    let volumes: Vec<&String> = parts
        .iter()
        .filter(|part| part.starts_with("volume"))
        .collect();
    for round in 0..rounds(1) {
        pause(25);
        let volume = volumes[round % volumes.len()];
        weed.kill(volume);
        pause(15);
        fleet.kill("writer");
        weed.restart(volume);
        pause(10);
        let leader = weed.leader().expect("a leading master");
        weed.kill(&leader);
        pause(20);
        weed.restart(&leader);
        fleet.kill("publisher");
        pause(15);
    }
    assert_exact(&fleet.end());
}

/// A way to the server that can be cut: bytes stop, connections stay.
struct Gate {
    port: u16,
    is_shut: Arc<AtomicBool>,
}

impl Gate {
    fn before(server: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let is_shut = Arc::new(AtomicBool::new(false));
        let shut = is_shut.clone();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                if let Ok(server) = TcpStream::connect(("127.0.0.1", server)) {
                    forward(&client, &server, &shut);
                    forward(&server, &client, &shut);
                }
            }
        });
        Self { port, is_shut }
    }

    fn shut(&self, is: bool) {
        self.is_shut.store(is, Ordering::SeqCst);
    }
}

/// Copies bytes in a thread of its own while the gate is open.
fn forward(from: &TcpStream, to: &TcpStream, is_shut: &Arc<AtomicBool>) {
    let (mut from, mut to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
    let is_shut = is_shut.clone();
    std::thread::spawn(move || {
        let mut bytes = [0; 16 << 10];
        while let Ok(read @ 1..) = from.read(&mut bytes) {
            while is_shut.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            if to.write_all(&bytes[..read]).is_err() {
                break;
            }
        }
        let _ = to.shutdown(std::net::Shutdown::Both);
    });
}
