//! A database that was opened through RocksDB's C API, for programs in other languages.

use std::ptr::{self, NonNull};

use librocksdb_sys as sys;
use rocksdb::{Error, Options};

use crate::error::OpenError;
use crate::hooks::abi::{self, error};
use crate::hooks::bare_engine::BareEngine;
use crate::hooks::handle::{Handle, JustOpened};
use crate::hooks::options::AsOptions as _;
use crate::hooks::sieve::Sieve;

type RawCf = *mut sys::rocksdb_column_family_handle_t;

/// A handle of RocksDB's C API, and those of the database's column families. Dropped, it destroys
/// them and closes the database.
pub struct RawDb {
    handle: NonNull<sys::rocksdb_t>,
    cfs: Vec<RawCf>,
}

impl RawDb {
    /// Takes over the handles.
    ///
    /// # Safety
    /// They are of a database that was just opened by RocksDB's C API or with its layout, with the
    /// options that [`Builder::open_raw`](crate::Builder::open_raw) gave for it. Nobody else uses
    /// them. What the options borrow lives until the database is closed. A handle may be null.
    pub unsafe fn new(handle: NonNull<sys::rocksdb_t>, cfs: Vec<RawCf>) -> Self {
        Self { handle, cfs }
    }

    /// Gives the handles up: whoever has them destroys those of the column families, then closes the
    /// database.
    pub fn into_raw(mut self) -> (NonNull<sys::rocksdb_t>, Vec<RawCf>) {
        let cfs = std::mem::take(&mut self.cfs);
        (std::mem::ManuallyDrop::new(self).handle, cfs)
    }

    /// A copy of options of RocksDB's C API.
    ///
    /// # Safety
    /// The options are live. What they borrow, such as an environment or a comparator, outlives the
    /// copy and the databases that are opened with it.
    pub unsafe fn copy_of_options(raw: *const sys::rocksdb_options_t) -> Options {
        let options = Options::default();
        let copy = options.raw();
        // SAFETY: promised by the caller for `raw`; nothing else has the copy yet.
        unsafe { abi::lsm_sieve_copy_options(copy, raw) };
        options
    }
}

impl Drop for RawDb {
    fn drop(&mut self) {
        for &cf in self.cfs.iter().filter(|cf| !cf.is_null()) {
            // SAFETY: it is ours, and its database still open.
            unsafe { sys::rocksdb_column_family_handle_destroy(cf) };
        }
        // SAFETY: it is ours.
        unsafe { sys::rocksdb_close(self.handle.as_ptr()) };
    }
}

impl std::fmt::Debug for RawDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawDb").finish_non_exhaustive()
    }
}

impl JustOpened for RawDb {
    fn handle(&self) -> Result<Handle, OpenError> {
        let raw = self.handle;
        // SAFETY: the database is open.
        let cf = unsafe { sys::rocksdb_get_default_column_family_handle(raw.as_ptr()) };
        let engine = BareEngine::of_raw(cf);
        // SAFETY: just made, and not used any more.
        unsafe { sys::rocksdb_column_family_handle_destroy(cf) };
        Ok(Handle { raw, engine })
    }

    fn has(&self, key: &[u8], timestamp: &[u8]) -> Result<bool, Error> {
        let mut failure = ptr::null_mut();
        // SAFETY: no precondition.
        let options = unsafe { sys::rocksdb_readoptions_create() };
        if !timestamp.is_empty() {
            let (start, size) = (timestamp.as_ptr().cast(), timestamp.len());
            // SAFETY: the options are live, and the timestamp outlives them.
            unsafe { sys::rocksdb_readoptions_set_timestamp(options, start, size) };
        }
        let (start, size) = (key.as_ptr().cast(), key.len());
        let handle = self.handle.as_ptr();
        // SAFETY: the database is open, and the key has that length.
        let value =
            unsafe { sys::rocksdb_get_pinned(handle, options, start, size, &raw mut failure) };
        // SAFETY: just created.
        unsafe { sys::rocksdb_readoptions_destroy(options) };
        error(failure)?;
        let is_there = !value.is_null();
        // SAFETY: null, or just returned and used no more.
        unsafe { sys::rocksdb_pinnableslice_destroy(value) };
        Ok(is_there)
    }
}

impl Sieve {
    /// The filters behind a handle of RocksDB's C API. `None` if the database was opened without.
    ///
    /// # Safety
    /// The handle is of an open database, which is not closed while the result is used.
    pub unsafe fn of<'db>(handle: *mut sys::rocksdb_t) -> Option<&'db Self> {
        // SAFETY: promised by the caller.
        let behind = unsafe { abi::lsm_sieve_behind(handle) };
        // SAFETY: null, or the reference that `lsm_sieve_filter_handle` took over; it is released
        // when the database closes.
        unsafe { behind.cast::<Self>().as_ref() }
    }
}
