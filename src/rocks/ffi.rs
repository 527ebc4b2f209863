//! The C++ boundary: the only unsafe code of the plugin, and nothing else.
//!
//! RocksDB calls the functions in [`HOOKS`] on its own threads. Each takes back a pointer that
//! this file gave out (an `Arc` or a `Box` turned raw), calls one safe function, and lets no
//! panic through: a panic makes the answer *maybe*, for that call and, where a key may have been
//! missed, for the whole column family.

#![expect(
    unsafe_code,
    reason = "the boundary to C++; every other file of the plugin is safe"
)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

use librocksdb_sys as sys;
use rocksdb::{AsColumnFamilyRef, AsRawPtr, BoundColumnFamily, Options};

use super::Engine;
use super::bypass;
use super::column::{Column, WriteTarget};
use super::table::TableBuild;
use crate::hash::KeyHash;
use crate::segment::{Segment, SegmentId};

/// The layout of `lsm_sieve_hooks` in `shim.cc`.
#[repr(C)]
struct Hooks {
    column_release: extern "C" fn(*mut c_void),
    memtable_created: extern "C" fn(*mut c_void, u32),
    memtable_bind: extern "C" fn(*mut c_void) -> *mut c_void,
    memtable_prepare: extern "C" fn(*mut c_void, *const u8, usize) -> u64,
    memtable_insert: extern "C" fn(*mut c_void, u64),
    memtable_sealed: extern "C" fn(*mut c_void),
    memtable_release: extern "C" fn(*mut c_void),
    table_begin: extern "C" fn(*mut c_void) -> *mut c_void,
    table_add: extern "C" fn(*mut c_void, *const u8, usize),
    table_id: extern "C" fn(*mut c_void, *mut [u8; 16]),
    table_finish: extern "C" fn(*mut c_void, u64) -> bool,
    table_release: extern "C" fn(*mut c_void),
    segment_open: extern "C" fn(*mut c_void, *const [u8; 16]) -> *mut c_void,
    segment_may_contain: extern "C" fn(*mut c_void, *const u8, usize) -> bool,
    segment_may_contain_many:
        extern "C" fn(*mut c_void, usize, *const *const u8, *const usize, *mut bool),
    segment_release: extern "C" fn(*mut c_void),
    engine_changed: extern "C" fn(*mut c_void),
    keys_ingested: extern "C" fn(*mut c_void),
}

static HOOKS: Hooks = Hooks {
    column_release,
    memtable_created,
    memtable_bind,
    memtable_prepare,
    memtable_insert,
    memtable_sealed,
    memtable_release,
    table_begin,
    table_add,
    table_id,
    table_finish,
    table_release,
    segment_open,
    segment_may_contain,
    segment_may_contain_many,
    segment_release,
    engine_changed,
    keys_ingested,
};

/// The layout of `lsm_sieve_table` in `shim.cc`.
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
    fn lsm_sieve_layout_matches(
        options: *const sys::rocksdb_options_t,
        write_buffer_size: usize,
        num_levels: c_int,
        max_background_jobs: c_int,
    ) -> bool;
    fn lsm_sieve_refusal(options: *const sys::rocksdb_options_t) -> *mut c_char;
    fn lsm_sieve_has_compaction_filter(options: *const sys::rocksdb_options_t) -> bool;
    fn lsm_sieve_publishes_first(options: *const sys::rocksdb_options_t) -> bool;
    fn lsm_sieve_install(
        options: *mut sys::rocksdb_options_t,
        front: *mut c_void,
        hooks: *const Hooks,
    ) -> bool;
    fn lsm_sieve_listen(
        options: *mut sys::rocksdb_options_t,
        front: *mut c_void,
        hooks: *const Hooks,
        name: *const u8,
        name_size: usize,
    );
    fn lsm_sieve_live_tables(
        column: *mut sys::rocksdb_column_family_handle_t,
        context: *mut c_void,
        each: extern "C" fn(*mut c_void, *const RawTable),
    ) -> *mut c_char;
    fn lsm_sieve_raw_keys(
        column: *mut sys::rocksdb_column_family_handle_t,
        path: *const u8,
        path_size: usize,
        context: *mut c_void,
        each: extern "C" fn(*mut c_void, *const u8, usize, bool) -> bool,
    ) -> *mut c_char;
    fn lsm_sieve_flush_would_wait(column: *mut sys::rocksdb_column_family_handle_t) -> bool;
    fn lsm_sieve_flush(column: *mut sys::rocksdb_column_family_handle_t) -> *mut c_char;
    fn lsm_sieve_free(text: *mut c_char);
}

