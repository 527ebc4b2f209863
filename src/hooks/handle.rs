//! The C handle of a database (`rocksdb_t`): found, and proved to check the filters.
//!
//! `rocksdb` gives the handle of its `DB` only. Of a database in the other thread mode, it is found
//! among the words of the database object: the one pointer to a pointer to the engine, which a
//! column family's handle names as well.

use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;

use librocksdb_sys as sys;
use rocksdb::{
    AsColumnFamilyRef as _, DBWithThreadMode, DEFAULT_COLUMN_FAMILY_NAME, Error, MultiThreaded,
    ReadOptions, SingleThreaded, ThreadMode,
};

use crate::error::OpenError;
use crate::fault::fault;
use crate::hooks::abi;
use crate::hooks::bare_engine::{BareEngine, DEFAULT_ID, timestamp_size};
use crate::hooks::callbacks::HOOKS;
use crate::hooks::proof;
use crate::hooks::sieve::Sieve;

/// A database that was just opened, and that nobody else uses yet.
pub(crate) trait JustOpened {
    /// # Errors
    /// If the handle is not found.
    fn handle(&self) -> Result<Handle, OpenError>;

    /// Whether a key is in the default column family, read as the database's users read it: as of this
    /// time, unless it is empty.
    fn has(&self, key: &[u8], timestamp: &[u8]) -> Result<bool, Error>;
}

impl<T: ThreadMode + 'static> JustOpened for DBWithThreadMode<T> {
    fn handle(&self) -> Result<Handle, OpenError> {
        Handle::of(self)
    }

    fn has(&self, key: &[u8], timestamp: &[u8]) -> Result<bool, Error> {
        let mut options = ReadOptions::default();
        if !timestamp.is_empty() {
            options.set_timestamp(timestamp);
        }
        Ok(self.get_pinned_opt(key, &options)?.is_some())
    }
}

/// The handle of an open database.
pub(crate) struct Handle {
    pub(super) raw: NonNull<sys::rocksdb_t>,
    pub(crate) engine: Arc<BareEngine>,
}

// SAFETY: RocksDB's C API may be called from any thread.
unsafe impl Send for Handle {}
// SAFETY: as above.
unsafe impl Sync for Handle {}

impl Handle {
    fn of<T: ThreadMode + 'static>(db: &DBWithThreadMode<T>) -> Result<Self, OpenError> {
        let found = with_default_cf(db, |cf| (find_in(db, cf), BareEngine::of_raw(cf)));
        let (raw, engine) = found.ok_or(OpenError::Handle)?;
        let raw = raw.ok_or(OpenError::Handle)?;
        Ok(Self { raw, engine })
    }

    /// Puts the filters behind the handle, and proves that a read of this database checks them.
    ///
    /// # Errors
    /// If it does not.
    pub(crate) fn filter(&self, db: &impl JustOpened, sieve: Arc<Sieve>) -> Result<(), OpenError> {
        let reads_only = sieve.options.is_reader();
        let sieve: *mut abi::Sieve = Arc::into_raw(sieve).cast_mut().cast();
        fault!(HandleNotFiltered, {
            // SAFETY: just turned raw.
            drop(unsafe { Arc::from_raw(sieve.cast_const().cast::<Sieve>()) });
            return self.prove_reads_are_filtered(db);
        });
        // SAFETY: the handle is live, and no other thread has the database yet. The reference
        // moves to the shim, which releases it through `sieve_release`.
        unsafe {
            abi::lsm_sieve_filter_handle(self.raw.as_ptr(), reads_only, sieve, &raw const HOOKS)
        };
        self.prove_reads_are_filtered(db)
    }

    /// Proves that a read of the database passes through the filters. The engine is not read.
    fn prove_reads_are_filtered(&self, db: &impl JustOpened) -> Result<(), OpenError> {
        let timestamp_size = self.engine.with_cf(DEFAULT_ID, timestamp_size);
        let latest = vec![0xff; timestamp_size.ok_or(OpenError::Handle)?];
        let (found, asked) = proof::asks_filters(|| db.has(b"lsm-sieve", &latest));
        fault!(SilentHandlePassed, return Ok(()));
        match found {
            Ok(false) if asked => Ok(()),
            _ => Err(OpenError::HooksSilent {
                what: "the database behind the handle",
            }),
        }
    }
}

/// The one pointer in an object to a pointer to the engine of a column family, which must be live.
fn find_in<D>(
    object: &D,
    cf: *mut sys::rocksdb_column_family_handle_t,
) -> Option<NonNull<sys::rocksdb_t>> {
    let start = (&raw const *object).cast();
    // SAFETY: the object has that size and lives during the call, and so does the column family.
    NonNull::new(unsafe { abi::lsm_sieve_find_handle(start, size_of::<D>(), cf) })
}

/// The pointer to RocksDB's handle that a database has; `None` if it is not certain.
#[doc(hidden)]
pub fn raw_handle<T: ThreadMode + 'static>(
    db: &DBWithThreadMode<T>,
) -> Option<NonNull<sys::rocksdb_t>> {
    Some(Handle::of(db).ok()?.raw)
}

