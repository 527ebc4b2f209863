//! A replicated store over `SieveDb`: no key that was acknowledged is ever answered absent, on any
//! node, whatever happened to it.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::ops::Range;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use lsm_sieve_replicated::{
    Cluster, Failure, History, LogId, Outcome, Request, Store, Tally, TypeConfig,
};
use openraft::storage::{RaftLogStorage as _, RaftStateMachine as _};
use openraft::{CommittedLeaderId, Entry, EntryPayload, RaftSnapshotBuilder as _, Snapshot};
use tempfile::TempDir;

const PATIENCE: Duration = Duration::from_secs(30);

fn found(history: &History, store: &Store) -> Tally {
    let mut found = Tally::default();
    history.check(store, &mut found).unwrap();
    found
}

/// Checks all nodes against the history. Filters must deny most keys that do not exist.
fn check(cluster: &Cluster, history: &History) {
    for node in cluster.nodes() {
        assert!(node.store().db().filters().wait_until_complete(PATIENCE));
        let found = found(history, node.store());
        assert!(found.is_clean(), "{found:?}");
        // Half of the keys that are read never existed.
        assert!(found.denied * 100 >= found.reads / 2 * 95, "{found:?}");
    }
}

async fn kill_all(cluster: &mut Cluster) {
    for id in 1..=3 {
        cluster.kill(id).await.unwrap();
    }
    for id in 1..=3 {
        cluster.restart(id, true).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn three_nodes_agree_and_filters_answer_misses() {
    let cluster = Cluster::start().await.unwrap();
    let (client, history) = (cluster.client(), Arc::new(History::default()));
    history.write(&client, 0..1_000, vec![]).await.unwrap();
    // Each request is sent again and is not carried out again.
    for number in (0..1_000).step_by(10) {
        let (key, value) = (History::key(number), String::from("another"));
        let again = client.write(Request::Create { key, value }).await;
        assert!(matches!(
            again,
            Outcome::Acknowledged { changed: false, .. }
        ));
    }
    let deleted = (0..1_000).step_by(10).collect();
    history.write(&client, 0..0, deleted).await.unwrap();
    cluster.agree().await.unwrap();
    assert_eq!(history.unknown(), 0);
    check(&cluster, &history);
    for node in cluster.nodes() {
        let store = node.store();
        let before = store.db().filters().stats();
        for number in 0..1_000 {
            assert_eq!(store.get(&History::absent_key(number)).unwrap(), None);
        }
        let after = store.db().filters().stats();
        let denied = after.absent - before.absent;
        assert!(denied >= 950, "{denied} of 1,000 misses");
        assert!(after.engine_reads() - before.engine_reads() <= 50);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn killed_node_that_lags_behind_the_purged_log_loses_no_key() {
    let mut cluster = Cluster::start().await.unwrap();
    let (client, history) = (cluster.client(), Arc::new(History::default()));
    for round in 0..2 {
        let first = round * 2_000;
        let creates = first..first + 1_000;
        history
            .write(&client, creates.clone(), vec![])
            .await
            .unwrap();
        let behind = cluster.follower().await.unwrap();
        cluster.kill(behind).await.unwrap();
        let later = first + 1_000..first + 2_000;
        let deleted = creates.step_by(10).collect();
        history.write(&client, later, deleted).await.unwrap();
        cluster.purge().await.unwrap();
        cluster.restart(behind, true).await.unwrap();
        if round == 1 {
            // Perhaps before the installation, perhaps amid it.
            for delay in [5, 10, 20, 40, 80] {
                tokio::time::sleep(Duration::from_millis(delay)).await;
                cluster.kill(behind).await.unwrap();
                cluster.restart(behind, true).await.unwrap();
                let store = cluster.node(behind).unwrap().store();
                assert!(found(&history, store).is_clean());
            }
        }
        cluster.agree().await.unwrap();
        let store = cluster.node(behind).unwrap().store();
        assert!(
            round == 1 || store.installed() == 1,
            "it came by a snapshot"
        );
        check(&cluster, &history);
    }
    kill_all(&mut cluster).await;
    // A node may be behind, but what it answers is one state of the log.
    for node in cluster.nodes() {
        assert!(found(&history, node.store()).is_clean());
    }
    cluster.agree().await.unwrap();
    check(&cluster, &history);
    for id in 1..=3 {
        cluster.stop(id).await.unwrap();
    }
    for id in 1..=3 {
        cluster.restart(id, true).await.unwrap();
    }
    cluster.agree().await.unwrap();
    check(&cluster, &history);
}

/// A write whose outcome is unknown may be there or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn acknowledged_writes_outlast_leader_changes() {
    let mut cluster = Cluster::start().await.unwrap();
    let (client, history) = (cluster.client(), Arc::new(History::default()));
    let writes = {
        let (client, history) = (client.clone(), Arc::clone(&history));
        tokio::spawn(async move { history.write(&client, 0..4_000, vec![]).await })
    };
    for kill in [false, true] {
        let old = cluster.leader().await.unwrap();
        if kill {
            cluster.kill(old).await.unwrap();
        } else {
            cluster.node(old).unwrap().connect(false);
        }
        assert_ne!(cluster.leader().await.unwrap(), old);
        if kill {
            cluster.restart(old, true).await.unwrap();
        } else {
            cluster.node(old).unwrap().connect(true);
        }
    }
    writes.await.unwrap().unwrap();
    cluster.agree().await.unwrap();
    assert!(history.unknown() < 1_000, "{} unknown", history.unknown());
    check(&cluster, &history);
}

/// Ends the readers, also if the test fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `read` from two threads until `work` is done.
fn beside_readers(read: impl Fn() -> Result<(), Failure> + Sync, work: impl FnOnce()) {
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = Stop(&done);
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    read().unwrap();
                }
            });
        }
        work();
        drop(stop);
    });
}

