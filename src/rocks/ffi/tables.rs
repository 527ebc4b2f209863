//! The live SSTs as RocksDB describes them, and the raw keys of one.

use std::ffi::{c_char, c_int, c_void};

use librocksdb_sys as sys;
use rocksdb::AsColumnFamilyRef;

use super::hooks::{bytes, guarded};
use super::take_text;
use crate::rocks::range::KeyRange;
use crate::segment::SegmentId;

/// The layout of `lsm_sieve_table` in `shim/tables.cc`.
#[repr(C)]
struct RawTable {
    path: *const u8,
    path_size: usize,
    segment: *const [u8; 16],
    unique: *const [u8; 16],
    entries: u64,
    level: c_int,
    smallest: *const u8,
    smallest_size: usize,
    largest: *const u8,
    largest_size: usize,
}

unsafe extern "C" {
    fn lsm_sieve_live_tables(
        cf_filter: *mut sys::rocksdb_column_family_handle_t,
        of_readers: bool,
        context: *mut c_void,
        each: extern "C" fn(*mut c_void, *const RawTable),
    ) -> *mut c_char;
    fn lsm_sieve_raw_keys(
        cf_filter: *mut sys::rocksdb_column_family_handle_t,
        path: *const u8,
        path_size: usize,
        context: *mut c_void,
        each: extern "C" fn(*mut c_void, *const u8, usize, bool) -> bool,
    ) -> *mut c_char;
}

/// A live SST as RocksDB describes it.
#[derive(Clone, Debug)]
pub(crate) struct LiveTable {
    /// Path of the file, for display and to tell SSTs apart.
    pub(crate) path: String,
    /// The path's bytes.
    file: Vec<u8>,
    /// The id that SST capture wrote into the SST's properties.
    pub(crate) captured: Option<SegmentId>,
    /// RocksDB's own unique id of the SST; `None` before RocksDB 6.24.
    pub(crate) unique: Option<SegmentId>,
    /// A substitute for a missing id while the database is open: see `instance_ids`.
    pub(crate) instance: Option<SegmentId>,
    /// Point entries, including old versions and tombstones.
    pub(crate) entries: u64,
    /// Level of the SST, if it is still in a level.
    pub(crate) level: Option<u32>,
    /// From its smallest user key to its largest, if known.
    pub(crate) range: Option<KeyRange>,
}

impl LiveTable {
    /// The id that binds a filter in memory to this SST.
    pub(crate) fn id(&self) -> Option<SegmentId> {
        self.lasting_id().or(self.instance)
    }

    /// The id that binds a filter to this SST forever: never its name, number or time.
    pub(crate) fn lasting_id(&self) -> Option<SegmentId> {
        self.captured.or(self.unique)
    }

    /// Whether the SST has no id.
    pub(crate) fn has_no_id(&self) -> bool {
        self.lasting_id().is_none()
    }

    /// An SST with this path and nothing else.
    #[cfg(test)]
    pub(crate) fn without_id(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            file: path.into(),
            captured: None,
            unique: None,
            instance: None,
            entries: 0,
            level: None,
            range: None,
        }
    }
}

/// All live SSTs of a column family, from its newest version, which readers are about to use.
/// Levels and ranges are read a little later.
pub(crate) fn live_tables(cf_filter: &impl AsColumnFamilyRef) -> Result<Vec<LiveTable>, String> {
    listed(cf_filter, false)
}

/// All SSTs that the readers of a secondary's column family use: the newest version may differ.
pub(crate) fn tables_of_readers(
    cf_filter: &impl AsColumnFamilyRef,
) -> Result<Vec<LiveTable>, String> {
    listed(cf_filter, true)
}

fn listed(cf_filter: &impl AsColumnFamilyRef, of_readers: bool) -> Result<Vec<LiveTable>, String> {
    let mut tables: Vec<LiveTable> = Vec::new();
    let context = (&raw mut tables).cast();
    // SAFETY: the handle is live while borrowed; `each_table` gets the vector it expects, which
    // nothing else touches during the call.
    let error =
        unsafe { lsm_sieve_live_tables(cf_filter.inner(), of_readers, context, each_table) };
    take_text(error).map_or(Ok(tables), Err)
}

/// Calls `each(key, is_deletion)` for every raw entry of a column family's SST, until it returns
/// false.
pub(crate) fn raw_keys(
    cf_filter: &impl AsColumnFamilyRef,
    table: &LiveTable,
    mut each: impl FnMut(&[u8], bool) -> bool,
) -> Result<(), String> {
    let mut visit: &mut dyn FnMut(&[u8], bool) -> bool = &mut each;
    let context = (&raw mut visit).cast();
    // SAFETY: the handle is live while borrowed; `each_key` gets the visitor it expects, which
    // nothing else touches during the call.
    let error = unsafe {
        let file = &table.file;
        lsm_sieve_raw_keys(
            cf_filter.inner(),
            file.as_ptr(),
            file.len(),
            context,
            each_key,
        )
    };
    take_text(error).map_or(Ok(()), Err)
}

extern "C" fn each_table(context: *mut c_void, table: *const RawTable) {
    // SAFETY: `live_tables` passes its vector, which only this call touches now.
    let tables = unsafe { &mut *context.cast::<Vec<LiveTable>>() };
    // SAFETY: the shim passes a table that lives through the call.
    let table = unsafe { &*table };
    // SAFETY: the shim's pointers are valid for their sizes through the call.
    let path = unsafe { bytes(table.path, table.path_size) };
    // SAFETY: null, or 16 readable bytes.
    let captured = unsafe { table.segment.as_ref() };
    // SAFETY: null, or 16 readable bytes.
    let unique = unsafe { table.unique.as_ref() };
    // SAFETY: as for `path`.
    let smallest = unsafe { bytes(table.smallest, table.smallest_size) };
    // SAFETY: as for `path`.
    let largest = unsafe { bytes(table.largest, table.largest_size) };
    let placed = !table.smallest.is_null();
    tables.push(LiveTable {
        path: String::from_utf8_lossy(path).into_owned(),
        file: path.to_owned(),
        captured: captured.copied().map(SegmentId::from_bytes),
        unique: unique.copied().map(SegmentId::from_bytes),
        instance: None,
        entries: table.entries,
        level: u32::try_from(table.level).ok(),
        range: placed.then(|| KeyRange::new(smallest, largest)),
    });
}

extern "C" fn each_key(context: *mut c_void, key: *const u8, size: usize, deletion: bool) -> bool {
    // SAFETY: `raw_keys` passes its visitor, which only this call touches now.
    let visit = unsafe { &mut *context.cast::<&mut dyn FnMut(&[u8], bool) -> bool>() };
    // SAFETY: the iterator's key outlives this call.
    let key = unsafe { bytes(key, size) };
    guarded(false, || visit(key, deletion))
}
