//! Sets of hooks of which one does not report, or reports something else, as after a change in
//! RocksDB.

use std::cell::RefCell;
use std::ffi::c_void;
use std::ptr;

use super::{HOOKS, Hooks, RawInsertion, bytes};

/// For each event: its name, hooks of which one does not report it, and what the self-check then
/// finds missing.
pub(crate) static SILENT: [(&str, Hooks, &str); 8] = [
    (
        "a memtable that is made",
        Hooks {
            memtable_created,
            ..HOOKS
        },
        "the memtable capture",
    ),
    (
        "a key of a memtable",
        Hooks {
            memtable_insert,
            ..HOOKS
        },
        "the memtable capture",
    ),
    (
        "a table that is begun",
        Hooks {
            table_begin,
            ..HOOKS
        },
        "the table capture",
    ),
    (
        "a key of a table",
        Hooks { table_add, ..HOOKS },
        "the table capture",
    ),
    (
        "all keys of a table but one",
        Hooks {
            table_add: table_add_one,
            ..HOOKS
        },
        "the table capture",
    ),
    (
        "the name of a table",
        Hooks { table_id, ..HOOKS },
        "the filter policy",
    ),
    (
        "a table that is opened",
        Hooks {
            segment_open,
            ..HOOKS
        },
        "the filter policy",
    ),
    (
        "a key that is looked for",
        Hooks {
            segment_may_contain,
            ..HOOKS
        },
        "reading through hooks",
    ),
];

extern "C" fn memtable_created(_: *mut c_void, _: u32) {}

extern "C" fn memtable_insert(_: *mut c_void, _: RawInsertion, _: *const u8, _: usize) {}

extern "C" fn table_begin(_: *mut c_void, _: u8, _: bool) -> *mut c_void {
    ptr::null_mut()
}

extern "C" fn table_add(_: *mut c_void, _: *const u8, _: usize) {}

/// Adds the key that the self-check reads.
extern "C" fn table_add_one(table: *mut c_void, _: *const u8, _: usize) {
    let key = b"put";
    super::table_add(table, key.as_ptr(), key.len());
}

extern "C" fn table_id(_: *mut c_void, id: *mut [u8; 16]) {
    // SAFETY: the shim passes 16 writable bytes.
    unsafe { id.write([0; 16]) };
}

extern "C" fn segment_open(
    _: *mut c_void,
    _: *const [u8; 16],
    _: *const u8,
    _: usize,
    _: u32,
    _: *mut *mut c_void,
) -> *mut c_void {
    ptr::null_mut()
}

extern "C" fn segment_may_contain(_: *mut c_void, _: *mut c_void, _: *const u8, _: usize) -> bool {
    false
}

type OnKey = Box<dyn Fn(&[u8])>;

thread_local! {
    static BEFORE_KEY: RefCell<Option<OnKey>> = const { RefCell::new(None) };
}

/// The hooks, of which the first for a key of a memtable calls what this thread has set.
pub(crate) static WATCHED: Hooks = Hooks {
    memtable_prepare,
    ..HOOKS
};

/// Lets `act` happen before a memtable takes a key of this thread, by [`WATCHED`].
pub(crate) fn before_each_key(act: impl Fn(&[u8]) + 'static) {
    BEFORE_KEY.set(Some(Box::new(act)));
}

extern "C" fn memtable_prepare(
    cf_filter: *mut c_void,
    key: *const u8,
    size: usize,
) -> RawInsertion {
    BEFORE_KEY.with_borrow(|act| {
        if let Some(act) = act {
            // SAFETY: the memtable entry outlives this call.
            act(unsafe { bytes(key, size) });
        }
    });
    (HOOKS.memtable_prepare)(cf_filter, key, size)
}
