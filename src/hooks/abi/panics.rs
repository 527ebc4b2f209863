//! Hooks that panic, for tests.

use std::cell::Cell;

thread_local! {
    /// How many hooks of this thread run before one panics.
    static DUE_AFTER: Cell<Option<u32>> = const { Cell::new(None) };
}

pub(super) fn begin_hook() {
    let due = DUE_AFTER.get();
    DUE_AFTER.set(due.and_then(|hooks| hooks.checked_sub(1)));
    assert_ne!(due, Some(0), "a hook that fails, for a test");
}

/// Makes the hook panic that runs after `after` others, while `work` runs; returns whether one
/// did.
pub(crate) fn with_a_panic<R>(after: u32, work: impl FnOnce() -> R) -> (R, bool) {
    DUE_AFTER.set(Some(after));
    let result = work();
    (result, DUE_AFTER.take().is_none())
}
