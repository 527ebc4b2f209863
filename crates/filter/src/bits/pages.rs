//! Cache lines in memory, most of them on large pages.
//!
//! A lookup touches one random line. With 4-KiB pages most lookups in a large filter also miss the
//! TLB, and under a hypervisor that costs more than the line. So the system is asked for 2-MiB
//! pages. It may refuse, which changes nothing.
//!
//! ```text
//! |=================== lines ===================|....|
//! |        2 MiB        |        2 MiB        | 2 MiB|
//! ```
//!
//! The lines begin at a page boundary, so that all of them except the last few are on large pages.
//! A large last page also takes up the memory after the last line, so it is large only if that rest
//! is small.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::TryReserveError;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use super::line::Line;

/// Small under Miri, which takes minutes to fill a real large page.
const LARGE_PAGE: usize = if cfg!(miri) { 4 << 10 } else { 2 << 20 };
const LINES_A_PAGE: usize = LARGE_PAGE / size_of::<Line>();

/// The unused rest of a large last page may be at most 1/16 of the lines.
const LINES_A_REST: usize = 16;

/// A fixed number of lines.
pub(super) struct Lines {
    /// The number of places that are initialized.
    count: usize,
    places: Places,
}

impl Lines {
    /// `count` lines, constructed in place one after the other, or the allocator's error.
    pub(super) fn filled(
        count: usize,
        mut line: impl FnMut() -> Line,
    ) -> Result<Self, TryReserveError> {
        let mut places = match Places::on_large_pages(count) {
            Some(places) => places,
            None => Places::anywhere(count)?,
        };
        let reserved = &mut places.reserved()[..count];
        reserved
            .iter_mut()
            .for_each(|place| _ = place.write(line()));
        Ok(Self { count, places })
    }

    /// A single line.
    pub(super) fn one(line: Line) -> Self {
        let mut places = Places::from(Vec::with_capacity(1));
        places.reserved()[0].write(line);
        Self { count: 1, places }
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        #[expect(unsafe_code, reason = "the allocator gives a pointer")]
        // SAFETY: `count` lines begin there and are initialized, and the borrow is that of their
        // memory.
        unsafe {
            slice::from_raw_parts(self.places.first.as_ptr(), self.count)
        }
    }
}

impl DerefMut for Lines {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Line] {
        #[expect(unsafe_code, reason = "the allocator gives a pointer")]
        // SAFETY: as above.
        unsafe {
            slice::from_raw_parts_mut(self.places.first.as_ptr(), self.count)
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let lines: *mut [Line] = &mut **self;
        #[expect(unsafe_code, reason = "the allocator gives a pointer")]
        // SAFETY: the lines are not used again.
        unsafe {
            ptr::drop_in_place(lines);
        }
    }
}

#[expect(unsafe_code, reason = "a pointer is neither")]
// SAFETY: it owns what the pointer points to.
unsafe impl Send for Lines where Vec<Line>: Send {}

#[expect(unsafe_code, reason = "a pointer is neither")]
// SAFETY: it owns what the pointer points to.
unsafe impl Sync for Lines where Vec<Line>: Sync {}

/// Memory for lines. Dropping it drops no line.
struct Places {
    first: NonNull<Line>,
    /// The layout that was allocated.
    layout: Layout,
}

impl Places {
    /// Memory for this many lines, aligned to a large page. `None` if they do not fill one, or if
    /// the allocation fails.
    fn on_large_pages(lines: usize) -> Option<Self> {
        let on_large = lines_on_large_pages(lines);
        if on_large == 0 {
            return None;
        }
        let layout = Layout::array::<Line>(lines.max(on_large)).ok()?;
        let layout = layout.align_to(LARGE_PAGE).ok()?;
        #[expect(unsafe_code, reason = "no vector begins with a page")]
        // SAFETY: the layout is not zero-sized.
        let first = NonNull::new(unsafe { alloc(layout) })?.cast();
        let mut places = Self { first, layout };
        want_large_pages(&mut places.reserved()[..on_large]);
        Some(places)
    }

    /// Memory for this many lines, or the allocator's error.
    fn anywhere(lines: usize) -> Result<Self, TryReserveError> {
        let mut reserve = Vec::new();
        reserve.try_reserve_exact(lines)?;
        Ok(reserve.into())
    }

