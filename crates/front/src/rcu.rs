//! Values that many threads read without waiting and few replace (read-copy-update).
//!
//! A lookup in a filter does a dozen loads, which the processor overlaps with those of the next
//! lookup. One locked instruction, as any reference count or hazard pointer needs, ends the
//! overlap: it waits for all of those loads. So a reader here only stores to a slot of its own
//! thread, and the writer pays. The writer swaps the value, makes every running thread pass a
//! barrier (`membarrier(2)`), and waits until it has seen each slot idle. Then it drops the old
//! value.
//!
//! ```text
//! reader   slot = busy;  (compiler barrier)   load value;  use it;   slot = idle
//! writer   swap value;   (barrier everywhere) wait for slot == idle; drop the old value
//! ```
//!
//! *Invariant.* Either the writer's wait sees the slot busy, or the reader's load sees the new
//! value. The two barriers guarantee it: they order the reader's store before its load, and the
//! writer's swap before its check of the slot (Dekker). If the system has no such barrier, readers
//! pay for a fence. The invariant holds for every load while the slot is busy, so one read may use
//! several values.
//!
//! Threads that find all slots taken share two counters and pay for atomic additions. A read must
//! be short and must not wait for a writer. Reads may nest.

#![expect(
    unsafe_code,
    reason = "a reference outlives the load that made it; proved above"
)]

use std::marker::PhantomData;
use std::sync::Once;
use std::sync::atomic::{AtomicBool, compiler_fence};

use crate::fault::fault;
use crate::reach::reached;
use crate::sync::atomic::{AtomicPtr, AtomicU32, AtomicUsize, Ordering, fence};
use crate::sync::{Mutex, unpoisoned, yield_now};
use crate::threads::{OwnSlot, SLOTS};

/// All readers of the process announce their reads here. There is only one such place, so a read
/// needs no pointer to it. A writer also waits for reads of other values; they are as short as
/// those of its own.
#[derive(Debug)]
struct Readers {
    slots: [Slot; SLOTS],
    crowd: Crowd,
}

#[cfg(not(interleave))]
static READERS: Readers = Readers {
    slots: [const { Slot(AtomicU32::new(FENCED)) }; SLOTS],
    crowd: Crowd {
        sides: [const { Slot(AtomicU32::new(0)) }; 2],
        side: AtomicUsize::new(0),
        turning: Mutex::new(()),
    },
};
#[cfg(interleave)]
crate::sync::lazy_static! {
    static ref READERS: Readers = Readers {
        slots: std::array::from_fn(|_| Slot(AtomicU32::new(FENCED))),
        crowd: Crowd {
            sides: std::array::from_fn(|_| Slot(AtomicU32::new(0))),
            side: AtomicUsize::new(0),
            turning: Mutex::new(()),
        },
    };
}

/// Number of reads that one thread has under way, and [`FENCED`]. Only this thread writes the cache
/// line.
#[derive(Debug)]
#[repr(align(128))]
struct Slot(AtomicU32);

/// Bit in a slot: its thread pays for a fence, until it finds that the writer pays for both sides.
const FENCED: u32 = 1 << 31;

