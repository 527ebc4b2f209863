//! An iterator of RocksDB's C interface, which has read options that the binding lacks.

#![expect(unsafe_code, reason = "calls of RocksDB's C interface")]

use std::marker::PhantomData;
use std::slice;

use librocksdb_sys as sys;
use lsm_sieve::raw_handle;
use rocksdb::DB;

/// What the read options say of prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    Default,
    TotalOrder,
    AutoPrefix,
    SamePrefix,
    SamePrefixInTotalOrder,
}

impl Mode {
    pub(super) const ALL: [Self; 5] = [
        Self::Default,
        Self::TotalOrder,
        Self::AutoPrefix,
        Self::SamePrefix,
        Self::SamePrefixInTotalOrder,
    ];
}

/// The read options of an iterator.
#[derive(Clone, Debug)]
pub(super) struct How {
    pub(super) mode: Mode,
    pub(super) lower: Option<Vec<u8>>,
    pub(super) upper: Option<Vec<u8>>,
    pub(super) is_tailing: bool,
}

impl How {
    pub(super) fn unbounded(mode: Mode) -> Self {
        Self {
            mode,
            lower: None,
            upper: None,
            is_tailing: false,
        }
    }
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    Seek(Vec<u8>),
    SeekForPrev(Vec<u8>),
    First,
    Last,
    Next,
    Prev,
    Refresh,
    /// Other bounds, for an iterator that had such.
    Bounds(Option<Vec<u8>>, Option<Vec<u8>>),
}

/// What an iterator shows: a key with its value, or whether it ended without an error.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Shown {
    Row(Vec<u8>, Vec<u8>),
    End,
    Failed,
}

impl Shown {
    pub(super) fn key(&self) -> Option<&[u8]> {
        match self {
            Self::Row(key, _) => Some(key),
            Self::End | Self::Failed => None,
        }
    }
}

pub(super) struct Scan<'db> {
    iterator: *mut sys::rocksdb_iterator_t,
    options: *mut sys::rocksdb_readoptions_t,
    /// All bounds that it ever had, to which RocksDB points.
    bounds: Vec<Vec<u8>>,
    db: PhantomData<&'db DB>,
}

impl<'db> Scan<'db> {
    pub(super) fn new(db: &'db DB, how: &How) -> Self {
        use Mode::{SamePrefix, SamePrefixInTotalOrder, TotalOrder};
        // SAFETY: makes an object, which is destroyed with the scan.
        let options = unsafe { sys::rocksdb_readoptions_create() };
        let is = |modes: &[Mode]| modes.contains(&how.mode).into();
        let in_total_order = is(&[TotalOrder, SamePrefixInTotalOrder]);
        // SAFETY: the options live.
        unsafe { sys::rocksdb_readoptions_set_total_order_seek(options, in_total_order) };
        // SAFETY: the options live.
        #[cfg(not(rocksdb_10))]
        unsafe {
            sys::rocksdb_readoptions_set_auto_prefix_mode(options, is(&[Mode::AutoPrefix]))
        };
        let same_prefix = is(&[SamePrefix, SamePrefixInTotalOrder]);
        // SAFETY: the options live.
        unsafe { sys::rocksdb_readoptions_set_prefix_same_as_start(options, same_prefix) };
        // SAFETY: the options live.
        unsafe { sys::rocksdb_readoptions_set_tailing(options, how.is_tailing.into()) };
        let mut scan = Self {
            iterator: std::ptr::null_mut(),
            options,
            bounds: Vec::new(),
            db: PhantomData,
        };
        scan.set_bounds(how.lower.as_deref(), how.upper.as_deref());
        let raw = raw_handle(db).unwrap().as_ptr();
        // SAFETY: the database outlives the scan, as do the options.
        scan.iterator = unsafe { sys::rocksdb_create_iterator(raw, options) };
        scan
    }

