//! The engine itself, past the filters, for as long as it is open.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::{Arc, RwLock};

use librocksdb_sys as sys;
use rocksdb::AsColumnFamilyRef;

use crate::hooks::abi::{self, Slice, take_text};
use crate::sync::unpoisoned;

/// RocksDB's id of the default column family.
pub(crate) const DEFAULT_ID: u32 = 0;

/// RocksDB's object for an open engine.
#[derive(Clone, Copy)]
struct Raw(NonNull<c_void>);

// SAFETY: RocksDB's engine is used from any thread.
unsafe impl Send for Raw {}
// SAFETY: as above.
unsafe impl Sync for Raw {}

/// An engine that another object owns. The owner calls [`BareEngine::close`] before it closes the
/// engine.
pub(crate) struct BareEngine(RwLock<Option<Raw>>);

impl BareEngine {
    /// The engine of a column family, whose handle must be live.
    pub(super) fn of_raw(cf: *mut sys::rocksdb_column_family_handle_t) -> Arc<Self> {
        // SAFETY: promised by the caller, which is in this folder.
        let engine = unsafe { abi::lsm_sieve_engine(cf) };
        Arc::new(Self(RwLock::new(NonNull::new(engine).map(Raw))))
    }

    /// Ends the use of the engine; waits for those that use it.
    pub(crate) fn close(&self) {
        *unpoisoned(self.0.write()) = None;
    }

    /// Calls `act` with the column family of this id; `None` if there is none any more, or the
    /// engine is closed.
    pub(crate) fn with_cf<R>(&self, id: u32, act: impl FnOnce(&BareCf) -> R) -> Option<R> {
        let open = unpoisoned(self.0.read());
        let engine = (*open)?;
        // SAFETY: the engine is open until `open` is dropped.
        let cf = unsafe { abi::lsm_sieve_cf(engine.0.as_ptr(), id) };
        let cf = BareCf(NonNull::new(cf)?);
        Some(act(&cf))
    }

    /// The id of the column family that has this name now.
    pub(crate) fn cf_id(&self, name: &str) -> Option<u32> {
        let open = unpoisoned(self.0.read());
        let engine = (*open)?;
        // SAFETY: the engine is open until `open` is dropped.
        let id = unsafe { abi::lsm_sieve_cf_id(engine.0.as_ptr(), Slice::of(name.as_bytes())) };
        u32::try_from(id).ok()
    }

    /// A property of the default column family, or 0.
    pub(crate) fn int_property(&self, name: &str) -> u64 {
        let read = |cf: &BareCf| cf.int_property(name);
        self.with_cf(DEFAULT_ID, read).unwrap_or_default()
    }

    /// The number of the latest write; 0 once the engine is closed.
    pub(crate) fn latest_sequence_number(&self) -> u64 {
        // SAFETY: the handle is live during the call, and so is its engine.
        let read = |cf: &BareCf| unsafe { abi::lsm_sieve_latest_sequence_number(cf.inner()) };
        self.with_cf(DEFAULT_ID, read).unwrap_or_default()
    }
}

/// A handle of a column family, within [`BareEngine::with_cf`].
pub(crate) struct BareCf(NonNull<sys::rocksdb_column_family_handle_t>);

impl BareCf {
    /// A property of the column family, or 0.
    pub(crate) fn int_property(&self, name: &str) -> u64 {
        // SAFETY: the handle and its engine are live during the call.
        unsafe { abi::lsm_sieve_int_property(self.inner(), Slice::of(name.as_bytes())) }
    }

