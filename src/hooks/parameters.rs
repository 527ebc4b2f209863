//! What the hooks take, made of what C++ passes.

use std::sync::Arc;

use crate::format::PrefixId;
use crate::hash::KeyHash;
use crate::hooks::abi::{self, Slice};
use crate::hooks::listener::Listener;
use crate::hooks::sieve::Sieve;
use lsm_sieve_front::cf_filter::CfFilter;
use lsm_sieve_front::intake::Insertion;
use lsm_sieve_front::intake::{SegmentFilterBuild, SegmentOrigin};
use lsm_sieve_front::segment::Segment;

/// A parameter of a hook.
pub(super) trait Parameter {
    /// What C++ passes for it.
    type C;

    /// # Safety
    /// C++ passed it, as `abi.h` promises, in the call in which the parameter is used.
    unsafe fn of(passed: Self::C) -> Self;
}

/// An object of Rust that C++ has a pointer to.
pub(super) trait Object {
    type Opaque;
}

macro_rules! objects {
    ($($object:ident),*) => {
        $(impl Object for $object {
            type Opaque = abi::$object;
        })*
    };
}

objects!(
    CfFilter,
    SegmentFilterBuild,
    Segment,
    PrefixId,
    Listener,
    Sieve
);

impl<T: Object> Parameter for &T {
    type C = *mut T::Opaque;

    unsafe fn of(passed: Self::C) -> Self {
        debug_assert!(!passed.is_null());
        // SAFETY: C++ holds a reference on it, or nobody else uses it.
        unsafe { &*passed.cast::<T>() }
    }
}

impl<T: Object> Parameter for &mut T {
    type C = *mut T::Opaque;

    unsafe fn of(passed: Self::C) -> Self {
        debug_assert!(!passed.is_null());
        // SAFETY: one thread at a time has it.
        unsafe { &mut *passed.cast::<T>() }
    }
}

/// A reference that C++ gives up.
impl<T: Object> Parameter for Arc<T> {
    type C = *mut T::Opaque;

    unsafe fn of(passed: Self::C) -> Self {
        // SAFETY: it came out of `Arc::into_raw`, and C++ uses it no more.
        unsafe { Self::from_raw(passed.cast::<T>()) }
    }
}

/// An object that C++ gives up.
impl<T: Object> Parameter for Box<T> {
    type C = *mut T::Opaque;

    unsafe fn of(passed: Self::C) -> Self {
        // SAFETY: it came out of `Box::into_raw`, and C++ uses it no more.
        unsafe { Self::from_raw(passed.cast::<T>()) }
    }
}

impl<O, P: Parameter<C = *mut O>> Parameter for Option<P> {
    type C = *mut O;

    unsafe fn of(passed: *mut O) -> Self {
        // SAFETY: it is not null.
        (!passed.is_null()).then(|| unsafe { P::of(passed) })
    }
}

impl Parameter for &[u8] {
    type C = Slice;

    unsafe fn of(passed: Slice) -> Self {
        // SAFETY: its bytes outlive the call.
        unsafe { passed.bytes() }
    }
}

macro_rules! passed_as_they_are {
    ($($type:ty $(where $t:ident)?;)*) => { $(
        impl$(<$t>)? Parameter for $type {
            type C = Self;

            unsafe fn of(passed: Self) -> Self {
                passed
            }
        }
    )* };
}

passed_as_they_are! {
    bool;
    u32;
    u64;
    usize;
    *const T where T;
    *mut T where T;
    abi::Span;
    abi::Take;
    abi::TakeExtractor;
    abi::Read;
    abi::ReadMany;
    abi::Run;
    abi::CreateCfs;
    abi::DropCfs;
}

impl Parameter for SegmentOrigin {
    type C = abi::TableOrigin;

    unsafe fn of(passed: abi::TableOrigin) -> Self {
        match passed {
            abi::TableOrigin::Unknown => Self::Unknown,
            abi::TableOrigin::Memtables => Self::Memtables,
            abi::TableOrigin::Tables => Self::Segments,
        }
    }
}

const NO_CROWD: u64 = u64::MAX;

impl From<Insertion> for abi::Insertion {
    fn from(insertion: Insertion) -> Self {
        let (hash, crowd_side) = insertion.into_parts();
        let crowd_side = crowd_side.map_or(NO_CROWD, |side| side as u64);
        Self {
            hash: hash.get(),
            crowd_side,
        }
    }
}

impl Parameter for Insertion {
    type C = abi::Insertion;

    unsafe fn of(passed: abi::Insertion) -> Self {
        let crowd_side = (passed.crowd_side != NO_CROWD).then_some(passed.crowd_side as usize);
        Self::from_parts(KeyHash::new(passed.hash), crowd_side)
    }
}
