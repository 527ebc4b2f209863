//! Transactions on an engine that was opened as a plain database.
//!
//! `rocksdb` begins transactions only on databases that it opened for them, which are of another type
//! than [`Engine`]. The shim makes RocksDB's object for such a database from the one that is open; its
//! transactions are RocksDB's own, and get the type that `rocksdb` has for them.

use std::ffi::c_char;
use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use librocksdb_sys as sys;
use rocksdb::{
    AsColumnFamilyRef, DEFAULT_COLUMN_FAMILY_NAME, OptimisticTransactionOptions, Transaction,
    WriteOptions,
};

use super::Engine;

unsafe extern "C" {
    fn lsm_sieve_transactions(
        column: *mut sys::rocksdb_column_family_handle_t,
    ) -> *mut sys::rocksdb_optimistictransactiondb_t;
    fn lsm_sieve_transactions_free(transactions: *mut sys::rocksdb_optimistictransactiondb_t);
    fn lsm_sieve_transaction_wrote(
        transaction: *mut sys::rocksdb_transaction_t,
        column: *mut sys::rocksdb_column_family_handle_t,
        key: *const c_char,
        size: usize,
    ) -> bool;
    fn lsm_sieve_transaction_watch(
        transaction: *mut sys::rocksdb_transaction_t,
        column: *mut sys::rocksdb_column_family_handle_t,
        key: *const c_char,
        size: usize,
        exclusive: bool,
    );
}

/// RocksDB's transaction on an [`Engine`].
type EngineTransaction<'db> = Transaction<'db, Engine>;

/// A type of `rocksdb` that is a pointer to RocksDB's object and nothing else.
///
/// # Safety
/// The type's only field that takes room must be such a pointer to a live `Raw`. This crate is built with
/// exactly the version of `rocksdb` whose types were looked at.
unsafe trait Wrapper: Sized {
    type Raw;
}

// SAFETY: `inner: *mut rocksdb_writeoptions_t` is its one field.
unsafe impl Wrapper for WriteOptions {
    type Raw = sys::rocksdb_writeoptions_t;
}

// SAFETY: `inner: *mut rocksdb_optimistictransaction_options_t` is its one field.
unsafe impl Wrapper for OptimisticTransactionOptions {
    type Raw = sys::rocksdb_optimistictransaction_options_t;
}

// SAFETY: it is `inner: *mut rocksdb_transaction_t` and a marker of no size.
unsafe impl Wrapper for EngineTransaction<'_> {
    type Raw = sys::rocksdb_transaction_t;
}

fn raw<W: Wrapper>(wrapper: &W) -> *mut W::Raw {
    const { assert!(size_of::<W>() == size_of::<*mut W::Raw>()) };
    // SAFETY: the pointer takes all of the wrapper's bytes, as it says and as its size confirms.
    unsafe { mem::transmute_copy(wrapper) }
}

/// What begins an engine's transactions.
pub(crate) struct Transactions {
    raw: NonNull<sys::rocksdb_optimistictransactiondb_t>,
    /// Open for longer than `raw`.
    _engine: Arc<Engine>,
}

// SAFETY: RocksDB begins transactions from any thread, and several at a time.
unsafe impl Send for Transactions {}
// SAFETY: as above.
unsafe impl Sync for Transactions {}

impl Transactions {
    /// # Panics
    /// When the engine has no default column family, which every database has.
    pub(crate) fn on(engine: &Arc<Engine>) -> Self {
        let column = engine.cf_handle(DEFAULT_COLUMN_FAMILY_NAME);
        let column = column.expect("every database has it");
        // SAFETY: the handle is live while borrowed, and so is its engine, which `_engine` keeps open.
        let raw = unsafe { lsm_sieve_transactions(column.inner()) };
        Self {
            raw: NonNull::new(raw).expect("the shim returns no null"),
            _engine: Arc::clone(engine),
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(
        &self,
        writing: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> EngineTransaction<'_> {
        let (writing, options) = (raw(writing), raw(options));
        // SAFETY: all three are live, and RocksDB copies the options.
        let begun = unsafe {
            sys::rocksdb_optimistictransaction_begin(
                self.raw.as_ptr(),
                writing,
                options,
                ptr::null_mut(),
            )
        };
        // SAFETY: a transaction that nobody else has, in the type that frees it; it borrows what began it.
        unsafe { mem::transmute::<*mut sys::rocksdb_transaction_t, EngineTransaction<'_>>(begun) }
    }
}

impl Drop for Transactions {
    fn drop(&mut self) {
        // SAFETY: it came from the shim and is used no more: its transactions borrow it.
        unsafe { lsm_sieve_transactions_free(self.raw.as_ptr()) }
    }
}

/// Whether a transaction itself wrote to a key; of the default column family, where none is given.
pub(crate) fn has_written(
    transaction: &EngineTransaction<'_>,
    column: Option<&dyn AsColumnFamilyRef>,
    key: &[u8],
) -> bool {
    let column = column.map_or(ptr::null_mut(), AsColumnFamilyRef::inner);
    let start = key.as_ptr().cast();
    // SAFETY: all are live through the call, and the key is so long.
    unsafe { lsm_sieve_transaction_wrote(raw(transaction), column, start, key.len()) }
}

/// Has a transaction's commit fail if somebody else writes to this key from here on, or did since the
/// transaction's snapshot.
pub(crate) fn watch(
    transaction: &EngineTransaction<'_>,
    column: Option<&dyn AsColumnFamilyRef>,
    key: &[u8],
    exclusive: bool,
) {
    let column = column.map_or(ptr::null_mut(), AsColumnFamilyRef::inner);
    let start = key.as_ptr().cast();
    // SAFETY: as above; the transaction stays on its thread meanwhile, since it is not `Sync`.
    unsafe { lsm_sieve_transaction_watch(raw(transaction), column, start, key.len(), exclusive) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What `rocksdb` sets through its field is read through the pointer that was taken for it.
    #[test]
    fn options_are_the_pointers_that_they_are_taken_for() {
        for on in [false, true] {
            let mut writing = WriteOptions::default();
            writing.set_sync(on);
            // SAFETY: the options are live.
            let sync = unsafe { sys::rocksdb_writeoptions_get_sync(raw(&writing)) };
            assert_eq!(sync != 0, on);
        }
    }
}
