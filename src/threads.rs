//! A small number for each thread, so that it can have memory that no other thread writes.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many threads of a process have a slot of their own: the first that ask.
pub(crate) const SLOTS: usize = 64;

static NEXT: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: usize = NEXT.fetch_add(1, Ordering::Relaxed);
}

/// The slot that this thread alone owns; `None` for those that came too late, and for a thread
/// that is ending.
#[inline]
pub(crate) fn own_slot() -> Option<usize> {
    MINE.try_with(|mine| *mine)
        .ok()
        .filter(|&mine| mine < SLOTS)
}
