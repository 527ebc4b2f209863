//! RocksDB's own opens, for the file that stands in the place of RocksDB's: with filters, if the
//! environment asks for them.
//!
//! ```text
//! rocksdb_open                          of librocksdb.so: lsm_sieve_in_place_of_rocksdb_open
//!   '-> lsm_sieve_past_rocksdb_open     RocksDB's, which has this name there
//! ```
//!
//! `install` gives both their names, in all that it links: what calls RocksDB's open in this crate or
//! in `rocksdb` goes on to call RocksDB's.
//!
//! What cannot have filters is opened without, by RocksDB alone, and its log says so. Only a variable
//! of the environment that is wrong, and RocksDB's own error, fail an open.

use std::ffi::{CString, c_char, c_int, c_uchar};
use std::fs;
use std::ptr;

use librocksdb_sys as sys;
use librocksdb_sys::{
    rocksdb_column_family_handle_t, rocksdb_optimistictransactiondb_t, rocksdb_options_t,
    rocksdb_t, rocksdb_transactiondb_t,
};
use lsm_sieve::SieveOptions;

use crate::call::{self, answer, invalid, take_text};
use crate::environment;
use crate::kind::{Kind, Locks, Optimism, locking, optimistic, plain};
use crate::open::{
    Call, Failure, LSM_SIEVE_READ_ONLY, LSM_SIEVE_SECONDARY, LSM_SIEVE_WRITE, open_as,
};

type Options = *const rocksdb_options_t;
type Text = *const c_char;
type Names = *const *const c_char;
type CfOptions = *const *const rocksdb_options_t;
type Handles = *mut *mut rocksdb_column_family_handle_t;

/// Declares opens. `rocksdb_open_x(ARGUMENTS) -> DATABASE` has RocksDB's arguments but for the last,
/// the error. After `=` come its column families, its kind, and the function that opens it with hooks
/// in the options: its arguments between the options and the number of column families, and those
/// after their handles.
macro_rules! in_place_of {
    ($(
        $theirs:ident($options:ident: Options $(, $argument:ident: $type:ty)*) -> $db:ty
            = $cfs:expr, $kind:expr, $many:ident($path:ident $(, $before:expr)*; $($after:expr),*);
    )*) => {$(
        #[unsafe(export_name = concat!("lsm_sieve_in_place_of_", stringify!($theirs)))]
        unsafe extern "C" fn $theirs(
            $options: Options,
            $($argument: $type,)*
            errptr: *mut *mut c_char,
        ) -> *mut $db {
            // SAFETY: by contract, as for all that follows.
            let alone = |error| unsafe { sys::$theirs($options, $($argument,)* error) };
            let hooked = |call: &mut Call, n: c_int, names: Names| {
                let (of_cfs, handles) = (call.cf_options.as_ptr(), call.handles.as_mut_ptr());
                let (options, error) = (call.options, &raw mut call.error);
                // SAFETY: as above.
                unsafe {
                    sys::$many(
                        options, $path, $($before,)* n, names, of_cfs, handles, $($after,)* error,
                    )
                }
            };
            // SAFETY: as above.
            unsafe { open(($options, $path), $cfs, $kind, errptr, alone, hooked) }
        }
    )*};
}

