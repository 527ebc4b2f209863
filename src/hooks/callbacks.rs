//! The functions that RocksDB calls, on its own threads; `shim/abi.h` declares them.
//!
//! Each calls one safe function, and lets no panic through. A panic makes the answer *maybe*: for that
//! call, and for the whole column family if a key may have been missed.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use librocksdb_sys::rocksdb_options_t;

use crate::fault::fault;
use crate::format::PrefixId;
use crate::hash::KeyHash;
use crate::hooks::abi::{self, CreateCfs, DropCfs, Found, Hooks, Read, ReadMany, Run, Slice};
use crate::hooks::abi::{Take, TakeExtractor, array, guarded};
use crate::hooks::install::put_hooks;
use crate::hooks::listener::Listener;
use crate::hooks::options::CfOptions;
use crate::hooks::parameters::Parameter;
use crate::hooks::seams;
use crate::hooks::sieve::Sieve;
use lsm_sieve_front::audit::Distrust as _;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::intake::Insertion;
use lsm_sieve_front::intake::{SegmentFilterBuild, SegmentOrigin};
use lsm_sieve_front::ranges::Span;
use lsm_sieve_front::segment::{Segment, SegmentId};

#[cfg(test)]
pub(super) mod silent;

/// Defines hooks and the table of them. Each makes its parameters of what C++ passes, and runs its
/// body; if that panics, it runs what stands after `else`.
macro_rules! hooks {
    ($(
        $(#[$attribute:meta])*
        fn $name:ident($($parameter:ident: $type:ty),* $(,)?) $(-> $result:ty)? $body:block
        $(else $otherwise:block)?
    )*) => {
        $(
            $(#[$attribute])*
            extern "C" fn $name($($parameter: <$type as Parameter>::C),*) $(-> $result)? {
                $(
                    // SAFETY: C++ calls with what `abi.h` promises.
                    let $parameter = unsafe { <$type as Parameter>::of($parameter) };
                )*
                guarded(move || $body, || { $($otherwise)? })
            }
        )*

        pub(crate) static HOOKS: Hooks = Hooks { $($name),* };
    };
}

hooks! {
    fn cf_filter_release(cf_filter: Arc<CfFilter>) {
        drop(cf_filter);
    }

    fn memtable_created(cf_filter: &CfFilter, cf: u32) {
        cf_filter.key_space().memtable_created(cf);
    }

    fn insertion_begin(cf_filter: &CfFilter, key: &[u8]) -> abi::Insertion {
        cf_filter.intake().begin_insertion(key).into()
    } else {
        disable(cf_filter);
        Insertion::from_parts(KeyHash::new(0), None).into()
    }

    fn insertion_end(cf_filter: &CfFilter, insertion: Insertion, key: &[u8]) {
        cf_filter.intake().end_insertion(insertion, key);
    } else {
        disable(cf_filter);
    }

    fn table_begin(
        cf_filter: &CfFilter,
        origin: SegmentOrigin,
        is_in_last_level: bool,
    ) -> *mut abi::SegmentFilterBuild {
        let table = cf_filter.intake().segments().begin(origin, is_in_last_level);
        table.map_or(ptr::null_mut(), |table| Box::into_raw(Box::new(table)).cast())
    } else {
        ptr::null_mut()
    }

    // A key missed by a panic shows as a wrong count when the SST is finished.
    fn table_add(table: &mut SegmentFilterBuild, key: &[u8]) {
        table.add(key);
    }

    fn table_takes_prefix(table: &SegmentFilterBuild, key: &[u8], prefix: &[u8]) -> bool {
        table.extractor().is_some_and(|own| own.of(key) == Some(prefix))
    } else {
        false
    }

    fn table_extractor(table: &SegmentFilterBuild, context: *mut c_void, take: TakeExtractor) {
        if let Some(extractor) = table.extractor() {
            let id = extractor.id();
            take(context, Slice::of(id.name().as_bytes()), id.version());
        }
    }

    fn table_id(table: &SegmentFilterBuild, id: *mut u8) -> bool {
        // SAFETY: the shim passes 16 writable bytes.
        unsafe { id.cast::<[u8; 16]>().write(*table.id().as_bytes()) };
        true
    } else {
        false
    }

    fn table_finish(table: &mut SegmentFilterBuild, entries: u64) -> bool {
        table.finish(entries)
    } else {
        false
    }

    fn table_release(table: Box<SegmentFilterBuild>) {
        drop(table);
    }

    fn segment_open(
        cf_filter: &CfFilter,
        id: *const u8,
        name: &[u8],
        version: u32,
        extractor: *mut *mut abi::PrefixId,
    ) -> *mut abi::Segment {
        // SAFETY: the shim passes 16 readable bytes.
        let id = SegmentId::from_bytes(unsafe { id.cast::<[u8; 16]>().read() });
        let Some(opened) = extractor_of_segment(cf_filter, name, version) else {
            return ptr::null_mut();
        };
        let segment = cf_filter.intake().segments().open(id);
        if let Some(opened) = opened {
            // SAFETY: the shim passes a writable pointer.
            unsafe { extractor.write(Arc::into_raw(opened).cast_mut().cast()) };
        }
        Arc::into_raw(segment).cast_mut().cast()
    } else {
        ptr::null_mut()
    }

    fn segment_may_contain(
        segment: &Segment,
        extractor: Option<&PrefixId>,
        key: &[u8],
    ) -> bool {
        segment.may_contain(key, extractor)
    } else {
        fault!(PanicIsAbsent, return false);
        true
    }

    fn segment_may_contain_many(
        segment: &Segment,
        extractor: Option<&PrefixId>,
        count: usize,
        keys: *const Slice,
        answers: *mut bool,
    ) {
        // SAFETY: the shim passes two arrays of `count` elements, which outlive the call.
        let keys = unsafe { array(keys, count) }.iter().map(|key| {
            // SAFETY: as above.
            unsafe { key.bytes() }
        });
        // SAFETY: as above; the shim reads the answers only after the call.
        let answers = unsafe { std::slice::from_raw_parts_mut(answers, count) };
        segment.may_contain_many(keys, extractor, answers);
    } else {
        fault!(PartialAnswersKept, return);
        // Answers that a panic left behind are discarded.
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(answers, count) }.fill(true);
    }

    fn segment_release(segment: Arc<Segment>, extractor: Option<Arc<PrefixId>>) {
        drop((segment, extractor));
    }

    fn listener_release(listener: Arc<Listener>) {
        drop(listener);
    }

    fn engine_changed(listener: &Listener) {
        listener.engine_changed();
    }

    fn keys_ingested(listener: &Listener, cf: &[u8]) {
        listener.keys_ingested(cf);
    }

    fn sieve_release(sieve: Arc<Sieve>) {
        drop(sieve);
    }

    fn sieve_close(sieve: &Sieve) {
        sieve.stop();
        // Maintenance that did not end finds no engine any more.
        sieve.engine.close();
    } else {
        sieve.engine.close();
    }

    fn sieve_read(
        sieve: &Sieve,
        cf: u32,
        key: &[u8],
        context: *mut c_void,
        read: Read,
    ) -> bool {
        sieve.read(cf, key, || read(context).result())
    } else {
        seams::is_absent_after_panic()
    }

    fn sieve_rules_out(sieve: &Sieve, cf: u32, key: &[u8]) -> bool {
        sieve.rules_out(cf, key)
    } else {
        seams::is_absent_after_panic()
    }

    fn sieve_read_many(
        sieve: &Sieve,
        count: usize,
        cfs: *const u32,
        keys: *const Slice,
        context: *mut c_void,
        read: ReadMany,
    ) -> bool {
        // SAFETY: the shim passes two arrays of `count` elements, which outlive the call.
        let cfs = unsafe { array(cfs, count) };
        // SAFETY: as above.
        let keys = unsafe { array(keys, count) }.iter().map(|key| {
            // SAFETY: as above.
            unsafe { key.bytes() }
        });
        let keys: Vec<&[u8]> = keys.collect();
        sieve.read_many(cfs, &keys, |at| {
            let mut found = vec![Found::Nothing; at.len()];
            read(context, at.as_ptr(), at.len(), found.as_mut_ptr());
            found.into_iter().map(Found::result).collect()
        })
    } else {
        seams::is_absent_after_panic()
    }

    fn sieve_prefixes(sieve: &Sieve, cf: u32, edition: *mut u64, most_found: *mut u32) -> bool {
        let Some((now, most)) = sieve.edition_for_prefixes(cf) else {
            return false;
        };
        // SAFETY: the shim passes a writable number.
        unsafe { edition.write(now) };
        // SAFETY: as above.
        unsafe { most_found.write(most) };
        true
    } else {
        false
    }

    fn sieve_is_empty(
        sieve: &Sieve,
        cf: u32,
        edition: u64,
        span: abi::Span,
        first: &[u8],
        last: &[u8],
    ) -> bool {
        let span = match span {
            abi::Span::SamePrefix => Span::SamePrefix(first),
            abi::Span::Closed => Span::Closed(first, last),
            abi::Span::HalfOpen => Span::HalfOpen(first, last),
        };
        sieve.is_empty_since(cf, span, edition)
    } else {
        seams::is_absent_after_panic()
    }

    fn sieve_extractor_changes(sieve: &Sieve) {
        sieve.extractor_changes();
    }

    fn sieve_external_writes(sieve: &Sieve, cf: u32, context: *mut c_void, run: Run) {
        let cf = Some(cf).filter(|&cf| cf != u32::MAX);
        sieve.external_writes(cf, || run(context));
    } else {
        fault!(UnannouncedAfterPanic, return);
        guarded(|| sieve.disable(), || ());
    }

    // If it panics before, RocksDB creates nothing; after, those not reached have no filters.
    fn sieve_create_cfs(
        sieve: &Sieve,
        count: usize,
        names: *const Slice,
        options: *const *mut rocksdb_options_t,
        context: *mut c_void,
        refuse: Take,
        create: CreateCfs,
    ) {
        // SAFETY: the shim passes two arrays of `count` elements, which outlive the call.
        let names = unsafe { array(names, count) };
        // SAFETY: as above.
        let options = unsafe { array(options, count) };
        let cfs = names.iter().zip(options).map(|(name, options)| {
            // SAFETY: as above.
            let name = unsafe { name.bytes() };
            // SAFETY: as above, and nothing else uses the options.
            let options = unsafe { CfOptions::borrowed(*options) };
            (String::from_utf8_lossy(name).into_owned(), options)
        });
        let cfs: Vec<(String, CfOptions<'_>)> = cfs.collect();
        let create = || {
            let mut ids = vec![-1; count];
            create(context, ids.as_mut_ptr());
            ids.into_iter().map(|id| u32::try_from(id).ok()).collect()
        };
        let put_hooks = |options: &CfOptions<'_>, cf_filter: &_| {
            put_hooks(options, &sieve.options, cf_filter, &HOOKS)
        };
        if let Err(error) = sieve.create_cfs(&cfs, put_hooks, create) {
            refuse(context, Slice::of(error.to_string().as_bytes()));
        }
    }

    fn sieve_drop_cfs(
        sieve: &Sieve,
        count: usize,
        cfs: *const u32,
        context: *mut c_void,
        drop: DropCfs,
    ) {
        // SAFETY: the shim passes an array of `count` elements, which outlives the call.
        let cfs = unsafe { array(cfs, count) };
        sieve.drop_cfs(cfs, || {
            let mut dropped = vec![false; count];
            drop(context, dropped.as_mut_ptr());
            dropped
        });
    }
}

/// A key may have been missed: nothing of this column family is absent until the next open.
fn disable(cf_filter: &CfFilter) {
    guarded(|| cf_filter.disable(), || ());
}

/// The extractor that a filter block names, or that it names none. `None` if the name is not right:
/// of such an extractor no filter has the prefixes.
fn extractor_of_segment(
    cf_filter: &CfFilter,
    name: &[u8],
    version: u32,
) -> Option<Option<Arc<PrefixId>>> {
    if name.is_empty() {
        return Some(None);
    }
    let id = PrefixId::new(std::str::from_utf8(name).ok()?, version)?;
    // The copy that filters of this process have too is compared without a read.
    let known = cf_filter.prefixes().ids().iter().find(|own| **own == id);
    Some(Some(Arc::new(known.cloned().unwrap_or(id))))
}

#[cfg(test)]
mod tests {
    use std::ffi::CStr;
    use std::slice;
    use std::time::Duration;

    use librocksdb_sys as sys;
    use rocksdb::{Options, SingleThreaded};

    use super::*;
    use crate::filter::Chain;
    use crate::format::Source;
    use crate::hash::{HashId, KeyHasher, Seed};
    use crate::hooks::abi::panics::with_a_panic;
    use crate::hooks::options::AsOptions as _;
    use crate::hooks::raw_handle;
    use crate::math::Rate;
    use crate::{SieveDb, SieveOptions};
    use lsm_sieve_front::segment::{Registry, SealedFilter, SegmentBuilder};

    const PATIENCE: Duration = Duration::from_secs(60);

    fn options() -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options
    }

    fn open(path: &std::path::Path) -> SieveDb {
        // An audit would find the effects of a hook.
        let unaudited = SieveOptions::default().audit(0);
        let db = SieveDb::open(&options(), &unaudited, path).unwrap();
        assert!(db.filters().wait_until_complete(PATIENCE));
        db
    }

    #[test]
    fn a_hook_that_panics_silences_its_family_and_loses_no_key() {
        let mut panics = 0;
        for after in 0..8 {
            let home = tempfile::tempdir().unwrap();
            let db = open(home.path());
            assert!(db.filters().answer("absent").is_absent());
            let (written, panicked) = with_a_panic(after, || db.put("first", "value"));
            written.unwrap();
            db.put("second", "value").unwrap();
            if panicked {
                panics += 1;
                assert!(!db.filters().answer("absent").is_absent(), "hook {after}");
                db.flush().unwrap();
                assert!(!db.filters().wait_until_complete(Duration::from_millis(50)));
                assert!(!db.filters().answer("absent").is_absent(), "hook {after}");
            }
            assert_eq!(db.get("first").unwrap().unwrap(), b"value");
            assert_eq!(db.get("second").unwrap().unwrap(), b"value");
            drop(db);
            let again = open(home.path());
            // Of one key, the new filters may have a false positive.
            let mut others = (0..100).map(|key| format!("absent {key}"));
            let rules_out = |key: String| again.filters().answer(key).is_absent();
            assert!(others.any(rules_out), "made anew");
            assert!(again.get("first").unwrap().is_some());
            assert!(again.filters().verify(true).unwrap().lost.is_empty());
        }
        assert_eq!(panics, 2, "begin and end");
    }

    /// Every read through the handle, of a key in an SST, one in a memtable, and one that is absent.
    #[test]
    fn a_hook_of_the_handle_that_panics_loses_no_read() {
        let home = tempfile::tempdir().unwrap();
        let db = open(home.path());
        db.put("in a table", "value").unwrap();
        db.flush().unwrap();
        db.put("in a memtable", "value").unwrap();
        assert!(db.filters().wait_for_maintenance(PATIENCE));
        let plain: &crate::RocksDb = &db;
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
        assert!(db.filters().answer("absent").is_absent());
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
        let ingest = || db.ingest_external_file(vec![file]);
        let (ingested, panicked) = with_a_panic(0, ingest);
        ingested.unwrap();
        assert!(panicked);
        assert!(db.get("ingested").unwrap().is_some());
        assert!(db.filters().wait_for_maintenance(PATIENCE));
        assert!(
            !db.filters().answer("absent").is_absent(),
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
                assert_eq!(array::<u8>(value.cast(), size), b"ab");
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
        let segment = Arc::into_raw(segment).cast_mut().cast();
        let ask = |keys: [Slice; KEYS]| {
            let mut answers = [true; KEYS];
            let room = answers.as_mut_ptr();
            segment_may_contain_many(segment, ptr::null_mut(), KEYS, keys.as_ptr(), room);
            answers
        };
        let mut keys = [Slice::of(b"key"); KEYS];
        assert_eq!(ask(keys), [false; KEYS]);
        keys[KEYS - 1] = Slice::unreadable();
        assert_eq!(ask(keys), [true; KEYS]);
        segment_release(segment, ptr::null_mut());
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
            (id, Box::into_raw(Box::new(build)).cast())
        };
        let fill = |table| {
            for key in [b"one", b"two", b"six"] {
                table_add(table, Slice::of(key));
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