/// A live table as RocksDB describes it.
#[derive(Clone, Debug)]
pub(crate) struct LiveTable {
    /// Path of the file.
    pub(crate) path: String,
    /// The id that table capture put into the table's properties.
    pub(crate) captured: Option<SegmentId>,
    /// RocksDB's own unique id of the table; none before RocksDB 6.24.
    pub(crate) unique: Option<SegmentId>,
    /// Point entries, old versions and tombstones included.
    pub(crate) entries: u64,
    /// Level of the table, if it is still placed.
    pub(crate) level: Option<u32>,
    /// Smallest and largest user key, if known.
    pub(crate) range: Option<(Vec<u8>, Vec<u8>)>,
}

impl LiveTable {
    /// What binds a filter to this table, for ever: never its name, number or time.
    pub(crate) fn id(&self) -> Option<SegmentId> {
        self.captured.or(self.unique)
    }
}

// ------------------------------------------------------------------ calls into C++

/// Whether the options object has the private layout that the shim was written for.
pub(crate) fn layout_matches() -> bool {
    let mut options = Options::default();
    let (buffer, levels, jobs) = (12_345_678, 5, 7);
    options.set_write_buffer_size(buffer);
    options.set_num_levels(levels);
    options.set_max_background_jobs(jobs);
    // SAFETY: `options` lives through the call.
    let raw = unsafe { options.as_raw_ptr() };
    // SAFETY: `raw` points to live options, which are only read.
    unsafe { lsm_sieve_layout_matches(raw, buffer, levels, jobs) }
}

/// RocksDB's id of the default column family.
pub(crate) const DEFAULT_ID: u32 = 0;

/// Why these options cannot be fronted, if they cannot.
pub(crate) fn refusal(options: &Options) -> Option<String> {
    // SAFETY: `options` lives through the call.
    let raw = unsafe { options.as_raw_ptr() };
    // SAFETY: `raw` points to live options, which are only read.
    take_text(unsafe { lsm_sieve_refusal(raw) })
}

/// Whether these options let a filter of the user's drop or change entries in a compaction.
pub(crate) fn has_compaction_filter(options: &Options) -> bool {
    // SAFETY: `options` lives through the call.
    let raw = unsafe { options.as_raw_ptr() };
    // SAFETY: `raw` points to live options, which are only read.
    unsafe { lsm_sieve_has_compaction_filter(raw) }
}

/// Whether these options of a database let a write be seen before its memtable has taken it.
pub(crate) fn publishes_first(options: &Options) -> bool {
    // SAFETY: `options` lives through the call.
    let raw = unsafe { options.as_raw_ptr() };
    // SAFETY: `raw` points to live options, which are only read.
    unsafe { lsm_sieve_publishes_first(raw) }
}

/// Installs memtable capture, table capture and filter policy for one column family.
/// Returns whether RocksDB will consult the segment filters itself.
pub(crate) fn install(options: &mut Options, column: Arc<Column>) -> bool {
    // SAFETY: `options` lives through the call.
    let raw = unsafe { options.as_raw_ptr() };
    let front = Arc::into_raw(column).cast_mut().cast();
    // SAFETY: `raw` points to live options that nobody else holds (`&mut`); the reference on the
    // column goes over to the shim, which gives it back through `column_release`.
    unsafe { lsm_sieve_install(raw, front, &raw const HOOKS) }
}

/// Installs the listener that wakes the column's upkeep in the options of its database.
pub(crate) fn listen(options: &mut Options, column: Arc<Column>) {
    // SAFETY: `options` lives through the call.
    let raw = unsafe { options.as_raw_ptr() };
    let name = column.name().to_owned();
    let front = Arc::into_raw(column).cast_mut().cast();
    // SAFETY: as in `install`; the shim copies the name.
    unsafe { lsm_sieve_listen(raw, front, &raw const HOOKS, name.as_ptr(), name.len()) }
}

