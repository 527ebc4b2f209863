//! The functions that RocksDB calls, on its own threads.
//!
//! Each function in [`HOOKS`] receives a pointer that this file handed out (an `Arc` or a `Box`
//! turned raw) and calls one safe function. It lets no panic through. A panic makes the answer
//! *maybe*: for that call, and for the whole column family if a key may have been missed.

use std::cell::Cell;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::slice;
use std::sync::Arc;

use crate::fault::fault;
use crate::format::PrefixId;
use crate::hash::KeyHash;
use crate::hooks::listener::Listener;
use crate::hooks::sieve::{Found, Sieve};
use crate::hooks::{CfOptions, RawOptions};
use lsm_sieve_front::audit::Distrust as _;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::cf_filter::prefix_lookup::Span;
use lsm_sieve_front::intake::Insertion;
use lsm_sieve_front::segment::{Segment, SegmentId};
use lsm_sieve_front::segment_filter_build::{SegmentFilterBuild, TableOrigin};

#[cfg(test)]
mod silent;

#[cfg(test)]
pub(crate) use self::silent::{SILENT, WATCHED, before_each_key};

/// The layout of `lsm_sieve_insertion` in `shim.h`.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct RawInsertion {
    hash: u64,
    /// [`NO_SIDE`] if it has none.
    side: u64,
}

const NO_SIDE: u64 = u64::MAX;

/// The layout of `lsm_sieve_hooks` in `shim.h`.
#[repr(C)]
pub(crate) struct Hooks {
    column_release: extern "C" fn(*mut c_void),
    memtable_created: extern "C" fn(*mut c_void, u32),
    memtable_prepare: extern "C" fn(*mut c_void, *const u8, usize) -> RawInsertion,
    memtable_insert: extern "C" fn(*mut c_void, RawInsertion, *const u8, usize),
    table_begin: extern "C" fn(*mut c_void, u8, bool) -> *mut c_void,
    table_add: extern "C" fn(*mut c_void, *const u8, usize),
    table_add_with_prefix: extern "C" fn(*mut c_void, *const u8, usize, *const u8, usize) -> bool,
    table_extractor: extern "C" fn(*mut c_void, *mut c_void, TakeExtractor),
    table_id: extern "C" fn(*mut c_void, *mut [u8; 16]),
    table_finish: extern "C" fn(*mut c_void, u64) -> bool,
    table_release: extern "C" fn(*mut c_void),
    segment_open: extern "C" fn(
        *mut c_void,
        *const [u8; 16],
        *const u8,
        usize,
        u32,
        *mut *mut c_void,
    ) -> *mut c_void,
    segment_may_contain: extern "C" fn(*mut c_void, *mut c_void, *const u8, usize) -> bool,
    segment_may_contain_many:
        extern "C" fn(*mut c_void, *mut c_void, usize, *const *const u8, *const usize, *mut bool),
    segment_release: extern "C" fn(*mut c_void, *mut c_void),
    listener_release: extern "C" fn(*mut c_void),
    engine_changed: extern "C" fn(*mut c_void),
    keys_ingested: extern "C" fn(*mut c_void, *const u8, usize),
    sieve_release: extern "C" fn(*mut c_void),
    sieve_close: extern "C" fn(*mut c_void),
    sieve_read: extern "C" fn(*mut c_void, u32, *const u8, usize, *mut c_void, Read) -> bool,
    sieve_rules_out: extern "C" fn(*mut c_void, u32, *const u8, usize) -> bool,
    sieve_read_many: extern "C" fn(
        *mut c_void,
        usize,
        *const u32,
        *const RawSlice,
        *mut c_void,
        ReadMany,
    ) -> bool,
    sieve_prefixes: extern "C" fn(*mut c_void, u32, *mut u64, *mut u32) -> bool,
    sieve_is_empty:
        extern "C" fn(*mut c_void, u32, u64, u8, *const u8, usize, *const u8, usize) -> bool,
    sieve_extractor_changes: extern "C" fn(*mut c_void),
    sieve_external_writes: extern "C" fn(*mut c_void, u32, *mut c_void, Run),
    sieve_create_cfs: extern "C" fn(
        *mut c_void,
        usize,
        *const RawSlice,
        *const RawOptions,
        *mut c_void,
        Refuse,
        CreateCfs,
    ),
    sieve_drop_cfs: extern "C" fn(*mut c_void, usize, *const u32, *mut c_void, DropCfs),
}

