//! What crosses between C++ and Rust: the types that `shim/abi.h` declares, and how the parameters of
//! a hook are made of them.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use librocksdb_sys::rocksdb_options_t;

use crate::hash::KeyHash;
use crate::hooks::listener::Listener;
use crate::hooks::raw::Slice;
use crate::hooks::sieve::Sieve;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::intake;
use lsm_sieve_front::segment::Segment;
use lsm_sieve_front::segment_filter_build::{self, SegmentFilterBuild};

use crate::format::PrefixId;

include!(concat!(env!("OUT_DIR"), "/abi.rs"));

/// What a hook takes, and what C++ passes for it.
pub(super) trait Parameter {
    type C;

    /// # Safety
    /// C++ passed it, as `abi.h` promises, in the call in which the parameter is used.
    unsafe fn of(passed: Self::C) -> Self;
}

impl<T> Parameter for &T {
    type C = *mut T;

    unsafe fn of(passed: *mut T) -> Self {
        debug_assert!(!passed.is_null());
        // SAFETY: C++ holds a reference on it, or nobody else uses it.
        unsafe { &*passed }
    }
}

impl<T> Parameter for &mut T {
    type C = *mut T;

    unsafe fn of(passed: *mut T) -> Self {
        debug_assert!(!passed.is_null());
        // SAFETY: one thread at a time has it.
        unsafe { &mut *passed }
    }
}

impl<T> Parameter for Option<&T> {
    type C = *mut T;

    unsafe fn of(passed: *mut T) -> Self {
        // SAFETY: null, or C++ holds a reference on it.
        unsafe { passed.as_ref() }
    }
}

/// A reference that C++ gives up.
impl<T> Parameter for Arc<T> {
    type C = *mut T;

    unsafe fn of(passed: *mut T) -> Self {
        // SAFETY: it came out of `Arc::into_raw`, and C++ uses it no more.
        unsafe { Self::from_raw(passed) }
    }
}

impl<T> Parameter for Option<Arc<T>> {
    type C = *mut T;

    unsafe fn of(passed: *mut T) -> Self {
        // SAFETY: null, or as above.
        (!passed.is_null()).then(|| unsafe { Arc::from_raw(passed) })
    }
}

/// An object that C++ gives up.
impl<T> Parameter for Box<T> {
    type C = *mut T;

    unsafe fn of(passed: *mut T) -> Self {
        // SAFETY: it came out of `Box::into_raw`, and C++ uses it no more.
        unsafe { Self::from_raw(passed) }
    }
}

impl Parameter for &[u8] {
    type C = Slice;

    unsafe fn of(passed: Slice) -> Self {
        // SAFETY: its bytes outlive the call.
        unsafe { passed.bytes() }
    }
}

impl<T> Parameter for *const T {
    type C = Self;

    unsafe fn of(passed: Self) -> Self {
        passed
    }
}

impl<T> Parameter for *mut T {
    type C = Self;

    unsafe fn of(passed: Self) -> Self {
        passed
    }
}

macro_rules! passed_as_they_are {
    ($($type:ty),* $(,)?) => { $(
        impl Parameter for $type {
            type C = Self;

            unsafe fn of(passed: Self) -> Self {
                passed
            }
        }
    )* };
}

passed_as_they_are!(bool, u32, u64, usize, Span);
passed_as_they_are!(TakeExtractor, Read, ReadMany, Run, Take, CreateCfs, DropCfs);

impl Parameter for segment_filter_build::TableOrigin {
    type C = TableOrigin;

    unsafe fn of(passed: TableOrigin) -> Self {
        match passed {
            TableOrigin::Unknown => Self::Unknown,
            TableOrigin::Memtables => Self::Memtables,
            TableOrigin::Tables => Self::Tables,
        }
    }
}

const NO_SIDE: u64 = u64::MAX;

impl From<intake::Insertion> for Insertion {
    fn from(insertion: intake::Insertion) -> Self {
        let (hash, side) = insertion.into_parts();
        Self {
            hash: hash.get(),
            side: side.map_or(NO_SIDE, |side| side as u64),
        }
    }
}

impl Parameter for intake::Insertion {
    type C = Insertion;

    unsafe fn of(passed: Insertion) -> Self {
        let side = (passed.side != NO_SIDE).then_some(passed.side as usize);
        Self::from_parts(KeyHash::new(passed.hash), side)
    }
}

impl Found {
    /// Nothing, a value, or an error, which only the engine's caller learns.
    pub(super) fn result(self) -> Result<Option<()>, ()> {
        match self {
            Self::Value => Ok(Some(())),
            Self::Nothing => Ok(None),
            Self::Error => Err(()),
        }
    }
}