/// While a node catches up by a snapshot, its readers see states of the log and nothing else, and
/// no key that was there goes away.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn readers_beside_an_installation_see_states_of_the_log() {
    let mut cluster = Cluster::start().await.unwrap();
    let (client, history) = (cluster.client(), Arc::new(History::default()));
    history.write(&client, 0..2_000, vec![]).await.unwrap();
    let behind = cluster.follower().await.unwrap();
    cluster.kill(behind).await.unwrap();
    let deleted = (0..1_000).step_by(10).collect();
    history.write(&client, 2_000..4_000, deleted).await.unwrap();
    cluster.purge().await.unwrap();
    cluster.restart(behind, false).await.unwrap();
    let node = cluster.node(behind).unwrap();
    let store = node.store();
    assert!(store.db().filters().wait_until_complete(PATIENCE));
    let old = store.view().unwrap().applied();
    let (saw_old, saw_new) = (AtomicBool::new(false), AtomicBool::new(false));
    let read = || {
        let is_old = store.view()?.applied() == old;
        let seen = if is_old { &saw_old } else { &saw_new };
        seen.store(true, Ordering::Relaxed);
        let found = found(&history, store);
        assert!(found.is_clean(), "{found:?}");
        // Without a view: these keys are never deleted.
        for number in 1_000..4_000 {
            let key = History::key(number);
            let was_there = store.get_unfiltered(&key)?.is_some();
            assert!(!was_there || store.get(&key)?.is_some(), "{key} is lost");
        }
        Ok(())
    };
    let wait_until = |seen: &AtomicBool| {
        let begun = Instant::now();
        while !seen.load(Ordering::Relaxed) {
            assert!(begun.elapsed() < PATIENCE, "no reader saw it");
            thread::sleep(Duration::from_millis(5));
        }
    };
    let work = || {
        let runtime = tokio::runtime::Handle::current();
        wait_until(&saw_old);
        node.connect(true);
        let deleted = (1..1_000).step_by(10).collect();
        let write = history.write(&client, 4_000..4_500, deleted);
        runtime.block_on(write).unwrap();
        runtime.block_on(cluster.agree()).unwrap();
        wait_until(&saw_new);
    };
    tokio::task::block_in_place(|| beside_readers(read, work));
    assert_eq!(store.installed(), 1);
    check(&cluster, &history);
}

/// Keys that are in all snapshots of a donor.
const KEPT: Range<u64> = 0..1_000;

/// Keys that are only in the snapshot of this round.
fn own(round: u64) -> Range<u64> {
    (round + 1) * 1_000..(round + 2) * 1_000
}

/// The round that the state with this index belongs to.
fn round_of(applied: u64) -> u64 {
    applied / 10_000
}

/// The snapshots of some rounds, built by a store in this folder.
async fn snapshots(folder: &Path, rounds: Range<u64>) -> Vec<Snapshot<TypeConfig>> {
    let mut donor = Store::open(1, folder).unwrap();
    let mut built = Vec::new();
    for round in rounds.clone() {
        let create = |number| {
            let (key, value) = (History::key(number), String::from("value"));
            Request::Create { key, value }
        };
        let delete = |number| Request::Delete {
            key: History::key(number),
        };
        let mut requests: Vec<_> = own(round).map(create).collect();
        match round == rounds.start {
            true => requests.extend(KEPT.map(create)),
            false => requests.extend(own(round - 1).map(delete)),
        }
        let entries = requests.into_iter().zip(round * 10_000..);
        let entries = entries.map(|(request, index)| Entry {
            log_id: LogId::new(CommittedLeaderId::new(1, 1), index),
            payload: EntryPayload::Normal(request),
        });
        donor.apply(entries).await.unwrap();
        built.push(donor.build_snapshot().await.unwrap());
    }
    built
}

