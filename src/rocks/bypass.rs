//! Reading past the tables' own filters, on one thread, for the length of one call.
//!
//! RocksDB asks a custom filter policy at every read and has no switch for one of them; but it asks
//! on the thread that reads. So the policy's answers can be overruled there: a *no* becomes *maybe*.

use std::cell::Cell;

thread_local! {
    // Constant and without a destructor: one load.
    static BYPASSED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread reads past the tables' filters now.
#[inline]
pub(crate) fn is_on() -> bool {
    BYPASSED.get()
}

/// Calls `read`; every table that may hold a key by its range is looked into.
pub(crate) fn past_table_filters<R>(read: impl FnOnce() -> R) -> R {
    struct Restore(bool);
    impl Drop for Restore {
        fn drop(&mut self) {
            BYPASSED.set(self.0);
        }
    }
    let _restore = Restore(BYPASSED.replace(true));
    read()
}
