//! RocksDB's prefix extractors, as functions for the filters.

use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::hooks::abi::{self, Slice};
use crate::hooks::options::AsOptions;
use lsm_sieve_front::prefix::{Extract, Prefix};

/// The prefix extractor in these options; `None` if there is none, or if its name is none for a
/// filter.
pub(crate) fn extractor(options: &impl AsOptions) -> Option<Prefix> {
    let mut name = String::new();
    let context = (&raw mut name).cast();
    // SAFETY: the options are live, and only read; `take_name` gets the string that it expects.
    let raw = unsafe { abi::lsm_sieve_extractor(options.raw(), context, take_name) };
    let extractor = Extractor(NonNull::new(raw)?);
    Prefix::of_engine(&name, Arc::new(extractor))
}

extern "C" fn take_name(context: *mut c_void, name: Slice) {
    // SAFETY: `extractor` passes its string, which nothing else touches during the call.
    let taken = unsafe { &mut *context.cast::<String>() };
    // SAFETY: the shim's name outlives this call.
    let name = unsafe { name.bytes() };
    *taken = String::from_utf8_lossy(name).into_owned();
}

/// A reference on RocksDB's object.
struct Extractor(NonNull<c_void>);

// SAFETY: RocksDB calls an extractor from any thread.
unsafe impl Send for Extractor {}
// SAFETY: as above.
unsafe impl Sync for Extractor {}

impl Extract for Extractor {
    fn length(&self, key: &[u8]) -> Option<usize> {
        // SAFETY: the object lives as long as `self`.
        let length = unsafe { abi::lsm_sieve_prefix_length(self.0.as_ptr(), Slice::of(key)) };
        Some(length).filter(|&length| length != usize::MAX)
    }

    fn is_of_all(&self, prefix: &[u8]) -> bool {
        // SAFETY: as above.
        unsafe { abi::lsm_sieve_is_prefix_of_all(self.0.as_ptr(), Slice::of(prefix)) }
    }
}

impl Drop for Extractor {
    fn drop(&mut self) {
        // SAFETY: the reference is ours, and used no more.
        unsafe { abi::lsm_sieve_extractor_release(self.0.as_ptr()) }
    }
}

#[cfg(test)]
mod tests {
    use rocksdb::{Options, SliceTransform};

    use super::*;

    fn behind(key: &[u8]) -> &[u8] {
        key.get(1..).unwrap_or_default()
    }

    /// A filter takes the first bytes of a key for its prefix, as many as the extractor gives: of
    /// others, a seek would be answered for keys that it does not ask for.
    #[test]
    fn a_part_of_a_key_that_it_does_not_begin_with_is_no_prefix() {
        let mut options = Options::default();
        options.set_prefix_extractor(SliceTransform::create("behind", behind, None));
        let prefix = extractor(&options).unwrap();
        assert_eq!(prefix.of(b"abc"), None);
        assert_eq!(prefix.of(b"aab"), None);
        // By chance.
        assert_eq!(prefix.of(b"aaa"), Some(&b"aa"[..]));
    }
}
