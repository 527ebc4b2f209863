//! The settings of the filters.

use std::ffi::c_char;
use std::time::Duration;

use lsm_sieve::rocksdb::DEFAULT_COLUMN_FAMILY_NAME;
use lsm_sieve::{FilterSize, Items, SieveOptions};
use lsm_sieve_support::fault::fault;

use crate::call::{answer, invalid, is_null, path, reply, text};

/// The settings of the filters, for an open; each has a default. One thread at a time may use them.
pub struct lsm_sieve_options_t(pub(crate) SieveOptions);

/// One percent false positives, no memory budget. Free them with `lsm_sieve_options_destroy`, also
/// right after an open.
#[unsafe(no_mangle)]
pub extern "C" fn lsm_sieve_options_create() -> *mut lsm_sieve_options_t {
    Box::into_raw(Box::new(lsm_sieve_options_t(SieveOptions::default())))
}

/// Nothing happens if `settings` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_destroy(settings: *mut lsm_sieve_options_t) {
    if !settings.is_null() {
        // SAFETY: by contract it came out of `lsm_sieve_options_create`, and is used no more.
        drop(unsafe { Box::from_raw(settings) });
    }
}

/// Changes settings in place; what fails changes nothing.
unsafe fn set(
    settings: *mut lsm_sieve_options_t,
    change: impl FnOnce(SieveOptions) -> Result<SieveOptions, String>,
) -> Result<(), String> {
    // SAFETY: by contract it is null or from `lsm_sieve_options_create`, and ours alone.
    let settings = unsafe { settings.as_mut() }.ok_or_else(|| is_null("settings object"))?;
    settings.0 = change(settings.0.clone())?;
    Ok(())
}

/// The false-positive rate, which lies between 0 and 1. 0.01 takes 12 bits per key, and 12 more for
/// the filters of the SSTs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_false_positive_rate(
    settings: *mut lsm_sieve_options_t,
    rate: f64,
    errptr: *mut *mut c_char,
) {
    answer(errptr, (), || {
        let size = FilterSize::rate(rate).map_err(invalid)?;
        // SAFETY: by contract.
        unsafe { set(settings, |settings| Ok(settings.filter_size(size))) }
    });
}

/// The size of the filters instead of their rate: bits per key for the summary filter, and as many
/// for the filters of the SSTs.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_bits_per_key(
    settings: *mut lsm_sieve_options_t,
    bits: f64,
    errptr: *mut *mut c_char,
) {
    answer(errptr, (), || {
        let size = FilterSize::bits_per_key(bits).map_err(invalid)?;
        // SAFETY: by contract.
        unsafe { set(settings, |settings| Ok(settings.filter_size(size))) }
    });
}

/// Builds no filters of SSTs, and leaves RocksDB's own in place.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_disable_segment_filters(
    settings: *mut lsm_sieve_options_t,
) {
    // SAFETY: by contract.
    reply((), || unsafe {
        set(settings, |settings| Ok(settings.segment_filters(None)))
    });
}

/// Whether speed comes before memory: 24 bits per key instead of 12, and 5 ns less for a miss. Off
/// by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_speed_over_memory(
    settings: *mut lsm_sieve_options_t,
    speed: u8,
) {
    let speed = speed != 0;
    // SAFETY: by contract.
    reply((), || unsafe {
        set(settings, |settings| Ok(settings.speed_over_memory(speed)))
    });
}

/// How many keys each column family will hold; not known by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_expected_keys(
    settings: *mut lsm_sieve_options_t,
    keys: u64,
) {
    // SAFETY: by contract.
    reply((), || unsafe {
        set(settings, |settings| {
            Ok(settings.expected_keys(Items::new(keys)))
        })
    });
}

/// The most memory that all filters may take; unlimited by default. Over it, filters are dropped.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_memory_budget(
    settings: *mut lsm_sieve_options_t,
    bytes: u64,
) {
    // SAFETY: by contract.
    reply((), || unsafe {
        set(settings, |settings| Ok(settings.memory_budget(bytes)))
    });
}

/// The folder of the filters; by default `sieve` inside the database's own.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_folder(
    settings: *mut lsm_sieve_options_t,
    folder: *const c_char,
    errptr: *mut *mut c_char,
) {
    answer(errptr, (), || {
        // SAFETY: by contract it is null or a C string.
        let folder = unsafe { path(folder, "folder") }?;
        let mut is_named = !folder.as_os_str().is_empty();
        fault!(SetterRefusesNothing, is_named = true);
        if !is_named {
            let remedy =
                "give its path, or do not set it: then it is `sieve` inside the database's";
            return Err(invalid(format_args!("the folder has no name; {remedy}")));
        }
        // SAFETY: by contract.
        unsafe { set(settings, |settings| Ok(settings.folder(folder))) }
    });
}

/// Leaves a column family without filters. The default one cannot be left out.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_exclude_column_family(
    settings: *mut lsm_sieve_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    answer(errptr, (), || {
        // SAFETY: by contract it is null or a C string.
        let name = unsafe { text(name, "name of a column family") }?;
        // SAFETY: by contract.
        unsafe {
            set(settings, |settings| {
                without(settings, name).map_err(invalid)
            })
        }
    });
}

