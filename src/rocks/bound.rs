//! The family that a front is bound to, among those that the engine has now.

use std::sync::Arc;

use rocksdb::BoundColumnFamily;

use super::Engine;
use super::column::Column;
use super::ffi;

/// The family of a front; `None` when it was dropped, though another may have taken its name since.
pub(crate) fn family<'e>(
    column: &Column,
    engine: &'e Engine,
) -> Option<Arc<BoundColumnFamily<'e>>> {
    let named = engine.cf_handle(column.name())?;
    column.is_front_of(ffi::column_id(&named)).then_some(named)
}