/// Gets the name and version of a prefix extractor.
type TakeExtractor = extern "C" fn(*mut c_void, *const u8, usize, u32);
/// Has the engine read a key; see `Found` in `handle.cc`.
type Read = extern "C" fn(*mut c_void) -> i8;
/// Has the engine read the keys at these indexes.
type ReadMany = extern "C" fn(*mut c_void, *const usize, usize, *mut i8);
type Run = extern "C" fn(*mut c_void);
type Refuse = extern "C" fn(*mut c_void, *const u8, usize);
/// Creates column families and sets their ids.
type CreateCfs = extern "C" fn(*mut c_void, *mut i64);
/// Drops column families and says of each whether it was dropped.
type DropCfs = extern "C" fn(*mut c_void, *mut bool);

/// RocksDB's `Slice`.
#[repr(C)]
struct RawSlice {
    start: *const u8,
    size: usize,
}

pub(crate) static HOOKS: Hooks = Hooks {
    column_release,
    memtable_created,
    memtable_prepare,
    memtable_insert,
    table_begin,
    table_add,
    table_add_with_prefix,
    table_extractor,
    table_id,
    table_finish,
    table_release,
    segment_open,
    segment_may_contain,
    segment_may_contain_many,
    segment_release,
    listener_release,
    engine_changed,
    keys_ingested,
    sieve_release,
    sieve_close,
    sieve_read,
    sieve_rules_out,
    sieve_read_many,
    sieve_prefixes,
    sieve_is_empty,
    sieve_extractor_changes,
    sieve_external_writes,
    sieve_create_cfs,
    sieve_drop_cfs,
};

/// As in `shim.h`: what the keys of a table come from.
const ORIGIN_MEMTABLES: u8 = 1;
const ORIGIN_TABLES: u8 = 2;

/// Runs a hook; returns `fallback` if it panics.
pub(super) fn guarded<R>(fallback: R, hook: impl FnOnce() -> R) -> R {
    let hook = || {
        #[cfg(test)]
        tests::begin_hook();
        hook()
    };
    catch_unwind(AssertUnwindSafe(hook)).unwrap_or(fallback)
}

