//! The opens. Each calls RocksDB's own, with copies of the caller's options that have hooks.

use std::ffi::{c_char, c_int, c_void};
use std::ptr::{self, NonNull};

use librocksdb_sys as sys;
use librocksdb_sys::{
    rocksdb_column_family_handle_t, rocksdb_optimistictransactiondb_t, rocksdb_options_t,
    rocksdb_t, rocksdb_transactiondb_options_t, rocksdb_transactiondb_t,
};
use lsm_sieve::raw_options;
use lsm_sieve::rocksdb::Options;
use lsm_sieve::{Builder, OpenError, RawDb, SieveDb, SieveOptions};

use crate::call::{answer, array, invalid, is_null, path, take_text, text};
use crate::kind::{Kind, locking, optimistic, plain, rocksdb_optimistictransactiondb_options_t};
use crate::settings::lsm_sieve_options_t;
use lsm_sieve_support::fault::fault;

/// What `lsm_sieve_open_by` opens a database for: reading and writing,
pub const LSM_SIEVE_WRITE: u32 = 0;
/// reading only,
pub const LSM_SIEVE_READ_ONLY: u32 = 1;
/// or following the process that writes.
pub const LSM_SIEVE_SECONDARY: u32 = 2;

/// Opens RocksDB with exactly these options, in the order of the names that `lsm_sieve_open_by` was
/// called with, and stores the handles of the column families. Returns NULL and a text that `malloc`
/// allocated if it cannot. Must not throw.
pub type lsm_sieve_opener_t = Option<
    unsafe extern "C" fn(
        context: *mut c_void,
        options: *const rocksdb_options_t,
        cf_options: *const *const rocksdb_options_t,
        handles: *mut *mut rocksdb_column_family_handle_t,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_t,
>;

/// The name and the options of a column family.
type Cf<'c> = (&'c str, *const rocksdb_options_t);

/// A database that is open, and the handles of its column families.
pub(crate) type Raw<D> = (NonNull<D>, Vec<*mut rocksdb_column_family_handle_t>);

/// What RocksDB's open gets and returns.
pub(crate) struct Call {
    pub(crate) options: *const rocksdb_options_t,
    pub(crate) cf_options: Vec<*const rocksdb_options_t>,
    pub(crate) handles: Vec<*mut rocksdb_column_family_handle_t>,
    pub(crate) error: *mut c_char,
}

/// The number of a caller's column families, their names and their options.
pub(crate) type Cfs = (c_int, *const *const c_char, *const *const rocksdb_options_t);

/// Why a database was not opened with filters.
pub(crate) enum Failure {
    /// RocksDB's own error.
    Engine(String),
    /// What is in the way of filters.
    Filters(String),
}

impl From<String> for Failure {
    fn from(reason: String) -> Self {
        Self::Filters(reason)
    }
}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Self {
        match error {
            OpenError::Engine { source, .. } => Self::Engine(source.into_string()),
            OpenError::Path { path, source } => {
                Self::Filters(format!("IO error: {source}: {}", path.display()))
            }
            other => Self::Filters(invalid(other)),
        }
    }
}

impl From<Failure> for String {
    fn from((Failure::Engine(text) | Failure::Filters(text)): Failure) -> Self {
        text
    }
}

/// [`open_as`] with the settings that the caller may have given.
///
/// # Safety
/// As [`open_as`].
unsafe fn open<D>(
    called: (Kind<D>, *const c_char),
    options: *const rocksdb_options_t,
    settings: *const lsm_sieve_options_t,
    cfs: Cfs,
    handles: *mut *mut rocksdb_column_family_handle_t,
    engine: impl FnOnce(&mut Call) -> *mut rocksdb_t,
) -> Result<*mut D, String> {
    // SAFETY: promised by the caller.
    let settings = unsafe { settings.as_ref() };
    let filters = settings.map_or_else(SieveOptions::default, |settings| settings.0.clone());
    // SAFETY: as above.
    unsafe { open_as(called, options, filters, cfs, handles, engine) }.map_err(String::from)
}

