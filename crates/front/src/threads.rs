//! A small number for each thread, so that it can have memory that no other thread writes.
//!
//! *Invariant.* A slot belongs to one thread at a time. A new owner sees everything that earlier
//! owners wrote to the memory of that slot, because each released the slot when it ended.

use std::cell::Cell;
use std::marker::PhantomData;

use crate::fault::fault;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of threads that have a slot at the same time.
pub(crate) const SLOTS: usize = match (cfg!(interleave), cfg!(miri)) {
    (true, _) => 1,
    (_, true) => 4,
    _ => 64,
};

/// One bit for each slot, set while a thread has it.
#[cfg(not(interleave))]
static TAKEN: AtomicU64 = AtomicU64::new(0);

const _: () = assert!(SLOTS <= u64::BITS as usize);

/// The number of a thread without a slot.
const NONE: usize = usize::MAX;

#[cfg(not(interleave))]
thread_local! {
    // Constant and without a destructor: reading it is one load, even in a thread that is ending.
    static MINE: Cell<usize> = const { Cell::new(NONE) };
    static LEAVING: Leaving = const { Leaving };
}

#[cfg(interleave)]
crate::sync::lazy_static! {
    static ref TAKEN: AtomicU64 = AtomicU64::new(0);
}
#[cfg(interleave)]
crate::sync::thread_local! {
    static MINE: Cell<usize> = Cell::new(NONE);
}

/// Releases the slot of its thread when the thread ends.
#[cfg(not(interleave))]
struct Leaving;

#[cfg(not(interleave))]
impl Drop for Leaving {
    fn drop(&mut self) {
        let index = MINE.replace(NONE);
        if index < SLOTS {
            TAKEN.fetch_and(!(1 << index), Ordering::Release);
        }
    }
}

/// Whether this thread will release a slot that it takes: not if it is ending. A thread that calls
/// this for the first time from a destructor of its C library may keep its slot, which is then lost
/// to others.
#[cfg(not(interleave))]
fn gives_back() -> bool {
    LEAVING.try_with(|_| ()).is_ok()
}

/// A checked program ends together with its threads, so it needs no release.
#[cfg(interleave)]
fn gives_back() -> bool {
    true
}

/// The slot that this thread alone owns. It stays on its thread.
#[derive(Clone, Copy, Debug)]
pub struct OwnSlot {
    index: usize,
    _here: PhantomData<*const ()>,
}

impl OwnSlot {
    /// The slot of this thread. `None` while other threads have all slots, and in a thread that is
    /// ending.
    #[inline]
    pub(crate) fn get() -> Option<Self> {
        Self::taken().or_else(Self::ask)
    }

    /// The slot of this thread if it has taken one. Makes no call.
    #[inline]
    pub(crate) fn taken() -> Option<Self> {
        let index = MINE.with(Cell::get);
        (index < SLOTS).then_some(Self {
            index,
            _here: PhantomData,
        })
    }

    #[cold]
    fn ask() -> Option<Self> {
        if gives_back() {
            let lowest_free = |taken: u64| {
                let index = taken.trailing_ones();
                ((index as usize) < SLOTS).then(|| {
                    fault!(SlotTakenTwice, return taken);
                    taken | 1 << index
                })
            };
            let taken = TAKEN.fetch_update(Ordering::Acquire, Ordering::Relaxed, lowest_free);
            let index = taken.map_or(NONE, |before| before.trailing_ones() as usize);
            MINE.with(|mine| mine.set(index));
        }
        Self::taken()
    }

    /// The slot's number, below [`SLOTS`].
    #[inline]
    pub(crate) fn index(self) -> usize {
        self.index
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::sync::mpsc::{Sender, channel};
    use std::thread;

    use super::*;

    /// Otherwise a pool that ends idle threads and starts new ones would run out of slots one day.
    #[test]
    fn slot_of_an_ended_thread_is_reused() {
        let has_slot = || thread::spawn(|| OwnSlot::get().is_some()).join().unwrap();
        let had = (0..4 * SLOTS).filter(|_| has_slot()).count();
        assert!(had > SLOTS, "{had} of {}", 4 * SLOTS);
    }

    #[test]
    fn live_threads_have_slots_of_their_own() {
        let (send, asked) = channel();
        thread::scope(|scope| {
            for _ in 0..2 * SLOTS {
                let send = send.clone();
                scope.spawn(move || {
                    let index = || OwnSlot::get().map(OwnSlot::index);
                    let (first, again) = (index(), index());
                    assert!(first.is_none() || first == again, "kept");
                    let (go_on, until) = channel::<()>();
                    send.send((again, go_on)).unwrap();
                    // Until every thread has asked for a slot.
                    assert!(until.recv().is_err());
                });
            }
            let asked: Vec<_> = asked.iter().take(2 * SLOTS).collect();
            let mut taken: Vec<_> = asked.iter().filter_map(|(index, _)| *index).collect();
            let count = taken.len();
            taken.sort_unstable();
            taken.dedup();
            assert_eq!(taken.len(), count);
            assert!(count <= SLOTS);
        });
    }

    /// Asks for a slot when it is dropped.
    struct Late(RefCell<Option<Sender<bool>>>);

    impl Drop for Late {
        fn drop(&mut self) {
            if let Some(send) = self.0.take() {
                send.send(OwnSlot::get().is_some()).unwrap();
            }
        }
    }

    thread_local! {
        static LATE: Late = const { Late(RefCell::new(None)) };
    }

    /// By then, its number may belong to another thread.
    #[test]
    fn thread_that_ends_gets_no_slot() {
        let (send, late) = channel();
        let ending = thread::spawn(move || {
            LATE.with(|late| late.0.replace(Some(send)));
            OwnSlot::get();
        });
        ending.join().unwrap();
        assert!(!late.recv().unwrap());
    }
}
