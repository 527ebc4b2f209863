//! The folder of a database as another process would find it.
//!
//! A copy of the folder of an *open* database is what a crash leaves: a log that ends where it was
//! written last, no clean close of the engine, no last save of the filters. (What a crash leaves of
//! unsynced writes is covered by the tests of `disk`.)

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

/// Copies a folder and all that is in it, as of one moment. If a file is created, removed or grows
/// meanwhile, the copy starts again.
pub(crate) fn copy(from: &Path, to: &Path) {
    loop {
        let before = names(from);
        let copied = copy_once(from, to);
        if copied.is_ok() && names(from) == before {
            return;
        }
        fs::remove_dir_all(to).unwrap();
    }
}

fn copy_once(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_once(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The names in a folder and the folders below it, each with the length of the file. RocksDB's own
/// event log is left out.
fn names(folder: &Path) -> BTreeMap<PathBuf, u64> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        match entry.metadata() {
            Ok(meta) if meta.is_dir() => found.extend(names(&entry.path())),
            Ok(meta) if entry.file_name() != "LOG" => _ = found.insert(entry.path(), meta.len()),
            _ => {}
        }
    }
    found
}

/// A folder, the folders below it, and every file in them with its content.
pub(crate) fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::from([(folder.to_owned(), Vec::new())]);
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        if entry.file_type().unwrap().is_dir() {
            found.extend(contents(&entry.path()));
        } else {
            found.insert(entry.path(), fs::read(entry.path()).unwrap());
        }
    }
    found
}

/// Distinguishes a rewritten file from an unchanged one: inode, length, time of the change.
pub(crate) type Stamp = (u64, u64, i64, i64);

/// The files of a folder with this suffix, with their stamps.
pub(crate) fn stamps(folder: &Path, suffix: &str) -> BTreeMap<OsString, Stamp> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let stamp = |entry: fs::DirEntry| {
        let meta = entry.metadata().unwrap();
        let stamp = (meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec());
        (entry.file_name(), stamp)
    };
    entries
        .filter(|entry| entry.file_name().to_string_lossy().ends_with(suffix))
        .map(stamp)
        .collect()
}

/// The sidecars of segment filters in a filter folder, sorted, without those of summary filters.
pub(crate) fn sidecars(filters: &Path) -> Vec<PathBuf> {
    let named = stamps(filters, ".sieve");
    let paths = named.keys().map(|name| filters.join(name));
    paths.filter(|path| !is_summary(path)).collect()
}

/// The sidecars of summary filters in a filter folder.
pub(crate) fn summaries(filters: &Path) -> Vec<PathBuf> {
    let named = stamps(filters, ".sieve");
    let paths = named.keys().map(|name| filters.join(name));
    paths.filter(|path| is_summary(path)).collect()
}

fn is_summary(path: &Path) -> bool {
    let name = path.file_name().unwrap().to_string_lossy();
    name.starts_with("summary-")
}