/// Opens a database through `engine`, with filters, makes of it what the caller wants, and stores its
/// handles.
///
/// # Safety
/// All pointers are null or what the header says. What the options borrow outlives the database.
/// `engine` opens the database at the path with the options and the access that it is given.
pub(crate) unsafe fn open_as<D>(
    (kind, path): (Kind<D>, *const c_char),
    options: *const rocksdb_options_t,
    filters: SieveOptions,
    cfs: Cfs,
    handles: *mut *mut rocksdb_column_family_handle_t,
    engine: impl FnOnce(&mut Call) -> *mut rocksdb_t,
) -> Result<*mut D, Failure> {
    if let Some(reason) = kind.refusal {
        return Err(Failure::Filters(reason));
    }
    let filters = match kind.isolation {
        Some(isolation) => filters.transactions(isolation),
        None => filters,
    };
    // SAFETY: promised by the caller, as for all that follows.
    let path = unsafe { self::path(path, "path") }?;
    // SAFETY: as above.
    let cfs = unsafe { named(cfs) }?;
    if handles.is_null() && !cfs.is_empty() {
        return Err(is_null("array of handles").into());
    }
    // SAFETY: as above.
    let options = unsafe { copied(options, "options object") }?;
    let mut copies = Vec::new();
    for &(name, of_cf) in &cfs {
        // SAFETY: as above.
        let copy = unsafe { copied(of_cf, "options object of a column family") }?;
        copies.push((name, copy));
    }
    let builder = SieveDb::builder(path).options(&options).filters(&filters);
    let builder = with_access(builder, kind.access)?.cfs_with_opts(copies);
    let opened = builder.open_raw(|options, hooked| {
        let of_cf = |(name, _): &Cf<'_>| {
            let (_, options) = hooked.iter().find(|(hooked, _)| hooked == name)?;
            Some(raw(options))
        };
        let mut call = Call {
            options: raw(options),
            cf_options: cfs.iter().filter_map(of_cf).collect(),
            handles: vec![ptr::null_mut(); cfs.len()],
            error: ptr::null_mut(),
        };
        let Some(handle) = NonNull::new(engine(&mut call)) else {
            // SAFETY: left by a function in RocksDB's manner.
            return Err(unsafe { take_text(call.error) });
        };
        let handles = call.handles.clone();
        // SAFETY: just opened, with the options that have hooks.
        let db = unsafe { RawDb::new(handle, call.handles) };
        let named = cfs.iter().map(|(name, _)| *name);
        for (name, handle) in named.zip(handles) {
            // SAFETY: null, or stored by the open.
            unsafe { check(handle, name) }?;
        }
        Ok(db)
    });
    let (db, opened) = (kind.made)(opened.map_err(Failure::from)?.into_raw())?;
    // SAFETY: the array has a place for each column family.
    unsafe { ptr::copy_nonoverlapping(opened.as_ptr(), handles, opened.len()) };
    Ok(db.as_ptr())
}

/// `rocksdb_open_column_families` of what the caller names.
fn by_rocksdb(
    (path, n, names): (*const c_char, c_int, *const *const c_char),
) -> impl FnOnce(&mut Call) -> *mut rocksdb_t {
    move |call| {
        let (of_cfs, handles) = (call.cf_options.as_ptr(), call.handles.as_mut_ptr());
        let (options, error) = (call.options, &raw mut call.error);
        // SAFETY: the arrays were checked, and have `n` elements.
        unsafe {
            sys::rocksdb_open_column_families(options, path, n, names, of_cfs, handles, error)
        }
    }
}

fn with_access(builder: Builder, access: u32) -> Result<Builder, String> {
    match access {
        LSM_SIEVE_WRITE => Ok(builder),
        // The log and the folder for messages are between the caller and RocksDB.
        LSM_SIEVE_READ_ONLY => Ok(builder.read_only(false)),
        LSM_SIEVE_SECONDARY => Ok(builder.secondary("")),
        _ => Err(invalid("there is no such access")),
    }
}

