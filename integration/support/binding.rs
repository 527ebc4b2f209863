//! What the supported bindings of RocksDB do differently, so that a test is written once.

#![expect(unsafe_code, reason = "calls of RocksDB's C interface")]

use std::ffi::{CStr, CString, c_char};

use librocksdb_sys as sys;
use lsm_sieve::{RocksDb, raw_handle, raw_options};
use rocksdb::{Error, Options, WriteBatch};

/// A batch as the binding's own methods take it: by value or by reference.
pub(crate) trait Given<'b> {
    fn given(batch: &'b mut WriteBatch) -> Self;
}

impl Given<'_> for WriteBatch {
    fn given(batch: &mut WriteBatch) -> Self {
        std::mem::take(batch)
    }
}

impl<'b> Given<'b> for &'b WriteBatch {
    fn given(batch: &'b mut WriteBatch) -> Self {
        batch
    }
}

pub(crate) fn given<'b, G: Given<'b>>(batch: &'b mut WriteBatch) -> G {
    G::given(batch)
}

/// What the binding returns for sizes of ranges.
pub(crate) trait Sizes {
    fn sizes(self) -> Vec<u64>;
}

impl Sizes for Vec<u64> {
    fn sizes(self) -> Vec<u64> {
        self
    }
}

impl Sizes for Result<Vec<u64>, Error> {
    fn sizes(self) -> Vec<u64> {
        self.expect("sizes are estimated")
    }
}

/// These options with changes in RocksDB's text form, which `rocksdb` 0.24 cannot parse.
pub(crate) fn options_by_text(options: &Options, text: &str) -> Result<Options, String> {
    let text = CString::new(text).expect("options have no zero");
    let parsed = Options::default();
    let (from, to) = (raw_options(options), raw_options(&parsed));
    checked(|error| {
        // SAFETY: the options and the text live through the call.
        unsafe { sys::rocksdb_get_options_from_string(from, text.as_ptr(), to, error) };
    })?;
    Ok(parsed)
}

/// `rocksdb` 0.24 cannot set it, and text does not either in RocksDB 10.
pub(crate) fn set_mempurge_threshold(options: &mut Options, threshold: f64) {
    let options = raw_options(options);
    // SAFETY: the options live through the call.
    unsafe { sys::rocksdb_options_set_experimental_mempurge_threshold(options, threshold) };
}

/// Switches the deletion of files that nothing needs.
pub(crate) fn delete_files(db: &RocksDb, on: bool) -> Result<(), String> {
    let db = raw_handle(db).expect("an open database").as_ptr();
    checked(|error| match on {
        // SAFETY: the database is open during the call.
        true => unsafe { sys::rocksdb_enable_file_deletions(db, error) },
        // SAFETY: as above.
        false => unsafe { sys::rocksdb_disable_file_deletions(db, error) },
    })
}

/// Deletes a key that was put once, for which batches of `rocksdb` 0.24 have no method.
#[cfg(rocksdb_10)]
pub(crate) fn single_delete(db: &RocksDb, cf: &impl rocksdb::AsColumnFamilyRef, key: &[u8]) {
    let db = raw_handle(db).expect("an open database").as_ptr();
    let (start, size) = (key.as_ptr().cast(), key.len());
    // SAFETY: makes an object, which is destroyed below.
    let options = unsafe { sys::rocksdb_writeoptions_create() };
    let deleted = checked(|error| {
        // SAFETY: database, column family, options and key live through the call.
        unsafe { sys::rocksdb_singledelete_cf(db, options, cf.inner(), start, size, error) };
    });
    // SAFETY: nothing holds them any more.
    unsafe { sys::rocksdb_writeoptions_destroy(options) };
    deleted.expect("deleted");
}

/// A call of RocksDB's C interface that stores its error.
fn checked(call: impl FnOnce(*mut *mut c_char)) -> Result<(), String> {
    let mut error = std::ptr::null_mut();
    call(&raw mut error);
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB's error is text that ends with a zero.
    let text = unsafe { CStr::from_ptr(error) };
    let text = text.to_string_lossy().into_owned();
    // SAFETY: the text is ours, and used no more.
    unsafe { sys::rocksdb_free(error.cast()) };
    Err(text)
}
