//! The published traces, if they are present.

use std::path::PathBuf;

use super::requirements::skip;

/// Their folder; without one the test is skipped.
pub(crate) fn folder() -> Option<PathBuf> {
    let folder = std::env::var_os("LSM_SIEVE_DATA").map(PathBuf::from);
    if folder.is_none() {
        skip("LSM_SIEVE_DATA does not name a folder of traces");
    }
    folder
}
