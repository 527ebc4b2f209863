//! The C++ boundary: the only unsafe code of the plugin.
//!
//! | file | contents |
//! |---|---|
//! | `mod` | calls into RocksDB that need the shim |
//! | `latest` | the options that a database was last opened with |
//! | `tables` | the live SSTs, and the raw keys of one |
//! | `transactions` | transactions on an engine that was opened without |
//! | `base` | the engine past its filters |
//! | `sieve` | what a database's handle asks |
//! | `handle` | the handle of a database: found, filtered, and proved to be |
//! | `raw_db` | a database that was opened through RocksDB's C API |
//! | `extractor` | RocksDB's prefix extractors |
//! | `callbacks` | the functions that RocksDB calls |
//! | `listener` | flush, compaction and ingestion events |
//! | `self_check` | proves before the first open that the hooks fire |

#![expect(
    unsafe_code,
    reason = "the boundary to C++; every other file of the plugin is safe"
)]

mod base;
mod callbacks;
mod extractor;
mod handle;
mod latest;
pub(crate) mod listener;
mod pointers;
mod raw_db;
mod seams;
pub(crate) mod self_check;
pub(crate) mod sieve;
mod tables;
mod transactions;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use librocksdb_sys as sys;
use rocksdb::{AsColumnFamilyRef, BoundColumnFamily, Options};

pub(crate) use self::base::{Base, BaseCf, contains_prefix};
pub(crate) use self::callbacks::{HOOKS, Hooks};
#[cfg(test)]
pub(crate) use self::callbacks::{SILENT, WATCHED, before_each_key};
pub(crate) use self::extractor::extractor;
pub use self::handle::raw_handle;
pub(crate) use self::handle::{Handle, JustOpened, past_filters};
pub(crate) use self::latest::latest_options;
pub use self::pointers::raw_options;
pub use self::raw_db::RawDb;
pub(crate) use self::tables::{live_tables, memtable_keys, raw_keys, tables_of_readers};
pub(crate) use self::transactions::{Locks, Optimism, error_of, has_written, watch, write};
use crate::binding::Engine;
use crate::fault::Fault;
use crate::hooks::listener::Listener;
use lsm_sieve_front::cf_filter::CfFilter;

/// Fault points in the shim, which reads the environment itself.
const _: &[Fault] = &[
    Fault::PrefixHintNotCaptured,
    Fault::BatchHintNotCaptured,
    Fault::ImmutableMemtablesUnread,
    Fault::ConcurrentInsertionsHidden,
    Fault::PrefixBlockHasSegmentId,
    Fault::PrefixBlockNamesNoExtractor,
    Fault::ScanAnsweredWithoutPolicy,
    Fault::SstsWithoutOwnFilterUnmarked,
    Fault::PointReadUnanswered,
    Fault::RefreshedIteratorAsksNothing,
    Fault::RefreshedBeforeItsView,
    Fault::CreatedBeforeItsView,
    Fault::RefusedRefreshCounts,
    Fault::OldErrorKept,
    Fault::PreparedScanAnswered,
    Fault::AnyPartIsPrefix,
    Fault::CompactionIsFlush,
    Fault::OneCfLocked,
    Fault::HandlesNotFreed,
    Fault::LastOfSpanLeftOut,
    Fault::ExtractorChangeUnnoticed,
    Fault::LayoutUnchecked,
    Fault::MempurgeAccepted,
    Fault::TableOptionsCorrected,
    Fault::CfOptionsNotLoaded,
    Fault::ReadErrorIsEnd,
    Fault::FreedCfsKept,
    Fault::NoWakeAfterFlush,
    Fault::NoWakeAfterCompaction,
    Fault::CommitValidatedInParallel,
    Fault::OwnWritesIgnored,
    Fault::AbsentKeyNotWatched,
    Fault::CatchUpUnannounced,
    Fault::DefaultHandleKept,
    Fault::EntityIsDeletion,
    Fault::RawEntityIsDeletion,
    Fault::CommitUnannounced,
    Fault::ManyIngestedUnannounced,
    Fault::ResultsNotCleared,
    Fault::WaitClosesEngine,
    Fault::AnyHandleTaken,
    Fault::TimestampsIgnored,
    Fault::LocksPassedBy,
    Fault::OldValueKept,
];

