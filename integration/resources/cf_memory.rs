//! The memory that a database with many column families takes for each: little beside its filters,
//! and all of it is reported.
//!
//! The C library says what the process has allocated; RocksDB and the tests share its allocator. So
//! a child does the work, alone in its process.

#![expect(clippy::print_stdout, reason = "it prints its figures")]
#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]
#![expect(unsafe_code, reason = "a call of the C library")]

use std::process::Command;
use std::time::Duration;

use lsm_sieve::{SieveDb, SieveOptions};
use rocksdb::{DB, Options};

use crate::support::model_db::PATIENCE;
use crate::support::requirements::skip;

const CHILD: &str = "LSM_SIEVE_FAMILIES_CHILD";

/// The number of families; 500 if unset.
const FAMILIES: &str = "LSM_SIEVE_FAMILIES";

/// The most memory of a family beside its filters.
const MOST_BESIDE_FILTERS: u64 = 16 << 10;

/// The most memory of the filters of a family with a few keys.
const MOST_FILTERS: u64 = 16 << 10;

/// Keys of each family, so that each has a memtable and an entry in each filter.
const KEYS: u32 = 10;

#[test]
fn many_cfs_take_little_memory_beside_their_filters() {
    if allocated().is_none() {
        return skip("this C library does not tell what is allocated");
    }
    for kind in ["at rest", "fast"] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "resources::cf_memory::child", "--nocapture"])
            .env(CHILD, kind)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{kind}: {said}\n{complaint}");
        print!("{said}");
    }
}

/// The child half. Does nothing unless its parent started it.
#[test]
fn child() {
    if let Some(kind) = std::env::var_os(CHILD) {
        measure(kind == "fast");
    }
}

/// `speed_over_memory` is the setting of that name.
fn measure(speed_over_memory: bool) {
    let count: u64 = std::env::var(FAMILIES).map_or(500, |count| count.parse().unwrap());
    let home = tempfile::tempdir().unwrap();
    let names: Vec<_> = (0..count).map(|i| format!("family-{i}")).collect();
    let options = options();
    drop(DB::open_cf(&options, home.path(), &names).unwrap());

    let before = allocated().unwrap();
    let plain = DB::open_cf(&options, home.path(), &names).unwrap();
    for name in &names {
        let family = plain.cf_handle(name).unwrap();
        (0..KEYS).for_each(|key| plain.put_cf(&family, key.to_be_bytes(), b"value").unwrap());
    }
    let alone = allocated().unwrap() - before;
    drop(plain);

    let before = allocated().unwrap();
    let db = SieveDb::builder(home.path())
        .options(&options)
        .filters(&SieveOptions::default().speed_over_memory(speed_over_memory))
        .cfs(&names)
        .open()
        .unwrap();
    assert!(
        db.filters().wait_until_complete(PATIENCE) && db.filters().wait_for_maintenance(PATIENCE)
    );
    for name in &names {
        let family = db.cf_handle(name).unwrap();
        (0..KEYS).for_each(|key| db.put_cf(&family, key.to_be_bytes(), b"value").unwrap());
        assert!(db.filters().answer_cf(&family, b"absent").is_absent());
    }
    std::thread::sleep(Duration::from_millis(100));
    let filtered = allocated().unwrap() - before;
    let memory = db.filters().health().memory;
    let filters = memory.summary.to_bytes() + memory.segments.to_bytes();
    let overhead = memory.overhead.to_bytes();
    let beside = filtered - alone - filters as i64;
    println!(
        r#"{{"families":{count},"plain":{alone},"filtered":{filtered},"filters":{filters},"overhead":{overhead},"beside_filters_each":{}}}"#,
        beside / count as i64
    );
    assert!(beside <= (count * MOST_BESIDE_FILTERS) as i64, "{beside}");
    assert!(filters <= count * MOST_FILTERS, "{filters}");
    // All of it is reported.
    assert!(beside <= overhead as i64, "{beside} of {overhead}");
    assert!(overhead <= count * MOST_BESIDE_FILTERS, "{overhead}");
}

/// Small memtables, so that RocksDB's own memory varies little.
fn options() -> Options {
    let mut options = Options::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    options.set_write_buffer_size(64 << 10);
    options
}

/// Bytes that the process has allocated now.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn allocated() -> Option<i64> {
    // SAFETY: it has no preconditions.
    let info = unsafe { libc::mallinfo2() };
    Some((info.uordblks + info.hblkhd) as i64)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn allocated() -> Option<i64> {
    None
}