/// All live tables of a column family, from one version of it.
pub(crate) fn live_tables(column: &impl AsColumnFamilyRef) -> Result<Vec<LiveTable>, String> {
    let mut tables: Vec<LiveTable> = Vec::new();
    let context = (&raw mut tables).cast();
    // SAFETY: the handle is live while borrowed; `each_table` gets the vector it expects, which
    // nobody else touches during the call.
    let error = unsafe { lsm_sieve_live_tables(column.inner(), context, each_table) };
    take_text(error).map_or(Ok(tables), Err)
}

/// Calls `each(key, is_deletion)` for every raw entry of a table file of a column family, until it
/// returns false.
pub(crate) fn raw_keys(
    column: &impl AsColumnFamilyRef,
    path: &str,
    mut each: impl FnMut(&[u8], bool) -> bool,
) -> Result<(), String> {
    let mut visit: &mut dyn FnMut(&[u8], bool) -> bool = &mut each;
    let context = (&raw mut visit).cast();
    // SAFETY: the handle is live while borrowed; `each_key` gets the visitor it expects, which
    // nobody else touches during the call.
    let error =
        unsafe { lsm_sieve_raw_keys(column.inner(), path.as_ptr(), path.len(), context, each_key) };
    take_text(error).map_or(Ok(()), Err)
}

/// Whether a flush would wait for compactions, so as to slow no writer.
pub(crate) fn flush_would_wait(column: &impl AsColumnFamilyRef) -> bool {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    unsafe { lsm_sieve_flush_would_wait(column.inner()) }
}

/// Writes a column family's memtables to a table and waits for it, even if that slows writers: it
/// waits for no compaction.
pub(crate) fn flush(column: &impl AsColumnFamilyRef) -> Result<(), String> {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    let error = unsafe { lsm_sieve_flush(column.inner()) };
    take_text(error).map_or(Ok(()), Err)
}

/// The id of a column family, the same for all its handles.
pub(crate) fn column_id(column: &impl AsColumnFamilyRef) -> u32 {
    // SAFETY: the handle is live while borrowed.
    unsafe { sys::rocksdb_column_family_handle_get_id(column.inner()) }
}

/// A column family's handle that keeps its engine open, so that it need not be looked up again.
///
/// It outlives the family's removal: what the family held stays readable through it.
pub(crate) struct Handle {
    /// Before `engine`: a handle must be gone when its engine closes.
    bound: Arc<BoundColumnFamily<'static>>,
    engine: Arc<Engine>,
}

impl Handle {
    /// The handle of the column family with this name, if there is one.
    pub(crate) fn new(engine: &Arc<Engine>, name: &str) -> Option<Self> {
        let bound: Arc<BoundColumnFamily<'_>> = engine.cf_handle(name)?;
        // SAFETY: only the lifetime changes. It stands for the engine, which this struct keeps
        // open until after `bound` is dropped; and `bound` is never lent out.
        let bound = unsafe {
            mem::transmute::<Arc<BoundColumnFamily<'_>>, Arc<BoundColumnFamily<'static>>>(bound)
        };
        let engine = Arc::clone(engine);
        Some(Self { bound, engine })
    }

    pub(crate) fn engine(&self) -> &Engine {
        &self.engine
    }
}

impl AsColumnFamilyRef for Handle {
    fn inner(&self) -> *mut sys::rocksdb_column_family_handle_t {
        self.bound.inner()
    }
}

fn take_text(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the shim returns null or a C string that it allocated.
    let owned = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: allocated by the shim and not used after this.
    unsafe { lsm_sieve_free(text) };
    Some(owned)
}

// ------------------------------------------------------------------ calls from C++

fn guarded<R>(fallback: R, hook: impl FnOnce() -> R) -> R {
    let hook = || {
        #[cfg(test)]
        tests::panic_if_due();
        hook()
    };
    catch_unwind(AssertUnwindSafe(hook)).unwrap_or(fallback)
}

/// # Safety
/// `pointer` is null-sized or points to `size` readable bytes that stay unchanged for `'a`.
unsafe fn bytes<'a>(pointer: *const u8, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    debug_assert!(!pointer.is_null());
    // SAFETY: promised by the caller.
    unsafe { slice::from_raw_parts(pointer, size) }
}