impl Readers {
    /// Begins a read with a single store. `None` if the thread is reading already or has to pay for
    /// a fence.
    #[inline]
    fn try_read(&'static self, own: OwnSlot) -> Option<Reading> {
        let slot = &self.slots[own.index()].0;
        if slot.load(Ordering::Relaxed) != 0 {
            return None;
        }
        // Stores a constant and not a sum: the previous lookup may still be waiting for its own
        // store to this slot.
        slot.store(1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        Some(Reading::own(slot, 0))
    }

    /// Begins a read.
    #[cold]
    fn read(&'static self) -> Reading {
        reached!(ReadWithoutSlot);
        let Some(own) = OwnSlot::get() else {
            let side = self.crowd.enter().stay();
            return Reading::shared(&self.crowd.sides[side].0);
        };
        let slot = &self.slots[own.index()].0;
        let mut before = slot.load(Ordering::Relaxed);
        if before == FENCED && WRITER_PAYS.load(Ordering::Relaxed) {
            before = 0;
        }
        slot.store(before + 1, Ordering::Relaxed);
        if before & FENCED == 0 {
            compiler_fence(Ordering::SeqCst);
        } else {
            fence(Ordering::SeqCst);
        }
        Reading::own(slot, before)
    }

    /// Waits until every read that began before is over. False if the system cannot tell.
    fn wait(&self) -> bool {
        fault!(WriterDoesNotWait, return true);
        if !heavy_barrier() {
            return false;
        }
        for slot in &self.slots {
            wait_until_idle(&slot.0);
        }
        self.crowd.wait();
        true
    }
}

/// The readers without a slot of their own. Each counts itself on the current side. A writer
/// switches to the other side and waits until the one it left is empty, twice, so that a stream of
/// new readers never keeps it waiting. A reader that counts itself on a side after the writer has
/// found it empty comes after the writer's swap, so it loads the new value.
///
/// Code that waits for entries however long they last has a crowd of its own.
#[derive(Debug)]
pub(crate) struct Crowd {
    sides: [Slot; 2],
    side: AtomicUsize,
    turning: Mutex<()>,
}

impl Default for Crowd {
    fn default() -> Self {
        Self {
            sides: std::array::from_fn(|_| Slot(AtomicU32::new(0))),
            side: AtomicUsize::new(0),
            turning: Mutex::new(()),
        }
    }
}

impl Crowd {
    /// Enters until the result is dropped. Each [`Crowd::wait`] waits for this entry, unless the
    /// entry sees all that was published before that wait.
    pub(crate) fn enter(&self) -> Entered<'_> {
        let side = self.side.load(Ordering::SeqCst);
        self.sides[side].0.fetch_add(1, Ordering::SeqCst);
        // An atomic addition does not order later loads from other addresses.
        fence(Ordering::SeqCst);
        self.entered(side)
    }

    /// What [`Entered::stay`] left here.
    pub(crate) fn entered(&self, side: usize) -> Entered<'_> {
        Entered { crowd: self, side }
    }

    /// Waits until all that entered before have left.
    pub(crate) fn wait(&self) {
        let _one_at_a_time = unpoisoned(self.turning.lock());
        for _ in 0..2 {
            let left = self.side.fetch_xor(1, Ordering::SeqCst);
            wait_until_idle(&self.sides[left].0);
            fault!(SidesSwitchedOnce, break);
        }
    }
}

/// One in a crowd.
#[derive(Debug)]
pub(crate) struct Entered<'c> {
    crowd: &'c Crowd,
    side: usize,
}

