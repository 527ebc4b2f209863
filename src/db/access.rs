//! The trait through which `rocksdb` reads a snapshot's database: the lookups of a transaction's
//! snapshot check the filters too.

use librocksdb_sys as raw;
use rocksdb::{AsColumnFamilyRef, DBAccess, DBPinnableSlice, Error, ReadOptions};

use super::Transaction;

/// Reads use the inherent method of that name. Methods that hand out pointers use the engine's own.
impl DBAccess for Transaction<'_> {
    #[expect(unsafe_code, reason = "an unsafe function of the trait")]
    unsafe fn create_snapshot(&self) -> *const raw::rocksdb_snapshot_t {
        // SAFETY: as for the caller.
        unsafe { self.engine.create_snapshot() }
    }

    #[expect(unsafe_code, reason = "an unsafe function of the trait")]
    unsafe fn release_snapshot(&self, snapshot: *const raw::rocksdb_snapshot_t) {
        // SAFETY: as for the caller, who has it from the same engine.
        unsafe { self.engine.release_snapshot(snapshot) }
    }

    #[expect(unsafe_code, reason = "an unsafe function of the trait")]
    unsafe fn create_iterator(&self, options: &ReadOptions) -> *mut raw::rocksdb_iterator_t {
        // SAFETY: as for the caller.
        unsafe { self.engine.create_iterator(options) }
    }

    #[expect(unsafe_code, reason = "an unsafe function of the trait")]
    unsafe fn create_iterator_cf(
        &self,
        cf: *mut raw::rocksdb_column_family_handle_t,
        options: &ReadOptions,
    ) -> *mut raw::rocksdb_iterator_t {
        // SAFETY: as for the caller, whose handle is of the same engine.
        unsafe { self.engine.create_iterator_cf(cf, options) }
    }

    fn get_opt<K: AsRef<[u8]>>(
        &self,
        key: K,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.get_opt(key, options)
    }

    fn get_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        options: &ReadOptions,
    ) -> Result<Option<Vec<u8>>, Error> {
        self.get_cf_opt(cf, key, options)
    }

    fn get_pinned_opt<K: AsRef<[u8]>>(
        &self,
        key: K,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.get_pinned_opt(key, options)
    }

    fn get_pinned_cf_opt<K: AsRef<[u8]>>(
        &self,
        cf: &impl AsColumnFamilyRef,
        key: K,
        options: &ReadOptions,
    ) -> Result<Option<DBPinnableSlice<'_>>, Error> {
        self.get_pinned_cf_opt(cf, key, options)
    }

    fn multi_get_opt<K: AsRef<[u8]>, I: IntoIterator<Item = K>>(
        &self,
        keys: I,
        options: &ReadOptions,
    ) -> Vec<Result<Option<Vec<u8>>, Error>> {
        self.multi_get_opt(keys, options)
    }

    fn multi_get_cf_opt<'b, K, I, W>(
        &self,
        keys: I,
        options: &ReadOptions,
    ) -> Vec<Result<Option<Vec<u8>>, Error>>
    where
        K: AsRef<[u8]>,
        I: IntoIterator<Item = (&'b W, K)>,
        W: AsColumnFamilyRef + 'b,
    {
        self.multi_get_cf_opt(keys, options)
    }
}
