//! A small number for each thread, so that it can have memory that no other thread writes.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

/// How many threads of a process have a slot of their own: the first that ask.
pub(crate) const SLOTS: usize = 64;

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The number of a thread that has not asked yet.
const UNASKED: usize = usize::MAX;

thread_local! {
    // Constant and without a destructor: one load, in a thread that is ending as well.
    static MINE: Cell<usize> = const { Cell::new(UNASKED) };
}

/// The slot that this thread alone owns; `None` for those that came too late.
#[inline]
pub(crate) fn own_slot() -> Option<usize> {
    let mine = MINE.get();
    if mine < SLOTS { Some(mine) } else { ask() }
}

#[cold]
fn ask() -> Option<usize> {
    if MINE.get() == UNASKED {
        MINE.set(NEXT.fetch_add(1, Ordering::Relaxed));
    }
    Some(MINE.get()).filter(|&mine| mine < SLOTS)
}
