//! What a database is opened for, and what becomes of it when it has its filters: of one with
//! transactions, what `transactions.cc` puts over it.

use std::ffi::{CStr, c_char};
use std::ptr::{self, NonNull};

use librocksdb_sys::{
    rocksdb_column_family_handle_t, rocksdb_optimistictransactiondb_t, rocksdb_t,
    rocksdb_transactiondb_options_t, rocksdb_transactiondb_t,
};
use lsm_sieve::rocksdb::TransactionDBOptions;
use lsm_sieve::{Isolation, RawDb};
use lsm_sieve_support::fault::fault;

use crate::call::{invalid, is_null, take_text};
use crate::open::{Failure, LSM_SIEVE_WRITE, Raw};

#[cfg(not(rocksdb_10))]
pub(crate) use librocksdb_sys::rocksdb_optimistictransactiondb_options_t;

/// The C interface of RocksDB 10 has none.
///
/// cbindgen:ignore
#[cfg(rocksdb_10)]
#[expect(
    non_camel_case_types,
    reason = "as in the C interface of later versions"
)]
pub(crate) enum rocksdb_optimistictransactiondb_options_t {}

pub(crate) type Locks = *const rocksdb_transactiondb_options_t;
pub(crate) type Optimism = *const rocksdb_optimistictransactiondb_options_t;

/// What a database of the caller's type `D` is opened for.
pub(crate) struct Kind<D> {
    pub(crate) access: u32,
    pub(crate) isolation: Option<Isolation>,
    /// Why it has no filters, whatever its options.
    pub(crate) refusal: Option<String>,
    pub(crate) made: Made<D>,
}

/// Makes what the caller gets of a database that has its filters.
type Made<D> = Box<dyn FnOnce(Raw<rocksdb_t>) -> Result<Raw<D>, Failure>>;

/// RocksDB without transactions.
pub(crate) fn plain(access: u32) -> Kind<rocksdb_t> {
    Kind {
        access,
        isolation: None,
        refusal: None,
        made: Box::new(Ok),
    }
}

/// A database whose transactions lock their keys.
pub(crate) fn locking(options: Locks) -> Kind<rocksdb_transactiondb_t> {
    let made = move |(db, cfs): Raw<rocksdb_t>| {
        // SAFETY: the database is open.
        let mut has_prepared = unsafe { lsm_sieve_has_prepared(db.as_ptr()) };
        fault!(PreparedFiltered, has_prepared = false);
        if has_prepared {
            // SAFETY: just opened, and used no more.
            drop(unsafe { RawDb::new(db, cfs) });
            let reason = "transactions were prepared, and neither committed nor rolled back; do one or \
                          the other in a database without filters";
            return Err(Failure::Filters(invalid(reason)));
        }
        let mut error = ptr::null_mut();
        let (all, n) = (cfs.as_ptr(), cfs.len());
        // SAFETY: the options are the caller's; it takes over the database, on an error with all handles.
        let made = unsafe { lsm_sieve_with_locks(db.as_ptr(), options, all, n, &raw mut error) };
        match NonNull::new(made) {
            Some(made) => Ok((made, cfs)),
            // SAFETY: just stored.
            None => Err(Failure::Engine(unsafe { take_text(error) })),
        }
    };
    let refusal = match options.is_null() {
        true => Some(is_null("options object of transactions")),
        // SAFETY: the options are the caller's.
        false => unsafe { refusal_of(options) },
    };
    Kind {
        access: LSM_SIEVE_WRITE,
        isolation: Some(Isolation::locks(TransactionDBOptions::default())),
        refusal,
        made: Box::new(made),
    }
}

/// # Safety
/// The options live.
unsafe fn refusal_of(options: Locks) -> Option<String> {
    // SAFETY: promised by the caller.
    let reason = unsafe { lsm_sieve_locks_refusal(options) };
    // SAFETY: null, or a text that ends with 0 and stays.
    let reason = (!reason.is_null()).then(|| unsafe { CStr::from_ptr(reason) });
    reason.map(|reason| invalid(reason.to_string_lossy()))
}

/// A database with optimistic transactions. `options` may be null.
pub(crate) fn optimistic(options: Optimism) -> Kind<rocksdb_optimistictransactiondb_t> {
    let made = move |(db, cfs): Raw<rocksdb_t>| {
        // SAFETY: the options are the caller's, or null; it takes over the database.
        let made = unsafe { lsm_sieve_with_optimism(db.as_ptr(), options) };
        Ok((NonNull::new(made).expect("it returns no null"), cfs))
    };
    Kind {
        access: LSM_SIEVE_WRITE,
        isolation: Some(Isolation::Optimistic),
        refusal: None,
        made: Box::new(made),
    }
}

// transactions.cc
unsafe extern "C" {
    fn lsm_sieve_locks_refusal(options: Locks) -> *const c_char;
    fn lsm_sieve_has_prepared(db: *mut rocksdb_t) -> bool;
    fn lsm_sieve_with_locks(
        db: *mut rocksdb_t,
        options: Locks,
        cfs: *const *mut rocksdb_column_family_handle_t,
        n: usize,
        errptr: *mut *mut c_char,
    ) -> *mut rocksdb_transactiondb_t;
    fn lsm_sieve_with_optimism(
        db: *mut rocksdb_t,
        options: Optimism,
    ) -> *mut rocksdb_optimistictransactiondb_t;
}