impl Entered<'_> {
    /// Stays in the crowd, on this side, until [`Crowd::entered`] takes it out again.
    pub(crate) fn stay(self) -> usize {
        let side = self.side;
        std::mem::forget(self);
        side
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.crowd.sides[self.side].0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn wait_until_idle(slot: &AtomicU32) {
    while slot.load(Ordering::SeqCst) & !FENCED > 0 {
        reached!(ReaderAwaited);
        yield_now();
    }
}

/// A read under way. Values loaded under it live until it is dropped. It stays on its thread.
#[derive(Debug)]
pub struct Reading {
    slot: &'static AtomicU32,
    /// The value to restore; `None` in the crowd, where other threads count in the same slot.
    before: Option<u32>,
    _here: PhantomData<*const ()>,
}

impl Reading {
    /// Begins a read.
    #[inline]
    pub(crate) fn begin() -> Self {
        let at_once = OwnSlot::get().and_then(Self::try_begin);
        at_once.unwrap_or_else(|| READERS.read())
    }

    /// [`Reading::begin`] if it needs neither a call nor a fence; `None` otherwise, as in a nested
    /// read.
    #[inline]
    pub(crate) fn try_begin(own: OwnSlot) -> Option<Self> {
        READERS.try_read(own)
    }

    #[inline]
    fn own(slot: &'static AtomicU32, before: u32) -> Self {
        Self {
            slot,
            before: Some(before),
            _here: PhantomData,
        }
    }

    #[cold]
    fn shared(slot: &'static AtomicU32) -> Self {
        Self {
            slot,
            before: None,
            _here: PhantomData,
        }
    }
}

impl Drop for Reading {
    #[inline]
    fn drop(&mut self) {
        match self.before {
            Some(before) => self.slot.store(before, Ordering::Release),
            None => _ = self.slot.fetch_sub(1, Ordering::Release),
        }
    }
}

/// A value that can be replaced while it is read.
#[derive(Debug)]
pub struct Published<T> {
    current: AtomicPtr<T>,
    /// For the compiler: dropping this drops a `T`.
    _owns: PhantomData<Box<T>>,
}

impl<T: Send + Sync> Published<T> {
    pub fn new(value: T) -> Self {
        prepare_barriers();
        let current = AtomicPtr::new(Box::into_raw(Box::new(value)));
        Self {
            current,
            _owns: PhantomData,
        }
    }

    /// Calls `read` with the current value. `read` must be short and publish nothing.
    #[inline]
    pub fn with<R>(&self, read: impl FnOnce(&T) -> R) -> R {
        // Only one call of `read`, however the read begins, so that it is inlined into the caller.
        read(self.get(&Reading::begin()))
    }

    /// The current value, for as long as the read is under way.
    #[inline]
    pub(crate) fn get<'r>(&'r self, _under: &'r Reading) -> &'r T {
        // SAFETY: the pointer came from a box; the writer that replaces it frees the box only
        // after this read is over, as the invariant at the top says.
        unsafe { &*self.current.load(Ordering::Acquire) }
    }

    /// Replaces the value and drops the old one once no read uses it: true. If the system can no
    /// longer tell, the old value is never dropped: memory is lost, but no read.
    pub fn publish(&self, value: T) -> bool {
        let old = self
            .current
            .swap(Box::into_raw(Box::new(value)), Ordering::AcqRel);
        let mut reads_are_over = READERS.wait();
        fault!(DroppedWithoutBarrier, reads_are_over = true);
        if reads_are_over {
            // SAFETY: it came from a box, is no longer current, and every read that may have seen
            // it is over.
            drop(unsafe { Box::from_raw(old) });
        }
        reads_are_over
    }
}

impl<T> Drop for Published<T> {
    fn drop(&mut self) {
        let last = self.current.load(Ordering::Relaxed);
        // SAFETY: it came from a box, and `&mut self` says that nobody reads or replaces it.
        drop(unsafe { Box::from_raw(last) });
    }
}

/// Whether the system lets the writer pay for both sides.
static WRITER_PAYS: AtomicBool = AtomicBool::new(false);

/// Asks the system once. Readers that begin before it agrees pay for the full fence.
fn prepare_barriers() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let agreed = barriers::register() && barriers::everywhere();
        WRITER_PAYS.store(agreed, Ordering::SeqCst);
    });
}

/// Whether the system tells when the reads of a value that is replaced now are over. If not, each
/// replacement leaves the old value in memory.
pub(crate) fn tells_when_reads_end() -> bool {
    heavy_barrier()
}

/// False if the system refuses, although it agreed at the start: a sandbox set up later may do
/// that.
fn heavy_barrier() -> bool {
    fence(Ordering::SeqCst);
    !WRITER_PAYS.load(Ordering::SeqCst) || barriers::everywhere()
}

#[cfg(all(target_os = "linux", not(miri), not(interleave)))]
mod barriers {
    use rustix::thread::{MembarrierCommand, membarrier};

    pub(super) fn register() -> bool {
        membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
    }

    /// Makes every running thread of this process pass a full barrier.
    pub(super) fn everywhere() -> bool {
        membarrier(MembarrierCommand::PrivateExpedited).is_ok()
    }
}

/// Other systems have no such barrier, and neither Miri nor a checker models one: both sides pay
/// for a fence.
#[cfg(not(all(target_os = "linux", not(miri), not(interleave))))]
mod barriers {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn everywhere() -> bool {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Notes in `alive`, which outlives it, whether it has been dropped.
    struct Canary<'a> {
        alive: &'a AtomicBool,
    }

    impl<'a> Canary<'a> {
        fn new(alive: &'a AtomicBool) -> Self {
            alive.store(true, Ordering::SeqCst);
            Self { alive }
        }
    }

