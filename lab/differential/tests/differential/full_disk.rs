//! A disk that is really full: a small one in memory, mounted by the child.

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::fs;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::Command;

use lsm_sieve_differential::{DifferentialError, DifferentialStore, FilterChoice};

use super::model::key;
use super::{engine, with_filter};
use crate::support::requirements::skip;

const CHILD: &str = "LSM_SIEVE_FULL_DISK";
/// Printed by the child once it uses the small disk.
const BEGUN: &str = "on the small disk";
const MOUNT: &str = r#"mount -t tmpfs -o size=64m tmpfs "$1" && exec "$2" --exact differential::full_disk::child --nocapture"#;

#[test]
fn full_disk_is_reported_and_loses_no_acknowledged_record() {
    let home = tempfile::tempdir().unwrap();
    let test = std::env::current_exe().unwrap();
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", MOUNT, "sh"])
        .args([home.path(), &test])
        .env(CHILD, home.path())
        .output();
    let Ok(output) = output else {
        skip("there is no `unshare` here");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    if !said.contains(BEGUN) {
        skip(format!(
            "no mount of one's own is allowed here: {complaint}"
        ));
        return;
    }
    assert!(output.status.success(), "{said}\n{complaint}");
}

/// Memtables are larger than the disk, so it is the log that does not fit. If an SST does not fit,
/// RocksDB makes writers wait until space is freed, and reports nothing.
fn open(path: &Path) -> DifferentialStore {
    let mut options = engine();
    options.set_write_buffer_size(64 << 20);
    DifferentialStore::open(&options, &with_filter(FilterChoice::Scalable), path).unwrap()
}

/// The child half. Does nothing unless its parent started it.
#[test]
fn child() {
    let Some(disk) = std::env::var_os(CHILD) else {
        return;
    };
    println!("{BEGUN}");
    fill_free_and_reopen(Path::new(&disk));
}

fn fill_free_and_reopen(disk: &Path) {
    let (path, ballast) = (disk.join("store"), disk.join("ballast"));
    fs::create_dir(&ballast).unwrap();
    let mut file = fs::File::create_new(ballast.join("file")).unwrap();
    file.write_all(&[1; 56 << 20]).unwrap();
    drop(file);

    let store = open(&path);
    let mut acknowledged = 0;
    let error = loop {
        match store.put(key(acknowledged), value(acknowledged)) {
            Ok(()) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, DifferentialError::DiskFull(_)), "{error:?}");
    let text = error.to_string();
    assert!(
        text.contains("free space and open the store again"),
        "{text}"
    );
    store.freeze().unwrap_err();
    for index in 0..acknowledged {
        assert_eq!(store.get(key(index)).unwrap(), Some(value(index)));
    }
    assert_eq!(store.get(key(acknowledged)).unwrap(), None);
    drop(store);

    fs::remove_dir_all(&ballast).unwrap();
    let store = open(&path);
    assert!(acknowledged > 100, "only {acknowledged} fitted");
    store.put(b"one more", b"fits").unwrap();
    let done = store.reorganize(|_| ControlFlow::Continue(())).unwrap();
    assert!(done.finished);
    for index in 0..acknowledged {
        assert_eq!(store.get(key(index)).unwrap(), Some(value(index)));
    }
}

/// 4 KiB of bytes that do not compress, from a multiplicative congruence.
fn value(seed: u64) -> Vec<u8> {
    let mut state = seed + 1;
    let words = std::iter::repeat_with(|| {
        state = state.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
        (state >> 32) as u8
    });
    words.take(4 << 10).collect()
}
