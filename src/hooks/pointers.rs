//! The pointers to RocksDB's objects that the binding's types hold. Not every version of the binding
//! gives them away, so they are found: the place of one is proved once for each process, on an object
//! that has a value nobody else has set.

use std::ffi::c_int;
use std::sync::OnceLock;

use librocksdb_sys as sys;
use rocksdb::Options;

use crate::hooks::abi;

/// Where [`Options`] have their pointer, in bytes; `None` if that is not certain. Then nothing may be
/// opened with them.
pub(crate) fn place_in_options() -> Option<usize> {
    static PLACE: OnceLock<Option<usize>> = OnceLock::new();
    *PLACE.get_or_init(|| {
        // Twice, because a word may have such a value by chance.
        let first = find_in_options(1_234_567)?;
        (find_in_options(7_654_321)? == first).then_some(first)
    })
}

fn find_in_options(jobs: c_int) -> Option<usize> {
    let mut options = Options::default();
    options.set_max_background_jobs(jobs);
    find_in(&options, jobs)
}

/// Where an object has its one pointer to options that allow this many background jobs.
fn find_in<T>(object: &T, jobs: c_int) -> Option<usize> {
    let size = size_of::<T>();
    // SAFETY: the object has that size and lives during the call.
    let found = unsafe { abi::lsm_sieve_find_options((&raw const *object).cast(), size, jobs) };
    (found < size).then_some(found)
}

/// The object behind the binding's options; valid while they are borrowed.
///
/// # Panics
/// If its place is not certain.
#[expect(clippy::expect_used, reason = "opening has refused this binding")]
#[doc(hidden)]
pub fn raw_options(options: &Options) -> *mut sys::rocksdb_options_t {
    let place = place_in_options().expect("the binding's options have an unknown layout");
    // SAFETY: the place is within the object.
    let pointer = unsafe { (&raw const *options).byte_add(place) };
    // SAFETY: a pointer to RocksDB's options is there in all objects of this type.
    unsafe { pointer.cast::<*mut sys::rocksdb_options_t>().read() }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An object of another layout, as of another version of `rocksdb`.
    #[test]
    fn pointer_that_is_not_the_only_one_is_not_taken() {
        let options = |jobs| {
            let mut options = Options::default();
            options.set_max_background_jobs(jobs);
            options
        };
        let (one, same, other) = (options(1_001), options(1_001), options(1_002));
        let [one, same, other] = [&one, &same, &other].map(|of| raw_options(of) as usize);
        assert_eq!(
            find_in(&[0, 40, one, other], 1_001),
            Some(2 * size_of::<usize>())
        );
        assert_eq!(find_in(&[usize::MAX - 7, other, 0x1000], 1_001), None);
        assert_eq!(find_in(&[one, 0, same], 1_001), None);
    }

    /// With an object for each that options keep alive.
    #[test]
    fn the_options_of_an_object_are_those_that_it_sets() {
        let mut options = Options::default();
        let cache = rocksdb::Cache::new_lru_cache(1 << 20);
        options.set_row_cache(&cache);
        options.set_blob_cache(&cache);
        options.set_env(&rocksdb::Env::new().unwrap());
        for levels in [3, 5] {
            options.set_num_levels(levels);
            let raw = raw_options(&options.clone());
            let other = raw_options(&options);
            assert_ne!(raw, other);
            // SAFETY: the options are live, and only read.
            let set = unsafe { sys::rocksdb_options_get_num_levels(other) };
            assert_eq!(set, levels);
        }
    }
}