/// Settings that leave a column family without filters; or why they cannot.
pub(crate) fn without(settings: SieveOptions, cf: &str) -> Result<SieveOptions, String> {
    let mut is_default = cf == DEFAULT_COLUMN_FAMILY_NAME;
    fault!(SetterRefusesNothing, is_default = false);
    if is_default {
        let remedy = "while it is empty, its filters are small";
        return Err(format!(
            "the default column family cannot be left out; {remedy}"
        ));
    }
    Ok(settings.exclude_cfs([cf]))
}

/// Promises that the comparator with this name calls no two keys equal whose bytes differ. Column
/// families that use it can then have filters. If it does, lookups lose keys.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_comparator_is_injective(
    settings: *mut lsm_sieve_options_t,
    name: *const c_char,
    errptr: *mut *mut c_char,
) {
    answer(errptr, (), || {
        // SAFETY: by contract it is null or a C string.
        let name = unsafe { text(name, "name of a comparator") }?;
        // SAFETY: by contract.
        unsafe {
            set(settings, |settings| {
                Ok(settings.comparator_is_injective(name))
            })
        }
    });
}

/// Verifies one absent answer in `one_in` in the engine; 0 verifies none. By default one in 8,192,
/// and at most one percent of the time.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_audit(
    settings: *mut lsm_sieve_options_t,
    one_in: u32,
) {
    // SAFETY: by contract.
    reply((), || unsafe {
        set(settings, |settings| Ok(settings.audit(one_in)))
    });
}

/// How often the filters in memory are checked for flipped bits; 0 never. By default each hour.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_scrub_seconds(
    settings: *mut lsm_sieve_options_t,
    seconds: u64,
) {
    let mut is_on = seconds > 0;
    fault!(NeverIsAlways, is_on = true);
    let interval = is_on.then(|| Duration::from_secs(seconds));
    // SAFETY: by contract.
    reply((), || unsafe {
        set(settings, |settings| Ok(settings.scrub_every(interval)))
    });
}

/// Whether reads may skip the filters while keys are likely to be found. On by default.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_options_set_adaptive_hits(
    settings: *mut lsm_sieve_options_t,
    adaptive: u8,
) {
    let adaptive = adaptive != 0;
    // SAFETY: by contract.
    reply((), || unsafe {
        set(settings, |settings| Ok(settings.adaptive_hits(adaptive)))
    });
}

#[cfg(test)]
mod tests {
    use std::ptr::null_mut;

    use super::*;

    /// What the settings are after a setter.
    macro_rules! after {
        ($setter:ident, $($argument:expr),+) => {{
            let settings = lsm_sieve_options_create();
            // SAFETY: settings of our own; texts are C strings, or no place for one.
            unsafe { $setter(settings, $($argument),+) };
            // SAFETY: as above.
            let owned = unsafe { Box::from_raw(settings) };
            owned.0
        }};
    }

    /// An open shows few of the settings: a setter that did nothing, or the opposite, went unnoticed.
    #[test]
    fn each_setter_is_that_of_its_name() {
        use lsm_sieve_options_set_adaptive_hits as adaptive_hits;
        use lsm_sieve_options_set_audit as audit;
        use lsm_sieve_options_set_expected_keys as expected_keys;
        use lsm_sieve_options_set_memory_budget as memory_budget;
        use lsm_sieve_options_set_scrub_seconds as scrub_seconds;
        use lsm_sieve_options_set_speed_over_memory as speed_over_memory;

        let of = SieveOptions::default;
        let rate = FilterSize::rate(0.25).unwrap();
        let bits = FilterSize::bits_per_key(14.0).unwrap();
        let (folder, name) = (c"aside".as_ptr(), c"archive".as_ptr());
        let second = Duration::from_secs(1);
        for (set, expected) in [
            (
                after!(lsm_sieve_options_set_false_positive_rate, 0.25, null_mut()),
                of().filter_size(rate),
            ),
            (
                after!(lsm_sieve_options_set_bits_per_key, 14.0, null_mut()),
                of().filter_size(bits),
            ),
            (
                after!(lsm_sieve_options_set_folder, folder, null_mut()),
                of().folder("aside"),
            ),
            (
                after!(lsm_sieve_options_exclude_column_family, name, null_mut()),
                of().exclude_cfs(["archive"]),
            ),
            (after!(speed_over_memory, 2), of().speed_over_memory(true)),
            (after!(speed_over_memory, 0), of().speed_over_memory(false)),
            (
                after!(expected_keys, 1_000),
                of().expected_keys(Items::new(1_000)),
            ),
            (after!(memory_budget, 0), of().memory_budget(0)),
            (after!(memory_budget, 3), of().memory_budget(3)),
            (after!(audit, 0), of().audit(0)),
            (after!(audit, 7), of().audit(7)),
            (after!(scrub_seconds, 0), of().scrub_every(None)),
            (after!(scrub_seconds, 1), of().scrub_every(Some(second))),
            (after!(adaptive_hits, 2), of().adaptive_hits(true)),
            (after!(adaptive_hits, 0), of().adaptive_hits(false)),
        ] {
            assert_eq!(format!("{set:?}"), format!("{expected:?}"));
        }
        let settings = lsm_sieve_options_create();
        // SAFETY: settings of our own.
        unsafe { lsm_sieve_options_disable_segment_filters(settings) };
        // SAFETY: as above.
        let set = unsafe { Box::from_raw(settings) }.0;
        let expected = of().segment_filters(None);
        assert_eq!(format!("{set:?}"), format!("{expected:?}"));
    }
}
