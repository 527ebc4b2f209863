//! Finds the column family that a [`CfFilter`] belongs to, among those that the engine has now.

use std::sync::Arc;

use rocksdb::BoundColumnFamily;

use super::Engine;
use super::cf_filter::CfFilter;
use super::ffi;

/// The column family of these filters; `None` if it was dropped, even if another has its name now.
pub(crate) fn cf<'e>(
    cf_filter: &CfFilter,
    engine: &'e Engine,
) -> Option<Arc<BoundColumnFamily<'e>>> {
    let named = engine.cf_handle(cf_filter.name())?;
    cf_filter.is_front_of(ffi::cf_id(&named)).then_some(named)
}