/// # Safety
/// `pointer` came out of `Arc::into_raw` for a `T` and its reference is still held.
unsafe fn shared<'a, T>(pointer: *mut c_void) -> &'a T {
    debug_assert!(!pointer.is_null());
    // SAFETY: promised by the caller.
    unsafe { &*pointer.cast::<T>() }
}

/// # Safety
/// `pointer` came out of `Arc::into_raw` for a `T`; the reference is given up here.
unsafe fn release<T>(pointer: *mut c_void) {
    // SAFETY: promised by the caller.
    let owned = unsafe { Arc::from_raw(pointer.cast::<T>().cast_const()) };
    guarded((), || drop(owned));
}

extern "C" fn column_release(column: *mut c_void) {
    // SAFETY: the shim gives back the reference that `install` or `listen` handed over.
    unsafe { release::<Column>(column) }
}

extern "C" fn memtable_created(column: *mut c_void, family: u32) {
    // SAFETY: the shim holds a reference on the column.
    let column: &Column = unsafe { shared(column) };
    guarded((), || column.memtable_created(family));
}

extern "C" fn memtable_bind(column: *mut c_void) -> *mut c_void {
    // SAFETY: the shim holds a reference on the column.
    let column: &Column = unsafe { shared(column) };
    let target = guarded(None, || Some(column.bind_memtable()));
    // Binding clones an `Arc` under a lock that no code panics under; if it fails nevertheless,
    // the keys of this memtable would be lost to the filters, so the column gives up answering.
    let target = target.unwrap_or_else(|| {
        guarded((), || column.give_up());
        column.current_target()
    });
    Arc::into_raw(target).cast_mut().cast()
}

extern "C" fn memtable_prepare(target: *mut c_void, key: *const u8, size: usize) -> u64 {
    // SAFETY: the memtable holds a reference on its target until `memtable_release`.
    let target: &WriteTarget = unsafe { shared(target) };
    // SAFETY: the memtable entry outlives this call.
    let key = unsafe { bytes(key, size) };
    let hash = guarded(None, || Some(target.prepare(key)));
    hash.unwrap_or_else(|| {
        guarded((), || target.give_up());
        KeyHash::new(0)
    })
    .get()
}

extern "C" fn memtable_insert(target: *mut c_void, hash: u64) {
    // SAFETY: the memtable holds a reference on its target until `memtable_release`.
    let target: &WriteTarget = unsafe { shared(target) };
    if !guarded(false, || {
        target.insert(KeyHash::new(hash));
        true
    }) {
        guarded((), || target.give_up());
    }
}

extern "C" fn memtable_sealed(target: *mut c_void) {
    // SAFETY: the memtable holds a reference on its target until `memtable_release`.
    let target: &WriteTarget = unsafe { shared(target) };
    guarded((), || target.seal());
}

extern "C" fn memtable_release(target: *mut c_void) {
    // SAFETY: the memtable gives back the reference from `memtable_bind`.
    unsafe { release::<WriteTarget>(target) }
}

extern "C" fn table_begin(column: *mut c_void) -> *mut c_void {
    // SAFETY: the shim holds a reference on the column.
    let column: &Column = unsafe { shared(column) };
    match guarded(None, || column.begin_table()) {
        Some(table) => Box::into_raw(Box::new(table)).cast(),
        None => std::ptr::null_mut(),
    }
}

/// # Safety
/// `table` came from `table_begin`, is not released yet, and nobody else uses it now.
unsafe fn table_mut<'a>(table: *mut c_void) -> &'a mut TableBuild {
    debug_assert!(!table.is_null());
    // SAFETY: promised by the caller.
    unsafe { &mut *table.cast::<TableBuild>() }
}

extern "C" fn table_add(table: *mut c_void, key: *const u8, size: usize) {
    // SAFETY: a table is built by one thread at a time.
    let table = unsafe { table_mut(table) };
    // SAFETY: RocksDB's key outlives this call.
    let key = unsafe { bytes(key, size) };
    // A key missed by a panic shows as a wrong count when the table is finished.
    guarded((), || table.add(key));
}

