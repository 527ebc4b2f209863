//! A small number for each thread, so that it can have memory that no other thread writes.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::sync::atomic::{AtomicUsize, Ordering};

/// How many threads of a process have a slot of their own: the first that ask.
pub(crate) const SLOTS: usize = match (cfg!(interleave), cfg!(miri)) {
    (true, _) => 1,
    (_, true) => 4,
    _ => 64,
};

#[cfg(not(interleave))]
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The number of a thread that has not asked yet.
const UNASKED: usize = usize::MAX;

#[cfg(not(interleave))]
thread_local! {
    // Constant and without a destructor: one load, in a thread that is ending as well.
    static MINE: Cell<usize> = const { Cell::new(UNASKED) };
}

#[cfg(interleave)]
crate::sync::lazy_static! {
    static ref NEXT: AtomicUsize = AtomicUsize::new(0);
}
#[cfg(interleave)]
crate::sync::thread_local! {
    static MINE: Cell<usize> = Cell::new(UNASKED);
}

/// The slot that this thread alone owns. It stays on its thread.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnSlot {
    index: usize,
    _here: PhantomData<*const ()>,
}

impl OwnSlot {
    /// The slot of this thread; `None` for those that came too late.
    #[inline]
    pub(crate) fn get() -> Option<Self> {
        Self::known().or_else(Self::ask)
    }

    /// The slot of this thread if it asked before: without a call.
    #[inline]
    pub(crate) fn known() -> Option<Self> {
        let index = MINE.with(Cell::get);
        (index < SLOTS).then_some(Self {
            index,
            _here: PhantomData,
        })
    }

    #[cold]
    fn ask() -> Option<Self> {
        if MINE.with(Cell::get) == UNASKED {
            MINE.with(|mine| mine.set(NEXT.fetch_add(1, Ordering::Relaxed)));
        }
        Self::known()
    }

    /// Below [`SLOTS`].
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.index
    }
}
