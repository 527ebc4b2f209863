//! Transactions on a database that was opened without them.
//!
//! `rocksdb` begins transactions only on databases that it opened for them, and these have other
//! types than [`RocksDb`]. The shim creates RocksDB's object for such a database from the open one.
//! Its transactions are RocksDB's own, and get the type that `rocksdb` has for them.

use std::mem;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use librocksdb_sys as sys;
use rocksdb::{
    AsColumnFamilyRef, DBWithThreadMode, Error, OptimisticTransactionOptions, ThreadMode,
    Transaction, TransactionDBOptions, TransactionOptions, WriteBatchWithTransaction, WriteOptions,
};

use crate::binding::RocksDb;
use crate::hooks::abi::{self, Slice, error};
use crate::hooks::handle::Handle;

/// RocksDB's transaction on a [`RocksDb`].
type EngineTransaction<'db> = Transaction<'db, RocksDb>;

/// A type of `rocksdb` that is a pointer to RocksDB's object and nothing else.
///
/// # Safety
/// The type's only field that is not zero-sized must be such a pointer to a live `Raw`. This crate
/// is built with exactly the version of `rocksdb` whose types were checked.
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

// SAFETY: `inner: *mut rocksdb_transaction_options_t` is its one field.
unsafe impl Wrapper for TransactionOptions {
    type Raw = sys::rocksdb_transaction_options_t;
}

// SAFETY: `inner: *mut rocksdb_transactiondb_options_t` is its one field.
unsafe impl Wrapper for TransactionDBOptions {
    type Raw = sys::rocksdb_transactiondb_options_t;
}

// SAFETY: `inner: *mut rocksdb_writebatch_t` is its one field.
unsafe impl<const TRANSACTION: bool> Wrapper for WriteBatchWithTransaction<TRANSACTION> {
    type Raw = sys::rocksdb_writebatch_t;
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

/// Applies a batch of either kind to the database of this handle. To RocksDB they are the same;
/// `rocksdb` distinguishes them by the type of database that they are for.
pub(crate) fn write<T: ThreadMode, const TRANSACTION: bool>(
    _db: &DBWithThreadMode<T>,
    handle: &Handle,
    batch: &WriteBatchWithTransaction<TRANSACTION>,
    options: &WriteOptions,
) -> Result<(), Error> {
    let (batch, options, mut failure) = (raw(batch), raw(options), ptr::null_mut());
    // SAFETY: the batch and the options are live, and the handle is as long as its engine.
    unsafe { sys::rocksdb_write(handle.raw.as_ptr(), options, batch, &raw mut failure) };
    error(failure)
}

/// Begins a database's optimistic transactions.
pub(crate) struct Optimism {
    raw: NonNull<sys::rocksdb_optimistictransactiondb_t>,
    /// Stays open longer than `raw` is in use.
    _db: Arc<RocksDb>,
}

// SAFETY: RocksDB begins transactions from any thread, and several at a time.
unsafe impl Send for Optimism {}
// SAFETY: as above.
unsafe impl Sync for Optimism {}

impl Optimism {
    /// On a database and its handle.
    pub(crate) fn on(db: &Arc<RocksDb>, handle: &Handle) -> Self {
        // SAFETY: the handle is live as long as the database, which `_db` keeps open.
        let raw = unsafe { abi::lsm_sieve_transactions(handle.raw.as_ptr()) };
        Self {
            raw: NonNull::new(raw).expect("the shim returns no null"),
            _db: Arc::clone(db),
        }
    }

    /// Begins a transaction.
    pub(crate) fn begin(
        &self,
        writing: &WriteOptions,
        options: &OptimisticTransactionOptions,
    ) -> EngineTransaction<'_> {
        let (writing, options) = (raw(writing), raw(options));
        let new = ptr::null_mut();
        // SAFETY: all three are live, and RocksDB copies the options.
        let begun = unsafe {
            sys::rocksdb_optimistictransaction_begin(self.raw.as_ptr(), writing, options, new)
        };
        // SAFETY: it is exclusively ours, and it borrows what began it.
        unsafe { owned(begun) }
    }
}