unsafe extern "C" {
    fn lsm_sieve_allow_two_phases(options: RawOptions);
    fn lsm_sieve_open_ssts_first(options: RawOptions);
    fn lsm_sieve_layout_matches(
        options: *const sys::rocksdb_options_t,
        write_buffer_size: usize,
        num_levels: c_int,
        max_background_jobs: c_int,
    ) -> bool;
    fn lsm_sieve_refusal(options: *const sys::rocksdb_options_t) -> *mut c_char;
    fn lsm_sieve_transactions_refusal(options: *const sys::rocksdb_options_t) -> *mut c_char;
    fn lsm_sieve_drops_entries(options: *const sys::rocksdb_options_t) -> bool;
    fn lsm_sieve_publishes_first(options: *const sys::rocksdb_options_t) -> bool;
    fn lsm_sieve_install(
        options: *mut sys::rocksdb_options_t,
        cf_filter: *mut c_void,
        hooks: *const Hooks,
    ) -> bool;
    fn lsm_sieve_listen(
        options: *mut sys::rocksdb_options_t,
        listener: *mut c_void,
        hooks: *const Hooks,
    );
    fn lsm_sieve_is_listened_to(cf: *mut sys::rocksdb_column_family_handle_t) -> bool;
    fn lsm_sieve_is_secondary(cf: *mut sys::rocksdb_column_family_handle_t) -> bool;
    fn lsm_sieve_forget_freed_families(cf: *mut sys::rocksdb_column_family_handle_t) -> usize;
    fn lsm_sieve_begin_flush(cf: *mut sys::rocksdb_column_family_handle_t) -> *mut c_char;
    fn lsm_sieve_refusal_of_reader(cf: *mut sys::rocksdb_column_family_handle_t) -> *mut c_char;
    fn lsm_sieve_free(text: *mut c_char);
}

/// A pointer to RocksDB's options.
pub(crate) type RawOptions = *mut sys::rocksdb_options_t;

/// RocksDB's options, of a database or a column family.
pub(crate) trait AsOptions {
    /// Valid while `self` is borrowed.
    fn raw(&self) -> RawOptions;
}

impl AsOptions for Options {
    fn raw(&self) -> RawOptions {
        pointers::raw_options(self)
    }
}

/// The options of a column family that is being created.
pub(crate) struct CfOptions<'c> {
    raw: RawOptions,
    _borrowed: PhantomData<&'c mut ()>,
}

impl CfOptions<'_> {
    /// # Safety
    /// They live for the lifetime, and nothing else uses them meanwhile.
    unsafe fn borrowed(raw: RawOptions) -> Self {
        Self {
            raw,
            _borrowed: PhantomData,
        }
    }
}

impl AsOptions for CfOptions<'_> {
    fn raw(&self) -> RawOptions {
        self.raw
    }
}

/// Whether the options object has the private layout that the shim was written for.
pub(crate) fn layout_matches() -> bool {
    if pointers::place_in_options().is_none() {
        return false;
    }
    let mut options = Options::default();
    let (buffer, levels, jobs) = (12_345_678, 5, 7);
    options.set_write_buffer_size(buffer);
    options.set_num_levels(levels);
    options.set_max_background_jobs(jobs);
    are_read_as(&options, buffer, levels, jobs)
}

/// Whether the shim reads these values where the C API has written them.
fn are_read_as(options: &Options, buffer: usize, levels: c_int, jobs: c_int) -> bool {
    let raw = options.raw();
    // SAFETY: `raw` points to live options, which are only read.
    unsafe { lsm_sieve_layout_matches(raw, buffer, levels, jobs) }
}

/// RocksDB's id of the default column family.
pub(crate) const DEFAULT_ID: u32 = 0;

/// Why these options are not supported; `None` if they are.
pub(crate) fn refusal(options: &impl AsOptions) -> Option<String> {
    // SAFETY: the options are live, and only read.
    take_text(unsafe { lsm_sieve_refusal(options.raw()) })
}

/// Why transactions are not supported with these options; `None` if they are.
pub(crate) fn transactions_refusal(options: &impl AsOptions) -> Option<String> {
    // SAFETY: the options are live, and only read.
    take_text(unsafe { lsm_sieve_transactions_refusal(options.raw()) })
}

/// Whether a compaction may drop or change entries by a compaction filter, or whole SSTs may
/// expire.
pub fn drops_entries(options: &Options) -> bool {
    let raw = options.raw();
    // SAFETY: `raw` points to live options, which are only read.
    unsafe { lsm_sieve_drops_entries(raw) }
}

/// Whether these database options make a write visible before its memtable has taken it.
pub(crate) fn publishes_first(options: &Options) -> bool {
    let raw = options.raw();
    // SAFETY: `raw` points to live options, which are only read.
    unsafe { lsm_sieve_publishes_first(raw) }
}

