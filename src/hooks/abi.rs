//! What crosses between C++ and Rust: the types of `shim/abi.h`, the shim's functions, bytes, and
//! texts to free; and the guard against panics.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;

use librocksdb_sys::{
    rocksdb_column_family_handle_t, rocksdb_optimistictransactiondb_t, rocksdb_options_t,
    rocksdb_t, rocksdb_transaction_t, rocksdb_transactiondb_options_t, rocksdb_transactiondb_t,
};
use rocksdb::Error;

#[cfg(test)]
pub(super) mod panics;

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// RocksDB's `Slice`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Slice {
    start: *const u8,
    size: usize,
}

impl Slice {
    pub(super) fn of(bytes: &[u8]) -> Self {
        let (start, size) = (bytes.as_ptr(), bytes.len());
        Self { start, size }
    }

    /// Some bytes that begin nowhere.
    #[cfg(test)]
    pub(super) fn unreadable() -> Self {
        let start = std::ptr::null();
        Self { start, size: 3 }
    }

    /// # Safety
    /// The slice is empty, or its bytes are readable and stay unchanged for `'a`.
    pub(super) unsafe fn bytes<'a>(self) -> &'a [u8] {
        // SAFETY: promised by the caller.
        unsafe { array(self.start, self.size) }
    }
}

/// # Safety
/// `count` is 0, or `start` points to that many readable elements that stay unchanged for `'a`.
pub(super) unsafe fn array<'a, T>(start: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        return &[];
    }
    debug_assert!(!start.is_null());
    // SAFETY: promised by the caller.
    unsafe { slice::from_raw_parts(start, count) }
}

/// Runs what C++ has called; if it panics, returns what `otherwise` returns.
pub(super) fn guarded<R>(hook: impl FnOnce() -> R, otherwise: impl FnOnce() -> R) -> R {
    let hook = || {
        #[cfg(test)]
        panics::begin_hook();
        hook()
    };
    catch_unwind(AssertUnwindSafe(hook)).unwrap_or_else(|_| otherwise())
}

impl Found {
    /// Nothing, a value, or an error, which only the engine's caller learns.
    pub(super) fn result(self) -> Result<Option<()>, ()> {
        match self {
            Self::Value => Ok(Some(())),
            Self::Nothing => Ok(None),
            Self::Error => Err(()),
        }
    }
}

pub(super) fn take_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the shim returns null or a C string that it allocated.
    let owned = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: allocated by the shim and not used after this.
    unsafe { lsm_sieve_free(text) };
    Some(owned)
}

/// The error that RocksDB or the shim returned, if any.
pub(super) fn error(text: *mut c_char) -> Result<(), Error> {
    take_text(text).map_or(Ok(()), |message| Err(error_of(message)))
}

/// An error that `rocksdb` would make of this text, but has no constructor for.
pub(crate) fn error_of(message: String) -> Error {
    const { assert!(size_of::<String>() == size_of::<Error>()) };
    // SAFETY: `message: String` is its one field, which takes all of its bytes.
    unsafe { std::mem::transmute::<String, Error>(message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `rocksdb` reads the text, and frees it.
    #[test]
    fn a_text_becomes_an_error_of_its_kind() {
        let text = "Operation timed out: waiting for a lock";
        let error = error_of(text.to_owned());
        assert_eq!(error.kind(), rocksdb::ErrorKind::TimedOut);
        assert_eq!(error.clone().into_string(), text);
        drop(error);
    }
}
