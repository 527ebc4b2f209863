//! Large pages for large filters.
//!
//! A look-up touches one random line, so with 4-KiB pages most look-ups in a large filter also miss
//! the processor's address cache, and under a hypervisor that costs more than the line. The system
//! is asked for 2-MiB pages; it may refuse, and then nothing has changed.

use std::mem::MaybeUninit;

/// Asks for large pages under memory that was reserved and not touched yet.
#[cfg(target_os = "linux")]
#[expect(unsafe_code, reason = "the system takes an address range")]
pub(super) fn want_large_pages<T>(memory: &mut [MaybeUninit<T>]) {
    use rustix::mm::{Advice, madvise};

    const LARGE_PAGE: usize = 2 << 20;

    let range = memory.as_mut_ptr_range();
    let begin = range.start.addr().next_multiple_of(LARGE_PAGE);
    let end = range.end.addr() / LARGE_PAGE * LARGE_PAGE;
    if begin < end {
        let start = range.start.with_addr(begin).cast();
        // SAFETY: the range lies within memory that is borrowed exclusively, and this advice
        // changes none of its contents. A refusal is as good.
        _ = unsafe { madvise(start, end - begin, Advice::LinuxHugepage) };
    }
}

/// Other systems are not asked.
#[cfg(not(target_os = "linux"))]
pub(super) fn want_large_pages<T>(_memory: &mut [MaybeUninit<T>]) {}
