//! The engine itself, past the filters, for as long as it is open.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Arc, RwLock};

use librocksdb_sys as sys;
use rocksdb::AsColumnFamilyRef;

use super::{DEFAULT_ID, take_text};
use crate::sync::unpoisoned;

unsafe extern "C" {
    pub(super) fn lsm_sieve_engine(cf: *mut sys::rocksdb_column_family_handle_t) -> *mut c_void;
    fn lsm_sieve_cf(engine: *mut c_void, id: u32) -> *mut sys::rocksdb_column_family_handle_t;
    fn lsm_sieve_cf_id(engine: *mut c_void, name: *const c_char, size: usize) -> i64;
    fn lsm_sieve_int_property(
        cf: *mut sys::rocksdb_column_family_handle_t,
        name: *const c_char,
        size: usize,
    ) -> u64;
    fn lsm_sieve_latest_sequence_number(cf: *mut sys::rocksdb_column_family_handle_t) -> u64;
    fn lsm_sieve_contains(
        cf: *mut sys::rocksdb_column_family_handle_t,
        key: *const u8,
        size: usize,
        most_skipped: u64,
    ) -> c_int;
    fn lsm_sieve_contains_prefix(
        cf: *mut sys::rocksdb_column_family_handle_t,
        start: *const u8,
        size: usize,
        same_prefix: bool,
        most_skipped: u64,
        contains: *mut bool,
    ) -> *mut c_char;
}

/// RocksDB's object for an open engine.
#[derive(Clone, Copy)]
struct Raw(NonNull<c_void>);

// SAFETY: RocksDB's engine is used from any thread.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

/// An engine that somebody else owns, who calls [`Base::close`] before it closes.
pub(crate) struct Base(RwLock<Option<Raw>>);

impl Base {
    /// The engine of a column family, whose handle must be live.
    pub(super) fn of_raw(cf: *mut sys::rocksdb_column_family_handle_t) -> Arc<Self> {
        // SAFETY: promised by the caller, which is in this folder.
        let engine = unsafe { lsm_sieve_engine(cf) };
        Arc::new(Self(RwLock::new(NonNull::new(engine).map(Raw))))
    }

    /// Ends the use of the engine; waits for those that use it.
    pub(crate) fn close(&self) {
        *unpoisoned(self.0.write()) = None;
    }

    /// Calls `act` with the column family of this id; `None` if there is none any more, or the
    /// engine is closed.
    pub(crate) fn with_cf<R>(&self, id: u32, act: impl FnOnce(&BaseCf) -> R) -> Option<R> {
        let open = unpoisoned(self.0.read());
        let engine = (*open)?;
        // SAFETY: the engine is open until `open` is dropped.
        let cf = unsafe { lsm_sieve_cf(engine.0.as_ptr(), id) };
        let cf = BaseCf(NonNull::new(cf)?);
        Some(act(&cf))
    }

    /// The id of the column family that has this name now.
    pub(crate) fn cf_id(&self, name: &str) -> Option<u32> {
        let open = unpoisoned(self.0.read());
        let engine = (*open)?;
        let start = name.as_ptr().cast();
        // SAFETY: the engine is open until `open` is dropped; the name has that length.
        let id = unsafe { lsm_sieve_cf_id(engine.0.as_ptr(), start, name.len()) };
        u32::try_from(id).ok()
    }

    /// A property of the default column family, or 0.
    pub(crate) fn int_property(&self, name: &str) -> u64 {
        let read = |cf: &BaseCf| cf.int_property(name);
        self.with_cf(DEFAULT_ID, read).unwrap_or_default()
    }

    /// The number of the latest write; 0 once the engine is closed.
    pub(crate) fn latest_sequence_number(&self) -> u64 {
        // SAFETY: the handle is live during the call, and so is its engine.
        let read = |cf: &BaseCf| unsafe { lsm_sieve_latest_sequence_number(cf.inner()) };
        self.with_cf(DEFAULT_ID, read).unwrap_or_default()
    }
}

/// A handle of a column family, within [`Base::with_cf`].
pub(crate) struct BaseCf(NonNull<sys::rocksdb_column_family_handle_t>);

impl BaseCf {
    /// A property of the column family, or 0.
    pub(crate) fn int_property(&self, name: &str) -> u64 {
        let start = name.as_ptr().cast();
        // SAFETY: the handle and its engine are live during the call; the name has that length.
        unsafe { lsm_sieve_int_property(self.inner(), start, name.len()) }
    }

    /// Whether the engine has a key; `None` if that cannot be read.
    pub(crate) fn contains(&self, key: &[u8], most_skipped: u64) -> Option<bool> {
        let (start, size) = (key.as_ptr(), key.len());
        // SAFETY: as above.
        match unsafe { lsm_sieve_contains(self.inner(), start, size, most_skipped) } {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Whether the engine of this column family has a key that starts so, past the filters.
/// `same_prefix`: RocksDB's extractor gives all these keys one prefix. Skips at most `most_skipped`
/// entries, or all if that is 0.
pub(crate) fn contains_prefix(
    cf: &impl AsColumnFamilyRef,
    start: &[u8],
    same_prefix: bool,
    most_skipped: u64,
) -> Result<bool, String> {
    let mut contains = false;
    let (at, size) = (start.as_ptr(), start.len());
    let contained = &raw mut contains;
    // SAFETY: the handle is live while borrowed, and so is its engine; `contained` is writable.
    let error = unsafe {
        lsm_sieve_contains_prefix(cf.inner(), at, size, same_prefix, most_skipped, contained)
    };
    take_text(error).map_or(Ok(contains), Err)
}

impl AsColumnFamilyRef for BaseCf {
    fn inner(&self) -> *mut sys::rocksdb_column_family_handle_t {
        self.0.as_ptr()
    }
}

impl Drop for BaseCf {
    fn drop(&mut self) {
        // SAFETY: `with_cf` owns it, and its engine is open.
        unsafe { sys::rocksdb_column_family_handle_destroy(self.0.as_ptr()) }
    }
}
