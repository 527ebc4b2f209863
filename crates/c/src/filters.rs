//! The filters of an open database.

use std::ffi::c_char;
use std::ops::ControlFlow;
use std::ptr;
use std::time::Duration;

use librocksdb_sys::rocksdb_t;
use lsm_sieve::{FilterSize, Health, Sieve, Stats, VerifyReport};

use crate::call::{answer, invalid, is_null, reply};

/// The filters of an open database: valid until the database is closed.
pub struct lsm_sieve_t {
    _opaque: (),
}

/// What the filters did for the lookups since the open.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lsm_sieve_stats_t {
    /// Lookups that the filters answered absent: reads of the engine that were avoided.
    pub absent: u64,
    /// Lookups that read the engine and found their key.
    pub found: u64,
    /// Of these, lookups that did not check the filters, because hits were expected.
    pub found_unchecked: u64,
    /// Lookups that read the engine and found nothing, although the filters knew all keys.
    pub false_positives: u64,
    /// Lookups that read the engine and found nothing, while the filters did not know all keys.
    pub uncovered: u64,
    /// Lookups of absent keys that did not check the filters, because hits were expected.
    pub not_consulted: u64,
    /// Absent answers, also counted in `absent`, that were verified in the engine.
    pub audited: u64,
    /// Verified answers that were wrong; from the first on, the filters are not checked any more.
    pub false_negatives: u64,
    /// Questions for a prefix, of iterators, that the filters answered absent: seeks that were
    /// avoided. Questions for prefixes are not among the lookups.
    pub prefixes_absent: u64,
}

/// The state of the filters of all column families.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lsm_sieve_health_t {
    /// Keys of the summary filters.
    pub keys: u64,
    /// Memory of the summary filters, in bytes.
    pub summary_bytes: u64,
    /// Memory of the segment filters, in bytes.
    pub segment_bytes: u64,
    /// Memory beside the filters, in bytes.
    pub overhead_bytes: u64,
    /// The memory budget in bytes; UINT64_MAX if there is none.
    pub budget_bytes: u64,
    /// SSTs that are known.
    pub segments: u64,
    /// SSTs whose keys the summary filters do not all have yet; UINT64_MAX if that is not known.
    pub uncovered: u64,
    /// The highest false-positive rate among the summary filters, computed from their keys.
    pub predicted_rate: f64,
    /// 1 if an audit found a key that a filter had denied: no key is answered absent any more.
    pub distrusted: u8,
}

/// What a verification checked and found.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct lsm_sieve_verification_t {
    /// Files of filters of SSTs that were read and checked.
    pub sidecars_checked: u64,
    /// Files of summary filters that were read and checked.
    pub summaries_checked: u64,
    /// Files that cannot be used.
    pub damaged: u64,
    /// SSTs without such a file yet.
    pub missing: u64,
    /// Entries of SSTs that were checked against the filters; 0 unless `full`.
    pub entries_checked: u64,
    /// Keys that exist but that a filter denies.
    pub lost: u64,
}

/// The filters behind the handle of an open database; NULL if it was opened without. No function
/// frees them.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_of(db: *mut rocksdb_t) -> *mut lsm_sieve_t {
    if db.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: by contract the database is open, and is not closed while its filters are used.
    let sieve = unsafe { Sieve::of(db) };
    sieve.map_or(ptr::null_mut(), |sieve| {
        (&raw const *sieve).cast_mut().cast()
    })
}

/// The filters that the caller got from `lsm_sieve_of`.
unsafe fn sieve<'db>(filters: *mut lsm_sieve_t) -> Result<&'db Sieve, String> {
    // SAFETY: by contract it is null or from `lsm_sieve_of`, and its database is open.
    let sieve = unsafe { filters.cast::<Sieve>().as_ref() };
    sieve.ok_or_else(|| is_null("filters object"))
}

/// The counters of all column families. All are 0 if `filters` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_stats(filters: *mut lsm_sieve_t) -> lsm_sieve_stats_t {
    reply(lsm_sieve_stats_t::default(), || {
        // SAFETY: by contract.
        Ok(unsafe { sieve(filters) }?.stats().into())
    })
}

impl From<Stats> for lsm_sieve_stats_t {
    fn from(stats: Stats) -> Self {
        Self {
            absent: stats.absent,
            found: stats.found,
            found_unchecked: stats.found_unchecked,
            false_positives: stats.false_positives,
            uncovered: stats.uncovered,
            not_consulted: stats.not_consulted,
            audited: stats.audited,
            false_negatives: stats.false_negatives,
            prefixes_absent: stats.prefixes_absent,
        }
    }
}