/// An error unless this is a handle of the column family of this name.
///
/// # Safety
/// Null or live.
unsafe fn check(handle: *mut rocksdb_column_family_handle_t, name: &str) -> Result<(), String> {
    fault!(AnyHandleReturned, return Ok(()));
    if handle.is_null() {
        let what = "did not store the handle of column family";
        return Err(invalid(format_args!("the opener {what} {name:?}")));
    }
    let mut size = 0;
    // SAFETY: promised by the caller.
    let start = unsafe { sys::rocksdb_column_family_handle_get_name(handle, &raw mut size) };
    // SAFETY: RocksDB allocated a text of this size.
    let found = unsafe { std::slice::from_raw_parts(start.cast::<u8>(), size) }.to_vec();
    // SAFETY: as above; it is used no more.
    unsafe { sys::rocksdb_free(start.cast()) };
    if found == name.as_bytes() {
        return Ok(());
    }
    let found = found.escape_ascii();
    Err(invalid(format_args!(
        "the opener stored the handle of column family \"{found}\" in the place of {name:?}"
    )))
}

/// For RocksDB, which copies the options while it opens.
fn raw(options: &Options) -> *const rocksdb_options_t {
    raw_options(options)
}

/// A copy of the caller's options: hooks go into copies.
///
/// # Safety
/// Null or live.
unsafe fn copied(options: *const rocksdb_options_t, what: &str) -> Result<Options, String> {
    if options.is_null() {
        return Err(is_null(what));
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { RawDb::copy_of_options(options) })
}

/// The column families that a caller names.
///
/// # Safety
/// Null, or arrays with an element for each, which live as long as the result.
unsafe fn named<'c>((n, names, cf_options): Cfs) -> Result<Vec<Cf<'c>>, String> {
    // SAFETY: promised by the caller.
    let names = unsafe { array(names, n, "array of names") }?;
    // SAFETY: as above.
    let cf_options = unsafe { array(cf_options, n, "array of options") }?;
    let cf = |(&name, &options): (&*const c_char, _)| {
        // SAFETY: null or a C string.
        Ok((unsafe { text(name, "name of a column family") }?, options))
    };
    names.iter().zip(cf_options).map(cf).collect()
}

/// `rocksdb_open` with filters. The options are only read, and copied. `settings` may be NULL: the
/// defaults. Close the database with `rocksdb_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_open(
    options: *const rocksdb_options_t,
    settings: *const lsm_sieve_options_t,
    path: *const c_char,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    let name = c"default".as_ptr();
    let mut handle = ptr::null_mut();
    let (names, of_cfs, handles) = (&raw const name, &raw const options, &raw mut handle);
    // SAFETY: by contract; the arrays have one element each.
    let db = unsafe {
        lsm_sieve_open_column_families(options, settings, path, 1, names, of_cfs, handles, errptr)
    };
    if !db.is_null() {
        // SAFETY: the open has stored it, and nobody else has it.
        unsafe { sys::rocksdb_column_family_handle_destroy(handle) };
    }
    db
}

/// `rocksdb_open_column_families` with filters. The caller destroys the handles before the close.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_open_column_families(
    options: *const rocksdb_options_t,
    settings: *const lsm_sieve_options_t,
    path: *const c_char,
    n: c_int,
    names: *const *const c_char,
    cf_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    let engine = by_rocksdb((path, n, names));
    // SAFETY: by contract.
    answer(errptr, ptr::null_mut(), || unsafe {
        let cfs = (n, names, cf_options);
        let kind = plain(LSM_SIEVE_WRITE);
        open((kind, path), options, settings, cfs, handles, engine)
    })
}

