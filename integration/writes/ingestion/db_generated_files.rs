//! Ingests an SST that a database wrote. RocksDB accepts only those of an `SstFileWriter` unless an
//! option says otherwise, and the binding has no method for that option.

#![expect(unsafe_code, reason = "calls of RocksDB's C interface")]

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::null_mut;

use librocksdb_sys as sys;
use lsm_sieve::raw_handle;
use rocksdb::{DB, DEFAULT_COLUMN_FAMILY_NAME, Options};

/// Returns RocksDB's error, if it refuses.
pub(super) fn ingest(options: &Options, folder: &Path, table: &Path) -> Result<(), String> {
    let path = CString::new(table.as_os_str().as_encoded_bytes()).expect("a path has no zero");
    let files = [path.as_ptr()];
    let mut error = null_mut();
    // SAFETY: makes an object, which is destroyed below.
    let settings = unsafe { sys::rocksdb_ingestexternalfileoptions_create() };
    // SAFETY: the settings live.
    unsafe { sys::rocksdb_ingestexternalfileoptions_set_allow_db_generated_files(settings, 1) };
    let cfs = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
    let engine = DB::open_cf_with_opts(options, folder, cfs).expect("opened");
    let db = raw_handle(&engine).expect("its handle").as_ptr();
    // SAFETY: engine, path and settings live through the call, which keeps none of them.
    unsafe {
        sys::rocksdb_ingest_external_file(
            db,
            files.as_ptr(),
            files.len(),
            settings,
            &raw mut error,
        );
    };
    // SAFETY: nothing holds the settings any more.
    unsafe { sys::rocksdb_ingestexternalfileoptions_destroy(settings) };
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: RocksDB has set it to a text that ends with a zero.
    let text = unsafe { CStr::from_ptr(error) };
    let said = text.to_string_lossy().into_owned();
    // SAFETY: the text is the caller's to free, and is not read again.
    unsafe { sys::rocksdb_free(error.cast()) };
    Err(said)
}
