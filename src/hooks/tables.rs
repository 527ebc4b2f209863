//! The live SSTs as RocksDB describes them, and the raw keys of one, and of the memtables.

use std::ffi::{c_char, c_void};

use rocksdb::AsColumnFamilyRef;

use lsm_sieve_front::engine::LiveSegment;
use lsm_sieve_front::key_range::KeyRange;
use lsm_sieve_front::segment::SegmentId;

use crate::fault::fault;
use crate::hooks::abi::{self, Slice, Table, guarded, take_text};

/// All live SSTs of a column family, from its newest version, which readers are about to use.
/// Levels and ranges are read a little later.
pub(crate) fn live_tables(cf: &impl AsColumnFamilyRef) -> Result<Vec<LiveSegment>, String> {
    listed(cf, false)
}

/// All SSTs that the readers of a secondary's column family use: the newest version may differ.
pub(crate) fn tables_of_readers(cf: &impl AsColumnFamilyRef) -> Result<Vec<LiveSegment>, String> {
    listed(cf, true)
}

fn listed(cf: &impl AsColumnFamilyRef, of_readers: bool) -> Result<Vec<LiveSegment>, String> {
    let mut tables: Vec<LiveSegment> = Vec::new();
    let context = (&raw mut tables).cast();
    // SAFETY: the handle is live while borrowed; `each_table` gets the vector it expects, which
    // nothing else touches during the call.
    let error = unsafe { abi::lsm_sieve_live_tables(cf.inner(), of_readers, context, each_table) };
    take_text(error).map_or(Ok(tables), Err)
}

/// Calls `each(key, is_deletion)` for every raw entry of a column family's SST, until it returns
/// false.
pub(crate) fn raw_keys(
    cf: &impl AsColumnFamilyRef,
    table: &LiveSegment,
    each: &mut dyn FnMut(&[u8], bool) -> bool,
) -> Result<(), String> {
    let file = Slice::of(&table.file);
    Visitor::visit_by(each, |context| {
        // SAFETY: the handle is live while borrowed; `each_key` gets the visitor it expects, which
        // nothing else touches during the call.
        unsafe { abi::lsm_sieve_raw_keys(cf.inner(), file, context, each_key) }
    })
}

/// Calls `each(key, is_deletion)` for every raw entry of a column family's memtables that are in no
/// SST yet, until it returns false. Nobody waits for it.
pub(crate) fn memtable_keys(
    cf: &impl AsColumnFamilyRef,
    each: &mut dyn FnMut(&[u8], bool) -> bool,
) -> Result<(), String> {
    Visitor::visit_by(each, |context| {
        // SAFETY: the handle is live while borrowed, and so is its engine; `each_key` gets the
        // visitor it expects, which nothing else touches during the call.
        unsafe { abi::lsm_sieve_memtable_keys(cf.inner(), context, each_key) }
    })
}

/// What gets the keys that the shim reads.
struct Visitor<'v> {
    each: &'v mut dyn FnMut(&[u8], bool) -> bool,
    has_panicked: bool,
}

impl Visitor<'_> {
    /// Calls `read` with a pointer to a visitor. A panic of `each` stops the reading, and the keys
    /// that were not read must not be taken for none (H70).
    fn visit_by(
        each: &mut dyn FnMut(&[u8], bool) -> bool,
        read: impl FnOnce(*mut c_void) -> *mut c_char,
    ) -> Result<(), String> {
        let mut visitor = Visitor {
            each,
            has_panicked: false,
        };
        let error = read((&raw mut visitor).cast());
        fault!(ReaderPanicIsTheEnd, visitor.has_panicked = false);
        match take_text(error) {
            Some(error) => Err(error),
            None if visitor.has_panicked => Err("the reader of the keys panicked".to_owned()),
            None => Ok(()),
        }
    }
}

extern "C" fn each_table(context: *mut c_void, table: *const Table) {
    // SAFETY: `listed` passes its vector, which only this call touches now.
    let tables = unsafe { &mut *context.cast::<Vec<LiveSegment>>() };
    // SAFETY: the shim passes a table that lives through the call.
    let table = unsafe { &*table };
    // SAFETY: its slices live as long.
    let path = unsafe { table.path.bytes() };
    // SAFETY: null, or 16 readable bytes.
    let captured = unsafe { table.segment.cast::<[u8; 16]>().as_ref() };
    // SAFETY: null, or 16 readable bytes. RocksDB's own id, since RocksDB 6.24.
    let unique = unsafe { table.unique.cast::<[u8; 16]>().as_ref() };
    // SAFETY: as for `path`.
    let smallest = unsafe { table.smallest.bytes() };
    // SAFETY: as for `path`.
    let largest = unsafe { table.largest.bytes() };
    tables.push(LiveSegment {
        path: String::from_utf8_lossy(path).into_owned(),
        file: path.to_owned(),
        lasting_id: captured.or(unique).copied().map(SegmentId::from_bytes),
        instance_id: None,
        is_checked_by_engine: captured.is_some(),
        entries: table.entries,
        are_entries_exact: true,
        level: u32::try_from(table.level).ok(),
        is_in_last_level: table.is_in_last_level,
        range: table.is_placed.then(|| KeyRange::new(smallest, largest)),
    });
}

extern "C" fn each_key(context: *mut c_void, key: Slice, is_deletion: bool) -> bool {
    // SAFETY: the caller passes its visitor, which only this call touches now.
    let visitor = unsafe { &mut *context.cast::<Visitor<'_>>() };
    // SAFETY: the iterator's key outlives this call.
    let key = unsafe { key.bytes() };
    guarded(
        || (visitor.each)(key, is_deletion),
        || {
            visitor.has_panicked = true;
            false
        },
    )
}

#[cfg(test)]
mod tests {
    use rocksdb::{DB, DEFAULT_COLUMN_FAMILY_NAME, Options};

    use super::*;

    /// What `read` says of a reader that panics at the second of three keys.
    fn read_with_a_panic(
        read: impl FnOnce(&mut dyn FnMut(&[u8], bool) -> bool) -> Result<(), String>,
    ) -> (u32, Result<(), String>) {
        let mut seen = 0;
        let read = read(&mut |_, _| {
            seen += 1;
            assert!(seen < 2, "a reader that panics, for a test");
            true
        });
        (seen, read)
    }

    #[test]
    fn a_reader_that_panics_has_not_read_all_keys() {
        let folder = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let names = [DEFAULT_COLUMN_FAMILY_NAME];
        let db = DB::open_cf(&options, folder.path(), names).unwrap();
        let default = || db.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
        let put_three = || [b"a", b"b", b"c"].map(|key| db.put(key, b"value").unwrap());
        put_three();
        let error = Err("the reader of the keys panicked".to_owned());
        let read = read_with_a_panic(|each| memtable_keys(&default(), each));
        assert_eq!(read, (2, error.clone()));
        db.flush().unwrap();
        let tables = live_tables(&default()).unwrap();
        let read = read_with_a_panic(|each| raw_keys(&default(), &tables[0], each));
        assert_eq!(read, (2, error));
        let mut all = 0;
        let count = &mut |_: &[u8], _| {
            all += 1;
            true
        };
        raw_keys(&default(), &tables[0], count).unwrap();
        assert_eq!(all, 3);
    }
}