/// # Safety
/// `pointer` is null-sized or points to `size` readable bytes that stay unchanged for `'a`.
pub(super) unsafe fn bytes<'a>(pointer: *const u8, size: usize) -> &'a [u8] {
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
/// `pointer` came out of `Arc::into_raw` for a `T`; the reference is released here.
unsafe fn release<T>(pointer: *mut c_void) {
    // SAFETY: promised by the caller.
    let owned = unsafe { Arc::from_raw(pointer.cast::<T>().cast_const()) };
    guarded((), || drop(owned));
}

extern "C" fn column_release(cf_filter: *mut c_void) {
    // SAFETY: the shim releases the reference that `install` handed over.
    unsafe { release::<CfFilter>(cf_filter) }
}

extern "C" fn memtable_created(cf_filter: *mut c_void, cf: u32) {
    // SAFETY: the shim holds a reference on `cf_filter`.
    let cf_filter: &CfFilter = unsafe { shared(cf_filter) };
    guarded((), || cf_filter.key_space().memtable_created(cf));
}

extern "C" fn memtable_prepare(
    cf_filter: *mut c_void,
    key: *const u8,
    size: usize,
) -> RawInsertion {
    // SAFETY: the shim holds a reference on `cf_filter`.
    let cf_filter: &CfFilter = unsafe { shared(cf_filter) };
    // SAFETY: the memtable entry outlives this call.
    let key = unsafe { bytes(key, size) };
    let insertion = guarded(None, || Some(cf_filter.intake().prepare(key)));
    let insertion = insertion.unwrap_or_else(|| {
        guarded((), || cf_filter.disable());
        Insertion::from_parts(KeyHash::new(0), None)
    });
    let (hash, side) = insertion.into_parts();
    RawInsertion {
        hash: hash.get(),
        side: side.map_or(NO_SIDE, |side| side as u64),
    }
}

extern "C" fn memtable_insert(
    cf_filter: *mut c_void,
    insertion: RawInsertion,
    key: *const u8,
    size: usize,
) {
    // SAFETY: the shim holds a reference on `cf_filter`.
    let cf_filter: &CfFilter = unsafe { shared(cf_filter) };
    // SAFETY: the memtable entry outlives this call.
    let key = unsafe { bytes(key, size) };
    let side = (insertion.side != NO_SIDE).then_some(insertion.side as usize);
    let insertion = Insertion::from_parts(KeyHash::new(insertion.hash), side);
    if !guarded(false, || {
        cf_filter.intake().insert(insertion, key);
        true
    }) {
        guarded((), || cf_filter.disable());
    }
}

extern "C" fn table_begin(
    cf_filter: *mut c_void,
    origin: u8,
    is_in_last_level: bool,
) -> *mut c_void {
    // SAFETY: the shim holds a reference on `cf_filter`.
    let cf_filter: &CfFilter = unsafe { shared(cf_filter) };
    let origin = match origin {
        ORIGIN_MEMTABLES => TableOrigin::Memtables,
        ORIGIN_TABLES => TableOrigin::Tables,
        _ => TableOrigin::Unknown,
    };
    match guarded(None, || cf_filter.begin_table(origin, is_in_last_level)) {
        Some(table) => Box::into_raw(Box::new(table)).cast(),
        None => std::ptr::null_mut(),
    }
}

/// # Safety
/// `table` came from `table_begin`, is not released yet, and is used by no other thread now.
unsafe fn table_mut<'a>(table: *mut c_void) -> &'a mut SegmentFilterBuild {
    debug_assert!(!table.is_null());
    // SAFETY: promised by the caller.
    unsafe { &mut *table.cast::<SegmentFilterBuild>() }
}

extern "C" fn table_add(table: *mut c_void, key: *const u8, size: usize) {
    // SAFETY: an SST is built by one thread at a time.
    let table = unsafe { table_mut(table) };
    // SAFETY: RocksDB's key outlives this call.
    let key = unsafe { bytes(key, size) };
    // A key missed by a panic shows as a wrong count when the SST is finished.
    guarded((), || table.add(key));
}

extern "C" fn table_add_with_prefix(
    table: *mut c_void,
    key: *const u8,
    size: usize,
    prefix: *const u8,
    prefix_size: usize,
) -> bool {
    // SAFETY: an SST is built by one thread at a time.
    let table = unsafe { table_mut(table) };
    // SAFETY: RocksDB's key outlives this call.
    let key = unsafe { bytes(key, size) };
    // SAFETY: so does its prefix.
    let prefix = unsafe { bytes(prefix, prefix_size) };
    guarded(false, || {
        table.add(key);
        table
            .extractor()
            .is_some_and(|own| own.of(key) == Some(prefix))
    })
}

extern "C" fn table_extractor(table: *mut c_void, context: *mut c_void, take: TakeExtractor) {
    // SAFETY: an SST is built by one thread at a time.
    let table = unsafe { table_mut(table) };
    if let Some(extractor) = table.extractor() {
        let name = extractor.id().name();
        take(context, name.as_ptr(), name.len(), extractor.id().version());
    }
}

extern "C" fn table_id(table: *mut c_void, id: *mut [u8; 16]) {
    // SAFETY: an SST is built by one thread at a time.
    let table = unsafe { table_mut(table) };
    // SAFETY: the shim passes 16 writable bytes.
    unsafe { id.write(*table.id().as_bytes()) };
}

extern "C" fn table_finish(table: *mut c_void, entries: u64) -> bool {
    // SAFETY: an SST is built by one thread at a time.
    let table = unsafe { table_mut(table) };
    guarded(false, || table.finish(entries))
}

extern "C" fn table_release(table: *mut c_void) {
    // SAFETY: the last use of a pointer from `table_begin`.
    let table = unsafe { Box::from_raw(table.cast::<SegmentFilterBuild>()) };
    guarded((), || drop(table));
}

extern "C" fn segment_open(
    cf_filter: *mut c_void,
    id: *const [u8; 16],
    name: *const u8,
    size: usize,
    version: u32,
    extractor: *mut *mut c_void,
) -> *mut c_void {
    // SAFETY: the shim holds a reference on `cf_filter`.
    let cf_filter: &CfFilter = unsafe { shared(cf_filter) };
    // SAFETY: the shim passes 16 readable bytes.
    let id = SegmentId::from_bytes(unsafe { id.read_unaligned() });
    // SAFETY: the name is in the filter block, which outlives this call.
    let name = unsafe { bytes(name, size) };
    let open = || {
        let mut extractor = None;
        if !name.is_empty() {
            // Of an extractor without a right name no filter has the prefixes.
            let id = PrefixId::new(std::str::from_utf8(name).ok()?, version)?;
            // The copy that filters of this process have too is compared without a read.
            let known = cf_filter.prefixes().ids().iter().find(|own| **own == id);
            extractor = Some(Arc::new(known.cloned().unwrap_or(id)));
        }
        Some((cf_filter.open_segment(id), extractor))
    };
    let Some((segment, opened)) = guarded(None, open) else {
        return std::ptr::null_mut();
    };
    if let Some(opened) = opened {
        // SAFETY: the shim passes a writable pointer.
        unsafe { extractor.write(Arc::into_raw(opened).cast_mut().cast()) };
    }
    Arc::into_raw(segment).cast_mut().cast()
}

/// The extractor of a segment, if it has one.
///
/// # Safety
/// As for [`shared`], or null.
unsafe fn extractor_of<'e>(extractor: *mut c_void) -> Option<&'e PrefixId> {
    // SAFETY: promised by the caller.
    unsafe { extractor.cast::<PrefixId>().as_ref() }
}

extern "C" fn segment_may_contain(
    segment: *mut c_void,
    extractor: *mut c_void,
    key: *const u8,
    size: usize,
) -> bool {
    // SAFETY: the reader holds a reference on the segment until `segment_release`.
    let segment: &Segment = unsafe { shared(segment) };
    // SAFETY: and on its extractor.
    let extractor = unsafe { extractor_of(extractor) };
    // SAFETY: RocksDB's key outlives this call.
    let key = unsafe { bytes(key, size) };
    let mut fallback = true;
    fault!(PanicIsAbsent, fallback = false);
    guarded(fallback, || segment.may_contain(key, extractor))
}

extern "C" fn segment_may_contain_many(
    segment: *mut c_void,
    extractor: *mut c_void,
    count: usize,
    keys: *const *const u8,
    sizes: *const usize,
    answers: *mut bool,
) {
    // SAFETY: the reader holds a reference on the segment until `segment_release`.
    let segment: &Segment = unsafe { shared(segment) };
    // SAFETY: and on its extractor.
    let extractor = unsafe { extractor_of(extractor) };
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
        segment.may_contain_many(keys, extractor, &mut *answers);
        true
    };
    if !guarded(false, answered) {
        fault!(PartialAnswersKept, return);
        // Answers that a panic left behind are discarded.
        answers.fill(true);
    }
}

