//! A bound on memory: bytes from a disk must not make a reader allocate much more than their size.
//!
//! Only the allocator of the fuzzer's programs counts (`cfg(fuzzing)`); the test suite has another
//! one. The time of an input is limited by the fuzzer's `-timeout`.

/// The memory that a reader may hold for an input of this many bytes: four times as much, and 64
/// KiB.
pub fn allowance(input: usize) -> usize {
    input.saturating_mul(4).saturating_add(64 << 10)
}

/// Runs `work`, which may hold `most` bytes more than before.
#[cfg(not(fuzzing))]
pub fn within<T>(_most: usize, work: impl FnOnce() -> T) -> T {
    work()
}

#[cfg(fuzzing)]
pub use counted::within;

#[cfg(fuzzing)]
mod counted {
    use std::alloc::{GlobalAlloc, Layout, System};
    use std::cell::Cell;

    thread_local! {
        static HELD: Cell<isize> = const { Cell::new(0) };
        static MOST: Cell<isize> = const { Cell::new(0) };
    }

    /// The system's allocator, counted by thread.
    struct Counted;

    #[global_allocator]
    static ALLOCATOR: Counted = Counted;

    // SAFETY: every call is handed on as it is, and counting allocates nothing.
    unsafe impl GlobalAlloc for Counted {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            count(layout.size() as isize);
            // SAFETY: the caller's promise is the one asked for here.
            unsafe { System.alloc(layout) }
        }

        unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
            count(-(layout.size() as isize));
            // SAFETY: as above.
            unsafe { System.dealloc(memory, layout) }
        }
    }

    fn count(bytes: isize) {
        let held = HELD.get() + bytes;
        HELD.set(held);
        MOST.set(MOST.get().max(held));
    }

    pub fn within<T>(most: usize, work: impl FnOnce() -> T) -> T {
        let before = HELD.get();
        MOST.set(before);
        let done = work();
        let held = MOST.get() - before;
        assert!(
            usize::try_from(held).unwrap_or(0) <= most,
            "held {held} bytes where {most} are allowed"
        );
        done
    }
}