/// Makes a column family keep flushed memtables, in which commits check for conflicts: as many as
/// it may have memtables, unless the options say how much it keeps.
pub(crate) fn keep_history(options: &impl AsOptions) {
    let raw = options.raw();
    // SAFETY: `raw` points to live options, which are only read.
    if unsafe { sys::rocksdb_options_get_max_write_buffer_size_to_maintain(raw) } == 0 {
        // SAFETY: `raw` points to live options that no other thread uses.
        unsafe { sys::rocksdb_options_set_max_write_buffer_size_to_maintain(raw, -1) };
    }
}

/// Makes a database accept what was committed in two phases, and keep what was only prepared.
pub(crate) fn allow_two_phases(options: &mut Options) {
    let raw = options.raw();
    // SAFETY: the options are live, and exclusively ours.
    unsafe { lsm_sieve_allow_two_phases(raw) };
}

/// Makes a database open its SSTs before its open returns. From RocksDB 11.12 on, a secondary may
/// otherwise open them later, by numbers that the writer may have given to other SSTs meanwhile.
pub(crate) fn open_ssts_first(options: &mut Options) {
    let raw = options.raw();
    // SAFETY: the options are live, and exclusively ours.
    unsafe { lsm_sieve_open_ssts_first(raw) };
}

/// Installs memtable capture, SST capture and filter policy for one column family. Returns whether
/// RocksDB will probe the segment filters itself.
pub(crate) fn install(
    options: &impl AsOptions,
    cf_filter: Arc<CfFilter>,
    hooks: &'static Hooks,
) -> bool {
    let raw = options.raw();
    let cf_filter = Arc::into_raw(cf_filter).cast_mut().cast();
    // SAFETY: `raw` points to live options that no other thread uses. The reference on `cf_filter` moves to the shim, which releases it through `column_release`.
    unsafe { lsm_sieve_install(raw, cf_filter, hooks) }
}

/// Makes a listener receive the events of the database that is opened with these options.
pub(crate) fn install_listener(options: &mut Options, listener: Listener) {
    let raw = options.raw();
    let listener = Arc::into_raw(Arc::new(listener)).cast_mut().cast();
    // SAFETY: as in `install`; the shim releases it through `listener_release`.
    unsafe { lsm_sieve_listen(raw, listener, &raw const HOOKS) }
}

/// Whether a listener of this crate gets the events of an engine.
pub(crate) fn is_listened_to(cf: &impl AsColumnFamilyRef) -> bool {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    unsafe { lsm_sieve_is_listened_to(cf.inner()) }
}

/// Whether an engine follows one that writes.
pub(crate) fn is_secondary(cf: &impl AsColumnFamilyRef) -> bool {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    unsafe { lsm_sieve_is_secondary(cf.inner()) }
}

/// Begins to flush a column family's memtables, without waiting for a flush or a compaction. For an
/// engine that writes.
pub(crate) fn begin_flush(cf: &impl AsColumnFamilyRef) -> Result<(), String> {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    let error = unsafe { lsm_sieve_begin_flush(cf.inner()) };
    take_text(error).map_or(Ok(()), Err)
}

/// Returns the refusal of an engine that only reads. For no other engine.
pub(crate) fn refusal_of_reader(cf: &impl AsColumnFamilyRef) -> Result<(), String> {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    let error = unsafe { lsm_sieve_refusal_of_reader(cf.inner()) };
    take_text(error).map_or(Ok(()), Err)
}

/// Makes a secondary that was just opened forget the column families that RocksDB freed during the
/// open; its catch-up would read them. Returns how many.
pub(crate) fn forget_freed_families(secondary: &Base) -> usize {
    // SAFETY: the handle is live during the call, and so is its engine, which was opened as a
    // secondary.
    let forget = |cf: &BaseCf| unsafe { lsm_sieve_forget_freed_families(cf.inner()) };
    secondary.with_cf(DEFAULT_ID, forget).unwrap_or_default()
}

/// The id of a column family, the same for all its handles.
pub(crate) fn cf_id(cf: &impl AsColumnFamilyRef) -> u32 {
    // SAFETY: the handle is live while borrowed.
    unsafe { sys::rocksdb_column_family_handle_get_id(cf.inner()) }
}

/// A column family's handle that keeps its engine open, so that it need not be looked up again.
///
/// It outlives the column family's removal: the column family's data stays readable through it.
pub(crate) struct CfHandle {
    /// Declared before `engine`: a handle must be dropped before its engine closes.
    bound: Arc<BoundColumnFamily<'static>>,
    engine: Arc<Engine>,
}