/// The state of all filters. It reads no filter and no SST, so it may be called every second. All is
/// 0 if `filters` is NULL.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_health(filters: *mut lsm_sieve_t) -> lsm_sieve_health_t {
    reply(lsm_sieve_health_t::default(), || {
        // SAFETY: by contract.
        Ok((&unsafe { sieve(filters) }?.health()).into())
    })
}

impl From<&Health> for lsm_sieve_health_t {
    fn from(health: &Health) -> Self {
        let uncovered = health.cfs.iter().map(|cf| cf.uncovered);
        let uncovered: Option<usize> = uncovered.sum();
        let rates = health.cfs.iter().map(|cf| cf.predicted_rate);
        Self {
            keys: health.cfs.iter().map(|cf| cf.keys.get()).sum(),
            summary_bytes: health.memory.summary.to_bytes(),
            segment_bytes: health.memory.segments.to_bytes(),
            overhead_bytes: health.memory.overhead.to_bytes(),
            budget_bytes: health.budget_bytes.unwrap_or(u64::MAX),
            segments: health.known_segments as u64,
            uncovered: uncovered.map_or(u64::MAX, |uncovered| uncovered as u64),
            predicted_rate: rates.fold(0.0, f64::max),
            distrusted: health.false_negatives.into(),
        }
    }
}

/// Waits at most this long until the filters of all SSTs are loaded or built; returns 1 if they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_wait_for_maintenance(
    filters: *mut lsm_sieve_t,
    limit_ms: u64,
) -> u8 {
    reply(0, || {
        // SAFETY: by contract.
        let sieve = unsafe { sieve(filters) }?;
        let limit = Duration::from_millis(limit_ms);
        Ok(u8::from(sieve.wait_for_maintenance(limit)))
    })
}

/// Waits at most this long until the summary filters have the keys of all SSTs; returns 1 if they
/// have. From then on absent keys are answered without the engine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_wait_until_complete(
    filters: *mut lsm_sieve_t,
    limit_ms: u64,
) -> u8 {
    reply(0, || {
        // SAFETY: by contract.
        let sieve = unsafe { sieve(filters) }?;
        let limit = Duration::from_millis(limit_ms);
        Ok(u8::from(sieve.wait_until_complete(limit)))
    })
}

/// Rebuilds each summary filter at the right size. Blocks until done; reads and writes go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_consolidate(
    filters: *mut lsm_sieve_t,
    errptr: *mut *mut c_char,
) {
    answer(errptr, (), || {
        // SAFETY: by contract.
        let consolidated = unsafe { sieve(filters) }?.consolidate();
        consolidated.map_err(|error| error.to_string())
    });
}

/// Changes the false-positive rate of all filters, which lies between 0 and 1. They are rebuilt in
/// the background; `lsm_sieve_consolidate` waits for that.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_set_false_positive_rate(
    filters: *mut lsm_sieve_t,
    rate: f64,
    errptr: *mut *mut c_char,
) {
    answer(errptr, (), || {
        let size = FilterSize::rate(rate).map_err(invalid)?;
        // SAFETY: by contract.
        unsafe { sieve(filters) }?.set_filter_size(size);
        Ok(())
    });
}

/// Changes the memory budget; UINT64_MAX removes it. What exceeds a smaller one is dropped at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_set_memory_budget(
    filters: *mut lsm_sieve_t,
    bytes: u64,
    errptr: *mut *mut c_char,
) {
    answer(errptr, (), || {
        let budget = (bytes != u64::MAX).then_some(bytes);
        // SAFETY: by contract.
        unsafe { sieve(filters) }?.set_memory_budget(budget);
        Ok(())
    });
}

/// Checks the files of all filters. With `full` it also checks the filters for every key of every
/// SST. If something is damaged or lost, the counts say how much and `errptr` what; damaged files
/// are rebuilt at the next open.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn lsm_sieve_verify(
    filters: *mut lsm_sieve_t,
    full: u8,
    errptr: *mut *mut c_char,
) -> lsm_sieve_verification_t {
    let mut counts = lsm_sieve_verification_t::default();
    answer(errptr, (), || {
        // SAFETY: by contract.
        let sieve = unsafe { sieve(filters) }?;
        let go_on = |_| ControlFlow::Continue(());
        let report = sieve.verify_while(full != 0, go_on);
        let report = report.map_err(|error| error.to_string())?;
        counts = (&report).into();
        let lost = report.lost.iter().map(ToString::to_string);
        let first = lost.chain(report.damaged.iter().cloned()).next();
        first.map_or(Ok(()), |first| Err(format!("Corruption: {first}")))
    });
    counts
}

