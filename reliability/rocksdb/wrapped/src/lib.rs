//! Puts filters in front of each database that a Rust program opens. The linker directs RocksDB's C
//! functions here (`--wrap`), which all bindings call, so the program needs no change.
//!
//! Filters are asked for by `LSM_SIEVE_FRONT=1` in the environment. A database that cannot have filters
//! opens without. The file that `LSM_SIEVE_FRONT_LOG` names gets a line for each open.
//!
//! Transactions have no filters: they open their engine by other functions.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::io::Write;
use std::ptr::{null, null_mut};

use librocksdb_sys::{
    rocksdb_column_family_handle_destroy, rocksdb_column_family_handle_t, rocksdb_free,
    rocksdb_options_t, rocksdb_t,
};
use lsm_sieve_c::{LSM_SIEVE_READ_ONLY, LSM_SIEVE_SECONDARY, LSM_SIEVE_WRITE, lsm_sieve_open_by};

type Cf = rocksdb_column_family_handle_t;
type Text = *const c_char;

thread_local! {
    /// Whether this thread opens a database with filters: the engine below is RocksDB's own.
    static OPENS_ENGINE: Cell<bool> = const { Cell::new(false) };
}

fn log(text: &str) {
    let Some(path) = std::env::var_os("LSM_SIEVE_FRONT_LOG") else {
        return;
    };
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .unwrap();
    file.write_all(format!("{text}\n").as_bytes()).unwrap();
}

/// RocksDB's own function with its arguments, but for those that hooks change.
type Real<'r> = &'r dyn Fn(
    *const rocksdb_options_t,
    *const *const rocksdb_options_t,
    *mut *mut Cf,
    *mut *mut c_char,
) -> *mut rocksdb_t;