/// Calls `act` with a handle of the default column family, in either of the thread modes.
fn with_default_cf<T: ThreadMode + 'static, R>(
    db: &DBWithThreadMode<T>,
    act: impl FnOnce(*mut sys::rocksdb_column_family_handle_t) -> R,
) -> Option<R> {
    let db: &dyn Any = db;
    if let Some(db) = db.downcast_ref::<DBWithThreadMode<MultiThreaded>>() {
        let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME)?;
        return Some(act(cf.inner()));
    }
    let db = db.downcast_ref::<DBWithThreadMode<SingleThreaded>>()?;
    Some(act(db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME)?.inner()))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;

    use rocksdb::{Options, TransactionDBOptions};

    use super::*;
    use crate::hooks::options::AsOptions as _;
    use crate::math::Items;
    use crate::{Isolation, RocksDb, SieveDb, SieveOptions};

    fn open<T: ThreadMode>(path: &std::path::Path) -> DBWithThreadMode<T> {
        let mut options = Options::default();
        options.create_if_missing(true);
        let cfs = [(DEFAULT_COLUMN_FAMILY_NAME, options.clone())];
        DBWithThreadMode::open_cf_with_opts(&options, path, cfs).unwrap()
    }

    #[test]
    fn the_handle_is_found_in_both_thread_modes() {
        let home = tempfile::tempdir().unwrap();
        let single = open::<SingleThreaded>(&home.path().join("single"));
        let found = Handle::of(&single).unwrap().raw.as_ptr();
        let multi = open::<MultiThreaded>(&home.path().join("multi"));
        assert_ne!(Handle::of(&multi).unwrap().raw.as_ptr(), found);
    }

    /// An object of another layout, as of another version of `rocksdb`.
    #[test]
    fn a_handle_that_is_not_the_only_one_is_not_taken() {
        let home = tempfile::tempdir().unwrap();
        let db = open::<MultiThreaded>(home.path());
        let cf = db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
        let find = |words: [usize; 3]| find_in(&words, cf.inner());
        let handle = Handle::of(&db).unwrap().raw;
        // SAFETY: the handle is live, and its first word is the pointer to the engine.
        let engine = unsafe { handle.cast::<usize>().read() };
        let copy = Box::new(engine);
        let (one, other) = (handle.as_ptr() as usize, (&raw const *copy) as usize);
        // Words that are no pointers, or pointers to nothing.
        assert_eq!(find([one, 0, 40]), Some(handle));
        assert_eq!(find([usize::MAX - 7, one, 0x1000]), Some(handle));
        assert_eq!(find([0x1000, 7, engine]), None);
        assert_eq!(find([one, 0, other]), None);
    }

    /// Creates column families in one call, and passes each handle to `act`.
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one program of calls of the C API"
    )]
    fn create_at_once(
        db: &SieveDb,
        options: &Options,
        names: &[&CStr],
        act: impl Fn(*mut sys::rocksdb_t, *mut sys::rocksdb_column_family_handle_t),
    ) {
        let handle = Handle::of(&**db).unwrap().raw.as_ptr();
        let names: Vec<_> = names.iter().map(|name| name.as_ptr()).collect();
        let (mut number, mut error) = (0, std::ptr::null_mut());
        // SAFETY: the database, the options and the names live through the calls. What RocksDB
        // returns is freed once, the handles before the database closes.
        unsafe {
            let cfs = sys::rocksdb_create_column_families(
                handle,
                options.raw(),
                names.len().try_into().unwrap(),
                names.as_ptr(),
                &raw mut number,
                &raw mut error,
            );
            assert_eq!((number, error.is_null()), (names.len(), true));
            for &cf in std::slice::from_raw_parts(cfs, number) {
                act(handle, cf);
                sys::rocksdb_column_family_handle_destroy(cf);
            }
            sys::rocksdb_create_column_families_destroy(cfs);
        }
    }

    /// A write to a family without locks is an error.
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one program of calls of the C API"
    )]
    #[test]
    fn families_made_at_once_all_have_locks() {
        let home = tempfile::tempdir().unwrap();
        let locks = Isolation::locks(TransactionDBOptions::default());
        let sieve = SieveOptions::default().transactions(locks);
        let mut options = Options::default();
        options.create_if_missing(true);
        let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
        let names = [c"first", c"second", c"third", c"fourth"];
        create_at_once(&db, &options, &names, |handle, cf| {
            let (key, mut error) = (c"key".as_ptr(), std::ptr::null_mut());
            // SAFETY: the database and the column family are live, and the key has three bytes.
            unsafe {
                let write = sys::rocksdb_writeoptions_create();
                sys::rocksdb_put_cf(handle, write, cf, key, 3, key, 3, &raw mut error);
                sys::rocksdb_writeoptions_destroy(write);
                assert!(error.is_null(), "{:?}", CStr::from_ptr(error));
            }
        });
    }

    /// Maintenance, which would drop what exceeds the budget, has ended.
    #[test]
    fn families_made_at_once_share_what_the_budget_leaves() {
        let home = tempfile::tempdir().unwrap();
        let budget = 4 << 20;
        let sieve = SieveOptions::default();
        let sieve = sieve.memory_budget(budget);
        let sieve = sieve.expected_keys(Items::new(1_000_000));
        let mut options = Options::default();
        options.create_if_missing(true);
        let db = SieveDb::open(&options, &sieve, home.path()).unwrap();
        db.filters().stop_maintenance();
        let first = db.cf_filters().size_of_published(None);
        let names = [c"first", c"second", c"third", c"fourth"];
        create_at_once(&db, &options, &names, |_, _| {});
        let all = db.cf_filters().size_of_published(None);
        assert!(all.to_bytes() <= budget, "{all:?}");
        assert!(all.get() >= 2 * first.get(), "{first:?} and {all:?}");
    }

    #[test]
    fn a_database_whose_reads_bypass_the_filters_is_refused() {
        let home = tempfile::tempdir().unwrap();
        let db: RocksDb = open(&home.path().join("plain"));
        let handle = Handle::of(&db).unwrap();
        assert!(handle.prove_reads_are_filtered(&db).is_err());
        assert!(!proof::is_due());
        SieveDb::builder(home.path().join("filtered"))
            .open()
            .unwrap();
    }
}
