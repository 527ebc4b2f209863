//! The allocator of the tests: the system's, with allocations that fail on request.
//!
//! A [`Shortage`] names which allocations of at least a given size fail: the n-th alone, or it and
//! all that follow. It counts those of all threads, so a test that uses it must be alone in its
//! process.

#![expect(unsafe_code, reason = "an allocator is an unsafe trait")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::error::Error;
use std::ptr::null_mut;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};

/// Allocations of this size are made for keys and contents of files alone.
pub(crate) const LARGE: usize = 64 << 10;

type Failed = Box<dyn Error + Send + Sync>;

#[global_allocator]
static ALLOCATOR: Failing = Failing;

struct Failing;

/// Smaller allocations succeed and are not counted.
static LEAST_BYTES: AtomicUsize = AtomicUsize::new(usize::MAX);
static SEEN: AtomicU64 = AtomicU64::new(0);
static NTH: AtomicU64 = AtomicU64::new(0);
static FOR_EVER: AtomicBool = AtomicBool::new(false);
static FAILED: AtomicU64 = AtomicU64::new(0);

/// Which allocations fail.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shortage {
    /// The least size that counts.
    pub(crate) least_bytes: usize,
    /// The number of the allocation that fails, from 0.
    pub(crate) nth: u64,
    /// Whether all that follow fail too.
    pub(crate) for_ever: bool,
}

/// Runs `work` while allocations fail. Returns its result and how many failed.
pub(crate) fn during<T>(shortage: Shortage, work: impl FnOnce() -> T) -> (T, u64) {
    SEEN.store(0, Relaxed);
    FAILED.store(0, Relaxed);
    NTH.store(shortage.nth, Relaxed);
    FOR_EVER.store(shortage.for_ever, Relaxed);
    LEAST_BYTES.store(shortage.least_bytes, Relaxed);
    let done = work();
    LEAST_BYTES.store(usize::MAX, Relaxed);
    (done, FAILED.load(Relaxed))
}

/// Tries a case with every allocation failing in its turn. `case` returns an error if its result is
/// wrong.
#[expect(clippy::print_stdout, reason = "its parent counts the cases")]
pub(crate) fn exhaust(
    name: &str,
    mut case: impl FnMut() -> Result<(), Failed>,
) -> Result<(), Failed> {
    let (mut runs, mut failed) = (0, 0);
    for for_ever in [false, true] {
        for nth in 0.. {
            println!("{name}: allocation {nth}, for ever: {for_ever}");
            let shortage = Shortage {
                least_bytes: LARGE,
                nth,
                for_ever,
            };
            let (done, now_failed) = during(shortage, &mut case);
            done.map_err(|error| format!("{name}, {shortage:?}: {error}"))?;
            runs += 1;
            failed += now_failed;
            if now_failed == 0 {
                break;
            }
        }
    }
    if failed == 0 {
        return Err(format!("{name} allocates nothing").into());
    }
    println!("@{runs} {failed} {name}");
    Ok(())
}

fn fails(size: usize) -> bool {
    if size < LEAST_BYTES.load(Relaxed) {
        return false;
    }
    let (seen, nth) = (SEEN.fetch_add(1, Relaxed), NTH.load(Relaxed));
    let fails = seen == nth || (seen > nth && FOR_EVER.load(Relaxed));
    FAILED.fetch_add(fails.into(), Relaxed);
    fails
}

// SAFETY: every call goes to the system's allocator as it came, or answers null, which any may.
unsafe impl GlobalAlloc for Failing {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if fails(layout.size()) {
            return null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if fails(size) {
            return null_mut();
        }
        // SAFETY: the caller's promises are passed on.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, old: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are passed on.
        unsafe { System.dealloc(old, layout) }
    }
}