    impl Drop for Canary<'_> {
        fn drop(&mut self) {
            self.alive.store(false, Ordering::SeqCst);
        }
    }

    fn read_while_replacing(readers: usize, replacements: usize) {
        let perches: Vec<AtomicBool> = (0..=replacements).map(|_| AtomicBool::new(false)).collect();
        let living = || perches.iter().filter(|p| p.load(Ordering::SeqCst)).count();
        let value = Published::new(Canary::new(&perches[0]));
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..readers {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        value.with(|outer| {
                            let alive = outer.alive;
                            value.with(|inner| assert!(inner.alive.load(Ordering::SeqCst)));
                            // Gives the writer a chance to drop the value that is being read.
                            std::thread::yield_now();
                            assert!(alive.load(Ordering::SeqCst), "dropped under a reader");
                        });
                        // More threads than cores: let the writer have its turn.
                        std::thread::sleep(std::time::Duration::from_micros(100));
                    }
                });
            }
            for perch in &perches[1..] {
                value.publish(Canary::new(perch));
                assert_eq!(living(), 1);
            }
            done.store(true, Ordering::Relaxed);
        });
        drop(value);
        assert_eq!(living(), 0);
    }

    #[test]
    fn no_reader_sees_a_dropped_value() {
        read_while_replacing(3, if cfg!(miri) { 30 } else { 500 });
    }

    #[test]
    fn more_readers_than_slots_are_waited_for_too() {
        read_while_replacing(SLOTS + 6, 20);
    }

    /// Makes the system refuse a call to this thread, as a sandbox does.
    #[cfg(all(target_os = "linux", not(miri), not(interleave)))]
    fn forbid(call: std::ffi::c_long) -> std::io::Result<()> {
        // Codes that <linux/filter.h> combines from parts.
        const LOAD: u16 = 0x20;
        const SKIP_UNLESS: u16 = 0x15;
        const RETURN: u16 = 0x06;
        let step = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
        let mut steps = [
            // The call's number comes first in the data that a filter gets.
            step(LOAD, 0, 0),
            step(SKIP_UNLESS, 1, call as u32),
            step(RETURN, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM as u32),
            step(RETURN, 0, libc::SECCOMP_RET_ALLOW),
        ];
        let filter = libc::sock_fprog {
            len: steps.len() as u16,
            filter: steps.as_mut_ptr(),
        };
        rustix::thread::set_no_new_privs(true)?;
        let mode = std::ffi::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        // SAFETY: the kernel copies the filter and its steps, which live through the call.
        let result = unsafe { libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const filter) };
        if result == 0 {
            Ok(())
        } else {
            Err(std::io::Error::last_os_error())
        }
    }

    /// A sandbox may be set up after the start. Then no one can tell who reads the old value.
    #[cfg(all(target_os = "linux", not(miri), not(interleave)))]
    #[test]
    fn a_value_stays_where_the_system_refuses_the_barrier() {
        let [old, new] = [const { AtomicBool::new(false) }; 2];
        let value = Published::new(Canary::new(&old));
        let kept = value.current.load(Ordering::Relaxed);
        if !WRITER_PAYS.load(Ordering::SeqCst) {
            eprintln!("skipped: this system has no such barrier");
            return;
        }
        let forbidden = std::thread::scope(|scope| {
            let sandboxed = scope.spawn(|| {
                assert!(tells_when_reads_end());
                forbid(libc::SYS_membarrier)?;
                assert!(!tells_when_reads_end());
                value.publish(Canary::new(&new));
                Ok::<(), std::io::Error>(())
            });
            sandboxed.join().unwrap()
        });
        if let Err(error) = forbidden {
            eprintln!("skipped: no sandbox can be put up: {error}");
            return;
        }
        assert!(new.load(Ordering::SeqCst));
        assert!(old.load(Ordering::SeqCst), "it may still be read");
        // SAFETY: it came from a box that the writer gave up; nobody reads it.
        drop(unsafe { Box::from_raw(kept) });
    }

    #[test]
    fn reads_nest() {
        let value = Published::new(7);
        assert_eq!(value.with(|outer| value.with(|inner| outer + inner)), 14);
    }
}
