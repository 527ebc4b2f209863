//! Three nodes, a node that comes back behind the purged log, and a leader that is cut off:
//! `cargo run -p lsm-sieve-replicated`.
//!
//! Prints what happens, and a line of JSON at the end: the keys that were read on all nodes, those
//! that the filters denied, and those that were lost. Exit code 1 if an answer was wrong.

#![expect(clippy::print_stdout, reason = "an example for the command line")]

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use lsm_sieve_replicated::{Cluster, Failure, History, Tally};

const KEYS: u64 = 2_000;

#[tokio::main]
async fn main() -> Result<ExitCode, Failure> {
    let mut cluster = Cluster::start().await?;
    let (client, history) = (cluster.client(), Arc::new(History::default()));
    let mut all = Tally::default();

    history.write(&client, 0..KEYS, vec![]).await?;
    cluster.agree().await?;
    check(&cluster, &history, &mut all)?;
    println!("{KEYS} requests were carried out on three nodes.");

    let behind = cluster.follower().await?;
    cluster.kill(behind).await?;
    let deleted = (0..KEYS).step_by(10).collect();
    history.write(&client, KEYS..2 * KEYS, deleted).await?;
    cluster.purge().await?;
    cluster.restart(behind, true).await?;
    cluster.agree().await?;
    check(&cluster, &history, &mut all)?;
    let installed = cluster.node(behind)?.store().installed();
    println!(
        "Node {behind} was killed, fell behind the purged log and installed {installed} snapshot."
    );

    let old = cluster.leader().await?;
    let writes = {
        let (client, history) = (client.clone(), Arc::clone(&history));
        tokio::spawn(async move { history.write(&client, 2 * KEYS..3 * KEYS, vec![]).await })
    };
    tokio::time::sleep(Duration::from_millis(100)).await;
    cluster.node(old)?.connect(false);
    let new = cluster.leader().await?;
    writes.await??;
    cluster.node(old)?.connect(true);
    cluster.agree().await?;
    check(&cluster, &history, &mut all)?;
    let unknown = history.unknown();
    println!("Node {new} took over from node {old}; the outcome of {unknown} writes is unknown.");

    for id in [1, 2, 3] {
        cluster.kill(id).await?;
    }
    for id in [1, 2, 3] {
        cluster.restart(id, true).await?;
    }
    cluster.agree().await?;
    check(&cluster, &history, &mut all)?;
    println!("All nodes were killed and opened again.");

    let Tally {
        reads,
        denied,
        lost,
        revived,
        different,
        ..
    } = all;
    println!(
        "{}",
        serde_json::json!({
            "part": "replicated", "reads": reads, "denied": denied, "lost": lost,
            "revived": revived, "different": different, "unknown_writes": unknown,
            "installed": installed,
        })
    );
    Ok(match all.is_clean() {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

/// Checks every node as soon as its filters cover all SSTs.
fn check(cluster: &Cluster, history: &History, all: &mut Tally) -> Result<(), Failure> {
    for node in cluster.nodes() {
        if !node
            .store()
            .db()
            .filters()
            .wait_until_complete(Duration::from_secs(60))
        {
            return Err("the filters do not cover all SSTs".into());
        }
        history.check(node.store(), all)?;
    }
    Ok(())
}