/// `rocksdb_open_for_read_only_column_families` with filters, which are only read too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_open_for_read_only_column_families(
    options: *const rocksdb_options_t,
    settings: *const lsm_sieve_options_t,
    path: *const c_char,
    n: c_int,
    names: *const *const c_char,
    cf_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    error_if_wal_file_exists: u8,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    let engine = |call: &mut Call| {
        let (of_cfs, handles) = (call.cf_options.as_ptr(), call.handles.as_mut_ptr());
        let (options, error) = (call.options, &raw mut call.error);
        let refuse_wal = error_if_wal_file_exists;
        // SAFETY: by contract; the arrays have `n` elements.
        unsafe {
            sys::rocksdb_open_for_read_only_column_families(
                options, path, n, names, of_cfs, handles, refuse_wal, error,
            )
        }
    };
    // SAFETY: by contract.
    answer(errptr, ptr::null_mut(), || unsafe {
        let cfs = (n, names, cf_options);
        let kind = plain(LSM_SIEVE_READ_ONLY);
        open((kind, path), options, settings, cfs, handles, engine)
    })
}

/// `rocksdb_open_as_secondary_column_families` with filters, which are continued in memory.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_open_as_secondary_column_families(
    options: *const rocksdb_options_t,
    settings: *const lsm_sieve_options_t,
    path: *const c_char,
    secondary_path: *const c_char,
    n: c_int,
    names: *const *const c_char,
    cf_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    let engine = |call: &mut Call| {
        let (of_cfs, handles) = (call.cf_options.as_ptr(), call.handles.as_mut_ptr());
        let (options, error) = (call.options, &raw mut call.error);
        // SAFETY: by contract; the arrays have `n` elements.
        unsafe {
            sys::rocksdb_open_as_secondary_column_families(
                options,
                path,
                secondary_path,
                n,
                names,
                of_cfs,
                handles,
                error,
            )
        }
    };
    answer(errptr, ptr::null_mut(), || {
        // SAFETY: by contract it is null or a C string.
        unsafe { self::path(secondary_path, "path of the secondary") }?;
        let (kind, cfs) = (plain(LSM_SIEVE_SECONDARY), (n, names, cf_options));
        // SAFETY: by contract.
        unsafe { open((kind, path), options, settings, cfs, handles, engine) }
    })
}

/// `rocksdb_open_column_families_with_ttl` with filters. Expired entries count as keys until RocksDB
/// drops them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_open_column_families_with_ttl(
    options: *const rocksdb_options_t,
    settings: *const lsm_sieve_options_t,
    path: *const c_char,
    n: c_int,
    names: *const *const c_char,
    cf_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    ttls: *const c_int,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    let engine = |call: &mut Call| {
        let (of_cfs, handles) = (call.cf_options.as_ptr(), call.handles.as_mut_ptr());
        let (options, error) = (call.options, &raw mut call.error);
        // SAFETY: by contract; the arrays have `n` elements.
        unsafe {
            sys::rocksdb_open_column_families_with_ttl(
                options, path, n, names, of_cfs, handles, ttls, error,
            )
        }
    };
    answer(errptr, ptr::null_mut(), || {
        // SAFETY: by contract.
        unsafe { array(ttls, n, "array of times to live") }?;
        let (kind, cfs) = (plain(LSM_SIEVE_WRITE), (n, names, cf_options));
        // SAFETY: by contract.
        unsafe { open((kind, path), options, settings, cfs, handles, engine) }
    })
}

/// `rocksdb_transactiondb_open_column_families` with filters. Close it with
/// `rocksdb_transactiondb_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_transactiondb_open_column_families(
    options: *const rocksdb_options_t,
    transactions: *const rocksdb_transactiondb_options_t,
    settings: *const lsm_sieve_options_t,
    path: *const c_char,
    n: c_int,
    names: *const *const c_char,
    cf_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_transactiondb_t {
    let (called, cfs) = ((locking(transactions), path), (n, names, cf_options));
    let engine = by_rocksdb((path, n, names));
    // SAFETY: by contract.
    answer(errptr, ptr::null_mut(), || unsafe {
        open(called, options, settings, cfs, handles, engine)
    })
}

