//! The options that a database was last opened with, as RocksDB stored them.

use std::ffi::c_void;
use std::path::Path;

use librocksdb_sys as sys;
use rocksdb::{Error, Options};

use crate::hooks::abi::{self, Slice, error, guarded};
use crate::hooks::options::AsOptions as _;

/// Replaces `options` by those of the database at this path, except for the environment. Returns
/// those of its column families, which share the block cache that was in `options`.
pub(crate) fn latest_options(
    options: &mut Options,
    path: &Path,
) -> Result<Vec<(String, Options)>, Error> {
    let path = path.as_os_str().as_encoded_bytes();
    let mut cfs: Vec<(String, Options)> = Vec::new();
    let context = (&raw mut cfs).cast();
    let raw = options.raw();
    // SAFETY: the options are live and exclusively ours;
    // `each_family` gets the vector that it expects, which nothing else touches during the call.
    let failure =
        unsafe { abi::lsm_sieve_latest_options(raw, Slice::of(path), context, each_family) };
    error(failure)?;
    Ok(cfs)
}

/// The options to be filled in for the column family with this name; null if there are none.
extern "C" fn each_family(context: *mut c_void, name: Slice) -> *mut sys::rocksdb_options_t {
    // SAFETY: `latest_options` passes its vector, which only this call touches now.
    let cfs = unsafe { &mut *context.cast::<Vec<(String, Options)>>() };
    // SAFETY: the shim's name lives through the call.
    let name = unsafe { name.bytes() };
    let fill = || {
        let (name, options) = (String::from_utf8_lossy(name), Options::default());
        // Used before the next call; until then the vector keeps the options.
        let raw = options.raw();
        cfs.push((name.into_owned(), options));
        raw
    };
    guarded(fill, std::ptr::null_mut)
}