impl Drop for Optimism {
    fn drop(&mut self) {
        // SAFETY: it came from the shim and is no longer used: its transactions borrow it.
        unsafe { abi::lsm_sieve_transactions_free(self.raw.as_ptr()) }
    }
}

/// Begins a database's transactions with locks.
pub(crate) struct Locks {
    raw: NonNull<sys::rocksdb_transactiondb_t>,
    /// Stays open longer than `raw` is in use.
    _db: Arc<RocksDb>,
}

// SAFETY: RocksDB begins transactions from any thread, and several at a time.
unsafe impl Send for Locks {}
// SAFETY: as above.
unsafe impl Sync for Locks {}

impl Locks {
    /// On a database and its handle, which must have the filters behind it. From here on each write
    /// through the handle locks its keys.
    pub(crate) fn on(
        db: &Arc<RocksDb>,
        handle: &Handle,
        options: &TransactionDBOptions,
    ) -> Result<Self, Error> {
        let (options, mut failure) = (raw(options), ptr::null_mut());
        // SAFETY: the options are live, and the handle is as long as its engine, which `_db`
        // keeps open.
        let raw = unsafe { abi::lsm_sieve_locks(options, handle.raw.as_ptr(), &raw mut failure) };
        error(failure)?;
        let raw = NonNull::new(raw).expect("the shim returns no null without an error");
        Ok(Self {
            raw,
            _db: Arc::clone(db),
        })
    }

    /// Begins a transaction.
    pub(crate) fn begin(
        &self,
        writing: &WriteOptions,
        options: &TransactionOptions,
    ) -> EngineTransaction<'_> {
        let (writing, options) = (raw(writing), raw(options));
        let new = ptr::null_mut();
        // SAFETY: all three are live, and RocksDB copies the options.
        let begun =
            unsafe { sys::rocksdb_transaction_begin(self.raw.as_ptr(), writing, options, new) };
        // SAFETY: it is exclusively ours, and it borrows what began it.
        unsafe { owned(begun) }
    }
}

impl Drop for Locks {
    fn drop(&mut self) {
        // SAFETY: it came from the shim and is no longer used: its transactions borrow it.
        unsafe { abi::lsm_sieve_locks_free(self.raw.as_ptr()) }
    }
}

/// A transaction in the type that frees it.
///
/// # Safety
/// It must be live and not owned elsewhere.
unsafe fn owned<'db>(begun: *mut sys::rocksdb_transaction_t) -> EngineTransaction<'db> {
    // SAFETY: the caller's promise.
    unsafe { mem::transmute::<*mut sys::rocksdb_transaction_t, EngineTransaction<'db>>(begun) }
}

/// Whether a transaction itself wrote to a key; in the default column family if none is given.
pub(crate) fn has_written(
    transaction: &EngineTransaction<'_>,
    cf: Option<&dyn AsColumnFamilyRef>,
    key: &[u8],
) -> bool {
    let cf = cf.map_or(ptr::null_mut(), AsColumnFamilyRef::inner);
    // SAFETY: all are live through the call.
    unsafe { abi::lsm_sieve_transaction_wrote(raw(transaction), cf, Slice::of(key)) }
}

/// With locks: keeps others from writing to this key until the transaction has ended. Otherwise
/// makes its commit fail if somebody else writes to the key from here on, or did since the
/// transaction's snapshot.
pub(crate) fn watch(
    transaction: &EngineTransaction<'_>,
    cf: Option<&dyn AsColumnFamilyRef>,
    key: &[u8],
    exclusive: bool,
) -> Result<(), Error> {
    let cf = cf.map_or(ptr::null_mut(), AsColumnFamilyRef::inner);
    let (transaction, key) = (raw(transaction), Slice::of(key));
    // SAFETY: as above; the transaction stays on its thread meanwhile, since it is not `Sync`.
    error(unsafe { abi::lsm_sieve_transaction_watch(transaction, cf, key, exclusive) })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An option that `rocksdb` sets through its field is read through the pointer taken from it.
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
