//! A call from C: its arguments, its answer, its error text.

use std::any::Any;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::fmt::Display;
use std::os::unix::ffi::OsStrExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use lsm_sieve_support::fault::fault;

/// What `act` returns, or `fallback` and an error text at `errptr`.
pub(crate) fn answer<R>(
    errptr: *mut *mut c_char,
    fallback: R,
    act: impl FnOnce() -> Result<R, String>,
) -> R {
    let act = || {
        fault!(CallPanics, panic!("a fault was injected"));
        act()
    };
    let done = catch_unwind(AssertUnwindSafe(act));
    match done.unwrap_or_else(|panic| Err(text_of(&*panic))) {
        Ok(answer) => answer,
        Err(text) => {
            // SAFETY: by the contract of all functions with an `errptr`.
            unsafe { save(errptr, text) };
            fallback
        }
    }
}

/// [`answer`] of a function that has no `errptr`.
pub(crate) fn reply<R>(fallback: R, act: impl FnOnce() -> Result<R, String>) -> R {
    answer(std::ptr::null_mut(), fallback, act)
}

fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    format!("lsm-sieve panicked: {}", text.unwrap_or("no text"))
}

/// Sets `*errptr` as RocksDB does: frees the older text. The caller frees the new one with
/// `rocksdb_free`.
///
/// # Safety
/// `errptr` is null, or points to null or to such a text.
unsafe fn save(errptr: *mut *mut c_char, text: String) {
    // SAFETY: promised by the caller.
    let Some(place) = (unsafe { errptr.as_mut() }) else {
        return;
    };
    let text = CString::new(text.replace('\0', "\u{fffd}")).unwrap_or_default();
    // SAFETY: null or a text that `malloc` allocated, as promised.
    unsafe { libc::free(place.cast()) };
    // SAFETY: the text ends with 0.
    *place = unsafe { libc::strdup(text.as_ptr()) };
}

/// Takes over the error text of a function in RocksDB's manner.
///
/// # Safety
/// Null, or a text that `malloc` allocated and that nobody else frees.
pub(crate) unsafe fn take_text(text: *mut c_char) -> String {
    if text.is_null() {
        return "an error without a text".to_owned();
    }
    // SAFETY: promised by the caller.
    let owned = unsafe { CStr::from_ptr(text) }
        .to_string_lossy()
        .into_owned();
    // SAFETY: as above; it is used no more.
    unsafe { libc::free(text.cast()) };
    owned
}

/// # Safety
/// Null, or a C string that lives as long as it is used.
pub(crate) unsafe fn text<'c>(raw: *const c_char, what: &str) -> Result<&'c str, String> {
    // SAFETY: promised by the caller.
    let text = unsafe { c_string(raw, what) }?.to_str();
    text.map_err(|_| invalid(format_args!("the {what} is not UTF-8")))
}

/// # Safety
/// As [`text`].
pub(crate) unsafe fn path<'c>(raw: *const c_char, what: &str) -> Result<&'c Path, String> {
    // SAFETY: promised by the caller.
    let text = unsafe { c_string(raw, what) }?;
    Ok(Path::new(OsStr::from_bytes(text.to_bytes())))
}

/// # Safety
/// As [`text`].
unsafe fn c_string<'c>(raw: *const c_char, what: &str) -> Result<&'c CStr, String> {
    if raw.is_null() {
        return Err(is_null(what));
    }
    // SAFETY: promised by the caller.
    Ok(unsafe { CStr::from_ptr(raw) })
}

/// # Safety
/// Null, or an array of this length that lives as long as it is used.
pub(crate) unsafe fn array<'c, T>(
    start: *const T,
    length: c_int,
    what: &str,
) -> Result<&'c [T], String> {
    let length = usize::try_from(length);
    match length.map_err(|_| invalid(format_args!("the {what} has a negative length")))? {
        0 => Ok(&[]),
        _ if start.is_null() => Err(is_null(what)),
        // SAFETY: promised by the caller.
        length => Ok(unsafe { std::slice::from_raw_parts(start, length) }),
    }
}

pub(crate) fn invalid(error: impl Display) -> String {
    format!("Invalid argument: {error}")
}

pub(crate) fn is_null(what: &str) -> String {
    invalid(format_args!("the {what} is NULL"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(act: impl FnOnce() -> Result<u8, String>) -> (u8, Option<String>) {
        let mut text = std::ptr::null_mut();
        let answer = answer(&raw mut text, 7, act);
        // SAFETY: `answer` allocated it.
        let text = (!text.is_null()).then(|| unsafe { take_text(text) });
        (answer, text)
    }

    #[test]
    fn a_panic_becomes_an_error_text() {
        assert_eq!(said(|| Ok(1)), (1, None));
        let (answer, text) = said(|| panic!("of {}", "one kind"));
        assert_eq!(answer, 7);
        assert_eq!(text.unwrap(), "lsm-sieve panicked: of one kind");
        let (_, text) = said(|| panic!("plain"));
        assert_eq!(text.unwrap(), "lsm-sieve panicked: plain");
        assert_eq!(reply(7, || panic!("without a place for its text")), 7);
    }

    #[test]
    fn an_older_text_is_freed_and_a_zero_does_not_cut_a_text() {
        // SAFETY: a string that ends with 0.
        let mut text = unsafe { libc::strdup(c"older".as_ptr()) };
        answer(&raw mut text, (), || Err("new\0er".to_owned()));
        // SAFETY: `answer` allocated it.
        assert_eq!(unsafe { take_text(text) }, "new\u{fffd}er");
    }
}