extern "C" fn table_id(table: *mut c_void, id: *mut [u8; 16]) {
    // SAFETY: a table is built by one thread at a time.
    let table = unsafe { table_mut(table) };
    // SAFETY: the shim passes 16 writable bytes.
    unsafe { id.write(*table.id().as_bytes()) };
}

extern "C" fn table_finish(table: *mut c_void, entries: u64) -> bool {
    // SAFETY: a table is built by one thread at a time.
    let table = unsafe { table_mut(table) };
    guarded(false, || table.finish(entries))
}

extern "C" fn table_release(table: *mut c_void) {
    // SAFETY: the last use of a pointer from `table_begin`.
    let table = unsafe { Box::from_raw(table.cast::<TableBuild>()) };
    guarded((), || drop(table));
}

extern "C" fn segment_open(column: *mut c_void, id: *const [u8; 16]) -> *mut c_void {
    // SAFETY: the shim holds a reference on the column.
    let column: &Column = unsafe { shared(column) };
    // SAFETY: the shim passes 16 readable bytes.
    let id = SegmentId::from_bytes(unsafe { id.read_unaligned() });
    match guarded(None, || Some(column.open_segment(id))) {
        Some(segment) => Arc::into_raw(segment).cast_mut().cast(),
        None => std::ptr::null_mut(),
    }
}

extern "C" fn segment_may_contain(segment: *mut c_void, key: *const u8, size: usize) -> bool {
    // SAFETY: the reader holds a reference on the segment until `segment_release`.
    let segment: &Segment = unsafe { shared(segment) };
    // SAFETY: RocksDB's key outlives this call.
    let key = unsafe { bytes(key, size) };
    guarded(true, || segment.may_contain(key) || bypass::is_on())
}

extern "C" fn segment_may_contain_many(
    segment: *mut c_void,
    count: usize,
    keys: *const *const u8,
    sizes: *const usize,
    answers: *mut bool,
) {
    // SAFETY: the reader holds a reference on the segment until `segment_release`.
    let segment: &Segment = unsafe { shared(segment) };
    // SAFETY: the shim passes three arrays of `count` elements.
    let keys = unsafe { slice::from_raw_parts(keys, count) };
    // SAFETY: as above.
    let sizes = unsafe { slice::from_raw_parts(sizes, count) };
    // SAFETY: as above; the shim reads the answers only after the call, and has set all to true.
    let answers = unsafe { slice::from_raw_parts_mut(answers, count) };
    let keys = keys.iter().zip(sizes).map(|(&key, &size)| {
        // SAFETY: RocksDB's keys outlive this call.
        unsafe { bytes(key, size) }
    });
    let answered = || {
        segment.may_contain_many(keys, &mut *answers);
        true
    };
    // What a panic has left behind is no answer.
    if !bypass::is_on() && !guarded(false, answered) {
        answers.fill(true);
    }
}

extern "C" fn segment_release(segment: *mut c_void) {
    // SAFETY: the reader gives back the reference from `segment_open`.
    unsafe { release::<Segment>(segment) }
}

extern "C" fn engine_changed(column: *mut c_void) {
    // SAFETY: the shim holds a reference on the column.
    let column: &Column = unsafe { shared(column) };
    guarded((), || column.wake());
}

extern "C" fn keys_ingested(column: *mut c_void) {
    // SAFETY: the shim holds a reference on the column.
    let column: &Column = unsafe { shared(column) };
    guarded((), || column.foreign_keys_arrived());
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
        captured: captured.copied().map(SegmentId::from_bytes),
        unique: unique.copied().map(SegmentId::from_bytes),
        entries: table.entries,
        level: u32::try_from(table.level).ok(),
        range: placed.then(|| (smallest.to_vec(), largest.to_vec())),
    });
}