in_place_of! {
    rocksdb_open(options: Options, path: Text) -> rocksdb_t
        = One, plain(LSM_SIEVE_WRITE), rocksdb_open_column_families(path;);
    rocksdb_open_column_families(
        options: Options, path: Text, n: c_int, names: Names, of_cfs: CfOptions, cfs: Handles
    ) -> rocksdb_t
        = Named(n, names, of_cfs, cfs), plain(LSM_SIEVE_WRITE), rocksdb_open_column_families(path;);

    rocksdb_open_with_ttl(options: Options, path: Text, ttl: c_int) -> rocksdb_t
        = One, plain(LSM_SIEVE_WRITE), rocksdb_open_column_families_with_ttl(path; &raw const ttl);
    rocksdb_open_column_families_with_ttl(
        options: Options, path: Text, n: c_int, names: Names, of_cfs: CfOptions, cfs: Handles,
        ttls: *const c_int
    ) -> rocksdb_t
        = Named(n, names, of_cfs, cfs), plain(LSM_SIEVE_WRITE),
        rocksdb_open_column_families_with_ttl(path; ttls);

    // RocksDB opens one column family beside a log, whatever `refuse_wal` says.
    rocksdb_open_for_read_only(options: Options, path: Text, refuse_wal: c_uchar) -> rocksdb_t
        = One, plain(LSM_SIEVE_READ_ONLY),
        rocksdb_open_for_read_only_column_families(path; 0);
    rocksdb_open_for_read_only_column_families(
        options: Options, path: Text, n: c_int, names: Names, of_cfs: CfOptions, cfs: Handles,
        refuse_wal: c_uchar
    ) -> rocksdb_t
        = Named(n, names, of_cfs, cfs), plain(LSM_SIEVE_READ_ONLY),
        rocksdb_open_for_read_only_column_families(path; refuse_wal);

    rocksdb_open_as_secondary(options: Options, path: Text, own_path: Text) -> rocksdb_t
        = One, plain(LSM_SIEVE_SECONDARY),
        rocksdb_open_as_secondary_column_families(path, own_path;);
    rocksdb_open_as_secondary_column_families(
        options: Options, path: Text, own_path: Text, n: c_int, names: Names, of_cfs: CfOptions,
        cfs: Handles
    ) -> rocksdb_t
        = Named(n, names, of_cfs, cfs), plain(LSM_SIEVE_SECONDARY),
        rocksdb_open_as_secondary_column_families(path, own_path;);

    rocksdb_open_and_trim_history(
        options: Options, path: Text, n: c_int, names: Names, of_cfs: CfOptions, cfs: Handles,
        until: *mut c_char, size: usize
    ) -> rocksdb_t
        = Named(n, names, of_cfs, cfs), trimming(),
        rocksdb_open_and_trim_history(path; until, size);

    rocksdb_transactiondb_open(options: Options, locks: Locks, path: Text) -> rocksdb_transactiondb_t
        = One, locking(locks), rocksdb_open_column_families(path;);
    rocksdb_transactiondb_open_column_families(
        options: Options, locks: Locks, path: Text, n: c_int, names: Names, of_cfs: CfOptions,
        cfs: Handles
    ) -> rocksdb_transactiondb_t
        = Named(n, names, of_cfs, cfs), locking(locks), rocksdb_open_column_families(path;);

    rocksdb_optimistictransactiondb_open(options: Options, path: Text)
    -> rocksdb_optimistictransactiondb_t
        = One, optimistic(ptr::null()), rocksdb_open_column_families(path;);
    rocksdb_optimistictransactiondb_open_column_families(
        options: Options, path: Text, n: c_int, names: Names, of_cfs: CfOptions, cfs: Handles
    ) -> rocksdb_optimistictransactiondb_t
        = Named(n, names, of_cfs, cfs), optimistic(ptr::null()), rocksdb_open_column_families(path;);
}

#[cfg(not(rocksdb_10))]
in_place_of! {
    rocksdb_optimistictransactiondb_open_with_otxn_db_options(
        options: Options, optimism: Optimism, path: Text
    ) -> rocksdb_optimistictransactiondb_t
        = One, optimistic(optimism), rocksdb_open_column_families(path;);
    rocksdb_optimistictransactiondb_open_column_families_with_otxn_db_options(
        options: Options, optimism: Optimism, path: Text, n: c_int, names: Names,
        of_cfs: CfOptions, cfs: Handles
    ) -> rocksdb_optimistictransactiondb_t
        = Named(n, names, of_cfs, cfs), optimistic(optimism), rocksdb_open_column_families(path;);
}

/// RocksDB's own destroys no folder of filters, nor the database's folder that this is in.
#[unsafe(export_name = "lsm_sieve_in_place_of_rocksdb_destroy_db")]
unsafe extern "C" fn rocksdb_destroy_db(options: Options, path: Text, errptr: *mut *mut c_char) {
    answer(errptr, (), || {
        let has_filters = environment::settings()?.is_some();
        let mut error = ptr::null_mut();
        // SAFETY: by contract.
        unsafe { sys::rocksdb_destroy_db(options, path, &raw mut error) };
        if !error.is_null() {
            // SAFETY: just stored.
            return Err(unsafe { take_text(error) });
        }
        if has_filters {
            // SAFETY: by contract.
            let path = unsafe { call::path(path, "path") }?;
            let filters = path.join(SieveOptions::FOLDER);
            // What stays costs space alone.
            if filters.join("identity").is_file() && fs::remove_dir_all(filters).is_ok() {
                let _ = fs::remove_dir(path);
            }
        }
        Ok(())
    });
}

/// The column families that an open names.
enum CfsOf {
    /// The default one, with the database's options. The caller gets no handle.
    One,
    Named(c_int, Names, CfOptions, Handles),
}
use CfsOf::{Named, One};