impl From<&VerifyReport> for lsm_sieve_verification_t {
    fn from(report: &VerifyReport) -> Self {
        Self {
            sidecars_checked: report.sidecars_checked,
            summaries_checked: report.summaries_checked,
            damaged: report.damaged.len() as u64,
            missing: report.missing.len() as u64,
            entries_checked: report.entries_checked,
            lost: report.lost.len() as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use lsm_sieve::rocksdb::Options;
    use lsm_sieve::{Bits, Items, SieveDb};

    use super::*;

    /// Fields used to be compared with zero, or with each other: two that are swapped went
    /// unnoticed. Here each has a value of its own.
    #[test]
    fn each_field_has_the_figure_of_its_name() {
        let mut stats = Stats::default();
        stats.absent = 101;
        stats.found = 102;
        stats.found_unchecked = 103;
        stats.false_positives = 104;
        stats.uncovered = 105;
        stats.not_consulted = 106;
        stats.audited = 107;
        stats.false_negatives = 108;
        stats.prefixes_absent = 109;
        stats.prefixes_found = 110;
        stats.prefix_false_positives = 111;
        let lsm_sieve_stats_t {
            absent,
            found,
            found_unchecked,
            false_positives,
            uncovered,
            not_consulted,
            audited,
            false_negatives,
            prefixes_absent,
        } = stats.into();
        assert_eq!(
            [absent, found, found_unchecked, false_positives, uncovered],
            [101, 102, 103, 104, 105]
        );
        assert_eq!(
            [not_consulted, audited, false_negatives, prefixes_absent],
            [106, 107, 108, 109]
        );
    }

    #[test]
    fn each_health_figure_is_that_of_all_column_families() {
        let home = tempfile::tempdir().unwrap();
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        let builder = SieveDb::builder(home.path()).options(&options);
        let db = builder.cfs(["users"]).open().unwrap();
        let mut health = db.filters().health();
        health.memory.summary = Bits::from_bytes(201);
        health.memory.segments = Bits::from_bytes(202);
        health.memory.overhead = Bits::from_bytes(203);
        health.budget_bytes = Some(204);
        health.known_segments = 205;
        let [one, other] = &mut health.cfs[..] else {
            panic!("two column families");
        };
        (one.keys, other.keys) = (Items::new(100), Items::new(106));
        (one.uncovered, other.uncovered) = (Some(200), Some(7));
        (one.predicted_rate, other.predicted_rate) = (0.25, 0.125);
        let counts = lsm_sieve_health_t::from(&health);
        let lsm_sieve_health_t {
            keys,
            summary_bytes,
            segment_bytes,
            overhead_bytes,
            budget_bytes,
            segments,
            uncovered,
            predicted_rate,
            distrusted,
        } = counts;
        assert_eq!(
            [summary_bytes, segment_bytes, overhead_bytes, budget_bytes],
            [201, 202, 203, 204]
        );
        assert_eq!([segments, keys, uncovered], [205, 206, 207]);
        assert_eq!((predicted_rate, distrusted), (0.25, 0));

        health.false_negatives = true;
        health.cfs[0].uncovered = None;
        health.cfs.reverse();
        health.budget_bytes = None;
        let counts = lsm_sieve_health_t::from(&health);
        assert_eq!((counts.predicted_rate, counts.distrusted), (0.25, 1));
        assert_eq!([counts.uncovered, counts.budget_bytes], [u64::MAX; 2]);
    }

    #[test]
    fn each_count_of_a_verification_is_that_of_its_name() {
        let mut report = VerifyReport::default();
        report.sidecars_checked = 301;
        report.summaries_checked = 302;
        report.entries_checked = 303;
        report.damaged = vec![String::new(); 4];
        report.missing = vec![String::new(); 5];
        let counts = lsm_sieve_verification_t::from(&report);
        assert_eq!(
            [counts.sidecars_checked, counts.summaries_checked],
            [301, 302]
        );
        assert_eq!([counts.entries_checked, counts.lost], [303, 0]);
        assert_eq!([counts.damaged, counts.missing], [4, 5]);
    }
}