    fn reserved(&mut self) -> &mut [MaybeUninit<Line>] {
        let lines = self.layout.size() / size_of::<Line>();
        #[expect(unsafe_code, reason = "the allocator gives a pointer")]
        // SAFETY: this much memory was allocated, and it need not be initialized.
        unsafe {
            slice::from_raw_parts_mut(self.first.as_ptr().cast(), lines)
        }
    }
}

impl From<Vec<Line>> for Places {
    /// The spare capacity of a vector.
    fn from(mut reserve: Vec<Line>) -> Self {
        reserve.clear();
        let mut reserve = ManuallyDrop::new(reserve);
        let layout = Layout::array::<Line>(reserve.capacity());
        Self {
            first: NonNull::from(reserve.spare_capacity_mut()).cast(),
            layout: layout.expect("a vector has no more"),
        }
    }
}

impl Drop for Places {
    fn drop(&mut self) {
        if self.layout.size() > 0 {
            #[expect(unsafe_code, reason = "no vector begins with a page")]
            // SAFETY: it was allocated with this layout.
            unsafe {
                dealloc(self.first.as_ptr().cast(), self.layout);
            }
        }
    }
}

/// The number of lines, from the first on, whose memory is to be on large pages; includes the
/// unused rest of the last page.
fn lines_on_large_pages(count: usize) -> usize {
    let (pages, left) = (count / LINES_A_PAGE, count % LINES_A_PAGE);
    let rest = LINES_A_PAGE - left;
    let rounded_up = left > 0 && rest <= count / LINES_A_REST;
    (pages + usize::from(rounded_up)).saturating_mul(LINES_A_PAGE)
}

/// Asks for large pages under whole pages that were reserved and not touched yet.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "the system takes an address range")]
fn want_large_pages(places: &mut [MaybeUninit<Line>]) {
    use rustix::mm::{Advice, madvise};

    let start = places.as_mut_ptr().cast();
    // SAFETY: the range is memory that is borrowed exclusively, and this advice changes none of its
    // contents. A refusal does no harm.
    _ = unsafe { madvise(start, size_of_val(places), Advice::LinuxHugepage) };
}

/// Other systems are not asked.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn want_large_pages(_places: &mut [MaybeUninit<Line>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_page_is_large_if_little_of_it_is_unused() {
        let page = LINES_A_PAGE;
        for (lines, on_large) in [
            (0, 0),
            (1, 0),
            (page / 2, 0),
            (page - 1, page),
            (page, page),
            (page + 1, page),
            (3 * page - page / 8, 3 * page),
            (3 * page - page / 4, 2 * page),
            (100 * page + 1, 101 * page),
        ] {
            assert_eq!(lines_on_large_pages(lines), on_large, "{lines} lines");
            assert!(on_large <= lines + lines / LINES_A_REST);
        }
    }

    #[test]
    fn lines_are_zeroed_disjoint_and_page_aligned() {
        for count in [
            0,
            1,
            LINES_A_PAGE - 1,
            3 * LINES_A_PAGE - 100,
            3 * LINES_A_PAGE + 1,
        ] {
            let mut lines = Lines::filled(count, Line::default).unwrap();
            assert_eq!(lines.len(), count);
            assert!(lines.iter().step_by(999).all(|line| line.load() == [0; 8]));
            let at = lines.as_ptr().addr();
            assert!(count < LINES_A_PAGE - 1 || at.is_multiple_of(LARGE_PAGE));
            for (word, line) in (1..).zip(lines.iter_mut().step_by(999)) {
                line.set_alone(7, word);
            }
            // Moved to another thread.
            let lines = std::thread::spawn(move || lines).join().unwrap();
            let mut written = (1..).zip(lines.iter().step_by(999));
            assert!(written.all(|(word, line)| line.word(7) == word));
        }
    }

    #[test]
    fn allocation_beyond_the_address_space_is_refused() {
        assert!(Lines::filled(usize::MAX, Line::default).is_err());
        assert!(Lines::filled(usize::MAX / size_of::<Line>(), Line::default).is_err());
    }

    #[test]
    #[cfg_attr(miri, ignore = "it gives up")]
    fn allocation_beyond_memory_is_refused() {
        let addressed = isize::MAX as usize / size_of::<Line>();
        assert!(Lines::filled(addressed, Line::default).is_err());
    }
}
