//! Atomics and locks under one name, so that a checker of interleavings can replace them.
//!
//! ```text
//! cargo build                       the standard library's, and nothing else
//! --cfg interleave="loom"           loom's: each interleaving, each value that a load may yield
//! --cfg interleave="shuttle"        shuttle's: a random choice of very many, one total order
//! ```
//!
//! Both also need a bare `--cfg interleave`; `make interleave` sets them. Counters, and values set
//! once per process, always use the standard library.

#[cfg(interleave = "loom")]
use loom as checker;
#[cfg(interleave = "shuttle")]
use shuttle as checker;

use std::sync::LockResult;

pub use std::sync::PoisonError;

#[cfg(not(interleave))]
pub use std::sync::Condvar;
#[cfg(not(interleave))]
pub use std::sync::{Mutex, MutexGuard, OnceLock};
#[cfg(not(interleave))]
pub use std::thread::yield_now;

#[cfg(interleave)]
pub use checker::sync::Condvar;
#[cfg(interleave)]
pub use checker::sync::{Mutex, MutexGuard};
#[cfg(interleave)]
pub use checker::thread::yield_now;
#[cfg(interleave)]
pub use checker::{lazy_static, thread_local};
#[cfg(interleave)]
pub use once::OnceLock;

pub mod atomic {
    #[cfg(interleave)]
    pub use super::checker::sync::atomic::{
        AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence,
    };
    pub use std::sync::atomic::Ordering;
    #[cfg(not(interleave))]
    pub use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, fence};
}

/// The guard of a lock, even if a thread panicked while it held the lock. Each value behind a lock
/// of these crates is consistent between operations, so a panic does not invalidate it.
pub fn unpoisoned<G>(locked: LockResult<G>) -> G {
    locked.unwrap_or_else(PoisonError::into_inner)
}

/// `OnceLock`, which neither checker has.
#[cfg(interleave)]
mod once {
    use super::atomic::{AtomicBool, Ordering};

    /// A cell that is filled once, by one thread at a time. A thread that acquires the full flag
    /// also sees the value.
    #[derive(Debug)]
    pub struct OnceLock<T> {
        full: AtomicBool,
        value: std::sync::OnceLock<T>,
    }

    impl<T> OnceLock<T> {
        pub fn new() -> Self {
            Self {
                full: AtomicBool::new(false),
                value: std::sync::OnceLock::new(),
            }
        }

        pub fn get(&self) -> Option<&T> {
            if self.full.load(Ordering::Acquire) {
                self.value.get()
            } else {
                None
            }
        }

        pub fn get_or_init(&self, value: impl FnOnce() -> T) -> &T {
            let value = self.value.get_or_init(value);
            self.full.store(true, Ordering::Release);
            value
        }

        pub fn into_inner(self) -> Option<T> {
            self.value.into_inner()
        }
    }

    impl<T> From<T> for OnceLock<T> {
        fn from(value: T) -> Self {
            Self {
                full: AtomicBool::new(true),
                value: value.into(),
            }
        }
    }
}