    fn set_bounds(&mut self, lower: Option<&[u8]>, upper: Option<&[u8]>) {
        if let Some(lower) = lower {
            self.bounds.push(lower.to_vec());
            let start = self.bounds[self.bounds.len() - 1].as_ptr().cast();
            let size = lower.len();
            // SAFETY: the bound lives as long as the options.
            unsafe {
                sys::rocksdb_readoptions_set_iterate_lower_bound(self.options, start, size);
            }
        }
        if let Some(upper) = upper {
            self.bounds.push(upper.to_vec());
            let start = self.bounds[self.bounds.len() - 1].as_ptr().cast();
            let size = upper.len();
            // SAFETY: as above.
            unsafe {
                sys::rocksdb_readoptions_set_iterate_upper_bound(self.options, start, size);
            }
        }
    }

    /// RocksDB leaves open what a step from no row does; it is left out, as the binding does.
    pub(super) fn step(&mut self, step: &Step) -> Shown {
        let iterator = self.iterator;
        match step {
            Step::Seek(key) => {
                let (start, size) = (key.as_ptr().cast(), key.len());
                // SAFETY: the iterator lives, and the key has that length.
                unsafe { sys::rocksdb_iter_seek(iterator, start, size) }
            }
            Step::SeekForPrev(key) => {
                let (start, size) = (key.as_ptr().cast(), key.len());
                // SAFETY: as above.
                unsafe { sys::rocksdb_iter_seek_for_prev(iterator, start, size) }
            }
            // SAFETY: the iterator lives.
            Step::First => unsafe { sys::rocksdb_iter_seek_to_first(iterator) },
            // SAFETY: the iterator lives.
            Step::Last => unsafe { sys::rocksdb_iter_seek_to_last(iterator) },
            // SAFETY: the iterator lives, and is valid.
            Step::Next if self.is_valid() => unsafe { sys::rocksdb_iter_next(iterator) },
            // SAFETY: the iterator lives, and is valid.
            Step::Prev if self.is_valid() => unsafe { sys::rocksdb_iter_prev(iterator) },
            Step::Next | Step::Prev => {}
            Step::Refresh => {
                let mut error = std::ptr::null_mut();
                // SAFETY: the iterator lives.
                unsafe { sys::rocksdb_iter_refresh(iterator, &raw mut error) };
                assert!(error.is_null(), "a refresh failed");
            }
            Step::Bounds(lower, upper) => self.set_bounds(lower.as_deref(), upper.as_deref()),
        }
        self.shown()
    }

    fn is_valid(&self) -> bool {
        // SAFETY: the iterator lives.
        unsafe { sys::rocksdb_iter_valid(self.iterator) != 0 }
    }

    fn shown(&self) -> Shown {
        if self.is_valid() {
            return Shown::Row(
                self.bytes(sys::rocksdb_iter_key),
                self.bytes(sys::rocksdb_iter_value),
            );
        }
        let mut error = std::ptr::null_mut();
        // SAFETY: the iterator lives.
        unsafe { sys::rocksdb_iter_get_error(self.iterator, &raw mut error) };
        if error.is_null() {
            return Shown::End;
        }
        // SAFETY: the text is the caller's to free.
        unsafe { sys::rocksdb_free(error.cast()) };
        Shown::Failed
    }

    fn bytes(
        &self,
        of: unsafe extern "C" fn(
            *const sys::rocksdb_iterator_t,
            *mut usize,
        ) -> *const std::ffi::c_char,
    ) -> Vec<u8> {
        let mut size = 0;
        // SAFETY: the iterator lives, and is valid.
        let start = unsafe { of(self.iterator, &raw mut size) };
        if size == 0 {
            return Vec::new();
        }
        // SAFETY: the iterator has so many bytes there until its next step.
        unsafe { slice::from_raw_parts(start.cast(), size) }.to_vec()
    }
}

impl Drop for Scan<'_> {
    fn drop(&mut self) {
        // SAFETY: it is used no more.
        unsafe { sys::rocksdb_iter_destroy(self.iterator) };
        // SAFETY: as above.
        unsafe { sys::rocksdb_readoptions_destroy(self.options) };
    }
}
