//! The folder of a database as another process would find it. (What a power cut leaves of unsynced
//! writes is covered by the tests of `disk`.)

#![expect(
    clippy::unwrap_used,
    reason = "a test fails by panicking, in its helpers as well"
)]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use super::crash_image;

/// See [`crash_image::copy`].
pub(crate) fn copy(from: &Path, to: &Path) {
    crash_image::copy(from, to).unwrap();
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
