//! RocksDB's options: which are refused, and those that the filters need set.

use std::ffi::c_int;
use std::marker::PhantomData;

use librocksdb_sys as sys;
use rocksdb::Options;

use crate::hooks::abi::{self, Slice, take_text};
use crate::hooks::pointers::{place_in_options, raw_options};

/// A pointer to RocksDB's options.
pub(crate) type RawOptions = *mut sys::rocksdb_options_t;

/// RocksDB's options, of a database or a column family.
pub(crate) trait AsOptions {
    /// Valid while `self` is borrowed.
    fn raw(&self) -> RawOptions;
}

impl AsOptions for Options {
    fn raw(&self) -> RawOptions {
        raw_options(self)
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
    pub(super) unsafe fn borrowed(raw: RawOptions) -> Self {
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
    if place_in_options().is_none() {
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
    unsafe { abi::lsm_sieve_layout_matches(raw, buffer, levels, jobs) }
}

/// Why these options are not supported; `None` if they are. `injective`: the names of comparators
/// that call no two keys equal whose bytes differ, as the user says.
pub(crate) fn refusal<'n>(
    options: &impl AsOptions,
    injective: impl IntoIterator<Item = &'n str>,
) -> Option<String> {
    let names = injective.into_iter().map(|name| Slice::of(name.as_bytes()));
    let names: Vec<Slice> = names.collect();
    // SAFETY: the options and the names are live, and only read.
    take_text(unsafe { abi::lsm_sieve_refusal(options.raw(), names.as_ptr(), names.len()) })
}

/// Whether keys are ordered by their bytes, or in reverse.
pub(crate) fn orders_by_bytes(options: &impl AsOptions) -> bool {
    // SAFETY: the options are live, and only read.
    unsafe { abi::lsm_sieve_orders_by_bytes(options.raw()) }
}

/// Why transactions are not supported with these options; `None` if they are.
pub(crate) fn transactions_refusal(options: &impl AsOptions) -> Option<String> {
    // SAFETY: the options are live, and only read.
    take_text(unsafe { abi::lsm_sieve_transactions_refusal(options.raw()) })
}

/// Whether a compaction may drop or change entries by a compaction filter, or whole SSTs may
/// expire.
pub fn drops_entries(options: &Options) -> bool {
    let raw = options.raw();
    // SAFETY: `raw` points to live options, which are only read.
    unsafe { abi::lsm_sieve_drops_entries(raw) }
}

/// Whether these database options make a write visible before its memtable has taken it.
pub(crate) fn writes_unordered(options: &Options) -> bool {
    let raw = options.raw();
    // SAFETY: `raw` points to live options, which are only read.
    unsafe { abi::lsm_sieve_writes_unordered(raw) }
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
    unsafe { abi::lsm_sieve_allow_two_phases(raw) };
}

/// Makes a database open its SSTs before its open returns. From RocksDB 11.12 on, a secondary may
/// otherwise open them later, by numbers that the writer may have given to other SSTs meanwhile.
pub(crate) fn open_ssts_first(options: &mut Options) {
    let raw = options.raw();
    // SAFETY: the options are live, and exclusively ours.
    unsafe { abi::lsm_sieve_open_ssts_first(raw) };
}

#[cfg(test)]
mod tests {
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
}
