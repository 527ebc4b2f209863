//! A sync makes commits durable: what a child of this test asks of the system, by `strace`.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::path::Path;
use std::process::Command;

use fjall::{Database, KeyspaceCreateOptions};
use lsm_sieve_fjall::FjallKeyspace;
use lsm_sieve_stores::kv::{Batch, Store};

/// The folder of the child's database, and how many of its commits it syncs.
const FOLDER: &str = "LSM_SIEVE_FJALL_FOLDER";
const SYNCS: &str = "LSM_SIEVE_FJALL_SYNCS";

const COMMITS: u32 = 40;

fn commit_and_sync(folder: &Path, syncs: u32) {
    let db = Database::builder(folder.join("db")).open().unwrap();
    let keys = FjallKeyspace::open(&db, "keys", KeyspaceCreateOptions::default).unwrap();
    for number in 0..COMMITS {
        let batch = Batch::default().insert(number.to_be_bytes(), *b"value");
        keys.commit(batch, &[]).unwrap();
        if number < syncs {
            keys.sync().unwrap();
        }
    }
}

/// How often a child calls `fsync` or `fdatasync` if it syncs this many of its commits.
fn synced(syncs: u32) -> usize {
    let home = tempfile::tempdir().unwrap();
    let calls = home.path().join("calls");
    let child = Command::new("strace")
        .args(["-f", "-qq", "-e", "trace=fsync,fdatasync", "-o"])
        .arg(&calls)
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "each_sync_is_one_of_the_system"])
        .env(FOLDER, home.path())
        .env(SYNCS, syncs.to_string())
        .output();
    let child = child.unwrap();
    assert!(child.status.success(), "{child:?}");
    let calls = std::fs::read_to_string(calls).unwrap();
    calls.lines().filter(|call| call.contains("sync(")).count()
}

#[test]
fn each_sync_is_one_of_the_system() {
    if let (Some(folder), Ok(syncs)) = (std::env::var_os(FOLDER), std::env::var(SYNCS)) {
        return commit_and_sync(Path::new(&folder), syncs.parse().unwrap());
    }
    if Command::new("strace").arg("-V").output().is_err() {
        eprintln!("skipped: strace is missing");
        return;
    }
    // fjall syncs by itself, too: when it creates files and when it closes.
    let (without, with) = (synced(0), synced(COMMITS));
    assert!(with >= without + COMMITS as usize, "{with}, {without}");
}
