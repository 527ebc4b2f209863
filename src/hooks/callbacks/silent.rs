//! Sets of hooks of which one does not report, or reports something else, as after a change in
//! RocksDB.

use std::cell::RefCell;
use std::ptr;

use crate::hooks::abi::{CfFilter, Hooks, Insertion, PrefixId, Segment, SegmentFilterBuild};
use crate::hooks::abi::{Slice, TableOrigin};
use crate::hooks::callbacks::HOOKS;

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
            insertion_end,
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

extern "C" fn memtable_created(_: *mut CfFilter, _: u32) {}

extern "C" fn insertion_end(_: *mut CfFilter, _: Insertion, _: Slice) {}

extern "C" fn table_begin(_: *mut CfFilter, _: TableOrigin, _: bool) -> *mut SegmentFilterBuild {
    ptr::null_mut()
}

extern "C" fn table_add(_: *mut SegmentFilterBuild, _: Slice) {}

/// Adds the key that the self-check reads.
extern "C" fn table_add_one(table: *mut SegmentFilterBuild, _: Slice) {
    (HOOKS.table_add)(table, Slice::of(b"put"));
}

extern "C" fn table_id(_: *mut SegmentFilterBuild, id: *mut u8) -> bool {
    // SAFETY: the shim passes 16 writable bytes.
    unsafe { id.write_bytes(0, 16) };
    true
}

extern "C" fn segment_open(
    _: *mut CfFilter,
    _: *const u8,
    _: Slice,
    _: u32,
    _: *mut *mut PrefixId,
) -> *mut Segment {
    ptr::null_mut()
}

extern "C" fn segment_may_contain(_: *mut Segment, _: *mut PrefixId, _: Slice) -> bool {
    false
}

type OnKey = Box<dyn Fn(&[u8])>;

thread_local! {
    static BEFORE_KEY: RefCell<Option<OnKey>> = const { RefCell::new(None) };
}

/// The hooks, of which the first for a key of a memtable calls what this thread has set.
pub(crate) static WATCHED: Hooks = Hooks {
    insertion_begin,
    ..HOOKS
};

/// Lets `act` happen before a memtable takes a key of this thread, by [`WATCHED`].
pub(crate) fn before_each_key(act: impl Fn(&[u8]) + 'static) {
    BEFORE_KEY.set(Some(Box::new(act)));
}

extern "C" fn insertion_begin(cf_filter: *mut CfFilter, key: Slice) -> Insertion {
    BEFORE_KEY.with_borrow(|act| {
        if let Some(act) = act {
            // SAFETY: the memtable entry outlives this call.
            act(unsafe { key.bytes() });
        }
    });
    (HOOKS.insertion_begin)(cf_filter, key)
}