/// Snapshots follow one another under readers, each with keys that the filters have never seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn installation_is_one_step() {
    const ROUNDS: Range<u64> = 1..13;
    let home = TempDir::new().unwrap();
    let snapshots = snapshots(&home.path().join("1"), ROUNDS).await;
    let store = Store::open(2, &home.path().join("2")).unwrap();
    let mut state_machine = store.clone();
    let mut install = |snapshot: &Snapshot<TypeConfig>| {
        let file = snapshot.snapshot.clone();
        let installation = state_machine.install_snapshot(&snapshot.meta, file);
        let runtime = tokio::runtime::Handle::current();
        runtime.block_on(installation).unwrap();
    };
    let read = || {
        let view = store.view()?;
        let round = round_of(view.applied());
        assert!(ROUNDS.contains(&round), "a state of no snapshot: {round}");
        let others = [round - 1, round + 1].map(own).into_iter().flatten();
        let absent = others.step_by(7).map(|number| (number, false));
        let present = own(round).chain(KEPT.step_by(7));
        for (number, exists) in present.map(|number| (number, true)).chain(absent) {
            let key = History::key(number);
            assert_eq!(view.get(&key)?.is_some(), exists, "{key} in round {round}");
            assert_eq!(view.get_unfiltered(&key)?.is_some(), exists, "{key}");
        }
        for number in KEPT {
            let key = History::key(number);
            assert!(store.get(&key)?.is_some(), "{key} is lost");
        }
        Ok(())
    };
    tokio::task::block_in_place(|| {
        install(&snapshots[0]);
        beside_readers(read, || {
            for (nth, snapshot) in snapshots.iter().enumerate().skip(1) {
                // Mostly, filters answer when an installation begins.
                if nth % 3 != 0 {
                    assert!(store.db().filters().wait_until_complete(PATIENCE));
                }
                install(snapshot);
                thread::sleep(Duration::from_millis(20));
            }
        });
    });
    assert!(store.db().filters().wait_until_complete(PATIENCE));
    assert!(store.view().unwrap().denies(&History::absent_key(1)));
}

/// The checks above can fail: what changes a store past the log is found.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn lost_and_revived_keys_are_found() {
    let cluster = Cluster::start().await.unwrap();
    let (client, history) = (cluster.client(), Arc::new(History::default()));
    history.write(&client, 0..100, vec![]).await.unwrap();
    history.write(&client, 0..0, vec![7]).await.unwrap();
    cluster.agree().await.unwrap();
    let store = cluster.node(1).unwrap().store();
    let data = store.db().cf_handle("data").unwrap();
    let stored = |number| format!("\u{1}{}", History::key(number));
    store.db().delete_cf(&data, stored(3)).unwrap();
    store.db().put_cf(&data, stored(7), "back again").unwrap();
    let found = found(&history, store);
    assert_eq!((found.lost, found.revived, found.different), (1, 1, 0));
    cluster.agree().await.unwrap_err();
}

/// Otherwise a node that is killed during an installation would have neither the entries nor the
/// snapshot.
#[tokio::test]
async fn log_is_purged_after_the_snapshot_is_installed() {
    let home = TempDir::new().unwrap();
    let snapshot = snapshots(&home.path().join("1"), 1..2).await.remove(0);
    let mut store = Store::open(2, &home.path().join("2")).unwrap();
    let last = snapshot.meta.last_log_id.unwrap();
    let mut log = store.clone();
    let purge = tokio::spawn(async move { log.purge(last).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!purge.is_finished());
    assert_eq!(
        store.get_log_state().await.unwrap().last_purged_log_id,
        None
    );
    let (meta, file) = (&snapshot.meta, snapshot.snapshot.clone());
    store.install_snapshot(meta, file).await.unwrap();
    purge.await.unwrap().unwrap();
    assert_eq!(
        store.get_log_state().await.unwrap().last_purged_log_id,
        Some(last)
    );
}

#[test]
fn demonstration_loses_nothing() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_lsm-sieve-replicated"));
    let output = program.output().unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{printed}");
    let last = printed.lines().last().unwrap();
    let last: serde_json::Value = serde_json::from_str(last).unwrap();
    assert_eq!((&last["lost"], &last["installed"]), (&0.into(), &1.into()));
    // Half of the keys that are read never existed.
    let (reads, denied) = (&last["reads"], &last["denied"]);
    assert!(
        denied.as_u64().unwrap() * 2 >= reads.as_u64().unwrap() * 95 / 100,
        "{last}"
    );
}