extern "C" fn segment_release(segment: *mut c_void, extractor: *mut c_void) {
    // SAFETY: the reader releases the references from `segment_open`.
    unsafe { release::<Segment>(segment) }
    if !extractor.is_null() {
        // SAFETY: as above.
        unsafe { release::<PrefixId>(extractor) }
    }
}

extern "C" fn listener_release(listener: *mut c_void) {
    // SAFETY: the shim releases what `lsm_sieve_listen` took over.
    unsafe { release::<Listener>(listener) }
}

extern "C" fn engine_changed(listener: *mut c_void) {
    // SAFETY: the shim holds the listener until `listener_release`.
    let listener: &Listener = unsafe { shared(listener) };
    guarded((), || listener.engine_changed());
}

extern "C" fn keys_ingested(listener: *mut c_void, cf: *const u8, size: usize) {
    // SAFETY: the shim holds the listener until `listener_release`.
    let listener: &Listener = unsafe { shared(listener) };
    // SAFETY: RocksDB's name of the column family outlives this call.
    let cf = unsafe { bytes(cf, size) };
    guarded((), || listener.keys_ingested(cf));
}

extern "C" fn sieve_release(sieve: *mut c_void) {
    // SAFETY: the shim releases what `lsm_sieve_filter_handle` took over.
    unsafe { release::<Sieve>(sieve) }
}

extern "C" fn sieve_close(sieve: *mut c_void) {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    guarded((), || sieve.stop());
    // Maintenance that did not end finds no engine any more.
    guarded((), || sieve.base.close());
}

/// What the engine found, as `handle.cc` says it.
fn found(said: i8) -> Found {
    match said {
        1 => Ok(Some(())),
        0 => Ok(None),
        _ => Err(()),
    }
}

extern "C" fn sieve_read(
    sieve: *mut c_void,
    cf: u32,
    key: *const u8,
    size: usize,
    context: *mut c_void,
    read: Read,
) -> bool {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    // SAFETY: the caller's key outlives this call.
    let key = unsafe { bytes(key, size) };
    let mut fallback = false;
    fault!(HandlePanicIsAbsent, fallback = true);
    guarded(fallback, || sieve.read(cf, key, || found(read(context))))
}