extern "C" fn each_key(context: *mut c_void, key: *const u8, size: usize, deletion: bool) -> bool {
    // SAFETY: `raw_keys` passes its visitor, which only this call touches now.
    let visit = unsafe { &mut *context.cast::<&mut dyn FnMut(&[u8], bool) -> bool>() };
    // SAFETY: the iterator's key outlives this call.
    let key = unsafe { bytes(key, size) };
    guarded(false, || visit(key, deletion))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use rocksdb::Options;

    use super::*;
    use crate::rocks::{SieveDb, SieveOptions};
    use crate::segment::SegmentBuilder;

    const PATIENCE: Duration = Duration::from_secs(60);

    thread_local! {
        /// How many hooks of this thread run before one panics.
        static DUE_AFTER: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(super) fn panic_if_due() {
        let due = DUE_AFTER.get();
        DUE_AFTER.set(due.and_then(|hooks| hooks.checked_sub(1)));
        assert_ne!(due, Some(0), "a hook that fails, for a test");
    }

    /// Lets the hook after so many panic while `work` runs; whether one did.
    fn with_a_panic<R>(after: u32, work: impl FnOnce() -> R) -> (R, bool) {
        DUE_AFTER.set(Some(after));
        let result = work();
        (result, DUE_AFTER.take().is_none())
    }

    fn open(path: &std::path::Path) -> SieveDb {
        let mut options = Options::default();
        options.create_if_missing(true);
        let db = SieveDb::open(&options, &SieveOptions::default(), path).unwrap();
        assert!(db.wait_until_covered(PATIENCE));
        db
    }

    #[test]
    fn a_hook_that_panics_silences_its_family_and_loses_no_key() {
        let mut panics = 0;
        for after in 0..8 {
            let home = tempfile::tempdir().unwrap();
            let db = open(home.path());
            assert!(db.answer("absent").is_absent());
            let (written, panicked) = with_a_panic(after, || db.put("first", "value"));
            written.unwrap();
            db.put("second", "value").unwrap();
            if panicked {
                panics += 1;
                assert!(!db.answer("absent").is_absent(), "hook {after}");
                db.flush().unwrap();
                assert!(!db.wait_until_covered(Duration::from_millis(50)));
                assert!(!db.answer("absent").is_absent(), "hook {after}");
            }
            assert_eq!(db.get("first").unwrap().unwrap(), b"value");
            assert_eq!(db.get("second").unwrap().unwrap(), b"value");
            drop(db);
            let again = open(home.path());
            assert!(again.answer("absent").is_absent(), "made anew");
            assert!(again.get("first").unwrap().is_some());
            assert!(again.verify(true).unwrap().lost.is_empty());
        }
        assert!(panics >= 3, "bind, prepare and insert: {panics}");
    }

    /// RocksDB marks a memtable immutable before it has made the log of the next one, and where that
    /// fails goes on with the same.
    #[test]
    fn a_memtable_is_followed_until_its_keys_are_in_a_table() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_write_buffer_size(64 << 10);
        options.set_max_write_buffer_number(6);
        options.set_min_write_buffer_number_to_merge(4);
        let db = SieveDb::open(&options, &SieveOptions::default(), home.path()).unwrap();
        assert!(db.wait_until_covered(PATIENCE));
        let column = db.shared_columns().all().remove(0);
        let immutable = || {
            let number = db.property_int_value("rocksdb.num-immutable-mem-table");
            number.unwrap().unwrap()
        };
        for i in 0_u32.. {
            db.put(i.to_be_bytes(), [0; 1_000]).unwrap();
            if immutable() == 2 {
                break;
            }
        }
        assert_eq!(column.open_memtables(), 3, "one active, two immutable");
        db.flush().unwrap();
        assert_eq!(column.open_memtables(), 0);
    }

    #[test]
    fn a_table_that_missed_a_key_by_a_panic_gets_no_filter() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        let column = db.shared_columns().all().remove(0);
        let build = || {
            let id = SegmentId::random().unwrap();
            let builder = SegmentBuilder::new(id, column.hasher(), crate::Rate::ONE_PERCENT);
            let table = Box::into_raw(Box::new(TableBuild::new(Arc::clone(&column), builder)));
            (id, table.cast::<c_void>())
        };
        let fill = |table| {
            for key in [b"one", b"two", b"six"] {
                table_add(table, key.as_ptr(), key.len());
            }
            assert!(table_finish(table, 3));
            table_release(table);
        };
        let (id, table) = build();
        fill(table);
        let filter = |id| db.registry().open(id).filter();
        assert!(filter(id).is_some());
        for after in 0..3 {
            let (id, table) = build();
            assert!(with_a_panic(after, || fill(table)).1);
            assert!(filter(id).is_none(), "it has not seen key {after}");
        }
    }
}
