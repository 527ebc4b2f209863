//! Handles of column families.

use std::mem;
use std::sync::Arc;

use librocksdb_sys as sys;
use rocksdb::{AsColumnFamilyRef, BoundColumnFamily};

use crate::binding::RocksDb;

/// The id of a column family, the same for all its handles.
pub(crate) fn cf_id(cf: &impl AsColumnFamilyRef) -> u32 {
    // SAFETY: the handle is live while borrowed.
    unsafe { sys::rocksdb_column_family_handle_get_id(cf.inner()) }
}

/// A column family's handle that keeps its database open, so that it need not be looked up again.
///
/// It outlives the column family's removal: the column family's data stays readable through it.
pub(crate) struct CfHandle {
    /// Declared before `db`: a handle must be dropped before its database closes.
    bound: Arc<BoundColumnFamily<'static>>,
    db: Arc<RocksDb>,
}

impl CfHandle {
    /// The handle of the column family with this name, if there is one.
    pub(crate) fn new(db: &Arc<RocksDb>, name: &str) -> Option<Self> {
        let bound: Arc<BoundColumnFamily<'_>> = db.cf_handle(name)?;
        // SAFETY: only the lifetime changes. It stands for the database, which this struct keeps
        // open until after `bound` is dropped; and `bound` is never handed out.
        let bound = unsafe {
            mem::transmute::<Arc<BoundColumnFamily<'_>>, Arc<BoundColumnFamily<'static>>>(bound)
        };
        let db = Arc::clone(db);
        Some(Self { bound, db })
    }

    pub(crate) fn db(&self) -> &RocksDb {
        &self.db
    }
}

impl AsColumnFamilyRef for CfHandle {
    fn inner(&self) -> *mut sys::rocksdb_column_family_handle_t {
        self.bound.inner()
    }
}