extern "C" fn sieve_rules_out(sieve: *mut c_void, cf: u32, key: *const u8, size: usize) -> bool {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    // SAFETY: the caller's key outlives this call.
    let key = unsafe { bytes(key, size) };
    let mut fallback = false;
    fault!(HandlePanicIsAbsent, fallback = true);
    guarded(fallback, || sieve.rules_out(cf, key))
}

extern "C" fn sieve_read_many(
    sieve: *mut c_void,
    count: usize,
    cfs: *const u32,
    keys: *const RawSlice,
    context: *mut c_void,
    read: ReadMany,
) -> bool {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    // SAFETY: the shim passes two arrays of `count` elements, which is not 0.
    let cfs = unsafe { slice::from_raw_parts(cfs, count) };
    // SAFETY: as above.
    let keys = unsafe { slice::from_raw_parts(keys, count) };
    let mut fallback = false;
    fault!(HandlePanicIsAbsent, fallback = true);
    guarded(fallback, || {
        let keys = keys.iter().map(|key| {
            // SAFETY: the caller's keys outlive this call.
            unsafe { bytes(key.start, key.size) }
        });
        let keys: Vec<&[u8]> = keys.collect();
        sieve.read_many(cfs, &keys, |at| {
            let mut said = vec![0; at.len()];
            read(context, at.as_ptr(), at.len(), said.as_mut_ptr());
            said.into_iter().map(found).collect()
        })
    })
}

extern "C" fn sieve_prefixes(
    sieve: *mut c_void,
    cf: u32,
    edition: *mut u64,
    most_found: *mut u32,
) -> bool {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    match guarded(None, || sieve.edition_for_prefixes(cf)) {
        Some((now, most)) => {
            // SAFETY: the shim passes a writable number.
            unsafe { edition.write(now) };
            // SAFETY: as above.
            unsafe { most_found.write(most) };
            true
        }
        None => false,
    }
}

/// As in `handle.cc`: which keys an iterator asks for.
const SPAN_SAME_PREFIX: u8 = 0;
const SPAN_CLOSED: u8 = 1;

extern "C" fn sieve_is_empty(
    sieve: *mut c_void,
    cf: u32,
    edition: u64,
    span: u8,
    first: *const u8,
    first_size: usize,
    last: *const u8,
    last_size: usize,
) -> bool {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    // SAFETY: the caller's keys outlive this call.
    let first = unsafe { bytes(first, first_size) };
    // SAFETY: as above.
    let last = unsafe { bytes(last, last_size) };
    let span = match span {
        SPAN_SAME_PREFIX => Span::SamePrefix(first),
        SPAN_CLOSED => Span::Closed(first, last),
        _ => Span::HalfOpen(first, last),
    };
    let mut fallback = false;
    fault!(HandlePanicIsAbsent, fallback = true);
    guarded(fallback, || sieve.is_empty_since(cf, span, edition))
}

extern "C" fn sieve_extractor_changes(sieve: *mut c_void) {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    sieve.extractor_changes();
}

/// Runs a hook that calls what it is given once. If it panics before, that is called all the same,
/// after `give_up`.
fn run_once(context: *mut c_void, run: Run, hook: impl FnOnce(&dyn Fn()), give_up: impl Fn()) {
    let has_run = Cell::new(false);
    let run = || {
        has_run.set(true);
        run(context);
    };
    let done = guarded(false, || {
        hook(&run);
        true
    });
    if !done {
        guarded((), give_up);
    }
    if !has_run.get() {
        run();
    }
}

extern "C" fn sieve_external_writes(sieve: *mut c_void, cf: u32, context: *mut c_void, run: Run) {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    let cf = Some(cf).filter(|&cf| cf != u32::MAX);
    let hook = |run: &dyn Fn()| sieve.external_writes(cf, run);
    let give_up = || {
        fault!(UnannouncedAfterPanic, return);
        sieve.disable();
    };
    run_once(context, run, hook, give_up);
}

