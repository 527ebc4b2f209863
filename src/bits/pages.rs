//! Lines of memory, many of them on large pages.
//!
//! A look-up touches one random line, so with 4-KiB pages most look-ups in a large filter also miss
//! the processor's address cache, and under a hypervisor that costs more than the line. The system
//! is asked for 2-MiB pages; it may refuse, and then nothing has changed.
//!
//! ```text
//! reserved  |......|=================== lines ===================|..|....|
//! pages            |        2 MiB        |        2 MiB             |
//! ```
//!
//! Lines begin with a page, so that all of them but the last few are on large ones. What is reserved before
//! and after is never touched: it takes addresses, and no memory. The last page takes its rest as well where it
//! is large, so it is only if that rest is little.

use std::collections::TryReserveError;
use std::mem::MaybeUninit;
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};

use super::words::Line;

/// Miri takes minutes to fill real ones.
const LARGE_PAGE: usize = if cfg!(miri) { 4 << 10 } else { 2 << 20 };
const LINES_A_PAGE: usize = LARGE_PAGE / size_of::<Line>();

/// The rest of a large page may be as much as one in so many of the lines.
const LINES_A_REST: usize = 16;

/// A fixed number of lines.
pub(super) struct Lines {
    /// Within `_memory`, and initialized.
    lines: NonNull<[Line]>,
    /// Of no length, so that it frees the memory and drops no line.
    _memory: Vec<Line>,
}

impl Lines {
    /// So many clear lines, or the refusal of the allocator.
    pub(super) fn zeroed(count: usize) -> Result<Self, TryReserveError> {
        let on_large = lines_on_large_pages(count);
        let to_align = if on_large == 0 { 0 } else { LINES_A_PAGE - 1 };
        let mut memory = Vec::new();
        memory.try_reserve_exact(count.max(on_large).saturating_add(to_align))?;
        let reserved = memory.spare_capacity_mut();
        // More than that would be a refusal to tell.
        let before = reserved.as_ptr().align_offset(LARGE_PAGE);
        let before = if before <= to_align { before } else { 0 };
        want_large_pages(&mut reserved[before..][..on_large]);
        Ok(Self::within(memory, before, count, Line::default))
    }

    /// One line.
    pub(super) fn one(line: impl FnMut() -> Line) -> Self {
        Self::within(Vec::with_capacity(1), 0, 1, line)
    }

    /// `count` lines of what is reserved in `memory`, after the first `before`.
    ///
    /// # Panics
    /// When that is less.
    fn within(
        mut memory: Vec<Line>,
        before: usize,
        count: usize,
        mut line: impl FnMut() -> Line,
    ) -> Self {
        memory.clear();
        let lines = &mut memory.spare_capacity_mut()[before..][..count];
        for place in &mut *lines {
            place.write(line());
        }
        let first = NonNull::from(lines).cast();
        Self {
            lines: NonNull::slice_from_raw_parts(first, count),
            _memory: memory,
        }
    }
}

impl Deref for Lines {
    type Target = [Line];

    #[inline]
    fn deref(&self) -> &[Line] {
        #[expect(unsafe_code, reason = "they are a part of a vector's reserve")]
        // SAFETY: they were initialized, live as long as the memory, which stays where it is, and are
        // borrowed as the whole is.
        unsafe {
            self.lines.as_ref()
        }
    }
}

impl DerefMut for Lines {
    #[inline]
    fn deref_mut(&mut self) -> &mut [Line] {
        #[expect(unsafe_code, reason = "they are a part of a vector's reserve")]
        // SAFETY: as above.
        unsafe {
            self.lines.as_mut()
        }
    }
}

impl Drop for Lines {
    fn drop(&mut self) {
        let lines: *mut [Line] = &mut **self;
        #[expect(unsafe_code, reason = "they are a part of a vector's reserve")]
        // SAFETY: nobody sees them again, and the vector does not know of them.
        unsafe {
            ptr::drop_in_place(lines);
        }
    }
}

#[expect(unsafe_code, reason = "a pointer is neither")]
// SAFETY: it points into memory of its own.
unsafe impl Send for Lines where Vec<Line>: Send {}

#[expect(unsafe_code, reason = "a pointer is neither")]
// SAFETY: it points into memory of its own.
unsafe impl Sync for Lines where Vec<Line>: Sync {}

/// How many lines' memory is to be on large pages, with the rest of the last one: from the first line on.
fn lines_on_large_pages(count: usize) -> usize {
    let (pages, left) = (count / LINES_A_PAGE, count % LINES_A_PAGE);
    let rest = LINES_A_PAGE - left;
    let rounded_up = left > 0 && rest <= count / LINES_A_REST;
    (pages + usize::from(rounded_up)).saturating_mul(LINES_A_PAGE)
}

/// Asks for large pages under memory that was reserved and not touched yet.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(unsafe_code, reason = "the system takes an address range")]
fn want_large_pages<T>(memory: &mut [MaybeUninit<T>]) {
    use rustix::mm::{Advice, madvise};

    let start = memory.as_mut_ptr();
    if memory.is_empty() || !start.addr().is_multiple_of(LARGE_PAGE) {
        return;
    }
    // SAFETY: the range is memory that is borrowed exclusively, and this advice changes none of its contents.
    // A refusal is as good.
    _ = unsafe { madvise(start.cast(), size_of_val(memory), Advice::LinuxHugepage) };
}

/// Others are not asked.
#[cfg(not(all(target_os = "linux", not(miri))))]
fn want_large_pages<T>(_memory: &mut [MaybeUninit<T>]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_page_is_large_where_its_rest_is_little() {
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
    fn lines_are_clear_and_apart_and_large_ones_begin_with_a_page() {
        for count in [
            0,
            1,
            LINES_A_PAGE - 1,
            3 * LINES_A_PAGE - 100,
            3 * LINES_A_PAGE + 1,
        ] {
            let mut lines = Lines::zeroed(count).unwrap();
            assert_eq!(lines.len(), count);
            assert!(lines.iter().step_by(999).all(|line| line.load() == [0; 8]));
            let at = lines.as_ptr().addr();
            assert!(count < LINES_A_PAGE - 1 || at.is_multiple_of(LARGE_PAGE));
            for (word, line) in (1..).zip(lines.iter_mut().step_by(999)) {
                line.set_alone(7, word);
            }
            // Moved, to another thread.
            let lines = std::thread::spawn(move || lines).join().unwrap();
            let mut written = (1..).zip(lines.iter().step_by(999));
            assert!(written.all(|(word, line)| line.word(7) == word));
        }
    }

    #[test]
    fn more_than_can_be_addressed_is_refused() {
        assert!(Lines::zeroed(usize::MAX).is_err());
        assert!(Lines::zeroed(usize::MAX / size_of::<Line>()).is_err());
    }
}