unsafe extern "C" fn call_real(
    real: *mut c_void,
    options: *const rocksdb_options_t,
    cf_options: *const *const rocksdb_options_t,
    cfs: *mut *mut Cf,
    error: *mut *mut c_char,
) -> *mut rocksdb_t {
    // SAFETY: `open` passes it on.
    let real = unsafe { &*real.cast::<Real<'_>>() };
    real(options, cf_options, cfs, error)
}

/// # Safety
/// As for RocksDB's functions.
#[expect(clippy::too_many_arguments, reason = "as RocksDB's functions")]
unsafe fn open(
    access: u32,
    options: *const rocksdb_options_t,
    path: Text,
    n: c_int,
    names: *const Text,
    cf_options: *const *const rocksdb_options_t,
    cfs: *mut *mut Cf,
    error: *mut *mut c_char,
    real: Real<'_>,
) -> *mut rocksdb_t {
    let is_asked = std::env::var_os("LSM_SIEVE_FRONT").is_some_and(|asked| asked == "1");
    if !is_asked || OPENS_ENGINE.get() {
        return real(options, cf_options, cfs, error);
    }
    OPENS_ENGINE.set(true);
    let context = (&raw const real).cast_mut().cast();
    // SAFETY: promised by the caller.
    let db = unsafe {
        lsm_sieve_open_by(
            Some(call_real),
            context,
            access,
            options,
            null(),
            path,
            n,
            names,
            cf_options,
            cfs,
            error,
        )
    };
    OPENS_ENGINE.set(false);
    if !db.is_null() {
        log("filtered");
        return db;
    }
    // SAFETY: RocksDB's functions leave a text if they fail.
    let text = unsafe { CStr::from_ptr(*error) }
        .to_string_lossy()
        .into_owned();
    if !text.contains("cannot have filters") {
        log(&format!("not opened: {text}"));
        return db;
    }
    log(&format!("refused: {text}"));
    // SAFETY: as above.
    unsafe {
        rocksdb_free((*error).cast());
        *error = null_mut();
    }
    real(options, cf_options, cfs, error)
}

/// Opens the default column family by a function that opens several.
///
/// # Safety
/// As for RocksDB's functions.
unsafe fn open_default(
    options: *const rocksdb_options_t,
    open: impl FnOnce(*const Text, *const *const rocksdb_options_t, *mut *mut Cf) -> *mut rocksdb_t,
) -> *mut rocksdb_t {
    let name = c"default".as_ptr();
    let mut cf = null_mut();
    let db = open(&raw const name, &raw const options, &raw mut cf);
    if !db.is_null() {
        // SAFETY: the open has stored it.
        unsafe { rocksdb_column_family_handle_destroy(cf) };
    }
    db
}

/// A function that opens several column families: RocksDB's own, and what its callers get. They differ
/// in one parameter, after the path or after the handles.
macro_rules! wrap {
    ($access:ident: $real:ident, $wrapped:ident
        $(, path then $place:ident: $place_type:ty)? $(, cfs then $more:ident: $more_type:ty)?) => {
        unsafe extern "C" {
            fn $real(
                options: *const rocksdb_options_t,
                path: Text,
                $($place: $place_type,)?
                n: c_int,
                names: *const Text,
                cf_options: *const *const rocksdb_options_t,
                cfs: *mut *mut Cf,
                $($more: $more_type,)?
                error: *mut *mut c_char,
            ) -> *mut rocksdb_t;
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $wrapped(
            options: *const rocksdb_options_t,
            path: Text,
            $($place: $place_type,)?
            n: c_int,
            names: *const Text,
            cf_options: *const *const rocksdb_options_t,
            cfs: *mut *mut Cf,
            $($more: $more_type,)?
            error: *mut *mut c_char,
        ) -> *mut rocksdb_t {
            let real: Real<'_> = &|options, of_cfs, cfs, error| {
                // SAFETY: promised by the caller.
                unsafe { $real(options, path, $($place,)? n, names, of_cfs, cfs, $($more,)? error) }
            };
            // SAFETY: promised by the caller.
            unsafe { open($access, options, path, n, names, cf_options, cfs, error, real) }
        }
    };
}

wrap!(LSM_SIEVE_WRITE: __real_rocksdb_open_column_families, __wrap_rocksdb_open_column_families);
wrap!(LSM_SIEVE_WRITE:
    __real_rocksdb_open_column_families_with_ttl, __wrap_rocksdb_open_column_families_with_ttl,
    cfs then ttls: *const c_int);
wrap!(LSM_SIEVE_READ_ONLY:
    __real_rocksdb_open_for_read_only_column_families,
    __wrap_rocksdb_open_for_read_only_column_families,
    cfs then refuse_wal: u8);
wrap!(LSM_SIEVE_SECONDARY:
    __real_rocksdb_open_as_secondary_column_families,
    __wrap_rocksdb_open_as_secondary_column_families,
    path then secondary: Text);

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rocksdb_open(
    options: *const rocksdb_options_t,
    path: Text,
    error: *mut *mut c_char,
) -> *mut rocksdb_t {
    // SAFETY: promised by the caller.
    unsafe {
        open_default(options, |names, of_cfs, cfs| {
            __wrap_rocksdb_open_column_families(options, path, 1, names, of_cfs, cfs, error)
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rocksdb_open_with_ttl(
    options: *const rocksdb_options_t,
    path: Text,
    ttl: c_int,
    error: *mut *mut c_char,
) -> *mut rocksdb_t {
    // SAFETY: promised by the caller.
    unsafe {
        open_default(options, |names, of_cfs, cfs| {
            __wrap_rocksdb_open_column_families_with_ttl(
                options,
                path,
                1,
                names,
                of_cfs,
                cfs,
                &raw const ttl,
                error,
            )
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rocksdb_open_for_read_only(
    options: *const rocksdb_options_t,
    path: Text,
    refuse_wal: u8,
    error: *mut *mut c_char,
) -> *mut rocksdb_t {
    // SAFETY: promised by the caller.
    unsafe {
        open_default(options, |names, of_cfs, cfs| {
            __wrap_rocksdb_open_for_read_only_column_families(
                options, path, 1, names, of_cfs, cfs, refuse_wal, error,
            )
        })
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __wrap_rocksdb_open_as_secondary(
    options: *const rocksdb_options_t,
    path: Text,
    secondary: Text,
    error: *mut *mut c_char,
) -> *mut rocksdb_t {
    // SAFETY: promised by the caller.
    unsafe {
        open_default(options, |names, of_cfs, cfs| {
            __wrap_rocksdb_open_as_secondary_column_families(
                options, path, secondary, 1, names, of_cfs, cfs, error,
            )
        })
    }
}