extern "C" fn sieve_create_cfs(
    sieve: *mut c_void,
    count: usize,
    names: *const RawSlice,
    options: *const RawOptions,
    context: *mut c_void,
    refuse: Refuse,
    create: CreateCfs,
) {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    // SAFETY: the shim passes two arrays of `count` elements, which is not 0.
    let names = unsafe { slice::from_raw_parts(names, count) };
    // SAFETY: as above.
    let options = unsafe { slice::from_raw_parts(options, count) };
    // If it panics before, RocksDB creates nothing; after, those not reached have no filters.
    guarded((), || {
        let cfs = names.iter().zip(options).map(|(name, options)| {
            // SAFETY: the shim's names outlive this call.
            let name = unsafe { bytes(name.start, name.size) };
            // SAFETY: the shim's options live during this call, and nothing else uses them.
            let options = unsafe { CfOptions::borrowed(*options) };
            (String::from_utf8_lossy(name).into_owned(), options)
        });
        let cfs: Vec<(String, CfOptions<'_>)> = cfs.collect();
        let create = || {
            let mut ids = vec![-1; count];
            create(context, ids.as_mut_ptr());
            ids.into_iter().map(|id| u32::try_from(id).ok()).collect()
        };
        if let Err(error) = sieve.create_cfs(&cfs, create) {
            let reason = error.to_string();
            refuse(context, reason.as_ptr(), reason.len());
        }
    });
}

extern "C" fn sieve_drop_cfs(
    sieve: *mut c_void,
    count: usize,
    cfs: *const u32,
    context: *mut c_void,
    drop: DropCfs,
) {
    // SAFETY: the shim holds the reference until `sieve_release`.
    let sieve: &Sieve = unsafe { shared(sieve) };
    // SAFETY: the shim passes an array of `count` elements, which is not 0.
    let cfs = unsafe { slice::from_raw_parts(cfs, count) };
    let drop = || {
        let mut dropped = vec![false; count];
        drop(context, dropped.as_mut_ptr());
        dropped
    };
    let mut has_run = false;
    guarded((), || {
        sieve.drop_cfs(cfs, || {
            has_run = true;
            drop()
        });
    });
    if !has_run {
        drop();
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::time::Duration;

    use librocksdb_sys as sys;
    use rocksdb::{Options, SingleThreaded};

    use super::*;
    use crate::filter::Chain;
    use crate::format::Source;
    use crate::hash::{HashId, KeyHasher, Seed};
    use crate::hooks::{AsOptions as _, raw_handle};
    use crate::math::Rate;
    use crate::{SieveDb, SieveOptions};
    use lsm_sieve_front::segment::{Registry, SealedFilter, SegmentBuilder};

    const PATIENCE: Duration = Duration::from_secs(60);

    thread_local! {
        /// How many hooks of this thread run before one panics.
        static DUE_AFTER: Cell<Option<u32>> = const { Cell::new(None) };
    }

    pub(super) fn begin_hook() {
        let due = DUE_AFTER.get();
        DUE_AFTER.set(due.and_then(|hooks| hooks.checked_sub(1)));
        assert_ne!(due, Some(0), "a hook that fails, for a test");
    }

    /// Makes the hook panic that runs after `after` others, while `work` runs; returns whether one
    /// did.
    fn with_a_panic<R>(after: u32, work: impl FnOnce() -> R) -> (R, bool) {
        DUE_AFTER.set(Some(after));
        let result = work();
        (result, DUE_AFTER.take().is_none())
    }

    fn options() -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options
    }

    fn open(path: &std::path::Path) -> SieveDb {
        // An audit would find the effects of a hook.
        let unaudited = SieveOptions::default().audit(0);
        let db = SieveDb::open(&options(), &unaudited, path).unwrap();
        assert!(db.wait_until_complete(PATIENCE));
        db
    }

    #[test]
    fn a_hook_that_panics_silences_its_family_and_loses_no_key() {
        let mut panics = 0;
        for after in 0..8 {
            let home = tempfile::tempdir().unwrap();
            let db = open(home.path());
            assert!(db.filter_answer("absent").is_absent());
            let (written, panicked) = with_a_panic(after, || db.put("first", "value"));
            written.unwrap();
            db.put("second", "value").unwrap();
            if panicked {
                panics += 1;
                assert!(!db.filter_answer("absent").is_absent(), "hook {after}");
                db.flush().unwrap();
                assert!(!db.wait_until_complete(Duration::from_millis(50)));
                assert!(!db.filter_answer("absent").is_absent(), "hook {after}");
            }
            assert_eq!(db.get("first").unwrap().unwrap(), b"value");
            assert_eq!(db.get("second").unwrap().unwrap(), b"value");
            drop(db);
            let again = open(home.path());
            assert!(again.filter_answer("absent").is_absent(), "made anew");
            assert!(again.get("first").unwrap().is_some());
            assert!(again.verify(true).unwrap().lost.is_empty());
        }
        assert_eq!(panics, 2, "prepare and insert");
    }

    /// Every read through the handle, of a key in an SST, one in a memtable, and one that is absent.
    #[test]
    fn a_hook_of_the_handle_that_panics_loses_no_read() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        db.put("in a table", "value").unwrap();
        db.flush().unwrap();
        db.put("in a memtable", "value").unwrap();
        assert!(db.wait_for_maintenance(PATIENCE));
        let plain = db.engine();
        let cf = plain.cf_handle("default").unwrap();
        let keys = ["in a table", "absent", "in a memtable"];
        let all = |found: Vec<Result<Option<_>, rocksdb::Error>>| -> Vec<bool> {
            let found = found.into_iter();
            found.map(|found| found.unwrap().is_some()).collect()
        };
        let mut panics = 0;
        for after in 0..4 {
            for key in keys {
                let there = key != "absent";
                let (found, panicked) = with_a_panic(after, || plain.get(key).unwrap());
                assert_eq!(found.is_some(), there, "{key}");
                panics += u32::from(panicked);
                let (may, _) = with_a_panic(after, || plain.key_may_exist(key));
                assert!(may || !there, "{key}");
            }
            let read = || all(plain.multi_get_cf(keys.map(|key| (&cf, key))));
            let (found, panicked) = with_a_panic(after, read);
            assert_eq!(found, [true, false, true]);
            panics += u32::from(panicked);
        }
        assert!(panics >= 4, "{panics}");
        assert!(db.filter_answer("absent").is_absent());
    }

    #[test]
    fn an_ingestion_whose_hook_panics_hides_no_key() {
        let home = tempfile::tempdir().unwrap();
        let db = open(&home.path().join("db"));
        let file = home.path().join("file.sst");
        let of_file = Options::default();
        let mut writer = rocksdb::SstFileWriter::create(&of_file);
        writer.open(&file).unwrap();
        writer.put("ingested", "value").unwrap();
        writer.finish().unwrap();
        let ingest = || db.engine().ingest_external_file(vec![file]);
        let (ingested, panicked) = with_a_panic(0, ingest);
        ingested.unwrap();
        assert!(panicked);
        assert!(db.get("ingested").unwrap().is_some());
        assert!(db.wait_for_maintenance(PATIENCE));
        assert!(
            !db.filter_answer("absent").is_absent(),
            "until the next open"
        );
        assert!(db.get("ingested").unwrap().is_some());
    }

    #[test]
    fn a_family_whose_hook_panics_is_not_made_or_has_no_filters() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        let mut panics = 0;
        for after in 0..6 {
            let (made, panicked) = with_a_panic(after, || db.create_cf("made", &options()));
            panics += u32::from(panicked);
            if made.is_err() {
                assert!(panicked);
                assert!(db.cf_handle("made").is_none());
                continue;
            }
            let cf = db.cf_handle("made").unwrap();
            db.put_cf(&cf, "key", "value").unwrap();
            assert!(db.get_cf(&cf, "key").unwrap().is_some());
            let (dropped, _) = with_a_panic(0, || db.drop_cf("made"));
            dropped.unwrap();
            assert!(db.get_cf(&cf, "key").unwrap().is_some());
        }
        assert!(panics > 0);
    }

    /// RocksDB's own bulk call leaves the merge operator as it is, which then gets operands with
    /// their times.
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "one program of calls of the C API"
    )]
    #[test]
    fn families_made_at_once_merge_as_the_database_with_a_time_to_live() {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::builder(home.path()).ttl(Duration::from_secs(3_600));
        let db = db.open_as::<SingleThreaded>().unwrap();
        let mut options = options();
        options.set_merge_operator_associative("joined", |_, old, operands| {
            let all = old.into_iter().chain(operands);
            Some(all.collect::<Vec<&[u8]>>().concat())
        });
        let names = [c"first", c"second"].map(CStr::as_ptr);
        let (key, mut number, mut size) = (c"key".as_ptr(), 0, 0);
        let mut error = std::ptr::null_mut();
        // SAFETY: the database, its options and the names live through the calls. What RocksDB
        // returns is freed once, the handles before the database closes.
        unsafe {
            let raw = raw_handle(&db).unwrap().as_ptr();
            let (write, read) = (
                sys::rocksdb_writeoptions_create(),
                sys::rocksdb_readoptions_create(),
            );
            let cfs = sys::rocksdb_create_column_families(
                raw,
                options.raw(),
                2,
                names.as_ptr(),
                &raw mut number,
                &raw mut error,
            );
            assert_eq!((number, error.is_null()), (2, true));
            for &cf in slice::from_raw_parts(cfs, number) {
                for operand in [c"a", c"b"] {
                    let operand = operand.as_ptr();
                    sys::rocksdb_merge_cf(raw, write, cf, key, 3, operand, 1, &raw mut error);
                    assert!(error.is_null());
                }
                let value =
                    sys::rocksdb_get_cf(raw, read, cf, key, 3, &raw mut size, &raw mut error);
                assert!(error.is_null());
                assert_eq!(bytes(value.cast(), size), b"ab");
                sys::rocksdb_free(value.cast());
                sys::rocksdb_column_family_handle_destroy(cf);
            }
            sys::rocksdb_create_column_families_destroy(cfs);
            sys::rocksdb_writeoptions_destroy(write);
            sys::rocksdb_readoptions_destroy(read);
        }
    }

    #[test]
    fn a_filter_that_panics_rules_nothing_out() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        let keys = ["first", "second"];
        for key in keys {
            db.put(key, "value").unwrap();
        }
        db.flush().unwrap();
        assert!(db.get(keys[0]).unwrap().is_some(), "the table is open");
        let (found, panicked) = with_a_panic(0, || db.get(keys[0]));
        assert!(panicked && found.unwrap().is_some());
        let (found, panicked) = with_a_panic(0, || db.multi_get(keys));
        assert!(panicked && found.into_iter().all(|value| value.unwrap().is_some()));
    }

    /// The filter without keys has denied part of a batch when it reaches a key that cannot be
    /// read.
    #[test]
    #[cfg_attr(not(debug_assertions), ignore = "needs debug assertions")]
    fn of_a_filter_that_panics_half_way_no_answer_is_kept() {
        const KEYS: usize = 40;
        let hasher = KeyHasher::new(HashId::Xxh3, Seed::from_bytes([6; 16]));
        let segment = Registry::new(hasher).open(SegmentId::from_bytes([1; 16]));
        let nothing = Chain::new(hasher.imprint(), Vec::new());
        let filter = SealedFilter::new(nothing, 0, Rate::ONE_PERCENT, Source::RawKeys);
        segment.set_filter(filter, true);
        let segment = Arc::into_raw(segment).cast_mut().cast::<c_void>();
        let key = b"key";
        let ask = |keys: [*const u8; KEYS]| {
            let sizes = [key.len(); KEYS];
            let mut answers = [true; KEYS];
            let room = answers.as_mut_ptr();
            let (keys, sizes) = (keys.as_ptr(), sizes.as_ptr());
            segment_may_contain_many(segment, std::ptr::null_mut(), KEYS, keys, sizes, room);
            answers
        };
        let mut keys = [key.as_ptr(); KEYS];
        assert_eq!(ask(keys), [false; KEYS]);
        keys[KEYS - 1] = std::ptr::null();
        assert_eq!(ask(keys), [true; KEYS]);
        segment_release(segment, std::ptr::null_mut());
    }

    #[test]
    fn a_table_that_missed_a_key_by_a_panic_gets_no_filter() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        let cf_filter = db.shared_cf_filters().all().remove(0);
        // Of its own: maintenance would drop the filter of an SST that the engine does not know.
        let registry = Arc::new(Registry::new(cf_filter.hasher()));
        let build = || {
            let id = SegmentId::random().unwrap();
            let builder = SegmentBuilder::new(id, cf_filter.hasher(), crate::Rate::ONE_PERCENT);
            let wakeup = db.shared_wakeup();
            let build = SegmentFilterBuild::new(registry.clone(), wakeup, builder, None);
            let table = Box::into_raw(Box::new(build));
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
        let filter = |id| registry.open(id).filter();
        assert!(filter(id).is_some());
        for after in 0..3 {
            let (id, table) = build();
            assert!(with_a_panic(after, || fill(table)).1);
            assert!(filter(id).is_none(), "it has not seen key {after}");
        }
    }
}