fn trimming() -> Kind<rocksdb_t> {
    let reason = "what trims the history of user-defined timestamps has no filters";
    Kind {
        refusal: Some(invalid(reason)),
        ..plain(LSM_SIEVE_WRITE)
    }
}

/// Opens a database as its caller called for it: through `hooked`, or if it has no filters through
/// `alone`.
///
/// # Safety
/// As for RocksDB's functions, which `alone` and `hooked` call.
unsafe fn open<D: Database>(
    called: (Options, Text),
    cfs: CfsOf,
    kind: Kind<D>,
    errptr: *mut *mut c_char,
    alone: impl FnOnce(*mut *mut c_char) -> *mut D,
    hooked: impl FnOnce(&mut Call, c_int, Names) -> *mut rocksdb_t,
) -> *mut D {
    answer(errptr, ptr::null_mut(), || {
        let Some(filters) = environment::settings()? else {
            return Ok(alone(errptr));
        };
        // SAFETY: promised by the caller.
        match unsafe { open_with_filters(called, cfs, kind, filters, hooked) } {
            Ok(db) => Ok(db),
            Err(Failure::Engine(text)) => Err(text),
            Err(Failure::Filters(reason)) => {
                let db = alone(errptr);
                if !db.is_null() {
                    // SAFETY: just opened.
                    unsafe { say_without(db, &reason) };
                }
                Ok(db)
            }
        }
    })
}

/// # Safety
/// As [`open`].
unsafe fn open_with_filters<D>(
    (options, path): (Options, Text),
    cfs: CfsOf,
    kind: Kind<D>,
    filters: SieveOptions,
    hooked: impl FnOnce(&mut Call, c_int, Names) -> *mut rocksdb_t,
) -> Result<*mut D, Failure> {
    let name = c"default".as_ptr();
    let mut unwanted = ptr::null_mut();
    let (n, names, of_cfs, handles) = match cfs {
        One => (1, &raw const name, &raw const options, &raw mut unwanted),
        Named(n, names, of_cfs, handles) => (n, names, of_cfs, handles),
    };
    let engine = |call: &mut Call| hooked(call, n, names);
    let cfs = (n, names, of_cfs);
    // SAFETY: promised by the caller.
    let db = unsafe { open_as((kind, path), options, filters, cfs, handles, engine) }?;
    if !unwanted.is_null() {
        // SAFETY: the open has stored it, and nobody else has it.
        unsafe { sys::rocksdb_column_family_handle_destroy(unwanted) };
    }
    Ok(db)
}

/// Says in the log of an open database, and aloud if the environment asks for it, why it has no
/// filters.
///
/// # Safety
/// It is open.
unsafe fn say_without<D: Database>(db: *mut D, reason: &str) {
    let reason = reason.strip_prefix("Invalid argument: ").unwrap_or(reason);
    let text = format!("opened without filters: {reason}");
    if environment::says_aloud().unwrap_or(false) {
        eprintln!("lsm-sieve: {text}");
    }
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // SAFETY: the database is open, and the text ends with 0.
    let warn = |base| unsafe { lsm_sieve_warn(base, text.as_ptr()) };
    // SAFETY: promised by the caller.
    unsafe { D::with_base(db, warn) };
}

/// What RocksDB's opens return.
trait Database {
    /// Calls `act` with a handle of the database that it is made of.
    ///
    /// # Safety
    /// It is open.
    unsafe fn with_base(this: *mut Self, act: impl FnOnce(*mut rocksdb_t));
}

impl Database for rocksdb_t {
    unsafe fn with_base(this: *mut Self, act: impl FnOnce(*mut rocksdb_t)) {
        act(this);
    }
}

impl Database for rocksdb_transactiondb_t {
    unsafe fn with_base(this: *mut Self, act: impl FnOnce(*mut rocksdb_t)) {
        // SAFETY: promised by the caller.
        let base = unsafe { sys::rocksdb_transactiondb_get_base_db(this) };
        act(base);
        // SAFETY: just made, and used no more.
        unsafe { sys::rocksdb_transactiondb_close_base_db(base) };
    }
}

impl Database for rocksdb_optimistictransactiondb_t {
    unsafe fn with_base(this: *mut Self, act: impl FnOnce(*mut rocksdb_t)) {
        // SAFETY: promised by the caller.
        let base = unsafe { sys::rocksdb_optimistictransactiondb_get_base_db(this) };
        act(base);
        // SAFETY: just made, and used no more.
        unsafe { sys::rocksdb_optimistictransactiondb_close_base_db(base) };
    }
}

// transactions.cc
unsafe extern "C" {
    fn lsm_sieve_warn(db: *mut rocksdb_t, text: *const c_char);
}