    /// Whether the engine has a key; `None` if that cannot be read.
    pub(crate) fn contains(&self, key: &[u8], most_skipped: u64) -> Option<bool> {
        // SAFETY: as above.
        match unsafe { abi::lsm_sieve_contains(self.inner(), Slice::of(key), most_skipped) } {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Whether the engine of this column family has a key that starts so, past the filters.
/// `same_prefix`: RocksDB's extractor gives all these keys one prefix. Skips at most `most_skipped`
/// entries, or all if that is 0.
pub(crate) fn contains_prefix(
    cf: &impl AsColumnFamilyRef,
    start: &[u8],
    same_prefix: bool,
    most_skipped: u64,
) -> Result<bool, String> {
    let mut contains = false;
    let (start, contained) = (Slice::of(start), &raw mut contains);
    // SAFETY: the handle is live while borrowed, and so is its engine; `contained` is writable.
    let error = unsafe {
        abi::lsm_sieve_contains_prefix(cf.inner(), start, same_prefix, most_skipped, contained)
    };
    take_text(error).map_or(Ok(contains), Err)
}

/// Whether the engine of this column family has a key from one on that is before another, past the
/// filters. Skips at most `most_skipped` entries, or all if that is 0.
pub(crate) fn contains_range(
    cf: &impl AsColumnFamilyRef,
    from: &[u8],
    end: &[u8],
    most_skipped: u64,
) -> Result<bool, String> {
    let mut contains = false;
    let (from, end, contained) = (Slice::of(from), Slice::of(end), &raw mut contains);
    // SAFETY: as above.
    let error =
        unsafe { abi::lsm_sieve_contains_range(cf.inner(), from, end, most_skipped, contained) };
    take_text(error).map_or(Ok(contains), Err)
}

impl AsColumnFamilyRef for BareCf {
    fn inner(&self) -> *mut sys::rocksdb_column_family_handle_t {
        self.0.as_ptr()
    }
}

impl Drop for BareCf {
    fn drop(&mut self) {
        // SAFETY: `with_cf` owns it, and its engine is open.
        unsafe { sys::rocksdb_column_family_handle_destroy(self.0.as_ptr()) }
    }
}

/// Whether a listener of this crate gets the events of an engine.
pub(crate) fn is_listened_to(cf: &impl AsColumnFamilyRef) -> bool {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    unsafe { abi::lsm_sieve_is_listened_to(cf.inner()) }
}

/// How many bytes of each key of a column family are its timestamp; 0 if it has none.
pub(crate) fn timestamp_size(cf: &impl AsColumnFamilyRef) -> usize {
    // SAFETY: the handle is live while borrowed.
    unsafe { abi::lsm_sieve_timestamp_size(cf.inner()) }
}

/// Whether an engine follows one that writes.
pub(crate) fn is_secondary(cf: &impl AsColumnFamilyRef) -> bool {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    unsafe { abi::lsm_sieve_is_secondary(cf.inner()) }
}

/// Begins to flush a column family's memtables, without waiting for a flush or a compaction. For an
/// engine that writes.
pub(crate) fn begin_flush(cf: &impl AsColumnFamilyRef) -> Result<(), String> {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    let error = unsafe { abi::lsm_sieve_begin_flush(cf.inner()) };
    take_text(error).map_or(Ok(()), Err)
}

/// Returns the refusal of an engine that only reads. For no other engine.
pub(crate) fn refusal_of_reader(cf: &impl AsColumnFamilyRef) -> Result<(), String> {
    // SAFETY: the handle is live while borrowed, and so is its engine.
    let error = unsafe { abi::lsm_sieve_refusal_of_reader(cf.inner()) };
    take_text(error).map_or(Ok(()), Err)
}

/// Makes a secondary that was just opened forget the column families that RocksDB freed during the
/// open; its catch-up would read them. Returns how many.
pub(crate) fn forget_freed_families(secondary: &BareEngine) -> usize {
    // SAFETY: the handle is live during the call, and so is its engine, which was opened as a
    // secondary.
    let forget = |cf: &BareCf| unsafe { abi::lsm_sieve_forget_freed_families(cf.inner()) };
    secondary.with_cf(DEFAULT_ID, forget).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use rocksdb::{DEFAULT_COLUMN_FAMILY_NAME, Options};

    use super::*;
    use crate::binding::RocksDb;

    const CHILD: &str = "LSM_SIEVE_SECONDARY_CHILD";

    /// RocksDB alone reads freed memory there, and a stress run crashed on it. The test runs in a
    /// process of its own, so that no other test decides which allocation reuses the freed memory.
    #[test]
    fn a_secondary_forgets_the_families_that_were_freed_while_it_opened() {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "hooks::bare_engine::tests::child"])
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
        let writer = RocksDb::open(&options, home.path().join("db")).unwrap();
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
        let secondary = RocksDb::open_cf_as_secondary(&options, path, messages, names).unwrap();
        let default = secondary.cf_handle(DEFAULT_COLUMN_FAMILY_NAME).unwrap();
        let engine = BareEngine::of_raw(default.inner());
        let forgotten = [(); 2].map(|()| forget_freed_families(&engine));
        assert_eq!(forgotten, [1, 0]);
        secondary.try_catch_up_with_primary().unwrap();
        let other = secondary.cf_handle(OTHER).unwrap();
        let value = secondary.get_cf(&other, "key").unwrap();
        assert_eq!(value.as_deref(), Some("of the second".as_bytes()));
    }
}