/// `rocksdb_optimistictransactiondb_open_column_families` with filters. The options of transactions
/// may be NULL. Close it with `rocksdb_optimistictransactiondb_close`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_optimistictransactiondb_open_column_families(
    options: *const rocksdb_options_t,
    transactions: *const rocksdb_optimistictransactiondb_options_t,
    settings: *const lsm_sieve_options_t,
    path: *const c_char,
    n: c_int,
    names: *const *const c_char,
    cf_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_optimistictransactiondb_t {
    let (called, cfs) = ((optimistic(transactions), path), (n, names, cf_options));
    let engine = by_rocksdb((path, n, names));
    // SAFETY: by contract.
    answer(errptr, ptr::null_mut(), || unsafe {
        open(called, options, settings, cfs, handles, engine)
    })
}

/// Opens a database by whatever means: `opener` gets copies of the options that have hooks, and opens
/// RocksDB with them. `access` says for what. Transactions do not work this way.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_open_by(
    opener: lsm_sieve_opener_t,
    context: *mut c_void,
    access: u32,
    options: *const rocksdb_options_t,
    settings: *const lsm_sieve_options_t,
    path: *const c_char,
    n: c_int,
    names: *const *const c_char,
    cf_options: *const *const rocksdb_options_t,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut rocksdb_t {
    let (called, cfs) = ((plain(access), path), (n, names, cf_options));
    let opener = (opener, context);
    // SAFETY: by contract.
    unsafe { open_by(opener, called, options, settings, cfs, handles, errptr) }
}

/// Declares openers as [`lsm_sieve_open_by`] for the C++ functions of `open.cc`.
macro_rules! for_cpp {
    ($($name:ident($transactions:ty) -> $db:ty = $kind:expr;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            opener: lsm_sieve_opener_t,
            context: *mut c_void,
            transactions: *const $transactions,
            options: *const rocksdb_options_t,
            settings: *const lsm_sieve_options_t,
            path: *const c_char,
            n: c_int,
            names: *const *const c_char,
            cf_options: *const *const rocksdb_options_t,
            handles: *mut *mut rocksdb_column_family_handle_t,
            errptr: *mut *mut c_char,
        ) -> *mut $db {
            let (called, cfs) = (($kind(transactions), path), (n, names, cf_options));
            let opener = (opener, context);
            // SAFETY: by contract.
            unsafe { open_by(opener, called, options, settings, cfs, handles, errptr) }
        }
    )*};
}

for_cpp! {
    lsm_sieve_transactiondb_open_by(rocksdb_transactiondb_options_t) -> rocksdb_transactiondb_t
        = locking;
    lsm_sieve_optimistictransactiondb_open_by(rocksdb_optimistictransactiondb_options_t)
        -> rocksdb_optimistictransactiondb_t = optimistic;
}

/// # Safety
/// As [`open_as`].
unsafe fn open_by<D>(
    (opener, context): (lsm_sieve_opener_t, *mut c_void),
    called: (Kind<D>, *const c_char),
    options: *const rocksdb_options_t,
    settings: *const lsm_sieve_options_t,
    cfs: Cfs,
    handles: *mut *mut rocksdb_column_family_handle_t,
    errptr: *mut *mut c_char,
) -> *mut D {
    answer(errptr, ptr::null_mut(), || {
        let opener = opener.ok_or_else(|| is_null("opener"))?;
        let engine = |call: &mut Call| {
            let (of_cfs, handles) = (call.cf_options.as_ptr(), call.handles.as_mut_ptr());
            // SAFETY: by contract.
            unsafe { opener(context, call.options, of_cfs, handles, &raw mut call.error) }
        };
        // SAFETY: by contract.
        unsafe { open(called, options, settings, cfs, handles, engine) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The open that stands in place of RocksDB's opens without filters what filters cannot serve. What
    /// RocksDB refuses, it does not open a second time.
    #[test]
    fn an_error_of_rocksdb_is_no_reason_against_filters() {
        let home = tempfile::tempdir().unwrap();
        let options = Options::default();
        let missing = SieveDb::builder(home.path().join("missing"))
            .options(&options)
            .open();
        let failure = missing.map(drop).map_err(Failure::from).unwrap_err();
        assert!(matches!(failure, Failure::Engine(text) if text.contains("does not exist")));
    }
}
