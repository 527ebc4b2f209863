//! Whether a thread's reads pass through the filters, proved once for each handle; and reads that
//! bypass them.

use std::cell::Cell;

use crate::hooks::abi;

thread_local! {
    /// Whether the next read through the handle is answered as absent; it then takes this back.
    static NEXT_IS_ABSENT: Cell<bool> = const { Cell::new(false) };
}

/// Whether a read that passes through the filters is answered as absent, to prove that it did.
#[inline]
pub(super) fn is_due() -> bool {
    NEXT_IS_ABSENT.get() && NEXT_IS_ABSENT.replace(false)
}

/// Runs a read, and returns whether it passed through the filters; they answer its key absent.
pub(super) fn asks_filters<R>(read: impl FnOnce() -> R) -> (R, bool) {
    NEXT_IS_ABSENT.set(true);
    let found = read();
    (found, !NEXT_IS_ABSENT.replace(false))
}

/// Runs a read of single keys that enters the engine at once: the caller has checked the filters,
/// or wants to skip them. See `ExactRead` in `shim.h`.
#[inline]
pub(crate) fn past_filters<R>(read: impl FnOnce() -> R) -> R {
    struct Ends;
    impl Drop for Ends {
        fn drop(&mut self) {
            // SAFETY: of the read that began on this thread.
            unsafe { abi::lsm_sieve_exact_read(false) }
        }
    }
    // SAFETY: it ends on this thread.
    unsafe { abi::lsm_sieve_exact_read(true) };
    let _ends = Ends;
    read()
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::{RocksDb, SieveDb};

    #[test]
    fn reads_past_the_filters_are_those_of_one_thread() {
        let home = tempfile::tempdir().unwrap();
        let db = SieveDb::builder(home.path()).open().unwrap();
        assert!(db.filters().wait_until_complete(Duration::from_secs(60)));
        let by_handle: &RocksDb = &db;
        let absent = || {
            assert_eq!(by_handle.get("absent").unwrap(), None);
            db.filters().stats().absent
        };
        let before = absent();
        past_filters(|| {
            assert_eq!(absent(), before);
            assert_eq!(
                thread::scope(|scope| scope.spawn(absent).join().unwrap()),
                before + 1
            );
        });
        assert_eq!(absent(), before + 2);
    }
}
