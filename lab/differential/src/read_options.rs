//! The options with which a store reads its files.

use rocksdb::ReadOptions;

/// Read options for the store's own files, and for a main file that may be in another database.
#[derive(Clone, Copy)]
pub(super) struct StoreReadOptions<'a> {
    pub(super) own: &'a ReadOptions,
    pub(super) main: &'a ReadOptions,
}

impl<'a> StoreReadOptions<'a> {
    pub(super) fn of_now(options: &'a ReadOptions) -> Self {
        Self {
            own: options,
            main: options,
        }
    }
}