impl CfHandle {
    /// The handle of the column family with this name, if there is one.
    pub(crate) fn new(engine: &Arc<Engine>, name: &str) -> Option<Self> {
        let bound: Arc<BoundColumnFamily<'_>> = engine.cf_handle(name)?;
        // SAFETY: only the lifetime changes. It stands for the engine, which this struct keeps
        // open until after `bound` is dropped; and `bound` is never handed out.
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

impl AsColumnFamilyRef for CfHandle {
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

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rocksdb::DEFAULT_COLUMN_FAMILY_NAME;

    use super::*;

    #[test]
    fn a_layout_in_which_one_value_lies_elsewhere_does_not_match() {
        let mut options = Options::default();
        options.set_write_buffer_size(1_000);
        options.set_num_levels(6);
        options.set_max_background_jobs(3);
        assert!(are_read_as(&options, 1_000, 6, 3));
        for (buffer, levels, jobs) in [(1_001, 6, 3), (1_000, 7, 3), (1_000, 6, 4)] {
            assert!(!are_read_as(&options, buffer, levels, jobs));
        }
    }

    #[cfg(not(rocksdb_10))]
    #[test]
    fn blobs_that_are_written_directly_do_not_go_with_transactions() {
        let options = Options::default();
        assert_eq!(transactions_refusal(&options), None);
        let raw = options.raw();
        // SAFETY: `raw` points to live options that nothing else uses.
        unsafe { sys::rocksdb_options_set_enable_blob_direct_write(raw, 1) };
        let reason = transactions_refusal(&options).unwrap();
        assert!(reason.contains("enable_blob_direct_write"), "{reason}");
    }

    #[test]
    fn history_is_kept_as_the_options_say() {
        // The size in bytes that is set, and the size that results.
        for (said, kept) in [(0, -1), (-1, -1), (1 << 20, 1 << 20)] {
            let mut options = Options::default();
            options.set_max_write_buffer_size_to_maintain(said);
            keep_history(&options);
            let raw = options.raw();
            // SAFETY: `raw` points to live options, which are only read.
            let set = unsafe { sys::rocksdb_options_get_max_write_buffer_size_to_maintain(raw) };
            assert_eq!(set, kept);
        }
    }

    /// RocksDB refuses these options as they are.
    #[cfg(not(rocksdb_10))]
    #[test]
    fn a_secondary_opens_its_ssts_first() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("db");
        let _writer = crate::SieveDb::builder(&path).open().unwrap();
        let options = Options::default();
        let raw = options.raw();
        // SAFETY: `raw` points to live options that nothing else uses.
        unsafe { sys::rocksdb_options_set_open_files_async(raw, 1) };
        let builder = crate::SieveDb::builder(&path).options(&options);
        builder.secondary(home.path().join("log")).open().unwrap();
    }

    const CHILD: &str = "LSM_SIEVE_SECONDARY_CHILD";

    /// RocksDB alone reads freed memory there, and a stress run crashed on it. The test runs in a
    /// process of its own, so that no other test decides which allocation reuses the freed memory.
    #[test]
    fn a_secondary_forgets_the_families_that_were_freed_while_it_opened() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hooks::tests::child"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}"
        );
    }

    /// The child's half: does nothing unless started by the parent.
    #[test]
    fn child() {
        const OTHER: &str = "other";
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        let writer = Engine::open(&options, home.path().join("db")).unwrap();
        let fill = |value: &str| {
            writer.create_cf(OTHER, &options).unwrap();
            let other = writer.cf_handle(OTHER).unwrap();
            writer.put_cf(&other, "key", value).unwrap();
            writer.flush_cf(&other).unwrap();
        };
        fill("of the first");
        writer.drop_cf(OTHER).unwrap();
        // The secondary's reads of these keys reuse the memory that its second open would get from
        // the first, with the known allocators. With another allocator, none would be freed and
        // forgotten.
        for key in 0..50_u8 {
            writer.put([key], "value").unwrap();
            writer.flush().unwrap();
        }
        fill("of the second");

        let (path, messages) = (home.path().join("db"), home.path().join("secondary"));
        let names = [DEFAULT_COLUMN_FAMILY_NAME, OTHER];
        let secondary = Engine::open_cf_as_secondary(&options, path, messages, names).unwrap();
        let base = secondary.handle().unwrap().base;
        let forgotten = [(); 2].map(|()| forget_freed_families(&base));
        assert_eq!(forgotten, [1, 0]);
        secondary.try_catch_up_with_primary().unwrap();
        let other = secondary.cf_handle(OTHER).unwrap();
        let value = secondary.get_cf(&other, "key").unwrap();
        assert_eq!(value.as_deref(), Some("of the second".as_bytes()));
    }
}
